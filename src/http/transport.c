/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The listening sockets, and a transport for each.
 */
#include "http/conn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "http/listen.h"
#include "http/slow.h"

#define PEM_MAX MIB(1)
/* A connection may be idle for the idle time-out; then the whole request must arrive within as long again. */
#define SLOW_FACTOR 2

struct listener {
	struct mhd *mhd;
	char *path; /* of a Unix socket, to be removed; NULL: none */
};

struct http {
	struct http_shared shared;
	struct listener listeners[LISTEN_MAX];
	size_t n_listeners;
	char *urls[LISTEN_MAX + 1];
};

static int read_pem(const char *path, struct buf *ret, struct err *err)
{
	int r = file_read(path, PEM_MAX, ret, err);

	if (r == FILE_MISSING)
		return err_os(err, ENOENT, "%s", path);
	if (r == 0)
		buf_cstr(ret);
	return r;
}

static int start_listener(struct http *h, const struct listen_socket *ls, struct err *err)
{
	struct listener *l = &h->listeners[h->n_listeners];

	if (mhd_start(&h->shared, ls, &l->mhd, err) < 0)
		return -1;
	l->path = ls->path[0] ? mem_strdup(ls->path) : NULL;
	h->urls[h->n_listeners++] = l->path ? mem_printf("unix:%s", l->path)
					    : mem_printf("%s://%s",
							 h->shared.opts.tls_cert ? "https" : "http",
							 ls->url_host);
	return 0;
}

static int start_shared(struct http_shared *s, const struct http_options *opts, struct err *err)
{
	const struct slow_options slow = {
		.head_ms = (int64_t)opts->idle_timeout_s * 1000 * SLOW_FACTOR,
		.idle_ms = (int64_t)opts->idle_timeout_s * 1000,
		.rate = opts->min_rate,
		.body_ms = opts->body_deadline_ms,
		.max = opts->max_connections,
		.max_remote = opts->max_connections_per_ip,
		.max_local = opts->max_connections_local,
	};

	s->opts = *opts;
	if (slow_new(&slow, &s->slow, err) < 0)
		return -1;
	if (opts->tls_cert &&
	    (read_pem(opts->tls_cert, &s->cert, err) < 0 || read_pem(opts->tls_key, &s->key, err) < 0))
		return -1;
	return 0;
}

int http_start(const struct http_options *opts, struct http **ret, struct err *err)
{
	struct listen_socket sockets[LISTEN_MAX];
	size_t n = 0, i = 0;
	struct http *h = NEW(struct http);
	int r = start_shared(&h->shared, opts, err);

	for (i = 0; r == 0 && i < opts->n_listen; i++)
		r = listen_open(opts->listen[i], sockets, &n, err);
	for (i = 0; r == 0 && i < n; i++)
		r = start_listener(h, &sockets[i], err);
	if (r == 0) {
		*ret = h;
		return 0;
	}
	for (i = h->n_listeners; i < n; i++) {
		close(sockets[i].fd);
		if (sockets[i].path[0])
			unlink(sockets[i].path);
	}
	http_stop(h);
	return -1;
}

const char *const *http_urls(const struct http *h)
{
	return (const char *const *)h->urls;
}

unsigned http_connections(struct http *h)
{
	return atomic_load(&h->shared.n_connections);
}

/*
 * Not MHD_quiesce_daemon(): the caller and an HTTP thread then both remove the socket from the epoll set,
 * and libmicrohttpd (0.9.75) ends the process when the second of them fails.
 */
void http_quiesce(struct http *h)
{
	atomic_store(&h->shared.quiet, true);
}

void http_stop(struct http *h)
{
	if (!h)
		return;
	http_quiesce(h);
	for (size_t i = 0; i < h->n_listeners; i++) {
		mhd_stop(h->listeners[i].mhd);
		if (h->listeners[i].path)
			unlink(h->listeners[i].path);
		free(h->listeners[i].path);
	}
	slow_free(h->shared.slow);
	for (char **url = h->urls; *url; url++)
		free(*url);
	buf_done(&h->shared.cert);
	if (h->shared.key.p)
		explicit_bzero(h->shared.key.p, h->shared.key.room);
	buf_done(&h->shared.key);
	free(h);
}
