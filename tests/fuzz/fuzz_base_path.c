/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text from requests and packages: path_canonical() against its promises (no dot segments, no empty segments,
 * a canonical path stays as it is), and the parsers of numbers and hexadecimal, whose results must print as
 * the input.
 */
#include "fuzz.h"

#include <inttypes.h>
#include "base/base.h"

static void check_path(struct str s)
{
	char *out = mem_alloc(s.size + 2), *again = mem_alloc(s.size + 2);
	size_t n = path_canonical(s, out);
	struct str rest = { out, n };

	FUZZ_CHECK(n <= s.size && out[n] == '\0');
	FUZZ_CHECK((s.size && s.p[0] == '/') == (n && out[0] == '/'));
	FUZZ_CHECK(path_canonical((struct str){ out, n }, again) == n);
	FUZZ_CHECK(memcmp(again, out, n + 1) == 0);
	if (n && out[0] == '/')
		str_cut(&rest, '/');
	while (rest.size) {
		struct str segment = str_cut(&rest, '/');

		FUZZ_CHECK(segment.size && !str_eq(segment, STR(".")) && !str_eq(segment, STR("..")));
	}
	FUZZ_CHECK(path_basename(s).size + path_dirname(s).size <= s.size);
	free(out);
	free(again);
}

static void check_number(struct str s)
{
	char text[32];
	uint64_t v;

	if (!str_to_u64(s, &v))
		return;
	while (s.size > 1 && s.p[0] == '0') {
		s.p++;
		s.size--;
	}
	snprintf(text, sizeof(text), "%" PRIu64, v);
	FUZZ_CHECK(str_eq(s, str_of(text)));
}

static void check_hex(struct str s)
{
	size_t room = s.size / 2 + 1, n;
	uint8_t *b = mem_alloc(room);
	struct build_id id;

	if (hex_decode(s, false, b, room, &n)) {
		char *text = mem_alloc(2 * n + 1);

		FUZZ_CHECK(str_eq(s, str_of(hex_encode(bytes_of(b, n), text))));
		FUZZ_CHECK(build_id_parse(&id, s) == (n > 0 && n <= BUILD_ID_MAX));
		free(text);
	} else {
		FUZZ_CHECK(!build_id_parse(&id, s));
	}
	free(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str s = { (const char *)data, size };

	check_path(s);
	check_number(s);
	check_hex(s);
	return 0;
}
