/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings of a client. Each comes from the first of: the option, the environment, the shared files.
 */
#include "s3/internal.h"

#include <stdlib.h>
#include <strings.h>

#define SHARED_MAX   MIB(1)
#define USUAL_REGION "us-east-1"
/* All endpoints of the environment and the files. */
#define IGNORE_ENDPOINTS "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"

const char *config_env(const char *name)
{
	const char *v = getenv(name);

	return v && *v ? v : NULL;
}

/* The path of a shared file; NULL: there is none. Heap. */
static char *shared_path(const char *variable, const char *usual)
{
	const char *given = config_env(variable), *home = config_env("HOME");

	if (given && given[0] == '~' && given[1] == '/' && home)
		return mem_printf("%s%s", home, given + 1);
	if (given)
		return mem_strdup(given);
	return home ? mem_printf("%s/.aws/%s", home, usual) : NULL;
}

static void read_shared(const char *variable, const char *usual, struct secret *ret)
{
	AUTO(mem_freep) char *path = shared_path(variable, usual);
	AUTO(secret_buf_done) struct buf text = { 0 };
	struct err err = { 0 };

	/* A file that cannot be read is none, as for other tools; but its owner has to know. */
	if (path && file_read(path, SHARED_MAX, &text, &err) < 0)
		log_warn("s3", "%s: %s", path, err.text);
	secret_done(ret);
	*ret = secret_of(buf_str(&text));
}

void config_reload(struct s3_config *c)
{
	read_shared("AWS_CONFIG_FILE", "config", &c->config);
	read_shared("AWS_SHARED_CREDENTIALS_FILE", "credentials", &c->credentials);
}

/* The section of the profile in the file config. The usual one is [profile default] or [default]; the first wins. */
static char *config_section(const struct s3_config *c)
{
	char *section = mem_printf("profile %s", c->profile);

	if (strcmp(c->profile, "default") != 0 || profile_has(secret_str(&c->config), section))
		return section;
	free(section);
	return mem_strdup("default");
}

bool config_value_in(const struct s3_config *c, enum config_file file, const char *key, const char *sub,
		     struct str *ret)
{
	AUTO(mem_freep) char *section = config_section(c);

	return file == CONFIG_CREDENTIALS
		       ? profile_get(secret_str(&c->credentials), c->profile, key, sub, ret)
		       : profile_get(secret_str(&c->config), section, key, sub, ret);
}

bool config_value(const struct s3_config *c, const char *key, const char *sub, struct str *ret)
{
	return config_value_in(c, CONFIG_CREDENTIALS, key, sub, ret) ||
	       config_value_in(c, CONFIG_CONFIG, key, sub, ret);
}

static char *config_text(const struct s3_config *c, const char *key)
{
	struct str v;

	return config_value(c, key, NULL, &v) ? mem_strndup(v.p, v.size) : NULL;
}

static bool env_is_on(const char *name)
{
	const char *v = config_env(name);

	return v && (strcasecmp(v, "true") == 0 || strcasecmp(v, "yes") == 0 || strcmp(v, "1") == 0);
}

char *config_endpoint(const struct s3_config *c, const char *service, char *other)
{
	AUTO(mem_freep) char *services = config_text(c, "services"), *section = NULL;
	char *own;
	struct str v;

	if (env_is_on(IGNORE_ENDPOINTS))
		return other;
	if (services) {
		section = mem_printf("services %s", services);
		if (profile_get(secret_str(&c->config), section, service, "endpoint_url", &v)) {
			free(other);
			return mem_strndup(v.p, v.size);
		}
	}
	own = config_text(c, "endpoint_url");
	if (own)
		free(other);
	return own ? own : other;
}

/* Of the options, else of the first variable that is set. */
static char *option_or_env(const char *option, const char *const *variables)
{
	if (option && *option)
		return mem_strdup(option);
	for (; *variables; variables++)
		if (config_env(*variables))
			return mem_strdup(config_env(*variables));
	return NULL;
}

static int config_style(const struct s3_options *o, struct s3_config *c, struct err *err)
{
	struct str v = { 0 };

	c->style = o->style;
	if (c->style == S3_STYLE_AUTO && config_value(c, "s3", "addressing_style", &v)) {
		if (str_eq(v, STR("path")))
			c->style = S3_STYLE_PATH;
		else if (str_eq(v, STR("virtual")))
			c->style = S3_STYLE_HOST;
		else if (!str_eq(v, STR("auto")))
			return err_set(err, ERR_INVALID,
				       "profile %s: addressing_style is '" STR_FMT
				       "', not path, virtual or auto",
				       c->profile, STR_ARG(v));
	}
	if (c->style == S3_STYLE_AUTO)
		c->style = c->endpoint ? S3_STYLE_PATH : S3_STYLE_HOST;
	return 0;
}

/* It becomes part of a host name. */
static int config_check_region(const struct s3_config *c, struct err *err)
{
	for (const char *p = c->region; *p; p++)
		if (!(*p >= 'a' && *p <= 'z') && !(*p >= 'A' && *p <= 'Z') && !(*p >= '0' && *p <= '9') &&
		    *p != '-' && *p != '_')
			return err_set(err, ERR_INVALID, "'%s' is not a region: letters, digits and '-' only",
				       c->region);
	return strlen(c->region) <= 63 ? 0 : err_set(err, ERR_INVALID, "the name of the region is too long");
}

int config_load(const struct s3_options *o, struct s3_config *c, struct err *err)
{
	static const char *const endpoints[] = { "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", NULL };
	static const char *const none[] = { NULL };
	static const char *const regions[] = { "AWS_REGION", "AWS_DEFAULT_REGION", NULL };
	static const char *const profiles[] = { "AWS_PROFILE", "AWS_DEFAULT_PROFILE", NULL };
	static const char *const bundles[] = { "AWS_CA_BUNDLE", NULL };
	AUTO(mem_freep) char *section = NULL;
	bool chosen;

	*c = (struct s3_config){ 0 };
	config_reload(c);
	c->profile = option_or_env(o->profile, profiles);
	chosen = c->profile;
	c->profile_by_option = o->profile && *o->profile;
	if (!chosen)
		c->profile = mem_strdup("default");
	section = config_section(c);
	if (chosen && !profile_has(secret_str(&c->credentials), c->profile) &&
	    !profile_has(secret_str(&c->config), section))
		return err_set(err, ERR_INVALID,
			       "there is no profile '%s' in ~/.aws/config and ~/.aws/credentials: correct "
			       "AWS_PROFILE, or add it",
			       c->profile);
	c->endpoint = option_or_env(o->endpoint, env_is_on(IGNORE_ENDPOINTS) ? none : endpoints);
	if (!c->endpoint)
		c->endpoint = config_endpoint(c, "s3", NULL);
	c->region = option_or_env(o->region, regions);
	if (!c->region)
		c->region = config_text(c, "region");
	c->own_region = c->region;
	if (!c->region)
		c->region = mem_strdup(USUAL_REGION);
	c->ca_file = option_or_env(o->ca_file, bundles);
	if (!c->ca_file)
		c->ca_file = config_text(c, "ca_bundle");
	c->proxy = o->proxy ? mem_strdup(o->proxy) : NULL;
	c->anonymous = o->anonymous || env_is_on("AWS_NO_SIGN_REQUEST");
	if (config_check_region(c, err) < 0)
		return -1;
	return config_style(o, c, err);
}

void config_done(struct s3_config *c)
{
	free(c->endpoint);
	free(c->region);
	free(c->profile);
	free(c->ca_file);
	free(c->proxy);
	secret_done(&c->config);
	secret_done(&c->credentials);
	*c = (struct s3_config){ 0 };
}
