/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections to the store's database, whose file may be replaced while they are open (remake.c).
 *
 * A connection has the number of the file that it was opened with. One to an older file reads a database that no longer
 * grows, and closing it must not touch the WAL at the path, which is that of the new file by then (db_abandon()).
 */
#include "profilestore/internal.h"
#include "profilestore/remake.h"
#include "profilestore/salvage.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

const struct db_options store_db_options = { .create = true, .sync = true, .page_size = STORE_PAGE_SIZE };

static int connect_here(struct profilestore *s, const struct db_options *o, struct db **ret, struct err *err)
{
	if (db_open(s->path, o, ret, err) < 0)
		return -1;
	db_set_number(*ret, atomic_load(&s->files.number));
	return 0;
}

int store_connect(struct profilestore *s, const struct db_options *o, struct db **ret, struct err *err)
{
	int r;

	pthread_rwlock_rdlock(&s->files.lock);
	r = connect_here(s, o, ret, err);
	pthread_rwlock_unlock(&s->files.lock);
	return r;
}

bool store_is_replaced(struct profilestore *s, const struct db *db)
{
	return db_number(db) != atomic_load(&s->files.number);
}

/* Under the lock of the files. */
static void disconnect_here(struct profilestore *s, struct db *db)
{
	if (db && store_is_replaced(s, db))
		db_abandon(db);
	db_close(db);
}

void store_disconnect(struct profilestore *s, struct db *db)
{
	pthread_rwlock_rdlock(&s->files.lock);
	disconnect_here(s, db);
	pthread_rwlock_unlock(&s->files.lock);
}

static void close_idle_readers(struct profilestore *s)
{
	struct db *idle[ARRAY_SIZE(s->readers)];
	size_t n;

	pthread_mutex_lock(&s->readers_lock);
	n = s->n_readers;
	memcpy(idle, s->readers, n * sizeof(*idle));
	s->n_readers = 0;
	pthread_mutex_unlock(&s->readers_lock);
	while (n) {
		db_abandon(idle[--n]);
		db_close(idle[n]);
	}
}

/* The old file, which has the name @from, too, is at its path again. Both names are never missing. */
static void put_back(struct profilestore *s, const char *from)
{
	(void)db_files_move(from, s->path, false, NULL);
	(void)dir_sync(s->dir, NULL);
}

/* The old file gets the name @to. */
static int rename_files(struct profilestore *s, const char *new_path, const char *to, struct err *err)
{
	int r = db_files_move(s->path, to, true, err);

	if (r == 0 && rename(new_path, s->path) != 0)
		r = err_os(err, errno, "cannot rename %s", new_path);
	/* Before a profile is acknowledged in the new file, a power cut must not bring back the old one. */
	if (r == 0)
		r = dir_sync(s->dir, err);
	if (r < 0)
		put_back(s, to);
	return r;
}

int store_replace(struct profilestore *s, const char *new_path, const char *aside, struct err *err)
{
	AUTO(mem_freep) char *spare = mem_printf("%s" STORE_OLD, s->path);
	const char *to = aside ? aside : spare;
	struct db *db = NULL;
	int r;

	db_files_remove(spare);
	pthread_rwlock_wrlock(&s->files.lock);
	r = rename_files(s, new_path, to, err);
	if (r == 0) {
		r = connect_here(s, &store_db_options, &db, err);
		if (r < 0)
			put_back(s, to);
	}
	if (r == 0) {
		uint32_t number = atomic_load(&s->files.number) + 1;

		close_idle_readers(s);
		db_abandon(s->db);
		db_close(s->db);
		s->db = db;
		db_set_number(db, number);
		atomic_store(&s->files.number, number);
	}
	pthread_rwlock_unlock(&s->files.lock);
	if (r == 0)
		db_files_remove(spare);
	return r;
}
