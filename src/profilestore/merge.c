/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A range as one profile: values are added up by number of stack, and the entries of the metadata store that
 * stacks with a value refer to are copied.
 */
#include "base/budget.h"
#include "profilestore/merge.h"

#include <stdlib.h>

int store_merge_refused(const struct store_merge *m, struct err *err)
{
	if (err)
		*err = m->refusal;
	return -1;
}

/* A table of @n numbers, @more than it had before. NULL: m->refusal says why. */
static uint32_t *merge_table(struct store_merge *m, uint32_t more, uint32_t n)
{
	uint64_t size = (uint64_t)more * sizeof(uint32_t);
	uint32_t *v;

	if (budget_hold_add(m->hold, size, &m->refusal) < 0)
		return NULL;
	m->held += size;
	v = calloc(n, sizeof(*v));
	if (!v)
		err_set(&m->refusal, ERR_LIMIT, "no memory for a table of %u numbers", n);
	return v;
}

/*
 * The new number of entry @i. Tables grow meanwhile: an entry found in one of them may refer to entries of
 * another that were not there at the start.
 */
static uint32_t *merged_number(struct store_merge *m, struct new_numbers *x, uint32_t i,
			       const struct column *c)
{
	if (i >= x->n) {
		uint32_t n = column_n(c) + 1024;
		uint32_t *v = merge_table(m, n - x->n, n);

		if (!v) {
			m->none = 0;
			return &m->none;
		}
		if (x->n)
			memcpy(v, x->v, x->n * sizeof(*v));
		free(x->v);
		x->v = v;
		x->n = n;
	}
	return &x->v[i];
}

/* ---- what locations are made of ---- */

static uint32_t merged_string(struct store_merge *m, uint32_t i)
{
	uint32_t *at = merged_number(m, &m->strings, i, &m->meta->strings);

	if (!*at)
		*at = profile_add_string(m->p, meta_str(m->meta, i)) + 1;
	return *at - 1;
}

static uint32_t merged_function(struct store_merge *m, uint32_t i)
{
	uint32_t *at = merged_number(m, &m->functions, i, &m->meta->functions);

	if (!*at) {
		const struct meta_function *f = meta_function_at(m->meta, i);
		struct profile_function new = { merged_string(m, f->name), merged_string(m, f->system_name),
						merged_string(m, f->file), f->start_line };

		*at = profile_add_function(m->p, &new) + 1;
	}
	return *at - 1;
}

/* What holds for a location with the first @n of m->lines: its mapping has what holds for all of its locations. */
static uint32_t flags_of(const struct store_merge *m, uint32_t n)
{
	uint32_t flags = n ? PROFILE_HAS_FUNCTIONS | PROFILE_HAS_FILENAMES | PROFILE_HAS_LINES |
					 PROFILE_HAS_INLINES
			   : 0;

	for (uint32_t i = 0; i < n; i++) {
		if (!m->p->functions.p[m->lines[i].function].file)
			flags &= ~(uint32_t)PROFILE_HAS_FILENAMES;
		if (!m->lines[i].line)
			flags &= ~(uint32_t)PROFILE_HAS_LINES;
	}
	return flags;
}

/*
 * The mapping says what addresses count from: one that begins at 0 has those of the ELF file; one that begins
 * in memory where it does in the file has file offsets.
 */
static uint32_t merged_mapping(struct store_merge *m, const struct meta_part *part, bool elf_addr,
			       uint32_t flags)
{
	const struct meta_binary *b = meta_binary_at(m->meta, part->binary);
	struct profile_mapping new = { .flags = flags };

	if (!part->binary)
		return PROFILE_NONE;
	new.file = merged_string(m, b->file);
	new.build_id = merged_string(m, b->build_id);
	if (part->kind == META_OFFSET && !elf_addr) {
		new.start = new.offset = part->offset;
		new.limit = part->size && part->offset + part->size > part->offset ? part->offset + part->size
										   : UINT64_MAX;
	} else {
		new.limit = UINT64_MAX;
	}
	return profile_add_mapping(m->p, &new);
}

/* Locations that look the same in the view become one. */
static void reduce_location(struct store_merge *m, struct profile_location *l, uint32_t n)
{
	if (m->shape.detail == PROFILESTORE_ADDRESSES || !n)
		return;
	l->addr_dropped = l->addr != 0;
	l->addr = 0;
	for (uint32_t k = 0; k < n; k++) {
		m->lines[k].column = 0;
		if (m->shape.detail == PROFILESTORE_FUNCTIONS)
			m->lines[k].line = 0;
	}
}

/* A location of the store as one of a profile; its lines are the first ones of m->lines. */
static struct profile_location location_of(struct store_merge *m, uint32_t i)
{
	const struct meta_location l = meta_location_at(m->meta, i);
	uint64_t word = meta_names_at(m->meta, i);
	struct meta_names names = meta_names_of(word);
	uint64_t elf_addr = word ? meta_elf_addr(m->meta, i) : 0;
	uint32_t first = l.first_line, n = l.n_lines;
	struct profile_location new = { .addr = elf_addr ? elf_addr : l.addr,
					.folded = l.flags & LOCATION_FOLDED };

	if (word && names.n_lines) {
		first = names.first_line;
		n = names.n_lines;
	}
	if (n > m->room_lines) {
		m->room_lines = MAX(n, 64u);
		m->lines = mem_realloc(m->lines, m->room_lines, sizeof(*m->lines));
	}
	for (uint32_t k = 0; k < n; k++) {
		const struct meta_line line = meta_line_at(m->meta, first + k);

		m->lines[k] = (struct profile_line){ merged_function(m, line.function), line.line,
						     line.column };
	}
	/* The table of functions may be empty. */
	if (profile_has_failed(m->p))
		return (struct profile_location){ 0 };
	new.n_lines = n;
	new.mapping = merged_mapping(m, meta_part_at(m->meta, l.part), elf_addr != 0, flags_of(m, n));
	return new;
}

static void count_hope(struct store_merge *m, uint32_t location)
{
	enum names_hope hope = names_hope(m->rd, location);

	m->n_pending += hope == NAMES_SOON;
	m->n_waiting += hope == NAMES_LATER;
}

static uint32_t merged_location(struct store_merge *m, uint32_t i)
{
	struct profile_location new = location_of(m, i);
	uint32_t before, number;

	if (profile_has_failed(m->p))
		return 0;
	count_hope(m, i);
	before = m->p->locations.n;
	reduce_location(m, &new, new.n_lines);
	number = profile_add_location(m->p, &new, m->lines, new.n_lines);
	m->shared |= number < before;
	return number;
}

/* ---- stacks and samples ---- */

#define STEPS_OF_STACK 32u /* copying one takes some cache misses */

/* Before a word of stacks is copied: has the deadline passed? */
static bool merge_is_late(struct store_merge *m, uint64_t word)
{
	return deadline_over(m->deadline, 1 + STEPS_OF_STACK * (uint32_t)__builtin_popcountll(word));
}

static uint32_t merged_stack(struct store_merge *m, const struct meta_stack *st)
{
	uint32_t *location = merged_number(m, &m->locations, st->location, &m->meta->locations),
		 callers = st->parent ? m->stacks.v[st->parent] - 1 : 0;

	if (!*location)
		*location = merged_location(m, st->location) + 1;
	return (m->shared ? profile_add_stack : profile_append_stack)(m->p, callers, *location - 1);
}

void store_merge_mark(struct store_merge *m, struct sums *sums, bool all)
{
	uint64_t *wanted = sums->seen;

	for (size_t w = sums->n / 64 + 1; !m->refusal.kind && sums_word_before(sums, &w);)
		/* A caller may be in the same word, so it is read again each time. */
		for (uint64_t below = ~(uint64_t)0; wanted[w] & below;) {
			unsigned bit = 63 - (unsigned)__builtin_clzll(wanted[w] & below);
			uint32_t i = (uint32_t)(w * 64 + bit), parent = meta_stack_at(m->meta, i)->parent;

			if (all || !*merged_number(m, &m->stacks, i, &m->meta->stacks))
				sums_see(sums, parent);
			below = ((uint64_t)1 << bit) - 1;
		}
}

/* The stacks that are marked, callers first. */
static void copy_stacks(struct store_merge *m, const struct sums *sums)
{
	sums_each_word(sums, w)
	{
		if (m->refusal.kind || merge_is_late(m, sums->seen[w]))
			return;
		for (uint64_t bits = sums->seen[w]; bits; bits &= bits - 1) {
			uint32_t i = (uint32_t)(w * 64) + (uint32_t)__builtin_ctzll(bits);
			uint32_t *at = merged_number(m, &m->stacks, i, &m->meta->stacks);

			if (m->refusal.kind || profile_has_failed(m->p))
				return;
			if (i && !*at)
				*at = merged_stack(m, meta_stack_at(m->meta, i)) + 1;
		}
	}
}

/*
 * Each stack has one sample of each part. If several stacks have become one, their samples do, too: the last sample
 * of a stack is of this part if it is not before @first.
 */
static void copy_sample(struct store_merge *m, uint32_t stack, uint32_t labels, int64_t value, uint32_t first)
{
	uint32_t *last = m->samples.v ? &m->samples.v[stack] : NULL;

	if (last && *last > first) {
		int64_t *to = &m->p->values[*last - 1];

		*to = add_saturating(*to, value);
		return;
	}
	profile_append_sample(m->p, stack, labels, &value);
	if (last)
		*last = m->p->n_samples;
}

static int samples_reserve(struct store_merge *m, struct err *err)
{
	uint32_t n = m->p->stacks.n, room = m->samples.room, *v;

	if (!m->shared || n <= room)
		return 0;
	n += n / 4;
	v = merge_table(m, n - room, n);
	if (!v)
		return store_merge_refused(m, err);
	if (room)
		memcpy(v, m->samples.v, (size_t)room * sizeof(*v));
	free(m->samples.v);
	m->samples.v = v;
	m->samples.room = n;
	return 0;
}

static int copy_samples(struct store_merge *m, const struct sums *sums, uint32_t labels, struct err *err)
{
	uint32_t first = m->p->n_samples;

	if (samples_reserve(m, err) < 0)
		return -1;
	sums_each_word(sums, w)
	{
		if (merge_is_late(m, sums->seen[w]))
			break;
		for (uint64_t bits = sums->seen[w]; bits; bits &= bits - 1) {
			uint32_t i = (uint32_t)(w * 64) + (uint32_t)__builtin_ctzll(bits);

			if (sums->values[i])
				copy_sample(m, i ? m->stacks.v[i] - 1 : 0, labels, sums->values[i], first);
		}
	}
	return 0;
}

/* ---- stacks that stay in the store ---- */

static struct profile_stack stored_stack(const void *arg, uint32_t stack)
{
	const struct store_merge *m = arg;
	const struct meta_stack *st = meta_stack_at(m->meta, stack);

	return (struct profile_stack){ st->parent, m->locations.v[st->location] - 1 };
}

/* Call @take for each location that is new; it returns the number that the location gets. */
static int each_location(struct store_merge *m, const struct sums *sums,
			 uint32_t (*take)(struct store_merge *m, uint32_t location), struct err *err)
{
	sums_each_word(sums, w)
	{
		if (merge_is_late(m, sums->seen[w]))
			return deadline_check(m->deadline, 0, err);
		for (uint64_t bits = sums->seen[w]; bits; bits &= bits - 1) {
			uint32_t i = (uint32_t)(w * 64) + (uint32_t)__builtin_ctzll(bits), location, *at;

			if (!i)
				continue;
			location = meta_stack_at(m->meta, i)->location;
			at = merged_number(m, &m->locations, location, &m->meta->locations);
			if (!*at && !m->refusal.kind)
				*at = take(m, location) + 1;
			if (m->refusal.kind)
				return store_merge_refused(m, err);
			if (profile_build_end(m->p, err) < 0)
				return -1;
		}
	}
	return 0;
}

#define LENT_NEW UINT32_MAX /* its number follows */

/* It stays in the store, too. */
static uint32_t mark_location(struct store_merge *m, uint32_t location)
{
	count_hope(m, location);
	m->n_marked++;
	return LENT_NEW - 1;
}

/* Numbers rise with those of the store, so that a reader finds them in order. */
static void number_marked(struct store_merge *m)
{
	for (uint32_t i = 0; m->n_marked && i < m->locations.n; i++)
		if (m->locations.v[i] == LENT_NEW) {
			m->locations.v[i] = ++m->n_lent;
			m->n_marked--;
		}
}

static struct profilestore_merged merged_so_far(const struct store_merge *m)
{
	return (struct profilestore_merged){
		m->p, m->n_profiles, m->n_samples, m->n_pending, m->n_waiting, 0
	};
}

static uint32_t merged_labels(struct store_merge *m, const struct series *x)
{
	struct str value = series_label(x, m->shape.label);
	struct profile_label l = { 0 };

	if (!m->shape.label.size || !value.size)
		return 0;
	l.key = profile_add_string(m->p, m->shape.label);
	l.str = profile_add_string(m->p, value);
	return profile_add_labels(m->p, &l, 1);
}

static uint64_t sums_n_seen(const struct sums *sums)
{
	uint64_t n = 0;

	sums_each_word(sums, w) n += (unsigned)__builtin_popcountll(sums->seen[w]);
	return n;
}

int store_merge_lend(struct store_merge *m, const struct series *x, struct sums *sums, struct sums *base,
		     struct err *err)
{
	struct profile_trie in = { .n = base ? MIN(sums->n, base->n) : sums->n,
				   .seen = sums->seen,
				   .words = sums->words,
				   .values = sums->values,
				   .base = base ? base->values : NULL,
				   .scale = 1,
				   .total = m->totals[0],
				   .base_total = m->totals[1],
				   .stack = stored_stack,
				   .arg = m };
	struct profilestore_merged so_far;

	/* A value of the label without samples in the range is no frame of the answer, as it is none if stacks are copied. */
	if (m->shape.label.size && !sums_n_seen(sums)) {
		sums_clear(sums);
		return 0;
	}
	if (each_location(m, sums, m->shape.locations ? mark_location : merged_location, err) < 0)
		return -1;
	number_marked(m);
	in.labels = x ? merged_labels(m, x) : 0;
	if (profile_build_end(m->p, err) < 0)
		return -1;
	if (!m->shape.locations && !m->shape.label.size)
		profile_pack(m->p);
	so_far = merged_so_far(m);
	if (m->shape.stacks(m->shape.arg, &so_far, &in, err) < 0)
		return -1;
	sums_clear(sums);
	return 0;
}

static bool next_location(void *arg, uint32_t *ret_number, struct profile_location *ret,
			  const struct profile_line **ret_lines)
{
	struct store_merge *m = arg;

	while (m->next_lent < m->locations.n && !m->locations.v[m->next_lent])
		m->next_lent++;
	if (m->next_lent >= m->locations.n || m->refusal.kind)
		return false;
	*ret_number = m->locations.v[m->next_lent] - 1;
	*ret = location_of(m, m->next_lent++);
	*ret_lines = m->lines;
	return true;
}

int store_merge_lend_locations(struct store_merge *m, struct err *err)
{
	const struct profile_lent_locations list = { next_location, m };
	struct profilestore_merged all = merged_so_far(m);

	m->next_lent = 0;
	if (m->shape.locations(m->shape.arg, &all, &list, err) < 0)
		return -1;
	/* The list ends early if there is no memory. */
	return m->refusal.kind ? store_merge_refused(m, err) : 0;
}

void store_merge_type(struct store_merge *m, const struct series *x)
{
	m->first = x;
	profile_add_type(m->p, x->texts[SERIES_TYPE], x->texts[SERIES_UNIT]);
	m->p->period_type.type = profile_add_string(m->p, x->texts[SERIES_PERIOD_TYPE]);
	m->p->period_type.unit = profile_add_string(m->p, x->texts[SERIES_PERIOD_UNIT]);
}

void store_merge_count(struct store_merge *m, const struct sums *sums)
{
	m->n_profiles += sums->n_profiles;
	m->n_samples += sums->n_samples;
	m->duration_ms = add_saturating(m->duration_ms, sums->duration_ms);
	m->period = MAX(m->period, sums->period);
	m->first_ms = MIN(m->first_ms, sums->first_ms);
}

int store_merge_copy(struct store_merge *m, const struct series *x, struct sums *sums, struct err *err)
{
	copy_stacks(m, sums);
	if (m->refusal.kind)
		return store_merge_refused(m, err);
	if (profile_build_end(m->p, err) < 0 || copy_samples(m, sums, merged_labels(m, x), err) < 0)
		return -1;
	if (deadline_check(m->deadline, sums->n / 64, err) < 0)
		return -1;
	store_merge_count(m, sums);
	sums_clear(sums);
	return profile_build_end(m->p, err);
}

static int merged_part(void *arg, const struct series *x, struct sums *sums, struct err *err)
{
	struct store_merge *m = arg;

	if (!m->first)
		store_merge_type(m, x);
	/* An answer may take seconds to make; copies of one value of many take less than a snapshot. */
	if (m->lends || !m->shape.label.size)
		reader_rest(m->rd);
	/* Values that are copied have most callers in common. */
	store_merge_mark(m, sums, m->lends || (m->shape.stacks && !m->shape.label.size));
	if (m->refusal.kind)
		return store_merge_refused(m, err);
	if (m->lends ||
	    (m->shape.stacks && !m->shape.label.size && sums_n_seen(sums) >= m->shape.lend_from)) {
		store_merge_count(m, sums);
		return store_merge_lend(m, x, sums, NULL, err);
	}
	return store_merge_copy(m, x, sums, err);
}

void store_merge_header(struct store_merge *m)
{
	struct profile *p = m->p;

	if (!m->n_profiles)
		return;
	if (__builtin_mul_overflow(m->first_ms, 1000000, &p->time_ns))
		p->time_ns = 0;
	if (__builtin_mul_overflow(m->duration_ms, 1000000, &p->duration_ns))
		p->duration_ns = INT64_MAX;
	p->period = m->period;
}

static void store_merge_done(struct store_merge *m)
{
	free(m->stacks.v);
	free(m->locations.v);
	free(m->functions.v);
	free(m->strings.v);
	free(m->samples.v);
	free(m->lines);
	if (m->hold)
		budget_hold_sub(m->hold, m->held);
}

void store_merge_init(struct store_merge *m, struct reader *rd, const struct profilestore_shape *shape,
		      const struct profile_limits *limits, struct deadline *deadline)
{
	*m = (struct store_merge){
		.rd = rd,
		.meta = rd->meta,
		.deadline = deadline,
		.hold = limits ? limits->memory : NULL,
		.first_ms = INT64_MAX,
	};
	if (shape)
		m->shape = *shape;
	m->p = profile_new(limits);
}

int store_merge_end(struct store_merge *m, int res, uint64_t n_damaged, struct profilestore_merged *ret)
{
	store_merge_done(m);
	if (res < 0) {
		profile_free(m->p);
		return -1;
	}
	profile_pack(m->p);
	*ret = merged_so_far(m);
	ret->n_damaged = n_damaged;
	return 0;
}

/* With a label it is decided before the first value: the range is read once more, if the store has so many stacks. */
static int decide_lending(struct store_merge *m, struct reader *rd, const struct profilestore_range *r,
			  struct sums *sums, struct err *err)
{
	const struct range_options all = { 0 };

	m->lends = m->shape.stacks && (m->shape.locations || !m->shape.lend_from);
	if (m->lends || !m->shape.stacks || !m->shape.label.size ||
	    column_n(&m->meta->stacks) < m->shape.lend_from)
		return 0;
	if (range_sums(rd, r, &all, sums, err) < 0)
		return -1;
	store_merge_mark(m, sums, true);
	m->lends = sums_n_seen(sums) >= m->shape.lend_from;
	sums_clear(sums);
	return m->refusal.kind ? store_merge_refused(m, err) : 0;
}

static int merge_range(struct reader *rd, const struct profilestore_range *r,
		       const struct profilestore_shape *shape, const struct profile_limits *limits,
		       struct profilestore_merged *ret, struct err *err)
{
	struct store_merge m;
	const struct range_options o = { .part = merged_part,
					 .label = shape ? shape->label : STR(""),
					 .arg = &m };
	struct sums sums = { 0 };
	int res;

	store_merge_init(&m, rd, shape, limits, r->deadline);
	res = sums_init(&sums, rd->meta, m.hold, err);
	if (res == 0 && m.shape.begin)
		m.shape.begin(m.shape.arg);
	if (res == 0)
		res = decide_lending(&m, rd, r, &sums, err);
	if (res == 0)
		res = range_sums(rd, r, &o, &sums, err);
	if (res == 0 && m.shape.end)
		res = m.shape.end(m.shape.arg, err);
	sums_done(&sums);
	store_merge_header(&m);
	if (res == 0 && m.shape.locations)
		res = store_merge_lend_locations(&m, err);
	return store_merge_end(&m, res, damage_lost_in(rd->s, r), ret);
}

int profilestore_merge(struct profilestore *s, const struct profilestore_range *r,
		       const struct profilestore_shape *shape, const struct profile_limits *limits,
		       struct profilestore_merged *ret, struct err *err)
{
	struct reader rd;
	int res;

	do {
		res = reader_begin(s, &rd, err);
		if (res == 0)
			res = (shape && shape->base ? store_merge_both : merge_range)(&rd, r, shape, limits,
										      ret, err);
	} while (reader_again(s, &rd, res, err));
	return res;
}
