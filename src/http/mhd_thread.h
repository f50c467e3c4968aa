/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that runs a daemon of libmicrohttpd.
 *
 * libmicrohttpd's own threads (0.9.75) have a hole: a thread that gets 128 events at once, as many as it asks for, waits
 * for another event before it serves any of them. If no other client asks, 128 clients wait until the idle time-out. Here
 * the thread waits outside of libmicrohttpd, which then only takes bytes that are there.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

struct err;
struct MHD_Connection;
struct MHD_Daemon;

struct mhd_thread {
	struct MHD_Daemon *daemon; /* NULL: the thread was not started */
	pthread_t thread;
	int epoll;              /* the daemon's: readable while the daemon has something to do */
	int event;              /* readable when the thread is to look at the daemon */
	unsigned n_asked;       /* the thread's: requests of the daemon, counted by its receiver */
	atomic_uint n_resuming; /* threads in mhd_thread_resume() */
	atomic_bool stopping;
};

/* Run @daemon, which is the thread's from now on, also on failure. @name is that of the thread. */
int mhd_thread_start(struct mhd_thread *t, struct MHD_Daemon *daemon, const char *name, struct err *err);
/* Resume a connection of the daemon, from any thread; libmicrohttpd alone would not wake the daemon's thread. */
void mhd_thread_resume(struct mhd_thread *t, struct MHD_Connection *c);
/* End the thread and its daemon; all connections are closed. Takes a zeroed one. */
void mhd_thread_stop(struct mhd_thread *t);
