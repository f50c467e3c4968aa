/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the commands that turn addresses into frames share: a file's table, and how answers are written.
 */
#pragma once

#include "client/client.h"
#include "cmd/internal.h"
#include "local/local.h"
#include "symtab/symtab.h"

#define SYMBOLS_ONLY_MAX 64u

struct symbols_options {
	const char *urls; /* of servers, separated by blanks; NULL: those of the environment */
	bool local_only;  /* ask no server, and leave the cache folder of debug files alone */
	const char *alt;  /* the supplementary file; NULL: it is looked for */
	unsigned threads; /* that make a table; 0: one a CPU */
};

/* The table of a file: one that was made before, or made now of what is found for it. */
struct symbols_file {
	struct symtab *table;
	struct symtab_finder *finder;
	struct mapping mapping;
	struct buf made;
	/* What it was made of. */
	struct source *src;
	struct elf_image *img, *debug, *alt, *dwp;
	struct local_found found, found_alt;
	const char *path; /* borrowed */
	struct source *dwp_src;
	struct dwarf_split split;
	/* All that will be asked for, if that is known and little. */
	uint64_t only[SYMBOLS_ONLY_MAX];
	size_t n_only;
	char *named;  /* owned; what `path` may be */
	char *behind; /* owned: the name under which a whole table is to be kept when the answer is out; NULL:
			 none */
};
void symbols_file_done(struct symbols_file *f); /* zeroed is empty */

/*
 * The debug file that belongs to @path (itself, or by gdb's rules) in f->debug, and its supplementary file in
 * f->alt if it has one and it is found.
 */
int symbols_find(struct symbols_file *f, const struct symbols_options *o, const char *path, struct err *err);
/* Note that nothing but these will be asked for: of a file without a table only the units of these addresses
 * are read.
 */
void symbols_only(struct symbols_file *f, const struct str *addresses, size_t n);
/* The ELF file's image; what is none, or has no sound section table, is ERR_INVALID. */
int symbols_open_image(struct source *src, struct elf_image **ret, struct err *err);
/* f->alt by the link in f->debug, and split files, on this machine. */
int symbols_find_more(struct symbols_file *f, const struct symbols_options *o, struct local *local,
		      const char *path, struct err *err);
/* The table of what was found: kept before, or made now. */
int symbols_table(struct symbols_file *f, const struct symbols_options *o, struct err *err);
int symbols_build(struct symbols_file *f, unsigned n_threads, struct err *err); /* into f->made */
/*
 * The table of a module: of the file @path (NULL: not known), or, where that is another one by now, of what
 * has build ID @id (NULL: not known) on this machine, in the cache folder of debug files, on servers.
 */
int symbols_open_module(struct symbols_file *f, const struct symbols_options *o, const char *path,
			const struct build_id *id, struct err *err);
/* The path of the file of a build ID, in the cache folder or fetched into it; heap. NULL: it is not to be
 * had. */
char *symbols_ask_client(const struct symbols_options *o, enum client_kind kind, const struct build_id *id,
			 struct err *err);
/* The answer is out: what was left for later. */
void symbols_behind(struct symbols_file *f);

/* ---- symbols_cache.c ---- */

char *symbols_cache_name(const struct symbols_file *f); /* heap; NULL: its table is not kept */
bool symbols_cache_open(struct symbols_file *f, const char *name);
void symbols_cache_keep(const struct symbols_file *f, const char *name);
void symbols_cache_make_behind(struct symbols_file *f, const char *name);

/* The table of @path, which is a table or an ELF file; its debug file may come from a server. */
int symbols_open(struct symbols_file *f, const struct symbols_options *o, const char *path, struct err *err);

/* "4010", "0x4010"; of relocatable files also ".text+0x10" and "(.text)+0x10". All hexadecimal. */
bool symbols_address(const struct symbols_file *f, const char *section, struct str text, uint64_t *ret);

/* As the command line has it. */
struct symbols_options symbols_options_of(struct settings *s);

struct symbols_style {
	const char *name;
	/* Append the answer for @addr; @frames NULL: none. @text: as it was asked for. */
	void (*write)(const struct settings *s, struct str module, uint64_t addr,
		      const struct symtab_frames *frames, struct buf *out);
	bool list;   /* addresses of the command line are elements of a list */
	bool echo;   /* what is no address is repeated; else it counts as address 0 */
	bool pretty; /* can write one line a frame */
};
const struct symbols_style *symbols_style_find(struct str name); /* NULL: none */
/* Without inlined calls: one frame in *room, the function that is there by itself, and the innermost place.
 */
void symbols_fold(struct symtab_frames *f, struct symtab_frame *room);

/* "0x10" or "10". */
bool symbols_number(struct str s, uint64_t *ret);
/* Some bytes of standard input; 0: its end. */
int symbols_read_input(char *p, size_t room, size_t *ret_got, struct err *err);

/* Answer what the command line or standard input asks. Returns the exit status. */
int symbols_answer(struct settings *s, const char *path, const struct symbols_style *style);
