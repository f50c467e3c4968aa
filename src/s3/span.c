/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges of objects in memory. Each range is fetched once: a reader that needs bytes which are being fetched waits for them,
 * and gets them as soon as they are there. Ranges of one object do not overlap. Those that no one reads are evicted, the
 * least recently used first.
 *
 * A small range is fetched by the thread that needs it; a large one, and one for later, by a thread of the pool.
 */
#include "s3/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/condition.h"
#include "base/age.h"

#define FETCHERS   16u
#define QUEUED     256u
#define SMALL      KIB(512) /* fetched by the reader itself */
#define AHEAD_SIZE MIB(8)
#define RECENT_S   2

static const struct metric_family cache_reads = {
	.name = "lode_s3_cache_reads_total",
	.help = "Reads of objects, by where the bytes were: in memory, on disk, in the bucket.",
	.type = METRIC_COUNTER,
	.labels = "where",
};

enum span_state { SPAN_RUNS, SPAN_DONE, SPAN_FAILED };

struct span {
	struct span_object *o;
	struct byte_range range;   /* fixed, as `p` and `on_disk` */
	struct byte_range on_disk; /* a range on disk that contains this one; of size 0: none */
	uint8_t *p;
	struct call_sink sink; /* of the thread that fetches */
	/* under the table's lock */
	uint64_t have;
	enum span_state state;
	struct err err;
	unsigned refs; /* readers, and the thread that fetches */
	bool once, passing, listed;
	struct span *next; /* of the object, in rising order */
	struct age age;    /* while it is listed */
};

struct span_object {
	struct span_table *t;
	char *key; /* in the table */
	uint64_t disk_key;
	char *url;
	struct s3_name name; /* in `url` */
	uint64_t size, inode;
	int64_t mtime;
	/* under the table's lock */
	uint64_t first_tag; /* known by its time alone: the tag of the first answer */
	unsigned refs;      /* sources, and spans */
	struct span *spans;
};

struct span_table {
	struct s3 *s;
	struct pool *pool;
	struct disk_cache *disk;
	size_t max;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* under the lock */
	struct map objects;
	struct age_list ages; /* of spans */
	size_t weight;        /* of all spans */
};

/* Databases have signed numbers, and 0 stands for no inode. */
static uint64_t inode_of_hash(uint64_t h)
{
	h &= INT64_MAX;
	return h ? h : 1;
}

static uint64_t inode_by_time(int64_t mtime, uint64_t size)
{
	return inode_of_hash(hash64(&mtime, sizeof(mtime), ~size));
}

uint64_t span_inode(const struct s3_info *info)
{
	return info->etag[0] ? inode_of_hash(hash64(info->etag, strlen(info->etag), info->size))
			     : inode_by_time(info->mtime, info->size);
}

/* ---- objects; under the lock ---- */

static void object_unref(struct span_object *o)
{
	if (--o->refs)
		return;
	map_del(&o->t->objects, bytes_of(o->key, strlen(o->key)));
	free(o->key);
	free(o->url);
	free(o);
}

struct span_object *span_object_get(struct span_table *t, const char *url, const struct stat *known)
{
	uint64_t size = (uint64_t)known->st_size, inode = known->st_ino;
	char *key = mem_printf("%llx %llx %s", (unsigned long long)inode, (unsigned long long)size, url);
	struct span_object *o;

	pthread_mutex_lock(&t->lock);
	o = map_get(&t->objects, bytes_of(key, strlen(key)));
	if (!o) {
		o = NEW(struct span_object);
		o->t = t;
		o->key = TAKE(key);
		o->url = mem_strdup(url);
		(void)s3_name_parse(str_of(o->url), &o->name, NULL);
		o->size = size;
		o->inode = inode;
		o->mtime = known->st_mtim.tv_sec;
		o->disk_key = disk_cache_key(url, inode);
		map_put(&t->objects, bytes_of(o->key, strlen(o->key)), o);
	}
	o->refs++;
	pthread_mutex_unlock(&t->lock);
	free(key);
	return o;
}

void span_object_put(struct span_object *o)
{
	struct span_table *t;

	if (!o)
		return;
	t = o->t;
	pthread_mutex_lock(&t->lock);
	object_unref(o);
	pthread_mutex_unlock(&t->lock);
}

static bool known_by_time(const struct span_object *o)
{
	return o->inode == inode_by_time(o->mtime, o->size);
}

/*
 * An answer is of this object in this version. Some servers have an ETag in their answers only, or in their listing only.
 */
static bool object_is_same(struct span_object *o, const struct s3_info *info)
{
	uint64_t tag = span_inode(info);

	if (info->size != o->size)
		return false;
	if (info->etag[0] && !known_by_time(o))
		return tag == o->inode;
	if (!info->etag[0])
		return info->mtime == o->mtime;
	if (!o->first_tag)
		o->first_tag = tag;
	return info->mtime == o->mtime && tag == o->first_tag;
}

/* A time is of a second: another object of this size may have the same one until that second is over. */
static bool may_be_kept(const struct span_object *o)
{
	return !known_by_time(o) || s3_time_s(o->t->s) - o->mtime > RECENT_S;
}

/* ---- spans; under the lock ---- */

static void span_free(struct span *sp)
{
	struct span_object *o = sp->o;

	o->t->weight -= (size_t)sp->range.size;
	free(sp->p);
	free(sp);
	object_unref(o);
}

/* No one finds it any more; those that have it go on. */
static void span_unlist(struct span *sp)
{
	struct span **at = &sp->o->spans;

	if (!sp->listed)
		return;
	while (*at != sp)
		at = &(*at)->next;
	*at = sp->next;
	age_remove(&sp->o->t->ages, &sp->age);
	sp->listed = false;
}

static void spans_evict(struct span_table *t)
{
	for (struct age *a = t->ages.oldest, *next; a && t->weight > t->max; a = next) {
		struct span *sp = CONTAINER_OF(a, struct span, age);

		next = a->younger;
		if (!sp->refs) {
			span_unlist(sp);
			span_free(sp);
		}
	}
}

static void span_unref(struct span *sp)
{
	struct span_table *t = sp->o->t;

	if (--sp->refs)
		return;
	if (sp->listed)
		spans_evict(t);
	else
		span_free(sp);
}

static struct span *span_find(struct span_object *o, uint64_t off)
{
	for (struct span *sp = o->spans; sp && sp->range.off <= off; sp = sp->next)
		if (off - sp->range.off < sp->range.size)
			return sp;
	return NULL;
}

/* Cut @want, which contains @off, to the bytes that are not in memory yet. */
static struct byte_range span_gap(struct span_object *o, uint64_t off, struct byte_range want)
{
	uint64_t from = want.off, end = want.off + want.size;

	for (struct span *sp = o->spans; sp; sp = sp->next) {
		uint64_t sp_end = sp->range.off + sp->range.size;

		if (sp_end <= off)
			from = MAX(from, sp_end);
		else if (sp->range.off > off)
			end = MIN(end, sp->range.off);
	}
	return range_of(from, end - from);
}

/*
 * A span for the bytes at @off: of @want, or what is on disk, as far as it is not in memory. NULL: no memory. With a reference
 * for the thread that will fetch it.
 */
static struct span *span_new(struct span_object *o, uint64_t off, struct byte_range want)
{
	struct byte_range on_disk = { 0 }, range;
	struct span *sp, **at = &o->spans;
	uint8_t *p;

	if (!disk_cache_find(o->t->disk, o->disk_key, off, &on_disk) || on_disk.off + on_disk.size > o->size)
		on_disk.size = 0;
	range = span_gap(o, off, on_disk.size ? on_disk : want);
	p = mem_try((size_t)range.size);

	if (!p)
		return NULL;
	sp = NEW(struct span);
	sp->o = o;
	sp->range = range;
	sp->on_disk = on_disk;
	sp->p = p;
	sp->refs = 1;
	sp->listed = true;
	o->refs++;
	while (*at && (*at)->range.off < range.off)
		at = &(*at)->next;
	sp->next = *at;
	*at = sp;
	age_add(&o->t->ages, &sp->age);
	o->t->weight += (size_t)range.size;
	spans_evict(o->t);
	return sp;
}

void span_object_distrust(struct span_object *o)
{
	struct span_table *t = o->t;

	pthread_mutex_lock(&t->lock);
	while (o->spans) {
		struct span *sp = o->spans;

		span_unlist(sp);
		if (!sp->refs)
			span_free(sp);
	}
	pthread_mutex_unlock(&t->lock);
	disk_cache_forget_all(t->disk, o->disk_key);
}

/* ---- fetching ---- */

/* "bytes 100-199/1234" */
static bool span_content_range(struct str value, uint64_t *ret_from, uint64_t *ret_total)
{
	struct str unit = str_word(&value), from;

	value = str_trim(value);
	from = str_cut(&value, '-');
	str_cut(&value, '/');
	return str_eq(unit, STR("bytes")) && str_to_u64(from, ret_from) &&
	       str_to_u64(str_trim(value), ret_total);
}

/* The answer is of this object in this version, and of the bytes that were requested. */
static int fetch_begin(void *arg, const struct net_call_answer *a, struct err *err)
{
	struct span *sp = arg;
	uint64_t want = sp->range.off + sp->sink.have, from = 0;
	struct s3_info info;
	bool same;

	object_info(a->headers, &info);
	if (a->status == 206) {
		if (!span_content_range(net_header(a->headers, "content-range"), &from, &info.size))
			return err_set(err, ERR_INVALID, "its answer does not say which bytes it has");
		if (from != want)
			return err_set(err, ERR_INVALID, "its answer begins at byte %llu, not at %llu",
				       (unsigned long long)from, (unsigned long long)want);
	} else if (want != 0 || sp->range.size != sp->o->size) {
		return err_set(err, ERR_INVALID,
			       "the server ignores Range: it answers with the whole object");
	}
	pthread_mutex_lock(&sp->o->t->lock);
	same = object_is_same(sp->o, &info);
	pthread_mutex_unlock(&sp->o->t->lock);
	return same ? 0 : err_set(err, ERR_CHANGED, "the object was replaced while it was in use");
}

static int fetch_take(void *arg, uint64_t off, struct bytes piece, struct err *err)
{
	struct span *sp = arg;
	struct span_table *t = sp->o->t;

	memcpy(sp->p + (off - sp->range.off), piece.p, piece.size);
	pthread_mutex_lock(&t->lock);
	sp->have = off - sp->range.off + piece.size;
	pthread_cond_broadcast(&t->changed);
	pthread_mutex_unlock(&t->lock);
	return 0;
}

/* The bytes of a span from the disk. false: they are not there any more. */
static bool fetch_from_disk(struct span *sp)
{
	struct span_table *t = sp->o->t;
	AUTO(mem_freep) uint8_t *all = NULL;

	if (!sp->on_disk.size || !(all = mem_try((size_t)sp->on_disk.size)) ||
	    !disk_cache_read(t->disk, sp->o->disk_key, sp->on_disk, all))
		return false;
	memcpy(sp->p, all + (sp->range.off - sp->on_disk.off), (size_t)sp->range.size);
	metric_count(&cache_reads, "disk");
	pthread_mutex_lock(&t->lock);
	sp->have = sp->range.size;
	sp->state = SPAN_DONE;
	pthread_cond_broadcast(&t->changed);
	span_unref(sp);
	pthread_mutex_unlock(&t->lock);
	return true;
}

/* Fetch a span, and give up the reference of the thread that does. */
static void span_fetch(void *arg)
{
	struct span *sp = arg;
	struct span_table *t = sp->o->t;
	struct call_request req = {
		.method = "GET", .what = "range", .name = sp->o->name, .sink = &sp->sink, .hedged = true
	};
	struct call_answer a = { 0 };
	struct err err = { 0 };
	bool keep;
	int r;

	if (fetch_from_disk(sp))
		return;
	metric_count(&cache_reads, "bucket");
	sp->sink = (struct call_sink){
		.range = sp->range, .begin = fetch_begin, .take = fetch_take, .arg = sp
	};
	r = call_run(t->s, &req, &a, &err);
	call_answer_done(&a);
	if (r == S3_MISSING) {
		(void)err_set(&err, ERR_CHANGED, "%s: it is not in the bucket any more", sp->o->url);
		err.os = ENOENT;
	}
	pthread_mutex_lock(&t->lock);
	keep = !r && !sp->once && !sp->passing && sp->listed && may_be_kept(sp->o);
	pthread_mutex_unlock(&t->lock);
	/* Readers have the bytes already. */
	if (keep)
		disk_cache_put(t->disk, sp->o->disk_key, sp->range, sp->p);
	pthread_mutex_lock(&t->lock);
	sp->state = r ? SPAN_FAILED : SPAN_DONE;
	sp->err = err;
	if (r)
		span_unlist(sp);
	pthread_cond_broadcast(&t->changed);
	span_unref(sp);
	pthread_mutex_unlock(&t->lock);
}

/* Under the lock, which may be released meanwhile. */
static void span_start(struct span_table *t, struct span *sp, bool for_later)
{
	if (for_later || sp->range.size > SMALL) {
		if (pool_submit(t->pool, POOL_NORMAL, span_fetch, sp) == 0)
			return;
		if (for_later) {
			/* Nobody waits for it. */
			span_unlist(sp);
			span_unref(sp);
			return;
		}
	}
	pthread_mutex_unlock(&t->lock);
	span_fetch(sp);
	pthread_mutex_lock(&t->lock);
}

/* Under the lock: begin with the bytes after @sp, up to @to. */
static void span_ahead(struct span_object *o, const struct span *sp, uint64_t to, bool once)
{
	uint64_t from = sp->range.off + sp->range.size;
	struct span *next;

	to = MIN(to, o->size);
	if (from >= to || span_find(o, from) || o->t->weight > o->t->max)
		return;
	next = span_new(o, from, range_of(from, MIN(to - from, (uint64_t)AHEAD_SIZE)));
	if (!next)
		return;
	next->once = once;
	span_start(o->t, next, true);
}

/* Under the lock: a reader that does not only pass uses the range. true: it is whole, and now to be kept on disk. */
static bool span_is_wanted(struct span *sp, const struct span_read *r)
{
	bool wanted = sp->passing && !r->passing;

	/* A range that is still being fetched is kept by the thread that fetches it. */
	sp->passing &= r->passing;
	return wanted && sp->state == SPAN_DONE && !sp->once && may_be_kept(sp->o);
}

int span_read(struct span_object *o, const struct span_read *r, size_t *ret_got, struct err *err)
{
	bool keep = false;
	struct span_table *t = o->t;
	struct span *sp;
	uint64_t at;
	size_t n;
	int res = 0;

	pthread_mutex_lock(&t->lock);
	sp = span_find(o, r->off);
	if (sp) {
		sp->refs++;
		age_remove(&t->ages, &sp->age);
		age_add(&t->ages, &sp->age);
		keep = span_is_wanted(sp, r);
		metric_count(&cache_reads, "memory");
	} else {
		sp = span_new(o, r->off, r->fetch);
		if (!sp) {
			pthread_mutex_unlock(&t->lock);
			return err_set(err, ERR_LIMIT, "%s: no memory for %llu bytes of it", o->url,
				       (unsigned long long)r->fetch.size);
		}
		sp->refs++;
		sp->once = r->once;
		sp->passing = r->passing;
		span_start(t, sp, false);
	}
	if (r->ahead_to)
		span_ahead(o, sp, r->ahead_to, r->once);
	at = r->off - sp->range.off;
	if (sp->state == SPAN_RUNS && sp->have <= at) {
		pool_wait_begin();
		while (sp->state == SPAN_RUNS && sp->have <= at)
			condition_wait(&t->changed, &t->lock, 1000);
		pool_wait_end();
	}
	n = sp->have > at ? (size_t)MIN(sp->have - at, (uint64_t)r->n) : 0;
	if (!n) {
		if (err)
			*err = sp->err;
		res = -1;
	} else {
		pthread_mutex_unlock(&t->lock);
		memcpy(r->buf, sp->p + at, n);
		*ret_got = n;
		if (keep)
			disk_cache_put(t->disk, o->disk_key, sp->range, sp->p);
		pthread_mutex_lock(&t->lock);
		if (sp->once && at + n == sp->range.size)
			span_unlist(sp);
	}
	span_unref(sp);
	pthread_mutex_unlock(&t->lock);
	return res;
}

void span_table_sizes(struct span_table *t, uint64_t *ret_memory, uint64_t *ret_disk)
{
	pthread_mutex_lock(&t->lock);
	*ret_memory = t->weight;
	pthread_mutex_unlock(&t->lock);
	*ret_disk = disk_cache_size(t->disk);
}

/* ---- beginning and end ---- */

struct span_table *span_table_new(struct s3 *s, const struct s3_options *o)
{
	struct span_table *t = NEW(struct span_table);

	t->s = s;
	t->max = s->opts.cache_size;
	t->disk = disk_cache_open(o->disk_dir, o->disk_size, o->min_free);
	pthread_mutex_init(&t->lock, NULL);
	condition_init(&t->changed);
	t->pool = pool_new("s3", FETCHERS, QUEUED);
	return t;
}

void span_table_free(struct span_table *t)
{
	if (!t)
		return;
	pool_free(t->pool);
	t->max = 0;
	spans_evict(t);
	map_done(&t->objects);
	disk_cache_close(t->disk);
	pthread_cond_destroy(&t->changed);
	pthread_mutex_destroy(&t->lock);
	free(t);
}
