/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/failures?match=TEXT&limit=N&cursor=CURSOR: what could not be read, with the reason.
 *
 *   { "failures": [ { "path", "reason", "kind", "package", "tries", "next_try", "next_try_in" } ], "next":
 * "CURSOR" }
 *
 * `match` keeps those that have the text in their path or reason, whatever its case. A page may have fewer
 * than `limit`, or none, and a next one: it also ends after so many rows were looked at.
 */
#include "server/json.h"

#include <ctype.h>

#define DEFAULT_LIMIT 100u
#define MAX_LIMIT     1000u
#define AT_ONCE       256u
#define MAX_LOOKED_AT 20000u

struct page_of {
	struct request *req;
	struct str match;
	size_t limit;
	int64_t at; /* the id of the last file that was looked at */
	size_t n_looked_at;
	json_t *list;
};

static bool is_in(struct str text, struct str part)
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

/* What is hidden is not searched either, else one could guess it piece by piece. */
static void add(struct page_of *p, const struct index_file *f, struct arena *a)
{
	bool hide = p->req->s->opts.hide_archive;
	struct str path = hide ? path_basename(f->path) : f->path;
	struct str reason = hide ? reply_hide_paths(a, f->reason) : f->reason;
	json_t *one;

	if (!is_in(path, p->match) && !is_in(reason, p->match))
		return;
	one = json_object();
	json_object_set_new(one, "path", json_lossy(path));
	json_object_set_new(one, "reason", json_lossy(reason));
	json_object_set_new(one, "kind", json_string(err_kind_name(f->reason_kind)));
	json_object_set_new(one, "package", json_boolean(f->kind == INDEX_PACKAGE));
	json_object_set_new(one, "tries", json_number(f->tries));
	json_object_set_new(one, "next_try", json_integer(f->next_try_s));
	/* The browser's clock is another. */
	if (f->next_try_s)
		json_object_set_new(one, "next_try_in", json_integer(f->next_try_s - clock_wall_s()));
	json_array_append_new(p->list, one);
}

static bool is_full(const struct page_of *p)
{
	return json_array_size(p->list) >= p->limit || p->n_looked_at >= MAX_LOOKED_AT;
}

static int fill(struct page_of *p, struct index *ix, bool *ret_more, struct err *err)
{
	for (;;) {
		AUTO(arena_done) struct arena a = { 0 };
		struct index_file *files;
		size_t n;

		arena_init(&a);
		if (index_list(ix, 0, INDEX_FAILED, p->at, AT_ONCE, &a, &files, &n, err) < 0)
			return -1;
		for (size_t i = 0; i < n; i++) {
			if (is_full(p)) {
				*ret_more = true;
				return 0;
			}
			add(p, &files[i], &a);
			p->at = files[i].id;
			p->n_looked_at++;
		}
		if (n < AT_ONCE) {
			*ret_more = false;
			return 0;
		}
	}
}

static int parse(struct page_of *p)
{
	struct str limit, cursor;
	uint64_t n = DEFAULT_LIMIT, after = 0;

	if (json_arg(p->req, "match", &p->match) < 0 || json_arg(p->req, "limit", &limit) < 0 ||
	    json_arg(p->req, "cursor", &cursor) < 0)
		return -1;
	if (limit.size && (!str_to_u64(limit, &n) || !n)) {
		json_refuse(p->req, 400, "limit must be a number above 0\n");
		return -1;
	}
	if (cursor.size && (!str_to_u64(cursor, &after) || after > INT64_MAX)) {
		json_refuse(p->req, 400, "not a cursor of this server\n");
		return -1;
	}
	p->limit = (size_t)MIN(n, (uint64_t)MAX_LIMIT);
	p->at = (int64_t)after;
	return 0;
}

static int list(struct page_of *p, bool *ret_more, struct err *err)
{
	static const struct index_options read_only = { .read_only = true };
	struct index *ix;
	int r;

	if (!p->req->s->opts.index_path)
		return 0;
	/* A connection of its own: nobody waits for it, and it waits for nobody. */
	if (index_open(p->req->s->opts.index_path, &read_only, &ix, err) < 0)
		return -1;
	r = fill(p, ix, ret_more, err);
	index_close(ix);
	return r;
}

void failures_job(struct request *req)
{
	struct page_of p = { .req = req };
	struct err err = { 0 };
	bool more = false;
	json_t *all;

	if (parse(&p) < 0)
		return;
	p.list = json_array();
	if (list(&p, &more, &err) < 0) {
		log_warn("server", "failures: %s", err.text);
		json_refuse(req, 503, "the index cannot be read now\n");
		json_decref(p.list);
		return;
	}
	all = json_object();
	json_object_set_new(all, "failures", p.list);
	if (more)
		json_object_set_new(all, "next",
				    json_lossy(str_of(arena_printf(&req->arena, "%lld", (long long)p.at))));
	json_reply(req, all);
}
