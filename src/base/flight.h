/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single flight: of several callers that want the same result at once, one does the work and the others share
 * its result.
 *
 * flight_join() makes the first caller of a key its leader. Every caller, including the leader, gets a
 * reference to the shared object, which the leader's `make` callback created under the lock (make must be
 * cheap: it allocates, it does not work). The table knows only which objects are in flight; how followers
 * wait for the leader or follow its progress is up to the object.
 */
#pragma once

#include <stdbool.h>
#include "base/view.h"

struct flight_table;

struct flight_table *flight_new(void);
void flight_free(struct flight_table *t); /* must be empty */
/* Returns the object in flight under @key, after take(obj) was called on it under the lock; or a new one from
 * make(arg), with *ret_leader set. */
void *flight_join(struct flight_table *t, struct bytes key, void *(*make)(void *arg), void *arg,
		  void (*take)(void *obj), bool *ret_leader);
/*
 * The leader has finished: later callers start anew. Call it once, after the result can be found elsewhere.
 * The table has no reference of its own: the leader keeps the one from make() until this returns.
 */
void flight_land(struct flight_table *t, struct bytes key);
