/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows into structs. Other programs may have written the file: a value that lode never writes is reported as
 * damage before it is used.
 */
#include "index/internal.h"

#include <stdlib.h>

void index_path_split(struct str path, struct str *ret_dir, struct str *ret_name)
{
	size_t at = path.size;

	while (at && path.p[at - 1] != '/')
		at--;
	*ret_dir = (struct str){ path.p, at };
	*ret_name = (struct str){ path.p + at, path.size - at };
}

static bool row_in_range(struct db_stmt *s, int col, int64_t first, int64_t last)
{
	int64_t v = db_i64(s, col);

	return v >= first && v <= last;
}

int index_row_file(struct db_stmt *s, struct arena *a, struct index_file *ret, struct err *err)
{
	struct bytes dir = db_bytes(s, 1), name = db_bytes(s, 2), reason = db_bytes(s, 9);
	char *path;

	if (!row_in_range(s, 3, INDEX_PLAIN, INDEX_PACKAGE) ||
	    !row_in_range(s, 4, INDEX_HEADER, INDEX_QUEUED) || !row_in_range(s, 10, ERR_NONE, ERR_INTERNAL) ||
	    !row_in_range(s, 11, 0, UINT32_MAX) || !row_in_range(s, 14, CODEC_NONE, CODEC_N_KINDS - 1))
		return err_set(err, ERR_DAMAGED, "the row of file %lld is damaged", (long long)db_i64(s, 0));
	path = arena_alloc(a, dir.size + name.size + 1);
	memcpy(path, dir.p ? dir.p : (const uint8_t *)"", dir.size);
	memcpy(path + dir.size, name.p ? name.p : (const uint8_t *)"", name.size);
	path[dir.size + name.size] = '\0';
	*ret = (struct index_file){
		.id = db_i64(s, 0),
		.path = { path, dir.size + name.size },
		.kind = (enum index_kind)db_i64(s, 3),
		.state = (enum index_state)db_i64(s, 4),
		.size = (uint64_t)db_i64(s, 5),
		.mtime_ns = db_i64(s, 6),
		.inode = (uint64_t)db_i64(s, 7),
		.dev = (uint64_t)db_i64(s, 8),
		.reason = arena_str(a, (struct str){ (const char *)reason.p, reason.size }),
		.reason_kind = (enum err_kind)db_i64(s, 10),
		.tries = (uint32_t)db_i64(s, 11),
		.next_try_s = db_i64(s, 12),
		.scanned_s = db_i64(s, 13),
		.inner = (enum codec_kind)db_i64(s, 14),
		.inner_size = (uint64_t)db_i64(s, 15),
		.points_size = (uint64_t)db_i64(s, 16),
		.generation = (uint64_t)db_i64(s, 17),
	};
	return 0;
}

int64_t index_member_value(uint32_t member)
{
	/* -1 takes one byte, 2^32 - 1 eight. */
	return member == INDEX_NO_MEMBER ? -1 : (int64_t)member;
}

int index_row_artifact(struct db_stmt *s, int col, struct index_artifact *ret, struct err *err)
{
	int64_t member = db_i64(s, col + 1);
	struct index_artifact art;

	if (!build_id_set(&art.build_id, db_bytes(s, col)) || member < -1 || member >= INDEX_NO_MEMBER)
		return err_set(err, ERR_DAMAGED, "a row of artifact is damaged");
	art.member = member < 0 ? INDEX_NO_MEMBER : (uint32_t)member;
	art.flags = (uint32_t)db_i64(s, col + 2);
	*ret = art;
	return 0;
}

int index_row_files(struct db_stmt *s, size_t max, struct arena *a, struct index_file **ret, size_t *ret_n,
		    struct err *err)
{
	struct index_file *list = NULL;
	size_t n = 0, room = 0;
	int r = DB_DONE;

	while (n < max && (r = db_step(s, err)) == DB_ROW) {
		VEC_GROW(list, n, room);
		r = index_row_file(s, a, &list[n], err);
		if (r < 0)
			break;
		n++;
	}
	db_reset(s);
	if (r >= 0) {
		*ret = ARENA_NEW_N(a, struct index_file, n + 1);
		if (n)
			memcpy(*ret, list, n * sizeof(*list));
		*ret_n = n;
		r = 0;
	}
	free(list);
	return r;
}

bool index_is_retried(const struct index_file *f, int64_t now_s)
{
	return f->next_try_s > 0 && (f->next_try_s <= now_s || f->scanned_s > now_s + INDEX_SET_BACK_S);
}

void index_file_stat(const struct index_file *f, struct stat *ret)
{
	*ret = (struct stat){ 0 };
	ret->st_mode = S_IFREG | 0444;
	ret->st_size = (off_t)f->size;
	ret->st_mtim.tv_sec = f->mtime_ns / 1000000000;
	ret->st_mtim.tv_nsec = f->mtime_ns % 1000000000;
	ret->st_ino = f->inode;
	ret->st_dev = f->dev;
}
