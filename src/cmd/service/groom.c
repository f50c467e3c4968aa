/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that sums up old profiles and removes the oldest.
 */
#include "cmd/service/groom.h"

#include <pthread.h>
#include <stdlib.h>
#include "base/condition.h"
#include "base/nice.h"

#define EVERY_MS  10000 /* after a step that found nothing to do */
#define NICE      10
#define FAILED_MS 60000

struct groomer {
	struct profilestore *profiles;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool stop, full; /* under the lock */
	int64_t wait_ms; /* until the next step */
};

/* Called when the store is full. */
static void on_full(void *arg)
{
	struct groomer *g = arg;

	pthread_mutex_lock(&g->lock);
	g->full = true;
	pthread_cond_broadcast(&g->changed);
	pthread_mutex_unlock(&g->lock);
}

/* Wait for the next step. Returns whether to stop. */
static bool groomer_pause(struct groomer *g, int64_t wait_ms)
{
	int64_t end = clock_mono_ms() + wait_ms, left;
	bool stop;

	pthread_mutex_lock(&g->lock);
	while (!g->stop && !g->full && (left = end - clock_mono_ms()) > 0)
		condition_wait(&g->changed, &g->lock, left);
	g->full = false;
	stop = g->stop;
	pthread_mutex_unlock(&g->lock);
	return stop;
}

/* Steps until one finds nothing to do. */
static void run_groom_steps(void *arg)
{
	struct groomer *g = arg;

	do {
		struct err err = { 0 };
		bool more = false;

		g->wait_ms = EVERY_MS;
		if (profilestore_groom(g->profiles, &more, &err) < 0) {
			log_warn("serve",
				 "profiles could not be summed up, this is tried again in a minute: %s",
				 err.text);
			g->wait_ms = FAILED_MS;
		} else if (more) {
			g->wait_ms = 0;
		}
	} while (!g->wait_ms && !groomer_pause(g, 0));
}

static void *groomer_run(void *arg)
{
	struct groomer *g = arg;

	pthread_setname_np(pthread_self(), "lode-groom");
	while (!groomer_pause(g, g->wait_ms)) {
		nice_call(NICE, run_groom_steps, g);
		/* Profiles and queries leave blocks of the tables between free ones. */
		mem_return_now();
	}
	return NULL;
}

int groomer_start(struct profilestore *profiles, struct groomer **ret, struct err *err)
{
	struct groomer *g = NEW(struct groomer);
	int r;

	g->profiles = profiles;
	pthread_mutex_init(&g->lock, NULL);
	condition_init(&g->changed);
	r = pthread_create(&g->thread, NULL, groomer_run, g);
	if (r) {
		pthread_mutex_destroy(&g->lock);
		pthread_cond_destroy(&g->changed);
		free(g);
		return err_os(err, r, "no thread for old profiles");
	}
	profilestore_on_full(profiles, on_full, g);
	*ret = g;
	return 0;
}

void groomer_stop(struct groomer *g)
{
	if (!g)
		return;
	profilestore_on_full(g->profiles, NULL, NULL);
	pthread_mutex_lock(&g->lock);
	g->stop = true;
	pthread_cond_broadcast(&g->changed);
	pthread_mutex_unlock(&g->lock);
	pthread_join(g->thread, NULL);
	pthread_mutex_destroy(&g->lock);
	pthread_cond_destroy(&g->changed);
	free(g);
}
