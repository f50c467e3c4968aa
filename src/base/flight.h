/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single flight: of those who want the same thing at once, one does the work and the others get its result.
 *
 * flight_join() makes the first caller of a key its leader. Everybody, the leader too, gets a reference to
 * the shared object that the leader's `make` callback made under the lock (make must be cheap: it allocates,
 * it does not work). The table knows only who is in the air; how followers wait for or follow the leader's
 * progress is the object's own affair.
 */
#pragma once

#include <stdbool.h>
#include "base/view.h"

struct flight_table;

struct flight_table *flight_new(void);
void flight_free(struct flight_table *t); /* must be empty */
/* The object in the air under @key, after take(obj) was called on it under the lock; or the one that
 * make(arg) returns, and *ret_leader. */
void *flight_join(struct flight_table *t, struct bytes key, void *(*make)(void *arg), void *arg,
		  void (*take)(void *obj), bool *ret_leader);
/*
 * The leader is through: later callers start anew. Call it once, after the result can be found elsewhere. The
 * table has no reference of its own: the leader keeps the one that make() gave it until this is done.
 */
void flight_land(struct flight_table *t, struct bytes key);
