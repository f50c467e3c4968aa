/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of /proc/PID/maps, as a table by address.
 */
#include "profile/maps.h"

#include <stdlib.h>
#include "base/search.h"
#include "profile/internal.h"
#include "profile/words.h"

#define BUILD_ID_MIN 8u /* digits, of a build ID without an offset before it: a file's name may end in " b" */

/* "path 0123abcd" */
static struct str read_brief_id(struct profile_maps *m, struct str line, struct profile_mapping *to)
{
	const char *at = line.size ? memrchr(line.p, ' ', line.size) : NULL;
	struct str id = at ? (struct str){ at + 1, line.size - (size_t)(at + 1 - line.p) }
			   : (struct str){ 0 };
	size_t n = 0;

	while (n < id.size && hex_digit(id.p[n], true) >= 0)
		n++;
	if (n < BUILD_ID_MIN || n < id.size)
		return line;
	to->build_id = profile_add_string(m->p, id);
	return str_trim((struct str){ line.p, (size_t)(at - line.p) });
}

/* "path (@1000) 0123abcd": the file, then perhaps the offset and the build ID. */
static struct str read_brief_file(struct profile_maps *m, struct str line, struct profile_mapping *to)
{
	const char *at = line.size ? memmem(line.p, line.size, " (@", 3) : NULL;
	struct str file = line, id;

	if (!at)
		return read_brief_id(m, line, to);
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

/* "55ec5e887000-55ec5e889000", "0x400000-0x401000:", "0x400000 0x401000" */
static bool read_range(struct str *line, struct profile_mapping *to)
{
	struct str limit = words_next(line), start = str_cut(&limit, '-');

	if (!limit.p)
		limit = words_next(line);
	if (str_ends(limit, STR(":")))
		limit.size--;
	return words_hex(start, &to->start) && words_hex(limit, &to->limit) && to->limit > to->start;
}

/* "build=/home/x": "$build" in lines after it stands for the text. */
static void read_variable(struct profile_maps *m, struct str line)
{
	struct profile_maps_variable v = { .value = line };

	v.name = str_trim(str_cut(&v.value, '='));
	if (!v.value.p || !v.name.size || memchr(v.name.p, ' ', v.name.size) ||
	    m->n_variables == ARRAY_SIZE(m->variables))
		return;
	v.value = str_trim(v.value);
	m->variables[m->n_variables++] = v;
}

/* The variable that @file begins with: the one with the longest name; NULL: none. A path has one, at its beginning. */
static const struct profile_maps_variable *variable_of(const struct profile_maps *m, struct str file)
{
	const struct profile_maps_variable *best = NULL;

	if (!file.size || file.p[0] != '$')
		return NULL;
	for (unsigned i = 0; i < m->n_variables; i++) {
		const struct profile_maps_variable *v = &m->variables[i];

		if (str_starts((struct str){ file.p + 1, file.size - 1 }, v->name) &&
		    (!best || v->name.size >= best->name.size))
			best = v;
	}
	return best;
}

static uint32_t add_file(struct profile_maps *m, struct str file)
{
	AUTO(buf_done) struct buf b = { 0 };
	const struct profile_maps_variable *v = variable_of(m, file);

	if (!v)
		return profile_add_string(m->p, file);
	buf_add_str(&b, v->value);
	buf_add(&b, file.p + 1 + v->name.size, file.size - 1 - v->name.size);
	return profile_add_string(m->p, buf_str(&b));
}

static void read_maps_line(struct profile_maps *m, struct str line)
{
	struct str text = line, rest = text;
	struct profile_mapping to = { 0 };
	struct profile_maps_part part;

	if (!read_range(&rest, &to)) {
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
		read_maps_line(m, words_line(&text));
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
