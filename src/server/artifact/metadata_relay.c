/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /metadata of other servers: asked all at once when our own results are complete, theirs put behind ours.
 * "complete" stays true only if every one of them answered and says so of its own.
 *
 * No worker waits meanwhile: the request stays suspended, the last answer queues what is left to do.
 */
#include "server/artifact/metadata.h"

#include <stdlib.h>

#define MAX_ANSWER MIB(32)
#define CONNECT_MS 1500

struct relay {
	struct request *req;
	void (*over)(struct request *req, json_t *results, bool complete);
	json_t *results; /* ours; theirs are added at the end */
	bool complete;   /* they are */
	size_t max_results;
	size_t n;
	struct relay_part {
		struct relay *r;
		struct buf body;
		bool ok;
	} * parts;
	atomic_size_t n_left;
};

/* A result of another server: only what is known, and only text. NULL: it is none. */
static json_t *result_of(const json_t *theirs)
{
	static const char *const names[] = { "type", "buildid", "file", "archive" };
	json_t *one = json_object();

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		json_t *value = json_object_get(theirs, names[i]);

		if (json_is_string(value))
			json_object_set(one, names[i], value);
	}
	if (json_object_get(one, "type") && json_object_get(one, "buildid") && json_object_get(one, "file"))
		return one;
	json_decref(one);
	return NULL;
}

/* true: it is an answer, and complete. */
static bool merge(struct relay *r, const struct relay_part *part)
{
	json_t *all = part->ok ? json_loadb((const char *)part->body.p, part->body.size, 0, NULL) : NULL;
	const json_t *theirs = json_object_get(all, "results"), *value;
	bool complete = json_is_true(json_object_get(all, "complete"));
	size_t i;

	if (!json_is_array(theirs))
		complete = false;
	json_array_foreach(theirs, i, value)
	{
		json_t *one = result_of(value);

		if (json_array_size(r->results) >= r->max_results)
			complete = false;
		else if (one)
			json_array_append(r->results, one);
		complete &= one != NULL;
		json_decref(one);
	}
	json_decref(all);
	return complete;
}

/* On a worker again. */
static void finish(void *arg)
{
	struct relay *r = arg;
	struct request *req = r->req;
	bool complete = r->complete;

	for (size_t i = 0; i < r->n; i++) {
		complete &= merge(r, &r->parts[i]);
		buf_done(&r->parts[i].body);
	}
	r->over(req, r->results, complete);
	json_decref(r->results);
	free(r->parts);
	free(r);
	wait_job_done(req);
}

static void one_less(struct relay *r)
{
	/* The pool has room for all that may be suspended. */
	if (atomic_fetch_sub(&r->n_left, 1) == 1 &&
	    pool_submit(r->req->s->workers, POOL_NORMAL, finish, r) != 0)
		abort();
}

static void on_answer(void *arg, struct net_call *c, int outcome, const struct net_call_answer *a,
		      const struct err *err)
{
	struct relay_part *part = arg;

	part->ok = outcome == 0 && a->status == 200;
	if (part->ok)
		buf_add(&part->body, a->body.p, a->body.size);
	one_less(part->r);
}

static void ask(struct relay *r, size_t which, struct str key, struct str value)
{
	struct request *req = r->req;
	const struct resolve_request *what = &req->route.resolve;
	const char *server = req->s->opts.upstreams[which], *headers[3];
	AUTO(buf_done) struct buf url = { 0 };
	struct net_call_request call = {
		.headers = headers,
		.max_answer = MAX_ANSWER,
		.connect_ms = CONNECT_MS,
		.deadline_ms = req->s->opts.metadata_max_ms,
		.breaker = true,
		.server = server,
		.arg = &r->parts[which],
		.done = on_answer,
	};

	buf_printf(&url, "%s/metadata?key=", server);
	net_escape(&url, key, false);
	buf_add_str(&url, STR("&value="));
	net_escape(&url, value, false);
	call.url = buf_cstr(&url);
	headers[call.n_headers++] = arena_printf(&req->arena, "X-Forwarded-For: " STR_FMT,
						 STR_ARG(what->forwarded_for));
	headers[call.n_headers++] = arena_printf(&req->arena, "Via: " STR_FMT, STR_ARG(what->via));
	if (what->user_agent.size)
		headers[call.n_headers++] = arena_printf(&req->arena, "User-Agent: " STR_FMT,
							 STR_ARG(what->user_agent));
	net_call_start(req->s->opts.net, &call, NULL);
}

bool metadata_relay(struct request *req, struct str key, struct str value, json_t *results, bool complete,
		    size_t max_results, void (*over)(struct request *req, json_t *results, bool complete))
{
	const struct server_options *o = &req->s->opts;
	struct relay *r;

	if (!o->net || !o->n_upstreams)
		return false;
	forward_set(req);
	if (req->route.resolve.not_further)
		return false;
	r = NEW(struct relay);
	r->req = req;
	r->over = over;
	r->results = json_incref(results);
	r->complete = complete;
	r->max_results = max_results;
	r->n = o->n_upstreams;
	r->parts = NEW_N(struct relay_part, r->n);
	memset(r->parts, 0, r->n * sizeof(*r->parts));
	/* One more, so that none of them is the last before all are asked. */
	atomic_init(&r->n_left, r->n + 1);
	*req->goes_on = true;
	for (size_t i = 0; i < r->n; i++) {
		r->parts[i].r = r;
		ask(r, i, key, value);
	}
	one_less(r);
	return true;
}
