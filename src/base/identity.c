/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kinds of build IDs: GNU's bytes, Go's text, OpenTelemetry's hash of a file.
 */
#include <stddef.h>
#include "base/base.h"
#include "base/hash.h"

/* Go's linker writes two or four hashes of 20 characters, with a slash between them. */
#define GO_MIN 32u

static const char *const build_id_kind_names[BUILD_ID_N_KINDS] = {
	[BUILD_ID_GNU] = "gnu",
	[BUILD_ID_GO] = "go",
	[BUILD_ID_HASH] = "htlhash",
};

const char *build_id_kind_name(enum build_id_kind kind)
{
	return build_id_kind_names[kind];
}

/* The hashes are in base64 for URLs. */
static bool is_go_text(struct str s)
{
	bool slash = false;

	for (size_t i = 0; i < s.size; i++) {
		char c = s.p[i];

		slash |= c == '/';
		if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
		    c != '-' && c != '_' && c != '/')
			return false;
	}
	return slash && s.size >= GO_MIN && s.size <= BUILD_ID_MAX;
}

enum build_id_kind build_id_kind_of(const struct build_id *id)
{
	return is_go_text((struct str){ (const char *)id->b, id->size }) ? BUILD_ID_GO : BUILD_ID_GNU;
}

bool build_id_may_be_alias(const struct build_id *id)
{
	return id->size == BUILD_ID_HASH_SIZE || build_id_kind_of(id) == BUILD_ID_GO;
}

bool build_id_set_go(struct build_id *id, struct str text)
{
	id->size = 0;
	return is_go_text(text) && build_id_set(id, bytes_of(text.p, text.size));
}

bool build_id_read(struct build_id *id, struct str text)
{
	uint8_t b[BUILD_ID_MAX];
	size_t size;

	if (hex_decode(text, true, b, sizeof(b), &size))
		return build_id_set(id, bytes_of(b, size));
	return build_id_set_go(id, text);
}
