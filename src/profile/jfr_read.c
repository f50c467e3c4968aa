/* SPDX-License-Identifier: Apache-2.0 */
/* A recording: its chunks one after the other, and the profiles at the end. */
#include "profile/jfr_read.h"

#include <stdlib.h>

static int read_events(struct jfr_reader *r, struct err *err)
{
	struct jfr_event e;
	uint32_t off = JFR_HEADER_SIZE;
	int done;

	while ((done = jfr_event_next(r, &off, &e, err)) == 0) {
		const struct jfr_type *t = jfr_type_of(r, e.type_id);

		if (t && t->event && jfr_event_take(r, t, &e, err) < 0)
			return err_in(err, "event " STR_FMT " at byte %u",
				      STR_ARG(jfr_type_name(r, jfr_type_of(r, e.type_id))), e.off);
	}
	return done < 0 ? -1 : 0;
}

/* 1: there is nothing of it that can be read, since its writer did not get so far. */
static int read_chunk_parts(struct jfr_reader *r, struct bytes in, uint64_t *ret_size, struct err *err)
{
	if (jfr_chunk_open(r, in, ret_size, err) < 0)
		return -1;
	if (r->unfinished)
		r->n_unfinished = r->number;
	if (!r->metadata && r->unfinished)
		return 1;
	if (!r->metadata)
		return err_set(err, ERR_INVALID, "it has no metadata");
	if (jfr_types_read(r, err) < 0 || jfr_pools_read(r, err) < 0)
		return -1;
	jfr_frames_start(r);
	return read_events(r, err);
}

static int read_chunks(struct jfr_reader *r, struct bytes in, struct err *err)
{
	unsigned n_read = 0;

	while (in.size) {
		uint64_t size = 0;
		int done = read_chunk_parts(r, in, &size, err);

		if (done < 0)
			return err_in(err, "chunk %u", r->number);
		n_read += done == 0;
		in = bytes_of(in.p + size, in.size - size);
	}
	if (!n_read)
		return err_set(err, ERR_INVALID,
			       "is an unfinished recording without metadata: stop it (jcmd PID JFR.stop), or "
			       "write a copy with jcmd PID JFR.dump");
	return 0;
}

static int read_labels_part(struct jfr_reader *r, struct buf *room, struct err *err)
{
	struct bytes in = r->options->labels;

	if (!in.size)
		return 0;
	if (profile_unpack(&in, r->limits, room, err) < 0 || jfr_labels_read(r, in, err) < 0)
		return err_in(err, "its labels");
	return 0;
}

static void jfr_reader_done(struct jfr_reader *r)
{
	for (uint32_t i = 0; i < JFR_MAX_KINDS; i++) {
		if (r->targets[i].p)
			jfr_target_done(&r->targets[i]);
		profile_free(r->targets[i].p);
	}
	for (uint32_t i = 0; i < JFR_N_POOLS; i++) {
		profile_table_free(r->room, &r->pools[i].list);
		free(r->pools[i].by_key.slots);
	}
	profile_table_free(r->room, &r->labels.contexts);
	profile_table_free(r->room, &r->labels.strings);
	profile_table_free(r->room, &r->checkpoints);
	profile_table_free(r->room, &r->strings);
	profile_table_free(r->room, &r->types);
	profile_table_free(r->room, &r->fields);
	profile_table_free(r->room, &r->ops);
	profile_table_free(r->room, &r->lines);
	profile_table_free(r->room, &r->locations);
	buf_done(&r->text);
	buf_done(&r->name);
	profile_free(r->room);
	free(r);
}

int profile_read_jfr(struct bytes in, const struct profile_limits *limits, const struct jfr_options *options,
		     struct profile_sink sink, struct err *err)
{
	AUTO(buf_done) struct buf labels = { 0 };
	struct jfr_reader *r = NEW(struct jfr_reader);
	int done;

	r->limits = limits;
	r->options = options;
	r->room = profile_new(limits);
	r->seed = profile_index_of(r->room)->seed;
	done = read_labels_part(r, &labels, err);
	if (done == 0)
		done = read_chunks(r, in, err);
	if (done == 0)
		done = jfr_events_end(r, sink, err);
	jfr_reader_done(r);
	profile_unpack_done(limits, &labels);
	return done;
}
