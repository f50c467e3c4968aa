/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the state of naming: the binaries that are due, the binaries of a range, wanted locations. */
#include "profilestore/names_internal.h"

#include <stdlib.h>
#include "base/vec.h"

#define SOON_MS     INT64_C(5000)
#define SET_BACK_MS INT64_C(60000) /* the clock was set back by more than that */

enum names_hope names_hope(const struct reader *rd, uint32_t location)
{
	const struct meta_location l = meta_location_at(rd->meta, location);
	const struct named_binary *t;
	int state;

	if (rd->s->no_names || !(l.flags & LOCATION_BARE))
		return NAMES_NONE;
	t = names_binary(rd->s, rd->meta, meta_binary_of(rd->meta, &l));
	/* Not tracked yet: it came in just now. */
	if (!t)
		return NAMES_SOON;
	state = atomic_load(&t->state);
	if (state == NAMING_NEVER || !location_is_wanted(rd->meta, t, location))
		return NAMES_NONE;
	if (look_is_due(t) || location >= atomic_load(&t->wanted.seen))
		return NAMES_SOON;
	if (state != NAMING_WANTED)
		return NAMES_NONE;
	return t->next_try_ms <= rd->s->now_ms() + SOON_MS ? NAMES_SOON : NAMES_LATER;
}

uint64_t names_n_unnamed(struct profilestore *s)
{
	uint64_t n = 0;

	pthread_mutex_lock(&s->names->lock);
	for (uint32_t i = 0; i < column_n(&s->names->tracked); i++) {
		const struct named_binary *t = names_at(s->names, i);
		const struct meta_binary *b = t ? meta_binary_at(s->meta, t->binary) : NULL;

		if (!t)
			continue;
		n += atomic_load_explicit(&b->n_bare, memory_order_relaxed) - t->n_bare_named;
	}
	pthread_mutex_unlock(&s->names->lock);
	return n;
}

/* Under the lock. Strings are owned by the store or by @t. */
static void describe_binary(const struct meta *m, uint32_t binary, const struct named_binary *t,
			    struct profilestore_binary *ret)
{
	const struct meta_binary *b = meta_binary_at(m, binary);
	uint32_t n = atomic_load_explicit(&b->n_locations, memory_order_relaxed),
		 n_bare = atomic_load_explicit(&b->n_bare, memory_order_relaxed);

	*ret = (struct profilestore_binary){ .id = t ? names_id(t) : UINT32_MAX,
					     .file = meta_str(m, b->file),
					     .build_id = meta_str(m, b->build_id),
					     .n_locations = n,
					     .n_named = n - n_bare };
	if (!t)
		return;
	/* More locations may have come in since the last count. */
	ret->n_named += MIN(t->n_bare_named, n_bare);
	ret->n_wanted = wanted_count(t);
	ret->state = t->state;
	ret->reason = t->reason;
	ret->why = str_of(t->why);
	ret->origin = str_of(t->origin);
	ret->n_tries = t->n_tries;
	ret->n_wakes = t->n_wakes;
	ret->n_added = t->n_added;
	ret->look_is_due = look_is_due(t);
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

/* The list and its texts in one allocation, which is charged: this is under the lock, where nothing waits. */
static struct profilestore_binaries *pack_binaries(const struct profilestore_binary *v, size_t n,
						   int64_t total, struct budget_hold *hold)
{
	struct profilestore_binaries *ret;
	size_t size = sizeof(*ret) + n * sizeof(*v);
	char *text;

	for (size_t i = 0; i < n; i++)
		size += v[i].file.size + v[i].build_id.size + v[i].why.size + v[i].origin.size;
	budget_hold_charge(hold, size);
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

static int by_most_wanted(const void *a, const void *b)
{
	const struct profilestore_binary *x = a, *y = b;

	if (x->n_wanted != y->n_wanted)
		return x->n_wanted > y->n_wanted ? -1 : 1;
	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return str_cmp(x->file, y->file);
}

/*
 * A try of the future was made before the clock was set back. Then the time of the next one is wrong, too, perhaps by years.
 */
static bool try_is_due(const struct named_binary *t, int64_t now_ms)
{
	return t->next_try_ms <= now_ms || t->last_try_ms > now_ms + SET_BACK_MS;
}

struct due_binary {
	const struct named_binary *t;
	bool look, try;
	uint32_t n_wanted;
};

static int by_turn(const void *a, const void *b)
{
	const struct due_binary *x = a, *y = b;

	if (x->look != y->look)
		return x->look ? -1 : 1;
	if (x->look)
		return x->t->due_since < y->t->due_since ? -1 : 1;
	if (x->n_wanted != y->n_wanted)
		return x->n_wanted > y->n_wanted ? -1 : 1;
	return x->t->binary < y->t->binary ? -1 : 1;
}

/* Keep the first @limit, in their order. */
static void keep_first_due(struct due_binary *list, size_t *n, size_t limit)
{
	if (*n)
		qsort(list, *n, sizeof(*list), by_turn);
	*n = MIN(*n, limit);
}

/* Under the lock: a list of the first @limit on the heap, which never has more than twice as many. */
static struct due_binary *list_due(const struct profilestore *s, int64_t now_ms, size_t limit, bool by_path,
				   size_t *ret_n, int64_t *ret_next_ms)
{
	const struct names *n = s->names;
	struct due_binary *list = NULL;
	size_t room = 0;

	*ret_n = 0;
	*ret_next_ms = INT64_MAX;
	for (uint32_t i = 0; i < column_n(&n->tracked); i++) {
		const struct named_binary *t = names_at(n, i);
		struct due_binary due = { .t = t };

		if (!t || !(by_path || meta_binary_at(s->meta, t->binary)->build_id))
			continue;
		due.look = look_is_due(t);
		due.n_wanted = wanted_count(t);
		if (t->state == NAMING_WANTED) {
			due.try = try_is_due(t, now_ms);
			if (!due.try)
				*ret_next_ms = MIN(*ret_next_ms, t->next_try_ms);
		}
		if (due.look || due.try)
			VEC_PUSH(list, *ret_n, room) = due;
		if (*ret_n > 2 * limit)
			keep_first_due(list, ret_n, limit);
	}
	keep_first_due(list, ret_n, limit);
	return list;
}

int profilestore_wanted(struct profilestore *s, int64_t now_ms, uint32_t limit, bool by_path,
			struct profilestore_binaries **ret, int64_t *ret_next_ms, struct err *err)
{
	AUTO(mem_freep) struct profilestore_binary *list = NULL;
	AUTO(mem_freep) struct due_binary *due = NULL;
	struct names *n = s->names;
	size_t n_due;

	pthread_mutex_lock(&n->lock);
	due = list_due(s, now_ms, limit, by_path, &n_due, ret_next_ms);
	list = NEW_N(struct profilestore_binary, n_due + 1);
	for (size_t i = 0; i < n_due; i++) {
		describe_binary(s->meta, due[i].t->binary, due[i].t, &list[i]);
		list[i].try_is_due = due[i].try;
	}
	*ret = pack_binaries(list, n_due, 0, NULL);
	pthread_mutex_unlock(&n->lock);
	return 0;
}

/*
 * Add up the values of each binary, and note those that were seen at all. Callers have smaller numbers than
 * callees.
 */
static void add_up_binaries(const struct meta *m, struct sums *x, int64_t *values, bool *seen)
{
	for (uint32_t i = x->n; i-- > 1;) {
		const struct meta_stack *st;
		struct meta_location l;
		uint32_t binary;

		if (!sums_has(x, i))
			continue;
		st = meta_stack_at(m, i);
		l = meta_location_at(m, st->location);
		binary = meta_binary_of(m, &l);
		x->seen[st->parent / 64] |= UINT64_C(1) << st->parent % 64;
		values[binary] = add_saturating(values[binary], x->values[i]);
		seen[binary] = true;
	}
}

static int by_value_spent(const void *a, const void *b)
{
	const struct profilestore_binary *x = a, *y = b;

	if (x->value != y->value)
		return x->value > y->value ? -1 : 1;
	return by_most_wanted(a, b);
}

static int list_binaries(struct reader *rd, const struct profilestore_range *r, struct budget_hold *hold,
			 struct profilestore_binaries **ret, struct err *err)
{
	AUTO(mem_freep) struct profilestore_binary *list = NULL;
	AUTO(mem_freep) int64_t *values = NULL;
	AUTO(mem_freep) bool *seen = NULL;
	const struct range_options o = { 0 };
	AUTO(sums_done) struct sums x = { 0 };
	struct profilestore *s = rd->s;
	const struct meta *m = rd->meta;
	uint32_t n_all;
	uint64_t size;
	size_t n = 0;

	if (r && (sums_init(&x, m, hold, err) < 0 || range_sums(rd, r, &o, &x, err) < 0))
		return -1;
	n_all = column_n(&m->binaries);
	size = ((uint64_t)n_all + 1) * (sizeof(*list) + sizeof(*values) + sizeof(*seen));
	if (budget_hold_add(hold, size, err) < 0)
		return -1;
	list = NEW_N(struct profilestore_binary, (size_t)n_all + 1);
	values = mem_zalloc(((size_t)n_all + 1) * sizeof(*values));
	seen = mem_zalloc((size_t)n_all + 1);
	if (r)
		add_up_binaries(m, &x, values, seen);
	pthread_mutex_lock(&s->names->lock);
	for (uint32_t i = 0; i < n_all; i++) {
		if (r ? !seen[i] : !atomic_load(&meta_binary_at(m, i)->n_locations))
			continue;
		describe_binary(m, i, names_binary(s, m, i), &list[n]);
		list[n++].value = values[i];
	}
	*ret = pack_binaries(list, n, x.total, hold);
	pthread_mutex_unlock(&s->names->lock);
	budget_hold_sub(hold, size);
	if (budget_hold_check(hold, err) < 0) {
		free(TAKE(*ret));
		return -1;
	}
	qsort((*ret)->v, n, sizeof(*(*ret)->v), by_value_spent);
	return 0;
}

int profilestore_binaries(struct profilestore *s, const struct profilestore_range *r,
			  struct budget_hold *hold, struct profilestore_binaries **ret, struct err *err)
{
	struct reader rd;
	int res;

	do {
		res = reader_begin(s, &rd, err);
		if (res == 0)
			res = list_binaries(&rd, r, hold, ret, err);
	} while (reader_again(s, &rd, res, err));
	return res;
}

static void describe_location(const struct profilestore *s, uint32_t location,
			      struct profilestore_unnamed *ret)
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
	const struct meta_location l = meta_location_at(s->meta, location);
	const struct meta_part *p = meta_part_at(s->meta, l.part);

	*ret = (struct profilestore_unnamed){ .location = (uint64_t)s->meta->generation << 32 | location,
					      .kind = (uint8_t)kinds[p->kind].kind,
					      .symbol = kinds[p->kind].symbol,
					      .addr = l.addr,
					      .mapping_offset = p->offset };
}

size_t profilestore_unnamed(struct profilestore *s, uint32_t binary, struct profilestore_unnamed *ret,
			    size_t room)
{
	struct named_binary *t;
	size_t n = 0;

	pthread_mutex_lock(&s->names->lock);
	t = names_of_id(s, binary);
	for (size_t i = t ? t->wanted.first : 0; t && i < t->wanted.n && n < room; i++)
		if (location_is_wanted(s->meta, t, t->wanted.list[i]))
			describe_location(s, t->wanted.list[i], &ret[n++]);
	pthread_mutex_unlock(&s->names->lock);
	return n;
}

uint32_t profilestore_binary_reason(struct profilestore *s, struct str build_id)
{
	AUTO(buf_done) struct buf key = { 0 };
	const struct named_binary *t;
	uint32_t reason = 0;

	if (!build_id.size)
		return 0;
	names_key(STR(""), build_id, &key);
	pthread_mutex_lock(&s->names->lock);
	t = map_get(&s->names->by_key, buf_bytes(&key));
	if (t && t->last_try_ms)
		reason = t->reason;
	pthread_mutex_unlock(&s->names->lock);
	return reason;
}
