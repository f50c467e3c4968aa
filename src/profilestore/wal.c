/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bound for the WAL.
 *
 * The WAL begins anew only at a moment when no reader has a snapshot. Under queries that overlap each other there
 * is no such moment, so the writer makes one when the WAL is long: it shuts a gate, at which new snapshots wait,
 * and asks the running queries to begin new ones. The writer itself does not wait, but goes on writing, and cuts
 * the WAL off after the batch that finds no snapshot. If a query keeps its snapshot too long, the gate opens again
 * for a while.
 */
#include "base/condition.h"
#include "profilestore/internal.h"

#include <unistd.h>

#define SHUT_MS   50 /* the longest time that readers wait at the gate; the longer the WAL, the longer */
#define SHUT_MOST 40 /* times SHUT_MS */
#define READER_US 500
#define OPEN_MS   100 /* before the gate is shut again, after it was shut in vain */

void wal_init(struct wal_gate *g)
{
	condition_init(&g->changed);
	g->max = MIB(16);
}

void wal_done(struct wal_gate *g)
{
	pthread_cond_destroy(&g->changed);
}

void wal_enter(struct profilestore *s)
{
	pthread_mutex_lock(&s->readers_lock);
	while (s->wal.shut)
		pthread_cond_wait(&s->wal.changed, &s->readers_lock);
	s->wal.n_snapshots++;
	pthread_mutex_unlock(&s->readers_lock);
}

void wal_leave(struct profilestore *s)
{
	pthread_mutex_lock(&s->readers_lock);
	s->wal.n_snapshots--;
	pthread_mutex_unlock(&s->readers_lock);
}

static void set_gate(struct profilestore *s, bool shut)
{
	pthread_mutex_lock(&s->readers_lock);
	s->wal.shut = shut;
	if (!shut)
		pthread_cond_broadcast(&s->wal.changed);
	pthread_mutex_unlock(&s->readers_lock);
}

static bool any_snapshot(struct profilestore *s)
{
	bool any;

	pthread_mutex_lock(&s->readers_lock);
	any = s->wal.n_snapshots != 0;
	pthread_mutex_unlock(&s->readers_lock);
	return any;
}

static void open_gate(struct profilestore *s, int64_t next_ms)
{
	s->wal.next_ms = next_ms;
	set_gate(s, false);
}

bool wal_shut(struct profilestore *s, int64_t wait_ms)
{
	int64_t until_ms = clock_mono_ms() + wait_ms;

	atomic_fetch_add(&s->wal.n_renewals, 1);
	set_gate(s, true);
	while (any_snapshot(s)) {
		if (clock_mono_ms() >= until_ms)
			return false;
		usleep(READER_US);
	}
	return true;
}

void wal_open(struct profilestore *s)
{
	open_gate(s, 0);
}

bool wal_bound(struct profilestore *s, bool end)
{
	struct wal_gate *g = &s->wal;
	int64_t now = clock_mono_ms(), shut_ms;
	uint64_t size, max = atomic_load(&g->max);

	if (!g->shut) {
		size = db_wal_size(s->db);
		if (size <= max || now < g->next_ms || end)
			return false;
		shut_ms = (int64_t)MIN(size / max, (uint64_t)SHUT_MOST) * SHUT_MS;
		g->until_ms = now + shut_ms;
		g->next_ms = now + shut_ms + OPEN_MS;
		atomic_fetch_add(&g->n_renewals, 1);
		set_gate(s, true);
	}
	/* A failure of the disk is reported by the next commit. */
	if (!any_snapshot(s))
		open_gate(s, db_wal_truncate(s->db, 0, NULL) == 0 ? 0 : g->next_ms);
	else if (now >= g->until_ms || end)
		open_gate(s, g->next_ms);
	return g->shut;
}
