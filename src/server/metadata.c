/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /metadata?key=file|glob|buildid&value=...: what is known of a path or a build ID, as JSON.
 *
 *   { "results": [ { "type", "buildid", "file", "archive" } ], "complete": true, "next": "CURSOR" }
 *
 * `limit` and `cursor` are ours: a page of results and where the next one begins. Without `limit` there is
 * one page, of all up to a bound.
 */
#include "server/internal.h"

#include <jansson.h>
#include <stdlib.h>

#define MAX_RESULTS 50000u
#define MAX_VALUE   4096u

/* JSON is UTF-8, file names are bytes: those that are not become U+FFFD. */
static json_t *json_text(struct str s)
{
	json_t *j = json_stringn(s.p, s.size);
	AUTO(buf_done) struct buf clean = { 0 };

	if (j)
		return j;
	for (size_t i = 0; i < s.size;) {
		size_t n = 1;

		/* The longest valid character from here on. */
		for (size_t len = 4; len >= 1; len--) {
			json_t *one = len <= s.size - i ? json_stringn(s.p + i, len) : NULL;

			if (one && json_string_length(one) == len &&
			    ((unsigned char)s.p[i] >= 0x80 || len == 1)) {
				buf_add(&clean, s.p + i, len);
				n = len;
				json_decref(one);
				goto next;
			}
			json_decref(one);
		}
		buf_add_str(&clean, STR("\xef\xbf\xbd"));
	next:
		i += n;
	}
	return json_stringn((const char *)clean.p, clean.size);
}

struct collecting {
	json_t *results;
	bool hide_archive;
};

static int add_result(void *arg, const struct index_metadata *m)
{
	struct collecting *c = arg;
	char hex[BUILD_ID_HEX_SIZE];
	json_t *one = json_object();
	struct str archive = c->hide_archive ? path_basename(m->archive) : m->archive;

	json_object_set_new(one, "type", json_string(m->debuginfo ? "debuginfo" : "executable"));
	json_object_set_new(one, "buildid", json_string(build_id_hex(&m->build_id, hex)));
	json_object_set_new(one, "file", json_text(m->file));
	if (archive.size)
		json_object_set_new(one, "archive", json_text(archive));
	json_array_append_new(c->results, one);
	return 0;
}

static void refuse(struct request *req, unsigned status, const char *text)
{
	req->status = status;
	req->bytes = strlen(text);
	req->result = "error";
	req->reply = reply_text(req->s, status, str_of(text));
}

/* 0, or it was refused. */
static int decode(struct request *req, const char *name, struct str *ret)
{
	const char *raw = http_arg(req->conn, name);
	char *room;

	*ret = (struct str){ "", 0 };
	if (!raw)
		return 0;
	room = arena_alloc(&req->arena, strlen(raw) + 1);
	ret->p = room;
	if (strlen(raw) <= MAX_VALUE * 3 && route_unescape(str_of(raw), room, &ret->size) &&
	    ret->size <= MAX_VALUE)
		return 0;
	refuse(req, 400, "a broken %-escape, or too long\n");
	return -1;
}

static void reply_with(struct request *req, struct collecting *c, struct buf *next, bool complete)
{
	json_t *all = json_object();
	struct buf body = { 0 };
	char *text;

	json_object_set(all, "results", c->results);
	json_object_set_new(all, "complete", json_boolean(complete));
	if (next->size)
		json_object_set_new(all, "next", json_text(buf_str(next)));
	text = json_dumps(all, JSON_COMPACT | JSON_ESCAPE_SLASH);
	json_decref(all);
	body.p = (uint8_t *)text;
	body.size = body.room = strlen(text);
	req->bytes = body.size;
	req->status = 200;
	req->result = "made";
	req->reply = reply_body(req->s, &body, "application/json", true);
}

static void query(struct request *req, struct str key, struct str value, struct str cursor, uint64_t limit)
{
	struct collecting c = { json_array(), req->s->opts.hide_archive };
	AUTO(buf_done) struct buf next = { 0 };
	bool complete = true;
	struct err err = { 0 };
	int r = resolve_metadata(req->s->resolver, key, value, cursor, (size_t)limit,
				 clock_mono_ms() + req->s->opts.metadata_max_ms, add_result, &c, &next,
				 &complete, &err);

	if (r == 0) {
		reply_with(req, &c, &next, complete && !next.size);
	} else if (err.kind == ERR_INVALID) {
		refuse(req, 400, arena_printf(&req->arena, "%s\n", err.text));
	} else {
		log_warn("http", "metadata: %s", err.text);
		refuse(req, reply_status_of(&err), "metadata cannot be had now\n");
	}
	json_decref(c.results);
}

void metadata_job(struct request *req)
{
	struct str key, value, cursor, limit_text;
	uint64_t limit = MAX_RESULTS;

	if (decode(req, "key", &key) < 0 || decode(req, "value", &value) < 0 ||
	    decode(req, "cursor", &cursor) < 0 || decode(req, "limit", &limit_text) < 0)
		return;
	if (!str_eq(key, STR("file")) && !str_eq(key, STR("glob")) && !str_eq(key, STR("buildid"))) {
		refuse(req, 400, "key must be file, glob or buildid\n");
		return;
	}
	if (!value.size) {
		refuse(req, 400, "no value\n");
		return;
	}
	if (limit_text.size && (!str_to_u64(limit_text, &limit) || !limit)) {
		refuse(req, 400, "limit must be a number above 0\n");
		return;
	}
	query(req, key, value, cursor, MIN(limit, (uint64_t)MAX_RESULTS));
}
