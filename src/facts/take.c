/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking a snapshot: its pieces are fetched side by side into a file, which becomes the index if each byte of it is as the
 * manifest says, and each page as its digest says.
 */
#include "facts/internal.h"

#include <stdlib.h>
#include <unistd.h>
#include <zstd.h>
#include "base/log.h"
#include "base/room.h"
#include "db/db.h"

#define FETCHERS 8u
#define TRIES    3u /* snapshots: if the newest one is damaged, or is being removed, an older one may do */

struct taking {
	struct facts *f;
	const char *name;
	const struct manifest *m;
	int fd;
	_Atomic size_t next;
	atomic_bool failed;
	pthread_mutex_t lock;
	struct err why; /* lock: of the first failure */
};

static size_t piece_size(const struct manifest *m, size_t i)
{
	return (size_t)MIN((uint64_t)PIECE_SIZE, m->size - (uint64_t)i * PIECE_SIZE);
}

/* The piece's bytes of the database, in @raw. */
static int piece_get(struct taking *t, size_t i, struct buf *packed, uint8_t *raw, struct err *err)
{
	const struct piece *p = &t->m->pieces[i];
	AUTO(mem_freep) char *key = NULL;
	uint8_t digest[SHA256_SIZE];
	size_t size = piece_size(t->m, i), got;
	int r;

	packed->size = 0;
	r = s3_get(t->f->s3, facts_name(t->f, &key, "index/%s/%04zx", t->name, i), p->packed, packed, NULL,
		   err);
	if (r)
		return r < 0 ? -1 : err_set(err, ERR_INVALID, "piece %zu is not there", i);
	sha256_of(buf_bytes(packed), digest);
	if (packed->size != p->packed || memcmp(digest, p->sha256, SHA256_SIZE) != 0)
		return err_set(err, ERR_DAMAGED, "piece %zu has another digest", i);
	got = ZSTD_decompress(raw, size, packed->p, packed->size);
	if (ZSTD_isError(got) || got != size)
		return err_set(err, ERR_DAMAGED, "piece %zu is no zstd frame of %zu bytes", i, size);
	return 0;
}

static void *fetch_pieces(void *arg)
{
	struct taking *t = arg;
	AUTO(buf_done) struct buf packed = { 0 };
	AUTO(mem_freep) uint8_t *raw = mem_alloc(PIECE_SIZE);
	size_t i;

	pthread_setname_np(pthread_self(), "facts");
	while (!atomic_load(&t->failed) && (i = atomic_fetch_add(&t->next, 1)) < t->m->n_pieces) {
		struct err err = { 0 };

		if (piece_get(t, i, &packed, raw, &err) == 0 &&
		    fd_pwrite(t->fd, raw, piece_size(t->m, i), (uint64_t)i * PIECE_SIZE, &err) == 0)
			continue;
		pthread_mutex_lock(&t->lock);
		if (!atomic_exchange(&t->failed, true))
			t->why = err;
		pthread_mutex_unlock(&t->lock);
	}
	return NULL;
}

static int take_fetch_all(struct taking *t, struct err *err)
{
	pthread_t threads[FETCHERS];
	size_t n = 0;

	pthread_mutex_init(&t->lock, NULL);
	/* This thread is the last of them. */
	while (n + 1 < MIN((size_t)FETCHERS, t->m->n_pieces) &&
	       pthread_create(&threads[n], NULL, fetch_pieces, t) == 0)
		n++;
	fetch_pieces(t);
	while (n)
		pthread_join(threads[--n], NULL);
	pthread_mutex_destroy(&t->lock);
	if (!atomic_load(&t->failed))
		return 0;
	*err = t->why;
	return -1;
}

/* The snapshot as a file. */
static int take_fetch_file(struct facts *f, const char *name, const struct manifest *m, const char *path,
			   struct err *err)
{
	AUTO(file_temp_done) struct file_temp file = FILE_TEMP_NONE;
	struct taking t = { .f = f, .name = name, .m = m };
	struct room_claim claim = { 0 };
	int r;

	if (file_temp_open(path, 0600, &file, err) < 0)
		return -1;
	t.fd = file.fd;
	r = room_claim(f->room, &claim, file.fd, m->size, err);
	if (r == 0)
		r = take_fetch_all(&t, err);
	if (r == 0)
		r = file_temp_commit(&file, err);
	room_release(&claim);
	return r;
}

/* A node serves only objects below its own roots. */
static bool is_wanted(void *arg, const struct index_file *file)
{
	const struct facts *f = arg;

	for (size_t i = 0; i < f->n_roots; i++) {
		struct str root = f->roots[i];

		if (s3_is_url(root) && str_starts(file->path, root) &&
		    (file->path.size == root.size || root.p[root.size - 1] == '/' ||
		     file->path.p[root.size] == '/'))
			return true;
	}
	return false;
}

/* S3_MISSING: it was removed meanwhile. */
static int take_one(struct facts *f, const char *name, struct err *err)
{
	AUTO(mem_freep) char *path = mem_printf("%s/" FILE_TEMP_PREFIX "taken.sqlite", f->temp_dir);
	AUTO(manifest_done) struct manifest m = { 0 };
	int64_t begun_ms = clock_mono_ms();
	int r = facts_manifest(f, name, &m, err);

	if (r)
		return r;
	db_files_remove(path);
	r = take_fetch_file(f, name, &m, path, err);
	if (r == 0)
		r = index_import(path, f->index_path, is_wanted, f, err);
	db_files_remove(path);
	if (r < 0)
		return -1;
	f->fingerprint = m.fingerprint;
	log_info(
		"facts",
		"took what other nodes know of %llu packages from %sindex/%s: %llu bytes, %zu pieces, %.1f s",
		(unsigned long long)m.n_rows, f->store, name, (unsigned long long)m.size, m.n_pieces,
		(double)(clock_mono_ms() - begun_ms) / 1000);
	return 0;
}

static bool has_bucket_root(const struct facts *f)
{
	for (size_t i = 0; i < f->n_roots; i++)
		if (s3_is_url(f->roots[i]))
			return true;
	return false;
}

void facts_take(struct facts *f)
{
	AUTO(mem_freep) struct snapshot *list = NULL;
	struct err err = { 0 };
	size_t n = 0;

	if (access(f->index_path, F_OK) == 0 || !has_bucket_root(f))
		return;
	if (facts_list(f, &list, &n, &err) < 0) {
		log_warn("facts", "%s: the packages are scanned", err.text);
		return;
	}
	for (size_t i = 0; i < MIN(n, (size_t)TRIES); i++) {
		int r = take_one(f, list[i].name, &err);

		if (r == 0)
			return;
		log_warn("facts", "%sindex/%s: not taken: %s", f->store, list[i].name,
			 r < 0 ? err.text : "it was removed just now");
	}
	if (n)
		log_warn("facts", "no snapshot could be taken: the packages are scanned");
}
