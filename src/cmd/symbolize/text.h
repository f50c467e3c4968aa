/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files that read crash text share.
 *
 *   symbolize_text.c   the lines one after the other; sanitizers, glibc, perf
 *   symbolize_linux.c  call traces of Linux
 *   symbolize_go.c     what Go says of itself
 */
#pragma once

#include "cmd/symbolize/symbolize.h"

struct text_filter {
	struct settings *s;
	struct modules modules;
	bool is_caller; /* of perf's stack: not the first line */
	/* Linux */
	char *release;            /* of the kernel that the text is of; NULL: the running one */
	struct build_id build_id; /* its, where that was said */
	struct module *kernel;
	bool kernel_tried;
};

/* ---- reading a line ---- */

static inline bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'f');
}
static inline struct str after(struct str s, size_t n)
{
	return (struct str){ s.p + n, s.size - n };
}
struct str text_skip_blanks(struct str s);
/* "0x12" or, if it may, "12" at the begin of *s, passed. */
bool text_take_hex(struct str *s, bool prefix, uint64_t *ret);
bool text_take(struct str *s, struct str what);
/* What is behind the first @what. */
bool text_find(struct str s, struct str what, struct str *ret);

/* Frames, a line each, indented; and behind the line that they are of. */
void text_add_frames(struct text_filter *t, const struct symtab_frames *frames, struct buf *out);
void text_add_below(struct text_filter *t, struct str line, const struct symtab_frames *frames,
		    struct buf *out);

/* Each: the line with its frames, appended; false: it has none of this kind. */
bool text_linux_line(struct text_filter *t, struct str line, struct buf *out);
bool text_go_line(struct text_filter *t, struct str line, struct buf *out);
