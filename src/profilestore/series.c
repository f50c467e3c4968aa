/* SPDX-License-Identifier: Apache-2.0 */
/* Series: a type and a set of labels. All are in memory; a selector is matched against each. */
#include "base/vec.h"
#include "profilestore/internal.h"

#include <errno.h>
#include <stdlib.h>

#define STEPS_OF_SELECTOR 64u /* of matching a series */

/* Five minutes, an hour, six, a day. */
const int64_t rollup_ms[ROLLUP_LEVELS] = { 300000, 3600000, 6 * 3600000, 24 * 3600000 };

/* ---- keys ---- */

static void key_text(struct buf *out, struct str s)
{
	buf_add_uleb(out, s.size);
	buf_add_str(out, s);
}

void series_key(struct buf *out, const struct str texts[SERIES_N_TEXTS], bool delta,
		const struct profilestore_label *labels, size_t n)
{
	out->size = 0;
	for (size_t i = 0; i < SERIES_N_TEXTS; i++)
		key_text(out, texts[i]);
	buf_add_char(out, delta);
	buf_add_uleb(out, n);
	for (size_t i = 0; i < n; i++) {
		key_text(out, labels[i].name);
		key_text(out, labels[i].value);
	}
}

static struct str read_series_text(struct cursor *c)
{
	struct bytes b = cursor_bytes(c, cursor_uleb(c));

	return (struct str){ (const char *)b.p, b.size };
}

/* The texts point into the key, which the series owns. */
static bool read_series_key(struct series *x)
{
	struct cursor c = cursor_of(x->key);
	uint64_t n;

	for (size_t i = 0; i < SERIES_N_TEXTS; i++)
		x->texts[i] = read_series_text(&c);
	x->delta = cursor_u8(&c) != 0;
	n = cursor_uleb(&c);
	if (!cursor_ok(&c) || n > PROFILESTORE_MAX_LABELS)
		return false;
	x->n_labels = n;
	x->labels = NEW_N(struct profilestore_label, n + 1);
	for (size_t i = 0; i < n; i++) {
		x->labels[i].name = read_series_text(&c);
		x->labels[i].value = read_series_text(&c);
		if (i && str_cmp(x->labels[i - 1].name, x->labels[i].name) >= 0)
			return false;
	}
	return cursor_ok(&c) && !cursor_left(&c);
}

static struct str series_type_of(const struct series *x)
{
	struct buf b = { 0 };

	for (size_t i = 0; i < SERIES_N_TEXTS; i++) {
		if (i)
			buf_add_char(&b, ':');
		buf_add_str(&b, x->texts[i]);
	}
	if (x->delta)
		buf_add_str(&b, STR(":delta"));
	return buf_str(&b);
}

struct series *series_of_key(struct bytes key, uint32_t id, struct err *err)
{
	struct series *x = NEW(struct series);
	uint8_t *copy = mem_alloc(key.size + 1);

	if (key.size)
		memcpy(copy, key.p, key.size);
	x->key = (struct bytes){ copy, key.size };
	x->id = id;
	atomic_store(&x->first_ms, INT64_MAX);
	atomic_store(&x->last_ms, INT64_MIN);
	atomic_store(&x->rolled_ms, INT64_MIN);
	atomic_store(&x->groom_ms, INT64_MIN);
	if (!read_series_key(x)) {
		series_free(x);
		(void)err_set(err, ERR_DAMAGED, "series %u is damaged", id);
		return NULL;
	}
	x->type = series_type_of(x);
	x->profile_type = series_profile_type(x);
	return x;
}

void series_free(struct series *x)
{
	if (!x)
		return;
	free((void *)x->key.p);
	free((void *)x->type.p);
	free((void *)x->profile_type.p);
	free(x->labels);
	free(x);
}

/* The map of keys has a copy of the key. */
uint64_t series_memory(const struct series *x)
{
	return sizeof(*x) + 2 * x->key.size + (x->n_labels + 1) * sizeof(*x->labels) + x->type.size +
	       x->profile_type.size;
}

struct series_span series_span(const struct profilestore *s)
{
	struct series_span span = { INT64_MAX, INT64_MIN };

	for (uint32_t i = 0, n = column_n(&s->series); i < n; i++) {
		const struct series *x = series_at(&s->series, i);

		if (!x)
			continue;
		span.first_ms = MIN(span.first_ms, atomic_load(&x->first_ms));
		span.last_ms = MAX(span.last_ms, atomic_load(&x->last_ms));
	}
	return span;
}

void series_groom_from(struct series *x, int64_t ms)
{
	int64_t was = atomic_load(&x->groom_ms);

	while (was > ms && !atomic_compare_exchange_weak(&x->groom_ms, &was, ms))
		;
}

struct str series_label(const struct series *x, struct str name)
{
	size_t i = SEARCH(0, x->n_labels, k, str_cmp(x->labels[k].name, name) < 0);

	return i < x->n_labels && str_eq(x->labels[i].name, name) ? x->labels[i].value : STR("");
}

struct series *series_of_id(const struct profilestore *s, uint32_t id)
{
	uint32_t n = column_n(&s->series);

	for (uint32_t i = 0; i < n; i++) {
		struct series *x = series_at(&s->series, i);

		if (x && x->id == id)
			return x;
	}
	return NULL;
}

struct series *series_next(const struct profilestore *s, const struct profilestore_range *r, uint32_t *it)
{
	uint32_t n = column_n(&s->series);

	while (*it < n && !deadline_over(r->deadline, r->sel ? STEPS_OF_SELECTOR : 1)) {
		struct series *x = series_at(&s->series, (*it)++);

		if (!x || !atomic_load(&x->saved) || atomic_load(&x->first_ms) >= r->to_ms ||
		    atomic_load(&x->last_ms) < r->from_ms)
			continue;
		if (series_matches(x, r))
			return x;
	}
	return NULL;
}

/* Types of one ID can be added up (type.h). Those of locks and of channels are both "delay", but not of one ID. */
static int same_series_type(const struct series *a, const struct series *b, struct err *err)
{
	if (str_eq(a->profile_type, b->profile_type))
		return 0;
	return err_set(err, ERR_INVALID,
		       "profiles of different types cannot be added up: " STR_FMT " and " STR_FMT
		       "; put one of them at the start of the selector",
		       STR_ARG(a->type), STR_ARG(b->type));
}

int series_list(const struct profilestore *s, const struct profilestore_range *r, struct series ***ret,
		size_t *ret_n, struct err *err)
{
	AUTO(mem_freep) struct series **list = NULL;
	size_t n = 0, room = 0;
	struct series *x;
	uint32_t it = 0;

	while ((x = series_next(s, r, &it))) {
		if (n && same_series_type(list[0], x, err) < 0)
			return -1;
		VEC_PUSH(list, n, room) = x;
	}
	if (deadline_check(r->deadline, 0, err) < 0)
		return -1;
	*ret = TAKE(list);
	*ret_n = n;
	return 0;
}

/* ---- on disk ---- */

int series_insert(struct profilestore *s, const struct series *x, struct err *err)
{
	struct db_stmt *st;

	if (db_prepare(s->db, "INSERT INTO series VALUES (?, ?, ?)", &st, err) < 0)
		return -1;
	db_bind_i64(st, 1, x->id);
	db_bind_bytes(st, 2, x->key);
	db_bind_bytes(st, 3,
		      x->sender ? bytes_of(x->sender->name, strlen(x->sender->name)) : bytes_of("", 0));
	return db_step(st, err);
}

int series_write(struct profilestore *s, struct err *err)
{
	for (size_t i = 0; i < s->unsaved_series.n; i++)
		if (series_insert(s, s->unsaved_series.v[i], err) < 0)
			return -1;
	return 0;
}

void series_commit(struct profilestore *s, bool done)
{
	if (!done)
		return;
	for (size_t i = 0; i < s->unsaved_series.n; i++)
		s->unsaved_series.v[i]->saved = true;
	s->unsaved_series.n = 0;
}

static bool series_fits(struct profilestore *s, const struct series *x, struct err *err)
{
	uint64_t size = series_memory(x);

	if (atomic_load(&s->series_size) + size <= s->max_series_size)
		return sender_may_add_labels(s, size, err);
	(void)err_set(err, ERR_LIMIT,
		      "the names and labels of all series have %llu MiB, the limit: use fewer or shorter "
		      "labels",
		      (unsigned long long)(s->max_series_size >> 20));
	err->os = PROFILESTORE_TOO_MANY_SERIES;
	return false;
}

struct series *series_get(struct profilestore *s, struct bytes key, struct err *err)
{
	struct series *x = map_get(&s->series_by_key, key);

	if (x)
		return x;
	if (atomic_load(&s->n_series) >= s->max_series) {
		series_err_limit(s, NULL, true, err);
		return NULL;
	}
	if (!sender_may_add_series(s, err))
		return NULL;
	x = series_of_key(key, s->next_series, err);
	if (!x)
		return NULL;
	x->sender = s->sender;
	if (!series_fits(s, x, err)) {
		series_free(x);
		return NULL;
	}
	if (!series_put(s, x)) {
		series_free(x);
		(void)err_os(err, ENOMEM, "another series");
		return NULL;
	}
	s->next_series++;
	VEC_PUSH(s->unsaved_series.v, s->unsaved_series.n, s->unsaved_series.room) = x;
	return x;
}

bool series_put(struct profilestore *s, struct series *x)
{
	bool reuse = s->free_series.n != 0;
	struct series **at = reuse ? column_at(&s->series, s->free_series.v[s->free_series.n - 1])
				   : column_next(&s->series);

	if (!at)
		return false;
	x->slot = reuse ? s->free_series.v[--s->free_series.n] : column_n(&s->series);
	map_put(&s->series_by_key, x->key, x);
	__atomic_store_n(at, x, __ATOMIC_RELEASE);
	if (!reuse)
		column_publish(&s->series);
	atomic_fetch_add(&s->n_series, 1);
	atomic_fetch_add(&s->series_size, series_memory(x));
	if (x->sender) {
		x->sender->n_series++;
		x->sender->series_size += series_memory(x);
	}
	return true;
}

/* ---- lists ---- */

struct found_series {
	struct map known;
	size_t size; /* of the texts */
};

static void add_found(struct found_series *f, struct str s)
{
	if (!map_put(&f->known, bytes_of(s.p, s.size), f))
		f->size += s.size;
}

static int by_series_text(const void *a, const void *b)
{
	return str_cmp(*(const struct str *)a, *(const struct str *)b);
}

static struct profilestore_list *series_list_of(struct found_series *f)
{
	struct profilestore_list *l = mem_alloc(sizeof(*l) + f->known.n * sizeof(*l->v) + f->size);
	char *text;
	struct bytes key;
	void *value;

	*l = (struct profilestore_list){ .v = (struct str *)(l + 1) };
	text = (char *)(l->v + f->known.n);
	map_each (&f->known, it, &key, &value) {
		if (key.size)
			memcpy(text, key.p, key.size);
		l->v[l->n++] = (struct str){ text, key.size };
		text += key.size;
	}
	qsort(l->v, l->n, sizeof(*l->v), by_series_text);
	map_done(&f->known);
	return l;
}

typedef void (*series_texts_fn)(struct found_series *f, const struct series *x, bool derived,
				struct str name);

int series_of_profile(struct reader *rd, int64_t id, const struct series **ret, struct err *err)
{
	struct db_stmt *st;
	int r;

	*ret = NULL;
	if (db_prepare(rd->db, "SELECT series FROM profile WHERE id = ?", &st, err) < 0)
		return -1;
	db_bind_i64(st, 1, id);
	r = db_step(st, err);
	if (r == DB_ROW)
		*ret = series_of_id(rd->s, (uint32_t)db_i64(st, 0));
	db_reset(st);
	return r < 0 ? -1 : 0;
}

static int list_one_series(struct profilestore *s, const struct profilestore_range *r, series_texts_fn add,
			   struct str name, struct profilestore_list **ret, struct err *err)
{
	const struct series *x;
	struct reader rd;
	int res;

	do {
		struct found_series f = { 0 };

		res = reader_begin(s, &rd, err);
		if (res == 0)
			res = series_of_profile(&rd, r->profile_id, &x, err);
		if (res == 0 && x)
			add(&f, x, r->derived, name);
		if (res == 0)
			*ret = series_list_of(&f);
	} while (reader_again(s, &rd, res, err));
	return res;
}

/* The texts of all series of a range, unless its deadline has passed. */
static int list_series_texts(struct profilestore *s, const struct profilestore_range *r, series_texts_fn add,
			     struct str name, struct profilestore_list **ret, struct err *err)
{
	struct found_series f = { 0 };
	struct reader rd;
	uint32_t it = 0;
	int res;

	if (r->profile_id)
		return list_one_series(s, r, add, name, ret, err);
	reader_hold(s, &rd);
	for (struct series *x; (x = series_next(s, r, &it));)
		add(&f, x, r->derived, name);
	res = deadline_check(r->deadline, 0, err);
	if (res == 0)
		*ret = series_list_of(&f);
	else
		map_done(&f.known);
	reader_end(&rd);
	return res;
}

static void add_series_type(struct found_series *f, const struct series *x, bool derived, struct str name)
{
	add_found(f, derived ? x->profile_type : x->type);
}

static void add_series_names(struct found_series *f, const struct series *x, bool derived, struct str name)
{
	struct profilestore_label labels[SERIES_MAX_LABELS];

	for (size_t i = 0, n = series_labels(x, derived, labels); i < n; i++)
		add_found(f, labels[i].name);
}

static void add_series_value(struct found_series *f, const struct series *x, bool derived, struct str name)
{
	struct str v = series_value(x, derived, name);

	if (v.size)
		add_found(f, v);
}

int profilestore_types(struct profilestore *s, const struct profilestore_range *r,
		       struct profilestore_list **ret, struct err *err)
{
	return list_series_texts(s, r, add_series_type, STR(""), ret, err);
}

int profilestore_label_names(struct profilestore *s, const struct profilestore_range *r,
			     struct profilestore_list **ret, struct err *err)
{
	return list_series_texts(s, r, add_series_names, STR(""), ret, err);
}

int profilestore_label_values(struct profilestore *s, const struct profilestore_range *r, struct str name,
			      struct profilestore_list **ret, struct err *err)
{
	return list_series_texts(s, r, add_series_value, name, ret, err);
}
