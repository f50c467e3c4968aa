/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of servers as text, passed from one process to the next, one line each:
 *   URL <space> OPEN-UNTIL <space> SLOW-UNTIL <space> FAILURES <space> MESSAGE
 * with times in seconds since 1970. The file may have been written by anybody with access to the folder, or
 * truncated: malformed lines are ignored, and no line closes a server for longer than an hour.
 */
#include "net/internal.h"

#define MAX_LINES 256u

void net_breakers_save(struct net *n, struct buf *out)
{
	struct breakers *b = &n->breakers;

	pthread_mutex_lock(&b->lock);
	for (size_t i = 0; i < b->n; i++) {
		struct breaker_memory m;

		if (!breaker_memory(b->all[i], &m))
			continue;
		buf_printf(out, "%s %lld %lld %u ", breaker_url(b->all[i]), (long long)m.open_until_s,
			   (long long)m.slow_until_s, m.n_failures);
		for (const char *p = m.message; *p; p++)
			buf_add_char(out, (uint8_t)*p < 0x20 ? ' ' : *p);
		buf_add_char(out, '\n');
	}
	pthread_mutex_unlock(&b->lock);
}

static bool text_number(struct str *line, uint64_t max, uint64_t *ret)
{
	return str_to_u64(str_cut(line, ' '), ret) && *ret <= max;
}

static void load_line(struct breakers *b, struct str line)
{
	struct arena a;
	struct str url = str_cut(&line, ' ');
	struct net_url_list list;
	struct breaker_memory m = { 0 };
	uint64_t open, slow, failures, latest = (uint64_t)clock_wall_s() + BREAKER_MAX_S;

	if (!text_number(&line, latest, &open) || !text_number(&line, latest, &slow) ||
	    !text_number(&line, 1000, &failures))
		return;
	m.open_until_s = (int64_t)open;
	m.slow_until_s = (int64_t)slow;
	m.n_failures = (unsigned)failures;
	memcpy(m.message, line.p ? line.p : "", MIN(line.size, sizeof(m.message) - 1));
	arena_init(&a);
	net_urls_parse(url, false, &a, &list);
	if (list.n == 1 && str_eq(str_of(list.urls[0]), url))
		breaker_remember(b, list.urls[0], &m);
	arena_done(&a);
}

void net_breakers_load(struct net *n, struct str text)
{
	for (unsigned i = 0; i < MAX_LINES && text.size; i++) {
		struct str line = str_cut(&text, '\n');

		if (!memchr(line.p ? line.p : "", '\0', line.size))
			load_line(&n->breakers, line);
	}
}
