/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Giving snapshots: a thread that looks whether the index knows more of buckets than the last snapshot said, and puts
 * a new one: the sets of resume points first, then the pieces, then the manifest.
 */
#include "facts/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <zstd.h>
#include "base/condition.h"
#include "base/log.h"
#include "base/nice.h"
#include "base/room.h"
#include "db/db.h"

#define LOOK_MS  INT64_C(2000)
#define EVERY_MS INT64_C(900000) /* between two snapshots of this node */
#define RETRY_MS INT64_C(60000)  /* after a failure, at first */
#define KEEP     2u /* snapshots; those of the last hour, too, since somebody may be taking them */
#define KEEP_S   3600
#define LEVEL    3
#define NICENESS 10

struct giver {
	struct facts *f;
	struct index *ix;
	struct db_mark looked; /* at this state of the index */
	bool has_looked;
	int64_t next_ms, retry_ms;
	/* of the rows */
	uint64_t fingerprint, n_rows;
};

/* ---- rows of the index ---- */

/* The order of rows differs between nodes, so that their hashes are added up. */
static int add_row(void *arg, const struct index_file *row, struct err *err)
{
	struct giver *g = arg;
	uint64_t says[3] = { row->inode, row->size, row->state };

	if (!s3_is_url(row->path))
		return 0;
	g->fingerprint += hash64(row->path.p, row->path.size, hash64(says, sizeof(says), 0));
	g->n_rows++;
	return 0;
}

static int rows_read(struct giver *g, struct err *err)
{
	g->fingerprint = g->n_rows = 0;
	if (index_each(g->ix, 0, 0, add_row, g, err) < 0)
		return -1;
	g->fingerprint += g->n_rows != 0 && g->fingerprint == 0;
	return 0;
}

/* ---- one snapshot ---- */

static void snapshot_name(char out[SNAPSHOT_NAME])
{
	uint64_t random = 0;

	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
		random = (uint64_t)clock_mono_ns() << 12;
	snprintf(out, SNAPSHOT_NAME, "%011llx%013llx", (unsigned long long)clock_wall_ms() & 0xfffffffffff,
		 (unsigned long long)random >> 12);
}

static int piece_put(struct facts *f, const char *name, size_t i, struct bytes raw, struct buf *packed,
		     struct piece *ret, struct err *err)
{
	AUTO(mem_freep) char *key = NULL;
	size_t bound = ZSTD_compressBound(raw.size), n;
	struct s3_info info;

	packed->size = 0;
	n = ZSTD_compress(buf_reserve(packed, bound), bound, raw.p, raw.size, LEVEL);
	if (ZSTD_isError(n))
		return err_set(err, ERR_INTERNAL, "zstd: %s", ZSTD_getErrorName(n));
	packed->size = n;
	ret->packed = (uint32_t)n;
	sha256_of(buf_bytes(packed), ret->sha256);
	return s3_put(f->s3, facts_name(f, &key, "index/%s/%04zx", name, i), buf_bytes(packed), &info, err);
}

static int pieces_put(struct facts *f, const char *name, int fd, struct manifest *m, struct err *err)
{
	AUTO(mem_freep) uint8_t *raw = mem_alloc(PIECE_SIZE);
	AUTO(buf_done) struct buf packed = { 0 };
	size_t got;

	for (size_t i = 0; i < m->n_pieces; i++) {
		size_t size = (size_t)MIN((uint64_t)PIECE_SIZE, m->size - (uint64_t)i * PIECE_SIZE);

		if (atomic_load(&f->stopping))
			return err_set(err, ERR_CANCELLED, "stopped");
		if (fd_pread(fd, raw, size, (uint64_t)i * PIECE_SIZE, &got, err) < 0)
			return -1;
		if (got != size)
			return err_set(err, ERR_IO, "the copy of the index ends too early");
		if (piece_put(f, name, i, bytes_of(raw, size), &packed, &m->pieces[i], err) < 0)
			return -1;
	}
	return 0;
}

static int manifest_put(struct facts *f, const char *name, const struct manifest *m, struct err *err)
{
	AUTO(mem_freep) char *key = NULL;
	AUTO(buf_done) struct buf text = { 0 };
	struct s3_info info;

	manifest_write(m, &text);
	return s3_put(f->s3, facts_name(f, &key, "index/%s" MANIFEST_END, name), buf_bytes(&text), &info,
		      err);
}

static int copy_put(struct giver *g, const char *copy, const char *name, struct err *err)
{
	AUTO(manifest_done)
	struct manifest m = { .fingerprint = g->fingerprint, .n_rows = g->n_rows };
	AUTO(fd_close) int fd = -1;
	struct stat st;

	if (file_open(copy, &fd, &st, err) != 0)
		return err_set(err, ERR_IO, "%s: it has vanished", copy);
	m.size = (uint64_t)st.st_size;
	m.n_pieces = (size_t)((m.size + PIECE_SIZE - 1) / PIECE_SIZE);
	if (m.n_pieces > PIECES_MAX)
		return err_set(err, ERR_LIMIT, "the index is too large for a snapshot");
	m.pieces = NEW_N(struct piece, m.n_pieces + 1);
	return pieces_put(g->f, name, fd, &m, err) < 0 ? -1 : manifest_put(g->f, name, &m, err);
}

/* Disk space for the copy and its WAL, by the size of the index. */
static int copy_claim(struct giver *g, struct room_claim *claim, struct err *err)
{
	AUTO(fd_close) int fd = open(g->f->temp_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return err_os(err, errno, "%s", g->f->temp_dir);
	return room_claim(g->f->room, claim, fd, 2 * db_files_size(g->f->index_path), err);
}

static int snapshot_put(struct giver *g, char name[SNAPSHOT_NAME], struct err *err)
{
	AUTO(mem_freep) char *copy = mem_printf("%s/" FILE_TEMP_PREFIX "given.sqlite", g->f->temp_dir);
	struct room_claim claim = { 0 };
	int r = copy_claim(g, &claim, err);

	snapshot_name(name);
	if (r == 0)
		r = index_export(g->f->index_path, copy, err);
	if (r == 0)
		r = copy_put(g, copy, name, err);
	db_files_remove(copy);
	room_release(&claim);
	return r;
}

/* ---- older snapshots ---- */

static int give_remove_object(void *arg, const struct s3_listed *o, struct err *err)
{
	const struct facts *f = arg;

	return s3_delete(f->s3, (struct s3_name){ f->place.bucket, o->key }, err);
}

/* The manifest first: without it nobody begins with the pieces. */
static int snapshot_remove(struct facts *f, const char *name, struct err *err)
{
	AUTO(mem_freep) char *manifest = NULL;
	AUTO(mem_freep) char *pieces = NULL;
	struct s3_name prefix = facts_name(f, &pieces, "index/%s/", name);

	if (s3_delete(f->s3, facts_name(f, &manifest, "index/%s" MANIFEST_END, name), err) < 0)
		return -1;
	return s3_list(
		f->s3,
		&(struct s3_listing){
			.bucket = prefix.bucket, .prefix = prefix.key, .fn = give_remove_object, .arg = f },
		err);
}

static int remove_older(struct facts *f, struct err *err)
{
	AUTO(mem_freep) struct snapshot *list = NULL;
	size_t n = 0;

	if (facts_list(f, &list, &n, err) < 0)
		return -1;
	for (size_t i = KEEP; i < n && !atomic_load(&f->stopping); i++)
		if (list[i].time_s < s3_time_s(f->s3) - KEEP_S && snapshot_remove(f, list[i].name, err) < 0)
			return -1;
	return 0;
}

/* ---- the thread ---- */

/* A store that begins in a prefix with other objects and no marker takes that for somebody else's. */
static int store_is_there(struct facts *f, struct err *err)
{
	AUTO(mem_freep) char *key = NULL;
	struct s3_info info;
	int r = s3_head(f->s3, facts_name(f, &key, "lode-store"), &info, err);

	return r == S3_MISSING ? err_set(err, ERR_IO, "the store is not there yet") : r;
}

/* Another node may have given the same. */
static int newest_fingerprint(struct facts *f, uint64_t *ret, struct err *err)
{
	AUTO(mem_freep) struct snapshot *list = NULL;
	AUTO(manifest_done) struct manifest m = { 0 };
	size_t n = 0;
	int r;

	*ret = 0;
	if (facts_list(f, &list, &n, err) < 0)
		return -1;
	r = n ? facts_manifest(f, list[0].name, &m, err) : S3_MISSING;
	/* One that cannot be read is no reason to give none. */
	if (r == 0)
		*ret = m.fingerprint;
	return r < 0 && err->kind == ERR_IO ? -1 : 0;
}

static int give(struct giver *g, struct err *err)
{
	struct facts *f = g->f;
	char name[SNAPSHOT_NAME];
	int64_t begun_ms = clock_mono_ms();
	uint64_t newest;

	if (rows_read(g, err) < 0)
		return -1;
	if (!g->n_rows || g->fingerprint == f->fingerprint)
		return 0;
	if (store_is_there(f, err) < 0 || newest_fingerprint(f, &newest, err) < 0)
		return -1;
	if (newest != g->fingerprint) {
		if (facts_give_points(f, g->ix, err) < 0 || snapshot_put(g, name, err) < 0)
			return -1;
		log_info("facts", "gave what is known of %llu packages to other nodes: %sindex/%s, %.1f s",
			 (unsigned long long)g->n_rows, f->store, name,
			 (double)(clock_mono_ms() - begun_ms) / 1000);
	}
	f->fingerprint = g->fingerprint;
	g->next_ms = clock_mono_ms() + EVERY_MS;
	return remove_older(f, err);
}

/* At once when everything is read for the first time; while there is more to read, at intervals. */
static bool is_time_to_give(struct giver *g, struct db_mark *ret_mark)
{
	struct scan_progress p;

	if (clock_mono_ms() < g->next_ms)
		return false;
	if (!index_mark(g->ix, ret_mark) ||
	    (g->has_looked && memcmp(ret_mark, &g->looked, sizeof(g->looked)) == 0))
		return false;
	scan_progress(g->f->scan, &p);
	if (p.ready && !scan_unfinished(g->f->scan))
		return true;
	/* A first scan may take days. */
	return clock_mono_ms() - p.started_mono_ms > EVERY_MS;
}

struct giver_try {
	struct giver *g;
	struct err err;
	int r;
};

static void try_give(void *arg)
{
	struct giver_try *t = arg;

	t->r = give(t->g, &t->err);
}

static void look(struct giver *g)
{
	struct giver_try t = { .g = g };
	struct db_mark mark;

	if (!is_time_to_give(g, &mark))
		return;
	nice_call(NICENESS, try_give, &t);
	if (t.r == 0) {
		g->looked = mark;
		g->has_looked = true;
		g->retry_ms = RETRY_MS;
	} else if (!atomic_load(&g->f->stopping)) {
		log_warn("facts", "%sindex: not given: %s; another try in %lld s", g->f->store, t.err.text,
			 (long long)(g->retry_ms / 1000));
		g->next_ms = clock_mono_ms() + g->retry_ms;
		g->retry_ms = MIN(2 * g->retry_ms, EVERY_MS);
	}
}

static bool pause_giver(struct facts *f)
{
	pthread_mutex_lock(&f->lock);
	if (!atomic_load(&f->stopping))
		condition_wait(&f->changed, &f->lock, LOOK_MS);
	pthread_mutex_unlock(&f->lock);
	return !atomic_load(&f->stopping);
}

static void *give_main(void *arg)
{
	struct giver g = { .f = arg, .retry_ms = RETRY_MS };
	struct err err = { 0 };

	pthread_setname_np(pthread_self(), "facts");
	if (index_open(g.f->index_path, &(struct index_options){ 0 }, &g.ix, &err) < 0) {
		log_warn("facts", "%s: nothing is given to other nodes", err.text);
		return NULL;
	}
	while (pause_giver(g.f))
		look(&g);
	index_close(g.ix);
	return NULL;
}

int facts_start(struct facts *f, struct scan *scan, struct err *err)
{
	int r;

	f->scan = scan;
	r = pthread_create(&f->thread, NULL, give_main, f);
	if (r)
		return err_os(err, r, "thread");
	f->has_thread = true;
	return 0;
}

void facts_stop(struct facts *f)
{
	if (!f || !f->has_thread)
		return;
	pthread_mutex_lock(&f->lock);
	atomic_store(&f->stopping, true);
	pthread_cond_signal(&f->changed);
	pthread_mutex_unlock(&f->lock);
	pthread_join(f->thread, NULL);
	f->has_thread = false;
}
