/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests during a scan: their package is scanned first, and each waiter is woken once, whatever the
 * outcome.
 */
#include "db/db.h"
#include "fixture.h"
#include "scan/job.h"

#define ANY_KIND UINT32_MAX

struct waker {
	pthread_mutex_t lock;
	pthread_cond_t woken;
	unsigned n;
};

static void wake(void *arg)
{
	struct waker *w = arg;

	pthread_mutex_lock(&w->lock);
	w->n++;
	pthread_cond_broadcast(&w->woken);
	pthread_mutex_unlock(&w->lock);
}

static void wait_for(struct waker *w, unsigned n)
{
	struct timespec end;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += LONG_MS / 1000;
	pthread_mutex_lock(&w->lock);
	while (w->n < n)
		assert_int_equal(pthread_cond_timedwait(&w->woken, &w->lock, &end), 0);
	pthread_mutex_unlock(&w->lock);
}

#define WAKER                                                          \
	{                                                              \
		PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0 \
	}

static void a_requested_package_is_scanned_and_each_waiter_woken_once(void **state)
{
	struct scan_fixture *h = *state;
	struct waker has = WAKER, has_not = WAKER, gone = WAKER, later = WAKER;
	struct build_id id = sample_id(&h->s, 1), other = { .size = 20 };
	struct err err = { 0 };
	struct index_file f;
	int64_t from_ms;

	h->opts.header_only = true;
	fixture_put_package(h, "a.deb", SAMPLE_DEB, CODEC_XZ);
	fixture_run(h);
	f = fixture_row_of(h, "a.deb");
	assert_int_equal(f.state, INDEX_HEADER);
	assert_int_equal(fixture_n_hits(h, &id), 1);
	{
		struct scan_partial p;

		assert_int_equal(
			scan_partial(h->scan, &(struct scan_wanted){ f.id, &id, ANY_KIND }, &p, &err),
			SCAN_NOT_YET);
	}
	from_ms = clock_mono_ms();
	for (unsigned i = 0; i < 20; i++) {
		assert_int_equal(scan_want(h->scan, &(struct scan_wanted){ f.id, &id, ANY_KIND }, wake, &has),
				 0);
		assert_int_equal(
			scan_want(h->scan, &(struct scan_wanted){ f.id, &other, ANY_KIND }, wake, &has_not),
			0);
		assert_int_equal(
			scan_want(h->scan, &(struct scan_wanted){ 424242, &id, ANY_KIND }, wake, &gone), 0);
	}
	wait_for(&has, 20);
	wait_for(&has_not, 20);
	wait_for(&gone, 20);
	/* No thread slept meanwhile. */
	assert_true(clock_mono_ms() - from_ms < 4000);
	fixture_settle(h);
	assert_int_equal(fixture_row_of(h, "a.deb").state, INDEX_SCANNED);
	f = fixture_row_of(h, "a.deb");
	/* The pass is done: nothing is left to do, and nothing is done again. */
	assert_int_equal(scan_want(h->scan, &(struct scan_wanted){ f.id, &id, ANY_KIND }, wake, &later), 0);
	wait_for(&later, 1);
	fixture_settle(h);
	assert_int_equal(fixture_row_of(h, "a.deb").scanned_s, f.scanned_s);
	{
		struct scan_progress p;

		scan_progress(h->scan, &p);
		assert_int_equal(p.n_packages_deep, 1);
	}
	fixture_stop(h);
	assert_int_equal(has.n, 20);
	assert_int_equal(has_not.n, 20);
	assert_int_equal(gone.n, 20);
	assert_int_equal(later.n, 1);
}

/* A waiter is woken in the middle of a pass: the file can be read from the snapshot or from the index. */
static void a_waiter_is_woken_when_its_file_can_be_read(void **state)
{
	struct scan_fixture *h = *state;
	struct build_id id = sample_id(&h->s, 1);
	struct err err = { 0 };

	h->opts.header_only = true;
	for (unsigned i = 0; i < 8; i++)
		fixture_put_package(h, arena_printf(&h->a, "%u.tar.gz", i), SAMPLE_TAR, CODEC_GZIP);
	fixture_run(h);
	for (unsigned i = 0; i < 8; i++) {
		struct index_file f = fixture_row_of(h, arena_printf(&h->a, "%u.tar.gz", i));
		struct scan_partial p = { 0 };
		struct waker w = WAKER;
		int r;

		assert_int_equal(scan_want(h->scan, &(struct scan_wanted){ f.id, &id, ANY_KIND }, wake, &w),
				 0);
		wait_for(&w, 1);
		r = scan_partial(h->scan, &(struct scan_wanted){ f.id, &id, ANY_KIND }, &p, &err);
		assert_true(r >= 0);
		if (r == 0) {
			const struct pkg_entry *e = pkg_map_by_number(p.map, p.number);
			struct codec_source_options opts = { .points = buf_bytes(&p.points) };
			AUTO(source_closep) struct source *member = NULL;
			struct source *src;
			AUTO(mem_freep) uint8_t *got = mem_alloc(h->s.files[1].content.size);

			assert_non_null(e);
			assert_int_equal(source_open_file(arena_strdup(&h->a, f.path), &src, &err), 0);
			assert_done(pkg_entry_open(p.map, e, src, &opts, &member, &err));
			assert_int_equal(member->size, h->s.files[1].content.size);
			assert_done(source_read_full(member, 0, got, member->size, SOURCE_SEQUENTIAL, &err));
			assert_memory_equal(got, h->s.files[1].content.p, member->size);
			pkg_map_free(p.map);
			buf_done(&p.points);
		} else {
			assert_int_equal(fixture_row_of(h, arena_printf(&h->a, "%u.tar.gz", i)).state,
					 INDEX_SCANNED);
		}
		assert_int_equal(w.n, 1);
	}
}

static void waiters_are_woken_at_the_end(void **state)
{
	struct scan_fixture *h = *state;
	struct waker w = WAKER;
	struct build_id id = { .size = 20 };
	unsigned n = 0;

	h->opts.header_only = true;
	for (unsigned i = 0; i < 20; i++)
		fixture_put_package(h, arena_printf(&h->a, "%u.deb", i), SAMPLE_DEB, CODEC_XZ);
	fixture_run(h);
	for (unsigned i = 0; i < 20; i++) {
		struct index_file f = fixture_row_of(h, arena_printf(&h->a, "%u.deb", i));

		n += scan_want(h->scan, &(struct scan_wanted){ f.id, &id, ANY_KIND }, wake, &w) == 0;
	}
	fixture_stop(h);
	assert_int_equal(n, 20);
	assert_int_equal(w.n, n);
}

/* A build ID that is not in the index may be in a package that is not scanned yet. A package that will never
 * be scanned does not count. */
static void a_scan_is_unfinished_until_all_found_files_are_scanned(void **state)
{
	struct scan_fixture *h = *state;
	struct build_id id = sample_id(&h->s, 1);
	bool unfinished;

	fixture_put_package(h, "a.tar.gz", SAMPLE_TAR, CODEC_GZIP);
	fixture_begin(h);
	do
		unfinished = scan_unfinished(h->scan);
	while (!fixture_n_hits(h, &id) && unfinished);
	assert_int_equal(fixture_n_hits(h, &id), 1);
	fixture_settle(h);
	assert_false(scan_unfinished(h->scan));
	fixture_put_package(h, "b.tar.gz", SAMPLE_TAR, CODEC_GZIP);
	scan_rescan(h->scan);
	fixture_settle(h);
	assert_int_equal(fixture_n_hits(h, &id), 2);
	assert_false(scan_unfinished(h->scan));
	fixture_stop(h);
	h->opts.header_only = true;
	fixture_put_package(h, "c.tar.gz", SAMPLE_TAR, CODEC_GZIP);
	fixture_run(h);
	assert_int_equal(fixture_row_of(h, "c.tar.gz").state, INDEX_HEADER);
	assert_false(scan_unfinished(h->scan));
}

/* As with a full disk: neither its files nor the failure. It is tried again later, and until then not all is read. */
static void a_scan_is_unfinished_while_a_package_cannot_be_stored(void **state)
{
	struct scan_fixture *h = *state;
	struct err err = { 0 };
	struct db *db;

	fixture_put_program(h, "program", PROGRAM_A);
	fixture_run(h);
	assert_false(scan_unfinished(h->scan));
	assert_done(db_open(h->index, &(struct db_options){ 0 }, &db, &err));
	assert_done(db_exec(db, "CREATE UNIQUE INDEX x ON file (size > 0) WHERE state IN (2, 3)", &err));
	fixture_put_package(h, "a.tar.gz", SAMPLE_TAR, CODEC_GZIP);
	scan_rescan(h->scan);
	fixture_settle(h);
	assert_int_equal(fixture_row_of(h, "a.tar.gz").state, INDEX_HEADER);
	assert_true(scan_unfinished(h->scan));
	db_close(db);
}

/* A request that does not know the package is woken when its file is found; one for another file when all is read. */
static void a_sought_file_is_found_in_any_package(void **state)
{
	struct scan_fixture *h = *state;
	struct waker has = WAKER, none = WAKER;
	struct build_id id = sample_id(&h->s, 1), other = { .size = 20 };
	struct scan_sought what = { &id, ANY_KIND, 0, INT64_MAX, 100 },
			   vain = { &other, ANY_KIND, 0, INT64_MAX, 100 };
	int n = 0;

	for (unsigned i = 0; i < 8; i++)
		fixture_put_package(h, arena_printf(&h->a, "%u.tar.gz", i), SAMPLE_TAR, CODEC_GZIP);
	fixture_begin(h);
	n += scan_seek(h->scan, &what, wake, &has) == 0;
	n += scan_seek(h->scan, &vain, wake, &none) == 0;
	assert_int_equal(n, 2);
	wait_for(&has, 1);
	wait_for(&none, 1);
	fixture_settle(h);
	assert_int_equal(has.n, 1);
	assert_int_equal(none.n, 1);
	/* Everything is read. */
	assert_int_equal(scan_seek(h->scan, &vain, wake, &none), SCAN_READ);
	fixture_stop(h);
	assert_int_equal(none.n, 1);
}

/* A pass compares the files that have gone by again for each new request. */
static void a_request_is_noted_once_however_often_its_file_is_compared(void **state)
{
	struct scan_waiter w = { .id.size = 20, .flags = ANY_KIND, .until_ms = INT64_MAX };
	struct scan_job first = { .file = 1 }, second = { .file = 2 };
	struct jobs j = { .sought = &w, .n_sought = 1 };
	const struct elf_facts facts = { .build_id.size = 20, .flags = 1 }, other = { .flags = 1 };

	assert_false(sought_seen(&j, &first, &other));
	assert_true(sought_seen(&j, &first, &facts));
	for (unsigned i = 0; i < 100; i++) {
		assert_false(sought_seen(&j, &first, &facts));
		assert_false(sought_seen(&j, &second, &facts));
	}
	assert_int_equal(first.n_seen, 1);
	assert_int_equal(second.n_seen, 0);
	assert_ptr_equal(sought_take_passed(&j, &second, NULL), NULL);
	assert_ptr_equal(sought_take_passed(&j, &first, NULL), &w);
	assert_int_equal(j.n_sought, 0);
	free(first.seen);
}

/* No more than the limit; one that is late makes room. */
static void requests_that_seek_are_bounded(void **state)
{
	struct scan_fixture *h = *state;
	struct waker late = WAKER, now = WAKER;
	struct build_id other = { .size = 20 };
	struct scan_sought what = { &other, ANY_KIND, 0, 1, 1 };

	fixture_put_package(h, "a.tar.gz", SAMPLE_TAR, CODEC_GZIP);
	fixture_begin(h);
	assert_int_equal(scan_seek(h->scan, &what, wake, &late), 0);
	what.until_ms = INT64_MAX;
	assert_int_equal(scan_seek(h->scan, &what, wake, &now), 0);
	assert_int_equal(late.n, 1);
	assert_int_equal(scan_seek(h->scan, &what, wake, &now), now.n ? SCAN_READ : SCAN_BUSY);
	wait_for(&now, 1);
	fixture_stop(h);
	assert_int_equal(now.n, 1);
}

static void a_passive_scan_scans_nothing(void **state)
{
	struct scan_fixture *h = *state;
	struct waker w = WAKER;
	struct build_id id = { .size = 20 };

	fixture_put_program(h, "p", PROGRAM_A);
	fixture_run(h);
	fixture_stop(h);
	fixture_put_program(h, "q", PROGRAM_B);
	h->opts.passive = true;
	fixture_run(h);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_A), 1);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_B), 0);
	assert_int_equal(scan_want(h->scan, &(struct scan_wanted){ 1, &id, ANY_KIND }, wake, &w), SCAN_BUSY);
	assert_int_equal(w.n, 0);
	assert_false(scan_unfinished(h->scan));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		test_in_fixture(a_requested_package_is_scanned_and_each_waiter_woken_once),
		test_in_fixture(a_waiter_is_woken_when_its_file_can_be_read),
		test_in_fixture(waiters_are_woken_at_the_end),
		test_in_fixture(a_sought_file_is_found_in_any_package),
		cmocka_unit_test(a_request_is_noted_once_however_often_its_file_is_compared),
		test_in_fixture(requests_that_seek_are_bounded),
		test_in_fixture(a_scan_is_unfinished_until_all_found_files_are_scanned),
		test_in_fixture(a_scan_is_unfinished_while_a_package_cannot_be_stored),
		test_in_fixture(a_passive_scan_scans_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
