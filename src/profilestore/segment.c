/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The metadata store on disk: for each table rows of entries [first, first + n), packed as varints, appended
 * with each transaction that brought new ones, and joined in the background.
 *
 * The file is not trusted: every number must refer to an entry that was read before.
 */
#include "profilestore/internal.h"

#include <stdlib.h>
#include "base/leb.h"

#define ID_BITS    40
#define GROOM_SIZE MIB(1) /* segments are joined up to about this size */
#define GROOM_ROWS 64     /* when there are so many small ones */

static struct column *segment_column(struct meta *m, enum segment_kind kind)
{
	switch (kind) {
	case SEGMENT_STRINGS:
		return &m->strings;
	case SEGMENT_FUNCTIONS:
		return &m->functions;
	case SEGMENT_LINES:
		return &m->lines;
	case SEGMENT_BINARIES:
		return &m->binaries;
	case SEGMENT_PARTS:
		return &m->parts;
	case SEGMENT_LOCATIONS:
		return &m->locations;
	case SEGMENT_STACKS:
		return &m->stacks;
	case SEGMENT_NAMES:
	case SEGMENT_N_KINDS:
		break;
	}
	return NULL;
}

/* ---- writing ---- */

static void write_entry(const struct meta *m, enum segment_kind kind, uint32_t i, struct buf *out)
{
	switch (kind) {
	case SEGMENT_STRINGS: {
		struct str s = meta_str(m, i);

		buf_add_uleb(out, s.size);
		buf_add_str(out, s);
		break;
	}
	case SEGMENT_FUNCTIONS: {
		const struct meta_function *f = meta_function_at(m, i);

		buf_add_uleb(out, f->name);
		buf_add_uleb(out, zigzag((int64_t)f->system_name - f->name));
		buf_add_uleb(out, f->file);
		buf_add_uleb(out, zigzag(f->start_line));
		break;
	}
	case SEGMENT_LINES: {
		const struct meta_line *l = meta_line_at(m, i);

		buf_add_uleb(out, l->function);
		buf_add_uleb(out, zigzag(l->line));
		buf_add_uleb(out, zigzag(l->column));
		break;
	}
	case SEGMENT_BINARIES: {
		const struct meta_binary *b = meta_binary_at(m, i);

		buf_add_uleb(out, b->file);
		buf_add_uleb(out, b->build_id);
		break;
	}
	case SEGMENT_PARTS: {
		const struct meta_part *p = meta_part_at(m, i);

		buf_add_uleb(out, p->binary);
		buf_add_uleb(out, p->kind);
		buf_add_uleb(out, p->offset);
		buf_add_uleb(out, p->size);
		break;
	}
	case SEGMENT_LOCATIONS: {
		const struct meta_location *l = meta_location_at(m, i);

		buf_add_uleb(out, l->part);
		buf_add_uleb(out, l->addr);
		buf_add_uleb(out, (uint64_t)l->n_lines << 2 | l->flags);
		if (l->n_lines)
			buf_add_uleb(out, l->first_line);
		break;
	}
	case SEGMENT_STACKS: {
		const struct meta_stack *t = meta_stack_at(m, i);

		buf_add_uleb(out, i - t->parent);
		buf_add_uleb(out, t->location);
		break;
	}
	case SEGMENT_NAMES:
	case SEGMENT_N_KINDS:
		break;
	}
}

void segment_add_names(struct segments *g, uint32_t location, struct meta_names n, uint64_t elf_addr)
{
	buf_add_uleb(&g->names, location);
	buf_add_uleb(&g->names, meta_names_word(n));
	buf_add_uleb(&g->names, elf_addr);
	g->n_names++;
}

static int write_segment_row(struct db *db, enum segment_kind kind, uint32_t first, uint32_t n,
			     struct bytes data, struct err *err)
{
	struct db_stmt *st;

	if (db_prepare(db, "INSERT INTO segment VALUES (?, ?, ?, ?)", &st, err) < 0)
		return -1;
	db_bind_i64(st, 1, (int64_t)kind << ID_BITS | first);
	db_bind_i64(st, 2, n);
	db_bind_i64(st, 3, (int64_t)hash64(data.p, data.size, kind));
	db_bind_bytes(st, 4, data);
	return db_step(st, err);
}

int segments_write(struct profilestore *s, struct err *err)
{
	struct segments *g = &s->segments;
	AUTO(buf_done) struct buf b = { 0 };

	for (enum segment_kind k = SEGMENT_STRINGS; k < SEGMENT_NAMES; k++) {
		uint32_t n = column_n(segment_column(s->meta, k));

		g->written[k] = n;
		/* A row for each few megabytes: the first profile may bring nearly everything. */
		for (uint32_t i = g->saved[k], from = i; i < n; i++) {
			write_entry(s->meta, k, i, &b);
			if (i + 1 < n && b.size < GROOM_SIZE)
				continue;
			if (write_segment_row(s->db, k, from, i + 1 - from, buf_bytes(&b), err) < 0)
				return -1;
			b.size = 0;
			from = i + 1;
		}
	}
	if (!g->n_names)
		return 0;
	g->written[SEGMENT_NAMES] = g->saved[SEGMENT_NAMES] + g->n_names;
	return write_segment_row(s->db, SEGMENT_NAMES, g->saved[SEGMENT_NAMES], g->n_names,
				 buf_bytes(&g->names), err);
}

void segments_commit(struct segments *g, bool done)
{
	if (done)
		memcpy(g->saved, g->written, sizeof(g->saved));
	else
		memcpy(g->written, g->saved, sizeof(g->saved));
	g->names.size = 0;
	g->n_names = 0;
}

/* ---- reading ---- */

static int segment_damaged(const char *what, struct err *err)
{
	return err_set(err, ERR_DAMAGED, "a list of %s is damaged", what);
}

/* The entry has the number that it should have: it was new, not equal to an earlier one. */
static bool segment_is_next(uint32_t got, uint32_t was)
{
	return got == was;
}

static bool segment_read_string(struct meta *m, struct cursor *c)
{
	struct bytes b = cursor_bytes(c, cursor_uleb(c));
	uint32_t was = column_n(&m->strings);

	return cursor_ok(c) &&
	       segment_is_next(meta_string(m, (struct str){ (const char *)b.p, b.size }), was);
}

static bool segment_read_function(struct meta *m, struct cursor *c)
{
	uint32_t was = column_n(&m->functions), n_strings = column_n(&m->strings);
	uint64_t name = cursor_uleb(c), system_name = name + (uint64_t)unzigzag(cursor_uleb(c)),
		 file = cursor_uleb(c);
	int64_t start = unzigzag(cursor_uleb(c));
	struct meta_function f = { (uint32_t)name, (uint32_t)system_name, (uint32_t)file, (int32_t)start };

	return cursor_ok(c) && name < n_strings && system_name < n_strings && file < n_strings &&
	       f.start_line == start && segment_is_next(meta_function(m, &f), was);
}

static bool segment_read_line(struct meta *m, struct cursor *c)
{
	uint64_t function = cursor_uleb(c);
	int64_t line = unzigzag(cursor_uleb(c)), column = unzigzag(cursor_uleb(c));
	struct meta_line l = { (uint32_t)function, (int32_t)line, (int32_t)column };

	return cursor_ok(c) && function < column_n(&m->functions) && l.line == line && l.column == column &&
	       meta_lines(m, &l, 1) != META_FAILED;
}

static bool read_binary(struct meta *m, struct cursor *c)
{
	uint32_t was = column_n(&m->binaries), n_strings = column_n(&m->strings);
	uint64_t file = cursor_uleb(c), id = cursor_uleb(c);

	return cursor_ok(c) && file < n_strings && id < n_strings &&
	       segment_is_next(meta_binary(m, meta_str(m, (uint32_t)file), meta_str(m, (uint32_t)id)), was);
}

static bool segment_read_part(struct meta *m, struct cursor *c)
{
	uint32_t was = column_n(&m->parts);
	uint64_t binary = cursor_uleb(c), kind = cursor_uleb(c), offset = cursor_uleb(c),
		 size = cursor_uleb(c);
	struct meta_part p = { (uint32_t)binary, (uint8_t)kind, offset, size };

	return cursor_ok(c) && binary < column_n(&m->binaries) && kind < META_N_KINDS &&
	       segment_is_next(meta_part(m, &p), was);
}

static bool read_location(struct meta *m, struct cursor *c)
{
	uint64_t part = cursor_uleb(c), addr = cursor_uleb(c), n_flags = cursor_uleb(c), n = n_flags >> 2;
	uint64_t first = n ? cursor_uleb(c) : 0;
	struct meta_location l = { .addr = addr,
				   .part = (uint32_t)part,
				   .first_line = (uint32_t)first,
				   .n_lines = (uint16_t)n,
				   .flags = n_flags & 3 };
	uint32_t was = column_n(&m->locations), n_lines = column_n(&m->lines);

	if (!cursor_ok(c) || part >= column_n(&m->parts) || n > UINT16_MAX || first > n_lines ||
	    n > n_lines - first)
		return false;
	return segment_is_next(meta_location(m, &l, NULL), was);
}

static bool segment_read_stack(struct meta *m, struct cursor *c)
{
	uint32_t was = column_n(&m->stacks);
	uint64_t up = cursor_uleb(c), location = cursor_uleb(c);

	return cursor_ok(c) && up && up <= was && location < column_n(&m->locations) &&
	       segment_is_next(meta_stack(m, was - (uint32_t)up, (uint32_t)location), was);
}

static bool segment_read_names(struct meta *m, struct cursor *c)
{
	uint64_t location = cursor_uleb(c), word = cursor_uleb(c), elf_addr = cursor_uleb(c);
	struct meta_names n = meta_names_of(word);
	uint32_t n_lines = column_n(&m->lines);
	struct meta_location *l;

	if (!cursor_ok(c) || location >= column_n(&m->locations) || n.first_line > n_lines ||
	    n.n_lines > n_lines - n.first_line || !n.generation || n.reason >= FRAME_N_REASONS)
		return false;
	l = meta_location_at(m, (uint32_t)location);
	atomic_store_explicit(&l->elf_addr, elf_addr, memory_order_relaxed);
	atomic_store_explicit(&l->names, word, memory_order_release);
	return true;
}

int segment_read(struct meta *m, enum segment_kind kind, uint32_t n, struct bytes data, struct err *err)
{
	static const struct {
		const char *what;
		bool (*read)(struct meta *m, struct cursor *c);
	} kinds[] = {
		[SEGMENT_STRINGS] = { "strings", segment_read_string },
		[SEGMENT_FUNCTIONS] = { "functions", segment_read_function },
		[SEGMENT_LINES] = { "lines", segment_read_line },
		[SEGMENT_BINARIES] = { "binaries", read_binary },
		[SEGMENT_PARTS] = { "mappings", segment_read_part },
		[SEGMENT_LOCATIONS] = { "locations", read_location },
		[SEGMENT_STACKS] = { "stacks", segment_read_stack },
		[SEGMENT_NAMES] = { "names", segment_read_names },
	};
	struct cursor c = cursor_of(data);

	for (uint32_t i = 0; i < n; i++)
		if (!kinds[kind].read(m, &c))
			return segment_damaged(kinds[kind].what, err);
	return cursor_left(&c) ? segment_damaged(kinds[kind].what, err) : 0;
}

int segments_load(struct profilestore *s, struct db *db, struct err *err)
{
	struct db_stmt *st;
	int r;

	/* Some tables have the number 0 from the start. */
	for (enum segment_kind k = SEGMENT_STRINGS; k < SEGMENT_NAMES; k++)
		s->segments.saved[k] = column_n(segment_column(s->meta, k));
	if (db_prepare(db, "SELECT id, n, digest, data FROM segment ORDER BY id", &st, err) < 0)
		return -1;
	while ((r = db_step(st, err)) == DB_ROW) {
		int64_t id = db_i64(st, 0), n = db_i64(st, 1), kind = id >> ID_BITS,
			first = id & (((int64_t)1 << ID_BITS) - 1);
		struct bytes data = db_bytes(st, 3);
		struct column *c;
		uint32_t have;

		if (kind < SEGMENT_STRINGS || kind >= SEGMENT_N_KINDS || n <= 0 || n > UINT32_MAX)
			return segment_damaged("lists", err);
		c = segment_column(s->meta, (enum segment_kind)kind);
		have = c ? column_n(c) : s->segments.saved[kind];
		if (first != have || (uint64_t)db_i64(st, 2) != hash64(data.p, data.size, (uint64_t)kind))
			return err_set(err, ERR_DAMAGED, "row %lld of segment is damaged, or one is missing",
				       (long long)id);
		if (segment_read(s->meta, (enum segment_kind)kind, (uint32_t)n, data, err) < 0)
			return err_in(err, "row %lld of segment", (long long)id);
		s->segments.saved[kind] = (uint32_t)(first + n);
	}
	memcpy(s->segments.written, s->segments.saved, sizeof(s->segments.saved));
	return r;
}

/* ---- fewer of them ---- */

struct joining {
	struct job job;
	enum segment_kind kind;
	int64_t first_id, last_id;
	bool any;
};

/* The first run of adjacent small rows of one kind. */
static int find_small(struct db *db, struct joining *x, struct err *err)
{
	int64_t size = 0, n = 0;
	struct db_stmt *st;
	int r;

	if (db_prepare(db, "SELECT id, length(data) FROM segment ORDER BY id", &st, err) < 0)
		return -1;
	while ((r = db_step(st, err)) == DB_ROW) {
		int64_t id = db_i64(st, 0), length = db_i64(st, 1);

		if (n && (id >> ID_BITS != x->first_id >> ID_BITS || size + length > (int64_t)GROOM_SIZE)) {
			if (n >= GROOM_ROWS)
				break;
			n = 0;
		}
		if (!n) {
			x->first_id = id;
			size = 0;
		}
		x->last_id = id;
		size += length;
		n++;
	}
	db_reset(st);
	x->any = n >= GROOM_ROWS;
	return r < 0 ? -1 : 0;
}

static int segment_join(struct profilestore *s, struct job *j, struct err *err)
{
	struct joining *x = CONTAINER_OF(j, struct joining, job);
	AUTO(buf_done) struct buf b = { 0 };
	struct db_stmt *st;
	int64_t n = 0;
	int r;

	if (db_prepare(s->db, "SELECT n, data FROM segment WHERE id >= ? AND id <= ? ORDER BY id", &st, err) <
	    0)
		return -1;
	db_bind_i64(st, 1, x->first_id);
	db_bind_i64(st, 2, x->last_id);
	while ((r = db_step(st, err)) == DB_ROW) {
		struct bytes data = db_bytes(st, 1);

		n += db_i64(st, 0);
		buf_add(&b, data.p, data.size);
	}
	if (r < 0 || db_prepare(s->db, "DELETE FROM segment WHERE id >= ? AND id <= ?", &st, err) < 0)
		return -1;
	db_bind_i64(st, 1, x->first_id);
	db_bind_i64(st, 2, x->last_id);
	if (db_step(st, err) < 0)
		return -1;
	return write_segment_row(s->db, (enum segment_kind)(x->first_id >> ID_BITS),
				 (uint32_t)(x->first_id & (((int64_t)1 << ID_BITS) - 1)), (uint32_t)n,
				 buf_bytes(&b), err);
}

int segments_groom(struct profilestore *s, bool *ret_more, struct err *err)
{
	struct joining x = { .job = { .apply = segment_join } };
	struct db *db = reader_take(s, err);
	int r = db ? find_small(db, &x, err) : -1;

	reader_give(s, db);
	*ret_more = x.any;
	return r == 0 && x.any ? profilestore_writer_run(s, &x.job, err) : r;
}
