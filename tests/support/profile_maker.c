/* SPDX-License-Identifier: Apache-2.0 */
#include "profile_maker.h"

#include <stdio.h>
#include <stdlib.h>

uint64_t profile_maker_next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static uint32_t text(struct profile *p, const char *what, uint64_t n)
{
	char s[64];

	snprintf(s, sizeof(s), "%s %llu", what, (unsigned long long)n);
	return profile_add_string(p, str_of(s));
}

/* For every seed, place @n of the world is in the same function of the same file. */
static uint32_t make_location(struct profile *p, const struct profile_maker *m, uint64_t n)
{
	uint64_t w = m->world + n * 77, mapping = n % 5;
	struct profile_mapping map = {
		.start = 0x400000 + (mapping << 32) + (m->seed % 16 << 24),
		.offset = mapping * 0x1000,
		.file = text(p, "/usr/bin/program", mapping),
		.build_id = mapping == 3 ? 0 : text(p, "0123abcd", mapping),
		.flags = m->unnamed ? 0 : PROFILE_HAS_FUNCTIONS | PROFILE_HAS_LINES,
	};
	struct profile_location l = { .mapping = PROFILE_NONE };
	struct profile_line lines[3];
	uint32_t n_lines = m->unnamed ? 0 : (uint32_t)(profile_maker_next(&w) % 4);

	map.limit = map.start + 0x800000;
	if (mapping != 4)
		l.mapping = profile_add_mapping(p, &map);
	l.addr = (mapping != 4 ? map.start : 0) + 0x1000 + n * 16;
	l.folded = n % 13 == 0;
	for (uint32_t i = 0; i < n_lines; i++) {
		uint64_t f = profile_maker_next(&w) % 50;
		struct profile_function fn = { text(p, "function", f), text(p, "_Zsystem", f),
					       text(p, "file.c", f % 7), (int64_t)(f % 3 * 10) };

		lines[i] = (struct profile_line){ profile_add_function(p, &fn),
						  (int64_t)(profile_maker_next(&w) % 500),
						  (int64_t)(profile_maker_next(&w) % 3) };
	}
	return profile_add_location(p, &l, lines, n_lines);
}

static uint32_t make_labels(struct profile *p, uint64_t *s)
{
	struct profile_label l[3] = { 0 };
	uint32_t n = (uint32_t)(profile_maker_next(s) % 4);

	for (uint32_t i = 0; i < n; i++) {
		uint64_t v = profile_maker_next(s) % 5;

		l[i].key = text(p, "key", i);
		if (v < 3)
			l[i].str = text(p, "value", v);
		else
			l[i].num = (int64_t)(v - 6);
		if (v == 4)
			l[i].unit = text(p, "unit", 0);
	}
	return profile_add_labels(p, l, n);
}

struct profile_maker profile_maker_of(unsigned i, uint64_t *seed, unsigned most)
{
	struct profile_maker m = { .seed = i, .world = i % 5, .unnamed = i % 11 == 0 };

	m.n_samples = 1 + (unsigned)(profile_maker_next(seed) % most);
	m.n_locations = 1 + (unsigned)(profile_maker_next(seed) % 30);
	m.depth = 1 + (unsigned)(profile_maker_next(seed) % 12);
	return m;
}

struct profile *profile_make(const struct profile_maker *m)
{
	struct profile *p = profile_new(NULL);
	uint64_t s = m->seed * 0x10001 + 7;

	profile_add_type(p, STR("samples"), STR("count"));
	profile_add_type(p, STR("cpu"), STR("nanoseconds"));
	p->period_type = p->types.p[1];
	p->period = 10000000;
	p->time_ns = (int64_t)(m->seed + 1) * 1000;
	p->duration_ns = 5000;
	p->drop_frames = text(p, "drop", 0);
	p->keep_frames = text(p, "keep", 0);
	p->doc_url = text(p, "https://example.com/", 0);
	p->default_type = p->types.p[0].type;
	p->comments.p = NEW_N(uint32_t, 2);
	p->comments.n = p->comments.room = 2;
	p->comments.p[0] = text(p, "comment", 1);
	p->comments.p[1] = text(p, "comment", 2);
	for (unsigned i = 0; i < m->n_samples; i++) {
		uint32_t depth = (uint32_t)(profile_maker_next(&s) % (m->depth + 1)), stack = 0;
		int64_t values[2] = { (int64_t)(profile_maker_next(&s) % 100) - 10,
				      (int64_t)(profile_maker_next(&s) % 1000000) };

		for (uint32_t k = 0; k < depth; k++)
			stack = profile_add_stack(
				p, stack, make_location(p, m, profile_maker_next(&s) % m->n_locations));
		profile_add_sample(p, stack, make_labels(p, &s), values);
	}
	return p;
}

/* ---- a profile as text, in a canonical order ---- */

void profile_lines_text(const struct profile *p, const struct profile_location *l, struct buf *b)
{
	if (l->folded)
		buf_add_char(b, 'F');
	for (uint32_t i = 0; i < l->n_lines; i++) {
		const struct profile_line *line = &p->lines.p[l->first_line + i];
		const struct profile_function *f = &p->functions.p[line->function];

		buf_printf(b, "[" STR_FMT "," STR_FMT "," STR_FMT ",%lld:%lld,%lld]",
			   STR_ARG(profile_str(p, f->name)), STR_ARG(profile_str(p, f->system_name)),
			   STR_ARG(profile_str(p, f->file)), (long long)f->start_line, (long long)line->line,
			   (long long)line->column);
	}
}

static void add_location(const struct profile *p, const struct profile_location *l, struct buf *b)
{
	if (l->mapping != PROFILE_NONE) {
		const struct profile_mapping *m = &p->mappings.p[l->mapping];

		buf_printf(b, " <" STR_FMT "|" STR_FMT "|%llx|%llx|%x>", STR_ARG(profile_str(p, m->file)),
			   STR_ARG(profile_str(p, m->build_id)), (unsigned long long)(l->addr - m->start),
			   (unsigned long long)m->offset, m->flags);
	} else {
		buf_printf(b, " <%llx>", (unsigned long long)l->addr);
	}
	profile_lines_text(p, l, b);
}

static void add_sample(const struct profile *p, uint32_t i, struct buf *b)
{
	const struct profile_label_set *set = &p->label_sets.p[p->sample_labels[i]];

	for (uint32_t s = p->sample_stack[i]; s; s = p->stacks.p[s].parent)
		add_location(p, &p->locations.p[p->stacks.p[s].location], b);
	for (uint32_t k = 0; k < set->n; k++) {
		const struct profile_label *l = &p->labels.p[set->first + k];

		buf_printf(b, " {" STR_FMT "=" STR_FMT ",%lld," STR_FMT "}", STR_ARG(profile_str(p, l->key)),
			   STR_ARG(profile_str(p, l->str)), (long long)l->num,
			   STR_ARG(profile_str(p, l->unit)));
	}
	for (uint32_t t = 0; t < p->types.n; t++)
		buf_printf(b, " %lld", (long long)profile_value(p, i, t));
	buf_add_char(b, '\n');
}

static int by_text(const void *a, const void *b)
{
	return str_cmp(*(const struct str *)a, *(const struct str *)b);
}

void profile_canonical(const struct profile *p, struct buf *out)
{
	AUTO(buf_done) struct buf b = { 0 };
	struct str *lines = NEW_N(struct str, p->n_samples + 1), rest;

	for (uint32_t i = 0; i < p->types.n; i++)
		buf_printf(out, STR_FMT "/" STR_FMT "\n", STR_ARG(profile_str(p, p->types.p[i].type)),
			   STR_ARG(profile_str(p, p->types.p[i].unit)));
	buf_printf(out, "%lld %lld %lld " STR_FMT "\n", (long long)p->time_ns, (long long)p->duration_ns,
		   (long long)p->period, STR_ARG(profile_str(p, p->default_type)));
	for (uint32_t i = 0; i < p->n_samples; i++)
		add_sample(p, i, &b);
	rest = buf_str(&b);
	for (uint32_t i = 0; i < p->n_samples; i++)
		lines[i] = str_cut(&rest, '\n');
	qsort(lines, p->n_samples, sizeof(*lines), by_text);
	for (uint32_t i = 0; i < p->n_samples; i++)
		buf_printf(out, STR_FMT "\n", STR_ARG(lines[i]));
	free(lines);
}

void proto_number(struct buf *b, unsigned field, uint64_t v)
{
	buf_add_uleb(b, (uint64_t)field << 3);
	buf_add_uleb(b, v);
}

void proto_bytes(struct buf *b, unsigned field, const void *p, size_t size)
{
	buf_add_uleb(b, (uint64_t)field << 3 | 2);
	buf_add_uleb(b, size);
	buf_add(b, p, size);
}
