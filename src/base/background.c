/* SPDX-License-Identifier: Apache-2.0 */
#include "base/background.h"

#include <pthread.h>
#include <stdlib.h>
#include "base/condition.h"
#include "base/nice.h"

#define FIRST_MS INT64_C(60000)
#define EVERY_MS (INT64_C(24) * 3600 * 1000)
#define NICENESS 19
#define IDLE     3 /* for each second of work it rests for so many */

struct background {
	const char *name, *module;
	int (*pass)(struct background *b, void *arg, struct err *err);
	void *arg;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool stop;          /* under the lock */
	int64_t started_ms; /* the current piece */
};

bool background_rest(struct background *b)
{
	bool stop = condition_pause(&b->changed, &b->lock, &b->stop,
				    (clock_mono_ms() - b->started_ms) * IDLE);

	b->started_ms = clock_mono_ms();
	return stop;
}

static void run_pass(void *arg)
{
	struct background *b = arg;
	struct err err = { 0 };

	b->started_ms = clock_mono_ms();
	if (b->pass(b, b->arg, &err) < 0 && err.kind != ERR_CANCELLED)
		log_warn(b->module, "background check: %s", err.text);
}

static void *background_run(void *arg)
{
	struct background *b = arg;
	int64_t wait_ms = FIRST_MS;

	pthread_setname_np(pthread_self(), b->name);
	while (!condition_pause(&b->changed, &b->lock, &b->stop, wait_ms)) {
		nice_call(NICENESS, run_pass, b);
		wait_ms = EVERY_MS;
	}
	return NULL;
}

struct background *background_start(const char *name, const char *module,
				    int (*pass)(struct background *b, void *arg, struct err *err), void *arg)
{
	struct background *b = NEW(struct background);

	b->name = name;
	b->module = module;
	b->pass = pass;
	b->arg = arg;
	pthread_mutex_init(&b->lock, NULL);
	condition_init(&b->changed);
	if (pthread_create(&b->thread, NULL, background_run, b) == 0)
		return b;
	pthread_cond_destroy(&b->changed);
	pthread_mutex_destroy(&b->lock);
	free(b);
	return NULL;
}

void background_stop(struct background *b)
{
	if (!b)
		return;
	pthread_mutex_lock(&b->lock);
	b->stop = true;
	pthread_cond_signal(&b->changed);
	pthread_mutex_unlock(&b->lock);
	pthread_join(b->thread, NULL);
	pthread_cond_destroy(&b->changed);
	pthread_mutex_destroy(&b->lock);
	free(b);
}
