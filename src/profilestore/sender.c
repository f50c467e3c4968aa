/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shares of senders: no sender's labels and stacks use up the series and the metadata of all.
 *
 * A sender counts the series that began with its profiles, the memory of their names and labels, and that of the metadata
 * that they brought. As long as less than half of a limit is in use, it may have as much as it needs. After that it may have
 * its share, or, if others have next to nothing, all but an eighth. All of this is the writer's.
 */
#include "profilestore/internal.h"

#include <stdlib.h>

#define MAX_SENDERS 10000u /* further ones count as one */
#define OTHERS      STR("(others)")

struct sender *sender_of(struct profilestore *s, struct str name)
{
	struct sender *x;

	if (!name.size)
		return NULL;
	x = map_get(&s->senders, bytes_of(name.p, name.size));
	if (x)
		return x;
	if (s->senders.n >= MAX_SENDERS && !str_eq(name, OTHERS))
		return sender_of(s, OTHERS);
	x = NEW(struct sender);
	x->name = mem_strndup(name.p, name.size);
	map_put(&s->senders, bytes_of(name.p, name.size), x);
	return x;
}

void senders_done(struct profilestore *s)
{
	struct bytes key;
	void *v;

	map_each (&s->senders, it, &key, &v) {
		struct sender *x = v;

		free(x->name);
		free(x);
	}
	map_done(&s->senders);
}

/* How much of @max a sender may have that has @used of the @all in use. *ret_alone: others have next to nothing. */
static uint64_t share_of(const struct profilestore *s, uint64_t used, uint64_t all, uint64_t max,
			 bool *ret_alone)
{
	*ret_alone = all - MIN(used, all) < max / 16;
	if (all < max / 2 || s->sender_share >= 100)
		return max;
	return *ret_alone ? max - max / 8 : max / 100 * s->sender_share + max % 100 * s->sender_share / 100;
}

bool sender_may_add_series(struct profilestore *s, struct err *err)
{
	struct sender *x = s->sender;
	uint64_t share;
	bool alone;

	if (!x)
		return true;
	share = share_of(s, x->n_series, atomic_load(&s->n_series), s->max_series, &alone);
	if (x->n_series < share)
		return true;
	s->share_met = !alone;
	series_err_limit(s, x, alone, err);
	return false;
}

bool sender_may_add_labels(struct profilestore *s, uint64_t size, struct err *err)
{
	struct sender *x = s->sender;
	bool alone;

	if (!x || x->series_size + size <= share_of(s, x->series_size, atomic_load(&s->series_size),
						    s->max_series_size, &alone))
		return true;
	s->share_met = !alone;
	(void)err_set(
		err, ERR_LIMIT,
		"the names and labels of the sender '%s' have %llu KiB, its share of the %llu MiB for all "
		"series: use fewer or shorter labels%s",
		x->name, (unsigned long long)(x->series_size >> 10),
		(unsigned long long)(s->max_series_size >> 20),
		alone ? "" : ", or raise --profiles-sender-share");
	err->os = PROFILESTORE_TOO_MANY_SERIES;
	return false;
}

void sender_begin(struct profilestore *s, struct str name)
{
	struct meta *m = s->meta;
	uint64_t memory = atomic_load(&m->memory), share;

	s->share_met = s->metadata_alone = false;
	s->sender = sender_of(s, name);
	if (!s->sender)
		return;
	share = share_of(s, s->sender->metadata, memory, m->max_memory, &s->metadata_alone);
	if (share < m->max_memory)
		m->ceiling = MIN(memory + share - MIN(s->sender->metadata, share), m->max_memory);
	s->sender->begun_at = memory;
}

bool sender_is_limited(const struct profilestore *s)
{
	return s->sender && s->meta->ceiling && s->meta->ceiling < s->meta->max_memory;
}

void sender_err(struct profilestore *s, struct err *err)
{
	s->share_met = !s->metadata_alone;
	(void)err_set(err, ERR_LIMIT,
		      "the sender '%s' has %llu MiB of metadata, its share of the %llu MiB that there may "
		      "be; if it needs "
		      "more, raise --profiles-sender-share",
		      s->sender->name, (unsigned long long)(s->sender->metadata >> 20),
		      (unsigned long long)(s->meta->max_memory >> 20));
}

void sender_end(struct profilestore *s)
{
	uint64_t memory = atomic_load(&s->meta->memory);

	s->meta->ceiling = 0;
	if (s->sender && memory > s->sender->begun_at) {
		s->sender->metadata += memory - s->sender->begun_at;
		s->sender->unsaved = s->senders_unsaved = true;
	}
	s->sender = NULL;
}

void senders_swept(struct profilestore *s, uint64_t was, uint64_t is)
{
	struct bytes key;
	void *v;

	map_each (&s->senders, it, &key, &v) {
		struct sender *x = v;

		x->metadata = (uint64_t)((double)x->metadata * (double)is / (double)MAX(was, UINT64_C(1)));
		x->unsaved = s->senders_unsaved = true;
	}
}

void senders_unsave(struct profilestore *s)
{
	struct bytes key;
	void *v;

	map_each (&s->senders, it, &key, &v)
		((struct sender *)v)->unsaved = s->senders_unsaved = true;
}

int senders_write(struct profilestore *s, struct err *err)
{
	struct db_stmt *st;
	struct bytes key;
	void *v;

	if (!s->senders_unsaved)
		return 0;
	map_each (&s->senders, it, &key, &v) {
		struct sender *x = v;

		if (!x->unsaved)
			continue;
		if (db_prepare(s->db, "INSERT OR REPLACE INTO sender VALUES (?, ?)", &st, err) < 0)
			return -1;
		db_bind_bytes(st, 1, key);
		db_bind_i64(st, 2, (int64_t)x->metadata);
		if (db_step(st, err) < 0)
			return -1;
		/* If the transaction fails, the next growth writes it. */
		x->unsaved = false;
	}
	s->senders_unsaved = false;
	return 0;
}

int senders_load(struct profilestore *s, struct err *err)
{
	struct db_stmt *st;
	int r;

	if (db_prepare(s->db, "SELECT name, metadata FROM sender", &st, err) < 0)
		return -1;
	while ((r = db_step(st, err)) == DB_ROW) {
		struct sender *x = sender_of(s, db_str(st, 0));

		if (x)
			x->metadata = (uint64_t)MAX(db_i64(st, 1), INT64_C(0));
	}
	return r;
}
