/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The check of all pages in the background, so that damage is found before a query meets it.
 *
 * Pages are read from the file while a checkpoint may be writing them: the writer's thread looks at a page that differs
 * once more.
 */
#include "base/background.h"
#include "profilestore/internal.h"

#define STEP_PAGES 64u

static int check_all(struct profilestore *s, struct db *db, bool (*rest)(void *arg), void *arg,
		     struct err *err)
{
	uint64_t n_mended = damage_n_mended(s), bad;
	struct db_pages x;

	if (db_pages(db, &x, err) < 0)
		return -1;
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
