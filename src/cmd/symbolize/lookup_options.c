/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options about where symbols are looked up, for the module `lookup`.
 */
#include "cmd/symbolize/symbolize.h"

struct lookup_options lookup_options_of(struct settings *s)
{
	AUTO(buf_done) struct buf urls = { 0 };
	const struct setting_list *servers = &s->find.servers;

	for (size_t i = 0; i < servers->n; i++)
		buf_printf(&urls, "%s" STR_FMT, i ? " " : "", STR_ARG(servers->items[i]));
	return (struct lookup_options){ .urls = servers->n ? arena_strdup(&s->arena, buf_str(&urls)) : NULL,
					.watch = wait_watch_new(s),
					.unread_wait_ms = unread_wait_ms(s),
					.local_only = s->find.here,
					.alt = s->symbols.alt,
					.discriminators = s->symbols.discriminators,
					.threads = s->symbols.threads };
}
