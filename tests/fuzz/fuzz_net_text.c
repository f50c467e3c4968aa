/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of servers, and the state of servers saved by another process: an accepted URL has one meaning, and
 * parses to itself again.
 */
#include "fuzz.h"
#include "net/internal.h"

#include <assert.h>

static void check_list(const struct net_url_list *l, struct arena *a)
{
	for (size_t i = 0; i < l->n; i++) {
		struct str url = str_of(l->urls[i]);
		struct net_url_list again;

		assert(url.size <= NET_URL_MAX + 8);
		for (size_t k = 0; k < url.size; k++)
			assert((uint8_t)url.p[k] > 0x20 && url.p[k] != 0x7f);
		net_urls_parse(url, false, a, &again);
		assert(again.n == 1 && again.n_notes == 0 && strcmp(again.urls[0], l->urls[i]) == 0);
		assert(net_url_shown(url, a).size <= url.size);
	}
	assert(l->n <= NET_SERVERS_MAX && l->n_notes <= NET_SERVERS_MAX);
}

static void check_state(void *arg, const struct net_server_state *s)
{
	assert(s->again_s >= 0 && s->again_s <= BREAKER_MAX_S);
	++*(size_t *)arg;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str text = { (const char *)data, size };
	AUTO(buf_done) struct buf saved = { 0 }, escaped = { 0 };
	struct net_url_list l;
	struct arena a;
	struct net n = { 0 };
	size_t n_states = 0;

	arena_init(&a);
	net_urls_parse(text, size & 1, &a, &l);
	check_list(&l, &a);
	net_escape(&escaped, text, true);
	for (size_t i = 0; i < escaped.size; i++)
		assert(strchr("-._~/%", escaped.p[i]) || (escaped.p[i] >= '0' && escaped.p[i] <= '9') ||
		       ((escaped.p[i] | 0x20) >= 'a' && (escaped.p[i] | 0x20) <= 'z'));
	/* Only the table of breakers is used. */
	breakers_init(&n.breakers, 10000, 300000);
	net_breakers_load(&n, text);
	net_each_server(&n, check_state, &n_states);
	net_breakers_save(&n, &saved);
	breakers_done(&n.breakers);
	assert(n_states <= 256);
	arena_done(&a);
	return 0;
}
