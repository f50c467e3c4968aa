/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which locations want names, by binary, and whose turn it is. What lasts of it lies in the locations
 * themselves (the table that each was looked up in) and in a row of table `naming` for each binary; lists are
 * made of that when the store is opened.
 *
 * names_write.c has what changes the store.
 */
#include "profilestore/names_internal.h"

#include <stdlib.h>

#define SOON_MS INT64_C(5000)

/* ---- binaries ---- */

/* Those with a build ID are known by it, the others by their file; neither is text that could be the other.
 */
static void build_id_key(struct str file, struct str build_id, struct buf *out)
{
	out->size = 0;
	buf_add_char(out, build_id.size ? 'b' : 'f');
	buf_add_str(out, build_id.size ? build_id : file);
}

static char *keep_text_of(struct str text)
{
	return text.size ? mem_strndup(text.p, text.size) : NULL;
}

struct tracked *names_of(const struct profilestore *s, uint32_t binary)
{
	uint32_t i = atomic_load_explicit(&meta_binary_at(&s->meta, binary)->state, memory_order_acquire);

	return i ? *(struct tracked **)column_at(&s->names->tracked, i - 1) : NULL;
}

/* NULL: no memory. */
static struct tracked *track_binary(struct profilestore *s, uint32_t binary)
{
	struct meta_binary *b = meta_binary_at(&s->meta, binary);
	AUTO(buf_done) struct buf key = { 0 };
	struct names *n = s->names;
	struct tracked *t = names_of(s, binary), **slot;

	if (t)
		return t;
	slot = column_next(&n->tracked);
	if (!slot)
		return NULL;
	t = *slot = NEW(struct tracked);
	t->binary = binary;
	atomic_init(&t->table, 1);
	build_id_key(meta_str(&s->meta, b->file), meta_str(&s->meta, b->build_id), &key);
	map_put(&n->by_key, buf_bytes(&key), t);
	atomic_store_explicit(&b->state, column_publish(&n->tracked) + 1, memory_order_release);
	return t;
}

static struct meta_names looked_up(const struct meta_location *l)
{
	return meta_names_of(atomic_load_explicit(&l->names, memory_order_acquire));
}

static bool location_is_wanted(const struct profilestore *s, const struct tracked *t, uint32_t location)
{
	return looked_up(meta_location_at(&s->meta, location)).table !=
	       atomic_load_explicit(&t->table, memory_order_relaxed);
}

void names_shorten(struct profilestore *s, struct tracked *t)
{
	size_t to = 0;

	while (t->first < t->n_wanted && !location_is_wanted(s, t, t->wanted[t->first]))
		t->first++;
	if (t->first < t->n_wanted / 2 && t->first < t->n_wanted)
		return;
	for (size_t i = t->first; i < t->n_wanted; i++)
		t->wanted[to++] = t->wanted[i];
	t->n_wanted = to;
	t->first = 0;
	if (!to) {
		free(TAKE(t->wanted));
		t->room = 0;
	}
}

static void list_push(struct tracked *t, uint32_t location)
{
	if (t->n_wanted == t->room) {
		t->room = t->room ? 2 * t->room : 64;
		t->wanted = mem_realloc(t->wanted, t->room, sizeof(*t->wanted));
	}
	t->wanted[t->n_wanted++] = location;
}

/* Under the lock: those from location @last (a number + 1) back to where it was seen the last time. */
static void want_location(struct profilestore *s, struct tracked *t, uint32_t last)
{
	for (uint32_t i = last; i && i != t->seen;) {
		const struct meta_location *l = meta_location_at(&s->meta, i - 1);

		if (l->flags & LOCATION_BARE) {
			t->n_bare_named += l->n_lines || looked_up(l).n_lines;
			if (location_is_wanted(s, t, i - 1))
				list_push(t, i - 1);
		}
		i = l->next;
	}
	t->seen = last;
}

static uint32_t last_of(const struct profilestore *s, uint32_t binary)
{
	return atomic_load_explicit(&meta_binary_at(&s->meta, binary)->last_location, memory_order_acquire);
}

/* Under the lock. */
static uint32_t n_wanted(const struct tracked *t)
{
	return (uint32_t)(t->n_wanted - t->first);
}

/* Under the lock: it is tried as soon as may be. */
static void current_table(struct tracked *t)
{
	atomic_store(&t->state, NAMING_WANTED);
	t->next_try_ms = 0;
}

/* ---- what came in ---- */

void names_added(struct profilestore *s, uint32_t binary)
{
	struct names *n = s->names;

	if (n->n_added && n->added[n->n_added - 1] == binary)
		return;
	if (n->n_added == n->added_room) {
		n->added_room = n->added_room ? 2 * n->added_room : 64;
		n->added = mem_realloc(n->added, n->added_room, sizeof(*n->added));
	}
	n->added[n->n_added++] = binary;
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
		struct tracked *t = track_binary(s, n->added[i]);
		uint32_t was = t ? n_wanted(t) : 0;

		if (!t)
			continue;
		want_location(s, t, last_of(s, t->binary));
		if (n_wanted(t) == was)
			continue;
		/* What failed is tried again when its time has come, whatever comes in until then. */
		if (t->state == NAMING_NONE || t->state == NAMING_DONE) {
			t->n_tries = 0;
			current_table(t);
		}
		any |= t->state == NAMING_WANTED;
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

enum names_hope names_hope(struct profilestore *s, uint32_t location)
{
	const struct meta_location *l = meta_location_at(&s->meta, location);
	const struct tracked *t;

	if (!(l->flags & LOCATION_BARE))
		return NAMES_NONE;
	t = names_of(s, meta_binary_of(&s->meta, l));
	/* Not known yet: it came in just now. */
	if (!t)
		return NAMES_SOON;
	if (atomic_load(&t->state) != NAMING_WANTED || !location_is_wanted(s, t, location))
		return NAMES_NONE;
	return t->next_try_ms <= s->now_ms() + SOON_MS ? NAMES_SOON : NAMES_LATER;
}

uint64_t names_n_unnamed(struct profilestore *s)
{
	uint64_t n = 0;

	pthread_mutex_lock(&s->names->lock);
	for (uint32_t i = 0; i < column_n(&s->names->tracked); i++) {
		const struct tracked *t = *(struct tracked **)column_at(&s->names->tracked, i);
		const struct meta_binary *b = meta_binary_at(&s->meta, t->binary);

		n += atomic_load_explicit(&b->n_bare, memory_order_relaxed) - t->n_bare_named;
	}
	pthread_mutex_unlock(&s->names->lock);
	return n;
}

/* ---- asking ---- */

/* Under the lock. Strings are the store's, or t's. */
static void describe_binary(struct profilestore *s, uint32_t binary, const struct tracked *t,
			    struct profilestore_binary *ret)
{
	const struct meta_binary *b = meta_binary_at(&s->meta, binary);
	uint32_t n = atomic_load_explicit(&b->n_locations, memory_order_relaxed),
		 n_bare = atomic_load_explicit(&b->n_bare, memory_order_relaxed);

	*ret = (struct profilestore_binary){ .id = binary,
					     .file = meta_str(&s->meta, b->file),
					     .build_id = meta_str(&s->meta, b->build_id),
					     .n_locations = n,
					     .n_named = n - n_bare };
	if (!t)
		return;
	/* Some may have come in since it was counted. */
	ret->n_named += MIN(t->n_bare_named, n_bare);
	ret->n_wanted = n_wanted(t);
	ret->state = t->state;
	ret->reason = t->reason;
	ret->why = str_of(t->why);
	ret->origin = str_of(t->origin);
	ret->n_tries = t->n_tries;
	ret->n_wakes = t->n_wakes;
	ret->last_try_ms = t->last_try_ms;
	ret->next_try_ms = t->next_try_ms;
}

static char *copy_text(char *to, struct str *text)
{
	if (text->size)
		memcpy(to, text->p, text->size);
	text->p = to;
	return to + text->size;
}

/* All in one piece, with their texts. */
static struct profilestore_binaries *pack_why(const struct profilestore_binary *v, size_t n, int64_t total)
{
	struct profilestore_binaries *ret;
	size_t size = sizeof(*ret) + n * sizeof(*v);
	char *text;

	for (size_t i = 0; i < n; i++)
		size += v[i].file.size + v[i].build_id.size + v[i].why.size + v[i].origin.size;
	ret = mem_alloc(size);
	*ret = (struct profilestore_binaries){ n, total, (struct profilestore_binary *)(ret + 1) };
	text = (char *)(ret->v + n);
	for (size_t i = 0; i < n; i++) {
		ret->v[i] = v[i];
		text = copy_text(text, &ret->v[i].file);
		text = copy_text(text, &ret->v[i].build_id);
		text = copy_text(text, &ret->v[i].why);
		text = copy_text(text, &ret->v[i].origin);
	}
	return ret;
}

static int by_wanted(const void *a, const void *b)
{
	const struct profilestore_binary *x = a, *y = b;

	if (x->n_wanted != y->n_wanted)
		return x->n_wanted > y->n_wanted ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

int profilestore_wanted(struct profilestore *s, int64_t now_ms, uint32_t limit,
			struct profilestore_binaries **ret, int64_t *ret_next_ms, struct err *err)
{
	AUTO(mem_freep) struct profilestore_binary *list = NULL;
	struct names *n = s->names;
	size_t n_list = 0;

	*ret_next_ms = INT64_MAX;
	pthread_mutex_lock(&n->lock);
	list = NEW_N(struct profilestore_binary, (size_t)column_n(&n->tracked) + 1);
	for (uint32_t i = 0; i < column_n(&n->tracked); i++) {
		struct tracked *t = *(struct tracked **)column_at(&n->tracked, i);

		if (t->state != NAMING_WANTED)
			continue;
		if (t->next_try_ms > now_ms) {
			*ret_next_ms = MIN(*ret_next_ms, t->next_try_ms);
			continue;
		}
		describe_binary(s, t->binary, t, &list[n_list++]);
	}
	qsort(list, n_list, sizeof(*list), by_wanted);
	*ret = pack_why(list, MIN(n_list, (size_t)limit), 0);
	pthread_mutex_unlock(&n->lock);
	return 0;
}

/* What was spent in each binary, and which were seen at all. Callers have smaller numbers than callees. */
static void add_up(struct profilestore *s, struct sums *x, int64_t *values, bool *seen)
{
	for (uint32_t i = x->n; i-- > 1;) {
		const struct meta_stack *st;
		uint32_t binary;

		if (!sums_has(x, i))
			continue;
		st = meta_stack_at(&s->meta, i);
		binary = meta_binary_of(&s->meta, meta_location_at(&s->meta, st->location));
		x->seen[st->parent / 64] |= UINT64_C(1) << st->parent % 64;
		values[binary] = add_saturating(values[binary], x->values[i]);
		seen[binary] = true;
	}
}

static int by_location(const void *a, const void *b)
{
	const struct profilestore_binary *x = a, *y = b;

	if (x->value != y->value)
		return x->value > y->value ? -1 : 1;
	return by_wanted(a, b);
}

int profilestore_binaries(struct profilestore *s, const struct profilestore_range *r,
			  struct profilestore_binaries **ret, struct err *err)
{
	AUTO(mem_freep) struct profilestore_binary *list = NULL;
	AUTO(mem_freep) int64_t *values = NULL;
	AUTO(mem_freep) bool *seen = NULL;
	const struct range_options o = { .deadline_mono_ms = clock_mono_ms() + BINARIES_MS };
	AUTO(sums_done) struct sums x = { 0 };
	uint32_t n_all;
	size_t n = 0;

	if (r && (sums_init(&x, &s->meta, err) < 0 || range_sums(s, r, &o, &x, err) < 0))
		return -1;
	n_all = column_n(&s->meta.binaries);
	list = NEW_N(struct profilestore_binary, (size_t)n_all + 1);
	values = mem_zalloc(((size_t)n_all + 1) * sizeof(*values));
	seen = mem_zalloc((size_t)n_all + 1);
	if (r)
		add_up(s, &x, values, seen);
	pthread_mutex_lock(&s->names->lock);
	for (uint32_t i = 0; i < n_all; i++) {
		if (r ? !seen[i] : !atomic_load(&meta_binary_at(&s->meta, i)->n_locations))
			continue;
		describe_binary(s, i, names_of(s, i), &list[n]);
		list[n++].value = values[i];
	}
	qsort(list, n, sizeof(*list), by_location);
	*ret = pack_why(list, n, x.total);
	pthread_mutex_unlock(&s->names->lock);
	return 0;
}

static void tell_place(const struct profilestore *s, uint32_t location, struct profilestore_unnamed *ret)
{
	static const struct {
		enum frame_address_kind kind;
		struct str symbol;
	} kinds[META_N_KINDS] = {
		[META_OFFSET] = { FRAME_OFFSET, { 0 } },
		[META_VADDR] = { FRAME_VADDR, { 0 } },
		[META_TEXT] = { FRAME_RUNTIME, STR("_text") },
		[META_STEXT] = { FRAME_RUNTIME, STR("_stext") },
		[META_SECTION] = { FRAME_SECTION, { 0 } },
		[META_RUNTIME] = { FRAME_RUNTIME, { 0 } },
	};
	const struct meta_location *l = meta_location_at(&s->meta, location);
	const struct meta_part *p = meta_part_at(&s->meta, l->part);

	*ret = (struct profilestore_unnamed){ .location = location,
					      .kind = (uint8_t)kinds[p->kind].kind,
					      .symbol = kinds[p->kind].symbol,
					      .addr = l->addr,
					      .mapping_offset = p->offset };
}

size_t profilestore_unnamed(struct profilestore *s, uint32_t binary, struct profilestore_unnamed *ret,
			    size_t room)
{
	struct tracked *t = names_of(s, binary);
	size_t n = 0;

	if (!t)
		return 0;
	pthread_mutex_lock(&s->names->lock);
	for (size_t i = t->first; i < t->n_wanted && n < room; i++)
		if (location_is_wanted(s, t, t->wanted[i]))
			tell_place(s, t->wanted[i], &ret[n++]);
	pthread_mutex_unlock(&s->names->lock);
	return n;
}

/* ---- being told ---- */

uint32_t profilestore_named_by(struct profilestore *s, uint32_t binary, struct str table)
{
	struct tracked *t = names_of(s, binary);
	uint32_t n;

	if (!t)
		return 0;
	pthread_mutex_lock(&s->names->lock);
	if (!str_eq(str_of(t->named_by), table)) {
		bool other = t->named_by != NULL;

		free(t->named_by);
		t->named_by = keep_text_of(table);
		t->unsaved = true;
		/* 1 to 255, and round again. */
		if (other) {
			atomic_store(&t->table, (uint8_t)(t->table % 255 + 1));
			t->n_wanted = t->first = 0;
			t->n_bare_named = 0;
			t->seen = 0;
			want_location(s, t, last_of(s, binary));
		}
	}
	n = n_wanted(t);
	pthread_mutex_unlock(&s->names->lock);
	return n;
}

static unsigned wake_binary(struct profilestore *s, struct str file, struct str build_id)
{
	AUTO(buf_done) struct buf key = { 0 };
	struct tracked *t;

	build_id_key(file, build_id, &key);
	pthread_mutex_lock(&s->names->lock);
	t = map_get(&s->names->by_key, buf_bytes(&key));
	if (t) {
		current_table(t);
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

/* ---- beginning, end ---- */

void names_tried(struct tracked *t, const struct profilestore_tried *tried, int64_t now_ms)
{
	t->reason = tried->reason;
	t->n_tries = tried->n_tries;
	t->last_try_ms = now_ms;
	t->next_try_ms = tried->next_try_ms;
	free(t->why);
	t->why = keep_text_of(tried->why);
	if (tried->origin.size) {
		free(t->origin);
		t->origin = keep_text_of(tried->origin);
	}
	atomic_store(&t->state, tried->state);
	/* What came meanwhile may not have been looked at. */
	if (tried->n_wakes != t->n_wakes || (tried->state == NAMING_DONE && n_wanted(t)))
		current_table(t);
}

static int load_row(struct profilestore *s, struct db_stmt *st, struct err *err)
{
	int64_t binary = db_i64(st, 0), table = db_i64(st, 6), state = db_i64(st, 1), reason = db_i64(st, 2);
	struct tracked *t;

	if (binary < 0 || binary >= column_n(&s->meta.binaries) || table < 1 || table > 255 || state < 0 ||
	    state > NAMING_DONE || reason < 0 || reason >= FRAME_N_REASONS)
		return err_set(err, ERR_INVALID, "what is known of naming binary %lld is damaged",
			       (long long)binary);
	t = track_binary(s, (uint32_t)binary);
	if (!t)
		return err_set(err, ERR_LIMIT, "no memory for what is known of binaries");
	atomic_store(&t->state, (int)state);
	t->reason = (uint32_t)reason;
	t->why = keep_text_of(db_str(st, 3));
	t->origin = keep_text_of(db_str(st, 4));
	t->named_by = keep_text_of(db_str(st, 5));
	atomic_store(&t->table, (uint8_t)table);
	t->n_tries = (uint32_t)db_i64(st, 7);
	t->last_try_ms = db_i64(st, 8);
	t->next_try_ms = db_i64(st, 9);
	return 0;
}

static int load_rows(struct profilestore *s, struct db *db, struct err *err)
{
	struct db_stmt *st;
	int r;

	if (db_prepare(db,
		       "SELECT binary, state, reason, why, origin, named_by, named_by_number, n_tries, "
		       "last_try_ms,"
		       " next_try_ms FROM naming",
		       &st, err) < 0)
		return -1;
	while ((r = db_step(st, err)) == DB_ROW)
		if (load_row(s, st, err) < 0) {
			db_reset(st);
			return -1;
		}
	return r;
}

/* What was not there while nobody looked may be there now: all that failed is due. */
static void binary_opened(struct profilestore *s, uint32_t binary)
{
	struct tracked *t;

	if (!atomic_load(&meta_binary_at(&s->meta, binary)->n_bare))
		return;
	t = track_binary(s, binary);
	if (!t)
		return;
	want_location(s, t, last_of(s, binary));
	if (t->state == NAMING_WANTED)
		t->next_try_ms = 0;
	else if (t->state != NAMING_NEVER && n_wanted(t))
		current_table(t);
}

int names_open(struct profilestore *s, struct db *db, struct err *err)
{
	struct names *n = NEW(struct names);

	s->names = n;
	pthread_mutex_init(&n->lock, NULL);
	n->tracked.entry_size = sizeof(struct tracked *);
	if (load_rows(s, db, err) < 0)
		return -1;
	for (uint32_t i = 0; i < column_n(&s->meta.binaries); i++)
		binary_opened(s, i);
	return 0;
}

void names_close(struct profilestore *s)
{
	struct names *n = s->names;

	if (!n)
		return;
	for (uint32_t i = 0; i < column_n(&n->tracked); i++) {
		struct tracked *t = *(struct tracked **)column_at(&n->tracked, i);

		free(t->wanted);
		free(t->why);
		free(t->origin);
		free(t->named_by);
		free(t);
	}
	column_done(&n->tracked);
	map_done(&n->by_key);
	free(n->added);
	pthread_mutex_destroy(&n->lock);
	free(n);
	s->names = NULL;
}
