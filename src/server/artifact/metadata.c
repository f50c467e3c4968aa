/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /metadata?key=file|glob|buildid&value=...: what is known of a path or a build ID, as JSON.
 *
 *   { "results": [ { "type", "buildid", "file", "archive" } ], "complete": true, "next": "CURSOR" }
 *
 * `limit` and `cursor` are ours: a page of results and where the next one begins. Without `limit` there is
 * one page, of all up to a bound. What other servers know stands behind the last page.
 */
#include "server/artifact/metadata.h"

#define MAX_RESULTS 50000u

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
	json_object_set_new(one, "file", json_lossy(m->file));
	if (archive.size)
		json_object_set_new(one, "archive", json_lossy(archive));
	json_array_append_new(c->results, one);
	return 0;
}

static void reply_with(struct request *req, json_t *results, struct str next, bool complete)
{
	json_t *all = json_object();

	json_object_set(all, "results", results);
	json_object_set_new(all, "complete", json_boolean(complete));
	if (next.size)
		json_object_set_new(all, "next", json_lossy(next));
	json_reply(req, all);
}

static void reply_all(struct request *req, json_t *results, bool complete)
{
	reply_with(req, results, (struct str){ 0 }, complete);
}

static void query(struct request *req, struct str key, struct str value, struct str cursor, uint64_t limit)
{
	struct collecting c = { json_array(), req->s->opts.hide_archive };
	const struct index_metadata_query q = {
		.key = key,
		.value = value,
		.cursor = cursor,
		.max = (size_t)limit,
		.deadline_mono_ms = clock_mono_ms() + req->s->opts.metadata_max_ms,
		.fn = add_result,
		.arg = &c,
	};
	struct index_metadata_page page = { .complete = true };
	struct err err = { 0 };
	int r = resolve_metadata(req->s->resolver, &q, &page, &err);

	if (r == 0 && !page.next.size &&
	    metadata_relay(req, key, value, c.results, page.complete, MAX_RESULTS, reply_all)) {
		/* it goes on there */
	} else if (r == 0) {
		reply_with(req, c.results, buf_str(&page.next), page.complete && !page.next.size);
	} else if (err.kind == ERR_INVALID) {
		json_refuse(req, 400, arena_printf(&req->arena, "%s\n", err.text));
	} else {
		log_warn("http", "metadata: %s", err.text);
		json_refuse(req, reply_status_of(&err), "metadata cannot be had now\n");
	}
	json_decref(c.results);
	buf_done(&page.next);
}

void metadata_job(struct request *req)
{
	struct str key, value, cursor, limit_text;
	uint64_t limit = MAX_RESULTS;

	if (json_arg(req, "key", &key) < 0 || json_arg(req, "value", &value) < 0 ||
	    json_arg(req, "cursor", &cursor) < 0 || json_arg(req, "limit", &limit_text) < 0)
		return;
	if (!str_eq(key, STR("file")) && !str_eq(key, STR("glob")) && !str_eq(key, STR("buildid"))) {
		json_refuse(req, 400, "key must be file, glob or buildid\n");
		return;
	}
	if (!value.size) {
		json_refuse(req, 400, "no value\n");
		return;
	}
	if (limit_text.size && (!str_to_u64(limit_text, &limit) || !limit)) {
		json_refuse(req, 400, "limit must be a number above 0\n");
		return;
	}
	query(req, key, value, cursor, MIN(limit, (uint64_t)MAX_RESULTS));
}
