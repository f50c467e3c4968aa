/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Damage of the database while the store is open, and before it is opened: each page once. An answer is that of the
 * profiles that are left, or an error; new profiles are stored. LODE_FLIPS=FROM for all pages from there on, LODE_SEED=N for
 * other bytes of them.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "db/internal.h"
#include "profilestore/remake.h"
#include "stored.h"

#define PROFILES     400
#define PAGE         8192
#define LISTED       1000u
#define ROWS_OF_PAGE 250 /* at most: profiles are short here */

static char last_notice[1024];
static int n_notices;

static void note(void *arg, enum log_level level, const char *text)
{
	n_notices++;
	snprintf(last_notice, sizeof(last_notice), "%s", text);
	if (getenv("LODE_TALK"))
		print_message("%s\n", text);
}

static char *text_of(struct stored *t, uint64_t *ret_n, uint64_t *ret_lost)
{
	struct profilestore_merged m = stored_merge(t, CPU, 0, INT64_MAX);
	char *text = stored_text(m.profile, 0);

	*ret_n = m.n_profiles;
	*ret_lost = m.n_damaged;
	profile_free(m.profile);
	return text;
}

static void fill_store(struct stored *t)
{
	t->o.notice = note;
	stored_open(t);
	for (int i = 0; i < PROFILES; i++) {
		AUTO(profile_freep) struct profile *p = stored_profile((uint64_t)i % 7, NOW_MS - i * MINUTE);
		char service[16];

		snprintf(service, sizeof(service), "s%d", i % 3);
		stored_add(t, p, service);
	}
	stored_groom(t);
	stored_again(t);
	stored_groom(t);
	profilestore_close(t->s);
	t->s = NULL;
}

static void put_back(struct stored *t, const struct buf *whole)
{
	AUTO(mem_freep) char *command = mem_printf("rm -rf %s/profiles.db*", t->dir);
	AUTO(mem_freep) char *path = mem_printf("%s/profiles.db", t->dir);

	assert_int_equal(system(command), 0);
	test_file_write(path, whole->p, whole->size);
}

/* Ways in which a page of the open database's file is damaged. */
enum damage_kind { ONE_BIT, ONE_BYTE, SOME_BYTES, ZEROS, N_KINDS };

static void damage_page(const struct stored *t, const struct buf *whole, size_t at, enum damage_kind kind)
{
	AUTO(mem_freep) char *path = mem_printf("%s/profiles.db", t->dir);
	AUTO(fd_close) int fd = open(path, O_WRONLY | O_CLOEXEC);
	uint8_t bytes[PAGE];
	struct err err = { 0 };
	size_t n = 1;

	assert_true(fd >= 0);
	memcpy(bytes, whole->p + at, 1);
	bytes[0] ^= kind == ONE_BIT ? 0x10 : 0x5a;
	if (kind == SOME_BYTES) {
		n = MIN(PAGE - at % PAGE, (size_t)40);
		test_fill(bytes, n, (uint32_t)at);
	} else if (kind == ZEROS) {
		at -= at % PAGE;
		n = PAGE;
		memset(bytes, 0, n);
	}
	assert_done(fd_pwrite(fd, bytes, n, at, &err));
}

struct tally {
	int n_same, n_less, n_later, n_refused, n_remade;
	uint64_t n_lost;
};

static void groom_all(struct stored *t)
{
	struct err err = { 0 };
	bool more = true;

	for (int i = 0; i < 200 && more; i++)
		assert_done(profilestore_groom(t->s, &more, &err));
	assert_false(more);
}

/* All profiles are there, once: by rollups, and one by one. @unknown: lost ones are of series that are lost, too. */
static void check_answers(struct stored *t, uint64_t n, uint64_t n_lost, bool unknown)
{
	struct profilestore_range r = stored_range(CPU, 0, INT64_MAX);
	struct profilestore_entries *list;
	struct profilestore_merged m = stored_merge(t, CPU, 0, INT64_MAX);
	struct err err = { 0 };

	/* The store counts lost profiles since it was opened; those of other types are not of the range. */
	assert_in_range(m.n_profiles, n - n_lost, n);
	/* Those of lost series count in every answer. */
	assert_true(!m.n_damaged || m.n_profiles + m.n_damaged == n ||
		    (unknown && m.n_profiles + m.n_damaged > n));
	assert_done(profilestore_profiles(t->s, &r, LISTED, &list, &err));
	assert_int_equal(list->n, MIN(m.n_profiles, (uint64_t)LISTED));
	free(list);
	profile_free(m.profile);
	stored_range_done(&r);
}

/* With one page of the file damaged. */
static void live_on(struct stored *t, const struct buf *whole, size_t at, enum damage_kind kind,
		    const char *right, uint64_t n_right, uint64_t n_with, struct tally *tally)
{
	AUTO(profile_freep) struct profile *p = stored_profile(3, NOW_MS + MINUTE);
	struct profilestore_range r = stored_range(CPU, 0, INT64_MAX);
	struct profilestore_receipt receipt;
	struct profilestore_merged m;
	struct profilestore_stats st;
	struct profilestore_label label = { STR("service"), STR("s1") };
	struct err err = { 0 };

	put_back(t, whole);
	stored_open_there(t);
	if (at % 3 == 0)
		t->s->remake_at_once = 0;
	damage_page(t, whole, at, kind);
	n_notices = 0;
	if (profilestore_merge(t->s, &r, NULL, NULL, &m, &err) < 0) {
		/* It is made anew in steps of grooming. */
		assert_int_equal(err.kind, ERR_IO);
		assert_non_null(strstr(err.text, "in the background"));
		assert_int_equal(t->s->remake_at_once, 0);
		tally->n_later++;
	} else {
		AUTO(mem_freep) char *text = stored_text(m.profile, 0);

		if (strcmp(text, right) == 0 && m.n_profiles == n_right)
			tally->n_same++;
		else if (m.n_damaged && m.n_profiles == n_right - m.n_damaged)
			tally->n_less++;
		else
			fail_msg("page %zu: a wrong answer: %llu profiles, %llu damaged", at / PAGE + 1,
				 (unsigned long long)m.n_profiles, (unsigned long long)m.n_damaged);
		assert_true(m.n_damaged == 0 || n_notices > 0);
		profile_free(m.profile);
	}
	if (profilestore_add_wait(t->s, p, &label, 1, &receipt, &err) < 0) {
		if (t->s->remake_at_once)
			fail_msg("page %zu: %s", at / PAGE + 1, err.text);
		tally->n_refused++;
		groom_all(t);
		assert_done(profilestore_add_wait(t->s, p, &label, 1, &receipt, &err));
	}
	groom_all(t);
	/* The background check finds what nobody has met. */
	assert_done(profilestore_check(t->s, NULL, NULL, &err));
	groom_all(t);
	assert_true(n_notices > 0);
	profilestore_stats(t->s, &st);
	assert_int_equal(st.n_unmended, 0);
	assert_true(st.n_mended > 0);
	tally->n_remade += t->s->n_remakes != 0;
	tally->n_lost += st.n_lost;
	/* One bit, or byte, of damage costs nothing; and a page not more than its rows. */
	if (kind == ONE_BIT || kind == ONE_BYTE)
		assert_int_equal(st.n_lost, 0);
	assert_in_range(st.n_lost, 0, ROWS_OF_PAGE);
	check_answers(t, n_with, st.n_lost, false);
	stored_range_done(&r);
	/* After a start all answers are right. */
	stored_again(t);
	check_answers(t, n_with, st.n_lost, false);
	profilestore_close(t->s);
	t->s = NULL;
}

/* The profiles after the one that live_on() adds. */
static uint64_t count_with_another(struct stored *t)
{
	AUTO(profile_freep) struct profile *p = stored_profile(3, NOW_MS + MINUTE);
	struct profilestore_merged m;

	stored_add(t, p, "s1");
	m = stored_merge(t, CPU, 0, INT64_MAX);
	profile_free(m.profile);
	return m.n_profiles;
}

/* The store as it was before the damage, closed. */
struct sound {
	struct stored t;
	struct buf whole; /* its file */
	char *text;
	uint64_t n, n_with; /* profiles; with the one that live_on() adds */
	uint64_t n_stored;  /* of all types */
	size_t n_pages;
	size_t series_pages[8], n_series_pages;
};

/* The pages of the table of series, which are nowhere else while the store is closed. */
static void find_series_pages(struct sound *x, const char *path)
{
	sqlite3_stmt *st = NULL;
	sqlite3 *sq = NULL;

	assert_int_equal(sqlite3_open_v2(path, &sq, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
	assert_int_equal(
		sqlite3_prepare_v2(sq, "SELECT pageno FROM dbstat WHERE name = 'series'", -1, &st, NULL),
		SQLITE_OK);
	while (sqlite3_step(st) == SQLITE_ROW) {
		assert_true(x->n_series_pages < ARRAY_SIZE(x->series_pages));
		x->series_pages[x->n_series_pages++] = (size_t)sqlite3_column_int64(st, 0);
	}
	assert_true(x->n_series_pages > 0);
	sqlite3_finalize(st);
	sqlite3_close(sq);
}

static bool has_series(const struct sound *x, size_t page)
{
	for (size_t i = 0; i < x->n_series_pages; i++)
		if (x->series_pages[i] == page)
			return true;
	return false;
}

static void make_sound(struct sound *x)
{
	AUTO(mem_freep) char *path = NULL;
	struct profilestore_stats st;
	struct err err = { 0 };
	uint64_t n_lost;

	*x = (struct sound){ 0 };
	fill_store(&x->t);
	path = mem_printf("%s/profiles.db", x->t.dir);
	assert_done(file_read(path, MIB(64), &x->whole, &err));
	find_series_pages(x, path);
	stored_open_there(&x->t);
	profilestore_stats(x->t.s, &st);
	x->n_stored = st.n_profiles;
	x->text = text_of(&x->t, &x->n, &n_lost);
	assert_int_equal(n_lost, 0);
	x->n_with = count_with_another(&x->t);
	profilestore_close(x->t.s);
	x->t.s = NULL;
	x->n_pages = x->whole.size / PAGE;
}

static void drop_sound(struct sound *x)
{
	stored_done(&x->t);
	buf_done(&x->whole);
	free(x->text);
}

static uint32_t seed_of(size_t page)
{
	const char *seed = getenv("LODE_SEED");

	return (uint32_t)page + (seed ? (uint32_t)atoi(seed) * 100003 : 0);
}

/* The byte to damage of each page that is tried; @fn checks one. */
static void each_page(struct sound *x, enum damage_kind kind,
		      void (*fn)(struct sound *x, size_t at, enum damage_kind kind, void *arg), void *arg)
{
	const char *all = getenv("LODE_FLIPS");
	size_t step = all ? 1 : MAX(x->n_pages / 5, (size_t)1);

	for (size_t i = all ? (size_t)atoi(all) : kind * step / N_KINDS; i < x->n_pages; i += step) {
		uint64_t random[2];

		test_fill(random, sizeof(random), seed_of(i));
		fn(x, i * PAGE + random[0] % PAGE, kind, arg);
	}
}

static void damage_in_use(struct sound *x, size_t at, enum damage_kind kind, void *arg)
{
	live_on(&x->t, &x->whole, at, kind, x->text, x->n, x->n_with, arg);
}

static void a_page_that_is_damaged_in_use_costs_its_rows_at_most(void **state)
{
	struct sound s;

	make_sound(&s);
	for (int kind = 0; kind < N_KINDS; kind++) {
		struct tally x = { 0 };

		each_page(&s, (enum damage_kind)kind, damage_in_use, &x);
		print_message("damage %d in %zu pages: %d same, %d with less, %d later, %d refused, %d "
			      "remade; %llu lost\n",
			      kind, s.n_pages, x.n_same, x.n_less, x.n_later, x.n_refused, x.n_remade,
			      (unsigned long long)x.n_lost);
	}
	drop_sound(&s);
}

static void damage_before_start(struct sound *x, size_t at, enum damage_kind kind, void *arg)
{
	unsigned long long n_kept = 0, n_lost = 0, n_filled = 0;
	struct tally *tally = arg;
	struct stored *t = &x->t;
	uint64_t n, n_damaged;
	char *text;

	put_back(t, &x->whole);
	damage_page(t, &x->whole, at, kind);
	last_notice[0] = '\0';
	stored_open_there(t);
	if (sscanf(last_notice,
		   "repaired: %llu profiles are kept, %llu are lost, %llu names or places in stacks are lost",
		   &n_kept, &n_lost, &n_filled) == 3) {
		if (n_kept + n_lost != x->n_stored)
			fail_msg("page %zu: %llu kept and %llu lost of %llu", at / PAGE + 1, n_kept, n_lost,
				 (unsigned long long)x->n_stored);
		/* Profiles of a series whose name is lost are of no use. */
		if (n_lost > ROWS_OF_PAGE && !has_series(x, at / PAGE + 1))
			fail_msg("page %zu: %llu lost", at / PAGE + 1, n_lost);
		tally->n_remade++;
		tally->n_lost += n_lost;
	}
	text = text_of(t, &n, &n_damaged);
	if (n_lost + n_filled == 0 && (strcmp(text, x->text) != 0 || n != x->n))
		fail_msg("page %zu: a wrong answer: %s", at / PAGE + 1, last_notice);
	free(text);
	groom_all(t);
	check_answers(t, x->n, n_lost, has_series(x, at / PAGE + 1));
	profilestore_close(t->s);
	t->s = NULL;
}

static void a_page_that_is_damaged_at_a_start_costs_its_rows_at_most(void **state)
{
	struct sound s;

	make_sound(&s);
	for (int kind = 0; kind < N_KINDS; kind++) {
		struct tally x = { 0 };

		each_page(&s, (enum damage_kind)kind, damage_before_start, &x);
		print_message("damage %d in %zu pages: %d repaired, %llu lost\n", kind, s.n_pages, x.n_remade,
			      (unsigned long long)x.n_lost);
	}
	drop_sound(&s);
}

/* As without room for a copy: what needs the page fails, until the copy can be made. */
static void damage_that_stays_is_repaired_as_soon_as_it_can_be(void **state)
{
	struct profilestore_range r = stored_range(CPU, 0, INT64_MAX);
	struct profilestore_merged m;
	struct profilestore_stats st;
	struct err err = { 0 };
	struct sound x;

	make_sound(&x);
	put_back(&x.t, &x.whole);
	stored_open_there(&x.t);
	x.t.s->n_remakes = REMAKES_MAX;
	/* All tables: the query meets one. */
	for (size_t i = 1; i < x.n_pages; i++)
		damage_page(&x.t, &x.whole, i * PAGE + 100, SOME_BYTES);
	for (int i = 0; i < 2; i++) {
		assert_fails(profilestore_merge(x.t.s, &r, NULL, NULL, &m, &err), ERR_DAMAGED, "");
		profilestore_stats(x.t.s, &st);
		assert_int_equal(st.n_unmended, 1);
		assert_non_null(strstr(st.unmended_why, "cannot be repaired now"));
	}
	x.t.s->n_remakes = 0;
	assert_done(profilestore_merge(x.t.s, &r, NULL, NULL, &m, &err));
	assert_int_equal(m.n_profiles + m.n_damaged, x.n);
	profile_free(m.profile);
	profilestore_stats(x.t.s, &st);
	assert_int_equal(st.n_unmended, 0);
	stored_range_done(&r);
	drop_sound(&x);
}

/* Its header says which pages have digests, and opening a connection reads it. */
static void a_damaged_header_of_the_file_is_repaired_in_use(void **state)
{
	static const size_t at[] = { 2, 17, 20, 28 };
	struct profilestore_merged m;
	struct profilestore_stats st;
	struct err err = { 0 };
	struct sound x;

	make_sound(&x);
	for (size_t i = 0; i < ARRAY_SIZE(at); i++) {
		put_back(&x.t, &x.whole);
		stored_open_there(&x.t);
		damage_page(&x.t, &x.whole, at[i], i % 2 ? ONE_BIT : SOME_BYTES);
		if (i < 2)
			assert_done(profilestore_check(x.t.s, NULL, NULL, &err));
		m = stored_merge(&x.t, CPU, 0, INT64_MAX);
		assert_int_equal(m.n_profiles, x.n);
		profile_free(m.profile);
		profilestore_stats(x.t.s, &st);
		assert_int_equal(st.n_lost, 0);
		assert_int_equal(st.n_mended, 1);
		profilestore_close(TAKE(x.t.s));
	}
	drop_sound(&x);
}

/* To open a connection, its first page is read, which the WAL has here. */
static void the_first_page_in_a_damaged_frame_is_repaired_in_use(void **state)
{
	AUTO(buf_done) struct buf wal = { 0 };
	AUTO(mem_freep) char *path = NULL;
	struct profilestore_merged m;
	struct stored t = { .o.notice = note };
	struct err err = { 0 };
	size_t at = 32;

	stored_open(&t);
	path = mem_printf("%s/profiles.db-wal", t.dir);
	for (int i = 0; i < 20; i++) {
		AUTO(profile_freep) struct profile *p = stored_profile((uint64_t)i % 7, NOW_MS - i * MINUTE);

		stored_add(&t, p, "a");
	}
	assert_done(file_read(path, MIB(64), &wal, &err));
	for (; at < wal.size; at += PAGE + 24)
		if (memcmp(wal.p + at, "\0\0\0\1", 4) == 0)
			wal.p[at + 24 + 200] ^= 1;
	test_file_write(path, wal.p, wal.size);
	m = stored_merge(&t, CPU, 0, INT64_MAX);
	assert_int_equal(m.n_damaged, 0);
	assert_true(m.n_profiles >= 20);
	profile_free(m.profile);
	stored_done(&t);
}

/* The database as an older version would have made it: without digests of pages. */
static void make_older(const struct stored *t)
{
	static const char *const tables[] = { "segment", "series", "profile", "rollup",
					      "naming",  "sender", "counter" };
	AUTO(mem_freep) char *path = mem_printf("%s/profiles.db", t->dir);
	AUTO(mem_freep) char *older = mem_printf("%s/older.db", t->dir);
	AUTO(mem_freep) char *attach = mem_printf("ATTACH '%s' AS x", path);
	sqlite3 *sq = NULL;

	assert_int_equal(sqlite3_open_v2(older, &sq, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL),
			 SQLITE_OK);
	assert_int_equal(sqlite3_exec(sq, "PRAGMA page_size = 8192; PRAGMA auto_vacuum = INCREMENTAL", NULL,
				      NULL, NULL),
			 SQLITE_OK);
	for (unsigned i = 0; i < profilestore_n_migrations; i++)
		assert_int_equal(sqlite3_exec(sq, profilestore_migrations[i].sql, NULL, NULL, NULL),
				 SQLITE_OK);
	assert_int_equal(sqlite3_exec(sq, attach, NULL, NULL, NULL), SQLITE_OK);
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
		AUTO(mem_freep)
		char *copy = mem_printf("DELETE FROM main.%s; INSERT INTO main.%s SELECT * FROM x.%s",
					tables[i], tables[i], tables[i]);

		assert_int_equal(sqlite3_exec(sq, copy, NULL, NULL, NULL), SQLITE_OK);
	}
	assert_int_equal(sqlite3_exec(sq,
				      "DETACH x; PRAGMA application_id = 1819239525; PRAGMA user_version = 3;"
				      "PRAGMA journal_mode = WAL",
				      NULL, NULL, NULL),
			 SQLITE_OK);
	sqlite3_close(sq);
	assert_int_equal(rename(older, path), 0);
}

static void a_database_without_digests_gets_them_in_the_background(void **state)
{
	struct stored t = { 0 };
	AUTO(mem_freep) char *right = NULL, *text = NULL;
	uint64_t n_right, n, n_lost;
	struct err err = { 0 };
	struct db_pages x;

	t.o.notice = note;
	stored_open(&t);
	for (int i = 0; i < 20; i++) {
		AUTO(profile_freep) struct profile *p = stored_profile((uint64_t)i % 7, NOW_MS - i * MINUTE);

		stored_add(&t, p, "a");
	}
	right = text_of(&t, &n_right, &n_lost);
	profilestore_close(t.s);
	make_older(&t);
	stored_open_there(&t);
	assert_done(db_pages(t.s->db, &x, &err));
	assert_false(x.has_digests);
	/* A row that does not fit its digest is set aside before. */
	assert_done(db_exec(t.s->db, "UPDATE profile SET digest = digest + 1 WHERE id = 3", &err));
	assert_done(db_wal_truncate(t.s->db, 1000, &err));
	/* In steps, as a large one. */
	t.s->remake_at_once = 0;
	assert_done(profilestore_check(t.s, NULL, NULL, &err));
	groom_all(&t);
	assert_done(db_wal_truncate(t.s->db, 1000, &err));
	assert_done(db_pages(t.s->db, &x, &err));
	assert_true(x.has_digests);
	{
		struct profilestore_stats st;

		profilestore_stats(t.s, &st);
		assert_int_equal(st.n_lost, 1);
	}
	text = text_of(&t, &n, &n_lost);
	assert_true(n == n_right || n == n_right - 1);
	stored_again(&t);
	assert_done(profilestore_check(t.s, NULL, NULL, &err));
	stored_done(&t);
}

/* ---- segments ---- */

/* A profile with one stack of one function, whose name has @size bytes. */
static void add_named(struct stored *t, unsigned number, size_t size)
{
	AUTO(profile_freep) struct profile *p = profile_new(NULL);
	AUTO(mem_freep) char *name = mem_printf("%0*u", (int)size, number);
	struct profile_line line = { 0 };
	uint32_t location;

	profile_add_type(p, STR("cpu"), STR("nanoseconds"));
	line.function = profile_add_function(
		p, &(struct profile_function){ .name = profile_add_string(p, str_of(name)) });
	location = profile_add_location(
		p, &(struct profile_location){ .mapping = PROFILE_NONE, .n_lines = 1 }, &line, 1);
	profile_append_sample(p, profile_add_stack(p, 0, location), 0, &(int64_t){ 1 });
	p->time_ns = (NOW_MS - number) * 1000000;
	stored_add(t, p, "web");
}

static int remake_after_a_reader(struct profilestore *s, struct job *j, struct err *err)
{
	size_t n = 0;

	for (int ms = 0; !n && ms < 10000; ms++) {
		usleep(1000);
		pthread_mutex_lock(&s->readers_lock);
		n = s->n_readers;
		pthread_mutex_unlock(&s->readers_lock);
	}
	assert_int_equal(n, 1);
	assert_true(remake_ask(s, NULL, err));
	return 0;
}

static void ignore_done(struct profilestore *s, struct job *j, const struct err *err)
{
	assert_null(err);
}

/* Rows of the new file begin with other entries: those to be joined were found in the old one. */
static void a_repair_while_segments_are_joined_leaves_them_whole(void **state)
{
	struct job j = {
		.apply = remake_after_a_reader, .done = ignore_done, .alone = true, .outside = true
	};
	struct stored t = { .o.notice = note };
	struct profilestore_stats st;
	struct err err = { 0 };
	bool more;

	stored_open(&t);
	/* One after the other they fill a segment in the new file, but not with the first one in the old. */
	add_named(&t, 1, MIB(1) - 1000);
	for (unsigned i = 2; i < 90; i++)
		add_named(&t, i, KIB(16));
	while (t.s->n_readers)
		store_disconnect(t.s, t.s->readers[--t.s->n_readers]);
	/* The connection of the reader that looks for segments is idle after it: only then the file is replaced. */
	profilestore_writer_submit(t.s, &j);
	assert_done(segments_groom(t.s, &more, &err));
	assert_true(more);
	stored_again(&t);
	profilestore_stats(t.s, &st);
	assert_int_equal(st.n_set_aside, 0);
	assert_int_equal(st.n_profiles, 89);
	stored_groom(&t);
	stored_again(&t);
	profilestore_stats(t.s, &st);
	assert_int_equal(st.n_set_aside, 0);
	stored_done(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_page_that_is_damaged_in_use_costs_its_rows_at_most),
		cmocka_unit_test(a_page_that_is_damaged_at_a_start_costs_its_rows_at_most),
		cmocka_unit_test(damage_that_stays_is_repaired_as_soon_as_it_can_be),
		cmocka_unit_test(a_damaged_header_of_the_file_is_repaired_in_use),
		cmocka_unit_test(the_first_page_in_a_damaged_frame_is_repaired_in_use),
		cmocka_unit_test(a_database_without_digests_gets_them_in_the_background),
		cmocka_unit_test(a_repair_while_segments_are_joined_leaves_them_whole),
	};

	test_dirs_in_memory();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
