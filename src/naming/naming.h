/* SPDX-License-Identifier: Apache-2.0 */
/*
 * naming: names for stored profiles, in the background. Profiles come in as bare addresses and are stored at
 * once; this fills in the names afterwards.
 *
 * One thread takes the binaries of the profile store that are due, applies the table at hand to new locations,
 * or requests the best table that there is from `tables`, and writes the names of all wanted locations, and the
 * outcome, in batches. A round starts at once when a
 * profile came in or a file turned up (naming_kick(), naming_wake()), when a next try is due, and every
 * interval. After a failure a binary is tried at growing intervals. All state is in the profile store, so the
 * thread may be stopped, or killed, anywhere.
 *
 * The number of tables requested at once is bounded, and `tables` builds each once. No attempt waits for
 * another; those that have many locations take turns.
 */
#pragma once

#include "profilestore/names.h"
#include "tables/tables.h"

struct naming;

struct naming_options {
	/* borrowed; NULL: nothing is named, and naming_wake() only renews the tables */
	struct profilestore *store;
	struct tables *tables; /* borrowed */
	/*
	 * borrowed; finds the build ID of a binary without one by its path; NULL: such binaries get no names
	 */
	struct resolver *resolver;
	int64_t interval_ms; /* between rounds, and the first wait after a failure. 0: 10 s */
	int64_t wait_ms;     /* how long an attempt waits for its table before it starts again. 0: 60 s */
	unsigned max_tries;  /* tables requested at once. 0: 512 */
};
#define NAMING_INTERVAL_MS 10000

struct naming *naming_new(const struct naming_options *o);
/* Start its thread; all that it borrows must be there from now on. */
int naming_start(struct naming *n, struct err *err);
/*
 * Make no more attempts. naming_kick() and naming_wake() do nothing from now on, and calls that were running
 * have ended. Call it after tables_stop(), else it waits for tables that are being built. The objects that it
 * borrows may go then. Takes NULL.
 */
void naming_stop(struct naming *n);
void naming_free(struct naming *n); /* takes NULL */

/* All from any thread, and quick. */

/* A profile came in. */
void naming_kick(struct naming *n);
/*
 * A file is new here for this build ID and, for binaries without one, at the path @file (empty: not known):
 * the binaries that want names from it, also as a supplementary file, are tried now. @replaced: the file that was
 * here before has become another. If the new file is no better, nothing changes. Returns the number of binaries
 * that were woken.
 */
unsigned naming_wake(struct naming *n, const struct build_id *id, struct str file, bool replaced);

struct naming_stats {
	uint64_t n_named, n_unnamed; /* locations that were looked up, with and without success */
	uint64_t n_tries, n_failed;  /* binaries */
	unsigned n_running;          /* that are being tried */
};
void naming_stats(struct naming *n, struct naming_stats *ret);
