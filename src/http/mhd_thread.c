/* SPDX-License-Identifier: Apache-2.0 */
#include "http/mhd_thread.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "base/base.h"
#include "http/mhd_lazy.h"
#include "http/thread.h"

#define BUSY 2 /* requests in a turn */

/* Until the daemon has something to do, or the thread is woken. */
static void wait_for_events(struct mhd_thread *t)
{
	struct pollfd fds[] = { { t->epoll, POLLIN, 0 }, { t->event, POLLIN, 0 } };
	MHD_UNSIGNED_LONG_LONG ms;
	eventfd_t n;
	int timeout = -1;

	if (MHD_get_timeout(t->daemon, &ms) == MHD_YES)
		timeout = (int)MIN(ms, (MHD_UNSIGNED_LONG_LONG)INT_MAX);
	if (timeout == 0)
		return;
	if (poll(fds, ARRAY_SIZE(fds), timeout) > 0 && fds[1].revents)
		(void)!eventfd_read(t->event, &n);
}

static void *run_daemon(void *arg)
{
	struct mhd_thread *t = arg;
	unsigned seen = 0;
	sigset_t pipe;

	/* As libmicrohttpd does it in threads of its own, see MHD_OPTION_SIGPIPE_HANDLED_BY_APP in mhd.c. */
	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &pipe, NULL);
	while (!atomic_load_explicit(&t->stopping, memory_order_relaxed)) {
		/* While several ask at once, the next ones are mostly there already. */
		if (t->n_asked - seen < BUSY)
			wait_for_events(t);
		seen = t->n_asked;
		MHD_run(t->daemon);
	}
	return NULL;
}

static int start_running(struct mhd_thread *t, const char *name, struct err *err)
{
	const union MHD_DaemonInfo *info = MHD_get_daemon_info(t->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	int r;

	t->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!info || t->event < 0)
		return err_os(err, errno, "no event for an HTTP thread");
	t->epoll = info->epoll_fd;
	r = http_thread_start(&t->thread, name, run_daemon, t);
	return r ? err_os(err, r, "no thread for HTTP") : 0;
}

int mhd_thread_start(struct mhd_thread *t, struct MHD_Daemon *daemon, const char *name, struct err *err)
{
	*t = (struct mhd_thread){ .daemon = daemon };
	if (start_running(t, name, err) < 0) {
		MHD_stop_daemon(daemon);
		if (t->event >= 0)
			close(t->event);
		t->daemon = NULL;
		return -1;
	}
	return 0;
}

void mhd_thread_resume(struct mhd_thread *t, struct MHD_Connection *c)
{
	/* The connection may be gone as soon as it is resumed, but not the thread. */
	atomic_fetch_add(&t->n_resuming, 1);
	MHD_resume_connection(c);
	http_event_set(t->event);
	atomic_fetch_sub(&t->n_resuming, 1);
}

void mhd_thread_stop(struct mhd_thread *t)
{
	if (!t->daemon)
		return;
	atomic_store(&t->stopping, true);
	http_event_set(t->event);
	pthread_join(t->thread, NULL);
	while (atomic_load(&t->n_resuming))
		sched_yield();
	MHD_stop_daemon(t->daemon);
	close(t->event);
	t->daemon = NULL;
}
