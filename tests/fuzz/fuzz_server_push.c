/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inputs of uploads: the first byte says whether the rest is a want list, a Content-Range, scopes of a
 * token, a key, or the first bytes of a file.
 */
#include "fuzz.h"

#include "server/push/push.h"

static int count(void *arg, const struct push_request *pr, enum store_quality quality)
{
	FUZZ_CHECK(pr->key.id.size > 0 && pr->key.id.size <= BUILD_ID_MAX &&
		   (unsigned)pr->key.kind < STORE_N_KINDS);
	FUZZ_CHECK((unsigned)quality < STORE_N_QUALITIES && pr->has_sha256 && pr->total <= INT64_MAX);
	++*(unsigned *)arg;
	return 0;
}

static void range(struct str s)
{
	uint64_t off, size, total;

	if (push_range_parse(s, &off, &size, &total))
		FUZZ_CHECK(size > 0 && off < total && size <= total - off);
}

static void checked(struct bytes b)
{
	struct push_request pr = { .key.kind = b.size % 2 ? STORE_SOURCES : STORE_DEBUGINFO };
	struct source *src = source_of_mem(b, "fuzz");
	struct err err = { 0 };

	pr.key.id.size = 1;
	if (push_check_head(&pr, b, &err) < 0 || push_check(&pr, src, &err) < 0)
		FUZZ_CHECK(err.kind && err.text[0]);
	source_close(src);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str text;
	struct store_key key;
	struct err err = { 0 };
	unsigned n = 0;

	if (!size)
		return 0;
	text = (struct str){ (const char *)data + 1, size - 1 };
	switch (data[0]) {
	case 'w':
		if (want_parse(bytes_of(data + 1, size - 1), count, &n, &err) < 0)
			FUZZ_CHECK(err.kind && err.text[0]);
		FUZZ_CHECK(n <= PUSH_WANT_ENTRIES);
		break;
	case 'r':
		range(text);
		break;
	case 's':
		if (token_scopes_parse(text, &n))
			FUZZ_CHECK(n > 0 && n < 8);
		(void)token_name_ok(text);
		break;
	case 'k':
		(void)store_key_parse(text, &key);
		break;
	default:
		checked(bytes_of(data + 1, size - 1));
	}
	return 0;
}
