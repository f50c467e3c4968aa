/* SPDX-License-Identifier: Apache-2.0 */
#include "http/thread.h"

#include <sys/eventfd.h>
#include "base/base.h"

#define STACK KIB(256)

int http_thread_start(pthread_t *ret, const char *name, void *(*run)(void *arg), void *arg)
{
	pthread_attr_t attr;
	int r;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	r = pthread_create(ret, &attr, run, arg);
	pthread_attr_destroy(&attr);
	if (r == 0)
		pthread_setname_np(*ret, name);
	return r;
}

void http_event_set(int event)
{
	/* It fails when the counter is full, and then the thread is awake. */
	(void)!eventfd_write(event, 1);
}
