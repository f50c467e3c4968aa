/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symbols: the table (symtab) of a file or of a build ID for one who asks here and now, a command or a
 * program that uses liblode. The debug file, its supplementary and its split files are looked for on this
 * machine by gdb's rules, then in the cache folder of debug files and on servers. Tables are kept in a cache
 * folder of their own.
 *
 * Those who ask for many build IDs at once and cannot wait use `symbolize`.
 */
#pragma once

#include "client/client.h"
#include "local/local.h"
#include "frame/frame.h"

#define LOOKUP_ONLY_MAX 64u

struct lookup_options {
	const char *urls;    /* of servers, separated by blanks; NULL: those of the environment */
	bool local_only;     /* ask no server, and leave the cache folder of debug files alone */
	const char *alt;     /* the supplementary file; NULL: it is looked for */
	unsigned threads;    /* that make a table; 0: one a CPU */
	bool discriminators; /* of tables that have them */
};

/* A table that was made before, or made now of what was found. Belongs to one thread, but see
 * lookup_frames_by(). */
struct lookup_file {
	struct symtab *table;
	struct symtab_finder *finder;
	struct mapping mapping;
	struct buf made;
	/* What it was made of. */
	struct source *src;
	struct elf_image *img, *debug, *alt,
		*dwp; /* the file itself; where its DWARF is: the same, or found */
	struct local_found found, found_alt;
	uint64_t moved;   /* frame_moved() of img and debug: addresses are img's */
	const char *path; /* borrowed */
	struct source *dwp_src;
	struct dwarf_split split;
	/* All that will be asked for, if that is known and little. */
	uint64_t only[LOOKUP_ONLY_MAX];
	size_t n_only;
	bool discriminators; /* the table is one that has them */
	char *named;         /* owned; what `path` may be */
	char *behind; /* owned: the name under which a whole table is to be kept when the answer is out; NULL:
			 none */
};
void lookup_file_done(struct lookup_file *f); /* zeroed is empty */

/* ---- with a table ---- */

/* Note that nothing but these will be asked for: of a file without a table only their units are read. */
void lookup_only(struct lookup_file *f, const struct str *addresses, size_t n);
/* The table of @path, which is a table or an ELF file. */
int lookup_open(struct lookup_file *f, const struct lookup_options *o, const char *path, struct err *err);
/*
 * The table of a module: of the file @path (NULL: not known), or, where that is another one by now, of what
 * has build ID @id (NULL, or of size 0: not known).
 */
int lookup_open_module(struct lookup_file *f, const struct lookup_options *o, const char *path,
		       const struct build_id *id, struct err *err);
/* The answer is out: what was left for later. */
void lookup_cache_later(struct lookup_file *f);

/* ---- without one ---- */

/*
 * The debug file that belongs to @path (itself, or one on this machine) in f->debug, its supplementary file
 * in f->alt if it has one and it is found, and who finds its split files.
 */
int lookup_find_files(struct lookup_file *f, const struct lookup_options *o, const char *path,
		      struct err *err);
/* The path of the file of a build ID, in the cache folder or fetched into it; heap. NULL: it is not to be
 * had. */
char *lookup_fetch(const struct lookup_options *o, enum client_kind kind, const struct build_id *id,
		   struct err *err);

/* ---- addresses ---- */

/* As symtab_find(), of an address in the file itself, which may lie elsewhere in its debug file. */
int lookup_frames(const struct lookup_file *f, uint64_t addr, struct symtab_frames *ret, struct err *err);
/* The same by another finder of f->table, for a thread that asks beside others while nobody changes *f. */
int lookup_frames_by(const struct lookup_file *f, struct symtab_finder *finder, uint64_t addr,
		     struct symtab_frames *ret, struct err *err);

/* "4010", "0x4010"; of relocatable files also ".text+0x10" and "(.text)+0x10". All hexadecimal. */
bool lookup_address(const struct lookup_file *f, const char *section, struct str text, uint64_t *ret);

/* "0x10" or "10". */
bool lookup_number(struct str s, uint64_t *ret);
