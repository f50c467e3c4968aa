/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of naming.
 *
 *   naming   the thread: the binaries that are due, when to start the next round; start and end
 *   attempt  one attempt at one binary, a look or a try: requesting its table, the outcome
 *   batch    names and outcomes on their way to the store
 *   match    the build ID of a file that came without one
 *
 * All but the fields under the lock belongs to the one thread.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include "naming/naming.h"
#include "profile/name.h"

#define NAMING_WAIT_MS   60000
#define NAMING_MAX_TRIES 512u
#define NAMING_MAX_LOOKS 64u     /* at once; each keeps a table in memory */
#define NAMING_BATCH     8192u   /* names written at once */
#define NAMING_TEXTS     MIB(32) /* bytes of texts, or of lines: then the batch is written, too */
#define NAMING_LAST_MS   (60 * 60 * 1000)
#define NAMING_LATER_MS \
	(60 * 1000) /* at most, until packages and the store are read: their end wakes nobody */
/* A binary for which there is nothing, or nothing better, is tried rarely. */
#define NAMING_MISS_FIRST_MS (10 * 60 * 1000)
#define NAMING_MISS_LAST_MS  (24 * 60 * 60 * 1000)

/* How long to wait after the @n_tries'th failure in a row. */
int64_t naming_wait_ms(enum frame_reason reason, bool lacking, uint32_t n_tries, int64_t interval_ms);

/* ---- batch ---- */

struct naming_batch {
	struct profilestore *store;
	struct arena arena; /* of the lists' texts */
	struct profile_frame_texts *frames;
	struct profilestore_name *names;
	size_t n; /* at most NAMING_BATCH */
	struct profilestore_tried *tried;
	size_t n_tried, room_tried;
	uint64_t n_named, n_unnamed;
	uint64_t n_flushes;
	/* since naming_batch_begin(): nothing of the batch was written, the next round repeats it */
	bool failed;
	struct err err;
};
void naming_batch_init(struct naming_batch *p, struct profilestore *store);
void naming_batch_done(struct naming_batch *p);
void naming_batch_begin(struct naming_batch *p);
/* The caller makes sure that naming_batch_room() is more than 0. */
size_t naming_batch_room(const struct naming_batch *p);
void naming_batch_name(struct naming_batch *p, uint64_t location, const struct tables_answer *a);
void naming_batch_tried(struct naming_batch *p,
			const struct profilestore_tried *t); /* its texts are copied; at_ms 0: now */
/* Write all that was put so far, durably. false: it failed. */
bool naming_batch_flush(struct naming_batch *p);
/* No attempt has more names for now: free the texts that were kept. After a flush. */
void naming_batch_rest(struct naming_batch *p);

/* ---- attempt ---- */

/*
 * A look applies the table at hand to new locations: it never waits, and never gives the binary another table.
 * A try searches for a table, or a better one: it may wait long. A binary may have one of each.
 */
struct naming_attempt {
	struct naming *n;
	struct naming_attempt *next;
	struct naming_attempt_key {
		uint32_t binary, is_look;
	} key;
	uint32_t n_tries, n_wakes, reason; /* as they were */
	uint64_t n_added;
	struct build_id id;
	bool by_path;
	struct tables_request *request;
	int64_t from_ms;
	int64_t refused_ms; /* the wait after the try before, if that was refused memory; at most 0: it was not */
	bool refused;       /* memory for one of its addresses */
	enum frame_reason unnamed; /* of the first location without a name so far */
	enum frame_reason lacks;   /* of the first with a name, but not with all names or calls */
	uint64_t put_at;           /* batch.n_flushes + 1, when it put names into the batch */
};
/*
 * Start an attempt. It will be in n->ready; or there is nothing to wait for, and its outcome was put at once.
 */
void naming_look_start(struct naming *n, const struct profilestore_binary *b);
void naming_try_start(struct naming *n, const struct profilestore_binary *b);
/*
 * Its request is ready: put the next names, at most a batch of them, or the outcome. false: call it again, after
 * other attempts had their turn.
 */
bool naming_attempt_step(struct naming_attempt *t);
struct naming_attempt *naming_attempt_of(struct naming *n, uint32_t binary, bool is_look); /* NULL: none */
void naming_attempt_free(struct naming_attempt *t);

/* ---- match ---- */

enum {
	MATCH_NONE = 1,  /* @why has the reason */
	MATCH_LATER = 2, /* it could not be searched to the end, likewise */
};
/* @was_found: a file was found before. It is found also while packages are unread, which may have others of that path. */
int match_file(struct resolver *r, struct str path, bool was_found, struct build_id *ret, char *why,
	       size_t why_size);
/* All these addresses are in code of that file. */
bool match_holds(const struct frame_layout *l, const struct profilestore_unnamed *list, size_t n);

/* ---- naming ---- */

/* From any thread: the request of @t is ready. */
void naming_queue(struct naming *n, struct naming_attempt *t);

struct naming {
	struct naming_options opts;
	pthread_t thread;
	bool started;
	/* of the thread */
	struct map attempts; /* struct naming_attempt_key -> struct naming_attempt */
	unsigned n_looks;
	struct naming_batch batch;
	int64_t next_round_ms, not_before_ms;
	int64_t match_spent_ms; /* looking up paths, since the last rest */
	int64_t match_after_ms; /* the end of that rest */
	struct profilestore_unnamed *unnamed;
	struct tables_query *queries;
	struct frame_mapping *maps; /* NAMING_BATCH of each of the three */

	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* under the lock */
	struct naming_attempt *ready, **ready_last; /* a queue */
	bool kicked, stopping;
	unsigned n_waking; /* threads in naming_wake() or naming_kick() */

	atomic_uint n_running;
	atomic_uint_fast64_t n_named, n_unnamed, n_tries, n_failed;
};
