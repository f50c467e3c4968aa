/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pushes that are held on this machine while the bucket of the store is away: the list of them, in the order in which they
 * came. Those that wait are put by held_put.c; those that the store did not take, since another owner has the object, stay
 * for a while, so that somebody can look at them.
 */
#include "store/held.h"

#include <errno.h>
#include <stdlib.h>
#include "base/condition.h"

#define HELD_MAX       20000u  /* pushes, of any size */
#define LOCAL          "local" /* the owner without a token: then there are no others */
#define FIRST_PAUSE_MS 500     /* after the first failure of a push; then twice as long, ... */
#define PAUSE_MAX_MS   15000
#define AWAY_MS        30000 /* so long after a failure, at most, pushes are held without asking the bucket */

static const struct metric_family ended_family = {
	.name = "lode_store_held_ended_total",
	.help = "Pushes that were held while the bucket was away, by their end: put, same (the bytes were "
		"there "
		"already), better (a better or later object is there), refused (another owner), damaged.",
	.type = METRIC_COUNTER,
	.labels = "outcome",
};

/* Under the lock of its list. */
struct held {
	struct held *prev, *next; /* in the order of their numbers */
	struct held_file file;
	char *name; /* of its record in the store */
	char *owner;
	struct build_id id;
	uint64_t stored_size;
	int64_t refused_s; /* 0: it waits */
	unsigned n_failures;
	int64_t next_ms;
};

struct hold {
	char *dir;
	uint64_t max;
	int lock_fd;
	_Atomic int64_t away_until_ms;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* under the lock */
	struct held *first, *last;
	uint64_t last_number, bytes;
	size_t n_waiting, n_refused;
	uint64_t putting;  /* the number of the push that is being put; 0: none */
	struct map frozen; /* names of records; the values are not used */
	struct age_clock clock;
	bool woken;
};

/* ---- the list; under the lock ---- */

static void held_push_free(struct held *e)
{
	free(e->name);
	free(e->owner);
	free(e);
}

static void list_add(struct hold *h, struct held *e)
{
	struct held *after = h->last;

	while (after && after->file.number > e->file.number)
		after = after->prev;
	e->prev = after;
	e->next = after ? after->next : h->first;
	*(e->prev ? &e->prev->next : &h->first) = e;
	*(e->next ? &e->next->prev : &h->last) = e;
	h->n_waiting += !e->refused_s;
	h->n_refused += !!e->refused_s;
}

/* Its files are removed by gone_remove(), outside of the lock. */
static void list_remove(struct hold *h, struct held *e, struct held **gone)
{
	*(e->prev ? &e->prev->next : &h->first) = e->next;
	*(e->next ? &e->next->prev : &h->last) = e->prev;
	h->n_waiting -= !e->refused_s;
	h->n_refused -= !!e->refused_s;
	h->bytes -= e->stored_size;
	e->next = *gone;
	*gone = e;
}

static void gone_remove(const struct hold *h, struct held *gone)
{
	struct err err = { 0 };
	bool any = false;

	while (gone) {
		struct held *e = gone;

		gone = e->next;
		held_file_remove(h->dir, &e->file);
		held_push_free(e);
		any = true;
	}
	/* After a power cut a push that was removed or put must not be there again: it would put a removed object back. */
	if (any && dir_sync(h->dir, &err) < 0)
		log_warn("store", "%s", err.text);
}

/* The latest of that record that waits; NULL: none. */
static struct held *list_latest(const struct hold *h, const char *name)
{
	struct held *e = h->n_waiting ? h->last : NULL;

	while (e && (e->refused_s || strcmp(e->name, name) != 0))
		e = e->prev;
	return e;
}

static struct held *list_find(const struct hold *h, uint64_t number)
{
	struct held *e = h->first;

	while (e && e->file.number != number)
		e = e->next;
	return e;
}

/*
 * Remove refused ones that are too old, and, the oldest first, until there is room for @more bytes. A wall clock that is ahead
 * at the start, or jumps, would make all of them too old.
 */
static bool list_make_room(struct hold *h, uint64_t more, struct held **gone)
{
	int64_t now_ms = age_clock_read(&h->clock, clock_wall_ms(), clock_mono_ms()).least_ms;
	int64_t before_s = now_ms / 1000 - STORE_PAST_S;

	for (struct held *e = h->first, *next; e; e = next) {
		bool full = h->bytes + more > h->max || h->n_waiting + h->n_refused >= HELD_MAX;

		next = e->next;
		if (e->refused_s && (full || e->refused_s < before_s))
			list_remove(h, e, gone);
	}
	return h->bytes + more <= h->max && h->n_waiting + h->n_refused < HELD_MAX;
}

/* The pushes of one token that wait leave a quarter to others: the bucket may be away for long. */
static bool owner_has_room(const struct hold *h, struct str owner, uint64_t more)
{
	uint64_t bytes = more;
	size_t n = 1;

	if (!owner.size || str_eq(owner, STR(LOCAL)))
		return true;
	for (const struct held *e = h->n_waiting ? h->first : NULL; e; e = e->next) {
		if (e->refused_s || !str_eq(owner, str_of(e->owner)))
			continue;
		bytes += e->stored_size;
		n++;
	}
	return bytes <= h->max - h->max / 4 && n <= HELD_MAX - HELD_MAX / 4;
}

static int hold_is_full(const struct hold *h, bool of_owner, struct err *err)
{
	(void)err_set(err, ERR_IO,
		      of_owner ? "the bucket is away, and pushes of this token have their share of the %llu "
				 "bytes of --keep-pushes, three quarters"
			       : "the bucket is away, and the %llu bytes of --keep-pushes are used up",
		      (unsigned long long)h->max);
	err->os = ENOTCONN;
	return -1;
}

static struct held *held_new(uint64_t number, const struct store_key *key, const struct store_meta *meta,
			     enum held_state state)
{
	struct held *e = NEW(struct held);
	struct str owner = store_owner(meta);
	struct buf name = { 0 };

	store_record_name(key, &name);
	e->owner = mem_strndup(owner.p, owner.size);
	e->name = (char *)buf_cstr(&name);
	e->file = (struct held_file){ number, state };
	e->id = key->id;
	e->stored_size = meta->stored_size;
	return e;
}

/* ---- finding ---- */

/* The latest push of that key; its number is 0 if there is none. */
static struct held_file latest_of(struct hold *h, const struct store_key *key)
{
	AUTO(buf_done) struct buf name = { 0 };
	struct held_file ret = { 0 };
	const struct held *e;

	if (!h)
		return ret;
	store_record_name(key, &name);
	pthread_mutex_lock(&h->lock);
	e = list_latest(h, buf_cstr(&name));
	if (e)
		ret = e->file;
	pthread_mutex_unlock(&h->lock);
	return ret;
}

bool hold_find(struct hold *h, const struct store_key *key, struct arena *a, struct store_meta *ret)
{
	const struct held_file f = latest_of(h, key);
	struct store_object o;

	if (!f.number || held_record_load(h->dir, f.number, f.state, a, &o, NULL) != 0)
		return false;
	*ret = o.meta;
	return true;
}

int hold_open_content(struct hold *h, const struct store_key *key, const struct store_meta *meta,
		      struct source **ret, struct err *err)
{
	const struct held_file f = latest_of(h, key);
	int fd = f.number ? held_content_open(h->dir, f.number) : -1;
	struct source *raw;

	if (fd < 0)
		return err_os(err, f.number ? errno : ENOENT, "a push that was held");
	raw = source_of_fd(fd, meta->stored_size, 0, "a push that is held");
	if (!meta->raw)
		return content_frames(raw, ret, err);
	*ret = raw;
	return 0;
}

bool hold_takes(struct hold *h)
{
	return h && h->max;
}

bool hold_is_away(struct hold *h)
{
	return h && clock_mono_ms() < atomic_load(&h->away_until_ms);
}

void hold_note_away(struct hold *h, bool away)
{
	if (h)
		atomic_store(&h->away_until_ms, away ? clock_mono_ms() + AWAY_MS : 0);
}

bool hold_waits(struct hold *h, const struct build_id *id)
{
	bool found = false;

	if (!h)
		return false;
	pthread_mutex_lock(&h->lock);
	for (const struct held *e = h->n_waiting ? h->first : NULL; e && !found; e = e->next)
		found = !e->refused_s && build_id_eq(&e->id, id);
	pthread_mutex_unlock(&h->lock);
	return found;
}

/* ---- adding ---- */

/* Whether the push comes after the latest of that key. 0; STORE_HELD: it is that one; STORE_OWNED, STORE_KEPT. */
static int hold_judge(struct hold *h, const struct store_key *key, const struct store_meta *meta,
		      enum store_policy policy)
{
	struct store_meta old;
	struct arena a;
	int r = 0;

	arena_init(&a);
	if (hold_find(h, key, &a, &old)) {
		if (memcmp(old.sha256, meta->sha256, sizeof(old.sha256)) == 0 &&
		    str_eq(store_owner(&old), store_owner(meta)))
			r = STORE_HELD;
		else
			r = object_judge(&old, meta, policy);
	}
	arena_done(&a);
	return r == STORE_SAME ? 0 : r;
}

int hold_add(struct hold *h, const struct store_key *key, const struct store_meta *meta,
	     enum store_policy policy, struct staging *s, struct err *err)
{
	struct held *e = NULL, *gone = NULL;
	int r = hold_judge(h, key, meta, policy);
	bool has_share;

	if (r)
		return r;
	pthread_mutex_lock(&h->lock);
	has_share = owner_has_room(h, store_owner(meta), meta->stored_size);
	if (has_share && list_make_room(h, meta->stored_size, &gone)) {
		h->bytes += meta->stored_size;
		e = held_new(++h->last_number, key, meta, held_state_of(policy));
	}
	pthread_mutex_unlock(&h->lock);
	gone_remove(h, gone);
	if (!e)
		return hold_is_full(h, !has_share, err);
	r = held_file_write(h->dir, &e->file, key, meta, s, err);
	pthread_mutex_lock(&h->lock);
	if (r == 0)
		list_add(h, e);
	else
		h->bytes -= e->stored_size;
	pthread_mutex_unlock(&h->lock);
	if (r < 0)
		held_push_free(e);
	return r < 0 ? -1 : STORE_HELD;
}

/* ---- putting ---- */

/* Under the lock: is an earlier push of the same build ID waiting? */
static bool held_is_blocked(const struct held *e)
{
	for (const struct held *b = e->prev; b; b = b->prev)
		if (!b->refused_s && build_id_eq(&b->id, &e->id))
			return true;
	return false;
}

/* Under the lock. A push that failed does not hold up those of other build IDs. */
static struct held *held_list_due(struct hold *h, int64_t *ret_wait_ms)
{
	int64_t now_ms = clock_mono_ms();

	*ret_wait_ms = INT64_C(3600) * 1000;
	for (struct held *e = h->n_waiting ? h->first : NULL; e; e = e->next) {
		if (e->refused_s || map_get(&h->frozen, bytes_of(e->name, strlen(e->name))))
			continue;
		if (e->next_ms > now_ms)
			*ret_wait_ms = MIN(*ret_wait_ms, e->next_ms - now_ms);
		else if (!held_is_blocked(e))
			return e;
	}
	return NULL;
}

/* Its record and its content. What cannot be opened now is no damage: the push was acknowledged. */
static int held_push_open(const struct hold *h, const struct held_file *f, struct arena *a,
			  struct held_push *ret, int *ret_fd, struct err *err)
{
	struct store_object o;
	int r = held_record_load(h->dir, f->number, f->state, a, &o, err);

	if (r)
		return r < 0 ? -1 : err_set(err, ERR_INVALID, "its record is gone");
	ret->key = o.key;
	ret->meta = o.meta;
	*ret_fd = held_content_open(h->dir, f->number);
	if (*ret_fd >= 0)
		return 0;
	return errno == ENOENT ? err_set(err, ERR_INVALID, "its file is gone")
			       : err_os(err, errno, "its file: open");
}

bool hold_next(struct hold *h, struct arena *a, struct held_push *ret, int *ret_fd, int64_t *ret_wait_ms,
	       struct err *why)
{
	struct held_file f = { 0 };
	struct held *e;

	*ret = (struct held_push){ 0 };
	pthread_mutex_lock(&h->lock);
	e = held_list_due(h, ret_wait_ms);
	if (e) {
		f = e->file;
		ret->number = h->putting = f.number;
		ret->policy = f.state == HELD_BETTER_ONLY ? STORE_IF_BETTER : STORE_IF_OWNED;
	}
	pthread_mutex_unlock(&h->lock);
	if (!e)
		return false;
	*ret_fd = -1;
	(void)held_push_open(h, &f, a, ret, ret_fd, why);
	return true;
}

/* Under the lock. */
static void held_fail(struct held *e)
{
	e->next_ms = clock_mono_ms() + clock_backoff(FIRST_PAUSE_MS, e->n_failures++, PAUSE_MAX_MS);
}

void hold_end(struct hold *h, const struct held_push *p, enum held_outcome outcome, struct str owner)
{
	static const char *const names[HELD_N_OUTCOMES] = { "put", "same", "better", "refused", "damaged" };
	const struct held_file f = { p->number, held_state_of(p->policy) };
	bool refused = outcome == HELD_REFUSED || outcome == HELD_DAMAGED;
	struct held *e, *gone = NULL;

	if (refused && p->key.id.size)
		held_file_refuse(h->dir, &f, &p->key, &p->meta, owner);
	if (outcome != HELD_LATER)
		metric_count(&ended_family, names[outcome]);
	pthread_mutex_lock(&h->lock);
	e = list_find(h, p->number);
	h->putting = 0;
	if (e && outcome == HELD_LATER) {
		held_fail(e);
	} else if (e && refused) {
		h->n_waiting--;
		h->n_refused++;
		e->refused_s = clock_wall_s();
		e->file.state = HELD_WAS_REFUSED;
	} else if (e) {
		list_remove(h, e, &gone);
	}
	pthread_cond_broadcast(&h->changed);
	pthread_mutex_unlock(&h->lock);
	gone_remove(h, gone);
}

bool hold_freeze(struct hold *h, const struct store_key *key)
{
	AUTO(buf_done) struct buf name = { 0 };
	struct held *e;

	if (!h)
		return false;
	store_record_name(key, &name);
	pthread_mutex_lock(&h->lock);
	map_put(&h->frozen, bytes_of(buf_cstr(&name), strlen(buf_cstr(&name))), h);
	while ((e = list_find(h, h->putting)) && strcmp(e->name, buf_cstr(&name)) == 0)
		pthread_cond_wait(&h->changed, &h->lock);
	e = list_latest(h, buf_cstr(&name));
	pthread_mutex_unlock(&h->lock);
	return e != NULL;
}

void hold_thaw(struct hold *h, const struct store_key *key, bool drop)
{
	AUTO(buf_done) struct buf name = { 0 };
	struct held *e, *gone = NULL;

	if (!h)
		return;
	store_record_name(key, &name);
	pthread_mutex_lock(&h->lock);
	while (drop && (e = list_latest(h, buf_cstr(&name))))
		list_remove(h, e, &gone);
	map_del(&h->frozen, bytes_of(buf_cstr(&name), strlen(buf_cstr(&name))));
	h->woken = true;
	pthread_cond_broadcast(&h->changed);
	pthread_mutex_unlock(&h->lock);
	gone_remove(h, gone);
}

void hold_wait(struct hold *h, int64_t ms)
{
	int64_t until_ms = clock_mono_ms() + ms;

	pthread_mutex_lock(&h->lock);
	while (!h->woken && clock_mono_ms() < until_ms)
		condition_wait(&h->changed, &h->lock, MAX(until_ms - clock_mono_ms(), INT64_C(1)));
	h->woken = false;
	pthread_mutex_unlock(&h->lock);
}

void hold_wake(struct hold *h)
{
	if (!h)
		return;
	pthread_mutex_lock(&h->lock);
	h->woken = true;
	pthread_cond_broadcast(&h->changed);
	pthread_mutex_unlock(&h->lock);
}

void hold_figures(struct hold *h, struct store_figures *ret)
{
	if (!h)
		return;
	pthread_mutex_lock(&h->lock);
	ret->n_held = h->n_waiting;
	ret->n_refused = h->n_refused;
	ret->hold_size = h->bytes;
	pthread_mutex_unlock(&h->lock);
	ret->hold_max = h->max;
}

size_t hold_refused(struct hold *h, struct arena *a, struct store_object *ret, size_t max)
{
	AUTO(mem_freep) uint64_t *numbers = NEW_N(uint64_t, max + 1);
	size_t n = 0, n_read = 0;

	if (!h)
		return 0;
	pthread_mutex_lock(&h->lock);
	for (const struct held *e = h->n_refused ? h->last : NULL; e && n < max; e = e->prev)
		if (e->refused_s)
			numbers[n++] = e->file.number;
	pthread_mutex_unlock(&h->lock);
	for (size_t i = 0; i < n; i++)
		n_read += held_record_load(h->dir, numbers[i], HELD_WAS_REFUSED, a, &ret[n_read], NULL) == 0;
	return n_read;
}

/* ---- opening ---- */

static void hold_load(struct hold *h, const struct held_file *files, size_t n, store_held_fn *each, void *arg)
{
	struct arena a;

	arena_init(&a);
	for (size_t i = 0; i < n; i++) {
		const struct held_file *f = &files[i];
		struct store_object o;
		struct err err = { 0 };
		struct held *e;

		arena_reset(&a);
		h->last_number = MAX(h->last_number, f->number);
		/* It was refused just before a kill: held_file_refuse() had one step left. */
		if (i + 1 < n && files[i + 1].number == f->number) {
			if (held_record_load(h->dir, f->number, HELD_WAS_REFUSED, &a, &o, &err) == 0)
				held_file_refuse(h->dir, f, &o.key, &o.meta, o.meta.replaced_by);
			continue;
		}
		if (held_record_load(h->dir, f->number, f->state, &a, &o, &err) != 0) {
			log_error("store", "%s: a push that was held cannot be read", err.text);
			continue;
		}
		if (!held_content_is_there(h->dir, f->number, o.meta.stored_size))
			log_error("store", "%s: the bytes of a push that was held are damaged", h->dir);
		e = held_new(f->number, &o.key, &o.meta, f->state);
		e->refused_s = f->state == HELD_WAS_REFUSED ? MAX(o.meta.replaced, INT64_C(1)) : 0;
		h->bytes += e->stored_size;
		list_add(h, e);
		(void)each(arg, &(struct store_held){ o, e->refused_s != 0 });
	}
	arena_done(&a);
}

/*
 * When the first push was refused was certainly reached. The time of a later refusal may be from a wall clock that
 * was ahead, as it may be again.
 */
static int64_t hold_reached_ms(const struct hold *h)
{
	int64_t first_s = INT64_MAX;

	for (const struct held *e = h->first; e; e = e->next)
		if (e->refused_s)
			first_s = MIN(first_s, e->refused_s);
	return first_s > INT64_MAX / 1000 ? INT64_MIN : first_s * 1000;
}

int hold_open(const char *local, const char *url, uint64_t max, store_held_fn *each, void *arg,
	      struct hold **ret, struct err *err)
{
	AUTO(mem_freep) struct held_file *files = NULL;
	AUTO(mem_freep) char *dir = held_folder(local, url);
	AUTO(fd_close) int lock_fd = -1;
	struct hold *h;
	size_t n = 0;

	*ret = NULL;
	if (!max) {
		if (held_files_list(dir, &files, &n, err) < 0)
			return -1;
		if (!n)
			return 0;
		mem_freep(&files);
	}
	if (dir_make(dir, 0755, err) < 0 || held_folder_lock(dir, &lock_fd, err) < 0 ||
	    held_files_list(dir, &files, &n, err) < 0)
		return -1;
	h = NEW(struct hold);
	h->dir = TAKE(dir);
	h->max = max;
	h->lock_fd = TAKE_FD(lock_fd);
	pthread_mutex_init(&h->lock, NULL);
	condition_init(&h->changed);
	held_files_sweep(h->dir, files, n);
	hold_load(h, files, n, each, arg);
	age_clock_open(&h->clock, clock_wall_ms(), clock_mono_ms(), hold_reached_ms(h), 0);
	if (h->n_waiting || h->n_refused)
		log_info("store", "%zu pushes wait for the bucket, %zu were refused: %s", h->n_waiting,
			 h->n_refused, h->dir);
	*ret = h;
	return 0;
}

void hold_close(struct hold *h)
{
	if (!h)
		return;
	while (h->first) {
		struct held *e = h->first;

		h->first = e->next;
		held_push_free(e);
	}
	age_clock_close(&h->clock);
	map_done(&h->frozen);
	pthread_cond_destroy(&h->changed);
	pthread_mutex_destroy(&h->lock);
	fd_close(&h->lock_fd);
	free(h->dir);
	free(h);
}
