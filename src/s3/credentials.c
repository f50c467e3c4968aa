/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which keys sign: those of the environment, of the profile, or lent by a service, in this order. Keys that end are renewed
 * before they do, by one of the threads that need them; the others go on with the old ones.
 */
#include "s3/internal.h"

#include <stdlib.h>
#include "base/condition.h"

#define RENEW_S   300 /* before they end */
#define WAIT_MS   60000
#define FAILED_MS 5000  /* a failure is remembered */
#define AGAIN_MS  10000 /* at least between two renewals of keys that are good; less if they end soon */

struct credentials {
	struct s3_config *config; /* the shared files in it change under `renewing` only */
	struct net *net;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* under the lock */
	struct lent_keys *keys; /* NULL: none yet */
	bool renewing;
	int64_t failed_ms; /* when getting them failed last; 0: never */
	int64_t again_ms;  /* monotonic: not before, while the keys are good */
	struct err why;
};

struct lent_keys *lent_keys_new(struct str id, struct str secret, struct str token, int64_t expires_s)
{
	struct lent_keys *k = NEW(struct lent_keys);

	atomic_init(&k->refs, 1);
	k->id = secret_of(id);
	k->secret = secret_of(secret);
	k->token = secret_of(token);
	k->expires_s = expires_s;
	return k;
}

void lent_keys_unref(struct lent_keys *k)
{
	if (!k || atomic_fetch_sub(&k->refs, 1) != 1)
		return;
	secret_done(&k->id);
	secret_done(&k->secret);
	secret_done(&k->token);
	free(k);
}

struct credentials *credentials_new(struct s3_config *config, struct net *net)
{
	struct credentials *c = NEW(struct credentials);

	c->config = config;
	c->net = net;
	pthread_mutex_init(&c->lock, NULL);
	condition_init(&c->changed);
	return c;
}

void credentials_free(struct credentials *c)
{
	if (!c)
		return;
	lent_keys_unref(c->keys);
	pthread_cond_destroy(&c->changed);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

/* ---- where they come from ---- */

static struct lent_keys *keys_of_env(void)
{
	const char *id = config_env("AWS_ACCESS_KEY_ID"), *secret = config_env("AWS_SECRET_ACCESS_KEY");

	if (!id || !secret)
		return NULL;
	return lent_keys_new(str_of(id), str_of(secret), str_of(config_env("AWS_SESSION_TOKEN")), INT64_MAX);
}

/* Ways to get keys that the profile may name, and lode does not go. */
static int refuse_profile(const struct s3_config *c, struct err *err)
{
	static const char *const others[] = { "credential_process", "sso_session", "sso_start_url",
					      "source_profile", "credential_source" };
	struct str v;

	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (config_value(c, others[i], NULL, &v))
			return err_set(
				err, ERR_INVALID,
				"profile %s gets its keys by %s, which lode does not do: put the output of "
				"'aws configure export-credentials' into the environment",
				c->profile, others[i]);
	return 0;
}

static struct lent_keys *keys_of_profile(const struct s3_config *c)
{
	struct str id, secret, token = { 0 };

	if (!config_value(c, "aws_access_key_id", NULL, &id) ||
	    !config_value(c, "aws_secret_access_key", NULL, &secret))
		return NULL;
	config_value(c, "aws_session_token", NULL, &token);
	return lent_keys_new(id, secret, token, INT64_MAX);
}

static int keys_find(struct credentials *c, struct lent_keys **ret, struct err *err)
{
	struct lent_keys *k = keys_of_env();
	int r;

	if (!k) {
		config_reload(c->config);
		k = keys_of_profile(c->config);
	}
	if (k) {
		*ret = k;
		return 0;
	}
	if (refuse_profile(c->config, err) < 0)
		return -1;
	r = lender_ask(c->config, c->net, ret, err);
	if (r == LENDER_NONE)
		return err_set(
			err, ERR_IO,
			"no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; "
			"AWS_NO_SIGN_REQUEST=true for a public bucket");
	return r;
}

/* ---- renewing ---- */

static bool keys_are_due(const struct lent_keys *k, int64_t now_s)
{
	return !k || (k->expires_s != INT64_MAX && now_s >= k->expires_s - RENEW_S);
}

static bool keys_are_good(const struct lent_keys *k, int64_t now_s)
{
	return k && now_s < k->expires_s;
}

/*
 * Services lend the same keys until shortly before they end, some for less than RENEW_S: without a pause each request to the
 * bucket would ask for them.
 */
static int64_t again_after_ms(const struct lent_keys *k)
{
	int64_t left_s = MIN(MAX(k->expires_s - clock_wall_s(), (int64_t)0), (int64_t)RENEW_S);

	return MIN(left_s * 1000 / 4, (int64_t)AGAIN_MS);
}

/* Under the lock, which is released meanwhile. */
static void renew_keys(struct credentials *c)
{
	struct lent_keys *fresh = NULL;
	struct err err = { 0 };
	int r;

	c->renewing = true;
	pthread_mutex_unlock(&c->lock);
	r = keys_find(c, &fresh, &err);
	pthread_mutex_lock(&c->lock);
	c->renewing = false;
	if (r == 0) {
		lent_keys_unref(c->keys);
		c->keys = fresh;
		c->failed_ms = 0;
		c->again_ms = clock_mono_ms() + again_after_ms(fresh);
	} else {
		c->failed_ms = clock_mono_ms();
		c->why = err;
	}
	pthread_cond_broadcast(&c->changed);
}

int credentials_get(struct credentials *c, struct lent_keys **ret, struct err *err)
{
	int64_t until_ms = clock_mono_ms() + WAIT_MS;
	int r = 0;

	pthread_mutex_lock(&c->lock);
	for (;;) {
		int64_t now_s = clock_wall_s(), now_ms = clock_mono_ms();
		bool failed = c->failed_ms && now_ms < c->failed_ms + FAILED_MS;
		bool fresh = keys_are_good(c->keys, now_s) && now_ms < c->again_ms;

		if (keys_are_due(c->keys, now_s) && !c->renewing && !failed && !fresh)
			renew_keys(c);
		if (keys_are_good(c->keys, clock_wall_s())) {
			atomic_fetch_add(&c->keys->refs, 1);
			*ret = c->keys;
			break;
		}
		if (c->failed_ms && !c->renewing) {
			if (err)
				*err = c->why;
			r = -1;
			break;
		}
		if (now_ms >= until_ms) {
			r = err_set(err, ERR_IO, "no credentials: they could not be renewed in time");
			break;
		}
		condition_wait(&c->changed, &c->lock, 1000);
	}
	pthread_mutex_unlock(&c->lock);
	return r;
}

void credentials_refused(struct credentials *c, const struct lent_keys *bad)
{
	pthread_mutex_lock(&c->lock);
	if (c->keys == bad) {
		lent_keys_unref(c->keys);
		c->keys = NULL;
	}
	pthread_mutex_unlock(&c->lock);
}
