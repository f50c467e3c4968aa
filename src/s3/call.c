/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request: signed, sent, and sent again if its failure may pass, until the deadline.
 *
 * The caller's thread waits; net's thread delivers. A read that has no answer soon gets a second request beside the first (a
 * hedge): the one whose answer begins first wins, and the other is cancelled. An answer that may be another one later, such as
 * 503, does not win: the other request goes on, with a new hedge beside it. A body that broke off is continued by a request for
 * the rest of its range.
 */
#include "s3/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include "base/condition.h"
#include "base/sha256.h"

#define TRIES        6
#define FIRST_MS     100 /* the pause after the first failure; then twice as long, ... */
#define PAUSE_MAX_MS 5000
#define CONNECT_MS   3000
#define HEDGE_MIN_MS 200
#define HEDGE_MAX_MS 2000
#define LEGS_MAX     4   /* requests of a try, two at a time */
#define HEDGE_TIMES  4   /* a hedge is sent after so many times the usual time to the first byte */
#define LOOK_MS      500 /* between two looks at whether the process ends */
#define ANSWER_USUAL KIB(64)
#define MAX_HEADERS  12

static const struct metric_family requests = {
	.name = "lode_s3_requests_total",
	.help = "Requests to buckets, by their operation and how the last try ended: done, missing, failed.",
	.type = METRIC_COUNTER,
	.labels = "what,outcome",
};
static const struct metric_family repeats = {
	.name = "lode_s3_repeats_total",
	.help = "Requests to buckets that were sent again: after a failure that may pass (failed), by other "
		"keys, at "
		"another place or time (learned), beside a slow one (hedge).",
	.type = METRIC_COUNTER,
	.labels = "why",
};
static const struct metric_family received = {
	.name = "lode_s3_received_bytes_total",
	.help = "Bytes of objects that were received from buckets.",
	.type = METRIC_COUNTER,
	.labels = "",
};
static const struct metric_family is_up = {
	.name = "lode_s3_up",
	.help = "1: the last request to a bucket was answered; 0: it failed after all its tries.",
	.type = METRIC_GAUGE,
	.labels = "",
};
static const struct metric_family away_since = {
	.name = "lode_s3_away_since_seconds",
	.help = "Unix time since when requests to buckets fail after all their tries; 0: the last one was "
		"answered.",
	.type = METRIC_GAUGE,
	.labels = "",
};
static const double bounds[] = { 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 0 };
static const struct metric_family seconds = {
	.name = "lode_s3_request_seconds",
	.help = "The time of a request to a bucket, with all its tries.",
	.type = METRIC_HISTOGRAM,
	.labels = "what",
	.bounds = bounds,
};

/* ---- one try: a request, perhaps with a hedge ---- */

struct try_state;
struct try_leg {
	struct try_state *t;
	struct net_call *call;
	/* net's thread, until `ended` */
	bool begun;
	int outcome;
	uint64_t n_sent; /* of the request's file */
	struct err err;
	struct call_answer answer;
	int64_t retry_after_s;
	/* under the lock */
	bool ended;
};
struct try_state {
	struct s3 *s;
	const struct call_request *req;
	int64_t from_ms;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* under the lock */
	struct try_leg legs[LEGS_MAX];
	unsigned n;
	int winner; /* -1: no answer that wins has begun */
};

void call_answer_done(struct call_answer *a)
{
	buf_done(&a->headers);
	buf_done(&a->body);
}

/* This leg's answer has begun. false: another one's did before. */
static bool leg_wins(struct try_leg *l)
{
	struct try_state *t = l->t;
	int me = (int)(l - t->legs);
	bool wins;

	pthread_mutex_lock(&t->lock);
	if (t->winner < 0) {
		t->winner = me;
		pthread_cond_broadcast(&t->changed);
	}
	wins = t->winner == me;
	pthread_mutex_unlock(&t->lock);
	return wins;
}

static void leg_first_byte(struct s3 *s, int64_t ms)
{
	int64_t usual = atomic_load(&s->first_ms);

	/* Lost updates by other threads do no harm. */
	atomic_store(&s->first_ms, usual ? (usual * 7 + ms) / 8 : MAX(ms, (int64_t)1));
}

static int leg_write(void *arg, const struct net_call_answer *a, struct bytes piece, struct err *err)
{
	struct try_leg *l = arg;
	struct call_sink *sink = l->t->req->sink;

	if (!l->begun) {
		if (!leg_wins(l))
			return err_set(err, ERR_CANCELLED, "another request was faster");
		l->begun = true;
		time_note_date(l->t->s, a->headers);
		leg_first_byte(l->t->s, clock_mono_ms() - l->t->from_ms);
		if (sink->begin && sink->begin(sink->arg, a, err) < 0)
			return -1;
	}
	if (piece.size > sink->range.size - sink->have)
		return err_set(err, ERR_INVALID, "its answer is longer than the range that was requested");
	if (sink->take(sink->arg, sink->range.off + sink->have, piece, err) < 0)
		return -1;
	sink->have += piece.size;
	metric_add(metric_get(&received), (int64_t)piece.size);
	atomic_fetch_add(&l->t->s->received, piece.size);
	return 0;
}

static int leg_read(void *arg, void *buf, size_t n, size_t *ret_got, struct err *err)
{
	struct try_leg *l = arg;
	const struct file_range *f = l->t->req->file;

	n = (size_t)MIN((uint64_t)n, f->size - l->n_sent);
	if (fd_pread(f->fd, buf, n, f->off + l->n_sent, ret_got, err) < 0)
		return -1;
	l->n_sent += *ret_got;
	return 0;
}

static void leg_done(void *arg, struct net_call *call, int outcome, const struct net_call_answer *a,
		     const struct err *err)
{
	struct try_leg *l = arg;
	struct try_state *t = l->t;

	l->outcome = outcome;
	l->retry_after_s = -1;
	if (outcome == 0) {
		l->answer.status = a->status;
		buf_add_str(&l->answer.headers, a->headers);
		buf_add(&l->answer.body, a->body.p, a->body.size);
		l->retry_after_s = a->retry_after_s;
		/* Of an answer that has begun long ago the Date was noted then. */
		if (!l->begun && a->status >= 200 && a->status < 300)
			time_note_date(t->s, a->headers);
	} else {
		l->err = *err;
	}
	/* With neither a body nor a sink this is the first sign of an answer. */
	if (outcome == 0 && !reply_may_pass(a->status))
		leg_wins(l);
	pthread_mutex_lock(&t->lock);
	l->ended = true;
	pthread_cond_broadcast(&t->changed);
	pthread_mutex_unlock(&t->lock);
}

/* ---- the request as it is sent ---- */

struct sent_request {
	struct arena arena;
	const char *url;
	const char *headers[MAX_HEADERS];
	size_t n_headers;
	char *server; /* for the breaker */
};

static struct str body_hash(const struct call_request *req, char hex[2 * SHA256_SIZE + 1])
{
	uint8_t hash[SHA256_SIZE];

	if (req->file)
		return str_of(hex_encode(bytes_of(req->file_sha256, SHA256_SIZE), hex));
	if (!req->body)
		return SIGN_NO_BODY;
	sha256_of(*req->body, hash);
	return str_of(hex_encode(bytes_of(hash, sizeof(hash)), hex));
}

/* The range that is left to get, as a header; NULL: none is needed. */
static const char *range_header(const struct call_request *req, struct arena *a)
{
	const struct call_sink *sink = req->sink;

	if (!sink)
		return NULL;
	return arena_printf(a, "Range: bytes=%llu-%llu", (unsigned long long)(sink->range.off + sink->have),
			    (unsigned long long)(sink->range.off + sink->range.size - 1));
}

static void request_sign(struct s3 *s, const struct call_request *req, const struct place *p,
			 const struct lent_keys *keys, struct sent_request *out)
{
	struct arena *a = &out->arena;
	AUTO(buf_done) struct buf target = { 0 };
	char hex[2 * SHA256_SIZE + 1];
	const char *range = range_header(req, a);
	struct sign_request sr = {
		.method = str_of(req->method),
		.query = req->query,
		.n_query = req->n_query,
		.headers = req->headers,
		.n_headers = req->n_headers,
		.body_hash = body_hash(req, hex),
		.region = str_of(p->region),
		.service = STR("s3"),
		.time_s = time_to_sign_s(s),
	};

	if (p->in_host) {
		sr.host = str_of(arena_printf(a, STR_FMT ".%s", STR_ARG(req->name.bucket), p->host));
		sr.path = str_of(arena_printf(a, "/" STR_FMT, STR_ARG(req->name.key)));
	} else {
		sr.host = str_of(p->host);
		sr.path = str_of(arena_printf(a, "/" STR_FMT "%s" STR_FMT, STR_ARG(req->name.bucket),
					      req->name.key.size ? "/" : "", STR_ARG(req->name.key)));
	}
	sign_target(&sr, &target);
	out->server = arena_printf(a, "%s://" STR_FMT, p->scheme, STR_ARG(sr.host));
	out->url = arena_printf(a, "%s" STR_FMT, out->server, STR_ARG(buf_str(&target)));
	if (keys) {
		const struct sign_keys k = { secret_str(&keys->id), secret_str(&keys->secret),
					     secret_str(&keys->token) };

		sign_headers(&sr, &k, a, out->headers, &out->n_headers);
	}
	for (size_t i = 0; i < req->n_headers; i++)
		out->headers[out->n_headers++] = arena_printf(a, STR_FMT ": " STR_FMT,
							      STR_ARG(req->headers[i].name),
							      STR_ARG(req->headers[i].value));
	if (range)
		out->headers[out->n_headers++] = range;
	/* Servers that know nothing of 100 Continue would cost a second. */
	if (req->body || req->file)
		out->headers[out->n_headers++] = "Expect:";
}

static void leg_start(struct try_state *t, const struct sent_request *sent, int64_t deadline_ms)
{
	struct try_leg *l = &t->legs[t->n++];
	const struct call_request *req = t->req;
	struct net_call_request call = {
		.method = req->method,
		.url = sent->url,
		.headers = sent->headers,
		.n_headers = sent->n_headers,
		/* An <Error> may be longer than the object. */
		.max_answer = MAX(req->max_answer, (size_t)ANSWER_USUAL),
		.connect_ms = CONNECT_MS,
		.silent_ms = t->s->opts.silent_ms + req->work_ms,
		.deadline_ms = deadline_ms,
		.stays = true,
		.breaker = true,
		.server = sent->server,
		.body = req->body,
		.read = req->file ? leg_read : NULL,
		.body_size = req->file ? req->file->size : 0,
		.write = req->sink ? leg_write : NULL,
		.arg = l,
		.done = leg_done,
	};

	l->t = t;
	net_call_start(t->s->net, &call, &l->call);
}

/* ---- waiting for it ---- */

static unsigned legs_running(const struct try_state *t)
{
	unsigned n = 0;

	for (unsigned i = 0; i < t->n; i++)
		n += !t->legs[i].ended;
	return n;
}

/* The longest Retry-After of those that have ended; -1: none. */
static int64_t legs_retry_after_s(const struct try_state *t)
{
	int64_t ret = -1;

	for (unsigned i = 0; i < t->n; i++)
		if (t->legs[i].ended)
			ret = MAX(ret, t->legs[i].retry_after_s);
	return ret;
}

/* All legs have ended: the one whose result counts. Without a winner, the last one with an answer. */
static struct try_leg *leg_that_counts(struct try_state *t)
{
	if (t->winner >= 0)
		return &t->legs[t->winner];
	for (unsigned i = t->n; i-- > 0;)
		if (t->legs[i].outcome == 0)
			return &t->legs[i];
	return &t->legs[0];
}

/* How long to wait before the next try: random, so that clients do not come back together. */
static int64_t retry_pause_ms(unsigned n_tries, int64_t retry_after_s)
{
	static _Atomic uint64_t seed;
	uint64_t n = atomic_fetch_add(&seed, 1),
		 most = (uint64_t)clock_backoff(FIRST_MS, n_tries, PAUSE_MAX_MS);
	int64_t now = clock_mono_ns(), ms;

	ms = (int64_t)(most / 2 + hash64(&now, sizeof(now), n) % (most / 2 + 1));
	return retry_after_s > 0 ? MAX(ms, MIN(retry_after_s, (int64_t)3600) * 1000) : ms;
}

static int64_t hedge_after(const struct s3 *s)
{
	int64_t ms = HEDGE_TIMES * atomic_load(&s->first_ms);

	return MAX(MIN(ms, (int64_t)HEDGE_MAX_MS),
		   (int64_t)(s->opts.hedge_min_ms ? s->opts.hedge_min_ms : HEDGE_MIN_MS));
}

/* The process ends, and the bytes will not be used. */
static bool call_is_given_up(const struct s3 *s, const struct call_request *req)
{
	int64_t stop_ms = atomic_load_explicit(&s->stop_ms, memory_order_relaxed);

	return req->hedged && stop_ms && clock_mono_ms() >= stop_ms;
}

/* Returns the leg whose result counts. */
static struct try_leg *try_wait(struct try_state *t, const struct sent_request *sent, int64_t deadline_ms)
{
	int64_t hedge_ms = t->req->hedged ? t->from_ms + hedge_after(t->s) : INT64_MAX;

	pthread_mutex_lock(&t->lock);
	while (legs_running(t) && !(t->winner >= 0 && t->legs[t->winner].ended) &&
	       !call_is_given_up(t->s, t->req)) {
		int64_t now_ms = clock_mono_ms();

		if (t->winner >= 0)
			hedge_ms = INT64_MAX;
		else if (hedge_ms == INT64_MAX && legs_running(t) == 1 && t->n > 1 && t->n < LEGS_MAX)
			hedge_ms = now_ms + retry_pause_ms(t->n - 2, legs_retry_after_s(t));
		if (now_ms >= hedge_ms) {
			hedge_ms = INT64_MAX;
			pthread_mutex_unlock(&t->lock);
			metric_count(&repeats, "hedge");
			leg_start(t, sent, MAX(deadline_ms - now_ms, (int64_t)1));
			pthread_mutex_lock(&t->lock);
			continue;
		}
		condition_wait(&t->changed, &t->lock, MIN(hedge_ms - now_ms, (int64_t)LOOK_MS));
	}
	pthread_mutex_unlock(&t->lock);
	for (unsigned i = 0; i < t->n; i++)
		net_call_cancel(t->legs[i].call);
	/* Every leg ends, within one turn of net's loop; until then it may use @t. */
	pthread_mutex_lock(&t->lock);
	while (legs_running(t))
		pthread_cond_wait(&t->changed, &t->lock);
	pthread_mutex_unlock(&t->lock);
	return leg_that_counts(t);
}

/* ---- the verdict ---- */

/* All bytes of the range have come. */
static bool sink_is_full(const struct call_request *req)
{
	return !req->sink || req->sink->have == req->sink->range.size;
}

static enum verdict judge_failure(const struct err *why, struct err *err)
{
	switch (why->kind) {
	case ERR_UPSTREAM:
		(void)err_set(err, ERR_IO, "%s", why->text);
		err->os = why->os;
		/* The breaker is open: the next try would fail at once. */
		return strncmp(why->text, "passed over", 11) == 0 ? VERDICT_FAILED : VERDICT_LATER;
	case ERR_CANCELLED:
		(void)err_set(err, ERR_IO, "%s", why->text);
		err->os = why->os == ETIME ? ETIME : ECANCELED;
		return VERDICT_FAILED;
	default:
		*err = *why;
		return VERDICT_FAILED;
	}
}

static enum verdict try_judge(struct s3 *s, const struct call_request *req, struct try_leg *l,
			      const struct lent_keys *keys, struct err *err)
{
	enum verdict v;

	if (l->outcome < 0)
		return judge_failure(&l->err, err);
	v = reply_judge(s, req, &l->answer, keys, err);
	if (v == VERDICT_DONE && !sink_is_full(req)) {
		(void)err_set(err, ERR_IO, "its answer ends after %llu of %llu bytes",
			      (unsigned long long)req->sink->have, (unsigned long long)req->sink->range.size);
		return VERDICT_LATER;
	}
	return v;
}

/* ---- limits ---- */

/* Wait for one of the requests that may run at once. false: the deadline has passed. */
static bool slot_take(struct s3 *s, int64_t end_ms)
{
	bool got;

	pthread_mutex_lock(&s->lock);
	while (s->n_running >= s->opts.max_requests && clock_mono_ms() < end_ms)
		condition_wait(&s->changed, &s->lock, 200);
	got = s->n_running < s->opts.max_requests;
	s->n_running += got;
	pthread_mutex_unlock(&s->lock);
	return got;
}

static void slot_give(struct s3 *s)
{
	pthread_mutex_lock(&s->lock);
	s->n_running--;
	pthread_cond_signal(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

/* ---- all tries ---- */

static enum verdict try_once(struct s3 *s, const struct call_request *req, int64_t end_ms,
			     struct call_answer *ret, int64_t *ret_after_s, struct err *err)
{
	struct try_state t = { .s = s, .req = req, .winner = -1, .from_ms = clock_mono_ms() };
	struct sent_request sent = { 0 };
	struct lent_keys *keys = NULL;
	struct try_leg *l;
	struct place place;
	enum verdict v;

	*ret_after_s = -1;
	if (!s->config.anonymous && credentials_get(s->credentials, &keys, err) < 0)
		return VERDICT_FAILED;
	arena_init(&sent.arena);
	pthread_mutex_init(&t.lock, NULL);
	condition_init(&t.changed);
	place_of(s, req->name.bucket, &place);
	request_sign(s, req, &place, keys, &sent);
	leg_start(&t, &sent, MAX(end_ms - t.from_ms, (int64_t)1));
	l = try_wait(&t, &sent, end_ms);
	v = try_judge(s, req, l, keys, err);
	*ret_after_s = l->retry_after_s;
	if (v == VERDICT_DONE) {
		*ret = l->answer;
		l->answer = (struct call_answer){ 0 };
	}
	for (unsigned i = 0; i < t.n; i++) {
		net_call_unref(t.legs[i].call);
		call_answer_done(&t.legs[i].answer);
	}
	place_done(&place);
	lent_keys_unref(keys);
	pthread_cond_destroy(&t.changed);
	pthread_mutex_destroy(&t.lock);
	arena_done(&sent.arena);
	return v;
}

/* false: the request is given up. */
static bool pause_before_try(const struct s3 *s, const struct call_request *req, int64_t ms)
{
	while (!call_is_given_up(s, req) && ms > 0) {
		int64_t part = MIN(ms, (int64_t)LOOK_MS);
		struct timespec ts = { .tv_nsec = part * 1000000 };

		nanosleep(&ts, NULL);
		ms -= part;
	}
	return !call_is_given_up(s, req);
}

static enum verdict try_all(struct s3 *s, const struct call_request *req, struct call_answer *ret,
			    struct err *err)
{
	int64_t end_ms = clock_mono_ms() + s->opts.deadline_ms + req->work_ms, after_s, wait;
	uint64_t had = 0;

	for (unsigned n = 0;; n++) {
		enum verdict v;

		if (call_is_given_up(s, req)) {
			(void)err_set(err, ERR_CANCELLED, "this service ends");
			return VERDICT_FAILED;
		}
		if (!slot_take(s, end_ms)) {
			(void)err_set(err, ERR_IO, "too many requests wait for the bucket");
			err->os = ETIME;
			return VERDICT_FAILED;
		}
		v = try_once(s, req, end_ms, ret, &after_s, err);
		slot_give(s);
		if (v != VERDICT_AGAIN && v != VERDICT_LATER)
			return v;
		/* A body that went on is no failure to give up after. */
		if (req->sink && req->sink->have > had)
			n = 0;
		had = req->sink ? req->sink->have : 0;
		wait = v == VERDICT_LATER ? retry_pause_ms(n, after_s) : 0;
		if (n + 1 >= TRIES || clock_mono_ms() + wait >= end_ms)
			return VERDICT_FAILED;
		metric_count(&repeats, v == VERDICT_LATER ? "failed" : "learned");
		if (!pause_before_try(s, req, wait))
			return VERDICT_FAILED;
	}
}

/*
 * A 404 without a body, of the bucket or of a proxy: the request for the reason (object.c) is the one that counts, with the
 * time since the HEAD began.
 */
static bool reason_is_missing(const struct call_request *req, enum verdict v)
{
	return v == VERDICT_MISSING && strcmp(req->method, "HEAD") == 0;
}

/* For the page: whether the bucket answers. A request that was given up tells nothing. */
static void call_note(struct s3 *s, const struct call_request *req, enum verdict v, const struct err *why)
{
	bool failed = v != VERDICT_DONE && v != VERDICT_MISSING;
	int64_t since_s;

	/* An object that was replaced, or an answer that was too long for the caller, is no fault of the bucket. */
	if (failed && (why->kind == ERR_CHANGED || why->kind == ERR_LIMIT || call_is_given_up(s, req)))
		return;
	pthread_mutex_lock(&s->lock);
	s->n_done += v == VERDICT_DONE;
	s->n_missing += v == VERDICT_MISSING;
	s->n_failed += failed;
	if (failed) {
		if (!s->failing)
			s->failing_s = clock_wall_s();
		s->why = *why;
	}
	s->failing = failed;
	since_s = failed ? s->failing_s : 0;
	pthread_mutex_unlock(&s->lock);
	metric_set(metric_get(&is_up), !failed);
	metric_set(metric_get(&away_since), since_s);
}

int call_run(struct s3 *s, const struct call_request *req, struct call_answer *ret, struct err *err)
{
	int64_t from_ms = req->from_ms ? req->from_ms : clock_mono_ms();
	struct err why = { 0 };
	enum verdict v;

	*ret = (struct call_answer){ 0 };
	pool_wait_begin();
	v = try_all(s, req, ret, &why);
	pool_wait_end();
	if (!reason_is_missing(req, v)) {
		metric_observe(metric_get(&seconds, req->what), (double)(clock_mono_ms() - from_ms) / 1000.0);
		metric_count(&requests, req->what,
			     v == VERDICT_DONE      ? "done"
			     : v == VERDICT_MISSING ? "missing"
						    : "failed");
		call_note(s, req, v, &why);
	}
	if (v == VERDICT_DONE)
		return 0;
	if (v == VERDICT_MISSING)
		return S3_MISSING;
	if (err)
		*err = why;
	return err_in(err, "s3://" STR_FMT "/" STR_FMT, STR_ARG(req->name.bucket), STR_ARG(req->name.key));
}
