/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PUT and DELETE of an object; docs/protocol.md describes both.
 *
 * A PUT that can be refused by its headers is refused before the body is asked for (100 Continue), on the
 * HTTP thread: sizes, and whether the store has these bytes already. That reads a record of at most 64 KiB;
 * a worker does the rest.
 */
#include "server/push/pass.h"
#include "server/push/push.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include "server/artifact/artifact.h"

/* As for sessions: complete objects shall not be evicted for incomplete ones. */
#define DIRECT_QUOTA_PART 4

struct push *push_new(struct server *s)
{
	struct push *p = NEW(struct push);
	struct store_figures f = { 0 };

	pthread_mutex_init(&p->lock, NULL);
	p->sessions = sessions_new(s->opts.store, s->opts.max_push);
	store_figures(s->opts.store, &f);
	p->passes = passes_new(f.quota / DIRECT_QUOTA_PART);
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
	passes_free(p->passes);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

/* Returns false. */
static bool push_refuse(struct request *req, unsigned status, const char *text)
{
	push_reply(req, status, NULL, text);
	return false;
}

/* Make the request's own, with the key of its path; NULL: it was refused. */
static struct push_request *push_request_new(struct request *req)
{
	struct push_request *pr = ARENA_NEW(&req->arena, struct push_request);
	struct str arg = req->parts[1];

	pr->key.kind = (enum store_kind)req->route->kind;
	/* The slash is a part of a source path. */
	if (pr->key.kind == STORE_SECTION && arg.size)
		arg = (struct str){ arg.p + 1, arg.size - 1 };
	pr->key.arg = arg;
	snprintf(pr->token, sizeof(pr->token), "%s", push_owner_name(req));
	pr->meta.owner = str_of(pr->token);
	pr->is_admin = push_is_admin(req);
	req->own = pr;
	if (server_build_id(&pr->key.id, req->parts[0]) && arg.size <= STORE_MAX_ARG)
		return pr;
	push_refuse(req, 400, server_bad_build_id(req->parts[0]));
	return NULL;
}

/* ---- the headers of a PUT ---- */

/* Parse "bytes 5-9/100". */
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

static bool put_read_sizes(struct request *req)
{
	const char *length = http_header(req->conn, "Content-Length"),
		   *range = http_header(req->conn, "Content-Range");
	struct push_request *pr = req->own;
	uint64_t max = req->s->opts.max_push, size;

	/* A body in chunks has any size: upload.c counts it. */
	if (!length && (http_head(req->conn)->two || http_header(req->conn, "Transfer-Encoding"))) {
		pr->size = pr->total = STORE_SIZE_UNKNOWN;
		return range ? push_refuse(req, 411, "a part of an upload needs a Content-Length") : true;
	}
	if (!length || !str_to_u64(str_trim(str_of(length)), &size))
		return push_refuse(req, 411, "a Content-Length, or Transfer-Encoding: chunked, is needed");
	if (range && !push_range_parse(str_trim(str_of(range)), &pr->off, &pr->size, &pr->total))
		return push_refuse(req, 400, "Content-Range must have the form 'bytes FIRST-LAST/SIZE'");
	if (range && pr->size != size)
		return push_refuse(req, 400, "Content-Range and Content-Length have different sizes");
	if (!range)
		pr->size = pr->total = size;
	if (!pr->total)
		return push_refuse(req, 422, "the body is empty");
	if (pr->total > max) {
		char text[160];

		snprintf(text, sizeof(text),
			 "the file has %llu bytes, more than the %llu that --max-push of the server allows",
			 (unsigned long long)pr->total, (unsigned long long)max);
		return push_refuse(req, 413, text);
	}
	return true;
}

static bool put_read_sha256(struct request *req)
{
	const char *hex = http_header(req->conn, "X-LODE-SHA256");
	struct push_request *pr = req->own;
	size_t n;

	if (!hex) {
		if (pr->size != pr->total)
			return push_refuse(
				req, 400,
				"a part of an upload needs X-LODE-SHA256, the SHA-256 of the whole file");
		return true;
	}
	pr->has_sha256 = hex_decode(str_trim(str_of(hex)), true, pr->sha256, sizeof(pr->sha256), &n) &&
			 n == sizeof(pr->sha256);
	return pr->has_sha256 ? true : push_refuse(req, 400, "X-LODE-SHA256 must be 64 hexadecimal digits");
}

struct str push_peer_address(struct request *req)
{
	const struct sockaddr *peer = http_peer(req->conn);
	char address[INET6_ADDRSTRLEN] = "";

	if (peer && peer->sa_family == AF_INET)
		inet_ntop(AF_INET, &((const struct sockaddr_in *)peer)->sin_addr, address, sizeof(address));
	else if (peer && peer->sa_family == AF_INET6)
		inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)peer)->sin6_addr, address,
			  sizeof(address));
	return arena_str(&req->arena, str_of(address));
}

void push_read_meta(struct request *req)
{
	const char *file = http_header(req->conn, "X-LODE-FILE"),
		   *mtime = http_header(req->conn, "X-LODE-MTIME");
	struct push_request *pr = req->own;
	struct store_meta *m = &pr->meta;
	uint64_t when;
	char *name;

	*m = (struct store_meta){ .origin = STORE_PUSHED,
				  .from = str_of(pr->token),
				  .owner = str_of(pr->token),
				  .address = push_peer_address(req) };
	if (mtime && str_to_u64(str_trim(str_of(mtime)), &when) && when <= INT64_MAX)
		m->mtime = (int64_t)when;
	if (!file || strlen(file) > PUSH_MAX_FILE)
		return;
	name = arena_alloc(&req->arena, strlen(file) + 1);
	m->file.p = name;
	if (!http_unescape(str_of(file), name, &m->file.size))
		m->file = STR("");
}

/*
 * The store has the same bytes already: the body is not needed. On an HTTP thread nothing is synced or read to make
 * sure of that, so after a start the first client has to send the bytes, unless it asks /push/want before.
 */
static bool put_is_here(struct request *req)
{
	struct push_request *pr = req->own;
	struct store_meta there;
	struct err err;

	if (!pr->has_sha256 || store_is_remote(req->s->opts.store) ||
	    store_find_sure(req->s->opts.store, &pr->key, STORE_AS_KNOWN, &req->arena, &there, &err) != 0)
		return false;
	if (memcmp(there.sha256, pr->sha256, sizeof(pr->sha256)) != 0 || there.origin != STORE_PUSHED)
		return false;
	push_reply(req, 200, "same", "the server has the same bytes already");
	return true;
}

/*
 * Before the body is sent. A commit looks again: another push may come between. A store in a bucket is not asked here: all
 * requests of this thread would wait for the answer.
 */
static bool put_is_owned(struct request *req)
{
	struct str owner = store_is_remote(req->s->opts.store)
				   ? STR("")
				   : push_other_owner(req->s, req->own, &req->arena, NULL);

	if (owner.size)
		push_reply(req, 409, "owned", push_owned_text(owner, &req->arena));
	return owner.size > 0;
}

static bool put_take_session(struct request *req)
{
	struct push *p = req->s->push;
	struct push_request *pr = req->own;
	struct session *session;
	uint64_t off;

	if (!upload_admit(p, pr->token, req->s->opts.max_uploads_per_token)) {
		counters_refused("uploads");
		return push_refuse(req, 503, "too many uploads at once; push again later");
	}
	session = session_take(p->sessions, pr);
	if (!session) {
		push_reply(req, 409, "busy",
			   "another connection is uploading the same file; ask again later");
		return false;
	}
	off = session_offset(session);
	if (!pr->off && off)
		session_reset(p->sessions, session);
	else if (pr->off != off) {
		push_reply_offset(req, 409, "offset", off,
				  "the upload continues at another offset: go on from X-LODE-OFFSET");
		session_park(p->sessions, session);
		return false;
	}
	pr->upload = upload_new(req, session);
	return true;
}

static void push_put_begin(struct request *req)
{
	if (push_request_new(req) && put_read_sizes(req) && put_read_sha256(req)) {
		push_read_meta(req);
		if (!put_is_here(req) && !put_is_owned(req))
			(void)put_take_session(req);
	}
}

/* ---- the headers of a POST: it has neither a hash nor, mostly, a length ---- */

static void post_begin(struct request *req)
{
	struct push_request *pr = push_request_new(req);

	if (pr && put_read_sizes(req)) {
		pr->by_content = true;
		push_read_meta(req);
		if (!put_is_owned(req))
			(void)put_take_session(req);
	}
}

/* ---- the headers of a PUT with a pass: it is as from the client that the pass was given to ---- */

bool push_with_pass(struct request *req, struct push_request *pr, const struct pass *p)
{
	pr->key = (struct store_key){ .id = p->id, .kind = STORE_DEBUGINFO };
	/* parca-debuginfo sends its file in chunks: upload.c counts them. */
	if (pr->total == STORE_SIZE_UNKNOWN)
		pr->expected = p->size;
	else
		pr->size = pr->total = p->size;
	pr->by_content = true;
	pr->by_sender = p->by_sender;
	if (pr->by_sender && !resolve_alias(req->s->opts.resolver, &pr->key.id, &pr->program))
		pr->program.size = 0;
	pr->is_admin = p->is_admin;
	pr->pass = p->number;
	snprintf(pr->token, sizeof(pr->token), "%s", p->owner);
	push_read_meta(req);
	return !put_is_owned(req) && put_take_session(req);
}

static void by_pass_begin(struct request *req)
{
	struct push_request *pr = ARENA_NEW(&req->arena, struct push_request);
	struct pass pass;

	req->own = pr;
	if (!pass_take(req->s->push->passes, req->parts[0], &pass)) {
		push_refuse(req, 403, "this URL was used or has expired: initiate the upload again");
		return;
	}
	if (!put_read_sizes(req))
		return;
	if (pr->off || (pr->total != STORE_SIZE_UNKNOWN && pr->total != pass.size))
		push_refuse(req, 400, "the file does not have the size that the upload was initiated with");
	else
		(void)push_with_pass(req, pr, &pass);
}

/* ---- its body, its end ---- */

static size_t put_body(struct request *req, struct bytes chunk)
{
	struct push_request *pr = req->own;

	return upload_body(pr->upload, chunk);
}

static enum http_next put_run(struct request *req)
{
	struct push_request *pr = req->own;

	if (upload_finish(pr->upload))
		return HTTP_WAITS;
	push_reply(req, 503, NULL, "the server stops; ask again");
	return HTTP_REPLY;
}

static void put_done(struct request *req)
{
	struct push_request *pr = req->own;

	if (pr && pr->upload)
		upload_gone(pr->upload);
}

bool push_exists(const struct server *s)
{
	return s->push != NULL;
}

const struct http_handler push_put = {
	.exists = push_exists,
	.begin = push_put_begin,
	.body = put_body,
	.run = put_run,
	.done = put_done,
};

const struct http_handler push_post = {
	.exists = push_exists,
	.begin = post_begin,
	.body = put_body,
	.run = put_run,
	.done = put_done,
};

const struct http_handler push_by_pass = {
	.exists = push_exists,
	.begin = by_pass_begin,
	.body = put_body,
	.run = put_run,
	.done = put_done,
};

/* ---- DELETE ---- */

static void remove_begin(struct request *req)
{
	(void)push_request_new(req);
}

static enum http_next remove_run(struct request *req)
{
	struct push_request *pr = req->own;
	struct err err = { 0 };
	int r = store_remove(req->s->opts.store, &pr->key, pr->meta.owner, &err);

	if (r < 0) {
		log_warn("http", "%s: %s", req->url, err.text);
		push_reply(req, reply_status_of(&err), NULL,
			   "the object could not be removed; the server's log has the reason");
	} else if (r) {
		push_reply(req, 404, NULL,
			   "not in the store; contents of packages and plain files cannot be removed");
	} else {
		log_info("http", "%s: removed by %s", req->url, pr->token);
		push_reply(req, 200, "removed", "removed");
	}
	return HTTP_REPLY;
}

const struct http_handler push_remove = {
	.exists = push_exists,
	.begin = remove_begin,
	.run = remove_run,
};
