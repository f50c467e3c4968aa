/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /metadata of other servers: all are asked at once when our own results are complete; theirs are added after
 * ours. "complete" stays true only if every server answered and says so of its own results.
 *
 * No worker waits meanwhile: the request stays suspended, and the last answer queues the rest of the work.
 */
#include <jansson.h>
#include <stdlib.h>
#include "server/artifact/metadata.h"
#include "server/json.h"

#define MAX_ANSWER MIB(32)
#define CONNECT_MS 1500

struct metadata_relay {
	struct metadata *m;
	enum http_next (*over)(struct metadata *m);
	size_t max_results;
	size_t n;
	struct relay_part {
		struct metadata_relay *relay;
		struct buf body;
		bool ok;
	} * parts;
	atomic_size_t n_left;
};

/* Add a result of another server: the known names, and only text. false: it is malformed, or one too many. */
static bool relay_add_result(struct metadata *m, const json_t *theirs, size_t max_results)
{
	static const char *const names[] = { "type", "buildid", "file", "archive", "go_build_id", "htlhash" };
	struct str values[ARRAY_SIZE(names)] = { { 0 } };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const json_t *value = json_object_get(theirs, names[i]);

		if (json_is_string(value))
			values[i] = (struct str){ json_string_value(value), json_string_length(value) };
	}
	if (!values[0].p || !values[1].p || !values[2].p || m->n_results >= max_results)
		return false;
	json_open_object(&m->json, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (values[i].p)
			json_put_str(&m->json, names[i], values[i]);
	json_close(&m->json);
	m->n_results++;
	return metadata_out_granted(m);
}

static void relay_add_answer(struct metadata_relay *r, const struct relay_part *part)
{
	uint64_t tree_size = json_tree_size(buf_bytes(&part->body));
	bool granted = part->ok && budget_hold_add(&r->m->memory, tree_size, NULL) == 0, complete;
	json_t *all = granted ? json_loadb((const char *)part->body.p, part->body.size, 0, NULL) : NULL;
	const json_t *theirs = json_object_get(all, "results"), *value;
	size_t i;

	complete = json_is_array(theirs) && json_is_true(json_object_get(all, "complete"));
	json_array_foreach(theirs, i, value)
	{
		complete &= relay_add_result(r->m, value, r->max_results);
		if (r->m->no_memory.kind)
			break;
	}
	json_decref(all);
	budget_hold_sub(&r->m->memory, granted ? tree_size : 0);
	r->m->complete &= complete;
}

/* On a worker again. */
static enum http_next relay_end(struct request *req)
{
	struct metadata *m = req->own;
	struct metadata_relay *r = m->relay;

	for (size_t i = 0; i < r->n; i++)
		relay_add_answer(r, &r->parts[i]);
	return r->over(m);
}

static void relay_one_less(struct metadata_relay *r)
{
	if (atomic_fetch_sub(&r->n_left, 1) == 1)
		request_continue(r->m->req, relay_end);
}

static void relay_on_answer(void *arg, struct net_call *c, int outcome, const struct net_call_answer *a,
			    const struct err *err)
{
	struct relay_part *part = arg;

	part->ok = outcome == 0 && a->status == 200;
	if (part->ok)
		buf_add(&part->body, a->body.p, a->body.size);
	relay_one_less(part->relay);
}

static void relay_ask(struct metadata_relay *r, size_t which)
{
	struct metadata *m = r->m;
	struct request *req = m->req;
	const struct resolve_request *what = &m->forward;
	const char *server = req->s->opts.upstreams[which], *headers[3], *plain;
	AUTO(buf_done) struct buf url = { 0 };
	struct net_call_request call = {
		.headers = headers,
		.max_answer = MAX_ANSWER,
		.memory = &m->memory,
		.connect_ms = CONNECT_MS,
		.deadline_ms = req->s->opts.metadata_max_ms,
		.breaker = true,
		.server = server,
		.arg = &r->parts[which],
		.done = relay_on_answer,
	};

	/* A server of another kind has no metadata. */
	if (net_url_layout(server, &plain) != NET_DEBUGINFOD) {
		buf_add_str(&r->parts[which].body, STR("{\"results\":[],\"complete\":true}"));
		r->parts[which].ok = true;
		relay_one_less(r);
		return;
	}
	buf_printf(&url, "%s/metadata?key=", server);
	net_escape(&url, m->key, false);
	buf_add_str(&url, STR("&value="));
	net_escape(&url, m->value, false);
	call.url = buf_cstr(&url);
	headers[call.n_headers++] = arena_printf(&req->arena, "X-Forwarded-For: " STR_FMT,
						 STR_ARG(what->forwarded_for));
	headers[call.n_headers++] = arena_printf(&req->arena, "Via: " STR_FMT, STR_ARG(what->via));
	if (what->user_agent.size)
		headers[call.n_headers++] = arena_printf(&req->arena, "User-Agent: " STR_FMT,
							 STR_ARG(what->user_agent));
	net_call_start(req->s->opts.net, &call, NULL);
}

enum http_next metadata_relay_start(struct metadata *m, size_t max_results,
				    enum http_next (*over)(struct metadata *m))
{
	const struct server_options *o = &m->req->s->opts;
	struct metadata_relay *r;

	if (!o->net || !o->n_upstreams)
		return HTTP_REPLY;
	forward_set(m->req, &m->forward);
	if (m->forward.not_further)
		return HTTP_REPLY;
	if (o->upstream && !resolve_upstream_question(o->upstream, m->forward.client)) {
		counters_refused("upstream");
		m->complete = false;
		return HTTP_REPLY;
	}
	r = m->relay = NEW(struct metadata_relay);
	r->m = m;
	r->over = over;
	r->max_results = max_results;
	r->n = o->n_upstreams;
	r->parts = NEW_N(struct relay_part, r->n);
	memset(r->parts, 0, r->n * sizeof(*r->parts));
	/* One more than servers, so that no answer is the last before all are asked. */
	atomic_init(&r->n_left, r->n + 1);
	for (size_t i = 0; i < r->n; i++) {
		r->parts[i].relay = r;
		relay_ask(r, i);
	}
	relay_one_less(r);
	return HTTP_WAITS;
}

void metadata_relay_free(struct metadata_relay *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->n; i++)
		buf_done(&r->parts[i].body);
	free(r->parts);
	free(r);
}
