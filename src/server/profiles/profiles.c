/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles over HTTP: which path is whose, and a request from its headers to its reply.
 */
#include "server/profiles/profiles.h"

#include <errno.h>
#include <stdlib.h>
#include "codec/codec.h"
#include "server/json.h"
#include "server/post.h"
#include "server/push/push.h"

#define COMPRESS_FROM KIB(4)
#define GZIP_LEVEL    1 /* others take more time than the network, mostly */
#define ZSTD_LEVEL    1

/* ---- the paths ---- */

#define RANGE "query from to profile"
#define VIEW                                                                                           \
	RANGE " base base_from base_to base_profile normalise by label focus ignore hide show invert " \
	      "no_inlines "                                                                            \
	      "wait"

const struct api_route api_routes[] = {
	{ "POST", "/profiles", "*", api_post_profiles },
	{ "POST", "/api/profiles/writeraw", "", api_post_parca },
	{ "POST", "/profilestore/writeraw", "", api_post_parca },
	{ "POST", "/ingest", "*", api_post_pyroscope },
	{ "GET", "/api/types", RANGE, api_types },
	{ "GET", "/api/labels", RANGE, api_labels },
	{ "GET", "/api/labels/*/values", RANGE, api_label_values },
	{ "GET", "/api/series", RANGE " step by one limit", api_series },
	{ "GET", "/api/profiles", RANGE " limit", api_profiles },
	{ "GET", "/api/flamegraph", VIEW " min_share", api_flamegraph },
	{ "GET", "/api/top", VIEW " sort limit", api_top },
	{ "GET", "/api/callers", VIEW " function binary limit", api_callers },
	{ "GET", "/api/lines", VIEW " file function", api_lines },
	{ "GET", "/api/download", VIEW " format", api_download },
	{ "GET", "/api/binaries", RANGE " limit", api_binaries },
	{ "POST", "/api/binaries/*/retry", "", api_retry },
	{ "GET", "/api/openapi.json", "", api_openapi },
	{ 0 },
};

/* The part of @path that the star stands for; false: it is another path. */
static bool path_matches(const char *pattern, struct str path, struct str *ret_star)
{
	const char *star = strchr(pattern, '*');
	struct str head = { pattern, star ? (size_t)(star - pattern) : strlen(pattern) };
	struct str tail = star ? str_of(star + 1) : STR("");
	size_t n;

	*ret_star = STR("");
	if (!star)
		return str_eq(path, head);
	if (!str_starts(path, head) || !str_ends(path, tail) || path.size <= head.size + tail.size)
		return false;
	n = path.size - head.size - tail.size;
	*ret_star = (struct str){ path.p + head.size, n };
	return !memchr(ret_star->p, '/', n);
}

/* 0, or the status of the refusal. */
static unsigned find_route(struct str path, const char *method, const struct api_route **ret,
			   struct str *ret_star)
{
	unsigned status = 404;
	struct str star;

	for (const struct api_route *r = api_routes; r->method; r++) {
		if (!path_matches(r->path, path, &star))
			continue;
		if (strcmp(r->method, strcmp(method, "HEAD") == 0 ? "GET" : method) == 0) {
			*ret = r;
			*ret_star = star;
			return 0;
		}
		status = 405;
	}
	return status;
}

/* ---- replies ---- */

void api_refuse(struct request *req, unsigned status, const char *text)
{
	struct buf b = { 0 };

	buf_add_str(&b, STR("{\"error\":"));
	json_add_string(&b, str_of(text));
	buf_add_str(&b, STR("}\n"));
	req->status = status;
	req->bytes = b.size;
	req->result = "error";
	req->reply = reply_body(req->s, &b, "application/json", true);
	if (status == 503 || status == 429)
		http_reply_header(req->reply, "Retry-After", SERVER_RETRY_S);
	if (status == 401)
		http_reply_header(req->reply, "WWW-Authenticate", "Bearer realm=\"lode\"");
}

static void refuse_path(struct request *req, unsigned status)
{
	AUTO(buf_done) struct buf b = { 0 };

	if (status == 405) {
		api_refuse(req, 405, "this path does not take that method");
		return;
	}
	buf_add_str(&b, STR("no such path; there are:"));
	for (const struct api_route *r = api_routes; r->method; r++)
		buf_printf(&b, " %s %s", r->method, r->path);
	api_refuse(req, 404, buf_cstr(&b));
}

static unsigned status_of(const struct api *a, const struct err *err)
{
	bool post = a->route->method[0] == 'P';

	switch (err->kind) {
	case ERR_INVALID:
		return 400;
	case ERR_LIMIT:
		return post ? 413 : 422;
	case ERR_IO:
		return err->os == ENOSPC || err->os == EDQUOT ? 507 : 503;
	case ERR_CANCELLED:
	case ERR_CHANGED:
		return 503;
	default:
		return 500;
	}
}

static void reply_error(struct api *a, const struct err *err)
{
	unsigned status = a->status >= 400 ? a->status : status_of(a, err);

	if (status >= 500)
		log_warn("server", "%s: %s", a->req->url, err->text);
	api_refuse(a->req, status, err->text);
}

/* "q=0", "q=0.00" */
static bool is_zero(struct str q)
{
	if (!str_starts(q, STR("q=0")))
		return false;
	for (size_t i = 3; i < q.size; i++)
		if (q.p[i] != '0' && q.p[i] != '.')
			return false;
	return true;
}

/* Is this coding taken? "gzip;q=0" says that it is not. */
static bool accepts(struct http_conn *conn, struct str coding)
{
	const char *header = http_header(conn, "Accept-Encoding");
	struct str rest = str_of(header ? header : "");

	while (rest.size) {
		struct str params = str_cut(&rest, ','), name = str_trim(str_cut(&params, ';'));
		struct str q = str_trim(params.p ? params : STR(""));

		if (str_eq(name, coding))
			return !is_zero(q);
	}
	return false;
}

/* Over the loopback it would take longer than to send it as it is. */
static const char *compress(struct api *a)
{
	struct http_conn *conn = a->req->conn;
	struct buf packed = { 0 };
	const char *coding = NULL;

	if (a->out.size < COMPRESS_FROM || a->filename || push_is_here(conn))
		return NULL;
	if (accepts(conn, STR("zstd")) && codec_pack_zstd(buf_bytes(&a->out), ZSTD_LEVEL, &packed, NULL) == 0)
		coding = "zstd";
	else if (accepts(conn, STR("gzip")) &&
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

static void reply_out(struct api *a)
{
	struct request *req = a->req;
	const char *if_none_match = http_header(req->conn, "If-None-Match");
	bool get = a->route->method[0] == 'G';
	const char *coding = NULL;
	char etag[ETAG_SIZE];

	/* What is asked again and again mostly has not changed. */
	snprintf(etag, sizeof(etag), "W/\"%016llx\"",
		 (unsigned long long)hash64(a->out.p ? a->out.p : (const uint8_t *)"", a->out.size, 0));
	req->result = "made";
	req->status = a->status ? a->status : 200;
	if (get && if_none_match && cond_etag_in_list(str_of(if_none_match), str_of(etag))) {
		struct buf none = { 0 };

		req->status = 304;
		req->bytes = 0;
		req->reply = reply_body(req->s, &none, a->type ? a->type : "application/json", false);
	} else {
		coding = get ? compress(a) : NULL;
		req->bytes = a->out.size;
		req->reply = reply_body(req->s, &a->out, a->type ? a->type : "application/json", !get);
	}
	if (get) {
		http_reply_header(req->reply, "Cache-Control", "private, no-cache");
		http_reply_header(req->reply, "ETag", etag);
		http_reply_header(req->reply, "Vary", "Accept-Encoding");
	}
	if (coding)
		http_reply_header(req->reply, "Content-Encoding", coding);
	if (a->filename) {
		AUTO(mem_freep)
		char *value = mem_printf("attachment; filename=\"%s\"", a->filename);

		http_reply_header(req->reply, "Content-Disposition", value);
		http_reply_header(req->reply, "Content-Security-Policy", "sandbox");
	}
}

void api_end(struct api *a, const struct err *err)
{
	if (err)
		reply_error(a, err);
	else
		reply_out(a);
	wait_job_done(a->req);
}

/* ---- running ---- */

static void run(struct api *a)
{
	struct request *req = a->req;
	bool *goes_on = req->goes_on;
	struct err err = { 0 };
	int r;

	a->out.size = 0;
	a->now_ms = clock_wall_ms();
	/* Where it goes on the request may be gone, and all else with it, before run() returns. */
	*goes_on = true;
	r = a->route->run(a, &err);
	if (r == API_GOES_ON)
		return;
	*goes_on = false;
	if (r < 0)
		reply_error(a, &err);
	else if (r == 0)
		reply_out(a);
}

struct adding {
	struct api *a;
	int r;
	struct err err;
};

static void add_arg(void *arg, const char *name, const char *value)
{
	struct adding *add = arg;

	if (add->r == 0)
		add->r = api_arg_add(add->a, str_of(name), str_of(value), &add->err);
}

/* The request's api with its parameters; NULL: it was refused. */
static struct api *api_new(struct request *req, const struct api_route *route, struct str star)
{
	struct api *a = ARENA_NEW(&req->arena, struct api);
	struct adding add = { .a = a };

	a->req = req;
	a->arena = &req->arena;
	a->store = req->s->opts.profiles;
	a->route = route;
	a->star = arena_str(&req->arena, star);
	req->api = a;
	http_all_args(req->conn, add_arg, &add);
	if (add.r == 0)
		add.r = api_args_check(a, &add.err);
	if (add.r < 0) {
		api_refuse(req, 400, add.err.text);
		return NULL;
	}
	return a;
}

static bool has_store(struct request *req, const struct api_route *route)
{
	if (req->s->opts.profiles || route->run == api_openapi)
		return true;
	api_refuse(req, 404, "no profiles are kept here: lode serve was started with --no-profiles");
	return false;
}

void api_job(struct request *req)
{
	const struct api_route *route = NULL;
	struct str star;
	unsigned status;

	/* Again: it has slept. */
	if (req->api) {
		run(req->api);
		return;
	}
	status = find_route(req->route.file, req->method, &route, &star);
	if (status)
		refuse_path(req, status);
	else if (has_store(req, route) && api_new(req, route, star))
		run(req->api);
}

/* ---- POST ---- */

static void post_job(struct request *req)
{
	struct api *a = req->api;

	a->body = buf_bytes(&req->post->body);
	run(a);
}

static const struct post_kind api_post = {
	.max = API_MAX_BODY,
	.max_together = API_MAX_BODIES,
	.too_long = "the body has more than 64 MiB: send profiles of shorter times, or compressed ones",
	.refuse = api_refuse,
	.job = post_job,
};

/*
 * A page of another site that the browser of somebody on this machine has open could send profiles as if it
 * was that somebody.
 */
static bool is_of_another_site(struct http_conn *conn)
{
	const char *origin = http_header(conn, "Origin"), *host = http_header(conn, "Host");
	struct str site = str_of(origin ? origin : ""), scheme;

	if (!origin || http_header(conn, "Authorization"))
		return false;
	scheme = str_cut(&site, ':');
	if (!host || (!str_eq(scheme, STR("http")) && !str_eq(scheme, STR("https"))) ||
	    !str_starts(site, STR("//")))
		return true;
	return !str_eq((struct str){ site.p + 2, site.size - 2 }, str_of(host));
}

static void refuse_stranger(struct request *req)
{
	char name[TOKEN_MAX_NAME];
	const char *why = "";
	unsigned status = push_authorize(req->s->push, req->conn, TOKEN_PUSH, name, &why);

	if (status)
		api_refuse(req, status, why);
	else if (is_of_another_site(req->conn))
		api_refuse(req, 403, "pages of other sites may not send profiles without a token");
}

bool api_begin(struct server *s, const struct http_request *hr, void **ctx)
{
	char room[ROUTE_URL_MAX + 1];
	const struct api_route *row = NULL;
	struct request *req;
	struct route route;
	struct str star;
	const char *why;
	unsigned status;

	if (strcmp(hr->method, "OPTIONS") == 0 || route_parse(str_of(hr->url), room, &route, &why) != 0 ||
	    route.kind != ROUTE_API)
		return false;
	req = request_new_post(s, hr, &route, TYPE_INGEST);
	*ctx = req;
	post_begin(req, &api_post, &s->api_bytes);
	if (req->reply)
		return false;
	status = find_route(route.file, hr->method, &row, &star);
	if (status)
		refuse_path(req, status);
	else if (has_store(req, row))
		refuse_stranger(req);
	if (!req->reply)
		api_new(req, row, star);
	return !req->reply;
}

void api_done(struct request *req)
{
	struct api *a = req->api;

	take_free(a->take);
	for (size_t i = 0; i < ARRAY_SIZE(a->selectors); i++)
		selector_free(a->selectors[i]);
	buf_done(&a->out);
}
