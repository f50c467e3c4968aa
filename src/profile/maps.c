/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of /proc/PID/maps, as a table by address.
 */
#include "profile/maps.h"

#include <stdlib.h>
#include "base/search.h"
#include "profile/internal.h"
#include "profile/words.h"

/* "path (@1000) 0123abcd": the file, then perhaps the offset and the build ID. */
static struct str read_brief_file(struct profile_maps *m, struct str line, struct profile_mapping *to)
{
	const char *at = line.size ? memmem(line.p, line.size, " (@", 3) : NULL;
	struct str file = line, id;

	if (!at)
		return file;
	file.size = (size_t)(at - line.p);
	id = (struct str){ at + 3, line.size - file.size - 3 };
	if (!words_hex(str_cut(&id, ')'), &to->offset))
		return line;
	id = str_trim(id);
	if (id.p && id.size)
		to->build_id = profile_add_string(m->p, id);
	return str_trim(file);
}

/*
 * After the range: "r-xp 00001000 fe:00 871942     /usr/bin/a b", as the kernel writes it, or, as programs write it that
 * have no such file, ": /usr/bin/a (@1000) 0123abcd", all of it executable.
 */
static bool read_rest(struct profile_maps *m, struct str *line, struct profile_mapping *to)
{
	struct str rest = *line, prot = words_next(&rest), off, device;

	for (size_t i = 0; i < prot.size; i++)
		if (!strchr("rwxps-", prot.p[i])) {
			*line = read_brief_file(m, str_trim(*line), to);
			return true;
		}
	if (prot.size < 3 || prot.p[2] != 'x')
		return false;
	*line = str_trim(rest);
	off = words_next(&rest);
	device = words_next(&rest);
	if (!words_hex(off, &to->offset) || !memchr(device.p ? device.p : "", ':', device.size)) {
		*line = read_brief_file(m, *line, to);
		return true;
	}
	words_next(&rest); /* inode */
	*line = str_trim(rest);
	return true;
}

static bool read_range(struct str range, struct profile_mapping *to)
{
	if (str_ends(range, STR(":")))
		range.size--;
	return words_hex(str_cut(&range, '-'), &to->start) && words_hex(range, &to->limit) &&
	       to->limit > to->start;
}

/* "build=/home/x": "$build" in lines after it stands for the text. true: it is such a line. */
static bool read_variable(struct profile_maps *m, struct str line)
{
	const char *eq = line.size ? memchr(line.p, '=', line.size) : NULL;

	if (!eq || eq == line.p || memchr(line.p, ' ', (size_t)(eq - line.p)))
		return false;
	m->name = (struct str){ line.p, (size_t)(eq - line.p) };
	m->value = (struct str){ eq + 1, line.size - m->name.size - 1 };
	return true;
}

/* With the variable replaced; a path has it once, at its beginning. */
static uint32_t add_file(struct profile_maps *m, struct str file)
{
	AUTO(buf_done) struct buf b = { 0 };

	if (!m->name.size || file.size <= m->name.size || file.p[0] != '$' ||
	    !str_starts((struct str){ file.p + 1, file.size - 1 }, m->name))
		return profile_add_string(m->p, file);
	buf_add_str(&b, m->value);
	buf_add(&b, file.p + 1 + m->name.size, file.size - 1 - m->name.size);
	return profile_add_string(m->p, buf_str(&b));
}

/* "55ec5e887000-55ec5e889000" and read_rest() */
static void read_maps_line(struct profile_maps *m, struct str line)
{
	struct str text = str_trim(line), rest = text;
	struct profile_mapping to = { 0 };
	struct profile_maps_part part;

	if (!read_range(words_next(&rest), &to)) {
		read_variable(m, text);
		return;
	}
	line = str_trim(rest);
	if (!read_rest(m, &line, &to))
		return;
	if (str_ends(line, STR(" (deleted)")))
		line.size -= 10;
	to.file = add_file(m, line);
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
		profile_table_free(m->p, &m->list);
}

uint32_t profile_maps_find(const struct profile_maps *m, uint64_t addr)
{
	size_t n = SEARCH(0, m->list.n, i, m->list.p[i].start <= addr);

	return n && addr < m->list.p[n - 1].end ? m->list.p[n - 1].mapping : PROFILE_NONE;
}
