/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uploads to the bucket: the client sends the bytes to the bucket of the store itself, by URLs that are signed here
 * (store/incoming.h), and says when it has. Then they are read from there once, checked, and committed as those of any push.
 *
 *   POST /push/signed            a want list with one object: the URLs
 *   POST /push/signed/UPLOAD     all was sent: the outcome of the push
 *   DELETE /push/signed/UPLOAD   it will not be sent
 *   POST /push/signed/UPLOAD/urls   URLs that are good for longer
 *
 * The facts of an upload are in the bucket, so another process or node may finish it. Here are only the pass, which counts
 * it, and whether a thread is finishing it.
 */
#include "server/push/direct.h"

#include <stdio.h>
#include <stdlib.h>
#include "base/json.h"
#include "resolve/resolve.h"
#include "server/artifact/artifact.h"
#include "server/push/pass.h"

#define READ_PIECE    KIB(256)
#define FINISHING_MAX 4u /* at once: of the threads that write for all other pushes */

static const struct metric_family uploads = {
	.name = "lode_signed_uploads_total",
	.help = "Uploads of clients to the bucket by signed URLs: announced, given new URLs (renewed), and "
		"how they ended: stored, "
		"same, kept, "
		"held, owned, refused, missing (not sent), given_up, failed (may be tried again).",
	.type = METRIC_COUNTER,
	.labels = "outcome",
};
static const struct metric_family read_bytes = {
	.name = "lode_signed_uploads_read_bytes_total",
	.help = "Bytes of such uploads that were read from the bucket.",
	.type = METRIC_COUNTER,
	.labels = "",
};

static void refuse_with(struct push_outcome *ret, unsigned status, const char *text)
{
	*ret = (struct push_outcome){ .status = status, .text = text };
}

/* ---- announcing ---- */

bool direct_offers(const struct server *s, unsigned who, uint64_t size)
{
	/* While the bucket is away pushes are held on this machine, which has to get them then. */
	return s->opts.incoming && s->opts.incoming_for & who && size && size <= s->opts.max_push &&
	       size <= INCOMING_MAX && !store_holds_now(s->opts.store);
}

uint64_t direct_number(struct str id)
{
	uint64_t n = 0;

	(void)!pass_read_number((struct str){ id.p, MIN(id.size, (size_t)PASS_NUMBER_SIZE - 1) }, &n);
	return n;
}

int direct_ask_store(struct store *st, const struct store_key *key, struct arena *a, struct err *err)
{
	/* If its record is damaged, that of another kind shows whether there is a store. */
	const enum store_kind kinds[] = { key->kind, STORE_EXECUTABLE, STORE_DEBUGINFO };
	int r = -1;

	err->kind = ERR_INVALID;
	for (size_t i = 0; i < ARRAY_SIZE(kinds) && r < 0 && err->kind == ERR_INVALID; i++) {
		const struct store_key of = { .id = key->id, .kind = kinds[i] };
		struct store_meta there;

		r = store_find(st, &of, a, &there, err);
	}
	/* There is none, or all of these records are damaged: that is no fault of the file. */
	if (r < 0 && err->kind == ERR_INVALID)
		err->kind = ERR_DAMAGED;
	return MIN(r, 0);
}

int direct_begin(struct server *s, struct incoming_upload *u, bool in_parts, struct err *err)
{
	char secret[PASS_SECRET_SIZE];
	struct pass p = { .id = u->key.id, .size = u->meta.size };

	snprintf(p.owner, sizeof(p.owner), STR_FMT, STR_ARG(u->meta.owner));
	incoming_name_new(u);
	p.number = direct_number(str_of(u->id));
	p.direct_ms = 1000 * (int64_t)(in_parts ? INCOMING_PARTS_S : INCOMING_WHOLE_S);
	passes_sent(s->push->passes, incoming_left(s->opts.incoming));
	if (pass_give(s->push->passes, &p, secret, err) < 0)
		return -1;
	if (incoming_begin(s->opts.incoming, u, in_parts, err) < 0) {
		pass_cancel(s->push->passes, p.number);
		return -1;
	}
	metric_count(&uploads, "announced");
	return 0;
}

/* ---- finishing ---- */

/* One that a thread is finishing, on its stack. */
struct finishing {
	struct finishing *next;
	const char *id;
};

/* NULL, or why it has to wait. */
static const char *finishing_add(struct push *p, struct finishing *f)
{
	const char *why = NULL;
	unsigned n = 0;

	pthread_mutex_lock(&p->lock);
	for (struct finishing *o = p->finishing; o; o = o->next, n++)
		if (strcmp(o->id, f->id) == 0)
			why = "the file is being checked; ask again later";
	if (!why && n >= FINISHING_MAX)
		why = "other files are being checked; ask again later";
	if (!why) {
		f->next = p->finishing;
		p->finishing = f;
	}
	pthread_mutex_unlock(&p->lock);
	return why;
}

static void finishing_end(struct push *p, struct finishing *f)
{
	struct finishing **at = &p->finishing;

	pthread_mutex_lock(&p->lock);
	while (*at != f)
		at = &(*at)->next;
	*at = f->next;
	pthread_mutex_unlock(&p->lock);
}

static void request_of(struct server *s, const struct incoming_upload *u, bool is_admin,
		       struct push_request *ret)
{
	*ret = (struct push_request){ .key = u->key,
				      .has_sha256 = u->has_sha256,
				      .size = u->meta.size,
				      .total = u->meta.size,
				      .by_content = u->by_content,
				      .by_sender = u->by_sender,
				      .is_admin = is_admin,
				      .meta = u->meta };
	memcpy(ret->sha256, u->meta.sha256, sizeof(ret->sha256));
	snprintf(ret->token, sizeof(ret->token), STR_FMT, STR_ARG(u->meta.owner));
	if (u->by_sender && !resolve_alias(s->opts.resolver, &u->key.id, &ret->program))
		ret->program.size = 0;
}

/* STORE_FULL. */
static int data_copy(const struct push_request *pr, struct source *src, struct store_put *put,
		     struct err *err)
{
	AUTO(mem_freep) uint8_t *piece = mem_alloc(READ_PIECE);
	size_t got;
	int r = 0;

	for (uint64_t off = 0; r == 0 && off < src->size; off += got) {
		if (source_read(src, off, piece, READ_PIECE, SOURCE_SEQUENTIAL, &got, err) < 0 ||
		    (!off && push_check_head(pr, bytes_of(piece, got), err) < 0))
			return -1;
		if (!got)
			return err_set(err, ERR_IO, "the object ends too early");
		metric_add(metric_get(&read_bytes), (int64_t)got);
		r = store_put_write(put, bytes_of(piece, got), err);
	}
	return r;
}

static void data_commit(struct server *s, const struct incoming_upload *u, struct source *src, bool is_admin,
			const char *what, struct arena *a, struct push_outcome *ret)
{
	struct store_put *put = NULL;
	struct push_request pr;
	struct err err = { 0 };
	int r;

	request_of(s, u, is_admin, &pr);
	const struct store_put_options opts = { .later = true,
						.size = src->size,
						.sha256 = pr.has_sha256 ? pr.sha256 : NULL };

	r = store_put_begin(s->opts.store, &opts, &put, &err);
	if (r == 0)
		r = data_copy(&pr, src, put, &err);
	if (r == 0) {
		push_commit(s, &pr, put, what, a, ret);
		return;
	}
	store_put_abort(put);
	push_failure(what, r, &err, a, ret);
}

static void finish_upload(struct server *s, const struct incoming_upload *u, bool is_admin, const char *what,
			  struct arena *a, struct push_outcome *ret)
{
	AUTO(source_closep) struct source *src = NULL;
	struct err err = { 0 };
	int r = incoming_read(s->opts.incoming, u, &src, &err);

	if (r < 0)
		push_failure(what, r, &err, a, ret);
	else if (r)
		refuse_with(ret, 412,
			    "the bucket does not have all of the file: send it, or push it in another way");
	else
		data_commit(s, u, src, is_admin, what, a, ret);
}

/* It is over for good, not to be tried again. */
static void finish_forget(struct server *s, const struct incoming_upload *u, const struct push_outcome *o)
{
	uint64_t number = direct_number(str_of(u->id));

	incoming_drop(s->opts.incoming, u);
	if (o->status < 300)
		pass_finish(s->push->passes, number);
	else
		pass_refuse(s->push->passes, number);
}

static void count_outcome(const struct push_outcome *o)
{
	metric_count(&uploads, o->result          ? o->result
			       : o->status == 412 ? "missing"
			       : o->status < 500  ? "refused"
						  : "failed");
}

/* As incoming_find(). Damaged facts are as none: the client pushes the file in another way. */
static int find_announced(struct server *s, struct str id, const char *what, struct arena *a,
			  struct incoming_upload *ret, struct err *err)
{
	int r = incoming_find(s->opts.incoming, id, a, ret, err);

	if (r >= 0 || err->kind != ERR_INVALID)
		return r;
	log_warn("http", "%s: %s", what, err->text);
	return INCOMING_MISSING;
}

void direct_finish(struct server *s, const struct direct_end *e, struct arena *a, struct push_outcome *ret)
{
	struct incoming_upload u;
	struct finishing f = { .id = u.id };
	struct err err = { 0 };
	int r = find_announced(s, e->id, e->what, a, &u, &err);
	const char *busy;

	if (r < 0) {
		push_failure(e->what, r, &err, a, ret);
		return;
	}
	if (r || !str_eq(u.meta.owner, str_of(e->owner)) ||
	    (e->build_id && !build_id_eq(&u.key.id, e->build_id))) {
		refuse_with(ret, 404, "no such upload was announced, or it has ended: push the file again");
		return;
	}
	busy = finishing_add(s->push, &f);
	if (busy) {
		*ret = (struct push_outcome){ .status = 409, .result = "busy", .text = busy };
		return;
	}
	finish_upload(s, &u, e->is_admin, e->what, a, ret);
	count_outcome(ret);
	if (ret->status < 500 && ret->status != 412)
		finish_forget(s, &u, ret);
	finishing_end(s->push, &f);
}

/* ---- the requests of lode push ---- */

static bool direct_exists(const struct server *s)
{
	return s->push && s->opts.incoming && s->opts.incoming_for & DIRECT_FOR_PUSH;
}

static int take_announced(void *arg, const struct push_request *pr, enum store_quality quality)
{
	struct push_request *ret = arg;

	if (ret->key.id.size)
		return -1;
	ret->key = pr->key;
	ret->has_sha256 = true;
	ret->total = ret->size = pr->total;
	memcpy(ret->sha256, pr->sha256, sizeof(ret->sha256));
	return 0;
}

/* Would its push be refused now? Asks the store in any case: before that has been found to be one, nothing is put beside it. */
static void signed_check(struct request *req, struct push_request *pr)
{
	struct store *st = req->s->opts.store;
	const struct store_key keys[] = { pr->key, { pr->key.id, STORE_EXECUTABLE, { 0 } } };
	struct push_outcome o;
	struct err err = { 0 };
	struct str owner;

	store_look(st, keys, ARRAY_SIZE(keys), NULL);
	if (direct_ask_store(st, &pr->key, &req->arena, &err) < 0) {
		push_failure(req->url, -1, &err, &req->arena, &o);
		push_reply(req, o.status, o.result, o.text);
	} else if ((owner = push_other_owner(req->s, pr, &req->arena, NULL)).size) {
		push_reply(req, 409, "owned", push_owned_text(owner, &req->arena));
	}
	store_look_end(st);
}

/* Returns false: it was refused. */
static bool signed_read(struct request *req, struct push_request *pr)
{
	char text[ERR_TEXT_SIZE + 32];
	struct err err = { 0 };

	snprintf(pr->token, sizeof(pr->token), "%s", push_owner_name(req));
	pr->is_admin = push_is_admin(req);
	req->own = pr;
	push_read_meta(req);
	if (want_parse(buf_bytes(&req->body), take_announced, pr, &err) < 0 || !pr->key.id.size) {
		snprintf(text, sizeof(text), "the object: %s",
			 err.text[0] ? err.text : "a list of one is needed");
		push_reply(req, 400, NULL, text);
	} else if (!pr->total) {
		push_reply(req, 422, NULL, "the file is empty");
	} else if (pr->total > MIN(req->s->opts.max_push, INCOMING_MAX)) {
		push_reply(req, 413, NULL, "the file is larger than --max-push of the server allows");
	} else {
		signed_check(req, pr);
	}
	return !req->reply;
}

/* The URLs are secret: they are in no log. */
static int signed_write(struct server *s, const struct incoming_upload *u, struct buf *out, struct err *err)
{
	unsigned n = incoming_n_parts(u);
	struct json_writer j = { .out = out };
	AUTO(buf_done) struct buf url = { 0 };

	json_open_object(&j, NULL);
	json_put_text(&j, "upload", u->id);
	json_put_uint(&j, "seconds", n ? INCOMING_PARTS_S : INCOMING_WHOLE_S);
	json_put_uint(&j, "part_size", n ? INCOMING_PART : u->meta.size);
	json_open_array(&j, "urls");
	for (unsigned i = n ? 1 : 0; i <= n; i++) {
		url.size = 0;
		if (incoming_url(s->opts.incoming, u, i, &url, err) < 0)
			return -1;
		json_put_str(&j, NULL, buf_str(&url));
	}
	json_close(&j);
	json_close(&j);
	return 0;
}

static enum http_next signed_run(struct request *req)
{
	struct push_request *pr = ARENA_NEW(&req->arena, struct push_request);
	AUTO(buf_done) struct buf out = { 0 };
	struct err err = { 0 };
	struct push_outcome o;

	if (!signed_read(req, pr))
		return HTTP_REPLY;
	struct incoming_upload u = { .key = pr->key, .meta = pr->meta, .has_sha256 = true };

	u.meta.size = pr->total;
	memcpy(u.meta.sha256, pr->sha256, sizeof(u.meta.sha256));
	if (direct_begin(req->s, &u, true, &err) < 0) {
		if (err.kind == ERR_BUSY)
			push_reply(req, 503, NULL, err.text);
		else
			push_failure(req->url, -1, &err, &req->arena, &o);
	} else if (signed_write(req->s, &u, &out, &err) < 0) {
		direct_give_up(req->s, &u);
		push_failure(req->url, -1, &err, &req->arena, &o);
	} else {
		request_reply_body(req, 200, &out, "application/json", true);
	}
	if (!req->reply)
		push_reply(req, o.status, o.result, o.text);
	return HTTP_REPLY;
}

static enum http_next signed_end_run(struct request *req)
{
	const struct direct_end e = { .id = req->parts[0],
				      .owner = push_owner_name(req),
				      .is_admin = push_is_admin(req),
				      .what = req->url };
	struct push_outcome o;

	direct_finish(req->s, &e, &req->arena, &o);
	push_reply(req, o.status, o.result, o.text);
	return HTTP_REPLY;
}

void direct_give_up(struct server *s, const struct incoming_upload *u)
{
	incoming_drop(s->opts.incoming, u);
	pass_cancel(s->push->passes, direct_number(str_of(u->id)));
	metric_count(&uploads, "given_up");
}

/* The upload of the path. false: it was refused. */
static bool signed_find(struct request *req, struct incoming_upload *ret)
{
	struct err err = { 0 };
	struct push_outcome o;
	int r = find_announced(req->s, req->parts[0], req->url, &req->arena, ret, &err);

	if (r < 0) {
		push_failure(req->url, r, &err, &req->arena, &o);
		push_reply(req, o.status, o.result, o.text);
	} else if (r || !str_eq(ret->meta.owner, str_of(push_owner_name(req)))) {
		push_reply(req, 404, NULL, "no such upload was announced, or it has ended");
	}
	return !req->reply;
}

static enum http_next signed_drop_run(struct request *req)
{
	struct incoming_upload u;
	struct finishing f = { .id = u.id };
	const char *busy;

	if (!signed_find(req, &u))
		return HTTP_REPLY;
	busy = finishing_add(req->s->push, &f);
	if (busy) {
		push_reply(req, 409, "busy", busy);
	} else {
		direct_give_up(req->s, &u);
		finishing_end(req->s->push, &f);
		push_reply(req, 200, "removed", "the upload was given up");
	}
	return HTTP_REPLY;
}

/* Those that were given before have expired, or will. */
static enum http_next signed_urls_run(struct request *req)
{
	AUTO(buf_done) struct buf out = { 0 };
	struct incoming_upload u;
	struct err err = { 0 };
	struct push_outcome o;

	if (!signed_find(req, &u))
		return HTTP_REPLY;
	if (signed_write(req->s, &u, &out, &err) < 0) {
		push_failure(req->url, -1, &err, &req->arena, &o);
		push_reply(req, o.status, o.result, o.text);
	} else {
		metric_count(&uploads, "renewed");
		request_reply_body(req, 200, &out, "application/json", true);
	}
	return HTTP_REPLY;
}

/* One object. */
const struct http_body push_signed_body = {
	.slot = BODY_WANT,
	.max = KIB(4),
	.max_together = PUSH_WANT_MAX_TOGETHER,
	.too_long = "the object is longer than 4 KiB",
	.needs_length = true,
};

const struct http_handler push_signed = { .exists = direct_exists, .run = signed_run };
const struct http_handler push_signed_end = { .exists = direct_exists, .run = signed_end_run };
const struct http_handler push_signed_urls = { .exists = direct_exists, .run = signed_urls_run };
const struct http_handler push_signed_drop = { .exists = direct_exists, .run = signed_drop_run };
