/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP threads: one libmicrohttpd daemon for each listening socket, each with a pool of threads that run
 * epoll loops.
 */
#include "http/http.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>
#include "base/vec.h"
#include "http/listen.h"
#include "http/mhd_lazy.h"
#include "http/peer.h"
#include "http/slow.h"

/*
 * Memory that libmicrohttpd has for a connection: the request line, the headers, and the headers of the
 * reply. It clears all of it after each request, so an idle connection costs as much.
 */
#define CONNECTION_MEMORY KIB(10)
#define THREAD_STACK      KIB(256)
#define PEM_MAX           MIB(1)
/* A connection may be idle for the idle time-out; then the whole request must arrive within as long again. */
#define SLOW_FACTOR 2
/* A body that is not wanted is read up to this size: most profiles are smaller. */
#define DROPPED_BODY MIB(16)
#define QUERY_KEPT   KIB(1) /* of a connection's buffer, between two requests */

/* A parameter of a query; both texts are in the connection's buffer. */
struct arg {
	const char *name, *value;
};

/* A connection: the transport's part of it, which lives as long as its socket. Its HTTP thread's. */
struct link {
	struct http_head head;
	bool trust_known, trusted; /* of its other end, which stays the same */
	bool drops;                /* the body of its request is read and dropped */
	uint64_t dropped;          /* bytes of it */
	/* The query of its request. The list points into it once it was cut into arguments. */
	struct buf query;
	bool is_cut;
	struct arg *args;
	size_t n_args, room_args;
	struct slow_conn slow; /* last: a request uses the fields before it, and the first ones of it */
};

struct daemon {
	struct http *http;
	struct MHD_Daemon *mhd; /* owns its listening socket */
	char *path;             /* of a Unix socket, to be removed; NULL: none */
};

struct http {
	struct http_receiver receiver;
	atomic_uint n_connections;
	atomic_bool quiet; /* new connections are closed */
	struct slow *slow;
	struct daemon daemons[LISTEN_MAX];
	size_t n_daemons;
	char *urls[LISTEN_MAX + 1];
	struct buf cert, key;
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

static int fd_of(struct MHD_Connection *c)
{
	return MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
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

	l->query.size = 0;
	if (query && query[1]) {
		buf_add_str(&l->query, str_of(query + 1));
		query[1] = '\0';
	}
	return NULL;
}

static void query_drop(struct link *l)
{
	l->n_args = 0;
	l->is_cut = false;
	if (l->query.room > QUERY_KEPT) {
		buf_done(&l->query);
		l->query = (struct buf){ 0 };
	}
	if (l->room_args > QUERY_KEPT / sizeof(*l->args)) {
		free(TAKE(l->args));
		l->room_args = 0;
	}
	l->query.size = 0;
}

static const struct arg *args_of(struct link *l, size_t *ret_n)
{
	char *rest = l->query.size && !l->is_cut ? (char *)buf_cstr(&l->query) : NULL;

	l->is_cut = true;
	for (char *p = rest; p && *p; p++)
		if (*p == '+')
			*p = ' ';
	while (rest && *rest) {
		char *name = strsep(&rest, "&"), *value = strchr(name, '=');

		if (value)
			*value++ = '\0';
		VEC_PUSH(l->args, l->n_args, l->room_args) = (struct arg){ name, value ? value : "" };
	}
	*ret_n = l->n_args;
	return l->args;
}

/* ---- libmicrohttpd's calls ---- */

/* UINT64_MAX: unknown. */
static uint64_t body_size(struct MHD_Connection *c)
{
	const char *length = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Content-Length");
	uint64_t n;

	return length && str_to_u64(str_of(length), &n) ? n : UINT64_MAX;
}

/*
 * Such a body is read although it is dropped: if a connection is closed with unread bytes, the reply may be
 * lost, and a sender that does not see the refusal sends the same again. One in chunks is read until it is too large.
 * A client that waits for 100 Continue has not sent it.
 */
static bool is_dropped_body(struct MHD_Connection *c, uint64_t size)
{
	return (size <= DROPPED_BODY ||
		MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Transfer-Encoding")) &&
	       !MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Expect");
}

static const struct http_head *read_head(struct MHD_Connection *c, struct link *l,
					 const struct http_request *req, const char *version)
{
	mhd_read_head(c, &(struct mhd_line){ req->method, req->url, version }, &l->head);
	if (l->query.size && memchr(l->query.p, ' ', l->query.size))
		l->head.wrong = "a target has no blanks";
	return &l->head;
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

/* true: the body is to be read. */
static bool begin_body(struct http *h, const struct http_request *req, struct link *l, void **con_cls)
{
	struct MHD_Connection *c = (struct MHD_Connection *)req->conn;
	uint64_t size = body_size(c);
	void *ctx = NULL;
	bool wanted;

	slow_asked(&l->slow);
	wanted = h->receiver.begin(h->receiver.arg, req, &ctx);
	*con_cls = ctx ? ctx : &no_ctx;
	if (!wanted && (!ctx || !is_dropped_body(c, size)))
		return false;
	l->drops = !wanted;
	l->dropped = 0;
	slow_body(h->slow, &l->slow, size, !wanted);
	return true;
}

static size_t take_chunk(struct http *h, const struct http_request *req, void *ctx, struct bytes chunk)
{
	struct link *l = link_of((struct MHD_Connection *)req->conn);
	size_t taken = ctx ? h->receiver.body(h->receiver.arg, req, ctx, chunk) : chunk.size;

	l->dropped += l->drops ? taken : 0;
	if (l->dropped > DROPPED_BODY)
		http_shut(req->conn);
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
	struct http *h = ((struct daemon *)arg)->http;
	struct http_receiver *to = &h->receiver;
	struct http_request req = { (struct http_conn *)c, method, url };
	struct link *l = link_of(c);
	bool first = !*con_cls;
	void *ctx = first || *con_cls == &no_ctx ? NULL : *con_cls;

	if (first) {
		const struct http_head *head = read_head(c, l, &req, version);

		*con_cls = &no_ctx;
		/* A reply in this call closes the connection: the bytes after such a head may be anything. */
		if (head->wrong)
			return answer_now(to, &req, l, con_cls);
		if (head->get) {
			if (head->has_length)
				slow_body(h->slow, &l->slow, body_size(c), true);
			return MHD_YES;
		}
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
	struct daemon *d = arg;
	struct link *l = link_of(c);

	if (*con_cls && *con_cls != &no_ctx)
		d->http->receiver.done(d->http->receiver.arg, (struct http_conn *)c, *con_cls,
				       why == MHD_REQUEST_TERMINATED_COMPLETED_OK);
	*con_cls = NULL;
	query_drop(l);
	slow_answered(&l->slow);
}

/* The limit is for all daemons together; that of libmicrohttpd is for one daemon. */
static enum MHD_Result mhd_on_accept(void *arg, const struct sockaddr *addr, socklen_t size)
{
	struct http *h = ((struct daemon *)arg)->http;

	if (atomic_load_explicit(&h->quiet, memory_order_relaxed))
		return MHD_NO;
	return slow_admit(h->slow, addr) ? MHD_YES : MHD_NO;
}

static void mhd_on_connection(void *arg, struct MHD_Connection *c, void **ctx,
			      enum MHD_ConnectionNotificationCode what)
{
	struct daemon *d = arg;
	struct link *l = *ctx;

	if (what == MHD_CONNECTION_NOTIFY_STARTED) {
		*ctx = l = NEW(struct link);
		slow_add(d->http->slow, &l->slow, fd_of(c), http_peer((struct http_conn *)c));
	} else {
		/* Its socket is still open: libmicrohttpd closes it after this call. */
		slow_del(d->http->slow, &l->slow);
		buf_done(&l->query);
		free(l->args);
		free(l);
		*ctx = NULL;
	}
	atomic_fetch_add_explicit(&d->http->n_connections, what == MHD_CONNECTION_NOTIFY_STARTED ? 1u : -1u,
				  memory_order_relaxed);
}

/* route.c decodes paths, and request.h arguments; libmicrohttpd does not. */
static size_t keep_escapes(void *arg, struct MHD_Connection *c, char *s)
{
	return strlen(s);
}

static int read_pem(const char *path, struct buf *ret, struct err *err)
{
	int r = file_read(path, PEM_MAX, ret, err);

	if (r == FILE_MISSING)
		return err_os(err, ENOENT, "%s", path);
	if (r == 0)
		buf_cstr(ret);
	return r;
}

static int start_daemon(struct http *h, const struct http_options *opts, const struct listen_socket *ls,
			struct err *err)
{
	struct daemon *d = &h->daemons[h->n_daemons];
	unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_TURBO |
			 MHD_USE_ERROR_LOG;
	struct MHD_OptionItem tls[] = {
		{ MHD_OPTION_HTTPS_MEM_CERT, 0, h->cert.p },
		{ MHD_OPTION_HTTPS_MEM_KEY, 0, h->key.p },
		{ MHD_OPTION_END, 0, NULL },
	};
	struct MHD_OptionItem pool[] = {
		{ MHD_OPTION_THREAD_POOL_SIZE, (intptr_t)opts->threads, NULL },
		{ MHD_OPTION_END, 0, NULL },
	};

	if (opts->tls_cert)
		flags |= MHD_USE_TLS;
	d->http = h;
	errno = 0;
	d->mhd = MHD_start_daemon(
		flags, 0, mhd_on_accept, d, mhd_on_request,
		d, /* the logger must be the first option to be in use for errors of the others */
		MHD_OPTION_EXTERNAL_LOGGER, log_quietly, NULL, MHD_OPTION_LISTEN_SOCKET, ls->fd,
		MHD_OPTION_NOTIFY_COMPLETED, mhd_on_completed, d, MHD_OPTION_NOTIFY_CONNECTION,
		mhd_on_connection, d, MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL,
		MHD_OPTION_URI_LOG_CALLBACK, mhd_on_target, NULL, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		(size_t)CONNECTION_MEMORY, MHD_OPTION_CONNECTION_LIMIT,
		slow_room(opts->max_connections) + opts->threads, MHD_OPTION_CONNECTION_TIMEOUT,
		opts->idle_timeout_s, MHD_OPTION_THREAD_STACK_SIZE, (size_t)THREAD_STACK, MHD_OPTION_ARRAY,
		opts->threads > 1 ? pool : pool + 1, MHD_OPTION_ARRAY, opts->tls_cert ? tls : tls + 2,
		MHD_OPTION_END);
	if (!d->mhd)
		return err_set(err, opts->tls_cert ? ERR_INVALID : ERR_LIMIT,
			       "the HTTP threads of %s did not start%s", ls->url_host,
			       opts->tls_cert ? ": certificate or key are not valid, or resources are short"
					      : "");
	d->path = ls->path[0] ? mem_strdup(ls->path) : NULL;
	h->urls[h->n_daemons++] = d->path ? mem_printf("unix:%s", d->path)
					  : mem_printf("%s://%s", opts->tls_cert ? "https" : "http",
						       ls->url_host);
	return 0;
}

int http_load(struct err *err)
{
	static const char *const names[] = { MHD_FUNCTIONS(LAZY_NAME) };
	static struct lazy lib = LAZY_INIT;

	return lazy_load(&lib, "libmicrohttpd.so.12", "libmicrohttpd12", names, &mhd_functions,
			 ARRAY_SIZE(names), err);
}

int http_start(const struct http_options *opts, struct http **ret, struct err *err)
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
	struct listen_socket sockets[LISTEN_MAX];
	size_t n = 0, i = 0;
	struct http *h = NEW(struct http);
	int r = 0;

	h->receiver = opts->receiver;
	r = slow_new(&slow, &h->slow, err);
	if (r == 0 && opts->tls_cert)
		r = read_pem(opts->tls_cert, &h->cert, err);
	if (r == 0 && opts->tls_cert)
		r = read_pem(opts->tls_key, &h->key, err);
	for (i = 0; r == 0 && i < opts->n_listen; i++)
		r = listen_open(opts->listen[i], sockets, &n, err);
	for (i = 0; r == 0 && i < n; i++)
		r = start_daemon(h, opts, &sockets[i], err);
	if (r == 0) {
		*ret = h;
		return 0;
	}
	for (i = h->n_daemons; i < n; i++) {
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
	return atomic_load(&h->n_connections);
}

/*
 * Not MHD_quiesce_daemon(): the caller and an HTTP thread then both remove the socket from the epoll set,
 * and libmicrohttpd (0.9.75) ends the process when the second of them fails.
 */
void http_quiesce(struct http *h)
{
	atomic_store(&h->quiet, true);
}

void http_stop(struct http *h)
{
	if (!h)
		return;
	http_quiesce(h);
	for (size_t i = 0; i < h->n_daemons; i++) {
		MHD_stop_daemon(h->daemons[i].mhd);
		if (h->daemons[i].path)
			unlink(h->daemons[i].path);
		free(h->daemons[i].path);
	}
	slow_free(h->slow);
	for (char **url = h->urls; *url; url++)
		free(*url);
	buf_done(&h->cert);
	if (h->key.p)
		explicit_bzero(h->key.p, h->key.room);
	buf_done(&h->key);
	free(h);
}

/* ---- a connection ---- */

static struct MHD_Connection *mhd_of(struct http_conn *c)
{
	return (struct MHD_Connection *)c;
}

const char *http_header(struct http_conn *c, const char *name)
{
	return MHD_lookup_connection_value(mhd_of(c), MHD_HEADER_KIND, name);
}

const struct http_head *http_head(struct http_conn *c)
{
	return &link_of(mhd_of(c))->head;
}

const char *http_arg(struct http_conn *c, const char *name)
{
	size_t n;
	const struct arg *args = args_of(link_of(mhd_of(c)), &n);

	for (size_t i = 0; i < n; i++)
		if (strcasecmp(args[i].name, name) == 0)
			return args[i].value;
	return NULL;
}

void http_args(struct http_conn *c, const char *name, void (*fn)(void *arg, const char *value), void *arg)
{
	size_t n;
	const struct arg *args = args_of(link_of(mhd_of(c)), &n);

	for (size_t i = 0; i < n; i++)
		if (strcmp(args[i].name, name) == 0)
			fn(arg, args[i].value);
}

void http_all_args(struct http_conn *c, void (*fn)(void *arg, const char *name, const char *value), void *arg)
{
	size_t n;
	const struct arg *args = args_of(link_of(mhd_of(c)), &n);

	for (size_t i = 0; i < n; i++)
		fn(arg, args[i].name, args[i].value);
}

const struct sockaddr *http_peer(struct http_conn *c)
{
	return MHD_get_connection_info(mhd_of(c), MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr;
}

bool http_peer_trusted(struct http_conn *c)
{
	struct link *l = link_of(mhd_of(c));

	if (!l->trust_known)
		l->trusted = peer_is_trusted(fd_of(mhd_of(c)), http_peer(c));
	l->trust_known = true;
	return l->trusted;
}

void http_shut(struct http_conn *c)
{
	shutdown(fd_of(mhd_of(c)), SHUT_RDWR);
}

void http_suspend(struct http_conn *c)
{
	MHD_suspend_connection(mhd_of(c));
}

void http_resume(struct http_conn *c)
{
	MHD_resume_connection(mhd_of(c));
}

bool http_gone(struct http_conn *c)
{
	struct pollfd p = { .events = POLLRDHUP };

	p.fd = fd_of(mhd_of(c));
	return poll(&p, 1, 0) == 1 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

enum http_result http_send(struct http_conn *c, unsigned status, struct http_reply *reply)
{
	return MHD_queue_response(mhd_of(c), status, (struct MHD_Response *)reply) == MHD_YES ? HTTP_SENT
											      : HTTP_CUT;
}
