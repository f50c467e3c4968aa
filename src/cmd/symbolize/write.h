/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The texts of answers. There may be very many, of few functions: their common parts are kept once, and
 * joined when they are written.
 */
#pragma once

#include "cmd/symbolize/symbolize.h"

struct symbolize_writer;

/* An answer is a head, the frames, and an end; a frame is a prefix, its name, and its place. */
struct symbolize_style {
	const char *name;
	/* Append the head; @frames NULL: none. */
	void (*head)(struct symbolize_writer *w, uint64_t addr, const struct symtab_frames *frames,
		     struct buf *out);
	/* Append the place, the text after the name. NULL: an answer is its head alone. */
	void (*place)(const struct settings *s, const struct symtab_frame *f, struct buf *out);
	struct str before, end;
	struct str unknown; /* instead of frames if there are none; empty: a frame without a function */
	bool ours;          /* names as in all of lode, not as in addr2line and llvm-symbolizer */
	bool list;          /* the answers to the command line are elements of a list */
	/* Append the answer to a text that is not an address. NULL: it counts as address 0. */
	void (*echo)(const struct symbolize_writer *w, struct str text, struct buf *out);
	bool addressed;      /* always contains the address */
	bool pretty;         /* has --pretty-print: one line a frame */
	bool discriminators; /* has --discriminators */
};
const struct symbolize_style *symbolize_style_find(struct str name); /* NULL: none */

/* The text of a frame, and of the frames that it was inlined into. */
struct frame_text {
	struct str name;
	const struct frame_text *outer; /* NULL: none */
	size_t size;
	char place[];
};
struct answer_text {
	struct str head;
	const struct frame_text *frames; /* NULL: the head alone */
};

#define NAMES_MAX MIB(64) /* with more, all names are dropped */

/* Makes the texts of one thread; keeps the common parts of answers once. */
struct symbolize_writer {
	const struct settings *s;
	const struct symbolize_style *style;
	struct str module;
	struct arena texts;    /* of answers, until symbolize_writer_forget() */
	struct buf room, name; /* the text that is being made */
	/* Demangled names, which are expensive. */
	struct arena names_texts;
	struct name_slot {
		uint64_t hash;
		const struct known_name *name; /* NULL: free */
	} * names;
	size_t n_names, n_name_slots;
	uint64_t seed;
	/* Recent parts, by their addresses in the table; other text may be at an address by now. */
	const struct known_name {
		struct str from, text;
	} * recent_names[256];
	const struct known_path {
		struct str dir, file;
	} * recent_paths[64];
	struct recent_frame {
		const struct known_name *name;
		const struct known_path *path;
		const struct frame_text *outer, *text; /* text NULL: none */
		uint32_t line, column, discriminator;
		bool inlined, named; /* named: also where names are not written */
		uint8_t origin;
	} recent_frames[64];
};
void symbolize_writer_init(struct symbolize_writer *w, const struct settings *s,
			   const struct symbolize_style *style);
void symbolize_writer_done(struct symbolize_writer *w); /* takes the zeroed */
/* Drop all answers; names, too, if they are more than @max bytes. */
void symbolize_writer_forget(struct symbolize_writer *w, size_t max);
/* Bytes of the texts kept. */
size_t symbolize_writer_size(const struct symbolize_writer *w);
/* @frames NULL: none. */
struct answer_text symbolize_writer_make(struct symbolize_writer *w, uint64_t addr,
					 const struct symtab_frames *frames);
/* The answer to a text that is not an address. */
struct answer_text symbolize_writer_echo(struct symbolize_writer *w, struct str text);
/* The name of @f as answers have it; empty: not known. */
struct str symbolize_writer_name(struct symbolize_writer *w, const struct symtab_frame *f);
/* Append an answer that a writer made. */
void answer_text_add(const struct settings *s, const struct symbolize_style *style,
		     const struct answer_text *a, struct buf *out);
