/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The check of all pages in the background, so that damage is found before a query meets it.
 *
 * Pages are read from the file while a checkpoint may be writing them: the writer's thread looks at a page that differs
 * once more.
 */
#include "base/background.h"
#include "profilestore/internal.h"

#define STEP_PAGES  64u
#define CONVERT_MAX MIB(64)

/*
 * A database of an older version has no digests of pages. A small one gets them at once, while intake waits for some
 * tenths of a second; of a larger one, its rows are compared with their own digests.
 */
static int add_digests(struct profilestore *s, struct job *j, struct err *err)
{
	(void)j;
	return db_add_digests(s->db, err);
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
			if (!id)
				break;
			if (rest && rest(arg))
				return err_set(err, ERR_CANCELLED, "the store is closed");
		}
	return 0;
}

static int check_older(struct profilestore *s, struct db *db, const struct db_pages *x,
		       bool (*rest)(void *arg), void *arg, struct err *err)
{
	struct job j = { .apply = add_digests, .alone = true, .outside = true };

	if (check_all_rows(s, db, rest, arg, err) < 0)
		return -1;
	if (!x->size || x->n * x->size > CONVERT_MAX)
		return 0;
	if (profilestore_writer_run(s, &j, err) < 0)
		return err_in(err, "digests of pages");
	store_notice(s, LOG_INFO, "the pages of the database have digests now");
	return 0;
}

static int check_all(struct profilestore *s, struct db *db, bool (*rest)(void *arg), void *arg,
		     struct err *err)
{
	uint64_t n_mended = damage_n_mended(s), bad;
	struct db_pages x;

	if (db_pages(db, &x, err) < 0)
		return -1;
	if (!x.has_digests)
		return check_older(s, db, &x, rest, arg, err);
	for (uint64_t page = 1; page <= x.n; page += STEP_PAGES) {
		uint64_t end = MIN(page + STEP_PAGES, x.n + 1);

		for (uint64_t from = page; from < end; from = bad + 1) {
			if (db_pages_check(db, from, end - from, &bad, err) < 0)
				return -1;
			if (!bad)
				break;
			damage_note_page(s, bad);
			damage_mend(s, n_mended);
		}
		if (rest && rest(arg))
			return err_set(err, ERR_CANCELLED, "the store is closed");
	}
	return 0;
}

int profilestore_check(struct profilestore *s, bool (*rest)(void *arg), void *arg, struct err *err)
{
	struct db *db;
	int r;

	if (db_open(s->path, &(struct db_options){ .read_only = true }, &db, err) < 0)
		return -1;
	r = check_all(s, db, rest, arg, err);
	db_close(db);
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
