/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making room in a full store: the oldest profiles are deleted, then entries of the metadata store that no profile
 * needs are swept.
 *
 * A profile that meets a limit is held by the writer for some seconds, while grooming makes room. It is refused
 * only if the profiles of the last hour fill the store: those are not deleted for room, so that a flood of new ones
 * cannot replace everything.
 */
#include "profilestore/internal.h"
#include "profilestore/sweep.h"

#define HOUR_MS          3600000
#define FULL_MS          30000 /* after finding nothing to delete: profiles are refused at once */
#define PART             8     /* of the profiles are deleted before the next sweep */
#define SWEEP_LEAST      MIB(4)
#define NEAR(max)        ((max) - (max) / 16 * 3)
#define NEAR_SERIES(max) ((max) - (max) / 16 * 3 - 1)

/* A hash table doubles, which may take more than the room that is kept free. */
static bool memory_is_near(const struct profilestore *s)
{
	uint64_t memory = atomic_load(&s->meta->memory), max = s->meta->max_memory;

	return memory > NEAR(max) || memory + atomic_load(&s->meta->lacked) > max;
}

static bool has_room(const struct profilestore *s)
{
	return !memory_is_near(s) && atomic_load(&s->n_series) <= NEAR_SERIES(s->max_series) &&
	       atomic_load(&s->series_size) <= NEAR(s->max_series_size);
}

/*
 * Of the time and not of the newest profile: while profiles are refused that one stays the newest, and its hour would
 * never end. A clock that has jumped is no reason to delete more, since clock.c doubts it.
 */
int64_t room_keep_ms(int64_t now_ms)
{
	return now_ms - HOUR_MS;
}

/*
 * A sweep without a deletion is worth it if many profiles have gone since the last sweep, or few with many samples: a
 * large profile needs more stacks than many small ones.
 */
static bool sweep_is_due(const struct profilestore *s, uint64_t n_gone)
{
	uint64_t n_samples_gone = atomic_load(&s->n_samples_expired) - s->room.n_samples_swept,
		 n = atomic_load(&s->n_profiles), n_samples = atomic_load(&s->n_samples),
		 part = memory_is_near(s) ? 16 : 2;

	if (!n_gone || atomic_load(&s->meta->memory) < SWEEP_LEAST)
		return false;
	return n_gone >= n / part || n_samples_gone >= n_samples / part;
}

static void ask_for_sweep(struct profilestore *s)
{
	s->room.swept_at = atomic_load(&s->n_expired);
	s->room.n_samples_swept = atomic_load(&s->n_samples_expired);
	s->room.swept = true;
	sweep_ask(s->sweep);
}

static void room_give_up(struct profilestore *s)
{
	atomic_store(&s->room.full_until_ms, clock_mono_ms() + FULL_MS);
	atomic_store(&s->room.wanted, false);
	if (!s->room.told)
		store_notice(s, LOG_WARN,
			     "profiles are refused: those of the last hour, which are not deleted to make "
			     "room, fill the store: %u series of at most %u, with names and labels of %llu "
			     "MiB of at most %llu MiB; %llu MiB of metadata of at most %llu MiB",
			     atomic_load(&s->n_series), s->max_series,
			     (unsigned long long)(atomic_load(&s->series_size) >> 20),
			     (unsigned long long)(s->max_series_size >> 20),
			     (unsigned long long)(atomic_load(&s->meta->memory) >> 20),
			     (unsigned long long)(s->meta->max_memory >> 20));
	s->room.told = true;
}

/* One step of deleting the oldest, by whole hours. */
static int delete_oldest(struct profilestore *s, struct err *err)
{
	const struct series_span span = series_span(s);
	int64_t keep_ms = room_keep_ms(store_time(s).now_ms);
	uint64_t n;

	if (span.first_ms >= keep_ms) {
		room_give_up(s);
		return 0;
	}
	if (expire_oldest(s, &span, keep_ms, &n, err) < 0)
		return -1;
	s->room.n_to_delete -= MIN(n, s->room.n_to_delete);
	return 0;
}

int room_groom(struct profilestore *s, bool *ret_more, struct err *err)
{
	uint64_t n_gone = atomic_load(&s->n_expired) - s->room.swept_at;

	*ret_more = false;
	if (sweep_runs(s->sweep))
		return 0;
	if (!atomic_load(&s->room.wanted)) {
		if (sweep_is_due(s, n_gone))
			ask_for_sweep(s);
		return 0;
	}
	if (has_room(s)) {
		atomic_store(&s->room.wanted, false);
		s->room.swept = s->room.told = false;
		return 0;
	}
	*ret_more = true;
	if (!s->room.n_to_delete && n_gone && !s->room.swept && memory_is_near(s)) {
		*ret_more = false;
		ask_for_sweep(s);
		return 0;
	}
	if (!s->room.n_to_delete)
		s->room.n_to_delete = atomic_load(&s->n_profiles) / PART + 1;
	if (delete_oldest(s, err) < 0)
		return -1;
	if (!s->room.n_to_delete && atomic_load(&s->room.wanted)) {
		/* Series without profiles are removed before the next step. */
		if (memory_is_near(s))
			ask_for_sweep(s);
		s->room.swept = true;
	}
	return 0;
}

void profilestore_on_full(struct profilestore *s, void (*fn)(void *arg), void *arg)
{
	pthread_mutex_lock(&s->readers_lock);
	s->room.fn = fn;
	s->room.arg = arg;
	pthread_mutex_unlock(&s->readers_lock);
}

bool room_wait(struct profilestore *s)
{
	bool waits;

	pthread_mutex_lock(&s->readers_lock);
	waits = s->room.fn && clock_mono_ms() >= atomic_load(&s->room.full_until_ms);
	if (!atomic_exchange(&s->room.wanted, true) && s->room.fn)
		s->room.fn(s->room.arg);
	pthread_mutex_unlock(&s->readers_lock);
	return waits;
}
