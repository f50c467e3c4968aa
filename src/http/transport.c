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

/* A list of URLs, and the files of Unix sockets, to be removed. */
struct listeners {
	char *urls[LISTEN_MAX + 1];
	char *paths[LISTEN_MAX];
	size_t n;
};

struct http {
	struct http_shared shared;
	struct mhd *mhd[LISTEN_MAX]; /* of each of `plain` */
	size_t n_mhd;
	struct h2 *h2; /* NULL: none */
	struct listeners plain, grpc;
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

static void add_listener(struct http *h, struct listeners *l, const struct listen_socket *ls)
{
	const char *scheme = h->shared.opts.tls_cert ? "https" : "http";

	l->paths[l->n] = ls->path[0] ? mem_strdup(ls->path) : NULL;
	l->urls[l->n] = ls->path[0] ? mem_printf("unix:%s", ls->path)
				    : mem_printf("%s://%s", scheme, ls->url_host);
	l->n++;
}

static void drop_listeners(struct listeners *l)
{
	for (size_t i = 0; i < l->n; i++) {
		if (l->paths[i])
			unlink(l->paths[i]);
		free(l->paths[i]);
		free(l->urls[i]);
	}
}

/* Open sockets for @where. */
static int open_all(struct http *h, const struct str *where, size_t n_where, struct listeners *l,
		    struct listen_socket *sockets, struct err *err)
{
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < n_where; i++)
		r = listen_open(where[i], sockets, &n, err);
	for (size_t i = 0; i < n; i++)
		add_listener(h, l, &sockets[i]);
	return r;
}

static int start_http1(struct http *h, struct err *err)
{
	struct listen_socket sockets[LISTEN_MAX];
	int r = open_all(h, h->shared.opts.listen, h->shared.opts.n_listen, &h->plain, sockets, err);

	for (size_t i = 0; r == 0 && i < h->plain.n; i++) {
		r = mhd_start(&h->shared, &sockets[i], &h->mhd[i], err);
		h->n_mhd += r == 0;
	}
	for (size_t i = h->n_mhd; i < h->plain.n; i++)
		close(sockets[i].fd);
	return r;
}

static int start_http2(struct http *h, struct err *err)
{
	struct listen_socket sockets[LISTEN_MAX];
	int fds[LISTEN_MAX];
	int r = open_all(h, h->shared.opts.listen_grpc, h->shared.opts.n_listen_grpc, &h->grpc, sockets, err);

	for (size_t i = 0; i < h->grpc.n; i++)
		fds[i] = sockets[i].fd;
	if (r == 0 && h->grpc.n)
		r = h2_start(&h->shared, fds, h->grpc.n, &h->h2, err);
	for (size_t i = 0; !h->h2 && i < h->grpc.n; i++)
		close(fds[i]);
	return r;
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
	struct http *h = *ret = NEW(struct http);

	return start_shared(&h->shared, opts, err) < 0 || start_http1(h, err) < 0 || start_http2(h, err) < 0
		       ? -1
		       : 0;
}

const char *const *http_urls(const struct http *h)
{
	return (const char *const *)h->plain.urls;
}

const char *const *http_grpc_urls(const struct http *h)
{
	return (const char *const *)h->grpc.urls;
}

unsigned http_connections(struct http *h)
{
	return atomic_load(&h->shared.n_connections);
}

unsigned http_unsent(struct http *h)
{
	return atomic_load(&h->shared.n_unsent);
}

/*
 * Not MHD_quiesce_daemon(): the caller and an HTTP thread then both remove the socket from the epoll set,
 * and libmicrohttpd (0.9.75) ends the process when the second of them fails.
 */
void http_quiesce(struct http *h)
{
	atomic_store(&h->shared.quiet, true);
	h2_quiesce(h->h2);
}

void http_stop(struct http *h)
{
	if (!h)
		return;
	http_quiesce(h);
	for (size_t i = 0; i < h->n_mhd; i++)
		mhd_stop(h->mhd[i]);
	h2_stop(h->h2);
	drop_listeners(&h->plain);
	drop_listeners(&h->grpc);
	slow_free(h->shared.slow);
	buf_done(&h->shared.cert);
	if (h->shared.key.p)
		explicit_bzero(h->shared.key.p, h->shared.key.room);
	buf_done(&h->shared.key);
	free(h);
}
