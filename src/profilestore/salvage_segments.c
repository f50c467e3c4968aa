/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The metadata store of a damaged database: sound rows are copied. Numbers are permanent, so entries that are lost
 * get placeholders, which show as "(damaged)" in stacks. All rows are read first, to know how many entries there
 * were, and which stacks are needed.
 */
#include "profilestore/salvage_internal.h"

#include "base/leb.h"

#define FILLER_ROW   65536u /* placeholders of one row */
#define DAMAGED_NAME "(damaged)"

enum {
	STACK_THERE = 1 << 0,
	STACK_HOLE = 1 << 1,   /* its number is free */
	STACK_NEEDED = 1 << 2, /* a profile or a callee refers to it */
};

/* ---- counting the entries ---- */

static uint64_t max_entries(const struct salvage *x, enum segment_kind kind)
{
	uint64_t a_byte = kind == SEGMENT_STACKS ? SALVAGE_STACKS_A_BYTE : SALVAGE_ENTRIES_A_BYTE;

	if (!x->file_size || x->file_size > SALVAGE_MAX_ENTRIES / a_byte)
		return SALVAGE_MAX_ENTRIES;
	return x->file_size * a_byte;
}

static void refer(struct salvage *x, enum segment_kind kind, uint64_t number)
{
	if (number < max_entries(x, kind))
		x->n[kind] = MAX(x->n[kind], number + 1);
}

static void count_references(struct salvage *x, enum segment_kind kind, struct cursor *c)
{
	uint64_t a = cursor_uleb(c);

	switch (kind) {
	case SEGMENT_STRINGS:
		(void)cursor_bytes(c, a);
		break;
	case SEGMENT_FUNCTIONS:
		refer(x, SEGMENT_STRINGS, a);
		refer(x, SEGMENT_STRINGS, a + (uint64_t)unzigzag(cursor_uleb(c)));
		refer(x, SEGMENT_STRINGS, cursor_uleb(c));
		(void)cursor_uleb(c);
		break;
	case SEGMENT_LINES:
		refer(x, SEGMENT_FUNCTIONS, a);
		(void)cursor_uleb(c);
		(void)cursor_uleb(c);
		break;
	case SEGMENT_BINARIES:
		refer(x, SEGMENT_STRINGS, a);
		refer(x, SEGMENT_STRINGS, cursor_uleb(c));
		break;
	case SEGMENT_PARTS:
		refer(x, SEGMENT_BINARIES, a);
		for (int i = 0; i < 3; i++)
			(void)cursor_uleb(c);
		break;
	case SEGMENT_LOCATIONS: {
		uint64_t n;

		refer(x, SEGMENT_PARTS, a);
		(void)cursor_uleb(c);
		n = cursor_uleb(c) >> 2;
		if (n)
			refer(x, SEGMENT_LINES, cursor_uleb(c) + n - 1);
		break;
	}
	case SEGMENT_STACKS:
		refer(x, SEGMENT_LOCATIONS, cursor_uleb(c));
		break;
	case SEGMENT_REUSED:
		(void)cursor_uleb(c);
		refer(x, SEGMENT_LOCATIONS, cursor_uleb(c));
		break;
	case SEGMENT_NAMES: {
		struct meta_names n = meta_names_of(cursor_uleb(c));

		refer(x, SEGMENT_LOCATIONS, a);
		if (n.n_lines)
			refer(x, SEGMENT_LINES, (uint64_t)n.first_line + n.n_lines - 1);
		(void)cursor_uleb(c);
		break;
	}
	case SEGMENT_N_KINDS:
		break;
	}
}

struct stack_entry {
	uint64_t up, location, n; /* up 0: @n numbers that are free */
};

static struct stack_entry read_stack(struct cursor *c)
{
	struct stack_entry e = { .n = 1 };

	e.up = cursor_uleb(c);
	e.location = cursor_uleb(c);
	if (!e.up)
		e.n = MIN(e.location, SALVAGE_MAX_ENTRIES);
	return e;
}

/* The numbers that the next entry takes. */
static uint64_t entry_numbers(enum segment_kind kind, struct cursor *c)
{
	if (kind == SEGMENT_STACKS)
		return read_stack(c).n;
	count_references(&(struct salvage){ 0 }, kind, c);
	return 1;
}

static void mark_stack(struct salvage *x, uint64_t i, uint8_t what)
{
	if (i >= max_entries(x, SEGMENT_STACKS))
		return;
	if (i >= x->n_stacks) {
		uint64_t n = MAX(i + 1, x->n_stacks * 2);

		x->stacks = mem_realloc(x->stacks, n, 1);
		memset(x->stacks + x->n_stacks, 0, n - x->n_stacks);
		x->n_stacks = n;
	}
	x->stacks[i] |= what;
}

/* The stacks of a row, and those that they refer to. */
static void mark_stacks(struct salvage *x, uint64_t first, struct cursor c)
{
	for (uint64_t i = first; cursor_ok(&c) && cursor_left(&c);) {
		struct stack_entry e = read_stack(&c);

		if (e.up && e.up <= i)
			mark_stack(x, i - e.up, STACK_NEEDED);
		if (e.up)
			refer(x, SEGMENT_LOCATIONS, e.location);
		for (uint64_t end = i + e.n; i < end; i++)
			mark_stack(x, i, e.up ? STACK_THERE : STACK_HOLE);
	}
}

static void mark_reused(struct salvage *x, struct cursor c)
{
	while (cursor_ok(&c) && cursor_left(&c)) {
		uint64_t i = cursor_uleb(&c), up = cursor_uleb(&c);

		refer(x, SEGMENT_LOCATIONS, cursor_uleb(&c));
		mark_stack(x, i, STACK_THERE);
		if (up <= i)
			mark_stack(x, i - up, STACK_NEEDED);
	}
}

static uint8_t stack_state(const struct salvage *x, uint64_t i)
{
	return i < x->n_stacks ? x->stacks[i] : 0;
}

/* Whether a stack needs a placeholder. */
static bool stack_is_lost(const struct salvage *x, uint64_t i)
{
	return i && (stack_state(x, i) & (STACK_THERE | STACK_NEEDED)) == STACK_NEEDED;
}

/* A row of segment that can be used. */
struct segment_row {
	enum segment_kind kind;
	uint64_t first, n;
	struct bytes data;
};

/* The row is of the current generation, and its digest is right. */
static bool sound_segment(const struct salvage *x, struct db_stmt *st, struct segment_row *ret)
{
	int64_t id = db_i64(st, 0), kind = segment_kind_of(id);
	struct cursor c;

	ret->data = db_bytes(st, 2);
	if (id >> SEGMENT_KEY_BITS != x->generation || kind < SEGMENT_STRINGS || kind >= SEGMENT_N_KINDS ||
	    (uint64_t)db_i64(st, 1) != segment_digest((enum segment_kind)kind, ret->data))
		return false;
	ret->kind = (enum segment_kind)kind;
	ret->first = (uint64_t)segment_first_of(id);
	/* The digest does not cover the number of entries, so they are counted. */
	c = cursor_of(ret->data);
	for (ret->n = 0; cursor_ok(&c) && cursor_left(&c);)
		ret->n += entry_numbers(ret->kind, &c);
	return cursor_ok(&c) && ret->n && ret->first + ret->n <= max_entries(x, ret->kind);
}

static int count_segment(struct salvage *x, struct db_stmt *st, struct err *err)
{
	struct segment_row row;
	struct cursor c;

	if (!sound_segment(x, st, &row))
		return 0;
	c = cursor_of(row.data);
	if (row.kind < SEGMENT_NAMES)
		refer(x, row.kind, row.first + row.n - 1);
	if (row.kind == SEGMENT_STACKS)
		mark_stacks(x, row.first, c);
	if (row.kind == SEGMENT_REUSED)
		mark_reused(x, c);
	if (row.kind == SEGMENT_STACKS || row.kind == SEGMENT_REUSED)
		return 0;
	for (uint64_t i = 0; i < row.n && cursor_ok(&c); i++)
		count_references(x, row.kind, &c);
	return 0;
}

/* ---- copying ---- */

static int put_segment(struct salvage *x, const struct segment_row *row, struct err *err)
{
	struct db_stmt *in;

	if (db_prepare(x->to, "INSERT INTO segment VALUES (?, ?, ?, ?)", &in, err) < 0)
		return -1;
	/* The copy has generation 0. */
	db_bind_i64(in, 1, segment_key(0, row->kind, (uint32_t)row->first));
	db_bind_i64(in, 2, (int64_t)row->n);
	db_bind_i64(in, 3, (int64_t)segment_digest(row->kind, row->data));
	db_bind_bytes(in, 4, row->data);
	return db_step(in, err);
}

static void put_placeholder(const struct salvage *x, enum segment_kind kind, uint64_t i, struct buf *out)
{
	switch (kind) {
	case SEGMENT_STRINGS:
		buf_add_uleb(out, strlen(DAMAGED_NAME));
		buf_add_str(out, STR(DAMAGED_NAME));
		break;
	case SEGMENT_FUNCTIONS:
		buf_add_uleb(out, x->string);
		buf_add_uleb(out, 0);
		buf_add_uleb(out, 0);
		buf_add_uleb(out, 0);
		break;
	case SEGMENT_LINES:
		buf_add_uleb(out, x->function);
		buf_add_uleb(out, 0);
		buf_add_uleb(out, 0);
		break;
	case SEGMENT_BINARIES:
		buf_add_uleb(out, x->string);
		buf_add_uleb(out, 0);
		break;
	case SEGMENT_PARTS:
		buf_add_uleb(out, 0);
		buf_add_uleb(out, META_RUNTIME);
		buf_add_uleb(out, i);
		buf_add_uleb(out, 0);
		break;
	case SEGMENT_LOCATIONS:
		buf_add_uleb(out, 0);
		buf_add_uleb(out, 0);
		buf_add_uleb(out, 1 << 2);
		buf_add_uleb(out, x->line);
		break;
	case SEGMENT_STACKS:
	case SEGMENT_REUSED:
	case SEGMENT_NAMES:
	case SEGMENT_N_KINDS:
		break;
	}
}

/* The placeholder of stack @i, or all free numbers from there to @to. Returns how many numbers it is. */
static uint64_t put_stacks(struct salvage *x, uint64_t i, uint64_t to, struct buf *out)
{
	uint64_t n = 0;

	while (i + n < to && !stack_is_lost(x, i + n))
		n++;
	buf_add_uleb(out, n ? 0 : i);
	buf_add_uleb(out, n ? n : x->location + x->n_locations++);
	return MAX(n, (uint64_t)1);
}

/* Stacks with numbers that were free once, whose entries are lost. */
static int put_lost_reused(struct salvage *x, uint64_t first, struct err *err)
{
	struct segment_row row = { .kind = SEGMENT_REUSED, .first = first };
	AUTO(buf_done) struct buf b = { 0 };

	for (uint64_t i = 0; i < x->n[SEGMENT_STACKS]; i++)
		if (stack_state(x, i) & STACK_HOLE && stack_is_lost(x, i)) {
			buf_add_uleb(&b, i);
			buf_add_uleb(&b, i);
			buf_add_uleb(&b, x->location + x->n_locations++);
			row.n++;
		}
	row.data = buf_bytes(&b);
	x->n_filled += row.n;
	return row.n ? put_segment(x, &row, err) : 0;
}

/* Placeholders for the entries of @kind before number @to that are lost. */
static int fill_gap(struct salvage *x, enum segment_kind kind, uint64_t to, struct err *err)
{
	AUTO(buf_done) struct buf b = { 0 };

	while (x->have[kind] < to) {
		struct segment_row row = { .kind = kind, .first = x->have[kind] };

		b.size = 0;
		for (uint64_t n; x->have[kind] < to && row.n < FILLER_ROW; row.n += n, x->have[kind] += n) {
			n = 1;
			if (kind == SEGMENT_STACKS)
				n = put_stacks(x, x->have[kind], to, &b);
			else
				put_placeholder(x, kind, x->have[kind], &b);
		}
		row.data = buf_bytes(&b);
		x->n_filled += row.n;
		if (put_segment(x, &row, err) < 0)
			return -1;
	}
	return 0;
}

static int copy_segment(struct salvage *x, struct db_stmt *st, struct err *err)
{
	struct segment_row row;

	if (!sound_segment(x, st, &row))
		return 0;
	if (row.kind >= SEGMENT_NAMES) {
		/* Their numbers mean nothing. */
		row.first = x->have[row.kind];
		x->have[row.kind] += row.n;
		return put_segment(x, &row, err);
	}
	/* Rows do not overlap. */
	if (row.first < x->have[row.kind])
		return 0;
	if (fill_gap(x, row.kind, row.first, err) < 0)
		return -1;
	x->have[row.kind] += row.n;
	return put_segment(x, &row, err);
}

static const char segments_sql[] = "SELECT id, digest, data FROM segment WHERE id >= ? ORDER BY id";

static int count_sound(struct salvage *x, struct db_stmt *st, struct err *err)
{
	struct segment_row row;

	if (sound_segment(x, st, &row) && row.kind < SEGMENT_NAMES && row.first >= x->have[row.kind]) {
		x->gaps |= row.first > x->have[row.kind];
		x->have[row.kind] = row.first + row.n;
	}
	return 0;
}

/* The numbers that an empty store has, which are not stored. */
static void begin_entries(uint64_t have[SEGMENT_N_KINDS])
{
	for (int k = 0; k < SEGMENT_N_KINDS; k++)
		have[k] = k != SEGMENT_LINES && k != SEGMENT_LOCATIONS && k < SEGMENT_NAMES;
}

int salvage_copy_segments(struct salvage *x, struct err *err)
{
	uint64_t n_lost_stacks = 0;

	begin_entries(x->have);
	if (salvage_each_row(x, segments_sql, count_segment, err) < 0 ||
	    salvage_each_row(x, segments_sql, count_sound, err) < 0)
		return -1;
	for (int k = SEGMENT_STRINGS; k < SEGMENT_NAMES; k++)
		x->gaps |= x->n[k] > x->have[k];
	for (uint64_t i = 0; i < x->n_stacks; i++)
		n_lost_stacks += stack_is_lost(x, i);
	x->gaps |= n_lost_stacks != 0;
	if (x->gaps) {
		/* Entries after all others, which placeholders refer to; they are placeholders, too. */
		begin_entries(x->have);
		for (int k = SEGMENT_STRINGS; k < SEGMENT_NAMES; k++)
			x->n[k] = MAX(x->n[k], x->have[k]);
		x->string = x->n[SEGMENT_STRINGS]++;
		x->function = x->n[SEGMENT_FUNCTIONS]++;
		x->line = x->n[SEGMENT_LINES]++;
		x->location = x->n[SEGMENT_LOCATIONS];
		x->n[SEGMENT_LOCATIONS] += n_lost_stacks + 1;
	}
	begin_entries(x->have);
	if (salvage_each_row(x, segments_sql, copy_segment, err) < 0)
		return -1;
	for (int k = SEGMENT_STRINGS; x->gaps && k < SEGMENT_NAMES; k++)
		if (fill_gap(x, (enum segment_kind)k, x->n[k], err) < 0)
			return -1;
	return x->gaps ? put_lost_reused(x, x->have[SEGMENT_REUSED], err) : 0;
}

void salvage_need_stack(struct salvage *x, uint64_t stack)
{
	mark_stack(x, stack, STACK_NEEDED);
}

void salvage_need_stacks_to(struct salvage *x, uint64_t last)
{
	refer(x, SEGMENT_STACKS, last);
}
