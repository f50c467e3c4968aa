/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of resume points, one object each. It is named by the generation of its row, which no other content has, and which
 * stays the same in snapshots.
 */
#include "facts/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/log.h"
#include "base/room.h"

#define POINTS_MAX MIB(64) /* a larger set is not given: the package is scanned again where it is needed */
#define OLD_S      INT64_C(2592000) /* after 30 days without a row of this node with it, a set is removed */
#define NAME_SIZE  34u              /* 16 digits, a hyphen, 16 digits; with the end */

struct points_name {
	char text[NAME_SIZE];
};

static struct points_name points_name(const struct index_file *f)
{
	struct points_name n;

	snprintf(n.text, sizeof(n.text), "%016" PRIx64 "-%016" PRIx64, f->generation, f->points_size);
	return n;
}

static bool has_points(const struct index_file *f)
{
	return f->kind == INDEX_PACKAGE && f->state == INDEX_SCANNED && s3_is_url(f->path) &&
	       f->points_size && f->points_size <= POINTS_MAX;
}

/* ---- taking ---- */

static int points_keep(struct facts *f, const char *path, struct bytes b, struct err *err)
{
	AUTO(file_temp_done) struct file_temp file = FILE_TEMP_NONE;
	struct room_claim claim = { 0 };
	int r;

	if (dir_make(f->points_dir, 0755, err) < 0 || file_temp_open(path, 0644, &file, err) < 0)
		return -1;
	r = room_claim(f->room, &claim, file.fd, b.size, err);
	if (r == 0)
		r = fd_pwrite(file.fd, b.p, b.size, 0, err);
	if (r == 0)
		r = file_temp_commit(&file, err);
	room_release(&claim);
	return r;
}

bool facts_points(void *arg, const struct index_file *row)
{
	struct facts *f = arg;
	struct points_name name = points_name(row);
	AUTO(mem_freep) char *key = NULL;
	AUTO(buf_done) struct buf got = { 0 };
	AUTO(buf_done) struct buf path = { 0 };
	struct err err = { 0 };
	int r;

	if (!f->points_dir || !has_points(row))
		return false;
	r = s3_get(f->s3, facts_name(f, &key, "points/%s", name.text), (size_t)row->points_size, &got, NULL,
		   &err);
	if (r == 0 && got.size != row->points_size)
		r = err_set(&err, ERR_DAMAGED, "it has %zu bytes", got.size);
	scan_points_path(f->points_dir, row, &path);
	if (r == 0)
		r = points_keep(f, buf_cstr(&path), buf_bytes(&got), &err);
	if (r < 0)
		log_warn("facts", STR_FMT ": %spoints/%s: %s", STR_ARG(row->path), f->store, name.text,
			 err.text);
	return r == 0;
}

/* ---- giving ---- */

/* Those in the bucket. A key is a name; its value tells when it was put, or that a row has it. */
struct listed {
	struct facts *f;
	struct map times; /* -> int64_t, heap */
};

static int note_points(void *arg, const struct s3_listed *o, struct err *err)
{
	struct listed *l = arg;
	size_t skip = l->f->place.key.size + strlen("points/");
	struct str name = { o->key.p + skip, o->key.size - skip };
	uint8_t raw[NAME_SIZE];
	int64_t *time_s;
	size_t n;

	/* Objects of other names are not ours to remove. */
	if (name.size == NAME_SIZE - 1 && hex_decode((struct str){ name.p, 16 }, false, raw, 8, &n) &&
	    name.p[16] == '-' && hex_decode((struct str){ name.p + 17, 16 }, false, raw, 8, &n)) {
		time_s = NEW(int64_t);
		*time_s = o->info.mtime;
		free(map_put(&l->times, bytes_of(name.p, name.size), time_s));
	}
	return atomic_load(&l->f->stopping) ? err_set(err, ERR_CANCELLED, "stopped") : 0;
}

static void listed_done(struct listed *l)
{
	struct bytes key;
	void *value;

	map_each (&l->times, it, &key, &value)
		free(value);
	map_done(&l->times);
}

/* A set that cannot be read here is none of the bucket's: another node has it, or a scan makes it. */
static int points_put(struct facts *f, const struct index_file *row, const char *name, struct err *err)
{
	AUTO(buf_done) struct buf path = { 0 };
	AUTO(buf_done) struct buf points = { 0 };
	AUTO(mem_freep) char *key = NULL;
	struct s3_info info;

	scan_points_path(f->points_dir, row, &path);
	if (file_read(buf_cstr(&path), POINTS_MAX, &points, NULL) != 0 || points.size != row->points_size)
		return 0;
	return s3_put(f->s3, facts_name(f, &key, "points/%s", name), buf_bytes(&points), &info, err);
}

static int give_row(void *arg, const struct index_file *row, struct err *err)
{
	struct listed *l = arg;
	struct points_name name;
	int64_t *time_s;

	if (atomic_load(&l->f->stopping))
		return err_set(err, ERR_CANCELLED, "stopped");
	if (!has_points(row))
		return 0;
	name = points_name(row);
	time_s = map_get(&l->times, bytes_of(name.text, strlen(name.text)));
	if (!time_s)
		return points_put(l->f, row, name.text, err);
	*time_s = INT64_MAX;
	return 0;
}

static int remove_old(struct facts *f, struct listed *l, struct err *err)
{
	int64_t old_s = s3_time_s(f->s3) - OLD_S;
	struct bytes key;
	void *value;
	int r = 0;

	map_each (&l->times, it, &key, &value) {
		AUTO(mem_freep) char *object = NULL;

		if (r == 0 && *(const int64_t *)value < old_s && !atomic_load(&f->stopping))
			r = s3_delete(
				f->s3,
				facts_name(f, &object, "points/%.*s", (int)key.size, (const char *)key.p),
				err);
	}
	return r;
}

int facts_give_points(struct facts *f, struct index *ix, struct err *err)
{
	AUTO(mem_freep) char *key = NULL;
	AUTO(listed_done) struct listed l = { .f = f };
	struct s3_name prefix = facts_name(f, &key, "points/");

	if (!f->points_dir)
		return 0;
	if (s3_list(f->s3,
		    &(struct s3_listing){
			    .bucket = prefix.bucket, .prefix = prefix.key, .fn = note_points, .arg = &l },
		    err) < 0)
		return -1;
	if (index_each(ix, INDEX_PACKAGE, INDEX_SCANNED, give_row, &l, err) < 0)
		return -1;
	return remove_old(f, &l, err);
}
