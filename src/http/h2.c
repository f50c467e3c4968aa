/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/2's threads. Each waits for the listening sockets, for its own connections, and to be woken by other threads.
 */
#include "http/h2.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include "http/listen.h"
#include "http/thread.h"

#define EVENTS   64
#define ACCEPTS  16      /* connections that are accepted in one turn */
#define IN_SIZE  KIB(64) /* bytes that are read at once */
#define IN_TURNS 4       /* reads of one connection, before others have their turn */
#define SWEEP_MS 500

struct h2_functions h2_functions;

int h2_load(struct err *err)
{
	static const char *const names[] = { H2_FUNCTIONS(LAZY_NAME) };
	static struct lazy lib = LAZY_INIT;

	return lazy_load(&lib, "libnghttp2.so.14", "libnghttp2-14", names, &h2_functions, ARRAY_SIZE(names),
			 err);
}

void h2_wake(struct h2_thread *t)
{
	if (t->event >= 0)
		http_event_set(t->event);
}

/* ---- a connection's socket ---- */

/* A connection whose client does not read is not read from: its replies would pile up. */
static void set_events(struct h2_conn *c, bool wants_out)
{
	struct epoll_event e = { .events = wants_out ? EPOLLOUT : EPOLLIN, .data.ptr = c };

	if (c->wants_out != wants_out)
		epoll_ctl(c->thread->epoll, EPOLL_CTL_MOD, c->fd, &e);
	c->wants_out = wants_out;
}

static void set_unsent(struct h2_conn *c, bool unsent)
{
	if (c->unsent != unsent)
		atomic_fetch_add(&c->thread->h2->shared->n_unsent, unsent ? 1u : -1u);
	c->unsent = unsent;
}

/*
 * The kernel has bytes that the client has not acknowledged. If the socket is closed now, they are lost as soon as the client
 * sends anything, such as a WINDOW_UPDATE. A client without streams has as long for them as it may be idle.
 */
static bool is_unacknowledged(const struct h2_conn *c)
{
	int64_t idle_ms = (int64_t)c->thread->h2->shared->opts.idle_timeout_s * 1000;
	int n = 0;

	return (c->n_streams || clock_mono_ms() - c->idle_ms < idle_ms) && ioctl(c->fd, SIOCOUTQ, &n) == 0 &&
	       n > 0;
}

/* The descriptor stays, and so does its number, until the last suspended stream was resumed. */
static void end_conn(struct h2_conn *c)
{
	if (c->dead)
		return;
	epoll_ctl(c->thread->epoll, EPOLL_CTL_DEL, c->fd, NULL);
	h2_conn_kill(c);
	set_unsent(c, false);
	shutdown(c->fd, SHUT_RDWR);
	h2_conn_touch(c);
}

static ssize_t conn_write(struct h2_conn *c, const void *p, size_t n)
{
	return c->tls ? h2_tls_write(c->tls, p, n) : send(c->fd, p, n, MSG_NOSIGNAL);
}

/* Send all pending bytes. */
static void flush_conn(struct h2_conn *c)
{
	/* Nobody waits for a GOAWAY alone. A stream is there until the last bytes of its reply are made. */
	bool sent = c->unsent, replies = c->n_streams > 0;

	if (c->dead || (c->tls && !h2_tls_is_ready(c->tls)))
		return;
	/* Before its bytes are made, which ends requests. */
	set_unsent(c, true);
	for (;;) {
		ssize_t n;

		if (c->out_at == c->out.size) {
			c->out.size = c->out_at = 0;
			c->starved_ms = 0;
			h2_conn_make(c, H2_OUT);
		}
		if (!c->out.size)
			break;
		n = conn_write(c, c->out.p + c->out_at, c->out.size - c->out_at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN && h2_conn_keep(c)) {
			set_events(c, true);
			return;
		}
		if (n < 0) {
			end_conn(c);
			return;
		}
		c->out_at += (size_t)n;
		sent = sent || replies;
	}
	/* An idle connection keeps no buffer. */
	h2_conn_drop_out(c);
	set_unsent(c, sent && is_unacknowledged(c));
	set_events(c, false);
	if (!c->unsent && h2_conn_is_over(c))
		end_conn(c);
}

static void read_conn(struct h2_conn *c, uint8_t *room)
{
	for (int i = 0; i < IN_TURNS && !c->dead && !c->failed; i++) {
		ssize_t n = c->tls ? h2_tls_read(c->tls, room, IN_SIZE) : recv(c->fd, room, IN_SIZE, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n <= 0) {
			end_conn(c);
			return;
		}
		if (!h2_conn_feed(c, bytes_of(room, (size_t)n)))
			break;
		flush_conn(c);
		if (c->wants_out || (!c->tls && n < (ssize_t)IN_SIZE))
			break;
	}
	flush_conn(c);
	/* What could not be sent to a client that broke the rules is not waited for. */
	if (c->failed)
		end_conn(c);
}

static void on_conn(struct h2_conn *c, uint32_t events, uint8_t *room)
{
	if (c->wants_out)
		flush_conn(c);
	/* While it waits for the client to read, an error is the only other event. */
	if (!c->dead && !c->wants_out)
		read_conn(c, room);
	else if (events & (EPOLLHUP | EPOLLERR))
		end_conn(c);
}

/* ---- new connections ---- */

static void take_socket(struct h2_thread *t, int fd, const struct sockaddr *addr)
{
	struct epoll_event e = { .events = EPOLLIN };
	struct h2_conn *c;
	int on = 1;

	if (atomic_load_explicit(&t->h2->shared->quiet, memory_order_relaxed) ||
	    !slow_admit(t->h2->shared->slow, addr)) {
		close(fd);
		return;
	}
	if (addr->sa_family != AF_UNIX)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	e.data.ptr = c = h2_conn_new(t, fd, addr);
	if (epoll_ctl(t->epoll, EPOLL_CTL_ADD, fd, &e) < 0 ||
	    (t->h2->tls && !(c->tls = h2_tls_accept(t->h2->tls, fd)))) {
		h2_conn_kill(c);
		h2_conn_touch(c);
		return;
	}
	/* With TLS the first bytes are the client's. */
	if (!c->tls)
		flush_conn(c);
}

static void accept_all(struct h2_thread *t, int socket)
{
	for (int i = 0; i < ACCEPTS; i++) {
		struct sockaddr_storage addr = { 0 };
		socklen_t size = sizeof(addr);
		int fd = accept4(socket, (struct sockaddr *)&addr, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd < 0) {
			/* The socket stays readable; without descriptors, trying again at once would be a busy loop. */
			if (err_is_scarce(errno))
				usleep(10000);
			return;
		}
		take_socket(t, fd, (struct sockaddr *)&addr);
	}
}

/* ---- a thread ---- */

/* After many streams their memory is in pieces, which the C library keeps. */
static void return_memory(struct h2 *h2)
{
	if (atomic_load_explicit(&h2->crowded, memory_order_relaxed) &&
	    atomic_load_explicit(&h2->n_streams, memory_order_relaxed) < H2_FREE_STREAMS &&
	    atomic_exchange(&h2->crowded, false))
		mem_return_now();
}

/* All connections: time has passed, or the service stops. */
static void sweep_conns(struct h2_thread *t)
{
	bool quiet = atomic_load_explicit(&t->h2->shared->quiet, memory_order_relaxed);

	t->swept_ms = clock_mono_ms();
	for (struct h2_conn *c = t->first; c; c = c->next) {
		/* Since the last time, for a head without an end: its GOAWAY is not waited for. */
		if (c->failed) {
			end_conn(c);
			continue;
		}
		if (quiet)
			h2_conn_leave(c);
		h2_conn_sweep(c, t->swept_ms);
		if (!c->wants_out)
			flush_conn(c);
		else if (c->starved_ms && !h2_conn_keep(c))
			end_conn(c);
	}
	return_memory(t->h2);
}

/* Connections whose streams were resumed, and those that have ended. */
static void tend_conns(struct h2_thread *t)
{
	struct h2_conn *c;

	while ((c = t->touched)) {
		t->touched = c->next_touched;
		c->touched = false;
		if (!c->dead && !c->wants_out)
			flush_conn(c);
		/* Ending it has touched it again. */
		if (c->dead && !c->first && !c->touched)
			h2_conn_free(c);
	}
}

static void run_turn(struct h2_thread *t, uint8_t *room)
{
	struct epoll_event events[EVENTS];
	bool woken = false, sweeps = t->first || atomic_load_explicit(&t->h2->crowded, memory_order_relaxed);
	int n = epoll_wait(t->epoll, events, EVENTS, sweeps ? SWEEP_MS : -1);

	for (int i = 0; i < n; i++) {
		void *what = events[i].data.ptr;

		if (what == t) {
			uint64_t count;

			woken = read(t->event, &count, sizeof(count)) > 0;
		} else if (what >= (void *)t->h2->sockets &&
			   what < (void *)(t->h2->sockets + t->h2->n_sockets)) {
			accept_all(t, *(int *)what);
		} else {
			on_conn(what, events[i].events, room);
		}
	}
	if (woken) {
		h2_thread_resume(t);
		if (atomic_load_explicit(&t->h2->shared->quiet, memory_order_relaxed))
			t->swept_ms = 0;
	}
	if (clock_mono_ms() - t->swept_ms >= SWEEP_MS)
		sweep_conns(t);
	/* Not earlier: events of this turn may be of connections that have ended in it. */
	tend_conns(t);
}

static void *thread_run(void *arg)
{
	struct h2_thread *t = arg;
	uint8_t *room = mem_alloc(IN_SIZE);

	while (!atomic_load(&t->h2->stopping))
		run_turn(t, room);
	h2_thread_resume(t);
	while (t->first) {
		end_conn(t->first);
		h2_conn_free(t->first);
	}
	free(room);
	return NULL;
}

static int watch(struct h2_thread *t, int fd, uint32_t events, void *what)
{
	struct epoll_event e = { .events = events, .data.ptr = what };

	return epoll_ctl(t->epoll, EPOLL_CTL_ADD, fd, &e);
}

static int start_http2_thread(struct h2 *h2, struct h2_thread *t, struct err *err)
{
	int r;

	t->h2 = h2;
	t->date_s = -1;
	pthread_mutex_init(&t->lock, NULL);
	t->epoll = epoll_create1(EPOLL_CLOEXEC);
	t->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	h2->n_threads++;
	if (t->epoll < 0 || t->event < 0 || watch(t, t->event, EPOLLIN, t) < 0)
		return err_os(err, errno, "no epoll for HTTP/2");
	for (size_t i = 0; i < h2->n_sockets; i++)
		if (watch(t, h2->sockets[i], EPOLLIN | EPOLLEXCLUSIVE, &h2->sockets[i]) < 0)
			return err_os(err, errno, "no epoll for HTTP/2");
	r = http_thread_start(&t->thread, "lode-http2", thread_run, t);
	if (r)
		return err_os(err, r, "no thread for HTTP/2");
	t->running = true;
	return 0;
}

int h2_start(struct http_shared *shared, const int *sockets, size_t n, struct h2 **ret, struct err *err)
{
	struct h2 *h2;
	int r;

	if (h2_load(err) < 0)
		return -1;
	h2 = NEW(struct h2);
	h2->shared = shared;
	h2->sockets = NEW_N(int, n);
	memcpy(h2->sockets, sockets, n * sizeof(*sockets));
	h2->threads = mem_zalloc(shared->opts.threads * sizeof(*h2->threads));
	r = shared->opts.tls_cert ? h2_tls_new(shared, &h2->tls, err) : 0;
	h2->n_sockets = n;
	for (unsigned i = 0; r == 0 && i < shared->opts.threads; i++)
		r = start_http2_thread(h2, &h2->threads[i], err);
	if (r < 0) {
		h2->n_sockets = 0; /* the caller's */
		h2_stop(h2);
		return -1;
	}
	*ret = h2;
	return 0;
}

void h2_quiesce(struct h2 *h2)
{
	for (unsigned i = 0; h2 && i < h2->n_threads; i++)
		h2_wake(&h2->threads[i]);
}

void h2_stop(struct h2 *h2)
{
	if (!h2)
		return;
	atomic_store(&h2->stopping, true);
	for (unsigned i = 0; i < h2->n_threads; i++) {
		struct h2_thread *t = &h2->threads[i];

		h2_wake(t);
		if (t->running)
			pthread_join(t->thread, NULL);
		if (t->epoll >= 0)
			close(t->epoll);
		if (t->event >= 0)
			close(t->event);
		pthread_mutex_destroy(&t->lock);
	}
	for (size_t i = 0; i < h2->n_sockets; i++)
		close(h2->sockets[i]);
	h2_tls_free(h2->tls);
	free(h2->sockets);
	free(h2->threads);
	free(h2);
}
