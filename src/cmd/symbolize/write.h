/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts of answers. There may be many, of few functions: what they have in common is held once, and put
 * together when it is written.
 *
 *   symbolize_style.c   the styles
 *   symbolize_write.c   texts, held
 */
#pragma once

#include "cmd/symbolize/symbolize.h"

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

#define NAMES_MAX MIB(64) /* then all are forgotten */

/* Makes the texts of one thread, and holds what answers have in common once. */
struct symbolize_writer {
	const struct settings *s;
	const struct symbolize_style *style;
	struct str module;
	struct arena texts;    /* of answers, until symbolize_writer_forget() */
	struct buf room, name; /* what is being made */
	/* Mangled names, which are dear. */
	struct arena names_texts;
	struct name_slot {
		uint64_t hash;
		const struct known_name *name; /* NULL: free */
	} * names;
	size_t n_names, n_name_slots;
	uint64_t seed;
	/* What came lately, by where it lay in the table; there may be something else by now. */
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
		bool inlined;
		uint8_t origin;
	} recent_frames[64];
};
void symbolize_writer_init(struct symbolize_writer *w, const struct settings *s,
			   const struct symbolize_style *style);
void symbolize_writer_done(struct symbolize_writer *w); /* takes the zeroed */
/* All answers; names too, if they are more than @max bytes. */
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
