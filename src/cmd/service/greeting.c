/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines that the service prints when it has started.
 */
#include "cmd/service/internal.h"

#include <stdlib.h>

/* A URL of the service for this machine: "all addresses" is not one that a browser can open. Heap. */
static char *local_url(const char *url)
{
	static const char *const all[] = { "//[::]:", "//0.0.0.0:" };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		const char *at = strstr(url, all[i]);

		if (at)
			return mem_printf("%.*s//localhost:%s", (int)(at - url), url, at + strlen(all[i]));
	}
	return mem_strdup(url);
}

/* Say which data leaves this machine, and how to stop that. */
static void greet_upstreams(const struct service *v)
{
	AUTO(buf_done) struct buf names = { 0 };
	struct arena a;

	if (!v->upstreams.n)
		return;
	arena_init(&a);
	for (size_t i = 0; i < v->upstreams.n; i++) {
		struct str shown = net_url_shown(str_of(v->upstreams.urls[i]), &a);

		buf_printf(&names, "%s" STR_FMT, i ? ", " : "", STR_ARG(shown));
	}
	arena_done(&a);
	printf("lode: files that are not here are requested from %s: build IDs and names of sources and "
	       "sections are "
	       "sent there%s; --no-upstream turns that off\n",
	       buf_cstr(&names),
	       v->upstreams_default ? ", no addresses of clients" : ", and addresses of clients");
}

void greeting_print(struct service *v)
{
	const char *const *urls = server_urls(v->server);
	struct console_sources from = { .scan = v->scan, .net = v->net, .profiles = v->profiles };

	for (size_t i = 0; urls[i]; i++) {
		bool is_unix = str_starts(str_of(urls[i]), STR("unix:"));

		if (!is_unix && !v->url)
			from.url = v->url = local_url(urls[i]);
		printf("lode: listening at %s%s\n", urls[i], is_unix ? "" : "/");
	}
	urls = server_grpc_urls(v->server);
	for (size_t i = 0; urls[i]; i++)
		printf("lode: listening for gRPC at %s\n", urls[i]);
	if (v->url)
		printf("lode: for gdb, perf and others: export DEBUGINFOD_URLS=%s\n", v->url);
	greet_upstreams(v);
	fflush(stdout);
	/* The service is the result, not these lines. */
	clearerr(stdout);
	console_started(v->console, &from);
}
