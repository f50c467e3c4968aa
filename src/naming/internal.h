/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of naming share.
 *
 *   naming   the thread: whose turn it is, when to look again; beginning and end
 *   try      one attempt at one binary: asking for its table, what came of it
 *   scribe   names and outcomes on their way to the store, in batches
 *   match    which build ID a file has that came without
 *
 * All but the lists under the lock belongs to the one thread.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include "naming/naming.h"
#include "profile/name.h"

#define NAMING_WAIT_MS   60000
#define NAMING_MAX_TRIES 512u
#define NAMING_BATCH     8192u   /* names that are written at once */
#define NAMING_TEXTS     MIB(32) /* of them; then they are written, too */
#define NAMING_LAST_MS   (60 * 60 * 1000)
/* Who really has nothing, or nothing better, is asked rarely. */
#define NAMING_MISS_FIRST_MS (10 * 60 * 1000)
#define NAMING_MISS_LAST_MS  (24 * 60 * 60 * 1000)

/* How long to wait behind the @n_tries'th failure in a row. */
int64_t naming_wait_ms(enum frame_reason reason, bool lacking, uint32_t n_tries, int64_t interval_ms);

/* ---- scribe ---- */

struct naming_batch {
	struct profilestore *store;
	struct arena arena; /* of what is in the lists */
	struct profile_frame_texts *frames;
	struct profilestore_name *names;
	size_t n; /* at most NAMING_BATCH */
	struct profilestore_tried *tried;
	size_t n_tried, room_tried;
	uint64_t n_named, n_unnamed;
	bool failed; /* since naming_batch_begin(): nothing of it was written, the next look does it again */
	struct err err;
};
void naming_batch_init(struct naming_batch *p, struct profilestore *store);
void naming_batch_done(struct naming_batch *p);
void naming_batch_begin(struct naming_batch *p);
/* There is room: naming_batch_room() is more than 0. */
size_t naming_batch_room(const struct naming_batch *p);
void naming_batch_name(struct naming_batch *p, uint32_t location, const struct tables_answer *a);
void naming_batch_tried(struct naming_batch *p,
			const struct profilestore_tried *t); /* its texts are copied */
/* All that was put so far, durably. false: it failed. */
bool naming_batch_flush(struct naming_batch *p);

/* ---- try ---- */

struct attempt {
	struct naming *n;
	struct attempt *next;
	uint32_t binary;
	uint32_t n_tries, n_wakes, reason; /* as it was */
	struct build_id id;
	bool by_path;
	struct tables_request *request;
	int64_t from_ms;
};
/* It will be among n->ready; or there was nothing to be waited for, and what came of it was put. */
void try_start(struct naming *n, const struct profilestore_binary *b);
/* Its table is there, or why not: names and outcome are put. */
void try_end(struct attempt *t);
void try_free(struct attempt *t);

/* ---- match ---- */

enum { MATCH_NONE = 1 }; /* @why says more */
int match_file(struct resolver *r, struct str path, struct build_id *ret, char *why, size_t why_size);
/* Are these addresses in code of that file? */
bool match_holds(const struct frame_layout *l, const struct profilestore_unnamed *list, size_t n);

/* ---- naming ---- */

struct naming {
	struct naming_options opts;
	pthread_t thread;
	bool started;
	/* the thread's */
	struct map flying; /* binary -> struct attempt */
	struct naming_batch batch;
	int64_t next_look_ms, not_before_ms;
	struct profilestore_unnamed *unnamed;
	struct tables_query *queries;
	struct frame_mapping *maps; /* NAMING_BATCH of each of the three */

	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* under the lock */
	struct attempt *ready;
	bool kicked, stopping;
	unsigned n_waking; /* who is in naming_wake() or naming_kick() */

	atomic_uint n_flying;
	atomic_uint_fast64_t n_named, n_unnamed, n_tries, n_failed;
};
