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

#define GROOM_SIZE MIB(1) /* segments are joined up to about this size */
#define GROOM_ROWS 64     /* when there are so many small ones, */
#define FULL_ROWS  8      /* or so many that have that size together: they are not joined again */

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
	case SEGMENT_REUSED:
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
		const struct meta_line l = meta_line_at(m, i);

		buf_add_uleb(out, l.function);
		buf_add_uleb(out, zigzag(l.line));
		buf_add_uleb(out, zigzag(l.column));
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
		const struct meta_location l = meta_location_at(m, i);

		buf_add_uleb(out, l.part);
		buf_add_uleb(out, l.addr);
		buf_add_uleb(out, (uint64_t)l.n_lines << 2 | l.flags);
		if (l.n_lines)
			buf_add_uleb(out, l.first_line);
		break;
	}
	case SEGMENT_STACKS: {
		const struct meta_stack *t = meta_stack_at(m, i);

		buf_add_uleb(out, i - t->parent);
		buf_add_uleb(out, t->location);
		break;
	}
	case SEGMENT_NAMES:
	case SEGMENT_REUSED:
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

static int write_segment_row(struct db *db, int64_t id, uint32_t n, struct bytes data, struct err *err)
{
	struct db_stmt *st;

	if (db_prepare(db, "INSERT INTO segment VALUES (?, ?, ?, ?)", &st, err) < 0)
		return -1;
	db_bind_i64(st, 1, id);
	db_bind_i64(st, 2, n);
	db_bind_i64(st, 3, (int64_t)segment_digest((enum segment_kind)segment_kind_of(id), data));
	db_bind_bytes(st, 4, data);
	return db_step(st, err);
}

/* A run of free numbers of stacks is one entry: 0 in place of the caller, and their number. */
static uint32_t write_free_stacks(const struct meta *m, uint32_t from, uint32_t n, struct buf *out)
{
	uint32_t i = from;

	while (i < n && holes_has(&m->holes, i))
		i++;
	if (i > from) {
		buf_add_uleb(out, 0);
		buf_add_uleb(out, i - from);
	}
	return i - from;
}

/* Rows of one kind, of about GROOM_SIZE: the first profile may bring nearly everything. */
static int write_kind(struct db *db, const struct meta *m, struct segments *g, enum segment_kind k,
		      uint64_t *left, struct err *err)
{
	uint32_t n = column_n(segment_column((struct meta *)m, k)), from = g->written[k];
	AUTO(buf_done) struct buf b = { 0 };

	for (uint32_t i = from; i < n && *left;) {
		uint32_t n_free = k == SEGMENT_STACKS ? write_free_stacks(m, i, n, &b) : 0;

		if (n_free)
			i += n_free;
		else
			write_entry(m, k, i++, &b);
		if (i < n && b.size < MIN(GROOM_SIZE, *left))
			continue;
		if (write_segment_row(db, segment_key(m->generation, k, from), i - from, buf_bytes(&b), err) <
		    0)
			return -1;
		*left -= MIN(*left, b.size);
		b.size = 0;
		g->written[k] = from = i;
	}
	return 0;
}

static int segment_write_list(struct db *db, const struct meta *m, struct segments *g, enum segment_kind k,
			      uint32_t n, const struct buf *b, struct err *err)
{
	if (!n)
		return 0;
	g->written[k] = g->saved[k] + n;
	return write_segment_row(db, segment_key(m->generation, k, g->saved[k]), n, buf_bytes(b), err);
}

static int write_reused(struct db *db, const struct meta *m, struct segments *g, struct err *err)
{
	AUTO(buf_done) struct buf b = { 0 };
	uint32_t n = 0;

	for (size_t k = 0; k < m->reused.n; k++) {
		uint32_t i = m->reused.v[k];
		const struct meta_stack *t = meta_stack_at(m, i);

		/* The others are in rows that are still to be written. */
		if (i >= g->saved[SEGMENT_STACKS])
			continue;
		buf_add_uleb(&b, i);
		buf_add_uleb(&b, i - t->parent);
		buf_add_uleb(&b, t->location);
		n++;
	}
	return segment_write_list(db, m, g, SEGMENT_REUSED, n, &b, err);
}

int segments_write(struct db *db, const struct meta *m, struct segments *g, uint64_t max_bytes,
		   bool *ret_more, struct err *err)
{
	memcpy(g->written, g->saved, sizeof(g->written));
	for (enum segment_kind k = SEGMENT_STRINGS; k < SEGMENT_NAMES; k++)
		if (write_kind(db, m, g, k, &max_bytes, err) < 0)
			return -1;
	*ret_more = !max_bytes;
	return segment_write_list(db, m, g, SEGMENT_NAMES, g->n_names, &g->names, err) < 0 ||
			       write_reused(db, m, g, err) < 0
		       ? -1
		       : 0;
}

/* @g: as if nothing was on disk. */
static void segments_unsave(const struct meta *m, struct segments *g)
{
	*g = (struct segments){ 0 };
	for (enum segment_kind k = SEGMENT_STRINGS; k < SEGMENT_NAMES; k++)
		g->saved[k] = k != SEGMENT_LINES && k != SEGMENT_LOCATIONS;
	for (uint32_t i = 0, n = column_n(&m->locations); i < n; i++) {
		uint64_t word = meta_names_at(m, i);

		if (word)
			segment_add_names(g, i, meta_names_of(word), meta_elf_addr(m, i));
	}
}

int segments_rewrite(struct profilestore *s, struct err *err)
{
	const struct generation_keys keys = generation_keys(s->meta->generation, SEGMENT_KEY_BITS);
	struct db_stmt *st;
	struct segments g;
	bool more;
	int r;

	if (db_prepare(s->db, "DELETE FROM segment WHERE id >= ? AND id < ?", &st, err) < 0)
		return -1;
	db_bind_i64(st, 1, keys.from);
	db_bind_i64(st, 2, keys.to);
	if (db_step(st, err) < 0)
		return -1;
	segments_unsave(s->meta, &g);
	r = segments_write(s->db, s->meta, &g, UINT64_MAX, &more, err);
	/* If the commit fails, the numbers of rows to come are not those that are expected, and the next start repairs. */
	if (r == 0)
		memcpy(s->segments.saved, g.written, sizeof(g.written));
	s->meta->reused.n = 0;
	buf_done(&g.names);
	return r;
}

void segments_commit(struct meta *m, struct segments *g, bool done)
{
	g->names.size = 0;
	g->n_names = 0;
	if (!done)
		return;
	memcpy(g->saved, g->written, sizeof(g->saved));
	m->reused.n = 0;
}

/* ---- reading ---- */

static int segment_damaged(const char *what, struct err *err)
{
	return err_set(err, ERR_DAMAGED, "a list of %s is damaged", what);
}

/*
 * The entry got the number that it should have, since it is new. Only placeholders of a repair (salvage.c) are equal
 * to an earlier entry: they get a number of their own, but are not found by interning.
 */
static bool segment_is_next(struct column *c, uint32_t got, uint32_t was)
{
	void *again;

	if (got == was)
		return true;
	again = got == META_FAILED ? NULL : column_next(c);
	if (!again)
		return false;
	memcpy(again, column_at(c, got), c->entry_size);
	column_publish(c);
	return true;
}

static bool segment_read_string(struct meta *m, struct cursor *c)
{
	struct bytes b = cursor_bytes(c, cursor_uleb(c));
	uint32_t was = column_n(&m->strings);

	return cursor_ok(c) &&
	       segment_is_next(&m->strings, meta_string(m, (struct str){ (const char *)b.p, b.size }), was);
}

static bool segment_read_function(struct meta *m, struct cursor *c)
{
	uint32_t was = column_n(&m->functions), n_strings = column_n(&m->strings);
	uint64_t name = cursor_uleb(c), system_name = name + (uint64_t)unzigzag(cursor_uleb(c)),
		 file = cursor_uleb(c);
	int64_t start = unzigzag(cursor_uleb(c));
	struct meta_function f = { (uint32_t)name, (uint32_t)system_name, (uint32_t)file, (int32_t)start };

	return cursor_ok(c) && name < n_strings && system_name < n_strings && file < n_strings &&
	       f.start_line == start && segment_is_next(&m->functions, meta_function(m, &f), was);
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
	       segment_is_next(&m->binaries,
			       meta_binary(m, meta_str(m, (uint32_t)file), meta_str(m, (uint32_t)id)), was);
}

static bool segment_read_part(struct meta *m, struct cursor *c)
{
	uint32_t was = column_n(&m->parts);
	uint64_t binary = cursor_uleb(c), kind = cursor_uleb(c), offset = cursor_uleb(c),
		 size = cursor_uleb(c);
	struct meta_part p = { (uint32_t)binary, (uint8_t)kind, offset, size };

	return cursor_ok(c) && binary < column_n(&m->binaries) && kind < META_N_KINDS &&
	       segment_is_next(&m->parts, meta_part(m, &p), was);
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
	return segment_is_next(&m->locations, meta_location(m, &l, NULL), was);
}

#define STACKS_BLOCK 32u

/*
 * The next stacks, a block of them, so that the hash table's memory is fetched for all at once; or a run of free
 * numbers. *ret_n: how many numbers, at most @room.
 */
static bool segment_read_stacks(struct meta *m, struct cursor *c, uint32_t room, uint32_t *ret_n)
{
	uint32_t was = column_n(&m->stacks), n = 0, n_free = 0;
	struct meta_stack v[STACKS_BLOCK];
	uint64_t hashes[STACKS_BLOCK];

	while (n < MIN(room, STACKS_BLOCK) && !n_free) {
		uint64_t up = cursor_uleb(c), location = cursor_uleb(c);

		if (!cursor_ok(c) || (up ? up > was + n || location >= column_n(&m->locations)
					 : !location || location > room - n))
			return false;
		if (!up) {
			n_free = (uint32_t)location;
			break;
		}
		v[n] = (struct meta_stack){ was + n - (uint32_t)up, (uint32_t)location };
		hashes[n] = meta_hash_stack(m, v[n].parent, v[n].location);
		n++;
	}
	meta_fetch_stacks(m, hashes, n);
	for (uint32_t i = 0; i < n; i++)
		if (!meta_stack_put(m, was + i, v[i].parent, v[i].location))
			return false;
	*ret_n = n + n_free;
	return !n_free || meta_stacks_skip(m, n_free);
}

static bool segment_read_reused(struct meta *m, struct cursor *c)
{
	uint64_t i = cursor_uleb(c), up = cursor_uleb(c), location = cursor_uleb(c);

	return cursor_ok(c) && i < column_n(&m->stacks) && up && up <= i &&
	       location < column_n(&m->locations) &&
	       meta_stack_put(m, (uint32_t)i, (uint32_t)(i - up), (uint32_t)location);
}

/*
 * Free numbers are given away later than their callees are read: whether all callers are there is known at the
 * end. A free number is never the last, so where there is one there is a location: the entry of a free number,
 * which a damaged profile may name, refers to location 0.
 */
static bool stacks_have_callers(const struct meta *m)
{
	uint32_t n = m->holes.n ? column_n(&m->stacks) : 0;

	if (n && holes_has(&m->holes, n - 1))
		return false;
	for (uint32_t i = 1; i < n; i++)
		if (!holes_has(&m->holes, i) && holes_has(&m->holes, meta_stack_at(m, i)->parent))
			return false;
	return true;
}

static bool segment_read_names(struct meta *m, struct cursor *c)
{
	uint64_t location = cursor_uleb(c), word = cursor_uleb(c), elf_addr = cursor_uleb(c);
	struct meta_names n = meta_names_of(word);
	uint32_t n_lines = column_n(&m->lines);

	if (!cursor_ok(c) || location >= column_n(&m->locations) || n.first_line > n_lines ||
	    n.n_lines > n_lines - n.first_line || !n.generation || n.reason >= FRAME_N_REASONS)
		return false;
	meta_set_names(m, (uint32_t)location, word, elf_addr);
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
		[SEGMENT_STACKS] = { "stacks", NULL },
		[SEGMENT_NAMES] = { "names", segment_read_names },
		[SEGMENT_REUSED] = { "stacks", segment_read_reused },
	};
	struct cursor c = cursor_of(data);

	/* A run of free numbers of stacks is one entry of the row. */
	for (uint32_t i = 0, n_read = 1; i < n; i += n_read)
		if (!(kind == SEGMENT_STACKS ? segment_read_stacks(m, &c, n - i, &n_read)
					     : kinds[kind].read(m, &c)))
			return segment_damaged(kinds[kind].what, err);
	return cursor_left(&c) ? segment_damaged(kinds[kind].what, err) : 0;
}

void segments_init(struct segments *g, struct meta *m)
{
	*g = (struct segments){ 0 };
	/* Some tables have the number 0 from the start. */
	for (enum segment_kind k = SEGMENT_STRINGS; k < SEGMENT_NAMES; k++)
		g->saved[k] = g->written[k] = column_n(segment_column(m, k));
}

int segments_load(struct profilestore *s, struct db *db, struct err *err)
{
	const struct generation_keys keys = generation_keys(s->meta->generation, SEGMENT_KEY_BITS);
	struct db_stmt *st;
	int r;

	segments_init(&s->segments, s->meta);
	if (db_prepare(db, "SELECT id, n, digest, data FROM segment WHERE id >= ? AND id < ? ORDER BY id",
		       &st, err) < 0)
		return -1;
	db_bind_i64(st, 1, keys.from);
	db_bind_i64(st, 2, keys.to);
	while ((r = db_step(st, err)) == DB_ROW) {
		int64_t id = db_i64(st, 0), n = db_i64(st, 1), kind = segment_kind_of(id),
			first = segment_first_of(id);
		struct bytes data = db_bytes(st, 3);
		struct column *c;
		uint32_t have;

		if (kind < SEGMENT_STRINGS || kind >= SEGMENT_N_KINDS || n <= 0 || n > UINT32_MAX)
			return segment_damaged("lists", err);
		c = segment_column(s->meta, (enum segment_kind)kind);
		have = c ? column_n(c) : s->segments.saved[kind];
		if (first != have || (uint64_t)db_i64(st, 2) != segment_digest((enum segment_kind)kind, data))
			return err_set(err, ERR_DAMAGED, "row %lld of segment is damaged, or one is missing",
				       (long long)id);
		if (segment_read(s->meta, (enum segment_kind)kind, (uint32_t)n, data, err) < 0)
			return err_in(err, "row %lld of segment", (long long)id);
		s->segments.saved[kind] = (uint32_t)(first + n);
	}
	memcpy(s->segments.written, s->segments.saved, sizeof(s->segments.saved));
	s->meta->reused.n = 0;
	if (r == 0 && !stacks_have_callers(s->meta))
		return err_set(err, ERR_DAMAGED,
			       "a row of segment is damaged, or missing: a stack has no caller");
	return r;
}

/* ---- fewer of them ---- */

struct joining {
	struct job job;
	int64_t first_id, last_id;
	bool any;
	uint32_t file; /* of the database in which they were found */
};

/* The first run of adjacent small rows of one kind. */
static int find_small(struct db *db, uint32_t generation, struct joining *x, struct err *err)
{
	const struct generation_keys keys = generation_keys(generation, SEGMENT_KEY_BITS);
	int64_t size = 0, n = 0;
	struct db_stmt *st;
	int r;

	if (db_prepare(db, "SELECT id, length(data) FROM segment WHERE id >= ? AND id < ? ORDER BY id", &st,
		       err) < 0)
		return -1;
	db_bind_i64(st, 1, keys.from);
	db_bind_i64(st, 2, keys.to);
	while ((r = db_step(st, err)) == DB_ROW) {
		int64_t id = db_i64(st, 0), length = db_i64(st, 1);

		if (n && (id >> SEGMENT_FIRST_BITS != x->first_id >> SEGMENT_FIRST_BITS ||
			  size + length > (int64_t)GROOM_SIZE)) {
			bool full = id >> SEGMENT_FIRST_BITS == x->first_id >> SEGMENT_FIRST_BITS;

			if (n >= (full ? FULL_ROWS : GROOM_ROWS))
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
	x->any = n >= (r == DB_ROW ? FULL_ROWS : GROOM_ROWS);
	return r < 0 ? -1 : 0;
}

static int segment_join(struct profilestore *s, struct job *j, struct err *err)
{
	struct joining *x = CONTAINER_OF(j, struct joining, job);
	AUTO(buf_done) struct buf b = { 0 };
	struct db_stmt *st;
	int64_t n = 0;
	int r;

	/* Made anew, it has rows that begin with other entries. */
	if (x->file != atomic_load(&s->files.number))
		return 0;
	if (db_prepare(s->db, "SELECT n, data, id, digest FROM segment WHERE id >= ? AND id <= ? ORDER BY id",
		       &st, err) < 0)
		return -1;
	db_bind_i64(st, 1, x->first_id);
	db_bind_i64(st, 2, x->last_id);
	while ((r = db_step(st, err)) == DB_ROW) {
		struct bytes data = db_bytes(st, 1);
		int64_t id = db_i64(st, 2);

		/* The row of all of them gets a digest that is right. */
		if ((uint64_t)db_i64(st, 3) != segment_digest((enum segment_kind)segment_kind_of(id), data)) {
			db_reset(st);
			return err_set(err, ERR_DAMAGED, "row %lld of segment is damaged", (long long)id);
		}
		n += db_i64(st, 0);
		buf_add(&b, data.p, data.size);
	}
	if (r < 0 || db_prepare(s->db, "DELETE FROM segment WHERE id >= ? AND id <= ?", &st, err) < 0)
		return -1;
	db_bind_i64(st, 1, x->first_id);
	db_bind_i64(st, 2, x->last_id);
	if (db_step(st, err) < 0)
		return -1;
	return write_segment_row(s->db, x->first_id, (uint32_t)n, buf_bytes(&b), err);
}

int segments_groom(struct profilestore *s, bool *ret_more, struct err *err)
{
	struct joining x = { .job = { .apply = segment_join }, .file = atomic_load(&s->files.number) };
	struct db *db = reader_take(s, err);
	int r = db ? find_small(db, s->meta->generation, &x, err) : -1;

	reader_give(s, db);
	*ret_more = x.any;
	return r == 0 && x.any ? profilestore_writer_run(s, &x.job, err) : r;
}

/* ---- those of other generations ---- */

struct cleaning {
	struct job job;
	int64_t n_deleted;
};

static int delete_others(struct profilestore *s, const char *sql, unsigned key_bits, int64_t *n,
			 struct err *err)
{
	const struct generation_keys keys = generation_keys(s->meta->generation, key_bits);
	struct db_stmt *st;

	if (db_prepare(s->db, sql, &st, err) < 0)
		return -1;
	db_bind_i64(st, 1, keys.from);
	db_bind_i64(st, 2, keys.to);
	if (db_step(st, err) < 0)
		return -1;
	*n += db_changes(s->db);
	return 0;
}

static int clean_apply(struct profilestore *s, struct job *j, struct err *err)
{
	static const char segments_sql[] =
		"DELETE FROM segment WHERE id IN (SELECT id FROM segment WHERE id < ?1 "
		"UNION ALL SELECT id FROM segment WHERE id >= ?2 LIMIT 8)";
	static const char naming_sql[] =
		"DELETE FROM naming WHERE binary IN (SELECT binary FROM naming WHERE "
		"binary < ?1 UNION ALL SELECT binary FROM naming WHERE binary >= ?2 "
		"LIMIT 1000)";
	struct cleaning *c = CONTAINER_OF(j, struct cleaning, job);

	return delete_others(s, segments_sql, SEGMENT_KEY_BITS, &c->n_deleted, err) < 0 ||
			       delete_others(s, naming_sql, NAMING_KEY_BITS, &c->n_deleted, err) < 0 ||
			       db_exec(s->db, "PRAGMA incremental_vacuum(256)", err) < 0
		       ? -1
		       : 0;
}

int segments_clean(struct profilestore *s, bool *ret_more, struct err *err)
{
	struct cleaning c = { .job = { .apply = clean_apply } };

	if (profilestore_writer_run(s, &c.job, err) < 0)
		return -1;
	*ret_more = c.n_deleted != 0;
	return 0;
}
