/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compressing contents that were kept raw at first, one at a time, on a thread of lowest priority.
 *
 * Such a record names a raw content. The compressed content is written beside it, then the record is replaced
 * by one that names the compressed one: so at every instant the record names an existing content, and a
 * process that is killed leaves only garbage. The raw content becomes garbage too, unless another record
 * names it. The walk at the start of every server finds these records again.
 */
#include <stdlib.h>
#include "base/condition.h"
#include "base/nice.h"
#include "store/internal.h"

/* An outcome of pack_put_compressed(), besides those of blobs: compressing gains too little. */
enum { PACK_HARDLY = 100 };

#define PIECE         CODEC_FRAME_SIZE
#define PACK_TRIES    8
#define NICENESS      19
#define QUIET_MS      INT64_C(1000)       /* pause after the last record was added, before work begins */
#define LATEST_MS     INT64_C(30000)      /* ... at the latest after the first has waited so long */
#define PAUSE_MS      INT64_C(60000)      /* after a failure: a full disk */
#define FREED_AT_ONCE (UINT64_C(1) << 30) /* garbage of this size is collected before all records are done */

/* ---- one record ---- */

struct pack_job {
	struct store *st;
	const char *name; /* of the record */
	struct arena arena;
	struct store_record record;
	char packed[STORE_CONTENT_NAME_SIZE];
	uint64_t packed_size;
	struct staging staging; /* of the compressed content; fd -1: none */
	bool (*stopped)(void *arg);
	void *arg;
};

static void pack_job_done(struct pack_job *j)
{
	atomic_store(&j->st->packing, 0);
	j->st->blobs->ops->staging_done(j->st->blobs, &j->staging, false);
	arena_done(&j->arena);
}

static int pack_to_staging(void *arg, struct bytes b, struct err *err)
{
	struct pack_job *j = arg;

	atomic_fetch_add(&j->st->packing, b.size);
	return staging_write(&j->staging, b, err);
}

/* ERR_INVALID: the content is damaged. */
static int pack_compress(struct pack_job *j, struct source *raw, struct err *err)
{
	struct codec_frames *frames = codec_frames_new(j->st->opts.level, pack_to_staging, j);
	AUTO(mem_freep) uint8_t *piece = mem_alloc(PIECE);
	AUTO(sha256_freep) struct sha256 *sha = NULL;
	uint8_t sum[STORE_SHA256_SIZE];
	int r = sha256_new(&sha, err);

	for (uint64_t off = 0; r == 0 && off < raw->size;) {
		size_t got = 0;

		r = source_read(raw, off, piece, PIECE, SOURCE_SEQUENTIAL, &got, err);
		if (r == 0 && !got)
			r = err_set(err, ERR_INVALID, "became shorter while it was read");
		if (r == 0 && j->stopped && j->stopped(j->arg))
			r = err_set(err, ERR_CANCELLED, "stopped");
		if (r == 0) {
			sha256_add(sha, bytes_of(piece, got));
			r = codec_frames_write(frames, bytes_of(piece, got), err);
		}
		off += got;
	}
	if (r == 0)
		r = codec_frames_end(frames, err);
	codec_frames_free(frames);
	if (r < 0)
		return -1;
	sha256_end(sha, sum);
	if (memcmp(sum, j->record.meta.sha256, sizeof(sum)) == 0)
		return 0;
	/* So that the damage is known, and a push of the right bytes is wanted. */
	(void)content_check(j->st, j->record.meta.sha256, true, NULL, NULL, NULL);
	return err_set(err, ERR_INVALID,
		       "its SHA-256 differs: push the same file again, or run 'lode store verify --remove'");
}

/* A content that shrinks by less than this stays raw: it can be sent without decoding. */
static bool pack_is_worth_it(uint64_t packed, uint64_t raw)
{
	return packed < raw - raw / 32;
}

/* 0: the compressed content exists, is whole, and counts as put now. BLOB_MISSING. */
static int pack_find_compressed(struct pack_job *j, struct err *err)
{
	struct blobs *b = j->st->blobs;
	struct store_meta packed = j->record.meta;
	struct blob_stamp there;
	bool whole;
	int r = b->ops->touch(b, j->packed, err);

	if (r == 0)
		r = b->ops->stat(b, j->packed, &there, err);
	if (r)
		return r;
	packed.raw = false;
	packed.stored_size = there.size;
	if (content_is_whole(j->st, &packed, &whole, err) < 0)
		return -1;
	if (!whole)
		return BLOB_MISSING;
	j->packed_size = there.size;
	r = b->ops->settle(b, j->packed, err);
	/* Reading it may have taken long. */
	return r ? r : b->ops->touch(b, j->packed, err);
}

/* Write the compressed content to disk. PACK_HARDLY: it gains too little. BLOB_MISSING: the raw content is
 * gone. */
static int pack_put_compressed(struct pack_job *j, struct err *err)
{
	struct blobs *b = j->st->blobs;
	char raw_name[STORE_CONTENT_NAME_SIZE];
	AUTO(source_closep) struct source *raw = NULL;
	int r;

	/* The same bytes may have been compressed under another key. */
	r = pack_find_compressed(j, err);
	if (r <= 0)
		return r;
	r = b->ops->open(b, store_content_name(j->record.meta.sha256, true, raw_name), &raw, err);
	if (r)
		return r;
	if (b->ops->staging(b, STR(""), &j->staging, err) < 0 || pack_compress(j, raw, err) < 0)
		return -1;
	j->packed_size = j->staging.size;
	if (!pack_is_worth_it(j->packed_size, j->record.meta.size))
		return PACK_HARDLY;
	r = b->ops->put_staged(b, j->packed, &j->staging, false, err);
	atomic_store(&j->st->packing, 0);
	if (r == 0)
		store_usage_add(j->st, (int64_t)j->packed_size);
	/* Syncing may have taken long. */
	return r ? r : b->ops->touch(b, j->packed, err);
}

/* As in a commit: garbage collection may have removed the content before the record existed. */
static int pack_touch_again(struct pack_job *j, struct err *err)
{
	struct blobs *b = j->st->blobs;
	int r = b->ops->touch(b, j->packed, err);

	if (r != BLOB_MISSING)
		return r;
	return j->staging.fd >= 0 ? b->ops->put_staged(b, j->packed, &j->staging, false, err)
				  : pack_put_compressed(j, err);
}

/* BLOB_CHANGED, BLOB_MISSING. */
static int pack_replace(struct pack_job *j, uint64_t *ret_freed, struct err *err)
{
	AUTO(buf_done) struct buf record = { 0 };
	struct blobs *b = j->st->blobs;
	struct store_meta meta = j->record.meta;
	char needs[STORE_CONTENT_NAME_SIZE];
	int64_t from_ns;
	bool worth;
	int r;

	store_content_name(meta.sha256, false, j->packed);
	r = pack_put_compressed(j, err);
	if (r && r != PACK_HARDLY)
		return r;
	worth = r == 0;
	from_ns = store_now_ns();
	meta.later = false;
	if (worth) {
		meta.raw = false;
		meta.stored_size = j->packed_size;
	}
	store_record_write(&j->record.key, &meta, &record);
	r = b->ops->put(b, j->name, buf_bytes(&record), store_content_name(meta.sha256, meta.raw, needs),
			&j->record.stamp, err);
	if (r)
		return r == BLOB_UNMET ? BLOB_CHANGED : r;
	object_list_put(j->st->objects, j->name, &j->record.key, &meta);
	record_note_durable(j->st, j->name, buf_bytes(&record), &meta);
	content_note_whole(j->st, &meta);
	if (!worth)
		return 0;
	*ret_freed = j->record.meta.stored_size;
	return store_now_ns() - from_ns < j->st->settle_ns / 2 ? 0 : pack_touch_again(j, err);
}

int pack_record(struct store *st, const char *name, bool (*stopped)(void *arg), void *arg,
		uint64_t *ret_freed, struct err *err)
{
	int r = BLOB_CHANGED;

	*ret_freed = 0;
	for (unsigned i = 0; i < PACK_TRIES && r > 0 && r != PACK_NOTHING; i++) {
		AUTO(pack_job_done)
		struct pack_job j = {
			.st = st, .name = name, .staging.fd = -1, .stopped = stopped, .arg = arg
		};

		arena_init(&j.arena);
		r = store_record_get(st, name, &j.arena, &j.record, err);
		if (r == 0)
			r = j.record.meta.later ? pack_replace(&j, ret_freed, err) : PACK_NOTHING;
		else if (r == BLOB_MISSING)
			r = PACK_NOTHING;
	}
	return r < 0 ? err_in(err, "%s: compress", name) : r ? PACK_NOTHING : 0;
}

/* ---- the thread ---- */

struct pack_entry {
	struct pack_entry *next;
	uint64_t size;
	bool again; /* the record was replaced while it was compressed */
	char name[];
};

struct pack {
	struct store *st;
	pthread_t thread;
	bool running;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* under the lock */
	bool stop;
	struct map by_name; /* of struct pack_entry, including the current one */
	struct pack_entry *first, **last;
	uint64_t n, bytes;
	int64_t first_ms, last_ms; /* when the first was added, and the last */
	/* of the thread */
	uint64_t freed;
	bool told; /* a failure was logged; until the next success */
};

static bool pack_is_stopped(void *arg)
{
	struct pack *p = arg;
	bool stop;

	pthread_mutex_lock(&p->lock);
	stop = p->stop;
	pthread_mutex_unlock(&p->lock);
	return stop;
}

/* Under the lock: wait for the next record that is due. NULL: the end. */
static struct pack_entry *pack_next(struct pack *p, int64_t not_before_ms)
{
	while (!p->stop) {
		int64_t now_ms = clock_mono_ms(), at_ms;

		if (!p->first) {
			pthread_cond_wait(&p->changed, &p->lock);
			continue;
		}
		at_ms = MAX(MIN(p->last_ms + QUIET_MS, p->first_ms + LATEST_MS), not_before_ms);
		if (now_ms >= at_ms)
			return p->first;
		condition_wait(&p->changed, &p->lock, at_ms - now_ms);
	}
	return NULL;
}

/* Under the lock: @w, the first, is done, or goes to the end of the queue. */
static void pack_entry_done(struct pack *p, struct pack_entry *w, bool again)
{
	p->first = w->next;
	if (!p->first)
		p->last = &p->first;
	w->next = NULL;
	if (again) {
		*p->last = w;
		p->last = &w->next;
		return;
	}
	map_del(&p->by_name, bytes_of(w->name, strlen(w->name)));
	p->n--;
	p->bytes -= w->size;
	free(w);
}

struct pack_work {
	struct pack *p;
	const char *name;
	bool again; /* the result: it may be tried again later */
};

static void pack_one(void *arg)
{
	struct pack_work *x = arg;
	struct pack *p = x->p;
	struct err err = { 0 };
	uint64_t freed = 0;

	if (pack_record(p->st, x->name, pack_is_stopped, p, &freed, &err) >= 0) {
		p->freed += freed;
		p->told = false;
		return;
	}
	x->again = err.kind != ERR_INVALID;
	if (err.kind == ERR_CANCELLED)
		return;
	if (!p->told || err.kind == ERR_INVALID)
		log_warn("store", "%s", err.text);
	p->told = true;
}

static void *pack_run(void *arg)
{
	struct pack *p = arg;
	int64_t not_before_ms = 0;
	struct pack_entry *w;

	pthread_setname_np(pthread_self(), "lode-pack");
	pthread_mutex_lock(&p->lock);
	while ((w = pack_next(p, not_before_ms))) {
		struct pack_work x = { p, w->name, false };
		bool enough;

		w->again = false;
		pthread_mutex_unlock(&p->lock);
		nice_call(NICENESS, pack_one, &x);
		pthread_mutex_lock(&p->lock);
		pack_entry_done(p, w, x.again || w->again);
		not_before_ms = x.again ? clock_mono_ms() + PAUSE_MS : 0;
		enough = p->freed >= FREED_AT_ONCE || (!p->first && p->freed);
		if (enough) {
			p->freed = 0;
			store_wake(p->st, true);
		}
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

void pack_add(struct pack *p, const char *name, uint64_t size)
{
	size_t n = strlen(name);
	struct pack_entry *w;

	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	w = map_get(&p->by_name, bytes_of(name, n));
	if (w) {
		w->again = true;
	} else {
		w = mem_alloc(sizeof(*w) + n + 1);
		*w = (struct pack_entry){ .size = size };
		memcpy(w->name, name, n + 1);
		map_put(&p->by_name, bytes_of(name, n), w);
		p->last_ms = clock_mono_ms();
		if (!p->first)
			p->first_ms = p->last_ms;
		*p->last = w;
		p->last = &w->next;
		p->n++;
		p->bytes += size;
		pthread_cond_signal(&p->changed);
	}
	pthread_mutex_unlock(&p->lock);
}

void pack_figures(struct pack *p, uint64_t *ret_n, uint64_t *ret_bytes)
{
	*ret_n = *ret_bytes = 0;
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	*ret_n = p->n;
	*ret_bytes = p->bytes;
	pthread_mutex_unlock(&p->lock);
}

struct pack *pack_new(struct store *st)
{
	struct pack *p = NEW(struct pack);

	p->st = st;
	p->last = &p->first;
	pthread_mutex_init(&p->lock, NULL);
	condition_init(&p->changed);
	return p;
}

void pack_start(struct pack *p)
{
	p->running = pthread_create(&p->thread, NULL, pack_run, p) == 0;
}

void pack_stop(struct pack *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->stop = true;
	pthread_cond_signal(&p->changed);
	pthread_mutex_unlock(&p->lock);
	if (p->running)
		pthread_join(p->thread, NULL);
}

void pack_free(struct pack *p)
{
	if (!p)
		return;
	while (p->first)
		pack_entry_done(p, p->first, false);
	map_done(&p->by_name);
	pthread_cond_destroy(&p->changed);
	pthread_mutex_destroy(&p->lock);
	free(p);
}
