/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other servers that `lode serve` and `lode debuginfod` ask for files that are not here, and the states
 * of their breakers from one process to the next: the file `servers` of the data directory. The client has
 * one like it in its cache.
 */
#include <stdlib.h>
#include "cmd/service/service.h"

#define DEFAULT_SERVERS "https://debuginfod.elfutils.org"

static int set_upstream_servers(struct settings *s, const char *value, enum setting_rank rank,
				struct err *err)
{
	struct upstream_settings *o = &service_settings(s)->upstream;

	o->off = false;
	return setting_list_add(s, &o->servers, str_of(value), rank, err);
}

static const struct option_row upstream_rows[] = {
	{ 0, "debuginfod-upstream-servers", "URL[,URL...]",
	  "servers to ask, in this order, for files that are not here; ssqp+URL, tree+URL, unified+URL: "
	  "symbol "
	  "servers of other kinds; may be given again [$DEBUGINFOD_URLS, "
	  "else " DEFAULT_SERVERS "]",
	  OPT_CALL(set_upstream_servers) },
	{ 0, "no-upstream", NULL, "ask no other server", SERVICE_ON(upstream.off) },
	{ 0, "upstream-misses", "N",
	  "requests of one client in a minute for files that these servers do not have; symbol tables get a "
	  "fifth of that, all clients together four times; 0: no limit [300]",
	  SERVICE_NUMBER(upstream.max_misses) },
	{ 0, "upstream-redirects", NULL,
	  "let these servers redirect to other hosts, but not to private addresses",
	  SERVICE_ON(upstream.redirects) },
	{ 0, "forwarded-ttl-limit", "N",
	  "ask no other server for a request with this many hops in X-Forwarded-For [8]",
	  SERVICE_NUMBER(server.forwarded_ttl_limit) },
	{ 0 },
};
const struct option_group group_upstream = { "Other servers", upstream_rows };

static void warn_of_urls(const struct net_url_list *l, const char *where)
{
	for (size_t i = 0; i < l->n_notes; i++)
		log_warn("serve", "%s: '" STR_FMT "': %s", where, STR_ARG(l->notes[i].token),
			 l->notes[i].text);
}

void upstream_servers(struct settings *s, struct net_url_list *ret, bool *ret_default)
{
	const struct upstream_settings *o = &service_settings(s)->upstream;
	AUTO(buf_done) struct buf text = { 0 };
	const char *variable = getenv("DEBUGINFOD_URLS"), *where = "--debuginfod-upstream-servers";

	*ret = (struct net_url_list){ 0 };
	*ret_default = false;
	if (o->off)
		return;
	for (size_t i = 0; i < o->servers.n; i++) {
		buf_add_str(&text, o->servers.items[i]);
		buf_add_char(&text, ' ');
	}
	if (text.size) {
		net_urls_parse(buf_str(&text), true, &s->arena, ret);
	} else if (variable) {
		/* A variable that is set to nothing means "no server", as for other clients. */
		where = "$DEBUGINFOD_URLS";
		net_urls_parse(str_of(variable), false, &s->arena, ret);
	} else if (o->by_default) {
		*ret_default = true;
		net_urls_parse(STR(DEFAULT_SERVERS), false, &s->arena, ret);
	}
	warn_of_urls(ret, where);
}

/* ---- states of the breakers ---- */

#define STATES_NAME "servers"
#define STATES_MAX  KIB(256)

uint64_t upstream_load_states(struct net *net, const char *data)
{
	AUTO(mem_freep) char *path = mem_printf("%s/" STATES_NAME, data);
	AUTO(buf_done) struct buf text = { 0 };

	/* Without the file, each server is asked once more. */
	if (file_read(path, STATES_MAX, &text, NULL) == 0)
		net_breakers_load(net, buf_str(&text));
	return net_breakers_epoch(net);
}

void upstream_save_states(struct net *net, const char *data, uint64_t *epoch)
{
	AUTO(mem_freep) char *path = NULL;
	AUTO(buf_done) struct buf text = { 0 };
	uint64_t now = net_breakers_epoch(net);
	struct err err = { 0 };

	if (now == *epoch)
		return;
	*epoch = now;
	path = mem_printf("%s/" STATES_NAME, data);
	net_breakers_save(net, &text);
	if (file_write_durable(path, text.p, text.size, 0644, &err) < 0)
		log_warn("serve", "the states of other servers could not be saved: %s", err.text);
}
