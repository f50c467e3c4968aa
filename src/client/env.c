/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Servers, limits and time limits from the environment. Read anew for every call, since debuggers change it
 * while they run.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include "client/internal.h"
#include "net/net.h"

#define HEADERS_FILE_MAX KIB(256)
#define HEADERS_MAX      256u

/* A value that is not a number is @usual; one above @max is @max. */
static int64_t env_number(const char *name, int64_t usual, int64_t max)
{
	const char *text = getenv(name);
	long long n;
	char *end;

	if (!text || !*text)
		return usual;
	errno = 0;
	n = strtoll(text, &end, 10);
	if (end == text || n < 0)
		return usual;
	return errno == ERANGE || n > max ? max : n;
}

bool client_header_ok(struct str line)
{
	const char *colon = line.size ? memchr(line.p, ':', line.size) : NULL;

	if (!colon || colon == line.p || colon == line.p + line.size - 1)
		return false;
	/* A line break would make it two headers. */
	for (size_t i = 0; i < line.size; i++)
		if (iscntrl((unsigned char)line.p[i]) && line.p[i] != '\t')
			return false;
	return true;
}

static void env_read_headers(struct client_env *e, const char *path, const struct client_watch *watch)
{
	AUTO(buf_done) struct buf b = { 0 };
	struct err err = { 0 };
	struct str rest;
	int r = file_read(path, HEADERS_FILE_MAX, &b, &err);

	if (r != 0) {
		client_say(watch, "header file %s: %s", path, r < 0 ? err.text : "No such file or directory");
		return;
	}
	rest = buf_str(&b);
	while (rest.size && e->n_headers < HEADERS_MAX) {
		struct str line = str_trim(str_cut(&rest, '\n'));

		if (!line.size)
			continue;
		if (!client_header_ok(line)) {
			client_say(watch, "skipping bad header: %s", strerror(EINVAL));
			continue;
		}
		VEC_PUSH(e->headers, e->n_headers, e->room_headers) = mem_strndup(line.p, line.size);
	}
}

/* Reports the URLs that occur twice, which the parsed list does not have. */
static void say_duplicates(const char *urls, const struct client_env *e, const struct client_watch *watch)
{
	bool seen[ENV_MAX_SERVERS] = { false };
	struct str rest = str_of(urls);

	if (!watch || !watch->say)
		return;
	while (rest.size) {
		struct str token = str_trim(str_cut(&rest, ' '));
		AUTO(arena_done) struct arena a = { 0 };
		struct net_url_list one;

		net_urls_parse(token, false, &a, &one);
		for (size_t i = 0; one.n == 1 && i < e->n_urls; i++) {
			if (strcmp(e->urls[i], one.urls[0]) != 0)
				continue;
			if (seen[i])
				client_say(watch, "duplicate url: " STR_FMT ", skipping", STR_ARG(token));
			seen[i] = true;
		}
	}
}

static void env_read_urls(struct client_env *e, const char *urls, const struct client_watch *watch)
{
	AUTO(arena_done) struct arena a = { 0 };
	struct net_url_list list;

	client_say(watch, "server urls \"%s\"", urls);
	net_urls_parse(str_of(urls), false, &a, &list);
	for (size_t i = 0; i < list.n_notes; i++)
		client_say(watch, "DEBUGINFOD_URLS: " STR_FMT ": %s", STR_ARG(list.notes[i].token),
			   list.notes[i].text);
	for (size_t i = 0; i < list.n_notes && !e->nonsense; i++)
		if (!list.notes[i].ignored)
			e->nonsense = mem_printf(STR_FMT ": %s", STR_ARG(list.notes[i].token),
						 list.notes[i].text);
	e->urls = list.n ? NEW_N(char *, list.n) : NULL;
	for (size_t i = 0; i < list.n; i++)
		e->urls[e->n_urls++] = mem_strdup(list.urls[i]);
	say_duplicates(urls, e, watch);
}

void client_env_read(struct client_env *e, const char *urls, const struct client_watch *watch)
{
	const char *headers = getenv("DEBUGINFOD_HEADERS_FILE"), *certs = getenv("DEBUGINFOD_IMA_CERT_PATH");

	*e = (struct client_env){
		.timeout_ms = env_number("DEBUGINFOD_TIMEOUT", 90, 86400) * 1000,
		.max_time_ms = env_number("DEBUGINFOD_MAXTIME", 0, 30 * 86400) * 1000,
		.retries = (unsigned)env_number("DEBUGINFOD_RETRY_LIMIT", 2, 1000),
		.max_size = (uint64_t)env_number("DEBUGINFOD_MAXSIZE", 0, INT64_MAX),
	};
	if (getenv("DEBUGINFOD_RETRY_LIMIT"))
		e->connect_retries = e->retries;
	urls = urls ? urls : getenv("DEBUGINFOD_URLS");
	env_read_urls(e, urls ? urls : "", watch);
	if (certs && *certs)
		client_say(watch, "DEBUGINFOD_IMA_CERT_PATH: signatures are not checked; build IDs are");
	if (headers && *headers)
		env_read_headers(e, headers, watch);
	if (e->max_time_ms)
		client_say(watch, "using max time %llds", (long long)e->max_time_ms / 1000);
	if (e->max_size)
		client_say(watch, "using max size %lluB", (unsigned long long)e->max_size);
	client_say(watch, "using timeout %lld", (long long)e->timeout_ms / 1000);
}

static void free_texts(char **items, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(items[i]);
	free(items);
}

void client_env_done(struct client_env *e)
{
	free_texts(e->urls, e->n_urls);
	free_texts(e->headers, e->n_headers);
	free(e->nonsense);
	*e = (struct client_env){ 0 };
}

void client_no_servers(const struct client_env *e, struct client_result *ret)
{
	if (e->nonsense)
		err_set(&ret->err, ERR_INVALID, "there is no server to ask: DEBUGINFOD_URLS: %s",
			e->nonsense);
	else
		err_set(&ret->err, ERR_INVALID, "there is no server to ask: DEBUGINFOD_URLS names none");
	result_fail(ret, CLIENT_FAILED, e->nonsense ? EINVAL : ENOSYS);
}
