/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which other servers `lode serve` and `lode debuginfod` ask for what is not here, and what is known of them
 * from one process to the next: the file `servers` of the data directory, as the client has one in its cache.
 */
#include <stdlib.h>
#include "cmd/internal.h"

#define DEFAULT_SERVERS "https://debuginfod.elfutils.org"

static int set_servers(struct settings *s, const char *value, enum setting_rank rank, struct err *err)
{
	s->upstream.off = false;
	return setting_list_add(s, &s->upstream.servers, str_of(value), rank, err);
}

static int set_none(struct settings *s, const char *value, enum setting_rank rank, struct err *err)
{
	s->upstream.off = true;
	return 0;
}

static const struct option_row rows[] = {
	{ 0, "debuginfod-upstream-servers", "URL[,URL...]",
	  "ask these for what is not here, in this order; may be given again [$DEBUGINFOD_URLS, "
	  "else " DEFAULT_SERVERS "]",
	  OPT_CALL(set_servers) },
	{ 0, "no-upstream", NULL, "ask no other server", OPT_CALL(set_none) },
	{ 0, "forwarded-ttl-limit", "N", "hops in X-Forwarded-For from which on no other server is asked [8]",
	  OPT_NUMBER(server.forwarded_ttl_limit) },
	{ 0 },
};
const struct option_group group_upstream = { "Other servers", rows };

static void tell_notes(const struct net_url_list *l, const char *where)
{
	for (size_t i = 0; i < l->n_notes; i++)
		log_warn("serve", "%s: '" STR_FMT "': %s", where, STR_ARG(l->notes[i].token),
			 l->notes[i].text);
}

void upstream_servers(struct settings *s, struct net_url_list *ret)
{
	AUTO(buf_done) struct buf text = { 0 };
	const char *variable = getenv("DEBUGINFOD_URLS"), *where = "--debuginfod-upstream-servers";

	*ret = (struct net_url_list){ 0 };
	if (s->upstream.off)
		return;
	for (size_t i = 0; i < s->upstream.servers.n; i++) {
		buf_add_str(&text, s->upstream.servers.items[i]);
		buf_add_char(&text, ' ');
	}
	if (text.size) {
		net_urls_parse(buf_str(&text), true, &s->arena, ret);
	} else if (variable) {
		/* Set and empty is the customary way to say "none". */
		where = "$DEBUGINFOD_URLS";
		net_urls_parse(str_of(variable), false, &s->arena, ret);
	} else if (s->upstream.by_default) {
		net_urls_parse(STR(DEFAULT_SERVERS), false, &s->arena, ret);
	}
	tell_notes(ret, where);
}

/* ---- those that are passed over ---- */

#define STATES_NAME "servers"
#define STATES_MAX  KIB(256)

uint64_t upstream_load_states(struct net *net, const char *data)
{
	AUTO(mem_freep) char *path = mem_printf("%s/" STATES_NAME, data);
	AUTO(buf_done) struct buf text = { 0 };

	/* Without it, or where it cannot be read, each server is asked once more. */
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
		log_warn("serve", "what is known of other servers is not kept: %s", err.text);
}
