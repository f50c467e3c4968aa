/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of `lode symbolize` share.
 *
 *   symbolize.c          options
 *   symbolize_answer.c   addresses, asked
 *   symbolize_crew.c     answers of many, by several threads; see symbolize_crew.h
 *   symbolize_place.c    modules, opened as addresses fall into them
 *   symbolize_process.c  --pid
 *   symbolize_kernel.c   --kernel
 *   symbolize_text.c     crash text, copied with its frames filled in; see symbolize_text.h
 *   symbolize_style.c    how answers are written; see symbolize_write.h
 *   symbolize_write.c    their texts
 *   symbolize_input.c    lines of standard input
 */
#pragma once

#include "cmd/internal.h"
#include "frame/frame.h"
#include "lookup/lookup.h"

#define MODULES_MAX 65536u

/* As the command line has it. */
struct lookup_options symbols_options_of(struct settings *s);

struct symbolize_style; /* see symbolize_write.h */
/* Without inlined calls: one frame in *room, the function that is there by itself, and the innermost place.
 */
void symbolize_fold(struct symtab_frames *f, struct symtab_frame *room);

/* line() for each line of standard input, without its newline; pause() when there is no more for now, and at
 * the end. */
int symbolize_input(void (*line)(void *arg, struct str line), int (*pause)(void *arg, struct err *err),
		    void *arg, struct err *err);

/* Answer what the command line or standard input asks. Returns the exit status. */
int symbolize_file(struct settings *s, const char *path, const struct symbolize_style *style);
int symbolize_build_id(struct settings *s, const struct symbolize_style *style);

struct module {
	char *name, *path; /* path NULL: only its build ID is known */
	struct build_id id;
	struct frame_mapping *maps;
	size_t n_maps, room_maps;
	bool tried, read_symbols;
	struct lookup_file file; /* when it was opened */
	struct frame_layout layout;
	struct map symbols, sizes;  /* name -> address + 1, size */
	struct symtab_frame folded; /* of the last answer, where inlined calls are not wanted */
};

struct modules {
	const struct settings *s;
	struct lookup_options places;
	bool verbose; /* tell of modules that cannot be opened */
	struct module **list;
	size_t n, room;
	struct map by_name;
};
void modules_init(struct modules *m, struct settings *s);
void modules_done(struct modules *m);
/* The one of this path (or name) and build ID (NULL: not known), made if it is new. NULL: too many. */
struct module *modules_get(struct modules *m, struct str name, const struct build_id *id);
void module_add_map(struct module *m, const struct frame_mapping *map);
/* The frames of an address. false: none. Views are good until the next call for this module. */
bool module_find(struct modules *m, struct module *one, enum frame_address_kind kind, uint64_t addr,
		 bool is_return, uint64_t *ret_addr, struct symtab_frames *ret);
/* Of symbol+offset; @size of the function, 0: not known. */
bool module_find_symbol(struct modules *m, struct module *one, struct str name, uint64_t off, uint64_t size,
			bool is_return, struct symtab_frames *ret);

/* Answer addresses of the command line, or of standard input, by @find. Returns the exit status. */
struct finding {
	bool (*find)(void *arg, uint64_t addr, struct str *ret_module, struct symtab_frames *ret);
	void *arg;
};
int symbolize_addresses(struct settings *s, const struct symbolize_style *style, const struct finding *f);

int symbolize_process(struct settings *s, const char *pid, const struct symbolize_style *style);
int symbolize_kernel(struct settings *s, const struct symbolize_style *style);
int symbolize_text(struct settings *s);

/* The running kernel's, by its notes. A module's: 1, it has none. */
int symbolize_kernel_id(struct build_id *ret, struct err *err);
int symbolize_module_id(struct str name, struct build_id *ret);
/* Where the vmlinux of a release may be, NULL: of the running kernel; heap; NULL: nowhere. */
char *symbolize_kernel_path(const char *release);

/* One line of crash text, without its newline. Its frames, appended; false: it has none, and is to be copied.
 */
struct text_filter;
struct text_filter *text_filter_new(struct settings *s);
void text_filter_free(struct text_filter *t);
void text_filter_line(struct text_filter *t, struct str line, struct buf *out);
