/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A copy of a store that a service may be using, for a backup: the database (db_copy()) and the notes beside it.
 *
 * The copy is made in a folder beside the final one, which it replaces as a whole at the end: a WAL that was left in that one
 * would be read as if it belonged to the new database. The store is opened for nothing but reading: the lock of the data folder
 * stays free, a migration is not applied, and damage is reported, not repaired.
 */
#include "profilestore/copy.h"

#include <errno.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include "base/file.h"
#include "base/folder.h"
#include "db/db.h"
#include "profilestore/salvage.h"

#define NOTE_MAX KIB(4)

struct store_copying {
	const struct profilestore_copy_options *o;
	uint64_t max_wal;
};

static int note_copy(const char *from_dir, const char *to_dir, const char *name, struct err *err)
{
	AUTO(mem_freep) char *from = mem_printf("%s/%s", from_dir, name);
	AUTO(mem_freep) char *to = mem_printf("%s/%s", to_dir, name);
	AUTO(buf_done) struct buf text = { 0 };
	struct stat st;
	int r = file_read(from, NOTE_MAX, &text, err);

	if (r)
		return r < 0 ? -1 : 0;
	/* It is gone since. */
	if (stat(from, &st) < 0)
		st.st_mode = 0600;
	return file_write_durable(to, text.p, text.size, st.st_mode & 0666, err);
}

static int step_done(void *arg, const struct db_copy_state *s, struct err *err)
{
	const struct store_copying *c = arg;
	const struct profilestore_copy_options *o = c->o;

	if (o->progress && o->progress(o->arg, s->n_done * s->page_size, s->n_pages * s->page_size))
		return err_set(err, ERR_CANCELLED, "stopped");
	if (s->wal_growth <= c->max_wal)
		return 0;
	return err_set(
		err, ERR_LIMIT,
		"%s/profiles.db-wal has grown by %llu MiB during the copy, which keeps the service from "
		"cutting it off; its disk must not become full: make room there, or copy to a faster "
		"disk",
		o->dir, (unsigned long long)(s->wal_growth >> 20));
}

/*
 * How far the WAL may grow: half of the room on the disk of the store. A copy on the same disk takes its own part of that first.
 * Without room for it, it would fill the disk of the service until it fails.
 */
static int find_max_wal(const struct profilestore_copy_options *o, const char *db, const char *to,
			uint64_t *ret, struct err *err)
{
	uint64_t room = UINT64_MAX, taken = 0;
	struct stat from, copy;
	struct statvfs fs;

	if (stat(db, &from) == 0 && stat(to, &copy) == 0 && from.st_dev == copy.st_dev)
		taken = (uint64_t)from.st_size;
	if (statvfs(o->dir, &fs) == 0)
		room = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (taken > room)
		return err_set(err, ERR_LIMIT,
			       "%s: the copy needs %llu MiB, and this disk, which the service uses, too, has "
			       "%llu MiB left: make room, or copy to another disk",
			       to, (unsigned long long)(taken >> 20), (unsigned long long)(room >> 20));
	*ret = o->max_wal ? o->max_wal : (room - taken) / 2;
	return 0;
}

static int copy_store_files(const struct profilestore_copy_options *o, const char *db, const char *to,
			    uint64_t *ret_size, struct err *err)
{
	/* Notes that are older than the database confirm its profiles; newer ones would, too. */
	static const char *const notes[] = { "begun", "clock", "clock-doubted" };
	AUTO(mem_freep) char *copy = salvage_db_path(to);
	struct store_copying c = { o };
	struct db_pages pages;

	if (find_max_wal(o, db, to, &c.max_wal, err) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(notes); i++)
		if (note_copy(o->dir, to, notes[i], err) < 0)
			return -1;
	if (db_copy(db, copy, &(struct db_copy_options){ step_done, &c }, &pages, err) < 0)
		return -1;
	*ret_size = pages.n * pages.size;
	return 0;
}

/* 0; PROFILESTORE_NONE; a failure: there was a database, and it is gone. */
static int look_for_store(const char *dir, const char *db, mode_t *ret_mode, struct err *err)
{
	AUTO(mem_freep) char *mark = mem_printf("%s/begun", dir);
	struct stat st;

	if (stat(db, &st) < 0) {
		if (errno != ENOENT)
			return err_os(err, errno, "%s", db);
		if (access(mark, F_OK) < 0)
			return PROFILESTORE_NONE;
		return err_set(err, ERR_DAMAGED, "%s is missing, but had profiles", db);
	}
	if (stat(dir, &st) < 0)
		return err_os(err, errno, "%s", dir);
	*ret_mode = st.st_mode & 0777;
	return 0;
}

/* The former folder is removed: it must be a copy of profiles. */
static int check_former(const char *to, struct err *err)
{
	AUTO(mem_freep) char *db = salvage_db_path(to);
	struct stat st;

	if (lstat(to, &st) < 0)
		return errno == ENOENT ? 0 : err_os(err, errno, "%s", to);
	if (S_ISDIR(st.st_mode) && (access(db, F_OK) == 0 || folder_is_empty(to)))
		return 0;
	return err_set(err, ERR_INVALID,
		       "%s would be replaced, but is not a folder with a copy of profiles: move it away, or "
		       "choose another destination",
		       to);
}

/* The number of the next profile, which decreases only in a repair that loses the latest ones; 0: not known. */
static int64_t next_number(const char *path)
{
	struct db *db = NULL;
	int64_t n = 0;

	/* For writing, although nothing is written: so closing it removes the files that it has made beside. */
	if (access(path, F_OK) == 0 && db_open(path, &(struct db_options){ 0 }, &db, NULL) == 0)
		(void)db_get_i64(db, "SELECT next_profile FROM counter WHERE id = 1", &n, NULL);
	db_close(db);
	return n;
}

/*
 * The former copy may be all that is left of its profiles, after a loss of which nobody knows yet. It is opened by a name in the
 * folder of the new copy: a kill leaves the files that SQLite makes beside there.
 */
static int check_is_later(const char *to, const char *new, struct err *err)
{
	AUTO(mem_freep) char *former_path = salvage_db_path(to);
	AUTO(mem_freep) char *new_path = salvage_db_path(new);
	AUTO(mem_freep) char *link_path = mem_printf("%s/former.db", new);
	bool linked = link(former_path, link_path) == 0;
	int64_t former = next_number(linked ? link_path : former_path), now = next_number(new_path);

	if (linked)
		unlink(link_path);
	return former <= now
		       ? 0
		       : err_set(err, ERR_INVALID,
				 "%s has profiles up to number %lld, but the service's database ends at "
				 "%lld: it was made anew, repaired or restored, or is of another service; "
				 "move the copy away, or choose another destination",
				 to, (long long)former - 1, (long long)MAX(now - 1, INT64_C(0)));
}

int profilestore_copy(const struct profilestore_copy_options *o, uint64_t *ret_size, struct err *err)
{
	AUTO(mem_freep) char *db = salvage_db_path(o->dir);
	AUTO(folder_temp_done) struct folder_temp t = { 0 };
	mode_t mode;
	int r = look_for_store(o->dir, db, &mode, err);

	if (r)
		return r;
	if (check_former(o->to, err) < 0 || folder_temp_make(o->to, mode | 0700, &t, err) < 0 ||
	    copy_store_files(o, db, t.path, ret_size, err) < 0 || check_is_later(o->to, t.path, err) < 0)
		return -1;
	return folder_temp_commit(&t, err);
}
