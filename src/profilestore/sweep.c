/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sweeping the metadata store while it is in use (docs/decisions/0019-sweep.md has the reasons).
 *
 * Profiles on disk refer to stacks only. So the stacks of all profiles and rollups are marked, and the entries
 * that they need are copied into new tables, in which a stack keeps its number, and everything else gets a new one. The
 * numbers of the other stacks become free. The new tables are written under another generation, and one transaction makes
 * that the current one; a crash at any time leaves the one or the other. Queries that began before keep the old tables
 * until they end.
 *
 * All of this is done in steps of the grooming thread, while profiles come in and get names. Profiles that come in
 * meanwhile have higher ids than those read so far, so reading on by id finds them; the last few, and the last
 * names, are copied in the writer's thread, together with the change of the generation.
 */
#include "profilestore/sweep.h"
#include "profilestore/names_internal.h"

#include <stdlib.h>
#include "base/vec.h"

#define STEP_ROWS   256u   /* of profiles and rollups, read in one step */
#define STEP_BYTES  MIB(4) /* of them */
#define STEP_STACKS 20000u /* copied in one step */
#define STEP_WRITE  MIB(1) /* written in one transaction */
#define STEP_NAMES  20000u /* locations looked at in one transaction */
#define FEW_ROWS    64u    /* left to the writer's thread */
#define MAX_ROUNDS  6u     /* of reading new rows, before the rest is left to the writer's thread */
/* New tables that are larger than this part of the old ones are given up: it was not worth it. */
#define WORTH(size) ((size) / 20 * 17)
/* So long a sweep waits for the memory of its new tables. A store that fills up is worse than a while above the budget. */
#define WAIT_MS (10 * 60 * 1000)
/* A sweep that fails is tried again so often, a minute apart: until it ends, no room is made. */
#define TRIES_MAX 16u

enum sweep_phase {
	SWEEP_CLEAN, /* deleting rows of other generations: of the one before, or of a sweep that was cut short */
	SWEEP_IDLE,
	SWEEP_MARK_PROFILES,
	SWEEP_MARK_ROLLUPS,
	SWEEP_COPY,
	SWEEP_CATCH_UP,
	SWEEP_WRITE,
	SWEEP_TAKE_OVER,
};

struct sweep {
	struct job job;
	struct profilestore *s;
	enum sweep_phase phase;
	bool asked;
	unsigned n_failed; /* one after the other */
	struct meta *old, *new;
	uint64_t granted;         /* of the memory budget */
	int64_t wait_until_ms;    /* monotonic; 0: it did not have to wait */
	struct segments segments; /* of the new tables */
	uint64_t *live;           /* a bit for each stack: marked; in SWEEP_CATCH_UP and after it: copied */
	uint32_t room;            /* stacks that there are bits for */
	struct sweep_numbers locations, functions, parts, binaries;
	struct meta_line *lines;
	uint32_t room_lines;
	struct {
		uint32_t *v;
		size_t n, room;
	} path;              /* from a stack up to its callers */
	int64_t last_id;     /* of the profiles, or rollups, that were read */
	int64_t profile_id;  /* of the profiles */
	uint32_t next_stack; /* to be copied */
	uint32_t next_name;  /* location of the new tables whose name is to be written */
	unsigned n_rounds;
	size_t n_rows; /* read in the last step */
	bool at_end;   /* these were the last */
	bool more;     /* the job has left something */
	uint32_t file; /* of the database, when it began */
};

/* ---- marking ---- */

static bool is_live(const struct sweep *w, uint32_t stack)
{
	return stack < w->room && w->live[stack / 64] >> stack % 64 & 1;
}

static int set_live(struct sweep *w, uint32_t stack, struct err *err)
{
	if (stack >= w->room) {
		uint32_t room = column_n(&w->old->stacks) + 65536;
		size_t was = w->room ? w->room / 64 + 1 : 0, n = (size_t)room / 64 + 1;
		uint64_t *live = realloc(w->live, n * sizeof(*live));

		if (!live)
			return err_set(err, ERR_LIMIT, "no memory to sweep %u stacks", room);
		memset(live + was, 0, (n - was) * sizeof(*live));
		w->live = live;
		w->room = room;
	}
	w->live[stack / 64] |= UINT64_C(1) << stack % 64;
	return 0;
}

/* Call @fn for each stack of a row. A damaged row is not readable by queries, either: its stacks are of no use. */
static int each_stack(struct sweep *w, struct bytes data,
		      int (*fn)(struct sweep *w, uint32_t stack, struct err *err), struct err *err)
{
	uint32_t n_stacks = column_n(&w->old->stacks);
	struct cursor c = cursor_of(data);
	uint64_t n = cursor_uleb(&c), stack = 0;

	(void)cursor_uleb(&c);
	for (uint64_t i = 0; i < n && cursor_ok(&c); i++) {
		stack += cursor_uleb(&c);
		(void)cursor_uleb(&c);
		if (!cursor_ok(&c) || stack >= n_stacks)
			break;
		if (stack && fn(w, (uint32_t)stack, err) < 0)
			return -1;
	}
	return 0;
}

/* The next rows of @sql after w->last_id; w->n_rows: how many. There may be more after STEP_BYTES: w->at_end is false then. */
static int each_row(struct sweep *w, struct db *db, const char *sql, uint32_t limit,
		    int (*fn)(struct sweep *w, uint32_t stack, struct err *err), struct err *err)
{
	struct db_stmt *st;
	size_t size = 0;
	int r = DB_DONE;

	w->n_rows = 0;
	w->at_end = false;
	if (db_prepare(db, sql, &st, err) < 0)
		return -1;
	db_bind_i64(st, 1, w->last_id);
	db_bind_i64(st, 2, limit);
	while (size < STEP_BYTES && (r = db_step(st, err)) == DB_ROW) {
		struct bytes data = db_bytes(st, 1);

		w->last_id = db_i64(st, 0);
		w->n_rows++;
		size += data.size;
		if (each_stack(w, data, fn, err) < 0) {
			r = -1;
			break;
		}
	}
	db_reset(st);
	w->at_end = r == DB_DONE && w->n_rows < limit;
	return r < 0 ? -1 : 0;
}

static const char profile_rows[] = "SELECT id, data FROM profile WHERE id > ? ORDER BY id LIMIT ?";
static const char rollup_rows[] = "SELECT id, data FROM rollup WHERE id > ? ORDER BY id LIMIT ?";

static int read_rows(struct sweep *w, const char *sql,
		     int (*fn)(struct sweep *w, uint32_t stack, struct err *err), struct err *err)
{
	struct db *db = reader_take(w->s, err);
	int r = db ? each_row(w, db, sql, STEP_ROWS, fn, err) : -1;

	reader_give(w->s, db);
	return r;
}

static int mark_profiles(struct sweep *w, struct err *err)
{
	if (read_rows(w, profile_rows, set_live, err) < 0)
		return -1;
	if (!w->at_end)
		return 0;
	w->profile_id = w->last_id;
	w->last_id = 0;
	w->phase = SWEEP_MARK_ROLLUPS;
	return 0;
}

/* Callers are live, too. They have smaller numbers: one pass down finds all of them. */
static int spread(struct sweep *w, struct err *err)
{
	for (uint32_t i = MIN(w->room, column_n(&w->old->stacks)); i-- > 1;)
		if (is_live(w, i) && set_live(w, meta_stack_at(w->old, i)->parent, err) < 0)
			return -1;
	return 0;
}

/*
 * The stacks of a rollup are those of its profiles, which exist. A rollup is marked nevertheless: it must never
 * refer to a number that means something else.
 */
static int mark_rollups(struct sweep *w, struct err *err)
{
	if (read_rows(w, rollup_rows, set_live, err) < 0)
		return -1;
	if (!w->at_end)
		return 0;
	if (spread(w, err) < 0)
		return -1;
	w->new = NEW(struct meta);
	meta_init(w->new, MAX(WORTH(atomic_load(&w->old->memory)), MIB(1)));
	w->new->generation = w->old->generation + 1;
	segments_init(&w->segments, w->new);
	names_note_changes(w->s, true);
	w->next_stack = 1;
	w->phase = SWEEP_COPY;
	return 0;
}

/* ---- copying ---- */

enum { SWEEP_NOT_WORTH = 1 };

/* Where the new number of entry @i is kept. NULL: no memory. */
static uint32_t *number_at(struct sweep_numbers *x, uint32_t i, const struct column *c)
{
	if (i >= x->n) {
		uint32_t n = column_n(c) + 4096;
		uint32_t *v = realloc(x->v, n * sizeof(*v));

		if (!v)
			return NULL;
		memset(v + x->n, 0, (n - x->n) * sizeof(*v));
		x->v = v;
		x->n = n;
	}
	return &x->v[i];
}

static uint32_t copy_string(struct sweep *w, uint32_t i)
{
	return meta_string(w->new, meta_str(w->old, i));
}

static uint32_t copy_function(struct sweep *w, uint32_t i)
{
	uint32_t *at = number_at(&w->functions, i, &w->old->functions);

	if (at && !*at) {
		const struct meta_function *f = meta_function_at(w->old, i);
		struct meta_function new = { copy_string(w, f->name), copy_string(w, f->system_name),
					     copy_string(w, f->file), f->start_line };

		if (new.name == META_FAILED || new.system_name == META_FAILED || new.file == META_FAILED)
			return META_FAILED;
		/* META_FAILED + 1 is 0. */
		*at = meta_function(w->new, &new) + 1;
	}
	return at ? *at - 1 : META_FAILED;
}

/*
 * Placeholders of a repair (salvage_segments.c) are equal: each keeps a number of its own, or addresses of two binaries
 * would be one, and so would two stacks, which have to keep their numbers.
 */
static uint32_t copy_binary(struct sweep *w, uint32_t i)
{
	uint32_t *at = number_at(&w->binaries, i, &w->old->binaries);

	if (at && !*at) {
		const struct meta_binary *b = meta_binary_at(w->old, i);
		uint32_t n = column_n(&w->new->binaries),
			 to = meta_binary(w->new, meta_str(w->old, b->file), meta_str(w->old, b->build_id));

		/* Number 0 is there from the start. */
		if (i && to < n)
			to = meta_binary_again(w->new, to);
		*at = to + 1;
	}
	return at ? *at - 1 : META_FAILED;
}

static uint32_t copy_part(struct sweep *w, uint32_t i)
{
	uint32_t *at = number_at(&w->parts, i, &w->old->parts);

	if (at && !*at) {
		struct meta_part p = *meta_part_at(w->old, i);

		p.binary = copy_binary(w, p.binary);
		if (p.binary == META_FAILED)
			return META_FAILED;
		*at = meta_part(w->new, &p) + 1;
	}
	return at ? *at - 1 : META_FAILED;
}

/* Lines with functions of the new tables, in w->lines. */
static bool copy_lines(struct sweep *w, uint32_t first, uint32_t n)
{
	if (n > w->room_lines) {
		w->room_lines = MAX(2 * n, 64u);
		w->lines = mem_realloc(w->lines, w->room_lines, sizeof(*w->lines));
	}
	for (uint32_t i = 0; i < n; i++) {
		w->lines[i] = meta_line_at(w->old, first + i);
		w->lines[i].function = copy_function(w, w->lines[i].function);
		if (w->lines[i].function == META_FAILED)
			return false;
	}
	return true;
}

static bool copy_names(struct sweep *w, uint32_t from, uint32_t to)
{
	uint64_t word = meta_names_at(w->old, from);
	struct meta_names n = meta_names_of(word);

	if (!word)
		return true;
	if (n.n_lines) {
		if (!copy_lines(w, n.first_line, n.n_lines))
			return false;
		n.first_line = meta_lines(w->new, w->lines, n.n_lines);
		if (n.first_line == META_FAILED)
			return false;
	}
	meta_set_names(w->new, to, meta_names_word(n), meta_elf_addr(w->old, from));
	return true;
}

static uint32_t copy_location(struct sweep *w, uint32_t i)
{
	uint32_t *at = number_at(&w->locations, i, &w->old->locations);

	if (at && !*at) {
		const struct meta_location l = meta_location_at(w->old, i);
		struct meta_location new = {
			.addr = l.addr, .part = copy_part(w, l.part), .n_lines = l.n_lines, .flags = l.flags
		};
		uint32_t n = column_n(&w->new->locations), to;

		if (new.part == META_FAILED || !copy_lines(w, l.first_line, l.n_lines))
			return META_FAILED;
		to = meta_location(w->new, &new, w->lines);
		if (to < n)
			to = meta_location_again(w->new, to);
		if (to == META_FAILED || !copy_names(w, i, to))
			return META_FAILED;
		*at = to + 1;
	}
	return at ? *at - 1 : META_FAILED;
}

static int copy_stack(struct sweep *w, uint32_t i)
{
	const struct meta_stack *t = meta_stack_at(w->old, i);
	uint32_t location = copy_location(w, t->location);

	return location != META_FAILED && meta_stack_put(w->new, i, t->parent, location) ? 0
											 : SWEEP_NOT_WORTH;
}

static int copy_marked(struct sweep *w, struct err *err)
{
	uint32_t n = MIN(w->room, column_n(&w->old->stacks));

	(void)err;
	for (uint32_t left = STEP_STACKS; left && w->next_stack < n; w->next_stack++) {
		if (!is_live(w, w->next_stack))
			continue;
		if (copy_stack(w, w->next_stack) != 0)
			return SWEEP_NOT_WORTH;
		left--;
	}
	if (w->next_stack < n)
		return 0;
	w->last_id = w->profile_id;
	w->phase = SWEEP_CATCH_UP;
	return 0;
}

/* ---- rows that came meanwhile ---- */

/* Copy a stack with its callers, unless it was. */
static int copy_late(struct sweep *w, uint32_t stack, struct err *err)
{
	w->path.n = 0;
	for (uint32_t i = stack; i && !is_live(w, i); i = meta_stack_at(w->old, i)->parent)
		VEC_PUSH(w->path.v, w->path.n, w->path.room) = i;
	while (w->path.n) {
		uint32_t i = w->path.v[--w->path.n];

		if (copy_stack(w, i) != 0)
			return err_set(err, ERR_LIMIT, "the tables grew too much during a sweep");
		if (set_live(w, i, err) < 0)
			return -1;
	}
	return 0;
}

/* Names that have changed since their location was copied. */
static int copy_changes(struct sweep *w, struct err *err)
{
	uint32_t v[1024];

	for (size_t n; (n = names_changes(w->s, v, ARRAY_SIZE(v)));)
		for (size_t i = 0; i < n; i++) {
			uint32_t to = v[i] < w->locations.n ? w->locations.v[v[i]] : 0;

			if (!to--)
				continue;
			if (!copy_names(w, v[i], to))
				return err_set(err, ERR_LIMIT, "the tables grew too much during a sweep");
			if (to < w->next_name)
				segment_add_names(&w->segments, to, meta_names_of(meta_names_at(w->new, to)),
						  meta_elf_addr(w->new, to));
		}
	return 0;
}

static int catch_up(struct sweep *w, struct err *err)
{
	if (read_rows(w, profile_rows, copy_late, err) < 0 || copy_changes(w, err) < 0)
		return -1;
	if (!w->at_end)
		return 0;
	w->n_rounds++;
	w->phase = SWEEP_WRITE;
	return 0;
}

/* ---- writing ---- */

static void add_names(struct sweep *w, uint32_t n)
{
	uint32_t end = column_n(&w->new->locations);

	for (; n && w->next_name < end; n--, w->next_name++) {
		uint64_t word = meta_names_at(w->new, w->next_name);

		if (word)
			segment_add_names(&w->segments, w->next_name, meta_names_of(word),
					  meta_elf_addr(w->new, w->next_name));
	}
}

static int write_apply(struct profilestore *s, struct job *j, struct err *err)
{
	struct sweep *w = CONTAINER_OF(j, struct sweep, job);

	return segments_write(s->db, w->new, &w->segments, STEP_WRITE, &w->more, err);
}

static void write_done(struct profilestore *s, struct job *j, const struct err *err)
{
	struct sweep *w = CONTAINER_OF(j, struct sweep, job);

	(void)s;
	segments_commit(w->new, &w->segments, !err);
}

static int write_step(struct sweep *w, struct err *err)
{
	size_t n_rows = w->n_rows;

	add_names(w, STEP_NAMES);
	w->job = (struct job){ .apply = write_apply, .done = write_done };
	if (profilestore_writer_run(w->s, &w->job, err) < 0)
		return -1;
	if (w->more || w->next_name < column_n(&w->new->locations))
		return 0;
	w->phase = n_rows > FEW_ROWS && w->n_rounds < MAX_ROUNDS ? SWEEP_CATCH_UP : SWEEP_TAKE_OVER;
	return 0;
}

/* ---- taking over ---- */

static int set_generation(struct profilestore *s, uint32_t generation, struct err *err)
{
	return db_exec_i64(s->db, "UPDATE counter SET generation = ? WHERE id = 1", generation, err);
}

static int take_over_apply(struct profilestore *s, struct job *j, struct err *err)
{
	struct sweep *w = CONTAINER_OF(j, struct sweep, job);

	if (w->file != atomic_load(&s->files.number))
		return err_set(err, ERR_CANCELLED, "the database was made anew during a sweep");
	do {
		if (each_row(w, s->db, profile_rows, STEP_ROWS, copy_late, err) < 0)
			return -1;
	} while (!w->at_end);
	if (copy_changes(w, err) < 0)
		return -1;
	add_names(w, UINT32_MAX);
	return segments_write(s->db, w->new, &w->segments, UINT64_MAX, &w->more, err) < 0 ||
			       names_write_all(s, w->new, &w->binaries, err) < 0
		       ? -1
		       : set_generation(s, w->new->generation, err);
}

static void release_meta(void *p)
{
	meta_done(p);
	free(p);
}

static void take_over_done(struct profilestore *s, struct job *j, const struct err *err)
{
	struct sweep *w = CONTAINER_OF(j, struct sweep, job);

	segments_commit(w->new, &w->segments, !err);
	if (err)
		return;
	w->new->max_memory = w->old->max_memory;
	senders_swept(s, atomic_load(&w->old->memory), atomic_load(&w->new->memory));
	pthread_mutex_lock(&s->names->lock);
	pthread_mutex_lock(&s->readers_lock);
	s->meta = w->new;
	pthread_mutex_unlock(&s->readers_lock);
	names_take_over(s, w->old, &w->binaries);
	pthread_mutex_unlock(&s->names->lock);
	buf_done(&s->segments.names);
	s->segments = w->segments;
	w->segments = (struct segments){ 0 };
	w->new = NULL;
	epoch_retire(s, TAKE(w->old), release_meta);
}

/* ---- steps ---- */

static void sweep_end(struct sweep *w)
{
	if (w->new) {
		meta_done(w->new);
		free(w->new);
	}
	if (w->s)
		budget_return(w->s->memory, BUDGET_SWEEP, w->granted);
	buf_done(&w->segments.names);
	free(w->live);
	free(w->locations.v);
	free(w->functions.v);
	free(w->parts.v);
	free(w->binaries.v);
	free(w->lines);
	free(w->path.v);
	*w = (struct sweep){ .phase = SWEEP_CLEAN };
}

static int take_over(struct sweep *w, struct err *err)
{
	struct profilestore *s = w->s;

	w->job = (struct job){ .apply = take_over_apply, .done = take_over_done, .alone = true };
	if (profilestore_writer_run(s, &w->job, err) < 0)
		return -1;
	names_note_changes(s, false);
	atomic_fetch_add(&s->n_sweeps, 1);
	sweep_end(w);
	return 0;
}

/*
 * The memory of the new tables is granted before the first row is read, since a sweep that had to wait in the middle
 * would hold memory that others wait for. More than the class may have is not waited for.
 */
static bool sweep_is_granted(struct profilestore *s, uint64_t *ret)
{
	struct sweep *w = s->sweep;
	uint64_t need = MIN(WORTH(atomic_load(&s->meta->memory)), budget_most(s->memory, BUDGET_SWEEP));

	*ret = need;
	if (budget_try(s->memory, BUDGET_SWEEP, need))
		return true;
	*ret = 0;
	if (!w->wait_until_ms)
		w->wait_until_ms = s->mono_ms() + WAIT_MS;
	return s->mono_ms() >= w->wait_until_ms;
}

static void sweep_begin(struct profilestore *s, struct sweep *w)
{
	uint64_t granted;

	if (sweep_is_granted(s, &granted))
		*w = (struct sweep){ .s = s,
				     .n_failed = w->n_failed,
				     .old = s->meta,
				     .phase = SWEEP_MARK_PROFILES,
				     .granted = granted,
				     .file = atomic_load(&s->files.number) };
}

static int sweep_step(struct sweep *w, struct err *err)
{
	switch (w->phase) {
	case SWEEP_MARK_PROFILES:
		return mark_profiles(w, err);
	case SWEEP_MARK_ROLLUPS:
		return mark_rollups(w, err);
	case SWEEP_COPY:
		return copy_marked(w, err);
	case SWEEP_CATCH_UP:
		return catch_up(w, err);
	case SWEEP_WRITE:
		return write_step(w, err);
	case SWEEP_TAKE_OVER:
		return take_over(w, err);
	case SWEEP_CLEAN:
	case SWEEP_IDLE:
		break;
	}
	return 0;
}

int sweep_groom(struct profilestore *s, bool *ret_more, struct err *err)
{
	struct sweep *w = s->sweep;
	bool more = false;
	unsigned n_failed;
	int r;

	*ret_more = false;
	if (w->phase == SWEEP_CLEAN) {
		if (segments_clean(s, &more, err) < 0)
			return -1;
		if (!more)
			w->phase = SWEEP_IDLE;
	}
	if (w->phase == SWEEP_IDLE && w->asked)
		sweep_begin(s, w);
	if (w->phase <= SWEEP_IDLE) {
		*ret_more = w->phase == SWEEP_CLEAN;
		return 0;
	}
	r = sweep_step(w, err);
	*ret_more = true;
	/* The rows that it has written are not in the new file. */
	if (w->phase > SWEEP_IDLE && w->file != atomic_load(&s->files.number)) {
		names_note_changes(s, false);
		sweep_end(w);
		w->asked = true;
		return 0;
	}
	if (r == 0)
		return 0;
	names_note_changes(s, false);
	n_failed = w->n_failed + 1;
	sweep_end(w);
	/* It is tried again. Until it has made room, or there was none to be made, no more profiles are deleted for that. */
	w->asked = r < 0 && (!err || err->kind != ERR_LIMIT) && n_failed < TRIES_MAX;
	w->n_failed = w->asked ? n_failed : 0;
	return r < 0 ? -1 : 0;
}

struct sweep *sweep_new(void)
{
	return NEW(struct sweep);
}

void sweep_free(struct profilestore *s)
{
	if (s->names)
		names_note_changes(s, false);
	sweep_end(s->sweep);
	free(s->sweep);
}

void sweep_ask(struct sweep *w)
{
	w->asked = true;
}

bool sweep_runs(const struct sweep *w)
{
	return w->asked || w->phase > SWEEP_IDLE;
}

bool sweep_is_under_way(const struct sweep *w)
{
	return w->phase > SWEEP_IDLE;
}
