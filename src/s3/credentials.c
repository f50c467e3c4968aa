/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which keys sign: those of the environment, of the profile, or lent by a service, in this order; those of a profile that an
 * option names go before the environment's. Keys that end are renewed
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

/* LENDER_NONE: there are none. A key without its secret is not completed from elsewhere: those may be of another user. */
static int keys_of_env(struct lent_keys **ret, struct err *err)
{
	const char *id = config_env("AWS_ACCESS_KEY_ID"), *secret = config_env("AWS_SECRET_ACCESS_KEY");

	if (!id)
		return LENDER_NONE;
	if (!secret)
		return err_set(err, ERR_INVALID,
			       "AWS_ACCESS_KEY_ID is set, but AWS_SECRET_ACCESS_KEY is not");
	*ret = lent_keys_new(str_of(id), str_of(secret), str_of(config_env("AWS_SESSION_TOKEN")), INT64_MAX);
	return 0;
}

/* Id, secret and token are all of one file. */
static int keys_of_file(const struct s3_config *c, enum config_file file, struct lent_keys **ret,
			struct err *err)
{
	struct str id, secret, token = { 0 };

	if (!config_value_in(c, file, "aws_access_key_id", NULL, &id))
		return LENDER_NONE;
	if (!config_value_in(c, file, "aws_secret_access_key", NULL, &secret))
		return err_set(err, ERR_INVALID,
			       "profile %s has aws_access_key_id without aws_secret_access_key in the file "
			       "'%s'",
			       c->profile, file == CONFIG_CREDENTIALS ? "credentials" : "config");
	(void)config_value_in(c, file, "aws_session_token", NULL, &token);
	*ret = lent_keys_new(id, secret, token, INT64_MAX);
	return 0;
}

/* A way to get keys that the profile may name, and lode does not go. */
static int refuse_way(const struct s3_config *c, const char *key, struct err *err)
{
	struct str v;

	if (!config_value(c, key, NULL, &v))
		return 0;
	return err_set(err, ERR_INVALID,
		       "profile %s gets its keys by %s, which lode does not do: put the output of "
		       "'aws configure export-credentials' into the environment",
		       c->profile, key);
}

/* In the order of other tools: the keys in a profile may be those that its role is taken with. */
static int keys_of_profile(const struct s3_config *c, struct lent_keys **ret, struct err *err)
{
	struct str v;
	bool has_role = config_value(c, "role_arn", NULL, &v),
	     has_sso = config_value(c, "sso_account_id", NULL, &v) ||
		       config_value(c, "sso_role_name", NULL, &v);
	int r;

	if ((has_role &&
	     (refuse_way(c, "source_profile", err) < 0 || refuse_way(c, "credential_source", err) < 0)) ||
	    /* A session without an account and a role is for tokens of other services. */
	    (has_sso && (refuse_way(c, "sso_session", err) < 0 || refuse_way(c, "sso_start_url", err) < 0)))
		return -1;
	r = keys_of_file(c, CONFIG_CREDENTIALS, ret, err);
	if (r != LENDER_NONE)
		return r;
	return refuse_way(c, "credential_process", err) < 0 ? -1 : keys_of_file(c, CONFIG_CONFIG, ret, err);
}

static int keys_find(struct credentials *c, struct lent_keys **ret, struct err *err)
{
	bool by_option = c->config->profile_by_option;
	int r = by_option ? LENDER_NONE : keys_of_env(ret, err);

	if (r == LENDER_NONE) {
		config_reload(c->config);
		r = keys_of_profile(c->config, ret, err);
	}
	if (r == LENDER_NONE && by_option)
		r = keys_of_env(ret, err);
	if (r == LENDER_NONE)
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
