/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts of answers. There may be many, of few functions: what they have in common is held once, and put
 * together when it is written.
 *
 *   symbolize_style.c   the styles
 *   symbolize_write.c   texts, held
 */
#pragma once

#include "base/map.h"
#include "cmd/symbolize.h"

struct symbolize_writer;

/* An answer is its head; of each frame what is before its name, the name, and its place; and the end. */
struct symbolize_style {
	const char *name;
	/* Append the head; @frames NULL: none. */
	void (*head)(struct symbolize_writer *w, uint64_t addr, const struct symtab_frames *frames,
		     struct buf *out);
	/* Append what is behind the name. NULL: the head is all. */
	void (*place)(const struct settings *s, const struct symtab_frame *f, struct buf *out);
	struct str before, end;
	struct str unknown; /* where there are no frames; empty: a frame of which nothing is known */
	bool ours;      /* names are as our own programs have them, not as addr2line and llvm-symbolizer */
	bool list;      /* addresses of the command line are elements of a list */
	bool echo;      /* what is no address is repeated; else it counts as address 0 */
	bool addressed; /* always has the address in it */
	bool pretty;    /* can write one line a frame */
	bool discriminators; /* can write them */
};
const struct symbolize_style *symbolize_style_find(struct str name); /* NULL: none */

/* A frame's text, and that of the frames that it was inlined into. */
struct frame_text {
	struct str name;
	const struct frame_text *outer; /* NULL: none */
	size_t size;
	char place[];
};
struct answer_text {
	struct str head;
	const struct frame_text *frames; /* NULL: the head is all */
};

#define RECENT    64u     /* a power of two */
#define NAMES_MAX MIB(64) /* then all are forgotten */

/* Makes the texts of one thread, and holds what answers have in common once. */
struct symbolize_writer {
	const struct settings *s;
	const struct symbolize_style *style;
	struct str module;
	bool shares;              /* answers are those of one table, in the order of addresses */
	struct arena texts;       /* of answers, until symbolize_writer_forget() */
	struct arena names_texts; /* of mangled names, which are dear */
	struct map names;         /* of struct str, to these */
	struct buf room, name;    /* what is being made */
	/* Of the piece of function of the last answer: its strings stay where they are. */
	uint64_t start;
	uint32_t piece; /* counted: of another one nothing below is good */
	struct recent_name {
		uint32_t piece;
		struct str mangled, text;
	} recent_names[RECENT];
	struct recent_frame {
		uint32_t piece;
		struct symtab_frame f;
		const struct frame_text *text;
	} recent_frames[RECENT];
};
void symbolize_writer_init(struct symbolize_writer *w, const struct settings *s,
			   const struct symbolize_style *style);
void symbolize_writer_done(struct symbolize_writer *w); /* takes the zeroed */
/* All answers. Names too, if they are more than @max bytes. */
void symbolize_writer_forget(struct symbolize_writer *w, size_t max);
/* What is held, in bytes. */
size_t symbolize_writer_size(const struct symbolize_writer *w);
/* @frames NULL: none. */
struct answer_text symbolize_writer_make(struct symbolize_writer *w, uint64_t addr,
					 const struct symtab_frames *frames);
/* Of what is no address: the same again. */
struct answer_text symbolize_writer_echo(struct symbolize_writer *w, struct str text);
/* Its name as it is to be written; empty: not known. */
struct str symbolize_writer_name(struct symbolize_writer *w, const struct symtab_frame *f);
/* Append what was made. */
void answer_text_add(const struct settings *s, const struct symbolize_style *style,
		     const struct answer_text *a, struct buf *out);
