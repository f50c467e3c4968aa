/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /metadata?key=file|glob|buildid&value=...: which build IDs have a path, or which paths a build ID has, as JSON.
 *
 *   { "results": [ { "type", "buildid", "file", "archive" } ], "complete": true, "next": "CURSOR" }
 *
 * `limit` and `cursor` are ours: a page of results, and where the next one begins. Without `limit` there is
 * one page, of all up to a bound. Results of other servers come after those of the last page.
 */
#include "server/artifact/metadata.h"

#define MAX_RESULTS 50000u

bool metadata_out_granted(struct metadata *m)
{
	budget_hold_track(&m->memory, &m->out_held, m->out.room);
	return budget_hold_check(&m->memory, &m->no_memory) == 0;
}

/* Go's build ID as text, and the hash. */
static void metadata_add_identities(struct metadata *m, const struct index_metadata *found)
{
	const struct build_id *go = build_id_kind_of(&found->build_id) == BUILD_ID_GO ? &found->build_id
										      : &found->go;
	char hex[BUILD_ID_HEX_SIZE];

	if (go->size)
		json_put_str(&m->json, "go_build_id", (struct str){ (const char *)go->b, go->size });
	if (found->hash.size)
		json_put_text(&m->json, "htlhash", build_id_hex(&found->hash, hex));
}

/* The file of an alias is asked for by its build ID: other servers may know no aliases. Go's build ID may be text. */
static void metadata_find_key(struct metadata *m)
{
	char hex[BUILD_ID_HEX_SIZE];
	struct build_id id, key;

	if (!str_eq(m->key, STR("buildid")) || !server_build_id(&id, m->value))
		return;
	if (resolve_alias(m->req->s->resolver, &id, &key))
		id = key;
	m->value = arena_str(&m->req->arena, str_of(build_id_hex(&id, hex)));
}

static int metadata_add_result(void *arg, const struct index_metadata *found)
{
	struct metadata *m = arg;
	char hex[BUILD_ID_HEX_SIZE];
	struct str archive = m->req->s->opts.hide_archive ? path_basename(found->archive) : found->archive;

	json_open_object(&m->json, NULL);
	json_put_text(&m->json, "type", found->debuginfo ? "debuginfo" : "executable");
	json_put_text(&m->json, "buildid", build_id_hex(&found->build_id, hex));
	json_put_str(&m->json, "file", found->file);
	if (archive.size)
		json_put_str(&m->json, "archive", archive);
	metadata_add_identities(m, found);
	json_close(&m->json);
	m->n_results++;
	return metadata_out_granted(m) ? 0 : -1;
}

static enum http_next metadata_refuse_memory(struct metadata *m)
{
	request_refuse(
		m->req, 503,
		arena_printf(&m->req->arena, "%s; or ask for fewer results: limit=", m->no_memory.text));
	return HTTP_REPLY;
}

static void metadata_reply(struct metadata *m, struct str next)
{
	json_close(&m->json);
	json_put_bool(&m->json, "complete", m->complete);
	if (next.size)
		json_put_str(&m->json, "next", next);
	json_close(&m->json);
	/* From here on it is memory of the reply. */
	budget_hold_done(&m->memory);
	m->out_held = 0;
	request_reply_body(m->req, 200, &m->out, "application/json", true);
}

static enum http_next reply_relayed(struct metadata *m)
{
	if (m->no_memory.kind)
		return metadata_refuse_memory(m);
	metadata_reply(m, STR(""));
	return HTTP_REPLY;
}

static int metadata_parse(struct request *req, struct metadata *m)
{
	struct str limit;

	if (request_arg(req, "key", &m->key) < 0 || request_arg(req, "value", &m->value) < 0 ||
	    request_arg(req, "cursor", &m->cursor) < 0 || request_arg(req, "limit", &limit) < 0)
		return -1;
	if (!str_eq(m->key, STR("file")) && !str_eq(m->key, STR("glob")) && !str_eq(m->key, STR("buildid")))
		request_refuse(req, 400, "key must be file, glob or buildid");
	else if (!m->value.size)
		request_refuse(req, 400, "no value");
	else if (limit.size && (!str_to_u64(limit, &m->limit) || !m->limit))
		request_refuse(req, 400, "limit must be a number above 0");
	m->limit = MIN(m->limit, (uint64_t)MAX_RESULTS);
	return req->reply ? -1 : 0;
}

static enum http_next metadata_get_run(struct request *req)
{
	struct metadata *m = ARENA_NEW(&req->arena, struct metadata);
	struct index_metadata_page page = { .complete = true };
	struct index_metadata_query q = { .fn = metadata_add_result, .arg = m };
	enum http_next next = HTTP_REPLY;
	struct err err = { 0 };
	int r;

	m->req = req;
	budget_hold_init(&m->memory, req->s->opts.memory, BUDGET_REPLY);
	m->limit = MAX_RESULTS;
	req->own = m;
	if (metadata_parse(req, m) < 0)
		return HTTP_REPLY;
	metadata_find_key(m);
	m->json.out = &m->out;
	m->json.escape_slash = true;
	json_open_object(&m->json, NULL);
	json_open_array(&m->json, "results");
	q.key = m->key;
	q.value = m->value;
	q.cursor = m->cursor;
	q.max = (size_t)m->limit;
	q.deadline_mono_ms = clock_mono_ms() + req->s->opts.metadata_max_ms;
	r = resolve_metadata(req->s->resolver, &q, &page, &err);
	if (r == 0) {
		m->complete = page.complete && !page.next.size;
		if (!page.next.size)
			next = metadata_relay_start(m, MAX_RESULTS, reply_relayed);
		if (next == HTTP_REPLY)
			metadata_reply(m, buf_str(&page.next));
	} else if (m->no_memory.kind) {
		metadata_refuse_memory(m);
	} else if (err.kind == ERR_INVALID) {
		request_refuse(req, 400, err.text);
	} else {
		log_warn("http", "metadata: %s", err.text);
		request_refuse(req, reply_status_of(&err), "metadata cannot be read now");
	}
	buf_done(&page.next);
	return next;
}

static void metadata_done(struct request *req)
{
	struct metadata *m = req->own;

	if (!m)
		return;
	buf_done(&m->out);
	metadata_relay_free(m->relay);
	budget_hold_done(&m->memory);
}

const struct http_handler metadata_get = { .run = metadata_get_run, .done = metadata_done };
