/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that change something: PUT and DELETE of an object, POST of a want list. docs/protocol.md has the
 * whole of it.
 *
 * All that can be refused by the headers is refused before the body is asked for (100 Continue), on the HTTP
 * thread: path, token, size, and what is here already. That looks at a record of at most 64 KiB; all else is
 * a worker's.
 */
#include "server/push/push.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#define WANT_PATH   STR("/push/want")
#define OBJECT_PATH STR("/buildid/")

struct push *push_new(struct server *s)
{
	struct push *p = NEW(struct push);

	p->s = s;
	p->tokens = tokens_new(s->opts.tokens_path);
	p->sessions = sessions_new(s->opts.store, s->opts.max_push);
	return p;
}

void push_tick(struct push *p)
{
	if (p)
		sessions_expire(p->sessions);
}

void push_free(struct push *p)
{
	if (!p)
		return;
	sessions_free(p->sessions);
	tokens_free(p->tokens);
	free(p);
}

/* ---- replies ---- */

static void reply(struct request *req, unsigned status, const char *result, const char *off, const char *text)
{
	AUTO(mem_freep) char *line = mem_printf("%s\n", text);

	if (req->reply)
		return;
	req->status = status;
	req->bytes = strlen(line);
	req->result = status < 400 ? "made" : "error";
	req->reply = reply_text(req->s, status, str_of(line));
	if (result)
		http_reply_header(req->reply, "X-LODE-RESULT", result);
	if (off)
		http_reply_header(req->reply, "X-LODE-OFFSET", off);
	if (status == 401)
		http_reply_header(req->reply, "WWW-Authenticate", "Bearer realm=\"lode\"");
}

void push_reply(struct request *req, unsigned status, const char *result, const char *text)
{
	reply(req, status, result, NULL, text);
}

void push_reply_offset(struct request *req, unsigned status, const char *result, uint64_t off,
		       const char *text)
{
	char number[24];

	snprintf(number, sizeof(number), "%llu", (unsigned long long)off);
	reply(req, status, result, number, text);
}

/* false, for whoever has just decided so. */
static bool refuse(struct request *req, unsigned status, const char *text)
{
	push_reply(req, status, NULL, text);
	req->push->refused = true;
	return false;
}

/* ---- who may ---- */

bool push_is_here(struct http_conn *conn)
{
	const struct sockaddr *a = http_peer(conn);

	/* What a proxy on this machine hands on comes from elsewhere. */
	if (!a || http_header(conn, "X-Forwarded-For") || http_header(conn, "Forwarded"))
		return false;
	if (a->sa_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
	if (a->sa_family == AF_INET6) {
		const struct in6_addr *six = &((const struct sockaddr_in6 *)a)->sin6_addr;

		return IN6_IS_ADDR_LOOPBACK(six) || (IN6_IS_ADDR_V4MAPPED(six) && six->s6_addr[12] == 127);
	}
	return false;
}

unsigned push_authorize(struct push *p, struct http_conn *conn, enum token_scope scope,
			char name[TOKEN_MAX_NAME], const char **ret_text)
{
	const char *auth = http_header(conn, "Authorization");

	if (!tokens_any(p->tokens) && scope != TOKEN_READ) {
		if (push_is_here(conn)) {
			strcpy(name, "loopback");
			return 0;
		}
		*ret_text = "this server has no tokens, so only its own machine may push: make one there "
			    "with 'lode token add', "
			    "and give it to lode push with --token-file";
		return 403;
	}
	if (!auth || strncasecmp(auth, "Bearer ", 7) != 0) {
		*ret_text = "a token is wanted: --token-file FILE or LODE_TOKEN for lode push, "
			    "'Authorization: Bearer TOKEN' "
			    "for others; whoever runs the server makes one with 'lode token add'";
		return 401;
	}
	switch (tokens_check(p->tokens, str_trim(str_of(auth + 7)), scope, name)) {
	case 0:
		return 0;
	case TOKEN_NOT_ALLOWED:
		*ret_text = scope == TOKEN_ADMIN
				    ? "this token may not remove anything: one with the scope admin is wanted"
			    : scope == TOKEN_PUSH
				    ? "this token may not push: one with the scope push is wanted"
				    : "this token may not read: one with the scope read is wanted";
		return 403;
	default:
		*ret_text = "this token is not known here: was it removed, or is it another server's?";
		return 401;
	}
}

unsigned push_may_read(struct push *p, struct http_conn *conn, const char **ret_text)
{
	char name[TOKEN_MAX_NAME];

	return push_authorize(p, conn, TOKEN_READ, name, ret_text);
}

static bool may(struct request *req, enum token_scope scope)
{
	const char *text = "";
	unsigned status = push_authorize(req->s->push, req->conn, scope, req->push->token, &text);

	return status ? refuse(req, status, text) : true;
}

/* ---- the headers of a PUT ---- */

/* "5-9/100" of "bytes 5-9/100" */
bool push_range_parse(struct str s, uint64_t *ret_off, uint64_t *ret_size, uint64_t *ret_total)
{
	struct str unit = str_cut(&s, ' '), first = str_cut(&s, '-'), last = str_cut(&s, '/');
	uint64_t from, to, total;

	if (!str_eq(unit, STR("bytes")) || !str_to_u64(first, &from) || !str_to_u64(last, &to) ||
	    !str_to_u64(s, &total) || from > to || to >= total)
		return false;
	*ret_off = from;
	*ret_size = to - from + 1;
	*ret_total = total;
	return true;
}

static bool read_sizes(struct request *req)
{
	const char *length = http_header(req->conn, "Content-Length"),
		   *range = http_header(req->conn, "Content-Range");
	struct push_request *pr = req->push;
	uint64_t max = req->s->opts.max_push, size;

	if (!length || !str_to_u64(str_trim(str_of(length)), &size))
		return refuse(req, 411,
			      "how long is it? A Content-Length is wanted: send a file, not a pipe");
	if (range && !push_range_parse(str_trim(str_of(range)), &pr->off, &pr->size, &pr->total))
		return refuse(req, 400, "a Content-Range is wanted of the form 'bytes FIRST-LAST/SIZE'");
	if (range && pr->size != size)
		return refuse(req, 400, "Content-Range and Content-Length do not fit each other");
	if (!range)
		pr->size = pr->total = size;
	if (!pr->total)
		return refuse(req, 422, "it is empty");
	if (pr->total > max) {
		char text[160];

		snprintf(text, sizeof(text),
			 "it has %llu bytes, and %llu are the limit here (--max-push of the server)",
			 (unsigned long long)pr->total, (unsigned long long)max);
		return refuse(req, 413, text);
	}
	return true;
}

static bool read_sha256(struct request *req)
{
	const char *hex = http_header(req->conn, "X-LODE-SHA256");
	struct push_request *pr = req->push;
	size_t n;

	if (!hex) {
		if (pr->size != pr->total)
			return refuse(
				req, 400,
				"a part needs X-LODE-SHA256, of the whole: which upload does it belong to?");
		return true;
	}
	pr->has_sha256 = hex_decode(str_trim(str_of(hex)), true, pr->sha256, sizeof(pr->sha256), &n) &&
			 n == sizeof(pr->sha256);
	return pr->has_sha256
		       ? true
		       : refuse(req, 400, "X-LODE-SHA256 is no SHA-256: 64 hexadecimal digits are wanted");
}

static void read_meta(struct request *req)
{
	const char *file = http_header(req->conn, "X-LODE-FILE"),
		   *mtime = http_header(req->conn, "X-LODE-MTIME");
	const struct sockaddr *peer = http_peer(req->conn);
	struct store_meta *m = &req->push->meta;
	char address[INET6_ADDRSTRLEN] = "", *name;
	uint64_t when;

	*m = (struct store_meta){ .origin = STORE_PUSHED, .from = str_of(req->push->token) };
	if (peer && peer->sa_family == AF_INET)
		inet_ntop(AF_INET, &((const struct sockaddr_in *)peer)->sin_addr, address, sizeof(address));
	else if (peer && peer->sa_family == AF_INET6)
		inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)peer)->sin6_addr, address,
			  sizeof(address));
	m->address = arena_str(&req->arena, str_of(address));
	if (mtime && str_to_u64(str_trim(str_of(mtime)), &when) && when <= INT64_MAX)
		m->mtime = (int64_t)when;
	if (!file || strlen(file) > PUSH_MAX_FILE)
		return;
	name = arena_alloc(&req->arena, strlen(file) + 1);
	m->file.p = name;
	if (!route_unescape(str_of(file), name, &m->file.size))
		m->file = STR("");
}

/* The same bytes again, or poorer ones than are here: then the body is not wanted at all. */
static bool is_here(struct request *req)
{
	struct push_request *pr = req->push;
	struct store_meta there;
	struct err err;

	if (!pr->has_sha256 || store_find(req->s->opts.store, &pr->key, &req->arena, &there, &err) != 0)
		return false;
	if (memcmp(there.sha256, pr->sha256, sizeof(pr->sha256)) != 0 || there.origin != STORE_PUSHED)
		return false;
	push_reply(req, 200, "same", "the same bytes are here already");
	pr->refused = true;
	return true;
}

static bool take_session(struct request *req)
{
	struct push *p = req->s->push;
	struct push_request *pr = req->push;
	struct session *session;
	uint64_t off;

	if (atomic_load(&p->n_uploads) >= PUSH_MAX_UPLOADS)
		return refuse(req, 503, "too many upload at once; push again in a while");
	session = session_take(p->sessions, pr);
	if (!session) {
		push_reply(req, 409, "busy",
			   "another connection uploads this very file just now; ask again in a while");
		pr->refused = true;
		return false;
	}
	off = session_offset(session);
	if (!pr->off && off)
		session_reset(p->sessions, session);
	else if (pr->off != off) {
		push_reply_offset(req, 409, "offset", off,
				  "that is not where this upload has got to: go on from X-LODE-OFFSET");
		pr->refused = true;
		session_park(p->sessions, session);
		return false;
	}
	pr->upload = upload_new(req, session);
	return true;
}

static bool begin_put(struct request *req)
{
	enum store_kind kind = req->push->key.kind;

	if (kind != STORE_DEBUGINFO && kind != STORE_EXECUTABLE && kind != STORE_SOURCES)
		return refuse(req, 405, "only debuginfo, executable and sources can be pushed");
	if (req->push->key.arg.size)
		return refuse(req, 404, "no such path: nothing may follow debuginfo, executable or sources");
	if (!may(req, TOKEN_PUSH) || !read_sizes(req) || !read_sha256(req))
		return false;
	read_meta(req);
	return !is_here(req) && take_session(req);
}

/* ---- beginning ---- */

static bool begin_want(struct request *req)
{
	const char *length = http_header(req->conn, "Content-Length");
	uint64_t size;

	if (strcmp(req->method, "POST") != 0)
		return refuse(req, 405, "only POST");
	if (!may(req, TOKEN_PUSH))
		return false;
	if (!length || !str_to_u64(str_trim(str_of(length)), &size))
		return refuse(req, 411, "a Content-Length is wanted");
	if (size > PUSH_WANT_MAX)
		return refuse(req, 413, "the want list is longer than 8 MiB: ask in several");
	return true;
}

static bool begin_object(struct request *req, struct str path)
{
	struct str text = { path.p + OBJECT_PATH.size, path.size - OBJECT_PATH.size };

	while (text.size && text.p[0] == '/')
		text = (struct str){ text.p + 1, text.size - 1 };
	if (!store_key_parse(text, &req->push->key))
		return refuse(
			req, 400,
			"wanted is /buildid/ID/KIND, with an ID of an even number of the digits 0-9 a-f");
	if (strcmp(req->method, "PUT") == 0)
		return begin_put(req);
	if (strcmp(req->method, "DELETE") == 0)
		return may(req, TOKEN_ADMIN);
	return refuse(req, 405, "only GET, HEAD, PUT and DELETE");
}

bool push_begin(struct server *s, const struct http_request *hr, void **ctx)
{
	struct request *req = request_new_push(s, hr);
	struct str path = { 0 };
	char *room = arena_alloc(&req->arena, strlen(hr->url) + 1);

	req->push = ARENA_NEW(&req->arena, struct push_request);
	*ctx = req;
	path.p = room;
	if (s->limit && !limit_take(s->limit, http_peer(hr->conn), clock_mono_ms())) {
		metrics_refused("rate");
		return refuse(req, 429, "too many requests from your address");
	}
	if (strlen(hr->url) > ROUTE_URL_MAX || !route_unescape(str_of(hr->url), room, &path.size))
		return refuse(req, 400, "the path is too long, or has a broken %-escape");
	while (path.size > 1 && path.p[0] == '/' && path.p[1] == '/')
		path = (struct str){ path.p + 1, path.size - 1 };
	if (str_eq(path, WANT_PATH))
		return begin_want(req);
	if (str_starts(path, OBJECT_PATH))
		return begin_object(req, path);
	return refuse(req, 405, "only GET and HEAD");
}

/* ---- the body, the end ---- */

size_t push_body(struct request *req, struct bytes piece)
{
	struct push_request *pr = req->push;

	if (pr->upload)
		return upload_body(pr->upload, piece);
	if (!pr->refused && pr->body.size + piece.size <= PUSH_WANT_MAX)
		buf_add(&pr->body, piece.p, piece.size);
	return piece.size;
}

static void remove_job(struct request *req)
{
	struct err err = { 0 };
	int r = store_remove(req->s->opts.store, &req->push->key, &err);

	if (r < 0) {
		log_warn("http", "%s: %s", req->url, err.text);
		push_reply(req, 500, NULL, "it could not be removed; the server's log says why");
	} else if (r) {
		push_reply(req, 404, NULL,
			   "not in the store; what packages and files have cannot be removed");
	} else {
		log_info("http", "%s: removed by %s", req->url, req->push->token);
		push_reply(req, 200, "removed", "removed");
	}
}

static void run_job(void *arg)
{
	struct request *req = arg;

	req->job(req);
	wait_job_done(req);
}

static bool start_job(struct request *req, void (*job)(struct request *req))
{
	req->job = job;
	if (!wait_job(req))
		return false;
	if (pool_submit(req->s->writers, POOL_NORMAL, run_job, req) != 0)
		abort(); /* the pool has room for all that may be suspended */
	return true;
}

enum http_result push_request(struct request *req)
{
	struct push_request *pr = req->push;
	bool going;

	if (!req->reply) {
		if (pr->upload)
			going = upload_finish(pr->upload);
		else
			going = start_job(req, strcmp(req->method, "DELETE") == 0 ? remove_job : want_job);
		if (going)
			return HTTP_SUSPENDED;
		push_reply(req, 503, NULL, "the server stops; ask again");
	}
	return http_send(req->conn, req->status, req->reply);
}

void push_done(struct request *req)
{
	if (req->push->upload)
		upload_gone(req->push->upload);
	buf_done(&req->push->body);
}
