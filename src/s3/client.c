/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client: its beginning and end, and the one that a process shares.
 */
#include "s3/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include "base/condition.h"
#include "base/sha256.h"

#define CACHE_USUAL      MIB(64)
#define REQUESTS_USUAL   64u
#define DEADLINE_USUAL   30000u
#define SILENT_USUAL     10000u
#define BREAKER_FIRST_MS 1000u
#define BREAKER_MAX_MS   15000u

static void options_numbers(const struct s3_options *given, struct s3_options *ret)
{
	*ret = (struct s3_options){
		.cache_size = given->cache_size ? given->cache_size : CACHE_USUAL,
		.max_requests = given->max_requests ? given->max_requests : REQUESTS_USUAL,
		.deadline_ms = given->deadline_ms ? given->deadline_ms : DEADLINE_USUAL,
		.silent_ms = given->silent_ms ? given->silent_ms : SILENT_USUAL,
		.hedge_min_ms = given->hedge_min_ms,
	};
}

static int home_of(const struct s3_config *c, struct place *ret, struct err *err)
{
	AUTO(mem_freep)
	char *amazon = mem_printf("https://s3.%s.amazonaws.com%s", c->region,
				  strncmp(c->region, "cn-", 3) == 0 ? ".cn" : "");

	if (place_parse(c->endpoint ? c->endpoint : amazon, ret, err) < 0)
		return -1;
	ret->region = mem_strdup(c->region);
	return 0;
}

int s3_new(const struct s3_options *opts, struct s3 **ret, struct err *err)
{
	static const struct s3_options usual;
	struct s3 *s = NEW(struct s3);
	struct net_options net = { .breaker_first_ms = BREAKER_FIRST_MS, .breaker_max_ms = BREAKER_MAX_MS };

	opts = opts ? opts : &usual;
	options_numbers(opts, &s->opts);
	pthread_mutex_init(&s->lock, NULL);
	condition_init(&s->changed);
	s->spans = span_table_new(s, opts);
	if (sha256_load(err) < 0 || config_load(opts, &s->config, err) < 0 ||
	    home_of(&s->config, &s->home, err) < 0) {
		s3_free(s);
		return -1;
	}
	net.max_kept = s->opts.max_requests;
	net.ca_file = s->config.ca_file;
	net.ca_setting = "AWS_CA_BUNDLE";
	net.proxy = s->config.proxy;
	if (net_new(&net, &s->net, err) < 0 || net_start_thread(s->net, err) < 0) {
		s3_free(s);
		return -1;
	}
	s->credentials = credentials_new(&s->config, s->net);
	*ret = s;
	return 0;
}

void s3_free(struct s3 *s)
{
	struct bytes key;
	void *p;

	if (!s)
		return;
	span_table_free(s->spans);
	net_free(s->net);
	credentials_free(s->credentials);
	map_each (&s->places, it, &key, &p) {
		place_done(p);
		free(p);
	}
	map_done(&s->places);
	place_done(&s->home);
	config_done(&s->config);
	if (s->has_clock)
		age_clock_close(&s->clock);
	pthread_cond_destroy(&s->changed);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* ---- the shared one ---- */

static struct {
	pthread_mutex_t lock;
	/* under the lock */
	const struct s3_options *opts;
	struct s3 *s3;
} shared = { .lock = PTHREAD_MUTEX_INITIALIZER };

void s3_shared_options(const struct s3_options *opts)
{
	pthread_mutex_lock(&shared.lock);
	shared.opts = opts;
	pthread_mutex_unlock(&shared.lock);
}

int s3_shared(struct s3 **ret, struct err *err)
{
	int r = 0;

	pthread_mutex_lock(&shared.lock);
	if (!shared.s3)
		r = s3_new(shared.opts, &shared.s3, err);
	*ret = shared.s3;
	pthread_mutex_unlock(&shared.lock);
	return r < 0 ? err_in(err, "object storage") : 0;
}

void s3_shared_stop(int64_t grace_ms)
{
	pthread_mutex_lock(&shared.lock);
	if (shared.s3)
		atomic_store(&shared.s3->stop_ms, clock_mono_ms() + grace_ms);
	pthread_mutex_unlock(&shared.lock);
}

static void status_of(struct s3 *s, struct s3_status *ret)
{
	snprintf(ret->endpoint, sizeof(ret->endpoint), "%s://%s", s->home.scheme, s->home.host);
	pthread_mutex_lock(&s->lock);
	ret->n_done = s->n_done;
	ret->n_missing = s->n_missing;
	ret->n_failed = s->n_failed;
	ret->failing = s->failing;
	ret->since_s = s->failing_s;
	memcpy(ret->message, s->why.text, sizeof(ret->message));
	pthread_mutex_unlock(&s->lock);
	ret->received = atomic_load(&s->received);
	span_table_sizes(s->spans, &ret->memory_size, &ret->disk_size);
}

bool s3_shared_status(struct s3_status *ret)
{
	bool used;

	*ret = (struct s3_status){ 0 };
	pthread_mutex_lock(&shared.lock);
	used = shared.s3 != NULL;
	if (used)
		status_of(shared.s3, ret);
	pthread_mutex_unlock(&shared.lock);
	return used;
}

void s3_shared_done(void)
{
	s3_free(TAKE(shared.s3));
}
