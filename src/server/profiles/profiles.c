/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles over HTTP: a request from its headers to its reply.
 */
#include "server/profiles/profiles.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "codec/codec.h"
#include "http/cond.h"

#define QUERY_REMEDY  "ask for a shorter range of time or fewer labels, or raise --deadline of lode serve"
#define COMPRESS_FROM KIB(4)
#define GZIP_LEVEL    1 /* higher levels usually take more time than they save on the network */
#define ZSTD_LEVEL    1

/* ---- replies ---- */

/* A sender drops a profile that is refused with 4xx: that is for faults of the request alone. */
unsigned api_status_of(const struct err *err, bool post)
{
	switch (err->kind) {
	case ERR_INVALID:
		return 400;
	case ERR_LIMIT:
		/* With an errno, memory or descriptors are scarce. */
		return err->os == PROFILESTORE_TOO_MANY_SERIES ? 422 : err->os ? 503 : post ? 413 : 422;
	case ERR_IO:
		return err->os == ENOSPC || err->os == EDQUOT || err->os == EFBIG ? 507 : 503;
	case ERR_BUSY:
	case ERR_CANCELLED:
		return err->os == ETIME ? 504 : 503;
	case ERR_CHANGED:
		return 503;
	default:
		return 500;
	}
}

unsigned api_status_of_store(const struct err *err)
{
	unsigned status = api_status_of(err, true);

	return err->kind == ERR_INVALID ? 500 : status == 413 ? 507 : status;
}

static void reply_error(struct api *a, const struct err *err)
{
	unsigned status = a->status >= 400 ? a->status : api_status_of(err, a->post);

	/* These clients send again after 503 and a few others, not after 500 and 507. */
	if (status >= 500 && status != 504 && (a->req->route->flags & HTTP_RPC_STATUS))
		status = 503;
	if (status == 504)
		counters_refused("deadline");
	else if (err->os == PROFILESTORE_TOO_MANY_SERIES)
		counters_refused("series");
	else if (status >= 500 && status != 501 && err->os != ECANCELED)
		log_warn("server", "%s: %s", a->req->url, err->text);
	request_refuse(a->req, status, err->text);
}

/* "q=0", "q=0.00" */
static bool quality_is_zero(struct str q)
{
	if (!str_starts(q, STR("q=0")))
		return false;
	for (size_t i = 3; i < q.size; i++)
		if (q.p[i] != '0' && q.p[i] != '.')
			return false;
	return true;
}

/* Does the client accept this coding? "gzip;q=0" means no. */
static bool coding_accepted(struct http_conn *conn, struct str coding)
{
	const char *header = http_header(conn, "Accept-Encoding");
	struct str rest = str_of(header ? header : "");

	while (rest.size) {
		struct str params = str_cut(&rest, ','), name = str_trim(str_cut(&params, ';'));
		struct str q = str_trim(params.p ? params : STR(""));

		if (str_eq(name, coding))
			return !quality_is_zero(q);
	}
	return false;
}

/* Over the loopback, compressing takes longer than sending. */
static const char *compress_out(struct api *a)
{
	struct http_conn *conn = a->req->conn;
	struct buf packed = { .hold = &a->memory };
	const char *coding = NULL;

	if (a->out.size < COMPRESS_FROM || a->filename || http_is_loopback(conn))
		return NULL;
	if (coding_accepted(conn, STR("zstd")) &&
	    codec_pack_zstd(buf_bytes(&a->out), ZSTD_LEVEL, &packed, NULL) == 0)
		coding = "zstd";
	else if (coding_accepted(conn, STR("gzip")) &&
		 codec_pack_gzip(buf_bytes(&a->out), GZIP_LEVEL, &packed, NULL) == 0)
		coding = "gzip";
	if (!coding) {
		buf_done(&packed);
		return NULL;
	}
	buf_done(&a->out);
	a->out = packed;
	return coding;
}

int api_write_spool(void *arg, struct bytes b, struct err *err)
{
	return spool_add(arg, b, err);
}

int api_add_spool(struct api *a, struct err *err)
{
	struct spool *s = &a->spool;

	assert(a->out.size <= SPOOL_HEAD);
	if (s->filed)
		return 0;
	if (a->out.size)
		return spool_read(s, &a->out, err);
	buf_done(&a->out);
	a->out = s->mem;
	s->mem = (struct buf){ 0 };
	buf_meter(&s->mem, &a->memory);
	return 0;
}

static void reply_usual_headers(struct api *a)
{
	struct request *req = a->req;

	if (a->form)
		a->form->reply_headers(a);
	if (a->note)
		http_reply_header(req->reply, "X-LODE-NOTE", a->note);
	if (a->filename) {
		AUTO(mem_freep)
		char *value = mem_printf("attachment; filename=\"%s\"", a->filename);

		http_reply_header(req->reply, "Content-Disposition", value);
		http_reply_header(req->reply, "Content-Security-Policy", "sandbox");
	}
}

/* Neither compressed nor with an ETag: both would need all of it. */
static void reply_spool(struct api *a)
{
	struct spool_file f;
	struct err err = { 0 };

	if (spool_take_file(&a->spool, buf_bytes(&a->out), &f, &err) < 0) {
		reply_error(a, &err);
		return;
	}
	buf_done(&a->out);
	request_reply_fd(a->req, a->status ? a->status : 200, f.fd, f.off, f.size,
			 a->type ? a->type : "application/json");
	reply_usual_headers(a);
}

static void reply_out(struct api *a)
{
	struct request *req = a->req;
	struct err err = { 0 };
	const char *if_none_match = http_header(req->conn, "If-None-Match");
	const char *type = a->type ? a->type : "application/json";
	bool get = !a->post;
	const char *coding = NULL;
	char etag[ETAG_SIZE];
	int r = a->form ? a->form->reply(a, &err) : 0;

	if (r < 0 || buf_check(&a->out, &err) < 0) {
		reply_error(a, &err);
		return;
	}
	if (a->spool.filed) {
		reply_spool(a);
		return;
	}
	/* Answers that are polled are mostly unchanged. */
	snprintf(etag, sizeof(etag), "W/\"%016llx\"",
		 (unsigned long long)hash64(a->out.p ? a->out.p : (const uint8_t *)"", a->out.size, 0));
	if (get && if_none_match && cond_etag_in_list(str_of(if_none_match), str_of(etag))) {
		struct buf none = { 0 };

		request_reply_body(req, 304, &none, type, false);
	} else {
		coding = get || (a->form && !a->form->is_packed(a)) ? compress_out(a) : NULL;
		/* From here on it is memory of a reply, not of a query. */
		buf_meter(&a->out, NULL);
		if (!request_reply_body(req, a->status ? a->status : 200, &a->out, type, !get))
			return;
	}
	if (get) {
		http_reply_header(req->reply, "Cache-Control", "private, no-cache");
		http_reply_header(req->reply, "ETag", etag);
		http_reply_header(req->reply, "Vary", "Accept-Encoding");
	}
	if (coding)
		http_reply_header(req->reply, "Content-Encoding", coding);
	reply_usual_headers(a);
}

void api_end(struct api *a, const struct err *err)
{
	if (err)
		reply_error(a, err);
	else
		reply_out(a);
	wait_end_work(a->req);
}

/* ---- on workers ---- */

static enum http_next api_run(struct request *req)
{
	struct api *a = req->own;
	struct err err = { 0 };
	int r;

	a->out.size = 0;
	a->out.cut = false;
	buf_meter(&a->out, &a->memory);
	spool_done(&a->spool);
	a->spool = (struct spool){ .dir = req->s->opts.temp_dir, .room = req->s->opts.room };
	buf_meter(&a->spool.mem, &a->memory);
	a->json = (struct json_writer){ .out = &a->out };
	a->now_ms = clock_wall_ms();
	a->body = buf_bytes(&req->body);
	a->deadline = request_deadline(req, "the query", QUERY_REMEDY);
	r = a->route->run(a, &err);
	/* Work that cannot fail has ended early. */
	if (r == 0)
		r = deadline_check(&a->deadline, 0, &err);
	switch (r) {
	case API_GOES_ON: /* the request may be gone */
		return HTTP_WAITS;
	case API_SLEEPS:
		return HTTP_SLEEPS;
	case 0:
		reply_out(a);
		return HTTP_REPLY;
	default:
		reply_error(a, &err);
		return HTTP_REPLY;
	}
}

/* ---- on HTTP threads ---- */

struct adding {
	struct api *a;
	int r;
	struct err err;
};

static void api_add_arg(void *arg, const char *name, const char *value)
{
	struct adding *add = arg;

	if (add->r == 0)
		add->r = api_arg_add(add->a, str_of(name), str_of(value), &add->err);
}

static void api_begin(struct request *req)
{
	struct api *a = ARENA_NEW(&req->arena, struct api);
	struct adding add = { .a = a };

	a->req = req;
	a->arena = &req->arena;
	a->store = req->s->opts.profiles;
	a->route = req->route->arg;
	a->post = req->route->method == HTTP_POST;
	a->star = req->parts[0];
	budget_hold_init(&a->memory, req->s->opts.memory,
			 req->route->scope == TOKEN_READ ? BUDGET_QUERY : BUDGET_PROFILE);
	req->own = a;
	if (!a->store && req->s->opts.profiles_why && !a->route->storeless) {
		request_refuse(req, 503,
			       "the profile store cannot be opened; the server's log has the reason; try "
			       "again later");
		return;
	}
	if (!a->store && !a->route->storeless) {
		request_refuse(req, 404,
			       "this server stores no profiles: lode serve was started with --no-profiles");
		return;
	}
	http_all_args(req->conn, api_add_arg, &add);
	if (add.r == 0)
		add.r = api_args_check(a, &add.err);
	if (add.r < 0)
		request_refuse(req, 400, add.err.text);
}

static void api_done(struct request *req)
{
	struct api *a = req->own;

	if (!a)
		return;
	if (a->take)
		a->take_free(a->take);
	for (size_t i = 0; i < ARRAY_SIZE(a->selectors); i++)
		selector_free(a->selectors[i]);
	buf_done(&a->out);
	spool_done(&a->spool);
	budget_hold_done(&a->memory);
}

static void api_other_begin(struct request *req)
{
	AUTO(buf_done) struct buf b = { 0 };

	buf_add_str(&b, STR("no such path; there are:"));
	for (const struct http_route *r = req->service->opts.routes; r->pattern; r++)
		if (r->handler == &profiles_get || r->handler == &profiles_post)
			buf_printf(&b, " %s %s", r->method == HTTP_GET ? "GET" : "POST", r->pattern);
	request_refuse(req, 404, buf_cstr(&b));
}

const struct http_handler profiles_get = { .begin = api_begin, .run = api_run, .done = api_done };
const struct http_handler profiles_post = { .begin = api_begin, .run = api_run, .done = api_done };
const struct http_handler profiles_other = { .begin = api_other_begin };
const struct http_body profiles_body = {
	.slot = BODY_PROFILES,
	.max = API_MAX_BODY,
	.max_together = API_MAX_BODIES,
	.too_long = "the body has more than 64 MiB: send profiles of shorter times, or compressed ones",
};
const struct http_body query_body = {
	.slot = BODY_QUERY,
	.max = API_MAX_QUERY,
	.max_together = API_MAX_QUERIES,
	.too_long = API_QUERY_TOO_LONG,
};
