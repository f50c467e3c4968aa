/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files that read crash text.
 *
 *   text.c    all lines; those of sanitizers, glibc, perf
 *   linux.c   call traces of Linux
 *   go.c      crash texts of Go programs
 */
#pragma once

#include "cmd/symbolize/symbolize.h"

struct text_filter {
	struct settings *s;
	struct modules modules;
	bool is_caller; /* the next line of a stack of perf's is not its first */
	/* Linux */
	char *release;            /* of the kernel, as the text names it; NULL: the running one */
	struct build_id build_id; /* of the kernel, if the text has it */
	struct module *kernel;
	bool kernel_tried;
};

/* ---- reading a line ---- */

static inline bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'f');
}
static inline struct str str_after(struct str s, size_t n)
{
	return (struct str){ s.p + n, s.size - n };
}
struct str text_skip_blanks(struct str s);
/* Parse "0x12", or without @prefix also "12", at the begin of *s, and move *s after it. */
bool text_take_hex(struct str *s, bool prefix, uint64_t *ret);
bool text_take(struct str *s, struct str what);
/* *ret: the text after the first @what. */
bool text_find(struct str s, struct str what, struct str *ret);

/* Append frames, one a line, indented; text_add_below(): after @line. */
void text_add_frames(struct text_filter *t, const struct symtab_frames *frames, struct buf *out);
void text_add_below(struct text_filter *t, struct str line, const struct symtab_frames *frames,
		    struct buf *out);

/* The line's address has no name in @m (NULL: in no module). Returns false: the line is copied. */
bool text_missed(struct module *m);

/* Each appends the line with its frames. false: it has none of this kind. */
bool text_linux_line(struct text_filter *t, struct str line, struct buf *out);
bool text_go_line(struct text_filter *t, struct str line, struct buf *out);
