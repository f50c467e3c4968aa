/* SPDX-License-Identifier: Apache-2.0 */
#include "base/nice.h"

#include <pthread.h>
#include "base/log.h"
#include "base/pool.h"

struct nice_work {
	int nice;
	void (*fn)(void *arg);
	void *arg;
};

/* The thread has the name of its maker. */
static void *run_nice(void *arg)
{
	const struct nice_work *w = arg;

	if (!thread_set_nice(w->nice))
		log_debug("base", "background work is done at the usual priority");
	w->fn(w->arg);
	return NULL;
}

void nice_call(int nice, void (*fn)(void *arg), void *arg)
{
	struct nice_work w = { nice, fn, arg };
	pthread_t thread;

	if (pthread_create(&thread, NULL, run_nice, &w) == 0)
		pthread_join(thread, NULL);
	else
		fn(arg);
}
