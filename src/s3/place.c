/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which server has a bucket. At Amazon each region has its own, and the wrong one names the right one; the region is
 * remembered for each bucket.
 */
#include "s3/internal.h"

#include <stdlib.h>
#include <strings.h>

#define AMAZON       STR(".amazonaws.com")
#define AMAZON_CHINA STR(".amazonaws.com.cn")
#define REGION_MAX   63u

void place_done(struct place *p)
{
	free(p->scheme);
	free(p->host);
	free(p->region);
	*p = (struct place){ 0 };
}

static char *place_copy(const char *s)
{
	return s ? mem_strdup(s) : NULL;
}

/* Letters, digits, '-', '.', and ':' with brackets for a port or an address. */
static bool host_is_valid(struct str host)
{
	for (size_t i = 0; i < host.size; i++) {
		char c = host.p[i];

		if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && !memchr("-._:[]", c, 6))
			return false;
	}
	return host.size && host.size <= 253 && host.p[0] != '.';
}

int place_parse(const char *url, struct place *ret, struct err *err)
{
	struct str rest = str_of(url), scheme = { 0 };
	const char *sep = strstr(url, "://");
	char *host;

	if (sep) {
		scheme = (struct str){ url, (size_t)(sep - url) };
		rest = str_of(sep + 3);
	}
	while (rest.size && rest.p[rest.size - 1] == '/')
		rest.size--;
	if (!str_eq(scheme, STR("http")) && !str_eq(scheme, STR("https")))
		return err_set(err, ERR_INVALID, "an endpoint is a URL with http:// or https://");
	if (memchr(rest.p, '@', rest.size))
		return err_set(err, ERR_INVALID,
			       "an endpoint has no user and password: set AWS_ACCESS_KEY_ID and "
			       "AWS_SECRET_ACCESS_KEY");
	host = mem_strndup(rest.p, rest.size);
	for (char *p = host; *p; p++)
		if (*p >= 'A' && *p <= 'Z')
			*p = (char)(*p - 'A' + 'a');
	if (!host_is_valid(str_of(host))) {
		(void)err_set(err, ERR_INVALID,
			      "an endpoint is http(s)://HOST[:PORT], without a path: '" STR_FMT "' is not",
			      STR_ARG(rest));
		free(host);
		return -1;
	}
	/* The usual port is not part of the Host header. */
	if (str_ends(str_of(host), str_eq(scheme, STR("http")) ? STR(":80") : STR(":443")))
		*strrchr(host, ':') = '\0';
	*ret = (struct place){ .scheme = mem_strndup(scheme.p, scheme.size), .host = host };
	return 0;
}

/* The bucket can be the first label of a host name, for which a certificate with a wildcard holds. */
static bool bucket_fits_host(struct str bucket)
{
	for (size_t i = 0; i < bucket.size; i++)
		if (!(bucket.p[i] >= 'a' && bucket.p[i] <= 'z') &&
		    !(bucket.p[i] >= '0' && bucket.p[i] <= '9') && bucket.p[i] != '-')
			return false;
	return bucket.size >= 3 && bucket.size <= 63;
}

void place_of(struct s3 *s, struct str bucket, struct place *ret)
{
	const struct place *p;

	pthread_mutex_lock(&s->lock);
	p = map_get(&s->places, bytes_of(bucket.p, bucket.size));
	if (!p)
		p = &s->home;
	*ret = (struct place){ place_copy(p->scheme), place_copy(p->host), place_copy(p->region),
			       s->config.style == S3_STYLE_HOST && bucket_fits_host(bucket) };
	pthread_mutex_unlock(&s->lock);
}

/* Without a port. */
static struct str place_host_name(const char *host)
{
	struct str h = str_of(host);
	const char *colon = strrchr(host, ':');

	if (colon && !strchr(colon, ']'))
		h.size = (size_t)(colon - host);
	return h;
}

/*
 * Whether requests may go to @host, which a server of ours named: the same machine, another server below the same domain, or
 * Amazon's from Amazon's. With temporary keys they carry a token.
 */
static bool host_is_ours(const char *home, const char *host)
{
	struct str a = place_host_name(home), b = place_host_name(host), domain = a;

	if (str_eq(a, b))
		return true;
	if (str_ends(a, AMAZON))
		return str_ends(b, AMAZON);
	if (str_ends(a, AMAZON_CHINA))
		return str_ends(b, AMAZON_CHINA);
	/* Below the same host name: "bucket.host". An address has no names below it. */
	return b.size > domain.size + 1 && str_ends(b, domain) && b.p[b.size - domain.size - 1] == '.';
}

/* The host of Amazon's in @region. Heap; NULL: the endpoint is not Amazon's. */
static char *amazon_host(const struct s3 *s, struct str region)
{
	const char *tail = str_starts(region, STR("cn-")) ? ".cn" : "";
	struct str home = place_host_name(s->home.host);

	if (s->config.endpoint && !str_ends(home, AMAZON) && !str_ends(home, AMAZON_CHINA))
		return NULL;
	return mem_printf("s3." STR_FMT "%s%s", STR_ARG(region), ".amazonaws.com", tail);
}

/* A server names it, also in XML with line ends; it becomes part of the Authorization header. */
static bool region_is_valid(struct str region)
{
	for (size_t i = 0; i < region.size; i++) {
		char c = region.p[i];

		if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
		    c != '-' && c != '_')
			return false;
	}
	return region.size <= REGION_MAX;
}

/* "bucket.host" without the bucket. */
static char *host_without_bucket(struct str host, struct str bucket)
{
	char *text;

	if (host.size > bucket.size + 1 && str_starts(host, bucket) && host.p[bucket.size] == '.')
		host = (struct str){ host.p + bucket.size + 1, host.size - bucket.size - 1 };
	text = mem_strndup(host.p, host.size);
	for (char *p = text; *p; p++)
		if (*p >= 'A' && *p <= 'Z')
			*p = (char)(*p - 'A' + 'a');
	return text;
}

bool place_learn(struct s3 *s, struct str bucket, struct str region, struct str host)
{
	AUTO(mem_freep) char *to = NULL, *in = NULL;
	struct place now, *p, *old;
	bool news;

	if (!region_is_valid(region))
		return false;
	place_of(s, bucket, &now);
	in = region.size ? mem_strndup(region.p, region.size) : place_copy(now.region);
	if (host.size)
		to = host_without_bucket(host, bucket);
	else
		to = amazon_host(s, str_of(in));
	if (!to)
		to = place_copy(now.host);
	news = host_is_valid(str_of(to)) && host_is_ours(s->home.host, to) &&
	       (strcmp(to, now.host) != 0 || strcmp(in, now.region) != 0);
	if (news) {
		p = NEW(struct place);
		*p = (struct place){ .scheme = place_copy(s->home.scheme),
				     .host = TAKE(to),
				     .region = TAKE(in) };
		pthread_mutex_lock(&s->lock);
		old = map_put(&s->places, bytes_of(bucket.p, bucket.size), p);
		pthread_mutex_unlock(&s->lock);
		if (old) {
			place_done(old);
			free(old);
		}
	}
	place_done(&now);
	return news;
}
