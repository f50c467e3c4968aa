/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/failures?match=TEXT&limit=N&cursor=CURSOR: the files that could not be read, with the reasons.
 *
 *   { "failures": [ { "path", "reason", "kind", "package", "tries", "next_try", "next_try_in" } ],
 *     "next": "CURSOR" }
 *
 * `match` selects files with that text in their path or reason, ignoring case. A page may have fewer than
 * `limit` entries, or none, and still a next page: it also ends after a number of examined rows.
 */
#include <ctype.h>
#include "base/json.h"
#include "server/status/status.h"

#define DEFAULT_LIMIT 100u
#define MAX_LIMIT     1000u
#define AT_ONCE       256u
#define MAX_LOOKED_AT 20000u

struct failures {
	struct request *req;
	struct str match;
	size_t limit;
	int64_t at; /* id of the last examined file */
	size_t n_looked_at;
	struct buf out;
	struct json_writer json;
	size_t n;
};

static bool text_has(struct str text, struct str part)
{
	for (size_t i = 0; i + part.size <= text.size; i++) {
		size_t n = 0;

		while (n < part.size &&
		       tolower((unsigned char)text.p[i + n]) == tolower((unsigned char)part.p[n]))
			n++;
		if (n == part.size)
			return true;
	}
	return false;
}

/* Hidden text is not searched either: otherwise it could be guessed piece by piece. */
static void failures_add(struct failures *p, const struct index_file *f, struct arena *a)
{
	bool hide = p->req->s->opts.hide_archive;
	struct str path = hide ? path_basename(f->path) : f->path;
	struct str reason = hide ? server_hide_paths(a, f->reason) : f->reason;
	struct json_writer *w;

	if (!text_has(path, p->match) && !text_has(reason, p->match))
		return;
	w = &p->json;
	json_open_object(w, NULL);
	json_put_str(w, "path", path);
	json_put_str(w, "reason", reason);
	json_put_text(w, "kind", err_kind_name(f->reason_kind));
	json_put_bool(w, "package", f->kind == INDEX_PACKAGE);
	json_put_uint(w, "tries", f->tries);
	json_put_int(w, "next_try", f->next_try_s);
	/* The browser's clock is another. */
	if (f->next_try_s)
		json_put_int(w, "next_try_in", f->next_try_s - clock_wall_s());
	json_close(w);
	p->n++;
}

static bool failures_full(const struct failures *p)
{
	return p->n >= p->limit || p->n_looked_at >= MAX_LOOKED_AT;
}

static int failures_fill(struct failures *p, struct index *ix, bool *ret_more, struct err *err)
{
	for (;;) {
		AUTO(arena_done) struct arena a = { 0 };
		struct index_file *files;
		size_t n;

		arena_init(&a);
		if (index_list(ix, &(struct index_range){ 0, INDEX_FAILED, p->at, AT_ONCE }, &a, &files, &n,
			       err) < 0)
			return -1;
		for (size_t i = 0; i < n; i++) {
			if (failures_full(p)) {
				*ret_more = true;
				return 0;
			}
			failures_add(p, &files[i], &a);
			p->at = files[i].id;
			p->n_looked_at++;
		}
		if (n < AT_ONCE) {
			*ret_more = false;
			return 0;
		}
	}
}

static int failures_parse(struct failures *p)
{
	struct str limit, cursor;
	uint64_t n = DEFAULT_LIMIT, after = 0;

	if (request_arg(p->req, "match", &p->match) < 0 || request_arg(p->req, "limit", &limit) < 0 ||
	    request_arg(p->req, "cursor", &cursor) < 0)
		return -1;
	if (limit.size && (!str_to_u64(limit, &n) || !n)) {
		request_refuse(p->req, 400, "limit must be a number above 0");
		return -1;
	}
	if (cursor.size && (!str_to_u64(cursor, &after) || after > INT64_MAX)) {
		request_refuse(p->req, 400, "cursor is not one of this server");
		return -1;
	}
	p->limit = (size_t)MIN(n, (uint64_t)MAX_LIMIT);
	p->at = (int64_t)after;
	return 0;
}

static int failures_list(struct failures *p, bool *ret_more, struct err *err)
{
	static const struct index_options read_only = { .read_only = true };
	struct index *ix;
	int r;

	if (!p->req->s->opts.index_path)
		return 0;
	/* With a connection of its own, so that it waits for no other request. */
	if (index_open(p->req->s->opts.index_path, &read_only, &ix, err) < 0)
		return -1;
	r = failures_fill(p, ix, ret_more, err);
	index_close(ix);
	return r;
}

static enum http_next failures_run(struct request *req)
{
	struct failures p = { .req = req, .json = { .escape_slash = true } };
	struct err err = { 0 };
	bool more = false;

	if (failures_parse(&p) < 0)
		return HTTP_REPLY;
	p.json.out = &p.out;
	json_open_object(&p.json, NULL);
	json_open_array(&p.json, "failures");
	if (failures_list(&p, &more, &err) < 0) {
		log_warn("server", "failures: %s", err.text);
		request_refuse(req, 503, "the index cannot be read now");
		buf_done(&p.out);
		return HTTP_REPLY;
	}
	json_close(&p.json);
	if (more)
		json_put_printf(&p.json, "next", "%lld", (long long)p.at);
	json_close(&p.json);
	request_reply_body(req, 200, &p.out, "application/json", true);
	return HTTP_REPLY;
}

const struct http_handler failures_get = { .run = failures_run };
