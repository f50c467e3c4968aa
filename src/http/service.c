/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all requests of a server share: its beginning and end.
 */
#include <stdlib.h>
#include <unistd.h>
#include "http/access.h"
#include "http/host.h"
#include "http/limit.h"
#include "http/request.h"

int http_service_new(const struct http_service_options *opts, struct http_service **ret, struct err *err)
{
	struct http_service *sv = NEW(struct http_service);

	sv->opts = *opts;
	http_routes_init(&sv->routes, opts->routes, opts->prefix);
	sv->seed = limit_seed();
	wait_init(&sv->wait);
	sv->counters = counters_new(opts->types, opts->results);
	sv->tokens = tokens_new(opts->tokens_path);
	if (opts->rate_per_ip)
		sv->limit = limit_new(opts->rate_per_ip);
	if (opts->access_log)
		sv->access = access_new(STDERR_FILENO, opts->secret_below);
	sv->busy = reply_canned(sv, 503, "busy\n");
	sv->too_many = reply_canned(sv, 429, "too many requests from your address\n");
	if (hosts_new(opts->listen, opts->n_listen, opts->public_urls, opts->n_public_urls, &sv->hosts, err) <
		    0 ||
	    wait_start(sv, err) < 0) {
		http_service_free(sv);
		return -1;
	}
	*ret = sv;
	return 0;
}

void http_service_free(struct http_service *sv)
{
	if (!sv)
		return;
	http_reply_unref(sv->busy.reply);
	http_reply_unref(sv->too_many.reply);
	access_free(sv->access);
	limit_free(sv->limit);
	tokens_free(sv->tokens);
	hosts_free(sv->hosts);
	counters_free(sv->counters);
	wait_done(&sv->wait);
	free(sv);
}
