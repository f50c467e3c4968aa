/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files that write a row for each stack that is kept elsewhere, as it comes.
 *
 *   stream.c              the frames of each stack, as the view shows them
 *   output_folded.c       a line for each
 *   output_speedscope.c   two lists, of which one is written aside until the other one is complete
 */
#pragma once

#include "profile/output.h"
#include "profile/tree_internal.h"

struct stream_form {
	int (*frames)(struct profile_stream *s,
		      struct err *err); /* there are new ones; NULL: nothing to do */
	int (*begin)(struct profile_stream *s,
		     struct err *err); /* before the first row; NULL: nothing to do */
	void (*row)(struct profile_stream *s, int64_t value, int64_t base); /* of the stack in s->path */
	int (*passed)(struct profile_stream *s, struct err *err); /* after each row; NULL: nothing to do */
	int (*end)(struct profile_stream *s, struct err *err);    /* NULL: nothing to do */
};

struct profile_stream {
	const struct stream_form *form;
	struct profile_stream_options o;
	struct profile_tree *t; /* its frames only */
	struct tree_frames f;
	struct buf out; /* not passed on yet */
	bool begun, compares;
	double base_rest; /* of the base's values: lost by rounding so far */
	/* The value of the label: `grouped` if it is shown. Matches with the patterns. */
	bool grouped;
	uint32_t group;
	uint8_t group_bits;
	/* Frames of one stack, in the order of the output. */
	uint32_t *path;
	size_t n_path, room_path;

	/* output_folded.c */
	struct buf names;                /* of frames, as they are in a line */
	PROFILE_TABLE(uint64_t) name_at; /* of each frame, and one after the last */
	/* output_speedscope.c */
	struct json_writer *json;
	struct buf weights; /* not passed on to o.aside yet */
	uint64_t n_rows;
	int64_t total;
};

int stream_flush(struct profile_stream *s, struct err *err);
/* After each piece of the output. */
int stream_pass_on(struct profile_stream *s, struct err *err);

extern const struct stream_form stream_folded, stream_speedscope;
