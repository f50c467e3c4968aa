/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Callbacks that may fire after their object has ended: the object and its waker point at each other, under
 * one lock.
 */
#include "base/waker.h"

#include <pthread.h>
#include <stdlib.h>
#include "base/mem.h"

struct waker {
	struct waker **at; /* NULL: dropped */
	void (*fn)(void *arg);
	void *arg;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct waker *waker_new(struct waker **at, void (*fn)(void *arg), void *arg)
{
	struct waker *w = NEW(struct waker);

	*w = (struct waker){ at, fn, arg };
	pthread_mutex_lock(&lock);
	*at = w;
	pthread_mutex_unlock(&lock);
	return w;
}

void waker_fire(void *p)
{
	struct waker *w = p;

	pthread_mutex_lock(&lock);
	if (w->at) {
		*w->at = NULL;
		w->fn(w->arg);
	}
	pthread_mutex_unlock(&lock);
	free(w);
}

void waker_free(struct waker **at, struct waker *w)
{
	pthread_mutex_lock(&lock);
	*at = NULL;
	pthread_mutex_unlock(&lock);
	free(w);
}

bool waker_drop(struct waker **at)
{
	bool held;

	pthread_mutex_lock(&lock);
	held = *at != NULL;
	if (held)
		TAKE(*at)->at = NULL;
	pthread_mutex_unlock(&lock);
	return held;
}

bool waker_waits(struct waker **at)
{
	bool waits;

	pthread_mutex_lock(&lock);
	waits = *at != NULL;
	pthread_mutex_unlock(&lock);
	return waits;
}
