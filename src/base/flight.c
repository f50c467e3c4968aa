/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single flight: a map from keys to the objects in flight, under one mutex.
 */
#include "base/flight.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include "base/map.h"
#include "base/mem.h"

struct flight_table {
	pthread_mutex_t lock;
	struct map map; /* under the lock; leaders keep the objects alive */
};

struct flight_table *flight_new(void)
{
	struct flight_table *t = NEW(struct flight_table);

	pthread_mutex_init(&t->lock, NULL);
	return t;
}

void flight_free(struct flight_table *t)
{
	if (!t)
		return;
	assert(!t->map.n);
	map_done(&t->map);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

void *flight_join(struct flight_table *t, struct bytes key, void *(*make)(void *arg), void *arg,
		  void (*take)(void *obj), bool *ret_leader)
{
	void *obj;

	pthread_mutex_lock(&t->lock);
	obj = map_get(&t->map, key);
	*ret_leader = !obj;
	if (obj) {
		take(obj);
	} else {
		obj = make(arg);
		map_put(&t->map, key, obj);
	}
	pthread_mutex_unlock(&t->lock);
	return obj;
}

void flight_land(struct flight_table *t, struct bytes key)
{
	void *obj;

	pthread_mutex_lock(&t->lock);
	obj = map_del(&t->map, key);
	pthread_mutex_unlock(&t->lock);
	assert(obj);
}
