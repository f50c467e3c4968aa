/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1: for each listening socket as many daemons of libmicrohttpd as there are threads, each run by its own thread.
 */
#include "http/conn.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>
#include "http/listen.h"
#include "http/mhd_lazy.h"
#include "http/mhd_thread.h"
#include "http/slow.h"

/*
 * Memory that libmicrohttpd has for a connection: the request line, the headers, and the headers of the
 * reply. It clears all of it after each request, so an idle connection costs as much.
 */
#define CONNECTION_MEMORY KIB(10)

/* A connection: the transport's part of it, which lives as long as its socket. Its HTTP thread's. */
struct link {
	struct http_conn conn; /* first */
	struct MHD_Connection *mhd;
	struct mhd_thread *thread;
	int fd;
	bool lingers; /* it is answered before its body is read */
	/* Last: a request uses the fields before it, and the first ones of it. */
	struct slow_conn slow;
};

/* What libmicrohttpd's calls get. */
struct daemon {
	struct http_shared *shared;
	struct mhd_thread thread;
};

struct mhd {
	struct daemon *daemons;
	unsigned n;
};

struct mhd_functions mhd_functions;

/* A request's ctx while the receiver has not set one. */
static char no_ctx;

__attribute__((format(printf, 2, 0))) static void log_quietly(void *arg, const char *fmt, va_list ap)
{
	/* About clients that hang up or send nonsense: nothing that the administrator could mend. */
	char text[256];

	if (log_level() < LOG_DEBUG)
		return;
	vsnprintf(text, sizeof(text), fmt, ap);
	log_debug("http", "%s", text);
}

static struct link *link_of(struct MHD_Connection *c)
{
	return MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

static struct link *link_of_conn(struct http_conn *c)
{
	return (struct link *)c;
}

/* ---- the query ---- */

/*
 * libmicrohttpd calls this with the target before it cuts the query into arguments. It allots each of them from the
 * connection's memory, and when that is used up (0.9.75: after about 150) the request is neither answered nor
 * refused. So the query is taken from it here. The target is in the connection's buffer, which may be written.
 */
static void *mhd_on_target(void *arg, const char *target, struct MHD_Connection *c)
{
	struct link *l = link_of(c);
	char *query = target ? strchr(target, '?') : NULL;

	l->conn.query.text.size = 0;
	if (query && query[1]) {
		buf_add_str(&l->conn.query.text, str_of(query + 1));
		query[1] = '\0';
	}
	return NULL;
}

/* ---- a connection ---- */

static const char *mhd_header(struct http_conn *c, const char *name)
{
	return MHD_lookup_connection_value(link_of_conn(c)->mhd, MHD_HEADER_KIND, name);
}

static const struct sockaddr *mhd_peer(struct http_conn *c)
{
	return MHD_get_connection_info(link_of_conn(c)->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr;
}

static int mhd_socket(struct http_conn *c)
{
	return link_of_conn(c)->fd;
}

/*
 * The client may wait for room in our receive buffer. If the socket is closed when that is empty, the kernel goes on answering
 * that there is none, for a minute; with a linger time of 0 it resets the connection.
 */
static void mhd_shut(struct http_conn *c)
{
	const struct linger none = { .l_onoff = 1 };
	int fd = link_of_conn(c)->fd;

	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	shutdown(fd, SHUT_RDWR);
}

static void mhd_suspend(struct http_conn *c)
{
	MHD_suspend_connection(link_of_conn(c)->mhd);
}

static void mhd_resume(struct http_conn *c)
{
	mhd_thread_resume(link_of_conn(c)->thread, link_of_conn(c)->mhd);
}

/* libmicrohttpd does not look at a suspended connection. */
static bool mhd_gone(struct http_conn *c)
{
	struct pollfd p = { .events = POLLRDHUP };

	p.fd = link_of_conn(c)->fd;
	return poll(&p, 1, 0) == 1 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

static enum http_result mhd_send(struct http_conn *c, unsigned status, struct http_reply *reply)
{
	return MHD_queue_response(link_of_conn(c)->mhd, status, http_reply_response(reply)) == MHD_YES
		       ? HTTP_SENT
		       : HTTP_CUT;
}

static const struct http_transport mhd_transport = {
	.header = mhd_header,
	.peer = mhd_peer,
	.socket = mhd_socket,
	.suspend = mhd_suspend,
	.resume = mhd_resume,
	.shut = mhd_shut,
	.gone = mhd_gone,
	.send = mhd_send,
};

/* ---- libmicrohttpd's calls ---- */

/* UINT64_MAX: unknown. */
static uint64_t body_size(struct MHD_Connection *c)
{
	const char *length = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Content-Length");
	uint64_t n;

	return length && str_to_u64(str_of(length), &n) ? n : UINT64_MAX;
}

static const struct http_head *read_head(struct MHD_Connection *c, struct link *l,
					 const struct http_request *req, const char *version)
{
	mhd_read_head(c, &(struct mhd_line){ req->method, req->url, version }, &l->conn.head);
	if (l->conn.query.text.size && memchr(l->conn.query.text.p, ' ', l->conn.query.text.size))
		l->conn.head.wrong = "a target has no blanks";
	return &l->conn.head;
}

static enum MHD_Result answer_now(struct http_receiver *to, const struct http_request *req, struct link *l,
				  void **con_cls)
{
	void *ctx = *con_cls == &no_ctx ? NULL : *con_cls;
	enum http_result result;

	slow_asked(&l->slow);
	result = to->request(to->arg, req, &ctx);
	*con_cls = ctx ? ctx : &no_ctx;
	return result == HTTP_CUT ? MHD_NO : MHD_YES;
}

/* true: the body is to be read. A request whose body is not wanted is answered at once, and its connection closed. */
static bool begin_body(struct http_shared *h, const struct http_request *req, struct link *l, void **con_cls)
{
	uint64_t size = body_size(l->mhd);
	void *ctx = NULL;

	slow_asked(&l->slow);
	/* Without a body the connection can go on. */
	l->lingers = !h->opts.receiver.begin(h->opts.receiver.arg, req, &ctx) && size;
	*con_cls = ctx ? ctx : &no_ctx;
	if (l->lingers)
		return false;
	l->conn.drop.on = false;
	slow_body(h->slow, &l->slow, size, false);
	return true;
}

/* The body of a GET means nothing, and may never come: it is answered at once, and its connection closed. */
static bool has_unread_body(struct link *l, const struct http_head *head)
{
	l->lingers = head->has_length && body_size(l->mhd);
	return l->lingers;
}

static size_t take_chunk(struct http_shared *h, const struct http_request *req, void *ctx, struct bytes chunk)
{
	struct link *l = link_of_conn(req->conn);
	const struct http_receiver *to = &h->opts.receiver;
	struct http_drop *drop = &l->conn.drop;
	size_t taken = chunk.size;

	if (drop->on) {
		if (!http_drop_add(drop, chunk.size))
			http_shut(req->conn);
	} else if (ctx) {
		taken = to->body(to->arg, req, ctx, chunk);
		/* One in chunks may have no end; a size that was announced has been judged. */
		if (taken == chunk.size && to->settled(to->arg, ctx))
			http_drop_begin(drop,
					body_size(l->mhd) == UINT64_MAX ? HTTP_DROP_UNKNOWN : UINT64_MAX);
	}
	slow_fed(h->slow, &l->slow, taken, taken == chunk.size);
	return taken;
}

/*
 * libmicrohttpd calls this when the headers are in, for each chunk of a body, and when all of it is in. A
 * reply in the first call closes the connection, so GET and HEAD are answered in the last; a request whose
 * body is not wanted is answered in the first.
 */
static enum MHD_Result mhd_on_request(void *arg, struct MHD_Connection *c, const char *url,
				      const char *method, const char *version, const char *upload,
				      size_t *upload_size, void **con_cls)
{
	struct http_shared *h = ((struct daemon *)arg)->shared;
	struct http_receiver *to = &h->opts.receiver;
	struct link *l = link_of(c);
	struct http_request req = { &l->conn, method, url };
	bool first = !*con_cls;
	void *ctx = first || *con_cls == &no_ctx ? NULL : *con_cls;

	if (first) {
		const struct http_head *head = read_head(c, l, &req, version);

		l->thread->n_asked++;
		*con_cls = &no_ctx;
		/* A reply in this call closes the connection: the bytes after such a head may be anything. */
		if (head->wrong)
			return answer_now(to, &req, l, con_cls);
		if (head->get)
			return has_unread_body(l, head) ? answer_now(to, &req, l, con_cls) : MHD_YES;
		return begin_body(h, &req, l, con_cls) ? MHD_YES : answer_now(to, &req, l, con_cls);
	}
	if (*upload_size) {
		*upload_size -= take_chunk(h, &req, ctx, bytes_of(upload, *upload_size));
		return MHD_YES;
	}
	return answer_now(to, &req, l, con_cls);
}

static void mhd_on_completed(void *arg, struct MHD_Connection *c, void **con_cls,
			     enum MHD_RequestTerminationCode why)
{
	const struct http_receiver *to = &((struct daemon *)arg)->shared->opts.receiver;
	struct link *l = link_of(c);

	if (*con_cls && *con_cls != &no_ctx)
		to->done(to->arg, &l->conn, *con_cls, why == MHD_REQUEST_TERMINATED_COMPLETED_OK);
	*con_cls = NULL;
	http_query_drop(&l->conn.query);
	slow_answered(&l->slow);
}

/* The limit is for all daemons together; that of libmicrohttpd is for one daemon. */
static enum MHD_Result mhd_on_accept(void *arg, const struct sockaddr *addr, socklen_t size)
{
	struct http_shared *h = ((struct daemon *)arg)->shared;

	if (atomic_load_explicit(&h->quiet, memory_order_relaxed))
		return MHD_NO;
	return slow_admit(h->slow, addr) ? MHD_YES : MHD_NO;
}

static void mhd_on_connection(void *arg, struct MHD_Connection *c, void **ctx,
			      enum MHD_ConnectionNotificationCode what)
{
	struct http_shared *h = ((struct daemon *)arg)->shared;
	struct link *l = *ctx;

	if (what == MHD_CONNECTION_NOTIFY_STARTED) {
		*ctx = l = NEW(struct link);
		l->conn.transport = &mhd_transport;
		l->mhd = c;
		l->thread = &((struct daemon *)arg)->thread;
		l->fd = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
		slow_add(h->slow, &l->slow, l->fd, http_peer(&l->conn));
	} else {
		/* Its socket is still open: libmicrohttpd closes it after this call. */
		if (l->lingers)
			slow_linger(h->slow, &l->slow);
		slow_del(h->slow, &l->slow);
		http_query_done(&l->conn.query);
		free(l);
		*ctx = NULL;
	}
	atomic_fetch_add_explicit(&h->n_connections, what == MHD_CONNECTION_NOTIFY_STARTED ? 1u : -1u,
				  memory_order_relaxed);
}

/* route.c decodes paths, and request.h arguments; libmicrohttpd does not. */
static size_t keep_escapes(void *arg, struct MHD_Connection *c, char *s)
{
	return strlen(s);
}

/* @listen is the daemon's. */
static struct MHD_Daemon *start_daemon(struct daemon *d, int listen)
{
	const struct http_options *opts = &d->shared->opts;
	unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_TURBO | MHD_USE_ERROR_LOG;
	struct MHD_OptionItem tls[] = {
		{ MHD_OPTION_HTTPS_MEM_CERT, 0, d->shared->cert.p },
		{ MHD_OPTION_HTTPS_MEM_KEY, 0, d->shared->key.p },
		{ MHD_OPTION_END, 0, NULL },
	};

	if (opts->tls_cert)
		flags |= MHD_USE_TLS;
	return MHD_start_daemon(
		flags, 0, mhd_on_accept, d, mhd_on_request,
		d, /* the logger must be the first option to be in use for errors of the others */
		MHD_OPTION_EXTERNAL_LOGGER, log_quietly, NULL, MHD_OPTION_LISTEN_SOCKET, listen,
		MHD_OPTION_NOTIFY_COMPLETED, mhd_on_completed, d, MHD_OPTION_NOTIFY_CONNECTION,
		mhd_on_connection, d, MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL,
		MHD_OPTION_URI_LOG_CALLBACK, mhd_on_target, NULL, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		(size_t)CONNECTION_MEMORY, MHD_OPTION_CONNECTION_LIMIT, slow_room(opts->max_connections) + 1,
		/* mhd_thread.c blocks it; else libmicrohttpd would not use sendfile(). */
		MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_CONNECTION_TIMEOUT, opts->idle_timeout_s,
		MHD_OPTION_ARRAY, opts->tls_cert ? tls : tls + 2, MHD_OPTION_END);
}

static int start_http_thread(struct daemon *d, const struct listen_socket *ls, unsigned i, struct err *err)
{
	bool tls = d->shared->opts.tls_cert;
	int listen = fcntl(ls->fd, F_DUPFD_CLOEXEC, 0);
	struct MHD_Daemon *daemon;
	char name[24];

	if (listen < 0)
		return err_os(err, errno, "no socket for the HTTP threads of %s", ls->url_host);
	daemon = start_daemon(d, listen);
	if (!daemon) {
		close(listen);
		return err_set(err, tls ? ERR_INVALID : ERR_LIMIT, "the HTTP threads of %s did not start%s",
			       ls->url_host,
			       tls ? ": certificate or key are not valid, or resources are short" : "");
	}
	snprintf(name, sizeof(name), "lode-http-%u", i);
	return mhd_thread_start(&d->thread, daemon, name, err);
}

int mhd_start(struct http_shared *shared, const struct listen_socket *ls, struct mhd **ret, struct err *err)
{
	struct mhd *m = NEW(struct mhd);
	unsigned n = MAX(shared->opts.threads, 1u);
	int r = 0;

	m->daemons = mem_zalloc(n * sizeof(*m->daemons));
	for (; r == 0 && m->n < n; m->n++) {
		m->daemons[m->n].shared = shared;
		r = start_http_thread(&m->daemons[m->n], ls, m->n, err);
	}
	if (r < 0) {
		mhd_stop(m);
		return r;
	}
	close(ls->fd);
	*ret = m;
	return 0;
}

void mhd_stop(struct mhd *m)
{
	if (!m)
		return;
	for (unsigned i = 0; i < m->n; i++)
		mhd_thread_stop(&m->daemons[i].thread);
	free(m->daemons);
	free(m);
}

int http_load(struct err *err)
{
	static const char *const names[] = { MHD_FUNCTIONS(LAZY_NAME) };
	static struct lazy lib = LAZY_INIT;

	return lazy_load(&lib, "libmicrohttpd.so.12", "libmicrohttpd12", names, &mhd_functions,
			 ARRAY_SIZE(names), err);
}
