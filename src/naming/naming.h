/* SPDX-License-Identifier: Apache-2.0 */
/*
 * naming: the asynchronous symbolizer. Profiles come in as bare addresses and are stored at once; this fills
 * the names in behind.
 *
 * One thread takes the binaries of the profile store whose turn it is, asks the symbolizer for the table of
 * each, and writes the names of all that is wanted of it, and what came of the try, in batches. It looks at
 * once when something came in or turned up (naming_kick(), naming_wake()), when the time of a next try has
 * come, and every interval. Who fails is tried again later and later; what lies in the profile store says
 * where that was, so that it may be stopped, or killed, anywhere.
 *
 * How many tables are asked for at once is bounded, and the symbolizer asks for each once. No try waits for
 * another.
 */
#pragma once

#include "profilestore/names.h"
#include "tables/tables.h"

struct naming;

struct naming_options {
	/* borrowed; NULL: nothing is named, and naming_wake() only tells the symbolizer */
	struct profilestore *store;
	struct tables *tables; /* borrowed */
	/* borrowed; finds the build ID of what has none by its path; NULL: nobody does */
	struct resolver *resolver;
	int64_t interval_ms; /* to look again, and the first wait of who failed. 0: 10 s */
	int64_t wait_ms;     /* how long a try waits for its table before it begins again. 0: 60 s */
	unsigned max_tries;  /* tables that are asked for at once. 0: 512 */
};
#define NAMING_INTERVAL_MS 10000

struct naming *naming_new(const struct naming_options *o);
/* Its thread; all that it borrows is there from now on. */
int naming_start(struct naming *n, struct err *err);
/*
 * No more tries; naming_kick() and naming_wake() do nothing any more, and what they did is done. After
 * tables_stop(), else it waits for tables that are being made. What it borrows may go then. Takes NULL.
 */
void naming_stop(struct naming *n);
void naming_free(struct naming *n); /* takes NULL */

/* All from any thread, and quick. */

/* Something came in. */
void naming_kick(struct naming *n);
/*
 * Something new is here for this build ID, and for what has none, @file (empty: not known): what wants names
 * in it is tried now. @replaced: the file that was here before has become another. What is new may turn out
 * to be no better: then nothing changes.
 */
unsigned naming_wake(struct naming *n, const struct build_id *id, struct str file, bool replaced);

struct naming_stats {
	uint64_t n_named, n_unnamed; /* locations that were looked up, with and without success */
	uint64_t n_tries, n_failed;  /* binaries */
	unsigned n_flying;           /* that are being tried */
};
void naming_stats(struct naming *n, struct naming_stats *ret);
