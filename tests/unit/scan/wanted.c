/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who wants something now: its package is scanned first, and each is woken, once, whatever comes of it.
 */
#include "house.h"

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

static void what_is_wanted_is_scanned_and_each_is_woken_once(void **state)
{
	struct house *h = *state;
	struct waker has = WAKER, has_not = WAKER, gone = WAKER, later = WAKER;
	struct build_id id = sample_id(&h->s, 1), other = { .size = 20 };
	struct err err = { 0 };
	struct index_file f;
	int64_t from_ms;

	h->opts.header_only = true;
	house_put_package(h, "a.deb", SAMPLE_DEB, CODEC_XZ);
	house_run(h);
	f = house_row_of(h, "a.deb");
	assert_int_equal(f.state, INDEX_HEADER);
	assert_int_equal(house_n_hits(h, &id), 1);
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
	/* Nobody slept over it. */
	assert_true(clock_mono_ms() - from_ms < 4000);
	house_settle(h);
	assert_int_equal(house_row_of(h, "a.deb").state, INDEX_SCANNED);
	f = house_row_of(h, "a.deb");
	/* It is through: there is nothing more to do, and nothing is done again. */
	assert_int_equal(scan_want(h->scan, &(struct scan_wanted){ f.id, &id, ANY_KIND }, wake, &later), 0);
	wait_for(&later, 1);
	house_settle(h);
	assert_int_equal(house_row_of(h, "a.deb").scanned_s, f.scanned_s);
	{
		struct scan_progress p;

		scan_progress(h->scan, &p);
		assert_int_equal(p.n_packages_deep, 1);
	}
	house_stop(h);
	assert_int_equal(has.n, 20);
	assert_int_equal(has_not.n, 20);
	assert_int_equal(gone.n, 20);
	assert_int_equal(later.n, 1);
}

/* Woken in the midst of a pass: what it waited for is there, in the one place or the other. */
static void what_a_waiter_is_woken_for_can_be_read(void **state)
{
	struct house *h = *state;
	struct build_id id = sample_id(&h->s, 1);
	struct err err = { 0 };

	h->opts.header_only = true;
	for (unsigned i = 0; i < 8; i++)
		house_put_package(h, arena_printf(&h->a, "%u.tar.gz", i), SAMPLE_TAR, CODEC_GZIP);
	house_run(h);
	for (unsigned i = 0; i < 8; i++) {
		struct index_file f = house_row_of(h, arena_printf(&h->a, "%u.tar.gz", i));
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
			assert_int_equal(house_row_of(h, arena_printf(&h->a, "%u.tar.gz", i)).state,
					 INDEX_SCANNED);
		}
		assert_int_equal(w.n, 1);
	}
}

static void those_who_still_wait_at_the_end_are_woken(void **state)
{
	struct house *h = *state;
	struct waker w = WAKER;
	struct build_id id = { .size = 20 };
	unsigned n = 0;

	h->opts.header_only = true;
	for (unsigned i = 0; i < 20; i++)
		house_put_package(h, arena_printf(&h->a, "%u.deb", i), SAMPLE_DEB, CODEC_XZ);
	house_run(h);
	for (unsigned i = 0; i < 20; i++) {
		struct index_file f = house_row_of(h, arena_printf(&h->a, "%u.deb", i));

		n += scan_want(h->scan, &(struct scan_wanted){ f.id, &id, ANY_KIND }, wake, &w) == 0;
	}
	house_stop(h);
	assert_int_equal(n, 20);
	assert_int_equal(w.n, n);
}

/* A build ID that is not in the index may be in what is not scanned yet; and nobody waits for what never is.
 */
static void it_is_unfinished_until_all_that_was_found_is_scanned(void **state)
{
	struct house *h = *state;
	struct build_id id = sample_id(&h->s, 1);
	bool unfinished;

	house_put_package(h, "a.tar.gz", SAMPLE_TAR, CODEC_GZIP);
	house_begin(h);
	do
		unfinished = scan_unfinished(h->scan);
	while (!house_n_hits(h, &id) && unfinished);
	assert_int_equal(house_n_hits(h, &id), 1);
	house_settle(h);
	assert_false(scan_unfinished(h->scan));
	house_put_package(h, "b.tar.gz", SAMPLE_TAR, CODEC_GZIP);
	scan_rescan(h->scan);
	house_settle(h);
	assert_int_equal(house_n_hits(h, &id), 2);
	assert_false(scan_unfinished(h->scan));
	house_stop(h);
	h->opts.header_only = true;
	house_put_package(h, "c.tar.gz", SAMPLE_TAR, CODEC_GZIP);
	house_run(h);
	assert_int_equal(house_row_of(h, "c.tar.gz").state, INDEX_HEADER);
	assert_false(scan_unfinished(h->scan));
}

static void who_only_looks_on_scans_nothing(void **state)
{
	struct house *h = *state;
	struct waker w = WAKER;
	struct build_id id = { .size = 20 };

	house_put_program(h, "p", PROGRAM_A);
	house_run(h);
	house_stop(h);
	house_put_program(h, "q", PROGRAM_B);
	h->opts.passive = true;
	house_run(h);
	assert_int_equal(house_n_hits_of(h, PROGRAM_A), 1);
	assert_int_equal(house_n_hits_of(h, PROGRAM_B), 0);
	assert_int_equal(scan_want(h->scan, &(struct scan_wanted){ 1, &id, ANY_KIND }, wake, &w), SCAN_BUSY);
	assert_int_equal(w.n, 0);
	assert_false(scan_unfinished(h->scan));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		test_in_house(what_is_wanted_is_scanned_and_each_is_woken_once),
		test_in_house(what_a_waiter_is_woken_for_can_be_read),
		test_in_house(those_who_still_wait_at_the_end_are_woken),
		test_in_house(it_is_unfinished_until_all_that_was_found_is_scanned),
		test_in_house(who_only_looks_on_scans_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
