/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of /proc/PID/maps, as a table by address.
 */
#include "profile/maps.h"

#include <stdlib.h>
#include "base/search.h"
#include "profile/internal.h"
#include "profile/words.h"

/* "55ec5e887000-55ec5e889000 r-xp 00001000 fe:00 871942     /usr/bin/a b" */
static void read_maps_line(struct profile_maps *m, struct str line)
{
	struct str range = words_next(&line), prot = words_next(&line), off = words_next(&line);
	struct profile_mapping to = { 0 };
	struct profile_maps_part part;

	if (!words_hex(str_cut(&range, '-'), &to.start) || !words_hex(range, &to.limit) ||
	    to.limit <= to.start || !words_hex(off, &to.offset) || prot.size < 3 || prot.p[2] != 'x')
		return;
	words_next(&line); /* device */
	words_next(&line); /* inode */
	line = str_trim(line);
	if (str_ends(line, STR(" (deleted)")))
		line.size -= 10;
	to.file = profile_add_string(m->p, line);
	part = (struct profile_maps_part){ to.start, to.limit, profile_add_mapping(m->p, &to) };
	if (!profile_push(m->p, &m->list, part))
		profile_index_of(m->p)->failed = true;
}

static int by_map_start(const void *a, const void *b)
{
	const struct profile_maps_part *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

void profile_maps_read(struct profile_maps *m, struct profile *p, struct str text)
{
	m->p = p;
	while (text.p && text.size)
		read_maps_line(m, str_cut(&text, '\n'));
	if (m->list.n)
		qsort(m->list.p, m->list.n, sizeof(*m->list.p), by_map_start);
}

void profile_maps_done(struct profile_maps *m)
{
	if (m->p)
		m->p->memory -= (uint64_t)m->list.room * sizeof(*m->list.p);
	free(m->list.p);
}

uint32_t profile_maps_find(const struct profile_maps *m, uint64_t addr)
{
	size_t n = SEARCH(0, m->list.n, i, m->list.p[i].start <= addr);

	return n && addr < m->list.p[n - 1].end ? m->list.p[n - 1].mapping : PROFILE_NONE;
}
