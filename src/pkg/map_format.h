/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stored form of the package map, for its writer (map.c) and its reader (map_read.c).
 * docs/formats/package-map.md describes it.
 */
#pragma once

#include "base/leb.h"
#include "pkg/internal.h"

#define MAP_MAGIC       0x4d4b504cu /* "LPKM" */
#define MAP_VERSION     2u
#define MAP_HEADER_SIZE 28u
#define MAP_HASH_AT     8u
#define MAP_HASH_FROM   16u /* the hash covers everything from here on */
#define MAP_POINTS_AT   24u

/* Limits of the reader. Everything that pkg_reader accepts fits: it limits names and members. */
#define MAP_MAX_COLUMNS  (2 * PKG_MAX_NAMES)
#define MAP_MAX_STRINGS  (2 * PKG_MAX_NAMES)
#define MAP_MAX_PAIRS    16u
#define MAP_MAX_SECTIONS 65536u /* of all entries together; the writer leaves out those of further entries */

/* The columns, in the order in which they are stored. */
enum map_column {
	COL_META,
	COL_PATH_CODES,
	COL_PATH_SHARED,
	COL_PATH_SIZES,
	COL_PATH_BYTES,
	COL_RANKS,
	COL_NUMBERS,
	COL_MODES,
	COL_MTIMES,
	COL_SIZES,
	COL_PLACES,
	COL_INNER,
	COL_ELF,
	COL_SECTIONS,
	COL_SECTION_NAMES,
	COL_LINK_FORMS,
	COL_LINK_ENTRIES,
	COL_LINK_SIZES,
	COL_LINK_BYTES,
	N_COLUMNS
};

/* How a link's target is stored. */
enum map_link_form {
	LINK_TEXT,
	LINK_RELATIVE, /* to an entry, by the shortest relative path */
	LINK_ABSOLUTE, /* to an entry, "/" and its path */
};

/* The text before and after the build ID in a path such as "usr/lib/debug/.build-id/ab/cdef.debug". */
struct map_pair {
	struct str before, after;
};

/* The predicted offset of the content of the member after one at @off. */
static inline uint64_t map_place_behind(enum pkg_format format, uint64_t off, uint64_t size)
{
	uint64_t align = format == PKG_FORMAT_CPIO ? 4 : 512;

	return (off + size + align - 1) & ~(align - 1);
}

/* The target of a link at @path to @entry, in the given form, appended to @out. */
void map_target_text(enum map_link_form form, struct str path, struct str entry, struct buf *out);
/* "<before>ab/cdef<after>", appended to @out. */
void map_path_of_id(const struct map_pair *pair, const struct build_id *id, struct buf *out);
/* The target of a link at @path, as a canonical path without leading slash, into @out. */
void map_resolve(struct str path, struct str target, struct buf *out);

/* map_pack.c: the columns, compressed. */
void map_pack(struct bytes in, struct buf *out);
int map_unpack(struct bytes in, uint8_t *out, size_t size, struct err *err); /* exactly @size bytes */
