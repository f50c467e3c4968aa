/* SPDX-License-Identifier: Apache-2.0 */
/*
 * liblode: finds debug information, and turns addresses into functions, inlined calls, files and lines.
 *
 *	struct lode *l = lode_new(NULL);
 *	struct lode_table *t;
 *
 *	if (lode_open(l, "/usr/bin/ls", NULL, &t) == 0) {
 *		struct lode_finder *f = lode_finder_new(t);
 *		const struct lode_frame *frames;
 *		size_t n;
 *
 *		if (lode_frames(f, 0x6b10, 0, &frames, &n) == 0)
 *			printf("%s %s:%u\n", frames[0].function, frames[0].file, frames[0].line);
 *		lode_finder_free(f);
 *		lode_close(t);
 *	}
 *	lode_free(l);
 *
 * Results. 0: done. LODE_NONE: there is none. Negative: a failure, which lode_error() describes in one line.
 * Results through arguments are set only with 0.
 *
 * Threads. A struct lode and a struct lode_finder belong to one thread at a time. A struct lode_table never
 * changes: any number of threads may use one, each with finders of its own, also when the struct lode is
 * gone. The library starts threads only while it builds a table, and none outlives the call; it starts no
 * processes, and sets no signal handlers.
 *
 * Lifetime. Tables outlive the struct lode that opened them; finders must be freed before their table. How
 * long strings are valid is said where they are declared.
 *
 * A small allocation that fails ends the process; a large one that fails is a failure like others.
 *
 * Environment. DEBUGINFOD_URLS, DEBUGINFOD_CACHE_PATH and their like, as for gdb; LODE_SYMTAB_CACHE and
 * XDG_CACHE_HOME, as for `lode symbolize`: tables are kept there, so a second process maps the table that
 * the first has built.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LODE_API 1

enum { LODE_NONE = 1 };

struct lode;
struct lode_table;
struct lode_finder;

/* Zeroed: defaults. Fields may be added at the end; `size` says how many there are. */
struct lode_options {
	size_t size;      /* sizeof(struct lode_options) */
	const char *urls; /* servers, separated by blanks; NULL: DEBUGINFOD_URLS. Copied */
	int local_only;   /* ask no server, and do not touch the cache folder of debug files */
	unsigned threads; /* that build a table; 0: one per CPU */
	/*
	 * Tables have discriminators, see lode_discriminator(). They are a few per cent larger, and are kept
	 * apart from tables without.
	 */
	int discriminators;
};

struct lode *lode_new(const struct lode_options *o); /* @o may be NULL */
void lode_free(struct lode *l);                      /* takes NULL */
/* Why the last call with @l failed; good until the next one. */
const char *lode_error(const struct lode *l);

/* ---- finding ---- */

enum lode_kind { LODE_DEBUGINFO, LODE_EXECUTABLE };
/*
 * The path of the file with this build ID (hexadecimal): on this machine by gdb's rules, in the cache folder,
 * or fetched from a server into it. To be freed by free(). LODE_NONE: not found.
 */
int lode_find(struct lode *l, enum lode_kind kind, const char *build_id, char **ret_path);

/* ---- tables ---- */

/*
 * Open the table of the file @path, or of the build ID @build_id, or (with both) of the file if it has that
 * build ID, else of the build ID. Its debug file and supplementary file are found as by `lode find`; without
 * them the table has the file's own symbols.
 */
int lode_open(struct lode *l, const char *path, const char *build_id, struct lode_table **ret);
void lode_close(struct lode_table *t); /* takes NULL */
/* Hexadecimal; empty: it has none. As long as the table. */
const char *lode_build_id(const struct lode_table *t);
/* Some names are in a supplementary file, or calls in split files, that were not found. */
int lode_is_incomplete(const struct lode_table *t);

/* ---- addresses ---- */

/* Where a part of the file is mapped, as in /proc/PID/maps. */
struct lode_mapping {
	uint64_t start, end, offset;
};
/* A run-time address to one in the ELF file. LODE_NONE: it is in none of the mappings. */
int lode_translate(const struct lode_table *t, const struct lode_mapping *maps, size_t n, uint64_t addr,
		   uint64_t *ret);

struct lode_frame {
	const char *function;              /* as in the source, demangled; empty: not known */
	const char *linkage;               /* as the linker sees it; empty: not known */
	const char *file;                  /* with its folder; empty: not known */
	unsigned line, column, start_line; /* 0: not known */
	int inlined;                       /* into the next frame */
};

enum {
	LODE_RETURN_ADDRESS = 1 << 0, /* the address is a return address: its call is looked up */
	LODE_MANGLED = 1 << 1,        /* `function` is not demangled */
	LODE_TEMPLATES = 1 << 2,      /* demangled, but without parameters: ns::f<int> */
	LODE_SIMPLE = 1 << 3,         /* and without template arguments: ns::f */
};

struct lode_finder *lode_finder_new(struct lode_table *t);
void lode_finder_free(struct lode_finder *f); /* takes NULL */
/*
 * The frames of an address in the ELF file (as nm prints them), the innermost first. LODE_NONE: no function
 * is known there. Negative: the table is damaged. Frames are good until the next call with @f. Fastest where
 * addresses rise.
 */
int lode_frames(struct lode_finder *f, uint64_t addr, unsigned flags, const struct lode_frame **ret,
		size_t *ret_n);
/*
 * Of frame @i of the last answer with @f: the block of its line that it is in, as compilers number them for
 * profiles. 0: the first, or not known; always, unless the table was opened with lode_options.discriminators.
 */
unsigned lode_discriminator(const struct lode_finder *f, size_t i);

#ifdef __cplusplus
}
#endif
