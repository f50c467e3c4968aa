/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which names are ours. The table is made at the start and never changes.
 */
#include "http/host.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>
#include "base/vec.h"

#define NAME_MAX_SIZE 255u
#define SHOWN_MAX     100u /* characters of a foreign name in a message */
#define LOG_EVERY_MS  60000

struct hosts {
	struct str *names; /* their text is on the heap */
	size_t n, room;
	_Atomic int64_t logged_ms; /* 0: never */
};

/* The name in "name:port", "[::1]:port", "name". */
static struct str name_of(struct str host)
{
	const char *end;

	if (host.size && host.p[0] == '[') {
		end = memchr(host.p, ']', host.size);
		return end ? (struct str){ host.p, (size_t)(end - host.p) + 1 } : host;
	}
	end = memchr(host.p, ':', host.size);
	return end ? (struct str){ host.p, (size_t)(end - host.p) } : host;
}

static bool same_name(struct str a, struct str b)
{
	return a.size == b.size && strncasecmp(a.p, b.p, a.size) == 0;
}

static bool ends_in(struct str name, struct str suffix)
{
	return name.size > suffix.size &&
	       strncasecmp(name.p + name.size - suffix.size, suffix.p, suffix.size) == 0;
}

/* A browser reads a name whose last label is a number as an IPv4 address, or refuses it. */
static bool is_ipv4(struct str name)
{
	size_t i = name.size;

	while (i && name.p[i - 1] >= '0' && name.p[i - 1] <= '9')
		i--;
	return i < name.size && (!i || name.p[i - 1] == '.');
}

static bool is_loopback_name(struct str name)
{
	return same_name(name, STR("localhost")) || ends_in(name, STR(".localhost")) ||
	       same_name(name, STR("[::1]")) || (is_ipv4(name) && str_starts(name, STR("127.")));
}

static void add_name(struct hosts *h, struct str name)
{
	if (name.size && name.size <= NAME_MAX_SIZE)
		VEC_PUSH(h->names, h->n, h->room) = (struct str){ mem_printf(STR_FMT, STR_ARG(name)),
								  name.size };
}

static void add_own_names(struct hosts *h)
{
	char name[NAME_MAX_SIZE + 1] = "";
	struct str whole, rest;

	if (gethostname(name, sizeof(name) - 1) != 0)
		return;
	rest = whole = str_of(name);
	add_name(h, whole);
	add_name(h, str_cut(&rest, '.'));
}

static int add_url(struct hosts *h, struct str url, struct err *err)
{
	struct str rest = url, name;
	const char *scheme = memmem(url.p, url.size, "://", 3), *slash;

	if (scheme)
		rest = (struct str){ scheme + 3, url.size - (size_t)(scheme + 3 - url.p) };
	slash = memchr(rest.p, '/', rest.size);
	if (slash)
		rest.size = (size_t)(slash - rest.p);
	name = name_of(rest);
	if (!name.size || memchr(name.p, '*', name.size) || memchr(rest.p, '@', rest.size))
		return err_set(err, ERR_INVALID,
			       "--public-url '" STR_FMT "': it must have the form https://NAME or "
			       "https://NAME:PORT",
			       STR_ARG(url));
	add_name(h, name);
	return 0;
}

int hosts_new(const struct str *listen, size_t n_listen, const struct str *urls, size_t n_urls,
	      struct hosts **ret, struct err *err)
{
	struct hosts *h = NEW(struct hosts);

	add_own_names(h);
	for (size_t i = 0; i < n_listen; i++)
		if (!str_starts(listen[i], STR("unix:")))
			add_name(h, name_of(listen[i]));
	for (size_t i = 0; i < n_urls; i++)
		if (add_url(h, urls[i], err) < 0) {
			hosts_free(h);
			return -1;
		}
	*ret = h;
	return 0;
}

void hosts_free(struct hosts *h)
{
	if (!h)
		return;
	for (size_t i = 0; i < h->n; i++)
		free((char *)h->names[i].p);
	free(h->names);
	free(h);
}

enum host_kind hosts_judge(const struct hosts *h, const char *host)
{
	struct str name;

	if (!host)
		return HOST_NONE;
	name = name_of(str_of(host));
	/* A full name may end in a dot. */
	if (name.size > 1 && name.p[name.size - 1] == '.')
		name.size--;
	if (is_loopback_name(name))
		return HOST_LOCAL;
	if (is_ipv4(name) || (name.size && name.p[0] == '['))
		return HOST_OURS;
	for (size_t i = 0; i < h->n; i++)
		if (same_name(name, h->names[i]))
			return HOST_OURS;
	return HOST_FOREIGN;
}

void hosts_refuse(struct hosts *h, const char *host, char *text, size_t size)
{
	int64_t now_ms = clock_mono_ms(), last_ms = atomic_load(&h->logged_ms);
	char shown[SHOWN_MAX + 1];
	size_t n = 0;

	for (; host[n] && n < SHOWN_MAX; n++)
		shown[n] = host[n] > ' ' && host[n] < 0x7f && host[n] != '\'' ? host[n] : '_';
	shown[n] = '\0';
	snprintf(
		text, size,
		"this server does not know itself as '%s': give --public-url http://%s to lode serve, or ask "
		"by its IP address, or on its own machine as localhost",
		shown, shown);
	if (last_ms && now_ms - last_ms < LOG_EVERY_MS)
		return;
	if (atomic_compare_exchange_strong(&h->logged_ms, &last_ms, MAX(now_ms, INT64_C(1))))
		log_warn("http",
			 "a request for the host '%s' was refused; if that is a name of this service, give "
			 "--public-url http://%s",
			 shown, shown);
}
