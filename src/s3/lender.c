/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys lent by a service, for a time: to a role by a token in a file (a pod's), by the container's endpoint, by the instance's
 * (version 2 of its protocol, which needs a token first). Their answers are small; each request has a short deadline.
 */
#include "s3/internal.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <time.h>
#include "base/condition.h"
#include "s3/xml.h"

#define ANSWER_MAX  KIB(64)
#define TOKEN_MAX   KIB(16)
#define CONTAINER   "http://169.254.170.2"
#define INSTANCE    "http://169.254.169.254"
#define TOKEN_TTL   "21600"
#define INSTANCE_MS 2000 /* where there is none, its address does not answer */
#define SERVICE_MS  10000

/* ---- one request, waited for ---- */

struct lender_call {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool ended; /* under the lock, as all below */
	int outcome;
	unsigned status;
	struct buf body;
	struct err err;
};

static void lender_done(void *arg, struct net_call *call, int outcome, const struct net_call_answer *a,
			const struct err *err)
{
	struct lender_call *c = arg;

	pthread_mutex_lock(&c->lock);
	c->ended = true;
	c->outcome = outcome;
	if (outcome == 0) {
		c->status = a->status;
		buf_add(&c->body, a->body.p, a->body.size);
	} else {
		c->err = *err;
	}
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
}

struct lender_request {
	const char *method, *url;
	const char *header;       /* NULL: none */
	const struct bytes *body; /* NULL: none */
	bool direct;
	int64_t deadline_ms;
};

/* An answer of status 200, appended to @ret. */
static int lender_fetch(struct net *net, const struct lender_request *r, struct buf *ret, struct err *err)
{
	struct lender_call c = { 0 };
	struct net_call_request req = {
		.method = r->method,
		.url = r->url,
		.headers = &r->header,
		.n_headers = r->header ? 1 : 0,
		.body = r->body,
		.max_answer = ANSWER_MAX,
		.connect_ms = (unsigned)MIN(r->deadline_ms, (int64_t)3000),
		.deadline_ms = r->deadline_ms,
		.direct = r->direct,
		.stays = true,
		.arg = &c,
		.done = lender_done,
	};
	int res;

	pthread_mutex_init(&c.lock, NULL);
	condition_init(&c.changed);
	net_call_start(net, &req, NULL);
	pthread_mutex_lock(&c.lock);
	while (!c.ended)
		pthread_cond_wait(&c.changed, &c.lock);
	pthread_mutex_unlock(&c.lock);
	if (c.outcome < 0)
		res = err_set(err, ERR_IO, "%s", c.err.text);
	else if (c.status != 200)
		res = err_set(err, ERR_IO, "status %u", c.status);
	else
		res = 0;
	if (res == 0)
		buf_add(ret, c.body.p, c.body.size);
	secret_buf_done(&c.body);
	pthread_cond_destroy(&c.changed);
	pthread_mutex_destroy(&c.lock);
	return res;
}

/* ---- their answers ---- */

bool lender_time(struct str s, int64_t *ret)
{
	AUTO(mem_freep) char *text = mem_strndup(s.p, MIN(s.size, (size_t)40));
	struct tm tm = { 0 };
	int used = 0;

	if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour,
		   &tm.tm_min, &tm.tm_sec, &used) != 6)
		return false;
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	*ret = timegm(&tm);
	return tm.tm_year >= 70 && tm.tm_year < 400 && *ret > 0;
}

/* Keys that have ended already would be asked for again and again. */
static int lender_keys(struct str id, struct str secret, struct str token, struct str expiration,
		       struct lent_keys **ret, struct err *err)
{
	int64_t expires_s = INT64_MAX;

	if (!id.size || !secret.size)
		return err_set(err, ERR_INVALID, "the answer has no keys");
	if (expiration.size && !lender_time(expiration, &expires_s))
		return err_set(err, ERR_INVALID, "the answer says no time when the keys end");
	if (expires_s <= clock_wall_s())
		return err_set(err, ERR_INVALID, "the keys in the answer have ended: is the clock right?");
	*ret = lent_keys_new(id, secret, token, expires_s);
	return 0;
}

static struct str lender_json_field(const json_t *all, const char *name)
{
	const json_t *v = json_object_get(all, name);

	return v && json_is_string(v) ? (struct str){ json_string_value(v), json_string_length(v) }
				      : (struct str){ 0 };
}

int lender_read_json(struct bytes body, struct lent_keys **ret, struct err *err)
{
	json_error_t ignored;
	json_t *all = json_loadb((const char *)body.p, body.size, 0, &ignored);
	int r;

	if (!json_is_object(all)) {
		json_decref(all);
		return err_set(err, ERR_INVALID, "the answer is not a JSON object");
	}
	r = lender_keys(lender_json_field(all, "AccessKeyId"), lender_json_field(all, "SecretAccessKey"),
			lender_json_field(all, "Token"), lender_json_field(all, "Expiration"), ret, err);
	json_decref(all);
	return r;
}

int lender_read_sts(struct bytes body, struct lent_keys **ret, struct err *err)
{
	static const char base[] =
		"AssumeRoleWithWebIdentityResponse/AssumeRoleWithWebIdentityResult/Credentials/";
	static const char *const names[] = { "AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration" };
	struct buf values[ARRAY_SIZE(names)] = { 0 };
	struct xml x;
	int r;

	xml_init(&x, body);
	while ((r = xml_next(&x, err)) > 0) {
		for (size_t i = 0; r == XML_CLOSE && i < ARRAY_SIZE(names); i++) {
			AUTO(mem_freep) char *path = mem_printf("%s%s", base, names[i]);

			if (!xml_is(&x, path))
				continue;
			values[i].size = 0;
			buf_add_str(&values[i], buf_str(&x.text));
		}
	}
	if (r == 0)
		r = lender_keys(buf_str(&values[0]), buf_str(&values[1]), buf_str(&values[2]),
				buf_str(&values[3]), ret, err);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		secret_buf_done(&values[i]);
	secret_buf_done(&x.text);
	return r;
}

/* ---- a role, by a token in a file ---- */

/* Without the slashes at its end. */
static int url_length(const char *url)
{
	size_t n = strlen(url);

	while (n && url[n - 1] == '/')
		n--;
	return (int)MIN(n, (size_t)INT_MAX);
}

/* From the variable, else the profile. Heap, or NULL. */
static char *env_or_profile(const struct s3_config *c, const char *variable, const char *key)
{
	struct str v;

	if (config_env(variable))
		return mem_strdup(config_env(variable));
	return config_value(c, key, NULL, &v) ? mem_strndup(v.p, v.size) : NULL;
}

/* Where the service of roles is: as for the bucket's server, its own settings, then those for all services, then Amazon's. */
static char *role_service(const struct s3_config *c)
{
	const char *url = config_env("AWS_ENDPOINT_URL_STS");

	url = url ? url : config_env("AWS_ENDPOINT_URL");
	if (url)
		return mem_strdup(url);
	return config_endpoint(c, "sts",
			       mem_printf("https://sts.%s.amazonaws.com%s", c->region,
					  str_starts(str_of(c->region), STR("cn-")) ? ".cn" : ""));
}

static void add_lender_field(struct buf *form, const char *name, struct str value)
{
	buf_printf(form, "&%s=", name);
	net_escape(form, value, false);
}

/* The token goes in a body: URLs are logged on their way. */
static int ask_role(const struct s3_config *c, struct net *net, struct lent_keys **ret, struct err *err)
{
	AUTO(mem_freep)
	char *file = env_or_profile(c, "AWS_WEB_IDENTITY_TOKEN_FILE", "web_identity_token_file");
	AUTO(mem_freep) char *role = env_or_profile(c, "AWS_ROLE_ARN", "role_arn");
	AUTO(mem_freep) char *session = env_or_profile(c, "AWS_ROLE_SESSION_NAME", "role_session_name");
	AUTO(secret_buf_done) struct buf token = { 0 }, form = { 0 }, answer = { 0 };
	AUTO(mem_freep) char *base = NULL, *url = NULL;
	struct lender_request request = { .method = "POST", .deadline_ms = SERVICE_MS };
	struct bytes body;
	int r;

	if (!file || !role)
		return LENDER_NONE;
	r = file_read(file, TOKEN_MAX, &token, err);
	if (r)
		return r < 0 ? err_in(err, "the token of role %s", role)
			     : err_set(err, ERR_IO, "the token of role %s: there is no file %s", role, file);
	base = role_service(c);
	url = mem_printf("%.*s/", url_length(base), base);
	buf_add_str(&form, STR("Action=AssumeRoleWithWebIdentity&Version=2011-06-15"));
	add_lender_field(&form, "RoleArn", str_of(role));
	add_lender_field(&form, "RoleSessionName", str_of(session ? session : "lode"));
	add_lender_field(&form, "WebIdentityToken", str_trim(buf_str(&token)));
	body = buf_bytes(&form);
	request.url = url;
	request.header = "Content-Type: application/x-www-form-urlencoded";
	request.body = &body;
	if (lender_fetch(net, &request, &answer, err) < 0 ||
	    lender_read_sts(buf_bytes(&answer), ret, err) < 0)
		return err_in(err, "keys for role %s", role);
	return 0;
}

/* ---- the container's endpoint ---- */

/* Over plain HTTP only to this machine and to the two addresses that containers have: the answer is secret. */
static bool container_is_allowed(const char *url)
{
	static const char *const hosts[] = { "localhost",     "127.0.0.1",      "[::1]",
					     "169.254.170.2", "169.254.170.23", "[fd00:ec2::23]" };

	if (str_starts(str_of(url), STR("https://")))
		return true;
	if (!str_starts(str_of(url), STR("http://")))
		return false;
	url += strlen("http://");
	for (size_t i = 0; i < ARRAY_SIZE(hosts); i++) {
		size_t n = strlen(hosts[i]);

		if (strncmp(url, hosts[i], n) == 0 && (!url[n] || url[n] == '/' || url[n] == ':'))
			return true;
	}
	return false;
}

static int container_header(struct buf *ret, struct err *err)
{
	const char *file = config_env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
	const char *token = config_env("AWS_CONTAINER_AUTHORIZATION_TOKEN");
	AUTO(secret_buf_done) struct buf text = { 0 };
	struct str value = str_of(token);
	int r;

	if (file) {
		r = file_read(file, TOKEN_MAX, &text, err);
		if (r)
			return r < 0 ? -1 : err_set(err, ERR_IO, "there is no file %s", file);
		value = str_trim(buf_str(&text));
	}
	if (!value.size)
		return 0;
	if (memchr(value.p, '\n', value.size) || memchr(value.p, '\r', value.size))
		return err_set(err, ERR_INVALID, "its authorization token has several lines");
	buf_printf(ret, "Authorization: " STR_FMT, STR_ARG(value));
	return 0;
}

static int ask_container(struct net *net, struct lent_keys **ret, struct err *err)
{
	const char *path = config_env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
	const char *full = config_env("AWS_CONTAINER_CREDENTIALS_FULL_URI");
	AUTO(mem_freep) char *url = path ? mem_printf(CONTAINER "%s", path) : full ? mem_strdup(full) : NULL;
	AUTO(secret_buf_done) struct buf header = { 0 }, answer = { 0 };

	if (!url)
		return LENDER_NONE;
	if (!path && !container_is_allowed(url))
		return err_set(
			err, ERR_INVALID,
			"AWS_CONTAINER_CREDENTIALS_FULL_URI: keys are fetched over https, or from this "
			"machine or a container's endpoint, only");
	if (container_header(&header, err) < 0 ||
	    lender_fetch(net,
			 &(struct lender_request){ .method = "GET",
						   .url = url,
						   .header = header.size ? buf_cstr(&header) : NULL,
						   .direct = true,
						   .deadline_ms = SERVICE_MS },
			 &answer, err) < 0 ||
	    lender_read_json(buf_bytes(&answer), ret, err) < 0)
		return err_in(err, "keys from the container's endpoint");
	return 0;
}

/* ---- the instance's endpoint ---- */

static int ask_instance(struct net *net, struct lent_keys **ret, struct err *err)
{
	const char *off = config_env("AWS_EC2_METADATA_DISABLED");
	const char *base = config_env("AWS_EC2_METADATA_SERVICE_ENDPOINT");
	AUTO(secret_buf_done) struct buf token = { 0 }, header = { 0 }, answer = { 0 };
	AUTO(buf_done) struct buf role = { 0 }, url = { 0 };
	struct lender_request r = { .method = "PUT",
				    .header = "X-aws-ec2-metadata-token-ttl-seconds: " TOKEN_TTL,
				    .direct = true,
				    .deadline_ms = INSTANCE_MS };
	struct str name;

	if (off && strcasecmp(off, "true") == 0)
		return LENDER_NONE;
	base = base ? base : INSTANCE;
	buf_printf(&url, "%.*s/latest/api/token", url_length(base), base);
	r.url = buf_cstr(&url);
	/* No such endpoint: this is no instance. */
	if (lender_fetch(net, &r, &token, NULL) < 0)
		return LENDER_NONE;
	if (memchr(token.p, '\n', token.size) || !token.size)
		return err_set(err, ERR_INVALID, "the instance's endpoint gives no token");
	buf_printf(&header, "X-aws-ec2-metadata-token: " STR_FMT, STR_ARG(buf_str(&token)));
	url.size = 0;
	buf_printf(&url, "%.*s/latest/meta-data/iam/security-credentials/", url_length(base), base);
	r = (struct lender_request){ .method = "GET",
				     .url = buf_cstr(&url),
				     .header = buf_cstr(&header),
				     .direct = true,
				     .deadline_ms = SERVICE_MS };
	if (lender_fetch(net, &r, &role, err) < 0)
		return err_in(err, "the instance's role");
	name = buf_str(&role);
	name = str_trim(str_cut(&name, '\n'));
	if (!name.size)
		return err_set(err, ERR_IO, "no credentials: this instance has no role");
	net_escape(&url, name, false);
	r.url = buf_cstr(&url);
	if (lender_fetch(net, &r, &answer, err) < 0 || lender_read_json(buf_bytes(&answer), ret, err) < 0)
		return err_in(err, "keys for the instance's role");
	return 0;
}

int lender_ask(const struct s3_config *config, struct net *net, struct lent_keys **ret, struct err *err)
{
	int r = ask_role(config, net, ret, err);

	if (r == LENDER_NONE)
		r = ask_container(net, ret, err);
	if (r == LENDER_NONE)
		r = ask_instance(net, ret, err);
	return r;
}
