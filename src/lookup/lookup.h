/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lookup: the symbol table (symtab) of one file or one build ID, here and now: for a command, or a program
 * that uses liblode. The debug file, its supplementary file and its split files are searched for on this
 * machine by gdb's rules, then in the cache folder of debug files and on servers. Tables are kept in a cache
 * folder of their own.
 *
 * A service that answers for many build IDs at once and must not wait uses `tables`.
 */
#pragma once

#include "client/client.h"
#include "companion/companion.h"
#include "frame/frame.h"
#include "local/local.h"

#define LOOKUP_ONLY_MAX 64u

struct lookup_options {
	const char *urls; /* of servers, separated by blanks; NULL: those of the environment */
	const struct client_watch *watch; /* of the requests to them; NULL: none */
	int64_t unread_wait_ms;           /* as in struct client_options */
	bool local_only;     /* ask no server, and do not touch the cache folder of debug files */
	const char *alt;     /* the supplementary file; NULL: it is searched for */
	unsigned threads;    /* that build a table; 0: one per CPU */
	bool discriminators; /* of tables that have them */
};

/*
 * A table, opened or built now, and the files that it is built of. Belongs to one thread; but see
 * lookup_frames_by().
 */
struct lookup_file {
	struct symtab *table;
	struct symtab_finder *finder;
	struct mapping mapping; /* the table's bytes are here, */
	struct buf made;        /* or here */
	/* The files that the table is built of. */
	struct source *src;
	struct elf_image *img;       /* of src: the file itself */
	struct elf_image *debug;     /* the file with the DWARF: img, or of found.src */
	struct elf_image *alt;       /* supplementary file; NULL: none */
	struct elf_image *dwp;       /* split files in one; NULL: none */
	struct local_found found;    /* the debug file, if it is another */
	struct dwarf_split split;    /* finds the split files */
	struct companion_place disk; /* where they may be */
	/* Owned: the first split file that was missing when the table was built, for people; NULL: none. */
	_Atomic(char *) no_dwo;
	uint64_t moved; /* frame_moved() of img and debug: addresses are img's */
	/* The only addresses that will be asked for, if they are known and few. */
	uint64_t only[LOOKUP_ONLY_MAX];
	size_t n_only;
	bool discriminators; /* the table has them */
	char *named;         /* owned: the path of img's file, unless the caller named it */
	/*
	 * Why there is no debug file besides `img`, after it was searched for; FRAME_FOUND: there is one, or none is needed.
	 * If nothing could be opened: why not.
	 */
	enum frame_reason no_debug;
	struct err no_debug_err; /* more about it; empty: nothing */
	/* Owned: path in the cache folder, and URL, of a debug file from a server; the URL is NULL if it was there. */
	char *sent_url, *sent_path;
	char *cached_as; /* owned: the table's file in the cache, if it was opened from there; NULL: it was not */
	char *keep_as; /* owned: the name in the cache for the whole table, to be built later; NULL: none */
};
void lookup_file_done(struct lookup_file *f); /* zeroed is empty */

/* ---- with a table ---- */

/* Announce that only these will be asked for: without a table in the cache only their units are read. */
void lookup_only(struct lookup_file *f, const struct str *addresses, size_t n);
/* Open the table of @path, which is a table, an ELF file, or a member of an archive that is one (libx.a:x.o,
 * x.deb!usr/lib/x.so; pkg_open_path()). @path is borrowed as long as @f. */
int lookup_open(struct lookup_file *f, const struct lookup_options *o, const char *path, struct err *err);
/*
 * On failure f->no_debug is the reason.
 *
 * Open the table of a module: of the file @path (NULL: not known; borrowed as long as @f), or, where that
 * file is another one by now, of the build ID @id (NULL, or of size 0: not known).
 */
int lookup_open_module(struct lookup_file *f, const struct lookup_options *o, const char *path,
		       const struct build_id *id, struct err *err);
/*
 * To be called when the answer is printed. If only a part of the table was built (lookup_only()), start a
 * process that builds the whole for the cache.
 */
void lookup_cache_later(struct lookup_file *f);

/* ---- without a table ---- */

/*
 * Find the files that a table of @path is built of, on this machine: the debug file in f->debug, its
 * supplementary file in f->alt (NULL: none found), its split files by f->split.
 */
int lookup_find_files(struct lookup_file *f, const struct lookup_options *o, const char *path,
		      struct err *err);
/* The program of which f->debug is the debug file, for symtab_options: NULL if they are one file, or prelink moved it. */
const struct elf_image *lookup_program(const struct lookup_file *f);
/*
 * The path (heap) of the file of a build ID in the cache folder of debug files, fetched from a server if
 * need be; @name: of a program, the path or name of its file (NULL: not known), by which some servers find it. NULL: not
 * found; err says why, with os ENOENT where no server has it, and ENOSYS where no server is known.
 */
char *lookup_fetch(const struct lookup_options *o, enum client_kind kind, const struct build_id *id,
		   const char *name, struct err *err);

/* ---- addresses ---- */

/*
 * As symtab_find(), of an address in the file itself, which may differ from that in its debug file. A table of the cache
 * that is found damaged is deleted, so the next lookup_open() builds it anew; the error says so.
 */
int lookup_frames(const struct lookup_file *f, uint64_t addr, struct symtab_frames *ret, struct err *err);
/* The same by another finder of f->table: for a thread beside others, while *f does not change. */
int lookup_frames_by(const struct lookup_file *f, struct symtab_finder *finder, uint64_t addr,
		     struct symtab_frames *ret, struct err *err);

/* The file has a section of this name, as far as is known. */
bool lookup_has_section(const struct lookup_file *f, const char *name);
/* "4010", "0x4010"; also ".text+0x10" and "(.text)+0x10". All hexadecimal. @section of a bare number; NULL: none. */
bool lookup_address(const struct lookup_file *f, const char *section, struct str text, uint64_t *ret);

/* "0x10" or "10", hexadecimal. */
bool lookup_number(struct str s, uint64_t *ret);
