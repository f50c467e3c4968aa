/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole scan over a folder: which files it finds, which it leaves alone, which changes it notices, and how
 * it ends.
 */
#include "fixture.h"

#include <fcntl.h>
#include <sys/stat.h>

static void files_and_packages_are_found(void **state)
{
	struct scan_fixture *h = *state;
	struct scan_progress p;
	struct err err = { 0 };

	fixture_put_program(h, "program", PROGRAM_A);
	test_file_write(fixture_path(h, "text"),
			"no ELF file, but long enough to be looked at, at least it should be", 67);
	assert_done(dir_make(fixture_path(h, "pool/a"), 0755, &err));
	fixture_put_package(h, "pool/a/one.deb", SAMPLE_DEB, CODEC_XZ);
	fixture_put_package(h, "pool/two.rpm", SAMPLE_RPM, CODEC_ZSTD);
	fixture_put_package(h, "pool/three.tar.gz", SAMPLE_TAR, CODEC_GZIP);
	test_file_write(fixture_path(h, "program2.ko.xz"), h->s.files[5].stored.p, h->s.files[5].stored.size);
	fixture_run(h);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_A), 1);
	assert_int_equal(fixture_row_of(h, "program").state, INDEX_SCANNED);
	assert_int_equal(fixture_row_of(h, "program2.ko.xz").inner, CODEC_XZ);
	assert_int_equal(fixture_row_of(h, "program2.ko.xz").inner_size, h->s.files[5].content.size);
	assert_int_equal(fixture_row_of(h, "pool/a/one.deb").state, INDEX_SCANNED);
	assert_int_equal(fixture_row_of(h, "pool/two.rpm").state, INDEX_SCANNED);
	assert_int_equal(fixture_row_of(h, "pool/three.tar.gz").state, INDEX_SCANNED);
	assert_false(fixture_has(h, "text"));
	for (size_t i = 0; i < h->s.n; i++) {
		if (h->s.files[i].id[0]) {
			struct build_id id = sample_id(&h->s, i);

			assert_true(fixture_n_hits(h, &id) >= 3);
		}
	}
	scan_progress(h->scan, &p);
	assert_true(p.ready && !p.walking && !p.grooming);
	assert_int_equal(p.n_packages, 3);
	assert_int_equal(p.n_packages_deep, 3);
	assert_int_equal(p.bytes_done, p.bytes_total);
	assert_int_equal(p.n_failed, 0);
}

static void files_that_are_being_unpacked_wait_for_their_names(void **state)
{
	static const char *const names[] = { "a.debug.dpkg-new", "b.debug.dpkg-tmp", "c.debug;5f3e9a01" };
	struct scan_fixture *h = *state;
	struct scan_progress p;
	char cut[100] = "\177ELF\2\1\1";

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		test_file_write(fixture_path(h, names[i]), cut, sizeof(cut));
	fixture_put_program(h, "d.debug;5f3e9a0x", PROGRAM_A);
	fixture_put_program(h, ";5f3e9a01", PROGRAM_B);
	fixture_run(h);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_false(fixture_has(h, names[i]));
	scan_progress(h->scan, &p);
	assert_int_equal(p.n_failed, 0);
	assert_int_equal(p.n_seen, 2);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_A), 1);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_B), 1);
}

struct told {
	pthread_mutex_t lock;
	unsigned n_plain, n_packed, n_wanted, n_installed;
	struct build_id wanted;
};

static void indexed(void *arg, const struct build_id *id, struct str path)
{
	struct told *t = arg;

	pthread_mutex_lock(&t->lock);
	if (str_ends(path, STR("/program")) && !str_starts(path, STR("/usr/")))
		t->n_plain++;
	else
		t->n_packed++;
	t->n_wanted += build_id_eq(id, &t->wanted);
	t->n_installed += build_id_eq(id, &t->wanted) && str_eq(path, STR("/usr/bin/program"));
	pthread_mutex_unlock(&t->lock);
}

static void new_build_ids_are_reported(void **state)
{
	struct scan_fixture *h = *state;
	struct told told = { .lock = PTHREAD_MUTEX_INITIALIZER, .wanted = sample_id(&h->s, 0) };

	h->opts.indexed = indexed;
	h->opts.indexed_arg = &told;
	fixture_put_program(h, "program", PROGRAM_A);
	fixture_put_package(h, "a.deb", SAMPLE_DEB, CODEC_XZ);
	fixture_run(h);
	assert_int_equal(told.n_plain, 2); /* the build ID and the hash */
	assert_true(told.n_packed > 0);
	assert_true(told.n_wanted > 0);
	/* Mappings without a build ID are known by the path. */
	assert_int_equal(told.n_installed, 1);
	/* Files that were scanned before are not reported again. */
	told.n_plain = told.n_packed = 0;
	scan_rescan(h->scan);
	fixture_settle(h);
	assert_int_equal(told.n_plain + told.n_packed, 0);
}

static void unchanged_files_are_not_probed_again(void **state)
{
	struct scan_fixture *h = *state;
	struct scan_progress p;
	struct index_file f;

	fixture_put_program(h, "program", PROGRAM_A);
	test_file_write(fixture_path(h, "text"),
			"no ELF file, but long enough to be looked at, at least it should be", 67);
	fixture_put_package(h, "a.deb", SAMPLE_DEB, CODEC_XZ);
	fixture_run(h);
	f = fixture_row_of(h, "a.deb");
	scan_rescan(h->scan);
	fixture_settle(h);
	scan_progress(h->scan, &p);
	assert_int_equal(p.n_seen, 3);
	assert_int_equal(p.n_files_done, 0);
	assert_int_equal(fixture_row_of(h, "a.deb").generation, f.generation);
	/* Nor after a restart, except files without anything to index. */
	fixture_stop(h);
	fixture_run(h);
	scan_progress(h->scan, &p);
	assert_int_equal(p.n_seen, 3);
	assert_int_equal(p.n_files_done, 1);
	assert_int_equal(fixture_row_of(h, "a.deb").generation, f.generation);
}

static void a_changed_file_is_probed_again(void **state)
{
	struct scan_fixture *h = *state;
	struct sample other;
	struct build_id old = sample_id(&h->s, 0), new;

	fixture_put_program(h, "program", PROGRAM_A);
	fixture_put_program(h, "was-program", PROGRAM_B);
	fixture_put_package(h, "a.deb", SAMPLE_DEB, CODEC_XZ);
	fixture_run(h);
	assert_int_equal(fixture_n_hits(h, &old), 2);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_B), 1);
	sample_init(&other, 2, 4000);
	new = sample_id(&other, 0);
	{
		AUTO(buf_done) struct buf b = { 0 };

		sample_package(&other, SAMPLE_DEB, CODEC_GZIP, &b);
		test_file_write(fixture_path(h, "a.deb"), b.p, b.size);
	}
	test_file_write(fixture_path(h, "was-program"),
			"no ELF file any more, and its old build ID must not be found", 60);
	scan_rescan(h->scan);
	fixture_settle(h);
	assert_int_equal(fixture_n_hits(h, &old), 0);
	assert_int_equal(fixture_n_hits(h, &new), 2);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_A), 1);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_B), 0);
	assert_false(fixture_has(h, "was-program"));
	sample_done(&other);
}

/* ---- failures ---- */

static void a_failure_has_its_reason_and_is_tried_again(void **state)
{
	struct scan_fixture *h = *state;
	AUTO(buf_done) struct buf b = { 0 };
	struct index_options write = { 0 };
	struct scan_progress p;
	struct build_id id = sample_id(&h->s, 0);
	struct index_file bad, no, elf;
	struct err err = { 0 };
	struct index *ix;

	sample_package(&h->s, SAMPLE_DEB, CODEC_XZ, &b);
	b.p[b.size - 400] ^= 0xff;
	test_file_write(fixture_path(h, "bad.deb"), b.p, b.size);
	b.p[b.size - 400] ^= 0xff;
	test_file_write(fixture_path(h, "no.rpm"), "is no package", 13);
	test_file_write(fixture_path(h, "elf"), h->s.files[9].content.p, h->s.files[9].content.size);
	fixture_run(h);
	bad = fixture_row_of(h, "bad.deb");
	no = fixture_row_of(h, "no.rpm");
	elf = fixture_row_of(h, "elf");
	assert_int_equal(bad.state, INDEX_FAILED);
	assert_int_equal(no.state, INDEX_FAILED);
	assert_int_equal(elf.state, INDEX_FAILED);
	assert_true(bad.reason.size && no.reason.size && elf.reason.size);
	assert_int_equal(bad.tries, 1);
	assert_int_equal(elf.tries, 1);
	assert_in_range(bad.next_try_s, clock_wall_s() + 1, clock_wall_s() + SCAN_RETRY_FIRST_S);
	/* The build IDs in the header are known all the same. */
	assert_int_equal(fixture_n_hits(h, &id), 1);
	scan_progress(h->scan, &p);
	assert_int_equal(p.n_failed, 3);
	/* Before its next try nothing happens. */
	scan_rescan(h->scan);
	fixture_settle(h);
	assert_int_equal(fixture_row_of(h, "bad.deb").tries, 1);
	fixture_stop(h);
	/* The time of the next try has come. */
	assert_done(index_open(h->index, &write, &ix, &err));
	err_set(&err, ERR_INVALID, "from before");
	assert_int_equal(index_fail(ix, bad.id, &err, clock_wall_s() - 1, NULL), 0);
	assert_int_equal(index_fail(ix, elf.id, &err, clock_wall_s() - 1, NULL), 0);
	index_close(ix);
	fixture_run(h);
	assert_int_equal(fixture_row_of(h, "bad.deb").tries, 3);
	assert_int_equal(fixture_row_of(h, "elf").tries, 3);
	assert_true(fixture_row_of(h, "bad.deb").next_try_s > clock_wall_s() + 2 * SCAN_RETRY_FIRST_S);
	fixture_stop(h);
	/* They failed when the clock was wrong by a year. */
	assert_done(index_open(h->index, &write, &ix, &err));
	clock_test_freeze(clock_wall_s() + INT64_C(31536000));
	assert_int_equal(index_fail(ix, bad.id, &err, clock_wall_s() + SCAN_RETRY_FIRST_S, NULL), 0);
	assert_int_equal(index_fail(ix, elf.id, &err, clock_wall_s() + SCAN_RETRY_FIRST_S, NULL), 0);
	clock_test_thaw();
	index_close(ix);
	fixture_run(h);
	assert_int_equal(fixture_row_of(h, "bad.deb").tries, 5);
	assert_int_equal(fixture_row_of(h, "elf").tries, 5);
	assert_true(fixture_row_of(h, "bad.deb").next_try_s < clock_wall_s() + SCAN_RETRY_LAST_S);
	/* The package was being copied, and is complete now. */
	test_file_write(fixture_path(h, "bad.deb"), b.p, b.size);
	scan_rescan(h->scan);
	fixture_settle(h);
	assert_int_equal(fixture_row_of(h, "bad.deb").state, INDEX_SCANNED);
	assert_int_equal(fixture_row_of(h, "bad.deb").tries, 0);
}

static void the_next_try_comes_ever_later(void **state)
{
	assert_int_equal(retry_at(1000, 0), 1000 + SCAN_RETRY_FIRST_S);
	assert_int_equal(retry_at(1000, 1), 1000 + 2 * SCAN_RETRY_FIRST_S);
	assert_int_equal(retry_at(1000, 1000000), 1000 + SCAN_RETRY_LAST_S);
}

/* As with a full disk: the points cannot be written. */
static void points_that_cannot_be_stored_are_a_failure_of_that_package_alone(void **state)
{
	struct scan_fixture *h = *state;
	struct index_file f;
	struct err err = { 0 };

	fixture_begin(h);
	fixture_settle(h);
	assert_int_equal(rmdir(h->points), 0);
	test_file_write(h->points, "", 0);
	fixture_put_package(h, "a.deb", SAMPLE_DEB, CODEC_XZ);
	fixture_put_program(h, "program", PROGRAM_A);
	scan_rescan(h->scan);
	fixture_settle(h);
	f = fixture_row_of(h, "a.deb");
	assert_int_equal(f.state, INDEX_FAILED);
	assert_non_null(strstr(arena_strdup(&h->a, f.reason), "resume points"));
	assert_true(f.next_try_s > clock_wall_s());
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_A), 1);
	assert_int_equal(unlink(h->points), 0);
	assert_done(dir_make(h->points, 0755, &err));
}

/* ---- removal and leftovers ---- */

static void groom_deletes_rows_of_missing_files(void **state)
{
	struct scan_fixture *h = *state;
	AUTO(buf_done) struct buf points = { 0 };
	struct build_id id = sample_id(&h->s, 0);
	struct index_file f;

	fixture_put_program(h, "program", PROGRAM_A);
	fixture_put_program(h, "stays", PROGRAM_B);
	fixture_put_package(h, "a.deb", SAMPLE_DEB, CODEC_XZ);
	fixture_run(h);
	f = fixture_row_of(h, "a.deb");
	assert_true(f.points_size > 0);
	scan_points_path(h->points, &f, &points);
	assert_int_equal(access(buf_cstr(&points), F_OK), 0);
	assert_int_equal(unlink(fixture_path(h, "program")), 0);
	assert_int_equal(unlink(fixture_path(h, "a.deb")), 0);
	assert_int_equal(fixture_n_hits(h, &id), 2);
	scan_groom(h->scan);
	fixture_settle(h);
	assert_int_equal(fixture_n_hits(h, &id), 0);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_A), 0);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_B), 1);
	assert_int_equal(access(buf_cstr(&points), F_OK), -1);
	/* A file that vanishes while no scan runs is noticed at the next start. */
	fixture_stop(h);
	assert_int_equal(unlink(fixture_path(h, "stays")), 0);
	fixture_run(h);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_B), 0);
}

static char *stray(struct scan_fixture *h, const char *name, bool old)
{
	char *path = arena_printf(&h->a, "%s/%s", h->points, name);
	struct timespec then[2] = { { .tv_sec = clock_wall_s() - 700 }, { .tv_sec = clock_wall_s() - 700 } };

	test_file_write(path, "x", 1);
	if (old)
		assert_int_equal(utimensat(AT_FDCWD, path, then, 0), 0);
	return path;
}

static void groom_sweeps_the_folder_of_points(void **state)
{
	struct scan_fixture *h = *state;
	AUTO(buf_done) struct buf points = { 0 };
	const char *old_temp, *new_temp, *old_orphan, *new_orphan, *other;
	struct index_file f;

	fixture_put_package(h, "a.deb", SAMPLE_DEB, CODEC_XZ);
	fixture_run(h);
	f = fixture_row_of(h, "a.deb");
	scan_points_path(h->points, &f, &points);
	old_temp = stray(h, FILE_TEMP_PREFIX "123", true);
	new_temp = stray(h, FILE_TEMP_PREFIX "456", false);
	old_orphan = stray(h, "99.0123456789abcdef", true);
	new_orphan = stray(h, "98.0123456789abcdef", false);
	other = stray(h, "README", true);
	scan_groom(h->scan);
	fixture_settle(h);
	assert_int_equal(access(old_temp, F_OK), -1);
	assert_int_equal(access(new_temp, F_OK), 0);
	assert_int_equal(access(old_orphan, F_OK), -1);
	assert_int_equal(access(new_orphan, F_OK), 0);
	assert_int_equal(access(other, F_OK), 0);
	assert_int_equal(access(buf_cstr(&points), F_OK), 0);
}

static void missing_points_are_made_again(void **state)
{
	struct scan_fixture *h = *state;
	AUTO(buf_done) struct buf points = { 0 };
	struct build_id id = sample_id(&h->s, 0);
	struct index_file f, now;
	struct stat st;

	fixture_put_package(h, "a.deb", SAMPLE_DEB, CODEC_XZ);
	fixture_run(h);
	f = fixture_row_of(h, "a.deb");
	scan_points_path(h->points, &f, &points);
	assert_int_equal(unlink(buf_cstr(&points)), 0);
	scan_groom(h->scan);
	fixture_settle(h);
	now = fixture_row_of(h, "a.deb");
	assert_int_equal(now.state, INDEX_SCANNED);
	assert_int_equal(now.points_size, f.points_size);
	assert_int_equal(fixture_n_hits(h, &id), 2);
	points.size = 0;
	scan_points_path(h->points, &now, &points);
	assert_int_equal(stat(buf_cstr(&points), &st), 0);
	assert_int_equal(st.st_size, now.points_size);
}

/* ---- inotify ---- */

/* Events may come late. */
static bool in_time(bool (*is_so)(struct scan_fixture *h), struct scan_fixture *h)
{
	int64_t end_ms = clock_mono_ms() + LONG_MS;

	while (!is_so(h)) {
		if (clock_mono_ms() > end_ms)
			return false;
		usleep(20000);
	}
	return true;
}

static bool b_is_found(struct scan_fixture *h)
{
	return fixture_n_hits_of(h, PROGRAM_B) == 1;
}

static bool b_is_gone(struct scan_fixture *h)
{
	return fixture_n_hits_of(h, PROGRAM_B) == 0;
}

static bool deep_is_found(struct scan_fixture *h)
{
	struct index_file f;

	return fixture_row(h, "new/deeper/a.deb", &f) && f.state == INDEX_SCANNED;
}

static bool deep_is_gone(struct scan_fixture *h)
{
	return !fixture_has(h, "gone/deeper/a.deb") && !fixture_has(h, "new/deeper/a.deb");
}

static void inotify_reports_new_and_removed_files(void **state)
{
	struct scan_fixture *h = *state;
	struct err err = { 0 };

	h->opts.watch = true;
	fixture_put_program(h, "program", PROGRAM_A);
	fixture_run(h);
	fixture_put_program(h, "second", PROGRAM_B);
	assert_true(in_time(b_is_found, h));
	assert_int_equal(unlink(fixture_path(h, "second")), 0);
	assert_true(in_time(b_is_gone, h));
	/* A whole tree at once, moved in and out. */
	assert_done(dir_make(fixture_path(h, "new/deeper"), 0755, &err));
	fixture_put_package(h, "new/deeper/a.deb", SAMPLE_DEB, CODEC_ZSTD);
	assert_true(in_time(deep_is_found, h));
	{
		char *aside = arena_printf(&h->a, "%s/aside", h->dir);

		assert_int_equal(rename(fixture_path(h, "new"), aside), 0);
		assert_true(in_time(deep_is_gone, h));
		assert_int_equal(rename(aside, fixture_path(h, "new")), 0);
		assert_true(in_time(deep_is_found, h));
	}
	fixture_settle(h);
	assert_int_equal(fixture_n_hits_of(h, PROGRAM_A), 1);
}

/* ---- the end ---- */

static void a_stopped_scan_goes_on_the_next_time(void **state)
{
	struct scan_fixture *h = *state;
	struct build_id id = sample_id(&h->s, 0);

	for (unsigned i = 0; i < 30; i++)
		fixture_put_package(h, arena_printf(&h->a, "%u.deb", i), SAMPLE_DEB, CODEC_XZ);
	h->opts.watch = true;
	for (unsigned i = 0; i < 8; i++) {
		fixture_begin(h);
		usleep(i * 5000);
		fixture_stop(h);
	}
	fixture_run(h);
	for (unsigned i = 0; i < 30; i++)
		assert_int_equal(fixture_row_of(h, arena_printf(&h->a, "%u.deb", i)).state, INDEX_SCANNED);
	assert_int_equal(fixture_n_hits(h, &id), 60);
}

static void a_scan_that_never_started_can_be_freed(void **state)
{
	struct scan_fixture *h = *state;
	struct err err = { 0 };

	assert_done(scan_new(&h->opts, &h->scan, &err));
	fixture_stop(h);
	scan_free(NULL);
	/* Nor a scan that could not start. */
	h->opts.index_path = "/nowhere/at/all/index";
	assert_done(scan_new(&h->opts, &h->scan, &err));
	assert_true(scan_start(h->scan, &err) < 0);
	fixture_stop(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		test_in_fixture(files_and_packages_are_found),
		test_in_fixture(files_that_are_being_unpacked_wait_for_their_names),
		test_in_fixture(new_build_ids_are_reported),
		test_in_fixture(unchanged_files_are_not_probed_again),
		test_in_fixture(a_changed_file_is_probed_again),
		test_in_fixture(a_failure_has_its_reason_and_is_tried_again),
		cmocka_unit_test(the_next_try_comes_ever_later),
		test_in_fixture(points_that_cannot_be_stored_are_a_failure_of_that_package_alone),
		test_in_fixture(groom_deletes_rows_of_missing_files),
		test_in_fixture(groom_sweeps_the_folder_of_points),
		test_in_fixture(missing_points_are_made_again),
		test_in_fixture(inotify_reports_new_and_removed_files),
		test_in_fixture(a_stopped_scan_goes_on_the_next_time),
		test_in_fixture(a_scan_that_never_started_can_be_freed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
