/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings of a group of targets. They have the names of Prometheus' scrape_config, and as labels those that
 * Prometheus, Parca and Alloy have.
 */
#include "server/scrape/internal.h"

#include <ctype.h>
#include <jansson.h>
#include "server/profiles/profiles.h"

#define MIN_INTERVAL_MS 1000
#define MAX_INTERVAL_MS (24 * 3600 * (int64_t)1000)
#define MIN_TIMEOUT_MS  100
#define MAX_TIMEOUT_MS  (10 * 60 * (int64_t)1000)
#define MAX_PATH        2048u

/* The profiles that Go programs have, with the names that Parca and Alloy give them, and the NAME of decision 34. */
static const struct scrape_profile known_profiles[] = {
	{ "process_cpu", "/debug/pprof/profile", "process_cpu", .timed = true },
	{ "memory", "/debug/pprof/allocs", "memory", .counts = true },
	{ "heap", "/debug/pprof/heap", "memory", .counts = true },
	{ "goroutine", "/debug/pprof/goroutine", "goroutines" },
	{ "mutex", "/debug/pprof/mutex", "mutex", .counts = true },
	{ "block", "/debug/pprof/block", "block", .counts = true },
	{ "godeltaprof_memory", "/debug/pprof/delta_heap", "memory" },
	{ "godeltaprof_mutex", "/debug/pprof/delta_mutex", "mutex" },
	{ "godeltaprof_block", "/debug/pprof/delta_block", "block" },
};
static const char *const usual_profiles[] = { "process_cpu", "memory", "goroutine", "mutex", "block" };

void scrape_group_init(struct scrape_group *g)
{
	*g = (struct scrape_group){ .interval_ms = SCRAPE_INTERVAL_MS, .scheme = "http", .prefix = "" };
}

/* ---- values ---- */

static int need_text(const json_t *v, const char *name, const char **ret, struct err *err)
{
	const char *s = json_string_value(v);

	if (!s || !*s || strlen(s) != json_string_length(v))
		return err_set(err, ERR_INVALID, "%s must be a text", name);
	*ret = s;
	return 0;
}

static int set_text(struct arena *a, const json_t *v, const char *name, const char **ret, struct err *err)
{
	const char *s;

	if (need_text(v, name, &s, err) < 0)
		return -1;
	*ret = arena_strdup(a, str_of(s));
	return 0;
}

/* A path, relative to the folder of the file. */
static int set_file(struct arena *a, struct str dir, const json_t *v, const char *name, const char **ret,
		    struct err *err)
{
	const char *s;

	if (need_text(v, name, &s, err) < 0)
		return -1;
	*ret = *s == '/' ? arena_strdup(a, str_of(s)) : arena_printf(a, STR_FMT "/%s", STR_ARG(dir), s);
	return 0;
}

static int time_in_range(struct str s, int64_t min_ms, int64_t max_ms, int64_t *ret, struct err *err)
{
	if (!api_duration_parse(s, ret) || *ret < min_ms || *ret > max_ms)
		return err_set(err, ERR_INVALID,
			       "'" STR_FMT "' is not a time from %lld ms to %lld s, such as 15s", STR_ARG(s),
			       (long long)min_ms, (long long)(max_ms / 1000));
	return 0;
}

static int set_time(const json_t *v, const char *name, int64_t min_ms, int64_t max_ms, int64_t *ret,
		    struct err *err)
{
	const char *s;

	if (json_is_integer(v)) {
		json_int_t seconds = json_integer_value(v);

		if (seconds < 1 || seconds > max_ms / 1000)
			return err_set(err, ERR_INVALID, "%s: %lld is not a number of seconds up to %lld",
				       name, (long long)seconds, (long long)(max_ms / 1000));
		*ret = seconds * 1000;
		return 0;
	}
	if (need_text(v, name, &s, err) < 0)
		return -1;
	return time_in_range(str_of(s), min_ms, max_ms, ret, err) < 0 ? err_in(err, "%s", name) : 0;
}

static int set_scheme(struct scrape_group *g, const char *s, struct err *err)
{
	if (strcmp(s, "http") != 0 && strcmp(s, "https") != 0)
		return err_set(err, ERR_INVALID, "the scheme '%s' is neither http nor https", s);
	g->scheme = s[4] ? "https" : "http";
	return 0;
}

/* Only what needs no escape in a URL. */
static int path_check(const char *s, bool query, struct err *err)
{
	struct str rest = str_of(s), path = str_cut(&rest, '?');

	for (const char *c = s; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr("/-._~!$&'()*+,;=:@%?", *c))
			return err_set(err, ERR_INVALID, "the path '%s' has a character that must be escaped",
				       s);
	if (*s != '/' || strlen(s) > MAX_PATH || (rest.p && !query))
		return err_set(err, ERR_INVALID,
			       "the path '%s' must begin with a slash, without a query, of up to %u "
			       "bytes",
			       s, MAX_PATH);
	if (!net_path_is_inside(path))
		return err_set(err, ERR_INVALID, "the path '%s' has '..' in it", s);
	return 0;
}

static int set_prefix(struct scrape_group *g, struct arena *a, const char *s, struct err *err)
{
	struct str v = str_of(s);

	while (v.size && v.p[v.size - 1] == '/')
		v.size--;
	g->prefix = arena_strdup(a, v);
	return v.size ? path_check(g->prefix, false, err) : 0;
}

/* ---- profiles ---- */

static int add_profile(struct scrape_group *g, const struct scrape_profile *p, struct err *err)
{
	for (size_t i = 0; i < g->n_profiles; i++)
		if (strcmp(g->profiles[i].name, p->name) == 0)
			return err_set(err, ERR_INVALID, "the profile '%s' is there twice", p->name);
	if (g->n_profiles == SCRAPE_MAX_PROFILES)
		return err_set(err, ERR_INVALID, "more than %u profiles of one target", SCRAPE_MAX_PROFILES);
	g->profiles[g->n_profiles++] = *p;
	return 0;
}

static const struct scrape_profile *profile_known(struct str name)
{
	for (size_t i = 0; i < ARRAY_SIZE(known_profiles); i++)
		if (str_eq(name, str_of(known_profiles[i].name)))
			return &known_profiles[i];
	return NULL;
}

static int err_profile(struct str name, struct err *err)
{
	AUTO(buf_done) struct buf b = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(known_profiles); i++)
		buf_printf(&b, "%s%s", i ? ", " : "", known_profiles[i].name);
	return err_set(err, ERR_INVALID,
		       "the profile '" STR_FMT "' is not known, and has no path; known are %s", STR_ARG(name),
		       buf_cstr(&b));
}

static int add_known(struct scrape_group *g, struct str name, struct err *err)
{
	const struct scrape_profile *p = profile_known(name);

	return p ? add_profile(g, p, err) : err_profile(name, err);
}

static int set_switch(const json_t *v, const char *name, bool *ret, struct err *err)
{
	if (!json_is_boolean(v))
		return err_set(err, ERR_INVALID, "%s must be true or false", name);
	*ret = json_is_true(v);
	return 0;
}

static int profile_name_check(const char *s, struct err *err)
{
	for (const char *c = s; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr("_-.", *c))
			return err_set(err, ERR_INVALID,
				       "the name of a profile '%s' has other characters than letters, "
				       "digits and _-.",
				       s);
	return *s && strlen(s) <= 64 ? 0
				     : err_set(err, ERR_INVALID,
					       "the name of a profile is empty, or longer than "
					       "64 characters");
}

static int profile_member(struct scrape_profile *p, struct arena *a, const char *key, const json_t *v,
			  struct err *err)
{
	int64_t ms;

	if (strcmp(key, "path") == 0)
		return set_text(a, v, key, &p->path, err) < 0 ? -1 : path_check(p->path, true, err);
	if (strcmp(key, "delta") == 0)
		return set_switch(v, key, &p->counts, err);
	if (strcmp(key, "seconds") == 0) {
		if (set_time(v, key, 1000, MAX_INTERVAL_MS, &ms, err) < 0)
			return -1;
		p->timed = true;
		p->seconds = ms / 1000;
		return 0;
	}
	return err_set(err, ERR_INVALID, "'%s' is none of path, seconds, delta", key);
}

/* "NAME": true or { "path", "seconds", "delta" } */
static int add_described(struct scrape_group *g, struct arena *a, const char *name, const json_t *v,
			 struct err *err)
{
	const struct scrape_profile *known = profile_known(str_of(name));
	struct scrape_profile p = known ? *known : (struct scrape_profile){ 0 };
	const char *key;
	json_t *member;

	if (profile_name_check(name, err) < 0)
		return -1;
	if (json_is_false(v))
		return 0;
	if (!json_is_true(v) && !json_is_object(v))
		return err_set(err, ERR_INVALID, "the profile '%s' must be true or an object", name);
	p.name = arena_strdup(a, str_of(name));
	json_object_foreach((json_t *)v, key, member) if (profile_member(&p, a, key, member, err) <
							  0) return err_in(err, "the profile '%s'", name);
	return p.path ? add_profile(g, &p, err) : err_profile(str_of(name), err);
}

static int set_profiles(struct scrape_group *g, struct arena *a, const json_t *v, struct err *err)
{
	const char *name;
	json_t *one;
	size_t i;

	g->n_profiles = 0;
	json_array_foreach(v, i, one)
	{
		if (need_text(one, "a name of a profile", &name, err) < 0 ||
		    add_known(g, str_of(name), err) < 0)
			return -1;
	}
	json_object_foreach((json_t *)v, name, one) if (add_described(g, a, name, one, err) < 0) return -1;
	return g->n_profiles ? 0
			     : err_set(err, ERR_INVALID,
				       "'profiles' must be a list of names, or an object with "
				       "them");
}

static int set_profiles_label(struct scrape_group *g, const char *value, struct err *err)
{
	struct str rest = str_of(value);

	g->n_profiles = 0;
	while (rest.size)
		if (add_known(g, str_trim(str_cut(&rest, ',')), err) < 0)
			return -1;
	return g->n_profiles ? 0 : err_set(err, ERR_INVALID, "it names no profile");
}

/* ---- authorization, TLS ---- */

static int set_authorization(struct scrape_group *g, struct arena *a, struct str dir, const json_t *v,
			     struct err *err)
{
	const char *key;
	json_t *member;

	g->auth_type = "Bearer";
	json_object_foreach((json_t *)v, key, member)
	{
		int r = strcmp(key, "type") == 0 ? set_text(a, member, key, &g->auth_type, err)
			: strcmp(key, "credentials_file") == 0
				? set_file(a, dir, member, key, &g->auth_file, err)
				: err_set(err, ERR_INVALID, "'%s' is neither type nor credentials_file", key);

		if (r < 0)
			return err_in(err, "authorization");
	}
	for (const char *c = g->auth_type; *c; c++)
		if (!isalnum((unsigned char)*c) && *c != '-')
			return err_set(err, ERR_INVALID, "authorization: the type '%s' is not a word",
				       g->auth_type);
	return g->auth_file ? 0 : err_set(err, ERR_INVALID, "authorization has no credentials_file");
}

static int set_basic(struct scrape_group *g, struct arena *a, struct str dir, const json_t *v,
		     struct err *err)
{
	const char *key;
	json_t *member;

	json_object_foreach((json_t *)v, key, member)
	{
		int r = strcmp(key, "username") == 0 ? set_text(a, member, key, &g->user, err)
			: strcmp(key, "password_file") == 0
				? set_file(a, dir, member, key, &g->password_file, err)
				: err_set(err, ERR_INVALID, "'%s' is neither username nor password_file",
					  key);

		if (r < 0)
			return err_in(err, "basic_auth");
	}
	if (!g->user || !g->password_file || strchr(g->user, ':'))
		return err_set(err, ERR_INVALID,
			       "basic_auth must have a username without a colon, and a password_file");
	return 0;
}

static int set_tls_name(struct scrape_group *g, struct arena *a, const json_t *v, struct err *err)
{
	if (set_text(a, v, "server_name", &g->tls.server_name, err) < 0)
		return -1;
	for (const char *c = g->tls.server_name; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr("-._", *c))
			return err_set(err, ERR_INVALID, "server_name: '%s' is not a host name",
				       g->tls.server_name);
	return 0;
}

static int tls_member(struct scrape_group *g, struct arena *a, struct str dir, const char *key,
		      const json_t *v, struct err *err)
{
	if (strcmp(key, "ca_file") == 0)
		return set_file(a, dir, v, key, &g->tls.ca_file, err);
	if (strcmp(key, "cert_file") == 0)
		return set_file(a, dir, v, key, &g->tls.cert_file, err);
	if (strcmp(key, "key_file") == 0)
		return set_file(a, dir, v, key, &g->tls.key_file, err);
	if (strcmp(key, "server_name") == 0)
		return set_tls_name(g, a, v, err);
	if (strcmp(key, "insecure_skip_verify") == 0)
		return set_switch(v, key, &g->tls.insecure, err);
	return err_set(err, ERR_INVALID,
		       "'%s' is none of ca_file, cert_file, key_file, server_name, "
		       "insecure_skip_verify",
		       key);
}

static int set_tls_config(struct scrape_group *g, struct arena *a, struct str dir, const json_t *v,
			  struct err *err)
{
	const char *key;
	json_t *member;

	json_object_foreach((json_t *)v, key, member) if (tls_member(g, a, dir, key, member, err) <
							  0) return err_in(err, "tls_config");
	if (!g->tls.cert_file != !g->tls.key_file)
		return err_set(err, ERR_INVALID, "tls_config must have both cert_file and key_file, or none");
	g->has_tls = true;
	return 0;
}

/* ---- a group ---- */

static int label_setting(struct scrape_group *g, struct arena *a, const char *name, const char *value,
			 struct err *err)
{
	if (strcmp(name, "__scheme__") == 0)
		return set_scheme(g, value, err);
	if (strcmp(name, "__scrape_interval__") == 0)
		return time_in_range(str_of(value), MIN_INTERVAL_MS, MAX_INTERVAL_MS, &g->interval_ms, err);
	if (strcmp(name, "__scrape_timeout__") == 0)
		return time_in_range(str_of(value), MIN_TIMEOUT_MS, MAX_TIMEOUT_MS, &g->timeout_ms, err);
	if (strcmp(name, "__profile_path_prefix__") == 0)
		return set_prefix(g, a, value, err);
	return strcmp(name, "__profiles__") == 0 ? set_profiles_label(g, value, err) : 0;
}

int scrape_group_label(struct scrape_group *g, struct arena *a, const char *name, const char *value,
		       struct err *err)
{
	return label_setting(g, a, name, value, err) < 0 ? err_in(err, "the label %s", name) : 0;
}

int scrape_group_member(struct scrape_group *g, struct arena *a, struct str dir, const char *name,
			const struct json_t *v, struct err *err)
{
	const char *text;
	bool is_object = json_is_object(v);

	if (strcmp(name, "scrape_interval") == 0)
		return set_time(v, name, MIN_INTERVAL_MS, MAX_INTERVAL_MS, &g->interval_ms, err);
	if (strcmp(name, "scrape_timeout") == 0)
		return set_time(v, name, MIN_TIMEOUT_MS, MAX_TIMEOUT_MS, &g->timeout_ms, err);
	if (strcmp(name, "scheme") == 0)
		return need_text(v, name, &text, err) < 0 ? -1 : set_scheme(g, text, err);
	if (strcmp(name, "path_prefix") == 0)
		return need_text(v, name, &text, err) < 0 ? -1 : set_prefix(g, a, text, err);
	if (strcmp(name, "profiles") == 0)
		return set_profiles(g, a, v, err);
	if (strcmp(name, "authorization") == 0 && is_object)
		return set_authorization(g, a, dir, v, err);
	if (strcmp(name, "basic_auth") == 0 && is_object)
		return set_basic(g, a, dir, v, err);
	if (strcmp(name, "tls_config") == 0 && is_object)
		return set_tls_config(g, a, dir, v, err);
	return err_set(err, ERR_INVALID,
		       "'%s' is none of targets, labels, scrape_interval, scrape_timeout, scheme, "
		       "path_prefix, profiles, authorization, basic_auth, tls_config, or of the wrong type",
		       name);
}

/* Two of one type would count everything twice: memory, heap and godeltaprof_memory are the same. */
static int err_same_type(const struct scrape_group *g, struct err *err)
{
	for (size_t i = 0; i < g->n_profiles; i++)
		for (size_t k = 0; g->profiles[i].type_name && k < i; k++)
			if (g->profiles[k].type_name &&
			    strcmp(g->profiles[i].type_name, g->profiles[k].type_name) == 0)
				return err_set(err, ERR_INVALID,
					       "both %s and %s, which have the same values: one of them",
					       g->profiles[k].name, g->profiles[i].name);
	return 0;
}

int scrape_group_end(struct scrape_group *g, struct err *err)
{
	if (g->auth_file && g->user)
		return err_set(err, ERR_INVALID, "both authorization and basic_auth: one of them");
	if (!g->timeout_ms)
		g->timeout_ms = MIN((int64_t)SCRAPE_TIMEOUT_MS, g->interval_ms);
	if (g->timeout_ms > g->interval_ms)
		return err_set(err, ERR_INVALID, "scrape_timeout is longer than scrape_interval");
	if (!g->n_profiles)
		for (size_t i = 0; i < ARRAY_SIZE(usual_profiles); i++)
			(void)add_known(g, str_of(usual_profiles[i]), err);
	if (err_same_type(g, err) < 0)
		return -1;
	for (size_t i = 0; i < g->n_profiles; i++) {
		struct scrape_profile *p = &g->profiles[i];

		/* A second is for the transfer. */
		if (p->timed && !p->seconds)
			p->seconds = MAX(g->interval_ms / 1000 - 1, (int64_t)1);
		if (p->seconds * 1000 > g->interval_ms)
			return err_set(err, ERR_INVALID, "the profile '%s' takes longer than scrape_interval",
				       p->name);
	}
	return 0;
}
