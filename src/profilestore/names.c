/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Naming, binary by binary: its state, and what changes it. It outlives the process in the locations (the
 * generation of the table that each was looked up in) and in one row of table `naming` for each binary; the
 * lists of wanted locations are made from these when the store is opened.
 *
 *   names_wanted.c  the wanted locations of a binary
 *   names_query.c   reading
 *   names_write.c   names and outcomes, written by the writer
 */
#include "profilestore/names_internal.h"

#include <stdlib.h>
#include "base/vec.h"

/* ---- binaries ---- */

/* A binary with a build ID is known by it, others by their file; the first letter keeps the two apart. */
void names_key(struct str file, struct str build_id, struct buf *out)
{
	out->size = 0;
	buf_add_char(out, build_id.size ? 'b' : 'f');
	buf_add_str(out, build_id.size ? build_id : file);
}

static char *heap_text(struct str text)
{
	return text.size ? mem_strndup(text.p, text.size) : NULL;
}

struct named_binary *names_binary(const struct profilestore *s, const struct meta *m, uint32_t binary)
{
	uint32_t i = atomic_load_explicit(&meta_binary_at(m, binary)->state, memory_order_acquire);

	return i ? names_at(s->names, i - 1) : NULL;
}

struct named_binary *names_of_id(const struct profilestore *s, uint32_t id)
{
	if (!id)
		return names_binary(s, s->meta, 0);
	return id <= column_n(&s->names->tracked) ? names_at(s->names, id - 1) : NULL;
}

struct named_binary *names_track(struct profilestore *s, uint32_t binary)
{
	struct meta_binary *b = meta_binary_at(s->meta, binary);
	AUTO(buf_done) struct buf key = { 0 };
	struct names *n = s->names;
	struct named_binary *t = names_binary(s, s->meta, binary), **slot;

	if (t)
		return t;
	slot = column_next(&n->tracked);
	if (!slot)
		return NULL;
	t = *slot = NEW(struct named_binary);
	t->slot = column_n(&n->tracked);
	t->binary = binary;
	atomic_init(&t->generation, 1);
	names_key(meta_str(s->meta, b->file), meta_str(s->meta, b->build_id), &key);
	map_put(&n->by_key, buf_bytes(&key), t);
	atomic_store_explicit(&b->state, column_publish(&n->tracked) + 1, memory_order_release);
	return t;
}

/* Under the lock. */
static void try_at_once(struct named_binary *t)
{
	atomic_store(&t->state, NAMING_WANTED);
	t->next_try_ms = 0;
}

bool look_is_due(const struct named_binary *t)
{
	return atomic_load_explicit(&t->n_looked, memory_order_relaxed) !=
	       atomic_load_explicit(&t->n_added, memory_order_relaxed);
}

void names_due_look(struct names *n, struct named_binary *t)
{
	if (!look_is_due(t))
		t->due_since = n->n_due++;
	t->n_added++;
}

/* Under the lock: a look or a try that began at @n_added has seen all that had come in by then. */
static void note_looked(struct names *n, struct named_binary *t, uint64_t n_added)
{
	if (n_added <= t->n_looked)
		return;
	t->n_looked = n_added;
	/* It goes to the end of the queue. */
	if (look_is_due(t))
		t->due_since = n->n_due++;
}

/* ---- new locations ---- */

void names_added(struct profilestore *s, uint32_t binary)
{
	struct names *n = s->names;

	if (n->n_added && n->added[n->n_added - 1] == binary)
		return;
	VEC_PUSH(n->added, n->n_added, n->added_room) = binary;
}

void names_committed(struct profilestore *s)
{
	struct names *n = s->names;
	void (*fn)(void *arg);
	bool any = false;
	void *arg;

	if (!n->n_added)
		return;
	pthread_mutex_lock(&n->lock);
	for (size_t i = 0; i < n->n_added; i++) {
		struct named_binary *t = names_track(s, n->added[i]);
		uint32_t was = t ? wanted_count(t) : 0;

		if (!t)
			continue;
		wanted_add_new(s, t);
		if (wanted_count(t) == was)
			continue;
		/* The search for a table, or for a better one, waits for its time; the table at hand does not. */
		if (t->state == NAMING_NONE)
			try_at_once(t);
		if (t->state == NAMING_NEVER)
			continue;
		names_due_look(n, t);
		any = true;
	}
	n->n_added = 0;
	fn = n->fn;
	arg = n->arg;
	pthread_mutex_unlock(&n->lock);
	if (any && fn)
		fn(arg);
}

void profilestore_on_unnamed(struct profilestore *s, void (*fn)(void *arg), void *arg)
{
	pthread_mutex_lock(&s->names->lock);
	s->names->fn = fn;
	s->names->arg = arg;
	pthread_mutex_unlock(&s->names->lock);
}

/* ---- tables and wakes ---- */

uint32_t profilestore_named_by(struct profilestore *s, uint32_t binary, struct str table)
{
	struct named_binary *t;
	uint32_t n = 0;

	pthread_mutex_lock(&s->names->lock);
	t = names_of_id(s, binary);
	if (t && !str_eq(str_of(t->named_by), table)) {
		bool other = t->named_by != NULL;

		free(t->named_by);
		t->named_by = heap_text(table);
		t->unsaved = true;
		/* 1 to 255, then 1 again. */
		if (other) {
			atomic_store(&t->generation, (uint8_t)(t->generation % 255 + 1));
			wanted_add_all(s, t);
		}
	}
	if (t)
		n = wanted_count(t);
	pthread_mutex_unlock(&s->names->lock);
	return n;
}

bool profilestore_named_by_other(struct profilestore *s, uint32_t binary, struct str table)
{
	const struct named_binary *t;
	bool other;

	pthread_mutex_lock(&s->names->lock);
	t = names_of_id(s, binary);
	other = t && t->named_by && !str_eq(str_of(t->named_by), table);
	pthread_mutex_unlock(&s->names->lock);
	return other;
}

/* Under the lock. */
static void force_try(struct profilestore *s, struct named_binary *t)
{
	int64_t now_ms = s->now_ms();
	/* The clock may have been set back since. */
	int64_t at_ms = MAX(now_ms, MIN(t->forced_ms, now_ms) + NAMES_FORCED_MS);

	if (t->state == NAMING_WANTED && t->next_try_ms <= at_ms)
		return;
	atomic_store(&t->state, NAMING_WANTED);
	t->next_try_ms = t->forced_ms = at_ms;
}

int64_t profilestore_looked(struct profilestore *s, uint32_t binary, uint64_t n_added, bool try_now)
{
	int64_t next_ms = INT64_MAX;
	struct named_binary *t;

	pthread_mutex_lock(&s->names->lock);
	t = names_of_id(s, binary);
	if (t)
		note_looked(s->names, t, n_added);
	if (t && try_now)
		force_try(s, t);
	if (t && t->state == NAMING_WANTED)
		next_ms = t->next_try_ms;
	atomic_fetch_add(&s->names->n_namings, 1);
	pthread_mutex_unlock(&s->names->lock);
	return next_ms;
}

static unsigned wake_binary(struct profilestore *s, struct str file, struct str build_id)
{
	AUTO(buf_done) struct buf key = { 0 };
	struct named_binary *t;

	names_key(file, build_id, &key);
	pthread_mutex_lock(&s->names->lock);
	t = map_get(&s->names->by_key, buf_bytes(&key));
	if (t) {
		try_at_once(t);
		t->n_wakes++;
	}
	pthread_mutex_unlock(&s->names->lock);
	return t != NULL;
}

unsigned profilestore_wake(struct profilestore *s, const struct build_id *id)
{
	char hex[BUILD_ID_HEX_SIZE];

	return id->size ? wake_binary(s, STR(""), str_of(build_id_hex(id, hex))) : 0;
}

unsigned profilestore_wake_file(struct profilestore *s, struct str file)
{
	return file.size ? wake_binary(s, file, STR("")) : 0;
}

void names_tried(struct names *n, struct named_binary *t, const struct profilestore_tried *tried)
{
	note_looked(n, t, tried->n_added);
	t->reason = tried->reason;
	free(t->why);
	t->why = heap_text(tried->why);
	if (tried->origin.size) {
		free(t->origin);
		t->origin = heap_text(tried->origin);
	}
	if (tried->is_look) {
		if (tried->state == NAMING_DONE)
			t->n_tries = 0;
	} else {
		t->n_tries = tried->n_tries;
		t->last_try_ms = tried->at_ms;
		t->next_try_ms = tried->next_try_ms;
	}
	atomic_store(&t->state, tried->state);
	/* Locations that came meanwhile have their look. */
	if (tried->n_wakes != t->n_wakes ||
	    (tried->state == NAMING_DONE && wanted_count(t) && !look_is_due(t)))
		try_at_once(t);
}

/* ---- opening, closing ---- */

static int load_binary(struct profilestore *s, struct db_stmt *st, struct err *err)
{
	int64_t binary = db_i64(st, 0) & UINT32_MAX, table = db_i64(st, 6), state = db_i64(st, 1),
		reason = db_i64(st, 2);
	struct named_binary *t;

	if (binary < 0 || binary >= column_n(&s->meta->binaries) || table < 1 || table > 255 || state < 0 ||
	    state > NAMING_DONE || reason < 0 || reason >= FRAME_N_REASONS)
		return err_set(err, ERR_DAMAGED, "the row of naming for binary %lld is damaged",
			       (long long)binary);
	t = names_track(s, (uint32_t)binary);
	if (!t)
		return err_set(err, ERR_LIMIT, "no memory for the state of binaries");
	atomic_store(&t->state, (int)state);
	t->reason = (uint32_t)reason;
	t->why = heap_text(db_str(st, 3));
	t->origin = heap_text(db_str(st, 4));
	t->named_by = heap_text(db_str(st, 5));
	atomic_store(&t->generation, (uint8_t)table);
	t->n_tries = (uint32_t)db_i64(st, 7);
	t->last_try_ms = db_i64(st, 8);
	t->next_try_ms = db_i64(st, 9);
	return 0;
}

static int load_binaries(struct profilestore *s, struct db *db, struct err *err)
{
	const struct generation_keys keys = generation_keys(s->meta->generation, NAMING_KEY_BITS);
	struct db_stmt *st;
	int r;

	if (db_prepare(db,
		       "SELECT binary, state, reason, why, origin, named_by, named_by_number, n_tries, "
		       "last_try_ms,"
		       " next_try_ms FROM naming WHERE binary >= ? AND binary < ?",
		       &st, err) < 0)
		return -1;
	db_bind_i64(st, 1, keys.from);
	db_bind_i64(st, 2, keys.to);
	while ((r = db_step(st, err)) == DB_ROW)
		if (load_binary(s, st, err) < 0) {
			db_reset(st);
			return -1;
		}
	return r;
}

/* Without a build ID, but with a path: the only file of that path may be known by now. */
static bool may_be_matched(const struct profilestore *s, uint32_t binary)
{
	const struct meta_binary *b = meta_binary_at(s->meta, binary);

	return !b->build_id && str_starts(meta_str(s->meta, b->file), STR("/"));
}

/* Files may have turned up while the store was closed: every binary that failed is due. */
static void binary_opened(struct profilestore *s, uint32_t binary)
{
	struct named_binary *t;

	if (!atomic_load(&meta_binary_at(s->meta, binary)->n_bare))
		return;
	t = names_track(s, binary);
	if (!t)
		return;
	wanted_add_new(s, t);
	if (t->state == NAMING_WANTED)
		t->next_try_ms = 0;
	else if (wanted_count(t) && (t->state != NAMING_NEVER || may_be_matched(s, binary)))
		try_at_once(t);
}

int names_open(struct profilestore *s, struct db *db, struct err *err)
{
	struct names *n = NEW(struct names);

	s->names = n;
	pthread_mutex_init(&n->lock, NULL);
	n->tracked.entry_size = sizeof(struct named_binary *);
	if (load_binaries(s, db, err) < 0)
		return -1;
	for (uint32_t i = 0; i < column_n(&s->meta->binaries); i++)
		binary_opened(s, i);
	return 0;
}

void named_binary_free(void *p)
{
	struct named_binary *t = p;

	if (!t)
		return;
	free(t->wanted.list);
	free(t->why);
	free(t->origin);
	free(t->named_by);
	free(t);
}

void names_close(struct profilestore *s)
{
	struct names *n = s->names;

	if (!n)
		return;
	for (uint32_t i = 0; i < column_n(&n->tracked); i++)
		named_binary_free(names_at(s->names, i));
	column_done(&n->tracked);
	map_done(&n->by_key);
	free(n->added);
	free(n->renamed.v);
	pthread_mutex_destroy(&n->lock);
	free(n);
	s->names = NULL;
}
