/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of `lode symbolize`. Each calls only files further down.
 *
 *   symbolize.c        options
 *   text.c, linux.c, go.c   crash text, copied with its frames filled in; see text.h
 *   process.c          --pid
 *   perf_map.c         names of code that a process made
 *   kernel.c           --kernel
 *   answer.c           addresses of the command line or standard input
 *   answer_pool.c      the answers to many of them, by several threads
 *   question.c         one thread's answers
 *   style.c, write.c   the texts of answers, in one of the output styles; see write.h
 *   modules.c          modules, opened when the first address is in them
 *   missed.c           report on those with addresses without names
 *   input.c            lines of standard input
 *   advice.c           advice on addresses without names
 *   lookup_options.c   where symbols are looked up
 */
#pragma once

#include "cmd/internal.h"
#include "frame/frame.h"
#include "lookup/lookup.h"

#define MODULES_MAX 65536u

/* As the command line has them. */
struct lookup_options lookup_options_of(struct settings *s);

/* Append advice on addresses of @file without names. @f: as it was looked up; NULL: not any more. */
void symbolize_advice(const struct lookup_options *places, enum frame_reason reason, struct str file,
		      const struct lookup_file *f, struct buf *out);
/* The same, to standard error. */
void symbolize_print_advice(const struct lookup_options *places, enum frame_reason reason, struct str file,
			    const struct lookup_file *f);

struct symbolize_style; /* see write.h */
/* Fold inlined calls: into one frame, in *room, of the function that is not inlined and the innermost
 * line. */
void symbolize_fold(struct symtab_frames *f, struct symtab_frame *room);

/* Call line() for each line of standard input, without its newline, and pause() when no more is there yet,
 * and at the end. */
int symbolize_input(void (*line)(void *arg, struct str line), int (*pause)(void *arg, struct err *err),
		    void *arg, struct err *err);

/* Answer the addresses of the command line or standard input. Returns the exit status. */
int symbolize_file(struct settings *s, const char *path, const struct symbolize_style *style);
int symbolize_build_id(struct settings *s, const struct symbolize_style *style);

struct module {
	char *name, *path; /* path NULL: only its build ID is known */
	struct build_id id;
	struct frame_mapping *maps;
	size_t n_maps, room_maps;
	bool gone; /* the process has mapped it, and another file, or none, is at its path */
	bool tried, read_symbols;
	struct lookup_file file;  /* when it was opened */
	enum frame_reason closed; /* why it could not be opened */
	/* Why the last address has no frames; FRAME_FOUND: it has, or nothing is known of it. */
	enum frame_reason why_not;
	uint64_t n_missed;        /* see module_note_missed() */
	enum frame_reason missed; /* of the first of them */
	struct frame_layout layout;
	struct map symbols, sizes;  /* name -> address + 1, size */
	struct symtab_frame folded; /* of the last answer, with --no-inlines */
};

struct modules {
	const struct settings *s;
	struct lookup_options places;
	bool verbose; /* report modules that cannot be opened */
	struct module **list;
	size_t n, room;
	struct map by_name;
};
void modules_init(struct modules *m, struct settings *s);
void modules_done(struct modules *m);
/* The module of this path (or name) and build ID (NULL: not known), made if it is new. NULL: too many. */
struct module *modules_get(struct modules *m, struct str name, const struct build_id *id);
/* The same for a mapped file: of several at one path, since it was replaced, each inode is a module. */
struct module *modules_get_mapped(struct modules *m, struct str path, struct bytes inode);
void module_add_map(struct module *m, const struct frame_mapping *map);
/* An address to look up in a module. */
struct module_address {
	enum frame_address_kind kind;
	uint64_t addr;
	bool is_return; /* a return address: the call is before it */
};
/* The frames of an address; *ret_vaddr is the address in the file. false: none. Views are good until the next
 * call for this module. */
bool module_find(struct modules *m, struct module *one, const struct module_address *a, uint64_t *ret_vaddr,
		 struct symtab_frames *ret);
/* A place in a function of a module. */
struct module_symbol {
	struct str name;
	uint64_t off, size; /* size of the function; 0: not known */
	bool is_return;
};
bool module_find_symbol(struct modules *m, struct module *one, const struct module_symbol *sym,
			struct symtab_frames *ret);

/* The address that was asked for last stays without a name. */
void module_note_missed(struct module *m);
/* With --verbose: report such addresses, without @what, and what to do, to standard error. */
void modules_report_missed(const struct modules *m, const char *what);
void symbolize_print_missed(struct str name, uint64_t n, const char *what, const char *text);

/* Answer the addresses of the command line or standard input by a function. Returns the exit status. */
struct finding {
	bool (*find)(void *arg, uint64_t addr, struct str *ret_module, struct symtab_frames *ret);
	void *arg;
};
int symbolize_addresses(struct settings *s, const struct symbolize_style *style, const struct finding *f);

int symbolize_process(struct settings *s, const char *pid, const struct symbolize_style *style);
int symbolize_kernel(struct settings *s, const struct symbolize_style *style);
int symbolize_text(struct settings *s);

/* The build ID of the running kernel, and of one of its modules (1: it has none), by their notes. */
int symbolize_kernel_id(struct build_id *ret, struct err *err);
int symbolize_module_id(struct str name, struct build_id *ret);
/* The path of the vmlinux of a release, NULL: of the running kernel. Heap; NULL: there is none. */
char *symbolize_kernel_path(const char *release);

/* text_filter_line() appends one line of crash text, given without its newline, with its frames. */
struct text_filter;
struct text_filter *text_filter_new(struct settings *s);
void text_filter_free(struct text_filter *t);
void text_filter_line(struct text_filter *t, struct str line, struct buf *out);
