/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metadata queries: all servers are asked at once, and their answers are merged. If a server did not answer,
 * the result is returned but not cached: its file gets a time that is too old.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/json.h"
#include "client/internal.h"
#include "net/net.h"

#define ANSWER_MAX MIB(64)

struct server_query {
	struct metadata_call *all;
	const char *server;
	struct net_call *call;
	char *url;
	bool done;
};

struct metadata_call {
	struct find f;
	const char *key, *value;
	struct client_result *result;
	struct server_query questions[ENV_MAX_SERVERS];
	size_t n_done, n_answered;
	json_t *results;
	bool complete;
	char *name; /* of its file in the cache */
};

static char *metadata_file_name(const char *key, const char *value)
{
	AUTO(buf_done) struct buf b = { 0 };

	net_escape(&b, str_of(key), false);
	buf_add_char(&b, '_');
	net_escape(&b, str_of(value), false);
	/* elfutils fails at a name that is too long, so no other client looks for ours. */
	return b.size + sizeof(".XXXXXX") <= NAME_MAX ? mem_strdup(buf_cstr(&b)) : entry_escape(buf_cstr(&b));
}

/* ---- the cache ---- */

static bool metadata_cached(struct metadata_call *m)
{
	AUTO(mem_freep) char *path = mem_printf("%s/metadata/%s", m->f.folder.path, m->name);
	AUTO(fd_close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	int64_t keep = folder_control(&m->f.folder, CONTROL_RETENTION, USUAL_RETENTION_S, NULL);
	struct client_result *r = m->result;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size == 0)
		return false;
	if (keep <= 0 || !folder_time_is_fresh(st.st_mtime, keep))
		return false;
	lookup_touch(fd);
	client_say(m->f.watch, "cached metadata %s", m->name);
	r->outcome = CLIENT_FOUND;
	r->cached = true;
	r->fd = TAKE_FD(fd);
	r->path = TAKE(path);
	r->size = (uint64_t)st.st_size;
	return true;
}

/* ---- answers ---- */

/* false: it is not metadata. */
static bool metadata_add_answer(struct metadata_call *m, struct bytes body)
{
	json_t *j = json_loadb((const char *)body.p, body.size, 0, NULL);
	json_t *results = json_object_get(j, "results"), *complete = json_object_get(j, "complete");
	bool good = json_is_array(results) && json_is_boolean(complete);

	if (good) {
		json_array_extend(m->results, results);
		m->complete = m->complete && json_is_true(complete);
	}
	json_decref(j);
	return good;
}

static void server_query_answered(void *arg, struct net_call *c, int outcome, const struct net_call_answer *a,
				  const struct err *err)
{
	struct server_query *q = arg;
	struct metadata_call *m = q->all;

	q->done = true;
	m->n_done++;
	if (outcome == 0 && a->status == 200 && metadata_add_answer(m, a->body)) {
		m->n_answered++;
		result_why(m->result, m->f.watch, "%s: answered", q->server);
		return;
	}
	m->complete = false;
	if (outcome < 0)
		result_why(m->result, m->f.watch, "%s: %s", q->server, err->text);
	else if (a->status == 200)
		result_why(m->result, m->f.watch, "%s: its answer is not metadata", q->server);
	else
		result_why(m->result, m->f.watch, "%s: %u", q->server, a->status);
}

static void query_start(struct metadata_call *m, struct net *net, size_t i)
{
	AUTO(buf_done) struct buf url = { 0 };
	struct server_query *q = &m->questions[i];
	const char *plain;

	*q = (struct server_query){ .all = m, .server = m->f.env.urls[i] };
	if (net_url_layout(q->server, &plain) != NET_DEBUGINFOD) {
		result_why(m->result, m->f.watch, "%s: not asked: a server of its kind has no metadata",
			   q->server);
		q->done = true;
		m->n_done++;
		m->n_answered++;
		return;
	}
	buf_printf(&url, "%s/metadata?key=", q->server);
	net_escape(&url, str_of(m->key), false);
	buf_printf(&url, "&value=");
	net_escape(&url, str_of(m->value), false);
	q->url = mem_strdup(buf_cstr(&url));
	client_say(m->f.watch, "url %zu %s", i, q->url);
	net_call_start(net,
		       &(struct net_call_request){
			       .url = q->url,
			       .headers = m->f.headers,
			       .n_headers = m->f.n_headers,
			       .max_answer = ANSWER_MAX,
			       .silent_ms = m->f.env.timeout_ms > 0 && m->f.env.timeout_ms < UINT32_MAX
						    ? (unsigned)m->f.env.timeout_ms
						    : UINT32_MAX,
			       .deadline_ms = m->f.env.max_time_ms,
			       .breaker = true,
			       .server = q->server,
			       .arg = q,
			       .done = server_query_answered,
		       },
		       &q->call);
}

static void metadata_wait(struct metadata_call *m, struct net *net)
{
	struct client_progress p = { .n = 1 };

	while (m->n_done < m->f.env.n_urls) {
		const struct client_watch *w = m->f.watch;

		if (w && w->progress && !m->f.cancelled && w->progress(w->arg, &p)) {
			m->f.cancelled = true;
			for (size_t i = 0; i < m->f.env.n_urls; i++)
				if (!m->questions[i].done)
					net_call_cancel(m->questions[i].call);
		}
		net_run(net, FIND_TICK_MS);
	}
	for (size_t i = 0; i < m->f.env.n_urls; i++) {
		net_call_unref(m->questions[i].call);
		free(m->questions[i].url);
	}
}

/* ---- the file ---- */

static int metadata_save(struct metadata_call *m, struct err *err)
{
	AUTO(mem_freep) char *results = json_dumps(m->results, JSON_INDENT(2));
	AUTO(buf_done) struct buf text = { 0 };
	struct json_writer w = { .out = &text, .indent = 2 };
	AUTO(put_done) struct put p = { .fd = -1 };
	struct client_result *r = m->result;

	if (!results)
		return err_os(err, ENOMEM, "metadata");
	json_open_object(&w, NULL);
	json_put_raw(&w, "results", str_of(results));
	json_put_bool(&w, "complete", m->complete);
	json_close(&w);
	if (put_begin(&p, (struct put_folders){ &m->f.folder, &m->f.spare }, "metadata", m->name, 0, err) <
		    0 ||
	    put_write(&p, text.p, text.size, 0, err) < 0)
		return -1;
	if (m->n_answered < m->f.env.n_urls) {
		int64_t keep = folder_control(&m->f.folder, CONTROL_RETENTION, USUAL_RETENTION_S, NULL);
		struct timespec t[2] = { { .tv_nsec = UTIME_NOW },
					 { .tv_sec = clock_wall_s() - MAX(keep, (int64_t)0) - 1 } };

		(void)!futimens(p.fd, t);
	}
	if (put_commit_plain(&p, m->name, &r->path, err) < 0)
		return -1;
	r->outcome = CLIENT_FOUND;
	r->size = p.size;
	r->fd = TAKE_FD(p.fd);
	return 0;
}

static void metadata_run(struct metadata_call *m)
{
	struct client_result *r = m->result;
	struct net *net;

	if (!m->key || !m->value || strlen(m->key) + strlen(m->value) > NET_URL_MAX / 3) {
		err_set(&r->err, ERR_INVALID, "a key and a value are needed, of no more than %u bytes",
			NET_URL_MAX / 3);
		result_fail(r, CLIENT_FAILED, EINVAL);
		return;
	}
	m->name = metadata_file_name(m->key, m->value);
	if (metadata_cached(m))
		return;
	if (m->f.env.n_urls == 0) {
		client_no_servers(&m->f.env, r);
		return;
	}
	net = client_net(m->f.client, &m->f.folder, &r->err);
	if (!net) {
		result_fail(r, CLIENT_FAILED, ENOMEM);
		return;
	}
	m->complete = true;
	m->results = json_array();
	for (size_t i = 0; i < m->f.env.n_urls; i++)
		query_start(m, net, i);
	metadata_wait(m, net);
	if (m->f.cancelled) {
		err_set(&r->err, ERR_CANCELLED, "cancelled");
		result_fail(r, CLIENT_CANCELLED, ECANCELED);
	} else if (metadata_save(m, &r->err) < 0) {
		result_fail(r, CLIENT_FAILED, r->err.os ? r->err.os : EIO);
	}
	json_decref(m->results);
}

void client_metadata(struct client *c, const char *key, const char *value, const struct client_watch *watch,
		     struct client_result *ret)
{
	struct metadata_call m = { .key = key, .value = value, .result = ret };

	*ret = (struct client_result){ .fd = -1 };
	find_open(&m.f, c, watch);
	metadata_run(&m);
	free(m.name);
	find_close(&m.f);
}
