/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/senders: the senders of profiles, the latest first.
 *
 *   { "senders": [ { "token", "address", "agent", "path", "first", "last", "accepted", "refused",
 *                    "refusal": { "time", "status", "reason" } } ], "forgotten" }
 *
 * Times are milliseconds since 1970. `refusal` is the newest one; `forgotten` counts senders that had to make room.
 */
#include "server/intake/senders.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/json.h"

#define AGENT_SIZE  64u
#define PATH_SIZE   80u
#define REASON_SIZE 240u

struct sender_key {
	char token[TOKEN_MAX_NAME], address[INET6_ADDRSTRLEN], agent[AGENT_SIZE], path[PATH_SIZE];
};

struct seen_sender {
	struct sender_key key;
	int64_t first_ms, last_ms, refused_ms;
	uint64_t seen; /* the number of its last request: several are in one millisecond */
	uint64_t n_accepted, n_refused;
	unsigned status; /* of the newest refusal */
	char reason[REASON_SIZE];
};

struct senders {
	pthread_mutex_t lock;
	/* under the lock */
	struct seen_sender v[SENDERS_MAX];
	unsigned n;
	uint64_t n_seen, n_forgotten;
};

struct senders *senders_new(void)
{
	struct senders *t = NEW(struct senders);

	pthread_mutex_init(&t->lock, NULL);
	return t;
}

void senders_free(struct senders *t)
{
	if (!t)
		return;
	pthread_mutex_destroy(&t->lock);
	free(t);
}

/* ---- noting ---- */

/* Cut to @size with its NUL; only printable ASCII, as other bytes may be anything. */
static void sender_text(char *out, size_t size, struct str s)
{
	size_t n = MIN(s.size, size - 1);

	for (size_t i = 0; i < n; i++)
		out[i] = s.p[i] >= ' ' && s.p[i] < 0x7f ? s.p[i] : '?';
	out[n] = '\0';
}

static void sender_address(const struct sockaddr *a, char out[INET6_ADDRSTRLEN])
{
	if (a && a->sa_family == AF_INET)
		inet_ntop(AF_INET, &((const struct sockaddr_in *)a)->sin_addr, out, INET6_ADDRSTRLEN);
	else if (a && a->sa_family == AF_INET6)
		inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)a)->sin6_addr, out, INET6_ADDRSTRLEN);
	else
		strcpy(out, "unix");
}

static void sender_key_of(const struct request *req, struct sender_key *ret)
{
	const char *agent = http_header(req->conn, "User-Agent");
	/* Not the path as sent: any client could fill the table with paths. */
	const char *path = req->route->method ? req->route->pattern : "other calls";

	*ret = (struct sender_key){ 0 };
	sender_text(ret->token, sizeof(ret->token), str_of(req->token));
	sender_text(ret->agent, sizeof(ret->agent), str_of(agent ? agent : ""));
	sender_text(ret->path, sizeof(ret->path), str_of(path));
	sender_address(http_peer(req->conn), ret->address);
}

static bool sender_is(const struct sender_key *a, const struct sender_key *b)
{
	return strcmp(a->path, b->path) == 0 && strcmp(a->address, b->address) == 0 &&
	       strcmp(a->agent, b->agent) == 0 && strcmp(a->token, b->token) == 0;
}

/* Under the lock. One without a token makes room for itself only among those: it may be anybody. */
static struct seen_sender *sender_of_key(struct senders *t, const struct sender_key *key, int64_t now_ms)
{
	struct seen_sender *oldest = NULL;

	for (unsigned i = 0; i < t->n; i++) {
		struct seen_sender *x = &t->v[i];

		if (sender_is(&x->key, key))
			return x;
		if ((key->token[0] || !x->key.token[0]) && (!oldest || x->seen < oldest->seen))
			oldest = x;
	}
	if (t->n < SENDERS_MAX)
		oldest = &t->v[t->n++];
	else
		t->n_forgotten++;
	if (oldest)
		*oldest = (struct seen_sender){ .key = *key, .first_ms = now_ms };
	return oldest;
}

void senders_note(struct senders *t, const struct request *req, unsigned status)
{
	int64_t now_ms = clock_wall_ms();
	struct seen_sender *x;
	struct sender_key key;

	if (!req->route || (req->type != TYPE_INGEST && req->route->handler != &connect_other))
		return;
	sender_key_of(req, &key);
	pthread_mutex_lock(&t->lock);
	x = sender_of_key(t, &key, now_ms);
	if (x) {
		x->last_ms = now_ms;
		x->seen = ++t->n_seen;
		x->n_accepted += status < 400;
		x->n_refused += status >= 400;
	}
	if (x && status >= 400) {
		x->refused_ms = now_ms;
		x->status = status;
		sender_text(x->reason, sizeof(x->reason),
			    str_of(req->refusal ? req->refusal : "the client has closed the connection"));
	}
	pthread_mutex_unlock(&t->lock);
}

/* ---- reading ---- */

static int by_time_seen(const void *a, const void *b)
{
	uint64_t x = ((const struct seen_sender *)a)->seen, y = ((const struct seen_sender *)b)->seen;

	return x > y ? -1 : x < y;
}

/* A copy, the latest first, in @a. */
static struct seen_sender *senders_copy(struct senders *t, struct arena *a, unsigned *ret_n,
					uint64_t *ret_forgotten)
{
	struct seen_sender *v = ARENA_NEW_N(a, struct seen_sender, SENDERS_MAX);

	pthread_mutex_lock(&t->lock);
	memcpy(v, t->v, t->n * sizeof(*v));
	*ret_n = t->n;
	*ret_forgotten = t->n_forgotten;
	pthread_mutex_unlock(&t->lock);
	qsort(v, *ret_n, sizeof(*v), by_time_seen);
	return v;
}

static void sender_write_json(struct json_writer *w, const struct seen_sender *x)
{
	json_open_object(w, NULL);
	json_put_text(w, "token", x->key.token);
	json_put_text(w, "address", x->key.address);
	json_put_text(w, "agent", x->key.agent);
	json_put_text(w, "path", x->key.path);
	json_put_int(w, "first", x->first_ms);
	json_put_int(w, "last", x->last_ms);
	json_put_uint(w, "accepted", x->n_accepted);
	json_put_uint(w, "refused", x->n_refused);
	if (x->n_refused) {
		json_open_object(w, "refusal");
		json_put_int(w, "time", x->refused_ms);
		json_put_uint(w, "status", x->status);
		json_put_text(w, "reason", x->reason);
		json_close(w);
	}
	json_close(w);
}

static enum http_next senders_run(struct request *req)
{
	struct buf out = { 0 };
	struct json_writer w = { .out = &out, .escape_slash = true };
	uint64_t n_forgotten;
	struct seen_sender *v;
	unsigned n;

	v = senders_copy(req->s->senders, &req->arena, &n, &n_forgotten);
	json_open_object(&w, NULL);
	json_open_array(&w, "senders");
	for (unsigned i = 0; i < n; i++)
		sender_write_json(&w, &v[i]);
	json_close(&w);
	json_put_uint(&w, "forgotten", n_forgotten);
	json_close(&w);
	request_reply_body(req, 200, &out, "application/json", true);
	return HTTP_REPLY;
}

const struct http_handler senders_get = { .run = senders_run };

/* ---- metrics: not of base/metrics.h, since the labels are the senders', which come and go ---- */

#define METRIC_SENDERS  "lode_senders"
#define METRIC_REQUESTS "lode_sender_requests_total"

/* Quotes and backslashes are the only characters of these texts that need an escape. */
static void metric_label(struct buf *out, const char *name, const char *value)
{
	buf_printf(out, "%s=\"", name);
	for (; *value; value++) {
		if (*value == '"' || *value == '\\')
			buf_add_char(out, '\\');
		buf_add_char(out, *value);
	}
	buf_add_char(out, '"');
}

static void write_sender_metric(struct buf *out, const struct seen_sender *x, const char *outcome, uint64_t n)
{
	buf_printf(out, "%s{", METRIC_REQUESTS);
	metric_label(out, "token", x->key.token);
	buf_add_char(out, ',');
	metric_label(out, "address", x->key.address);
	buf_add_char(out, ',');
	metric_label(out, "agent", x->key.agent);
	buf_add_char(out, ',');
	metric_label(out, "path", x->key.path);
	buf_printf(out, ",outcome=\"%s\"} %llu\n", outcome, (unsigned long long)n);
}

static void metric_head(struct buf *out, const char *name, const char *help, const char *type)
{
	buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void senders_write_metrics(struct senders *t, struct buf *out)
{
	uint64_t n_forgotten;
	struct seen_sender *v;
	struct arena a;
	unsigned n;

	arena_init(&a);
	v = senders_copy(t, &a, &n, &n_forgotten);
	metric_head(out, METRIC_SENDERS, "Senders of profiles that are remembered.", "gauge");
	buf_printf(out, "%s %u\n", METRIC_SENDERS, n);
	metric_head(out, METRIC_REQUESTS, "Requests with profiles, by sender.", "counter");
	for (unsigned i = 0; i < n; i++) {
		write_sender_metric(out, &v[i], "accepted", v[i].n_accepted);
		write_sender_metric(out, &v[i], "refused", v[i].n_refused);
	}
	arena_done(&a);
}
