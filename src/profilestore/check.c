/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The check of all pages in the background, so that damage is found before a query meets it.
 *
 * Pages are read from the file while a checkpoint may be writing them: the writer's thread looks at a page that differs
 * once more.
 */
#include "base/background.h"
#include "profilestore/internal.h"
#include "profilestore/remake.h"

#define STEP_PAGES 64u

/*
 * A database of an older version has no digests of pages: it is made anew with them, after its rows were compared with
 * their own.
 */
static int add_digests(struct profilestore *s, struct job *j, struct err *err)
{
	struct err why = { 0 };

	(void)j;
	if (remake_ask(s, NULL, &why) || why.kind == ERR_NONE)
		return 0;
	if (err)
		*err = why;
	return -1;
}

static const char *const row_sql[] = {
	"SELECT id, series, time_ms, duration_ms, digest, data FROM profile WHERE id > ? ORDER BY id LIMIT "
	"256",
	"SELECT id, series, start_ms, duration_ms, digest, data FROM rollup WHERE id > ? ORDER BY id LIMIT "
	"256",
};

/* The next rows after *@id; *@id 0: no more. */
static int check_rows(struct profilestore *s, struct db *db, bool rollups, int64_t *id, struct err *err)
{
	struct db_stmt *st;
	int64_t last = 0;
	int r;

	if (db_prepare(db, row_sql[rollups], &st, err) < 0)
		return -1;
	db_bind_i64(st, 1, *id);
	while ((r = db_step(st, err)) == DB_ROW) {
		last = db_i64(st, 0);
		if ((uint64_t)db_i64(st, 4) !=
		    samples_digest((uint32_t)db_i64(st, 1), db_i64(st, 2), db_i64(st, 3), db_bytes(st, 5)))
			(rollups ? damage_note_rollup : damage_note_profile)(s, last);
	}
	*id = last;
	return r;
}

static int check_all_rows(struct profilestore *s, struct db *db, bool (*rest)(void *arg), void *arg,
			  struct err *err)
{
	for (int rollups = 0; rollups < 2; rollups++)
		for (int64_t id = 0;;) {
			uint64_t n_mended = damage_n_mended(s);

			if (check_rows(s, db, rollups, &id, err) < 0)
				return -1;
			damage_mend(s, n_mended);
			if (!id || store_is_replaced(s, db))
				break;
			if (rest && rest(arg))
				return err_set(err, ERR_CANCELLED, "the store is closed");
		}
	return 0;
}

static int check_older(struct profilestore *s, struct db *db, bool (*rest)(void *arg), void *arg,
		       struct err *err)
{
	struct job j = { .apply = add_digests, .alone = true, .outside = true };

	if (check_all_rows(s, db, rest, arg, err) < 0)
		return -1;
	return profilestore_writer_run(s, &j, err) < 0 ? err_in(err, "digests of pages") : 0;
}

static int check_all(struct profilestore *s, struct db *db, bool (*rest)(void *arg), void *arg,
		     struct err *err)
{
	uint64_t n_mended = damage_n_mended(s), bad;
	struct db_pages x;

	if (db_pages(db, &x, err) < 0)
		return -1;
	if (!x.has_digests)
		return x.size ? check_older(s, db, rest, arg, err) : 0;
	for (uint64_t page = 1; page <= x.n; page += STEP_PAGES) {
		uint64_t end = MIN(page + STEP_PAGES, x.n + 1);

		for (uint64_t from = page; from < end; from = bad + 1) {
			if (db_pages_check(db, from, end - from, &bad, err) < 0)
				return -1;
			if (!bad)
				break;
			damage_note_page(s, bad);
			damage_mend(s, n_mended);
			/* The pages of the new file have just been written. */
			if (store_is_replaced(s, db))
				return 0;
		}
		if (rest && rest(arg))
			return err_set(err, ERR_CANCELLED, "the store is closed");
	}
	return 0;
}

int profilestore_check(struct profilestore *s, bool (*rest)(void *arg), void *arg, struct err *err)
{
	const struct db_options o = { .read_only = true };
	struct err why = { 0 };
	struct db *db;
	int r = store_connect(s, &o, &db, &why);

	/* To open it, its first page is read. */
	if (r < 0 && why.kind == ERR_DAMAGED) {
		uint64_t n_mended = damage_n_mended(s);

		damage_note_page(s, 1);
		if (damage_mend(s, n_mended))
			r = store_connect(s, &o, &db, &why);
	}
	if (r < 0) {
		if (err)
			*err = why;
		return -1;
	}
	r = check_all(s, db, rest, arg, err);
	store_disconnect(s, db);
	return r;
}

static bool check_rests(void *arg)
{
	return background_rest(arg);
}

static int check_pass(struct background *b, void *arg, struct err *err)
{
	return profilestore_check(arg, check_rests, b, err);
}

void profilestore_check_start(struct profilestore *s)
{
	s->check = background_start("lode-check-db", "profiles", check_pass, s);
}
