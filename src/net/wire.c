/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seam over libcurl: transfers, and the loop that runs them. No other file of lode uses libcurl.
 *
 * libcurl's functions must not be called from its callbacks, so these hand on their data or remember it.
 */
#include "net/internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>
#include "net/curl_lazy.h"

#define KEPT_CONNECTIONS 32L
#define READ_SIZE        (128L * 1024)
#define UPLOAD_SIZE      KIB(256) /* passed to the kernel at once */
#define KEEPALIVE_S      30L

struct wire {
	CURLM *multi;
	char *user_agent, *ca_file, *ca_dir, *proxy; /* owned; all but user_agent may be NULL */
	const char *ca_setting;                      /* static */
	struct xfer *files;                          /* transfers of file:// */
	enum net_redirects redirects;
};

struct xfer {
	struct wire *wire;
	const struct xfer_events *events;
	void *arg;
	struct head head;
	CURL *easy; /* NULL: file:// */
	struct curl_slist *headers;
	char error[CURL_ERROR_SIZE];
	char url[NET_URL_MAX + 1];
	char socket[NET_SOCKET_MAX + 1]; /* the path of a Unix socket; "": none */
	char *socket_url;                /* of that one, the URL for libcurl; NULL: `url`. Owned */
	char *named_url;               /* with the name of the certificate as the host; NULL: `url`. Owned */
	struct curl_slist *connect_to; /* of named_url: the real host */
	int64_t heard_ms;
	unsigned connect_ms;
	bool connected, ended, aborted;
	CURLcode code;
	struct err head_err;
	bool follows;          /* redirects */
	bool any_host;         /* as xfer_request */
	bool from_public;      /* the first server has a public address */
	char *at;              /* the URL after the redirects so far; NULL: none. Owned */
	struct fault redirect; /* a redirect that is not followed */
	struct file_xfer *file;
	struct xfer *next; /* in the wire's list of files */
};

void fault_set(struct fault *f, enum fault_kind kind, int os, const char *fmt, ...)
{
	va_list ap;

	f->kind = kind;
	f->os = os;
	va_start(ap, fmt);
	vsnprintf(f->text, sizeof(f->text), fmt, ap);
	va_end(ap);
}

/* ---- the loop ---- */

static pthread_once_t global_once = PTHREAD_ONCE_INIT;
static struct err global_err;

static void global_init(void)
{
	CURLcode code;

	if (curl_load(&global_err) < 0)
		return;
	code = curl_global_init(CURL_GLOBAL_DEFAULT);
	if (code != CURLE_OK)
		err_set(&global_err, ERR_INTERNAL, "libcurl: %s", curl_easy_strerror(code));
}

/* curl(1) reads these variables, as most programs do; the library does not. Heap, or NULL. */
static char *certificates_path(const char *given, const char *variable)
{
	const char *path = given ? given : getenv(variable);

	return path && *path ? mem_strdup(path) : NULL;
}

int wire_new(const struct net_options *opts, struct wire **ret, struct err *err)
{
	struct wire *w;

	pthread_once(&global_once, global_init);
	if (global_err.kind != ERR_NONE)
		return err_set(err, global_err.kind, "%s", global_err.text);
	w = NEW(struct wire);
	w->multi = curl_multi_init();
	if (!w->multi) {
		free(w);
		return err_set(err, ERR_LIMIT, "libcurl: no memory, or no descriptors");
	}
	curl_multi_setopt(w->multi, CURLMOPT_MAXCONNECTS,
			  opts->max_kept ? (long)opts->max_kept : KEPT_CONNECTIONS);
	w->proxy = opts->proxy ? mem_strdup(opts->proxy) : NULL;
	w->redirects = opts->redirects;
	w->user_agent = mem_strdup(opts->user_agent ? opts->user_agent : "lode/" LODE_VERSION);
	w->ca_file = certificates_path(opts->ca_file, "SSL_CERT_FILE");
	w->ca_setting = opts->ca_setting ? opts->ca_setting : "SSL_CERT_FILE";
	w->ca_dir = certificates_path(NULL, "SSL_CERT_DIR");
	*ret = w;
	return 0;
}

void wire_free(struct wire *w)
{
	if (!w)
		return;
	curl_multi_cleanup(w->multi);
	free(w->user_agent);
	free(w->ca_file);
	free(w->ca_dir);
	free(w->proxy);
	free(w);
}

static bool collect_ended(struct wire *w)
{
	bool any = false;
	CURLMsg *m;
	int left;

	while ((m = curl_multi_info_read(w->multi, &left))) {
		struct xfer *x;

		if (m->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &x);
		x->ended = true;
		x->code = m->data.result;
		any = true;
	}
	return any;
}

static bool files_turn(struct wire *w)
{
	bool more = false;

	for (struct xfer *x = w->files; x; x = x->next)
		if (file_xfer_turn(x->file)) {
			x->heard_ms = clock_mono_ms();
			more = true;
		}
	return more;
}

void wire_turn(struct wire *w, int64_t timeout_ms)
{
	int running;

	if (files_turn(w))
		timeout_ms = 0;
	curl_multi_perform(w->multi, &running);
	/* A transfer that has ended gives no more events, so its owner must be told now, not after a wait. */
	if (!collect_ended(w) && timeout_ms > 0)
		curl_multi_poll(w->multi, NULL, 0, (int)MIN(timeout_ms, (int64_t)60000), NULL);
	curl_multi_perform(w->multi, &running);
	collect_ended(w);
}

void wire_wake(struct wire *w)
{
	curl_multi_wakeup(w->multi);
}

/* ---- redirects ---- */

/* libcurl follows a redirect by itself, after the callback for the header; these functions see it first. They only
 * use libcurl's URL parser, which belongs to no transfer. */

static void origin_done(struct origin *o)
{
	curl_free((void *)o->scheme);
	curl_free((void *)o->host);
}

static bool origin_get(CURLU *u, struct origin *ret)
{
	char *scheme = NULL, *host = NULL, *port = NULL;
	bool ok = curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK;

	/* file:// has neither. */
	(void)curl_url_get(u, CURLUPART_HOST, &host, 0);
	(void)curl_url_get(u, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT);
	*ret = (struct origin){ scheme, host, port ? (unsigned)strtoul(port, NULL, 10) : 0 };
	curl_free(port);
	return ok;
}

static const char *url_for_curl(const struct xfer *x)
{
	return x->socket_url ? x->socket_url : x->named_url ? x->named_url : x->url;
}

static void redirect_judge(struct xfer *x, CURLU *u, const char *location)
{
	const unsigned flags = CURLU_NON_SUPPORT_SCHEME | CURLU_URLENCODE | CURLU_ALLOW_SPACE |
			       CURLU_PATH_AS_IS;
	struct origin from = { 0 }, to = { 0 };
	const char *why = "to something that is not a URL";
	char *url = NULL;

	if (curl_url_set(u, CURLUPART_URL, x->at ? x->at : url_for_curl(x), flags) == CURLUE_OK &&
	    origin_get(u, &from) && curl_url_set(u, CURLUPART_URL, location, flags) == CURLUE_OK &&
	    origin_get(u, &to) && curl_url_get(u, CURLUPART_URL, &url, 0) == CURLUE_OK)
		/* libcurl connects to the socket whatever the host is. */
		why = redirect_fault(x->socket_url ? NET_REDIRECT_SAME_HOST
				     : x->any_host ? NET_REDIRECT_ANY_HOST
						   : x->wire->redirects,
				     &(struct origin){ from.scheme, from.host ? from.host : "", from.port },
				     &(struct origin){ to.scheme, to.host ? to.host : "", to.port });
	if (why) {
		fault_set(&x->redirect, FAULT_KIND_LIE, EINVAL, "it redirects %s", why);
	} else {
		free(x->at);
		x->at = mem_strdup(url);
	}
	curl_free(url);
	origin_done(&from);
	origin_done(&to);
}

/* A line of the head of a reply. false: a redirect that is not followed. */
static bool redirect_line(struct xfer *x, struct str line)
{
	struct str value = line, name = str_cut(&value, ':');
	AUTO(mem_freep) char *location = NULL;
	CURLU *u;

	if (!x->follows || x->head.status < 300 || x->head.status > 399 || name.size != 8 ||
	    strncasecmp(name.p, "location", 8) != 0)
		return true;
	value = str_trim(value);
	location = mem_printf(STR_FMT, STR_ARG(value));
	u = curl_url();
	if (!u)
		mem_none(1, sizeof(u));
	redirect_judge(x, u, location);
	curl_url_cleanup(u);
	return !x->redirect.kind;
}

static bool redirect_address(struct xfer *x, const char *address)
{
	if (!x->at || !x->from_public || !address_is_private(address))
		return true;
	fault_set(&x->redirect, FAULT_KIND_LIE, EACCES, "it redirects to a private address (%s)", address);
	return false;
}

/* ---- libcurl's callbacks ---- */

static curl_socket_t wire_on_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *to)
{
	char text[INET6_ADDRSTRLEN] = "";
	const void *address = to->family == AF_INET
				      ? (const void *)&((struct sockaddr_in *)(void *)&to->addr)->sin_addr
			      : to->family == AF_INET6
				      ? (const void *)&((struct sockaddr_in6 *)(void *)&to->addr)->sin6_addr
				      : NULL;

	if (address && !redirect_address(arg, inet_ntop(to->family, address, text, sizeof(text))))
		return CURL_SOCKET_BAD;
	return socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
}

static size_t wire_on_header(char *p, size_t size, size_t n, void *arg)
{
	struct xfer *x = arg;

	x->heard_ms = clock_mono_ms();
	if (head_line(&x->head, (struct str){ p, size * n }, clock_wall_s(), &x->head_err) < 0)
		return 0;
	return redirect_line(x, (struct str){ p, size * n }) ? size * n : 0;
}

static size_t wire_on_data(char *p, size_t size, size_t n, void *arg)
{
	struct xfer *x = arg;
	int r;

	x->heard_ms = clock_mono_ms();
	r = x->events->data(x->arg, bytes_of(p, size * n));
	if (r == XFER_PAUSE)
		return CURL_WRITEFUNC_PAUSE;
	x->aborted |= r < 0;
	return r < 0 ? CURL_WRITEFUNC_ERROR : size * n;
}

static size_t wire_on_upload(char *p, size_t size, size_t n, void *arg)
{
	struct xfer *x = arg;
	ssize_t got = x->events->upload(x->arg, p, size * n);

	x->heard_ms = clock_mono_ms();
	x->aborted |= got < 0;
	return got < 0 ? CURL_READFUNC_ABORT : (size_t)got;
}

static int wire_on_connected(void *arg, char *remote, char *local, int remote_port, int local_port)
{
	struct xfer *x = arg;

	if (!x->connected && x->events->connected)
		x->events->connected(x->arg);
	x->connected = true;
	/* Of a Unix socket libcurl gives no address. */
	if (x->socket_url)
		return CURL_PREREQFUNC_OK;
	if (!x->at)
		x->from_public = !address_is_private(remote);
	/* A connection that was open already had no socket made for it. */
	return redirect_address(x, remote) ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT;
}

/*
 * Advice for a bad certificate, by OpenSSL's numbers (X509_V_ERR_*): libcurl passes on one of them. @out: for it, of 160
 * bytes.
 */
static const char *tls_advice(struct xfer *x, char out[160])
{
	long verdict = 0;

	curl_easy_getinfo(x->easy, CURLINFO_SSL_VERIFYRESULT, &verdict);
	switch (verdict) {
	case 0: /* the certificate is good; 1: libcurl has not set it yet */
	case 1:
		return strstr(x->error, "target host name") ? ": use the host name in its certificate" : "";
	case 9: /* 9: not yet valid, 10: expired */
	case 10:
		return ": it must be renewed on the server, or the clock of this machine is wrong";
	case 18: /* 18: self-signed; 19: one of the chain is; 20, 21: no known issuer */
	case 19:
	case 20:
	case 21:
		snprintf(out, 160,
			 ": to trust it, put it or the certificate of its issuer into a file and set %s to "
			 "that file",
			 x->wire->ca_setting);
		return out;
	default:
		return "";
	}
}

/* Name the proxy, if the failed connection was to a proxy: the user may not know of it. */
static void name_proxy(struct xfer *x, char out[64])
{
	const char *url = x->url;
	char host[48];
	unsigned port;

	out[0] = '\0';
	curl_easy_getinfo(x->easy, CURLINFO_EFFECTIVE_URL, &url);
	if (sscanf(x->error, "Failed to connect to %47s port %u", host, &port) == 2 && url &&
	    !strstr(url, host))
		snprintf(out, 64, " to the proxy %s:%u", host, port);
}

static const char *socket_advice(int os)
{
	switch (os) {
	case ENOENT:
		return "; start the server with --listen unix:PATH, or correct the path";
	case ECONNREFUSED:
		return "; no server listens at this socket any more: start it";
	case EACCES:
	case EPERM:
		return "; this user needs write permission for the socket and search permission for its "
		       "folders";
	default:
		return "";
	}
}

static void fault_of_code(struct xfer *x, struct fault *f)
{
	const char *message = x->error[0] ? x->error : curl_easy_strerror(x->code);
	char proxy[64], advice[160];
	long os = 0;

	curl_easy_getinfo(x->easy, CURLINFO_OS_ERRNO, &os);
	switch (x->code) {
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_RESOLVE_PROXY:
		fault_set(f, FAULT_KIND_CONNECT, EHOSTUNREACH, "%s", message);
		return;
	case CURLE_COULDNT_CONNECT:
		if (x->socket_url) {
			fault_set(f, FAULT_KIND_CONNECT, os ? (int)os : ECONNREFUSED, "no connection: %s%s",
				  os ? strerror((int)os) : message, socket_advice((int)os));
			return;
		}
		name_proxy(x, proxy);
		fault_set(f, FAULT_KIND_CONNECT, os ? (int)os : ECONNREFUSED, "no connection%s: %s", proxy,
			  os ? strerror((int)os) : message);
		return;
	case CURLE_OPERATION_TIMEDOUT:
		fault_set(f, x->connected ? FAULT_KIND_TIMEOUT : FAULT_KIND_CONNECT, ETIME,
			  x->connected ? "it does not answer" : "no connection within %u ms", x->connect_ms);
		return;
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_ISSUER_ERROR:
	case CURLE_SSL_INVALIDCERTSTATUS:
		fault_set(f, FAULT_KIND_CONNECT, ENETUNREACH, "TLS: %s%s", message, tls_advice(x, advice));
		return;
	case CURLE_TOO_MANY_REDIRECTS:
		fault_set(f, FAULT_KIND_LIE, EMLINK, "it redirects more than %d times", NET_MAX_REDIRECTS);
		return;
	case CURLE_UNSUPPORTED_PROTOCOL:
		fault_set(f, FAULT_KIND_LIE, EINVAL,
			  x->head.status ? "it redirects to a scheme other than http and https"
					 : "its reply is not HTTP");
		return;
	case CURLE_BAD_CONTENT_ENCODING:
		fault_set(f, FAULT_KIND_LIE, EIO, "its body is not in the announced encoding");
		return;
	case CURLE_WRITE_ERROR:
		/* Our callback has not failed, so libcurl's decoder has: it refuses bytes after the first gzip member. */
		if (x->head.encoded)
			fault_set(f, FAULT_KIND_LIE, EIO,
				  "its body has bytes after the first gzip member, and libcurl reads only "
				  "that one: let the server send one member");
		else
			fault_set(f, FAULT_KIND_BROKEN, os ? (int)os : ECONNRESET, "it broke off: %s",
				  message);
		return;
	case CURLE_WEIRD_SERVER_REPLY:
		fault_set(f, FAULT_KIND_LIE, EIO, "its reply is not HTTP");
		return;
	case CURLE_OUT_OF_MEMORY:
		fault_set(f, FAULT_KIND_BROKEN, ENOMEM, "no memory");
		return;
	default:
		fault_set(f, FAULT_KIND_BROKEN, os ? (int)os : ECONNRESET, "it broke off: %s", message);
		return;
	}
}

bool xfer_ended(struct xfer *x, struct fault *ret)
{
	if (x->file)
		return file_xfer_ended(x->file, ret);
	if (!x->ended)
		return false;
	ret->kind = FAULT_KIND_NONE;
	if (x->redirect.kind && x->code != CURLE_OK)
		*ret = x->redirect;
	else if (x->head_err.kind)
		fault_set(ret, FAULT_KIND_LIE, EIO, "%s", x->head_err.text);
	else if (x->code != CURLE_OK && !x->aborted)
		fault_of_code(x, ret);
	else if (x->code != CURLE_OK)
		fault_set(ret, FAULT_KIND_BROKEN, ECANCELED, "broken off");
	return true;
}

/* ---- beginning and end ---- */

static void set_headers(struct xfer *x, const struct xfer_request *req)
{
	for (size_t i = 0; i < req->n_headers; i++)
		x->headers = curl_slist_append(x->headers, req->headers[i]);
	/* libcurl would wait a second for "100 Continue" before it sends a body, if the server does not send
	 * it. */
	if (req->has_upload && req->upload_size < KIB(64))
		x->headers = curl_slist_append(x->headers, "Expect:");
	if (x->headers)
		curl_easy_setopt(x->easy, CURLOPT_HTTPHEADER, x->headers);
}

static void set_method(struct xfer *x, const struct xfer_request *req)
{
	if (req->has_upload) {
		curl_easy_setopt(x->easy, CURLOPT_UPLOAD, 1L);
		curl_easy_setopt(x->easy, CURLOPT_READFUNCTION, wire_on_upload);
		curl_easy_setopt(x->easy, CURLOPT_READDATA, x);
		if (req->upload_size > UPLOAD_SIZE)
			curl_easy_setopt(x->easy, CURLOPT_UPLOAD_BUFFERSIZE, (long)UPLOAD_SIZE);
		curl_easy_setopt(x->easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)req->upload_size);
	} else if (req->method && strcmp(req->method, "HEAD") == 0) {
		curl_easy_setopt(x->easy, CURLOPT_NOBODY, 1L);
	}
	if (req->method && strcmp(req->method, "HEAD") != 0)
		curl_easy_setopt(x->easy, CURLOPT_CUSTOMREQUEST, req->method);
}

/* A host in "HOST:PORT:...": libcurl wants brackets around an address of IPv6, and its URL parser returns them. */
static void set_server_name(struct xfer *x, const char *name)
{
	char *host = NULL, *port = NULL, *url = NULL;
	CURLU *u = curl_url();

	if (!u)
		mem_none(1, sizeof(u));
	if (curl_url_set(u, CURLUPART_URL, x->url, CURLU_PATH_AS_IS) == CURLUE_OK &&
	    curl_url_get(u, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
	    curl_url_get(u, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK &&
	    curl_url_set(u, CURLUPART_HOST, name, 0) == CURLUE_OK &&
	    curl_url_get(u, CURLUPART_URL, &url, 0) == CURLUE_OK) {
		AUTO(mem_freep) char *to = mem_printf("%s:%s:%s:%s", name, port, host, port);
		AUTO(mem_freep) char *header = mem_printf("Host: %s:%s", host, port);

		x->named_url = mem_strdup(url);
		x->connect_to = curl_slist_append(NULL, to);
		x->headers = curl_slist_append(x->headers, header);
		curl_easy_setopt(x->easy, CURLOPT_CONNECT_TO, x->connect_to);
	}
	curl_free(host);
	curl_free(port);
	curl_free(url);
	curl_url_cleanup(u);
}

static void set_tls(struct xfer *x, const struct net_tls *tls)
{
	CURL *e = x->easy;

	if (!tls)
		return;
	if (tls->ca_file) {
		curl_easy_setopt(e, CURLOPT_CAINFO, tls->ca_file);
		curl_easy_setopt(e, CURLOPT_CAPATH, NULL);
	}
	if (tls->cert_file)
		curl_easy_setopt(e, CURLOPT_SSLCERT, tls->cert_file);
	if (tls->key_file)
		curl_easy_setopt(e, CURLOPT_SSLKEY, tls->key_file);
	if (tls->server_name)
		set_server_name(x, tls->server_name);
	if (tls->insecure) {
		curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, 0L);
		curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, 0L);
	}
}

static void xfer_set_options(struct xfer *x, const struct xfer_request *req)
{
	CURL *e = x->easy;

	/* It may change the URL. */
	set_tls(x, req->tls);
	curl_easy_setopt(e, CURLOPT_URL, url_for_curl(x));
	if (req->direct)
		curl_easy_setopt(e, CURLOPT_PROXY, "");
	else if (x->wire->proxy)
		curl_easy_setopt(e, CURLOPT_PROXY, x->wire->proxy);
	/* The head of the proxy's answer to CONNECT is none of the server's. */
	curl_easy_setopt(e, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
	if (x->socket_url) {
		curl_easy_setopt(e, CURLOPT_UNIX_SOCKET_PATH, x->socket);
		curl_easy_setopt(e, CURLOPT_PROXY, "");
	}
	/* net_path_is_inside() has judged the path as it is. */
	curl_easy_setopt(e, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(e, CURLOPT_PRIVATE, x);
	curl_easy_setopt(e, CURLOPT_ERRORBUFFER, x->error);
	curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, wire_on_header);
	curl_easy_setopt(e, CURLOPT_HEADERDATA, x);
	curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, wire_on_data);
	curl_easy_setopt(e, CURLOPT_WRITEDATA, x);
	curl_easy_setopt(e, CURLOPT_PREREQFUNCTION, wire_on_connected);
	curl_easy_setopt(e, CURLOPT_PREREQDATA, x);
	curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, wire_on_socket);
	curl_easy_setopt(e, CURLOPT_OPENSOCKETDATA, x);
	curl_easy_setopt(e, CURLOPT_BUFFERSIZE, req->read_size ? (long)req->read_size : READ_SIZE);
	curl_easy_setopt(e, CURLOPT_USERAGENT, x->wire->user_agent);
	if (x->wire->ca_file && !(req->tls && req->tls->ca_file))
		curl_easy_setopt(e, CURLOPT_CAINFO, x->wire->ca_file);
	if (x->wire->ca_dir && !(req->tls && req->tls->ca_file))
		curl_easy_setopt(e, CURLOPT_CAPATH, x->wire->ca_dir);
	curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(e, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)req->connect_ms);
	curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(e, CURLOPT_TCP_KEEPIDLE, KEEPALIVE_S);
	/* A library must not set signal handlers in the process that uses it, and must not wait for an
	 * unneeded answer of a name server. */
	curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(e, CURLOPT_QUICK_EXIT, 1L);
	x->follows = !req->has_upload && !req->stays;
	x->any_host = req->any_host;
	if (x->follows) {
		curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 1L);
		curl_easy_setopt(e, CURLOPT_MAXREDIRS, (long)NET_MAX_REDIRECTS);
	}
	if (req->compressed)
		curl_easy_setopt(e, CURLOPT_ACCEPT_ENCODING, "gzip");
	if (req->from) {
		char range[32];

		snprintf(range, sizeof(range), "%llu-", (unsigned long long)req->from);
		curl_easy_setopt(e, CURLOPT_RANGE, range);
	}
	set_method(x, req);
	set_headers(x, req);
}

int xfer_start(struct wire *w, const struct xfer_request *req, struct xfer **ret, struct fault *fault)
{
	struct xfer *x = NEW(struct xfer);
	struct str path;

	x->wire = w;
	x->events = req->events;
	x->arg = req->arg;
	x->heard_ms = clock_mono_ms();
	x->connect_ms = req->connect_ms;
	head_init(&x->head);
	x->head.keep_all = req->keep_all;
	if (strlen(req->url) > NET_URL_MAX) {
		fault_set(fault, FAULT_KIND_STATUS, EINVAL, "the URL would be longer than %u bytes",
			  NET_URL_MAX);
		xfer_drop(x);
		return -1;
	}
	strcpy(x->url, req->url);
	if (net_socket_of(str_of(x->url), x->socket, &path))
		x->socket_url = mem_printf("http://localhost" STR_FMT, STR_ARG(path));
	if (str_starts(str_of(x->url), STR("file://"))) {
		x->file = file_xfer_new(req, &x->head, fault);
		if (!x->file) {
			xfer_drop(x);
			return -1;
		}
		x->connected = true;
		x->next = w->files;
		w->files = x;
	} else {
		x->easy = curl_easy_init();
		if (!x->easy)
			mem_none(1, sizeof(x));
		xfer_set_options(x, req);
		curl_multi_add_handle(w->multi, x->easy);
	}
	*ret = x;
	return 0;
}

void xfer_drop(struct xfer *x)
{
	if (!x)
		return;
	if (x->easy) {
		curl_multi_remove_handle(x->wire->multi, x->easy);
		curl_easy_cleanup(x->easy);
		curl_slist_free_all(x->headers);
		curl_slist_free_all(x->connect_to);
	}
	for (struct xfer **at = &x->wire->files; *at; at = &(*at)->next)
		if (*at == x) {
			*at = x->next;
			break;
		}
	file_xfer_free(x->file);
	head_done(&x->head);
	free(x->at);
	free(x->socket_url);
	free(x->named_url);
	free(x);
}

const struct head *xfer_head(const struct xfer *x)
{
	return &x->head;
}

int64_t xfer_heard_ms(const struct xfer *x)
{
	return x->heard_ms;
}

uint64_t xfer_wire_bytes(struct xfer *x)
{
	curl_off_t n = 0;

	if (x->file)
		return file_xfer_bytes(x->file);
	curl_easy_getinfo(x->easy, CURLINFO_SIZE_DOWNLOAD_T, &n);
	return (uint64_t)n;
}

const char *xfer_url(struct xfer *x)
{
	char *url = NULL;

	if (x->easy && !x->socket_url)
		curl_easy_getinfo(x->easy, CURLINFO_EFFECTIVE_URL, &url);
	return url ? url : x->url;
}
