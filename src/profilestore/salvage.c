/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Repair of a damaged database: all rows whose digests are right are copied into a new one, and the damaged one is
 * set aside.
 *
 * It is read without the digests of pages, since a page with one wrong byte still has many rows; each row that is
 * taken has a digest of its own, except for series. Totals are computed anew. Numbers are permanent: entries of the
 * metadata store that are lost get placeholders, which show as "(damaged)" in stacks. Rollups are made again, and
 * naming tries again what it does not know.
 */
#include "profilestore/salvage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/leb.h"
#include "profilestore/internal.h"

#define ID_BITS      40
#define FILLER_ROW   65536u /* placeholders of one row */
#define MAX_ENTRIES  ((uint64_t)COLUMN_MAX_ENTRIES)
#define DAMAGED_NAME "(damaged)"
#define MAX_REASON   400
#define KIND_MASK    ((1 << (SEGMENT_KEY_BITS - ID_BITS)) - 1)

enum {
	STACK_THERE = 1 << 0,
	STACK_HOLE = 1 << 1,   /* its number is free */
	STACK_NEEDED = 1 << 2, /* a profile or a callee refers to it */
};

struct salvage {
	struct db *from, *to;
	uint64_t n[SEGMENT_N_KINDS];    /* entries of each table, with those that are lost */
	uint64_t have[SEGMENT_N_KINDS]; /* entries that were copied, or got placeholders */
	uint64_t n_filled;
	bool gaps;
	/* entries that placeholders refer to; each stack has a location of its own */
	uint64_t string, function, line, location, n_locations;
	int64_t generation;
	uint8_t *stacks; /* STACK_*, by number; n_stacks of them */
	uint64_t n_stacks;
	uint64_t n_profiles, n_samples, n_lost;
	int64_t last_id;
};

/* ---- rows of a damaged table ---- */

typedef int (*row_fn)(struct salvage *x, struct db_stmt *st, struct err *err);

/* 1: the first row with a number from @id on can be read, and has number *ret. 0: there is none. -1: damage. */
static int probe_row(struct db *db, const char *sql, int64_t id, int64_t *ret)
{
	struct db_stmt *st;

	if (db_prepare(db, sql, &st, NULL) < 0)
		return -1;
	db_bind_i64(st, 1, id);
	return db_step_i64(st, ret, NULL);
}

/* The first number after @id from which on rows can be read again; 0: no more. */
static int64_t skip_damage(struct db *db, const char *sql, int64_t id)
{
	int64_t bad = id, step = 1, found = 0;
	int r;

	while ((r = probe_row(db, sql, bad + step, &found)) < 0) {
		bad += step;
		if (step > INT64_MAX / 4)
			return 0;
		step *= 2;
	}
	/* The readable rows may begin anywhere after the last number that failed. */
	for (int64_t good = bad + step; good - bad > 1;) {
		int64_t mid = bad + (good - bad) / 2;

		r = probe_row(db, sql, mid, &found);
		if (r < 0)
			bad = mid;
		else
			good = mid;
	}
	r = probe_row(db, sql, bad + 1, &found);
	return r == DB_ROW ? found : 0;
}

/* @sql selects rows with numbers from ?1 on, by number, the number first. Its error is that of @row. */
static int salvage_each_row(struct salvage *x, const char *sql, row_fn row, struct err *err)
{
	int64_t id = 1;

	for (;;) {
		struct db_stmt *st;
		int r;

		if (db_prepare(x->from, sql, &st, NULL) < 0)
			return 0;
		db_bind_i64(st, 1, id);
		while ((r = db_step(st, NULL)) == DB_ROW) {
			/* A table that is damaged may lead in a circle. */
			if (db_i64(st, 0) < id) {
				r = -1;
				break;
			}
			id = db_i64(st, 0) + 1;
			if (row(x, st, err) < 0) {
				db_reset(st);
				return -1;
			}
		}
		db_reset(st);
		if (r == DB_DONE)
			return 0;
		id = skip_damage(x->from, sql, id);
		if (!id)
			return 0;
	}
}

/* ---- counting the entries ---- */

static void refer(struct salvage *x, enum segment_kind kind, uint64_t number)
{
	if (number < MAX_ENTRIES)
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
		e.n = MIN(e.location, MAX_ENTRIES);
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
	if (i >= MAX_ENTRIES)
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

static bool sound_segment(struct db_stmt *st, struct segment_row *ret)
{
	int64_t id = db_i64(st, 0), kind = id >> ID_BITS & KIND_MASK;
	struct cursor c;

	ret->data = db_bytes(st, 2);
	if (kind < SEGMENT_STRINGS || kind >= SEGMENT_N_KINDS ||
	    (uint64_t)db_i64(st, 1) != hash64(ret->data.p, ret->data.size, (uint64_t)kind))
		return false;
	ret->kind = (enum segment_kind)kind;
	ret->first = (uint64_t)id & (((uint64_t)1 << ID_BITS) - 1);
	/* The digest does not cover the number of entries, so they are counted. */
	c = cursor_of(ret->data);
	for (ret->n = 0; cursor_ok(&c) && cursor_left(&c);)
		ret->n += entry_numbers(ret->kind, &c);
	return cursor_ok(&c) && ret->n && ret->first + ret->n <= MAX_ENTRIES;
}

static int count_segment(struct salvage *x, struct db_stmt *st, struct err *err)
{
	struct segment_row row;
	struct cursor c;

	if (!sound_segment(st, &row))
		return 0;
	if (db_i64(st, 0) >> SEGMENT_KEY_BITS != x->generation)
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

/* ---- profiles ---- */

struct profile_sums {
	uint64_t n, last_stack;
	int64_t total;
};

/* Add up a row of samples; false: it is damaged. */
static bool add_up_samples(struct salvage *x, struct bytes data, struct profile_sums *ret)
{
	struct cursor c = cursor_of(data);
	uint64_t n = cursor_uleb(&c), unit = cursor_uleb(&c), stack = 0;

	*ret = (struct profile_sums){ .n = n };
	for (uint64_t i = 0; i < n && cursor_ok(&c); i++) {
		stack += cursor_uleb(&c);
		mark_stack(x, stack, STACK_NEEDED);
		ret->total = add_saturating(ret->total,
					    (int64_t)((uint64_t)unzigzag(cursor_uleb(&c)) * unit));
	}
	ret->last_stack = stack;
	return cursor_ok(&c) && !cursor_left(&c) && stack < MAX_ENTRIES;
}

static const char profiles_sql[] = "SELECT id, series, time_ms, duration_ms, period, digest, data FROM "
				   "profile WHERE id >= ? ORDER BY id";

static int copy_profile(struct salvage *x, struct db_stmt *st, struct err *err)
{
	int64_t series = db_i64(st, 1), time_ms = db_i64(st, 2), duration_ms = db_i64(st, 3);
	struct bytes data = db_bytes(st, 6);
	struct profile_sums sums;
	struct db_stmt *in;

	if (series <= 0 || series > UINT32_MAX || time_ms < 0 ||
	    (uint64_t)db_i64(st, 5) != samples_digest((uint32_t)series, time_ms, duration_ms, data) ||
	    !add_up_samples(x, data, &sums)) {
		x->n_lost++;
		return 0;
	}
	refer(x, SEGMENT_STACKS, sums.last_stack);
	if (db_prepare(x->to, "INSERT OR IGNORE INTO profile VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", &in, err) <
	    0)
		return -1;
	db_bind_i64(in, 1, db_i64(st, 0));
	db_bind_i64(in, 2, series);
	db_bind_i64(in, 3, time_ms);
	db_bind_i64(in, 4, duration_ms);
	db_bind_i64(in, 5, sums.total);
	db_bind_i64(in, 6, (int64_t)sums.n);
	db_bind_i64(in, 7, db_i64(st, 4));
	db_bind_i64(in, 8, db_i64(st, 5));
	db_bind_bytes(in, 9, data);
	x->last_id = MAX(x->last_id, db_i64(st, 0));
	return db_step(in, err);
}

static int copy_series(struct salvage *x, struct db_stmt *st, struct err *err)
{
	int64_t id = db_i64(st, 0);
	struct bytes key = db_bytes(st, 1);
	struct db_stmt *in;
	struct series *s;

	if (id <= 0 || id >= UINT32_MAX)
		return 0;
	s = series_of_key(key, (uint32_t)id, NULL);
	if (!s)
		return 0;
	series_free(s);
	if (db_prepare(x->to,
		       "INSERT INTO series (id, key) SELECT ?1, ?2 WHERE NOT EXISTS (SELECT 1 FROM series "
		       "WHERE id = "
		       "?1 OR "
		       "key = ?2)",
		       &in, err) < 0)
		return -1;
	db_bind_i64(in, 1, id);
	db_bind_bytes(in, 2, key);
	return db_step(in, err);
}

/* ---- the metadata store ---- */

static int put_segment(struct salvage *x, const struct segment_row *row, struct err *err)
{
	struct db_stmt *in;

	if (db_prepare(x->to, "INSERT INTO segment VALUES (?, ?, ?, ?)", &in, err) < 0)
		return -1;
	db_bind_i64(in, 1, (int64_t)row->kind << ID_BITS | (int64_t)row->first);
	db_bind_i64(in, 2, (int64_t)row->n);
	db_bind_i64(in, 3, (int64_t)hash64(row->data.p, row->data.size, row->kind));
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

/* A stack without a placeholder is a free number. */
static void put_stack(struct salvage *x, uint64_t i, struct buf *out)
{
	bool lost = stack_is_lost(x, i);

	buf_add_uleb(out, lost ? i : 0);
	buf_add_uleb(out, lost ? x->location + x->n_locations++ : 1);
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
		for (; x->have[kind] < to && row.n < FILLER_ROW; row.n++)
			if (kind == SEGMENT_STACKS)
				put_stack(x, x->have[kind]++, &b);
			else
				put_placeholder(x, kind, x->have[kind]++, &b);
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

	if (!sound_segment(st, &row))
		return 0;
	if (db_i64(st, 0) >> SEGMENT_KEY_BITS != x->generation)
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

	if (sound_segment(st, &row) && row.kind < SEGMENT_NAMES && row.first >= x->have[row.kind] &&
	    db_i64(st, 0) >> SEGMENT_KEY_BITS == x->generation) {
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

static int copy_segments(struct salvage *x, struct err *err)
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

/* ---- all of it ---- */

static int end_copy(struct salvage *x, struct err *err)
{
	int64_t n_without = 0, n = 0, before = 0;

	/* For numbers of profiles, that of a profile that is lost is not used again. */
	(void)db_get_i64(x->from, "SELECT next_profile FROM counter WHERE id = 1", &before, NULL);
	if (db_get_i64(x->to, "SELECT count(*) FROM profile WHERE series NOT IN (SELECT id FROM series)",
		       &n_without, err) < 0 ||
	    db_exec(x->to,
		    "DELETE FROM profile WHERE series NOT IN (SELECT id FROM series);"
		    "UPDATE counter SET n_profiles = (SELECT count(*) FROM profile),"
		    " n_samples = (SELECT ifnull(sum(n_samples), 0) FROM profile),"
		    " next_profile = 1 + (SELECT ifnull(max(id), 0) FROM profile)",
		    err) < 0 ||
	    db_get_i64(x->to, "SELECT n_profiles FROM counter", &n, err) < 0)
		return -1;
	x->n_lost += (uint64_t)n_without;
	x->n_profiles = (uint64_t)n;
	if (before > x->last_id && before < x->last_id + (1 << 30)) {
		struct db_stmt *st;

		/* Numbers were given in order: those that are missing at the end are lost. */
		x->n_lost += (uint64_t)(before - x->last_id - 1);
		if (db_prepare(x->to, "UPDATE counter SET next_profile = ?", &st, err) < 0)
			return -1;
		db_bind_i64(st, 1, before);
		return db_step(st, err);
	}
	return 0;
}

/* The copy has generation 0. */
static void find_generation(struct salvage *x)
{
	if (db_get_i64(x->from, "SELECT generation FROM counter WHERE id = 1", &x->generation, NULL) == 0 &&
	    x->generation >= 0)
		return;
	/* The row is lost: the latest that has any rows. */
	x->generation = 0;
	(void)db_get_i64(x->from, "SELECT max(id) >> 44 FROM segment", &x->generation, NULL);
}

static int copy_all(struct salvage *x, struct err *err)
{
	if (db_begin(x->to, err) < 0)
		return -1;
	if (x->from)
		find_generation(x);
	if (x->from && (salvage_each_row(x, profiles_sql, copy_profile, err) < 0 ||
			salvage_each_row(x, "SELECT id, key FROM series WHERE id >= ? ORDER BY id",
					 copy_series, err) < 0 ||
			copy_segments(x, err) < 0 || end_copy(x, err) < 0)) {
		db_rollback(x->to);
		return -1;
	}
	return db_commit(x->to, err);
}

/* ---- files ---- */

static void note_reason(const char *aside, const char *reason)
{
	AUTO(mem_freep) char *path = mem_printf("%s.txt", aside);
	AUTO(mem_freep) char *text = mem_printf("%s\n", reason);

	/* Without it the file is still listed. */
	(void)file_write_durable(path, text, strlen(text), 0640, NULL);
}

char *salvage_aside_name(const char *dir, int64_t now_ms)
{
	for (int64_t t = now_ms / 1000;; t++) {
		char *path = mem_printf("%s/profiles.db" SALVAGE_ASIDE "%lld", dir, (long long)t);

		if (access(path, F_OK) != 0)
			return path;
		free(path);
	}
}

int salvage_set_aside(const char *dir, int64_t now_ms, const char *reason, struct err *err)
{
	AUTO(mem_freep) char *path = mem_printf("%s/profiles.db", dir);
	AUTO(mem_freep) char *aside = salvage_aside_name(dir, now_ms);

	if (db_files_move(path, aside, false, err) < 0)
		return -1;
	note_reason(aside, reason);
	return dir_sync(dir, err);
}

static int make_copy(const char *path, const char *new_path, const struct db_options *o, struct salvage *x,
		     struct err *err)
{
	const struct db_options unchecked = { .unchecked = true };
	int r;

	db_files_remove(new_path);
	/* What cannot be opened at all has nothing to be saved. */
	if (db_open(path, &unchecked, &x->from, NULL) < 0)
		x->from = NULL;
	r = db_open(new_path, o, &x->to, err);
	if (r == 0)
		r = db_migrate(x->to, profilestore_migrations, profilestore_n_migrations, err);
	if (r == 0)
		r = copy_all(x, err);
	db_close(x->to);
	db_close(x->from);
	free(x->stacks);
	return r;
}

int salvage_repair(const char *dir, const struct db_options *o, int64_t now_ms, const char *reason,
		   struct salvage_result *ret, struct err *err)
{
	AUTO(mem_freep) char *path = mem_printf("%s/profiles.db", dir);
	AUTO(mem_freep) char *new_path = mem_printf("%s/profiles.new", dir);
	AUTO(mem_freep) char *aside = salvage_aside_name(dir, now_ms);
	struct salvage x = { 0 };

	if (make_copy(path, new_path, o, &x, err) < 0) {
		db_files_remove(new_path);
		return err_in(err, "repair of %s", path);
	}
	if (db_files_move(path, aside, true, err) < 0)
		return -1;
	note_reason(aside, reason);
	if (rename(new_path, path) != 0)
		return err_os(err, errno, "cannot rename %s", new_path);
	*ret = (struct salvage_result){ x.n_profiles, x.n_lost, x.n_filled };
	return dir_sync(dir, err);
}

/* ---- what was set aside ---- */

static void read_reason(const char *dir, const char *name, struct salvage_list *ret)
{
	AUTO(mem_freep) char *path = mem_printf("%s/%s", dir, name);
	AUTO(buf_done) struct buf b = { 0 };

	if (file_read(path, MAX_REASON, &b, NULL) < 0)
		return;
	snprintf(ret->reason, sizeof(ret->reason), STR_FMT, STR_ARG(str_trim(buf_str(&b))));
}

void salvage_listed(const char *dir, struct salvage_list *ret)
{
	DIR *d = opendir(dir);
	char latest[NAME_MAX + 1] = "";

	*ret = (struct salvage_list){ 0 };
	for (const struct dirent *e; d && (e = readdir(d));) {
		if (!strstr(e->d_name, SALVAGE_ASIDE) || !str_ends(str_of(e->d_name), STR(".txt")))
			continue;
		ret->n++;
		if (strcmp(e->d_name, latest) > 0)
			snprintf(latest, sizeof(latest), "%s", e->d_name);
	}
	if (d)
		closedir(d);
	if (*latest)
		read_reason(dir, latest, ret);
}
