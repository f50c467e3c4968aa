/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kinds and keys, as texts and as names of blobs.
 *
 * A path or a section's name may be long and have any bytes: the name of its record contains its SHA-256, and
 * the record itself contains all of it.
 */
#include "store/internal.h"

#include <stdio.h>

#include "elf/elf.h"

static const char *const kind_names[STORE_N_KINDS] = {
	[STORE_DEBUGINFO] = "debuginfo", [STORE_EXECUTABLE] = "executable", [STORE_SOURCES] = "sources",
	[STORE_SOURCE] = "source",       [STORE_SECTION] = "section",       [STORE_SYMTAB] = "symtab",
};
static const char *const origin_names[STORE_N_ORIGINS] = {
	[STORE_MADE] = "made",
	[STORE_FETCHED] = "fetched",
	[STORE_PUSHED] = "pushed",
};
static const char *const quality_names[STORE_N_QUALITIES] = {
	[STORE_DYNSYM] = "dynsym",
	[STORE_STRIPPED] = "stripped",
	[STORE_SYMBOLS] = "symtab",
	[STORE_DWARF] = "dwarf",
};

const char *store_kind_name(enum store_kind kind)
{
	return kind_names[kind];
}

const char *store_origin_name(enum store_origin origin)
{
	return origin_names[origin];
}

const char *store_quality_name(enum store_quality quality)
{
	return quality_names[quality];
}

bool store_kind_parse(struct str name, enum store_kind *ret)
{
	for (unsigned i = 0; i < STORE_N_KINDS; i++) {
		if (str_eq(name, str_of(kind_names[i]))) {
			*ret = (enum store_kind)i;
			return true;
		}
	}
	return false;
}

enum store_quality store_quality_of(uint32_t elf_flags)
{
	if (elf_flags & ELF_HAS_DWARF)
		return STORE_DWARF;
	return elf_flags & ELF_HAS_SYMTAB ? STORE_SYMBOLS : STORE_STRIPPED;
}

struct str store_key_text(const struct store_key *key, struct arena *a)
{
	char id[BUILD_ID_HEX_SIZE];
	const char *slash = key->arg.size && key->arg.p[0] != '/' ? "/" : "";

	return str_of(arena_printf(a, "%s/%s%s" STR_FMT, build_id_hex(&key->id, id), kind_names[key->kind],
				   slash, STR_ARG(key->arg)));
}

bool store_key_parse(struct str s, struct store_key *ret)
{
	struct str id = str_cut(&s, '/');
	struct store_key key = { 0 };
	struct str kind;

	if (!s.p || !build_id_parse(&key.id, id))
		return false;
	kind = str_cut(&s, '/');
	if (!store_kind_parse(kind, &key.kind) || s.size > STORE_MAX_ARG)
		return false;
	key.arg = s;
	/* A path is kept with its leading slash. */
	if (key.kind == STORE_SOURCE && s.p)
		key.arg = (struct str){ s.p - 1, s.size + 1 };
	*ret = key;
	return true;
}

void store_record_name(const struct store_key *key, struct buf *ret)
{
	char id[BUILD_ID_HEX_SIZE], hex[2 * STORE_SHA256_SIZE + 1];
	uint8_t sum[STORE_SHA256_SIZE];

	build_id_hex(&key->id, id);
	buf_add_str(ret, STORE_KEYS);
	buf_printf(ret, "%.2s/%s.%s", id, id, kind_names[key->kind]);
	if (!key->arg.size)
		return;
	sha256_of(bytes_of(key->arg.p, key->arg.size), sum);
	buf_printf(ret, "-%s", hex_encode(bytes_of(sum, sizeof(sum)), hex));
}

char *store_content_name(const uint8_t sha256[STORE_SHA256_SIZE], bool raw, char out[STORE_CONTENT_NAME_SIZE])
{
	char hex[2 * STORE_SHA256_SIZE + 1];

	hex_encode(bytes_of(sha256, STORE_SHA256_SIZE), hex);
	snprintf(out, STORE_CONTENT_NAME_SIZE, "data/%.2s/%s%s", hex, hex, raw ? "" : ".zst");
	return out;
}
