/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Repair of a damaged database: all rows whose digests are right are copied into a new one, and the damaged one is
 * set aside with the reason. salvage_internal.h lists the files of the repair.
 */
#include "profilestore/salvage_internal.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_REASON 400

void salvage_note_reason(const char *aside, const char *reason)
{
	AUTO(mem_freep) char *path = mem_printf("%s.txt", aside);
	AUTO(mem_freep) char *text = mem_printf("%s\n", reason);

	/* Without it the file is still listed. */
	(void)file_write_durable(path, text, strlen(text), 0640, NULL);
}

char *salvage_db_path(const char *dir)
{
	return mem_printf("%s/profiles.db", dir);
}

char *salvage_aside_name(const char *dir, int64_t now_ms)
{
	for (int64_t t = now_ms / 1000;; t++) {
		AUTO(mem_freep) char *db = salvage_db_path(dir);
		char *path = mem_printf("%s" SALVAGE_ASIDE "%lld", db, (long long)t);

		if (access(path, F_OK) != 0)
			return path;
		free(path);
	}
}

int salvage_set_aside(const char *dir, int64_t now_ms, const char *reason, struct err *err)
{
	AUTO(mem_freep) char *path = salvage_db_path(dir);
	AUTO(mem_freep) char *aside = salvage_aside_name(dir, now_ms);

	if (db_files_move(path, aside, false, err) < 0)
		return -1;
	salvage_note_reason(aside, reason);
	return dir_sync(dir, err);
}

static bool has_schema(struct db *db)
{
	struct db_stmt *st;

	return db_prepare(db,
			  "SELECT profile.data, series.key, segment.data, counter.n_profiles FROM profile, "
			  "series, segment, counter",
			  &st, NULL) == 0;
}

/* false: the header is damaged, and so pages would be read without their digests, or in another size. */
static bool knows_digests(struct db *db)
{
	struct db_pages known, guess;

	db_pages_known(db, &known);
	db_pages_guess(db, &guess);
	return known.size == guess.size && known.has_digests == guess.has_digests;
}

/* The damaged database; if its first page does not lead to the tables, the rows that other pages have of them. */
static int open_damaged(const char *path, const char *leaves, struct salvage *x, struct err *err)
{
	const struct db_options unchecked = { .unchecked = true };
	struct err why = { 0 };
	struct stat st;

	x->file_size = stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
	if (db_open(path, &unchecked, &x->from, &why) == 0) {
		bool knows = knows_digests(x->from);

		/* A damaged first page has kept the pages with one wrong byte from being corrected. */
		if (knows)
			(void)db_check(x->from, UINT64_MAX, NULL, NULL);
		if (knows && has_schema(x->from))
			return 0;
		/* Closing it would copy the WAL without digests. */
		if (!knows)
			db_abandon(x->from);
		db_close(TAKE(x->from));
	} else if (why.kind == ERR_IO) {
		*err = why;
		return -1;
	}
	/* Rows that cannot be read there are not known to be missing. */
	x->index_damaged = true;
	return salvage_leaves(path, leaves, &x->from, err);
}

/* All of the copy's WAL into its file, synced. */
static int write_copy(struct db *to, struct err *err)
{
	int r = db_wal_truncate(to, 0, err);

	return r == DB_BUSY ? err_set(err, ERR_IO, "the copy is in use by another process") : r;
}

static int make_copy(const char *path, const char *new_path, const struct db_options *o, bool lost_more,
		     struct salvage_result *ret, struct err *err)
{
	AUTO(mem_freep) char *leaves = mem_printf("%s" SALVAGE_LEAVES, path);
	struct salvage x = { .lost_more = lost_more };
	int r = open_damaged(path, leaves, &x, err);

	db_files_remove(new_path);
	if (r == 0)
		r = db_open(new_path, o, &x.to, err);
	if (r == 0)
		r = db_migrate(x.to, profilestore_migrations, profilestore_n_migrations, err);
	if (r == 0)
		r = salvage_copy(&x, ret, err);
	/*
	 * Closing the copy must not be what writes it: on a full disk its rows would stay in a WAL that is not renamed
	 * with it.
	 */
	if (r == 0)
		r = write_copy(x.to, err);
	db_close(x.to);
	db_close(x.from);
	db_files_remove(leaves);
	free(x.stacks);
	return r;
}

int salvage_repair(const char *dir, const struct db_options *o, int64_t now_ms, const char *reason,
		   bool lost_more, struct salvage_result *ret, struct err *err)
{
	AUTO(mem_freep) char *path = salvage_db_path(dir);
	AUTO(mem_freep) char *new_path = mem_printf("%s/profiles.new", dir);
	AUTO(mem_freep) char *aside = salvage_aside_name(dir, now_ms), *text = NULL;

	if (make_copy(path, new_path, o, lost_more, ret, err) < 0) {
		db_files_remove(new_path);
		return err_in(err, "repair of %s", path);
	}
	if (db_files_move(path, aside, true, err) < 0)
		return -1;
	/* Not the whole reason: readers of the file take 511 bytes of it. */
	text = mem_printf("%.300s; %llu profiles were kept, %llu were lost", reason,
			  (unsigned long long)ret->n_profiles, (unsigned long long)ret->n_lost);
	salvage_note_reason(aside, text);
	if (rename(new_path, path) != 0)
		return err_os(err, errno, "cannot rename %s", new_path);
	return dir_sync(dir, err);
}

/* ---- databases that were set aside ---- */

static void read_reason(const char *dir, const char *name, struct salvage_list *ret)
{
	AUTO(mem_freep) char *path = mem_printf("%s/%s", dir, name);
	AUTO(buf_done) struct buf b = { 0 };

	if (file_read(path, MAX_REASON, &b, NULL) < 0)
		return;
	snprintf(ret->reason, sizeof(ret->reason), STR_FMT, STR_ARG(str_trim(buf_str(&b))));
}

void salvage_listed(const char *dir, struct salvage_list *ret)
{
	DIR *d = opendir(dir);
	char latest[NAME_MAX + 1] = "";

	*ret = (struct salvage_list){ 0 };
	for (const struct dirent *e; d && (e = readdir(d));) {
		if (!strstr(e->d_name, SALVAGE_ASIDE) || !str_ends(str_of(e->d_name), STR(".txt")))
			continue;
		ret->n++;
		if (strcmp(e->d_name, latest) > 0)
			snprintf(latest, sizeof(latest), "%s", e->d_name);
	}
	if (d)
		closedir(d);
	if (*latest)
		read_reason(dir, latest, ret);
}
