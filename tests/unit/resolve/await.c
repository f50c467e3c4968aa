/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packages that are not scanned yet: which requests wait, for which package, and which are answered during its pass.
 */
#include "fixture.h"

static struct {
	struct fixture *h;
	int n_wants, n_partials, fail_partials; /* how many calls of partial return "not yet" at first */
	void (*wake)(void *arg);
	void *arg;
	bool busy, wake_at_once, has_partial, scan_ends;
	const char *name;
	int64_t file;
} fake;

static int fake_want(struct scan *s, const struct scan_wanted *what, void (*wake)(void *arg), void *arg)
{
	fake.n_wants++;
	if (fake.busy)
		return SCAN_BUSY;
	fake.wake = wake;
	fake.arg = arg;
	if (fake.scan_ends)
		fixture_set_map(fake.h, what->file, fake.name);
	if (fake.wake_at_once)
		wake(arg);
	return 0;
}

static int fake_partial(struct scan *s, const struct scan_wanted *what, struct scan_partial *ret,
			struct err *err)
{
	AUTO(buf_done) struct buf map = { 0 };
	AUTO(buf_done) struct buf points = { 0 };
	struct index_artifact *list;
	uint64_t *dirs;
	size_t n, n_dirs;
	int r = SCAN_NOT_YET;

	fake.n_partials++;
	if (!fake.has_partial || fake.fail_partials-- > 0)
		return r;
	fixture_map(fake.h, fake.name, &map, &points, &list, &n, &dirs, &n_dirs);
	for (size_t i = 0; i < n && r == SCAN_NOT_YET; i++)
		if (build_id_eq(&list[i].build_id, what->id) && list[i].flags & what->flags) {
			ret->number = list[i].member;
			r = pkg_map_decode(buf_bytes(&map), &ret->map, err);
		}
	if (r == 0) {
		ret->points = points;
		points = (struct buf){ 0 };
	}
	return r;
}

static struct bytes header_only(struct fixture *h, uint32_t id)
{
	struct bytes debug = fixture_debug(h, id, 30000);
	struct pw_file file = { .path = "./usr/lib/debug/x", .content = debug };

	memset(&fake, 0, sizeof(fake));
	fake.h = h;
	fake.name = "h.deb";
	fake.file = fixture_header(h, "h.deb", 1000, fixture_deb(h, CODEC_GZIP, &file, 1), &id, 1);
	fixture_inside(h)->scan = (struct scan *)&fake;
	fixture_inside(h)->want = fake_want;
	fixture_inside(h)->partial = fake_partial;
	return debug;
}

static void without_a_scan_it_is_missing(void **state)
{
	struct fixture *h = *state;

	header_only(h, 1);
	fixture_inside(h)->scan = NULL;
	assert_int_equal(fixture_ask(h, RESOLVE_DEBUGINFO, 1, ""), RESOLVE_MISSING);
	assert_true(fixture_said(h, "h.deb: only its header was read so far"));
}

static int fake_seek(struct scan *s, const struct scan_sought *what, void (*wake)(void *arg), void *arg)
{
	fake.n_wants++;
	fake.file = what->likely;
	fake.wake = wake;
	fake.arg = arg;
	return 0;
}

static bool fake_unfinished(struct scan *s)
{
	return true;
}

static void fake_progress(struct scan *s, struct scan_progress *ret)
{
	*ret = (struct scan_progress){ .ready = true, .settled = true };
}

static void ignore_unread(void *arg)
{
}

static int wait_for_unread(struct fixture *h, enum resolve_kind kind, uint32_t id)
{
	const struct resolve_request req = { .kind = kind, .id = fixture_id(id) };
	const struct resolve_patience p = { .until_ms = INT64_MAX, .max = 10 };

	return resolve_await(h->r, &req, &p, (struct resolve_wake){ ignore_unread, NULL }, NULL);
}

/* Only packages whose headers list no build IDs are waited for, the likeliest first. */
static void an_unknown_build_id_waits_for_packages_that_list_none(void **state)
{
	struct fixture *h = *state;
	int64_t debug;

	header_only(h, 1);
	fixture_inside(h)->seek = fake_seek;
	fixture_inside(h)->unfinished = fake_unfinished;
	fixture_inside(h)->progress = fake_progress;
	assert_int_equal(wait_for_unread(h, RESOLVE_DEBUGINFO, 2), RESOLVE_MISSING);
	debug = fixture_header(h, "linux-image-6.1-dbg_1.deb", 900, bytes_of("x", 1), NULL, 0);
	fixture_header(h, "linux-image-6.1_1.deb", 1000, bytes_of("x", 1), NULL, 0);
	assert_int_equal(wait_for_unread(h, RESOLVE_DEBUGINFO, 2), RESOLVE_WAIT);
	assert_int_equal(fake.n_wants, 1);
	assert_int_equal(fake.file, debug);
	fake.wake(fake.arg);
	assert_int_equal(wait_for_unread(h, RESOLVE_EXECUTABLE, 2), RESOLVE_WAIT);
	assert_int_not_equal(fake.file, debug);
	fake.wake(fake.arg);
}

static void names_of_packages_are_compared(void **state)
{
	struct str kernel = STR("linux-image-6.1.0-53-amd64-dbg_6.1.187-1_amd64.deb"),
		   other = STR("linux-image-6.1.0-52-amd64-dbg_6.1.187-1_amd64.deb"),
		   lib = STR("libfoo1-dbg_1.deb"), plain = STR("libfoo1_1.deb");
	struct str module = STR("/usr/lib/modules/6.1.0-53-amd64/kernel/fs/ext4/ext4.ko"),
		   so = STR("/usr/lib/x86_64-linux-gnu/libfoo.so.1");

	assert_true(await_score(kernel, RESOLVE_DEBUGINFO, module) >
		    await_score(other, RESOLVE_DEBUGINFO, module));
	assert_true(await_score(lib, RESOLVE_DEBUGINFO, so) > await_score(kernel, RESOLVE_DEBUGINFO, so));
	assert_true(await_score(lib, RESOLVE_DEBUGINFO, so) > await_score(plain, RESOLVE_DEBUGINFO, so));
	assert_true(await_score(plain, RESOLVE_EXECUTABLE, so) > await_score(lib, RESOLVE_EXECUTABLE, so));
	assert_int_equal(await_score(STR(""), RESOLVE_DEBUGINFO, STR("")), 0);
}

static void an_unscanned_package_is_waited_for(void **state)
{
	struct fixture *h = *state;
	struct bytes debug = header_only(h, 1);

	assert_int_equal(fixture_ask(h, RESOLVE_DEBUGINFO, 1, ""), RESOLVE_WAIT);
	assert_int_equal(h->n_woken, 0);
	fixture_set_map(h, fake.file, "h.deb");
	fake.wake(fake.arg);
	assert_int_equal(h->n_woken, 1);
	fixture_expect(h, RESOLVE_DEBUGINFO, 1, "", debug);
	assert_int_equal(fake.n_wants, 1);
	fixture_expect(h, RESOLVE_SECTION, 1, ".debug_info", fixture_section(debug, ".debug_info"));
}

static void too_many_that_wait(void **state)
{
	struct fixture *h = *state;

	header_only(h, 1);
	fake.busy = true;
	assert_int_equal(fixture_ask(h, RESOLVE_EXECUTABLE, 1, ""), RESOLVE_BUSY);
	assert_int_equal(h->n_woken, 0);
}

static void a_member_is_served_during_the_pass(void **state)
{
	struct fixture *h = *state;
	struct bytes debug = header_only(h, 1);

	fake.has_partial = true;
	fixture_expect(h, RESOLVE_DEBUGINFO, 1, "", debug);
	assert_int_equal(fake.n_wants, 0);
	fixture_expect(h, RESOLVE_SECTION, 1, ".debug_info", fixture_section(debug, ".debug_info"));
}

/* A program that the pass has met is no answer for its debug file, nor the other way round. */
static void the_other_kind_is_no_answer(void **state)
{
	struct fixture *h = *state;
	struct bytes debug = header_only(h, 1), program = fixture_program(h, 1, 20000);
	const struct pw_file both[] = { { .path = "./usr/bin/x", .content = program },
					{ .path = "./usr/lib/debug/x", .content = debug } };

	fake.has_partial = true;
	assert_int_equal(fixture_ask(h, RESOLVE_EXECUTABLE, 1, ""), RESOLVE_WAIT);
	assert_int_equal(fake.n_wants, 1);
	fixture_set_map(h, fake.file, "h.deb");
	fake.wake(fake.arg);
	assert_int_equal(fixture_ask(h, RESOLVE_EXECUTABLE, 1, ""), RESOLVE_MISSING);

	fake.file = fixture_header(h, "b.deb", 1000, fixture_deb(h, CODEC_GZIP, both, 2), &(uint32_t){ 1 },
				   1);
	fake.name = "b.deb";
	test_file_write(fixture_path(h, "h.deb"), "", 0);
	fixture_expect(h, RESOLVE_DEBUGINFO, 1, "", debug);
	fixture_expect(h, RESOLVE_EXECUTABLE, 1, "", program);
	fixture_expect(h, RESOLVE_SECTION, 1, ".debug_info", fixture_section(debug, ".debug_info"));
}

/* A result between the check and the registration is not lost, and an unneeded registration wakes nobody. */
static void a_member_that_passes_before_registration_is_found(void **state)
{
	struct fixture *h = *state;
	struct bytes debug = header_only(h, 1);

	fake.has_partial = true;
	fake.fail_partials = 1;
	fixture_expect(h, RESOLVE_DEBUGINFO, 1, "", debug);
	assert_int_equal(fake.n_wants, 1);
	fake.wake(fake.arg);
	assert_int_equal(h->n_woken, 0);
}

static void a_pass_that_ends_before_registration_is_noticed(void **state)
{
	struct fixture *h = *state;
	struct bytes debug = header_only(h, 1);

	fake.scan_ends = true;
	fixture_expect(h, RESOLVE_DEBUGINFO, 1, "", debug);
	assert_int_equal(fake.n_wants, 1);
	fake.wake(fake.arg);
	assert_int_equal(h->n_woken, 0);
}

/* Woken before resolve() returns: then it returns WAIT, whatever it found after that. */
static void a_wake_that_came_early_counts(void **state)
{
	struct fixture *h = *state;

	header_only(h, 1);
	fake.wake_at_once = true;
	assert_int_equal(fixture_ask(h, RESOLVE_DEBUGINFO, 1, ""), RESOLVE_WAIT);
	assert_int_equal(h->n_woken, 1);
	fake.scan_ends = true;
	assert_int_equal(fixture_ask(h, RESOLVE_DEBUGINFO, 1, ""), RESOLVE_WAIT);
	assert_int_equal(h->n_woken, 2);
	assert_int_equal(fixture_ask(h, RESOLVE_DEBUGINFO, 1, ""), 0);
	source_close(h->got.source);
}

static void a_scanned_candidate_does_not_wait(void **state)
{
	struct fixture *h = *state;
	struct bytes debug = fixture_debug(h, 1, 100);

	header_only(h, 1);
	fixture_plain(h, "old.debug", 1, debug, CODEC_NONE);
	fixture_expect(h, RESOLVE_DEBUGINFO, 1, "", debug);
	assert_int_equal(fake.n_wants, 0);
	/* But a section that it lacks may be in the other file. */
	assert_int_equal(fixture_ask(h, RESOLVE_SECTION, 1, ".debug_other"), RESOLVE_WAIT);
	fake.wake(fake.arg);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, fixture_set_up, fixture_tear_down)
	const struct CMUnitTest tests[] = {
		T(without_a_scan_it_is_missing),
		T(an_unknown_build_id_waits_for_packages_that_list_none),
		T(names_of_packages_are_compared),
		T(an_unscanned_package_is_waited_for),
		T(too_many_that_wait),
		T(a_member_is_served_during_the_pass),
		T(the_other_kind_is_no_answer),
		T(a_member_that_passes_before_registration_is_found),
		T(a_pass_that_ends_before_registration_is_noticed),
		T(a_wake_that_came_early_counts),
		T(a_scanned_candidate_does_not_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
