/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection to the index, its transactions, and the epoch, which tells caches that a row was removed or
 * replaced.
 */
#include "index/internal.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* A larger index is not checked at the start: that would take seconds. Its pages are compared when they are read. */
#define CHECK_MAX MIB(512)

static _Atomic uint64_t epoch = 1;

uint64_t index_epoch(void)
{
	return atomic_load_explicit(&epoch, memory_order_acquire);
}

void index_all_gone(void)
{
	atomic_fetch_add_explicit(&epoch, 1, memory_order_release);
}

bool index_mark(const struct index *ix, struct db_mark *ret)
{
	/* The mark of a database that was set aside says nothing of the new one. */
	return atomic_load(&ix->made) == atomic_load(&ix->place->made) && db_mark(ix->db, ret);
}

uint64_t index_dir_hash(struct str dir)
{
	return hash64(dir.p, dir.size, 0);
}

int index_open(const char *path, const struct index_options *opts, struct index **ret, struct err *err)
{
	struct index *ix = NEW(struct index);

	ix->read_only = opts->read_only;
	ix->place = index_place_ref(path);
	if (index_connect(ix, err) < 0) {
		index_close(ix);
		if (err && (err->kind == ERR_INVALID || err->kind == ERR_DAMAGED))
			/* After the reason, which names the file, the advice. */
			return err_set(
				err, err->kind,
				"%.400s; use another file, or move it aside: a scan makes the index anew",
				err->text);
		return err_in(err, "index");
	}
	*ret = ix;
	return 0;
}

void index_close(struct index *ix)
{
	if (!ix)
		return;
	if (ix->open)
		index_rollback(ix);
	db_close(ix->db);
	while (ix->n_old)
		db_close(ix->old[--ix->n_old]);
	index_place_unref(ix->place);
	free(ix);
}

int index_begin(struct index *ix, struct err *err)
{
	assert(!ix->open);
	if (db_begin(ix->db, err) < 0)
		return err_in(err, "index");
	ix->open = true;
	ix->broken = false;
	ix->n_gone = 0;
	return 0;
}

int index_commit(struct index *ix, struct err *err)
{
	assert(ix->open);
	if (ix->broken) {
		index_rollback(ix);
		return err_set(err, ERR_INTERNAL,
			       "index: a change in this transaction failed: nothing of it is kept");
	}
	ix->open = false;
	if (db_commit(ix->db, err) < 0)
		return err_in(err, "index");
	/* After the commit: a thread that sees the new epoch sees the new rows. */
	if (ix->n_gone)
		atomic_fetch_add_explicit(&epoch, 1, memory_order_release);
	return 0;
}

void index_rollback(struct index *ix)
{
	if (!ix->open)
		return;
	ix->open = false;
	db_rollback(ix->db);
}

/* ---- damage ---- */

static int check_index(const char *path, struct err *err)
{
	struct index *ix = NULL;
	int r = index_open(path, &(struct index_options){ 0 }, &ix, err);

	if (r == 0)
		r = db_check(ix->db, CHECK_MAX, NULL, err) < 0 ? err_in(err, "%s", path) : 0;
	index_close(ix);
	return r;
}

int index_mend(const char *path, char **ret_aside, struct err *err)
{
	AUTO(mem_freep) char *aside = mem_printf("%s.damaged.%lld", path, (long long)clock_wall_s());

	struct err sync_err = { 0 };

	*ret_aside = NULL;
	err->kind = ERR_NONE;
	if (access(path, F_OK) != 0 || check_index(path, err) == 0)
		return 0;
	/* Another error is met again where the index is opened, or is none there, such as a full disk. */
	if (err->kind != ERR_DAMAGED)
		return 0;
	/* After a power cut the damaged file must not be the index again. */
	if (db_files_move(path, aside, false, &sync_err) < 0 || dir_sync_of(path, &sync_err) < 0) {
		*err = sync_err;
		return -1;
	}
	*ret_aside = TAKE(aside);
	return 0;
}
