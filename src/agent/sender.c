/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread has the connection, and is the only one that uses the spool. A profile is encoded here, so that the agent's
 * thread goes on with its samples.
 */
#include "agent/sender.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "base/condition.h"
#include "client/answer.h"

#define DEADLINE_MS 15000 /* less than the profiles that may wait in memory */
#define MAX_ANSWER  MIB(1)

struct sender {
	struct sender_options o;
	char *url, *token;
	struct net *net;
	pthread_t thread;
	bool started;
	/* of the thread */
	unsigned n_failures; /* in a row */
	int64_t next_try_ms; /* monotonic */
	bool is_unreadable;  /* the spool: the log says so once */
	pthread_mutex_t lock;
	pthread_cond_t more;
	/* under the lock */
	struct profile *queue[SENDER_QUEUE];
	size_t n_queue;
	bool stop;
	int64_t stop_ms; /* monotonic: the end of the grace */
	struct sender_stats stats;
};

/* ---- requests ---- */

size_t agent_headers(const char *token, const char *type, char **ret_auth, const char *out[2])
{
	size_t n = 0;

	*ret_auth = token ? mem_printf("Authorization: Bearer %s", token) : NULL;
	if (*ret_auth)
		out[n++] = *ret_auth;
	out[n++] = type;
	return n;
}

int64_t agent_pause_ms(unsigned n, unsigned first_ms, int64_t retry_after_s)
{
	int64_t ms = clock_backoff(first_ms, n, SENDER_LAST_MS);
	uint32_t random = 0;

	/* Agents that lost the same server do not come back at the same time. */
	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
		random = (uint32_t)clock_mono_ns();
	ms = ms / 2 + (int64_t)(random % (uint64_t)(ms / 2 + 1));
	return MAX(ms, MIN(retry_after_s, (int64_t)SENDER_LAST_MS / 1000) * 1000);
}

enum send_outcome { SEND_DONE, SEND_REFUSED, SEND_LATER };

/* Of a call: the time that sender_free() gives is over. */
static bool is_grace_over(void *arg)
{
	struct sender *s = arg;
	bool over;

	pthread_mutex_lock(&s->lock);
	over = s->stop && clock_mono_ms() >= s->stop_ms;
	pthread_mutex_unlock(&s->lock);
	return over;
}

static int run_send_call(struct sender *s, struct bytes body, struct net_answer *ret, struct err *err)
{
	AUTO(mem_freep) char *auth = NULL;
	const char *headers[3];
	struct net_call_request req = { .method = "POST",
					.url = s->url,
					.headers = headers,
					.max_answer = MAX_ANSWER,
					.deadline_ms = DEADLINE_MS,
					.body = &body };

	*ret = (struct net_answer){ .retry_after_s = -1 };
	if (!s->net)
		return err_set(err, ERR_IO, "no connections can be made");
	if (s->o.otlp) {
		const char *of_body[2];

		req.n_headers = sender_otlp_headers(body, of_body);
		headers[2] = of_body[1];
		req.n_headers += agent_headers(s->token, of_body[0], &auth, headers) - 1;
		/* Without a token the encoding is the second header. */
		if (!auth)
			headers[1] = of_body[1];
	} else {
		req.n_headers = agent_headers(s->token, "Content-Type: application/octet-stream", &auth,
					      headers);
	}
	return net_call_wait(s->net, &req, is_grace_over, s, ret, err);
}

static int read_otlp_answer(struct sender *s, const struct net_answer *k, struct err *err)
{
	AUTO(mem_freep) char *why = NULL;
	int r = client_answer_otlp(k->status, buf_bytes(&k->body), err);
	uint64_t rejected = r ? 0 : sender_otlp_rejected(buf_bytes(&k->body), &why);

	if (!rejected)
		return r;
	log_warn("agent", "sending: the receiver rejected %llu profiles of a request: %s",
		 (unsigned long long)rejected, why ? why : "without a reason");
	pthread_mutex_lock(&s->lock);
	s->stats.n_refused++;
	pthread_mutex_unlock(&s->lock);
	return 0;
}

static int read_lode_answer(struct sender *s, const struct net_answer *k, struct err *err)
{
	struct client_receipt receipt;
	int r = client_answer_profiles(k->status, buf_bytes(&k->body), s->o.wanted, s->o.arg, &receipt, err);

	if (r)
		return r;
	pthread_mutex_lock(&s->lock);
	s->stats.n_samples += receipt.n_samples;
	pthread_mutex_unlock(&s->lock);
	return 0;
}

bool agent_is_mendable(unsigned status)
{
	static const uint16_t mendable[] = { 401, 403, 404, 407, 421 };

	for (size_t i = 0; i < ARRAY_SIZE(mendable); i++)
		if (status == mendable[i])
			return true;
	return false;
}

/* No profile conflicts with another one. */
static bool is_final_refusal(unsigned status)
{
	return !agent_is_mendable(status) && (net_answer_is_final(status) || status == 409);
}

static enum send_outcome send_body(struct sender *s, struct bytes body)
{
	enum send_outcome out = SEND_LATER;
	struct net_answer k;
	struct err err = { 0 };
	int r = run_send_call(s, body, &k, &err);
	char why[200] = "";

	if (r == 0)
		r = (s->o.otlp ? read_otlp_answer : read_lode_answer)(s, &k, &err);
	if (r < 0) {
		snprintf(why, sizeof(why), "%.*s", (int)sizeof(why) - 1, err.text);
	} else if (r == 0) {
		out = SEND_DONE;
	} else {
		AUTO(mem_freep)
		char *message = s->o.otlp ? sender_otlp_message(buf_bytes(&k.body))
					  : client_message(buf_bytes(&k.body));

		snprintf(why, sizeof(why), "the server answered %u: %.160s", k.status, message);
		out = is_final_refusal(k.status) ? SEND_REFUSED : SEND_LATER;
	}
	if (out == SEND_LATER) {
		s->next_try_ms = clock_mono_ms() +
				 agent_pause_ms(s->n_failures++, s->o.first_ms, k.retry_after_s);
	} else {
		s->n_failures = 0;
		s->next_try_ms = 0;
	}
	pthread_mutex_lock(&s->lock);
	if (out != SEND_DONE && strcmp(s->stats.error, why) != 0)
		log_warn("agent", "sending: %s", why);
	else if (out == SEND_DONE && s->stats.error[0])
		log_info("agent", "sending: the server accepts profiles again");
	snprintf(s->stats.error, sizeof(s->stats.error), "%s", why);
	s->stats.n_failures += out == SEND_LATER;
	s->stats.n_refused += out == SEND_REFUSED;
	s->stats.next_try_ms = s->next_try_ms ? clock_wall_ms() + s->next_try_ms - clock_mono_ms() : 0;
	if (out == SEND_DONE) {
		s->stats.n_sent++;
		s->stats.bytes_sent += body.size;
		s->stats.last_sent_ms = clock_wall_ms();
	}
	pthread_mutex_unlock(&s->lock);
	net_answer_done(&k);
	return out;
}

/* ---- the thread ---- */

static void keep_body(struct sender *s, int64_t time_ms, struct bytes body)
{
	struct err err = { 0 };
	bool kept = s->o.spool && spool_put(s->o.spool, time_ms, body, &err) == 0;

	pthread_mutex_lock(&s->lock);
	s->stats.n_dropped += !kept;
	pthread_mutex_unlock(&s->lock);
	if (!kept && err.text[0])
		log_warn("agent", "spool: %s", err.text);
}

static int encode_profile(struct sender *s, const struct profile *p, struct buf *out, struct err *err)
{
	return s->o.otlp ? sender_otlp_encode(p, s->o.resource, s->o.n_resource, s->o.packing, out, err)
			 : profile_write_pprof(p, true, out, err);
}

/* Takes @p. */
static void handle_profile(struct sender *s, struct profile *taken)
{
	AUTO(profile_freep) struct profile *p = taken;
	AUTO(buf_done) struct buf body = { 0 };
	int64_t time_ms = p->time_ns / 1000000;
	struct err err = { 0 };
	bool pause = clock_mono_ms() < s->next_try_ms;

	if (encode_profile(s, p, &body, &err) < 0) {
		log_error("agent", "a profile cannot be written: %s", err.text);
		return;
	}
	profile_free(TAKE(p));
	if (pause || send_body(s, buf_bytes(&body)) == SEND_LATER)
		keep_body(s, time_ms, buf_bytes(&body));
}

/* One profile of the spool. false: there is none, or it cannot be sent now. */
static bool handle_spool(struct sender *s)
{
	AUTO(buf_done) struct buf body = { 0 };
	AUTO(mem_freep) char *name = NULL;
	struct err err = { 0 };
	int r;

	if (!s->o.spool || clock_mono_ms() < s->next_try_ms)
		return false;
	r = spool_next(s->o.spool, &body, &name, &err);
	if (r < 0 && !s->is_unreadable)
		log_warn("agent", "spool: %s", err.text);
	s->is_unreadable = r < 0;
	if (r)
		return false;
	if (send_body(s, buf_bytes(&body)) == SEND_LATER) {
		spool_put_off(s->o.spool, name);
		return false;
	}
	spool_remove(s->o.spool, name);
	pthread_mutex_lock(&s->lock);
	s->stats.n_late++;
	pthread_mutex_unlock(&s->lock);
	return true;
}

/* The next profile; NULL: none arrived in time. Under the lock. */
static struct profile *next_profile(struct sender *s, bool wait)
{
	struct profile *p = NULL;

	if (wait && !s->n_queue && !s->stop)
		condition_wait(&s->more, &s->lock, 1000);
	if (s->n_queue) {
		p = s->queue[0];
		s->n_queue--;
		memmove(s->queue, s->queue + 1, s->n_queue * sizeof(struct profile *));
	}
	return p;
}

static void *sender_run(void *arg)
{
	struct sender *s = arg;
	bool more = false, end = false;
	struct err err = { 0 };

	/* It belongs to the thread that makes it. Without it, all profiles go to the spool. */
	if (net_new(NULL, &s->net, &err) < 0)
		log_error("agent", "sending: %s", err.text);
	while (!end) {
		struct profile *p;

		pthread_mutex_lock(&s->lock);
		if (s->o.spool)
			spool_stats(s->o.spool, &s->stats.spool);
		p = next_profile(s, !more);
		end = s->stop && !p;
		pthread_mutex_unlock(&s->lock);
		if (p)
			handle_profile(s, p);
		more = !end && handle_spool(s);
	}
	net_free(s->net);
	return NULL;
}

/* ---- the owner's side ---- */

int sender_new(const struct sender_options *o, struct sender **ret, struct err *err)
{
	struct sender *s = NEW(struct sender);
	int r;

	s->o = *o;
	s->o.first_ms = o->first_ms ? o->first_ms : SENDER_FIRST_MS;
	if (!o->otlp)
		s->url = mem_printf("%s/profiles%s%s", o->url, *o->query ? "?" : "", o->query);
	else
		s->url = mem_printf("%s%s", o->url,
				    str_ends(str_of(o->url), STR(SENDER_OTLP_PATH)) ? "" : SENDER_OTLP_PATH);
	s->token = o->token ? mem_strdup(o->token) : NULL;
	pthread_mutex_init(&s->lock, NULL);
	condition_init(&s->more);
	r = pthread_create(&s->thread, NULL, sender_run, s);
	if (r) {
		sender_free(s, 0);
		return err_os(err, r, "the thread that sends profiles");
	}
	s->started = true;
	pthread_setname_np(s->thread, "lode-send");
	*ret = s;
	return 0;
}

void sender_free(struct sender *s, int64_t grace_ms)
{
	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	s->stop_ms = clock_mono_ms() + grace_ms;
	pthread_cond_broadcast(&s->more);
	pthread_mutex_unlock(&s->lock);
	if (s->started)
		pthread_join(s->thread, NULL);
	spool_close(s->o.spool);
	free(s->url);
	free(s->token);
	pthread_cond_destroy(&s->more);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* Under the lock. */
static bool has_queue_room(const struct sender *s, const struct profile *p)
{
	uint64_t memory = p->memory;

	for (size_t i = 0; i < s->n_queue; i++)
		memory += s->queue[i]->memory;
	return s->n_queue < SENDER_QUEUE && memory <= SENDER_QUEUE_MEMORY;
}

void sender_put(struct sender *s, struct profile *p)
{
	pthread_mutex_lock(&s->lock);
	if (has_queue_room(s, p)) {
		s->queue[s->n_queue++] = p;
		p = NULL;
		pthread_cond_signal(&s->more);
	} else {
		s->stats.n_dropped++;
	}
	pthread_mutex_unlock(&s->lock);
	profile_free(p);
}

void sender_stats(struct sender *s, struct sender_stats *ret)
{
	pthread_mutex_lock(&s->lock);
	*ret = s->stats;
	pthread_mutex_unlock(&s->lock);
}
