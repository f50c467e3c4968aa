/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole scan over a folder: what it finds, what it leaves alone, what it notices, and how it ends.
 */
#include "sample.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include "elf_writer.h"

#define LONG_MS 60000

struct house {
	char dir[TEST_PATH_SIZE], root[TEST_PATH_SIZE + 16], points[TEST_PATH_SIZE + 16],
		index[TEST_PATH_SIZE + 16];
	struct str roots[1];
	struct scan_options opts;
	struct scan *scan;
	struct index *ix;
	struct arena a;
	struct sample s;
};

static char *path_in(struct house *h, const char *name)
{
	return arena_printf(&h->a, "%s/%s", h->root, name);
}

static int set_up(void **state)
{
	struct house *h = NEW(struct house);
	struct err err = { 0 };

	test_dir_make(h->dir);
	arena_init(&h->a);
	snprintf(h->root, sizeof(h->root), "%s/root", h->dir);
	snprintf(h->points, sizeof(h->points), "%s/points", h->dir);
	snprintf(h->index, sizeof(h->index), "%s/index.db", h->dir);
	assert_done(dir_make(h->root, 0755, &err));
	h->roots[0] = str_of(h->root);
	h->opts = (struct scan_options){
		.index_path = h->index,
		.points_dir = h->points,
		.max_inline_points = 1,
		.roots = h->roots,
		.n_roots = 1,
		.files = true,
		.packages = true,
		.threads = 2,
	};
	sample_init(&h->s, 1, 3000);
	*state = h;
	return 0;
}

static void stop(struct house *h)
{
	index_close(h->ix);
	h->ix = NULL;
	scan_free(h->scan);
	h->scan = NULL;
}

static int tear_down(void **state)
{
	struct house *h = *state;

	stop(h);
	sample_done(&h->s);
	arena_done(&h->a);
	test_dir_remove(h->dir);
	free(h);
	return 0;
}

static void begin(struct house *h)
{
	struct index_options opts = { .read_only = true };
	struct err err = { 0 };

	assert_done(scan_new(&h->opts, &h->scan, &err));
	assert_done(scan_start(h->scan, &err));
	assert_done(index_open(h->index, &opts, &h->ix, &err));
}

static void settle(struct house *h)
{
	assert_true(scan_wait_idle(h->scan, LONG_MS));
}

static void run(struct house *h)
{
	begin(h);
	settle(h);
}

/* ---- what is there ---- */

static void put_program(struct house *h, const char *name, const char *id)
{
	AUTO(buf_done) struct buf b = { 0 };

	elf_writer_program(&b, ET_DYN, id, 1000);
	test_file_write(path_in(h, name), b.p, b.size);
}

static void put_package(struct house *h, const char *name, enum sample_kind kind, enum codec_kind codec)
{
	AUTO(buf_done) struct buf b = { 0 };

	sample_package(&h->s, kind, codec, &b);
	test_file_write(path_in(h, name), b.p, b.size);
}

/* How many files have it. */
static size_t n_hits(struct house *h, const struct build_id *id)
{
	struct index_hit *hits;
	struct err err = { 0 };
	size_t n = 0;
	int r = index_find(h->ix, id, &h->a, &hits, &n, &err);

	assert_true(r >= 0);
	return r == 0 ? n : 0;
}

static size_t n_hits_of(struct house *h, const char *id)
{
	struct build_id b;

	assert_true(build_id_parse(&b, str_of(id)));
	return n_hits(h, &b);
}

static bool row(struct house *h, const char *name, struct index_file *ret)
{
	struct err err = { 0 };
	int r = index_file_by_path(h->ix, str_of(path_in(h, name)), &h->a, ret, &err);

	assert_true(r >= 0);
	return r == 0;
}

static struct index_file row_of(struct house *h, const char *name)
{
	struct index_file f;

	if (!row(h, name, &f))
		fail_msg("%s is not in the index", name);
	return f;
}

static bool is_there(struct house *h, const char *name)
{
	struct index_file f;

	return row(h, name, &f);
}

#define PROGRAM_A "00000000000000000000000000000000000000aa"
#define PROGRAM_B "00000000000000000000000000000000000000bb"

static void files_and_packages_are_found(void **state)
{
	struct house *h = *state;
	struct scan_progress p;
	struct err err = { 0 };

	put_program(h, "program", PROGRAM_A);
	test_file_write(path_in(h, "text"),
			"no ELF file, but long enough to be looked at, at least it should be", 67);
	assert_done(dir_make(path_in(h, "pool/a"), 0755, &err));
	put_package(h, "pool/a/one.deb", SAMPLE_DEB, CODEC_XZ);
	put_package(h, "pool/two.rpm", SAMPLE_RPM, CODEC_ZSTD);
	put_package(h, "pool/three.tar.gz", SAMPLE_TAR, CODEC_GZIP);
	test_file_write(path_in(h, "program2.ko.xz"), h->s.files[5].stored.p, h->s.files[5].stored.size);
	run(h);
	assert_int_equal(n_hits_of(h, PROGRAM_A), 1);
	assert_int_equal(row_of(h, "program").state, INDEX_SCANNED);
	assert_int_equal(row_of(h, "program2.ko.xz").inner, CODEC_XZ);
	assert_int_equal(row_of(h, "program2.ko.xz").inner_size, h->s.files[5].content.size);
	assert_int_equal(row_of(h, "pool/a/one.deb").state, INDEX_SCANNED);
	assert_int_equal(row_of(h, "pool/two.rpm").state, INDEX_SCANNED);
	assert_int_equal(row_of(h, "pool/three.tar.gz").state, INDEX_SCANNED);
	assert_false(is_there(h, "text"));
	for (size_t i = 0; i < h->s.n; i++) {
		if (h->s.files[i].id[0]) {
			struct build_id id = sample_id(&h->s, i);

			assert_true(n_hits(h, &id) >= 3);
		}
	}
	scan_progress(h->scan, &p);
	assert_true(p.ready && !p.walking && !p.grooming);
	assert_int_equal(p.n_packages, 3);
	assert_int_equal(p.n_packages_deep, 3);
	assert_int_equal(p.bytes_done, p.bytes_total);
	assert_int_equal(p.n_failed, 0);
}

struct told {
	pthread_mutex_t lock;
	unsigned n_plain, n_packed, n_wanted;
	struct build_id wanted;
};

static void indexed(void *arg, const struct build_id *id, struct str path)
{
	struct told *t = arg;

	pthread_mutex_lock(&t->lock);
	if (path.size)
		t->n_plain++;
	else
		t->n_packed++;
	t->n_wanted += build_id_eq(id, &t->wanted);
	pthread_mutex_unlock(&t->lock);
}

static void who_wants_to_know_is_told_of_build_ids(void **state)
{
	struct house *h = *state;
	struct told told = { .lock = PTHREAD_MUTEX_INITIALIZER, .wanted = sample_id(&h->s, 0) };

	h->opts.indexed = indexed;
	h->opts.indexed_arg = &told;
	put_program(h, "program", PROGRAM_A);
	put_package(h, "a.deb", SAMPLE_DEB, CODEC_XZ);
	run(h);
	assert_int_equal(told.n_plain, 1);
	assert_true(told.n_packed > 0);
	assert_true(told.n_wanted > 0);
	/* What was looked at before is not news. */
	told.n_plain = told.n_packed = 0;
	scan_rescan(h->scan);
	settle(h);
	assert_int_equal(told.n_plain + told.n_packed, 0);
}

static void what_is_unchanged_is_not_looked_at_again(void **state)
{
	struct house *h = *state;
	struct scan_progress p;
	struct index_file f;

	put_program(h, "program", PROGRAM_A);
	test_file_write(path_in(h, "text"),
			"no ELF file, but long enough to be looked at, at least it should be", 67);
	put_package(h, "a.deb", SAMPLE_DEB, CODEC_XZ);
	run(h);
	f = row_of(h, "a.deb");
	scan_rescan(h->scan);
	settle(h);
	scan_progress(h->scan, &p);
	assert_int_equal(p.n_seen, 3);
	assert_int_equal(p.n_files_done, 0);
	assert_int_equal(row_of(h, "a.deb").generation, f.generation);
	/* Nor after a restart, but for what holds nothing. */
	stop(h);
	run(h);
	scan_progress(h->scan, &p);
	assert_int_equal(p.n_seen, 3);
	assert_int_equal(p.n_files_done, 1);
	assert_int_equal(row_of(h, "a.deb").generation, f.generation);
}

static void a_changed_file_is_looked_at_again(void **state)
{
	struct house *h = *state;
	struct sample other;
	struct build_id old = sample_id(&h->s, 0), new;

	put_program(h, "program", PROGRAM_A);
	put_program(h, "was-program", PROGRAM_B);
	put_package(h, "a.deb", SAMPLE_DEB, CODEC_XZ);
	run(h);
	assert_int_equal(n_hits(h, &old), 2);
	assert_int_equal(n_hits_of(h, PROGRAM_B), 1);
	sample_init(&other, 2, 4000);
	new = sample_id(&other, 0);
	{
		AUTO(buf_done) struct buf b = { 0 };

		sample_package(&other, SAMPLE_DEB, CODEC_GZIP, &b);
		test_file_write(path_in(h, "a.deb"), b.p, b.size);
	}
	test_file_write(path_in(h, "was-program"),
			"no ELF file any more, and what it once was must not be told", 59);
	scan_rescan(h->scan);
	settle(h);
	assert_int_equal(n_hits(h, &old), 0);
	assert_int_equal(n_hits(h, &new), 2);
	assert_int_equal(n_hits_of(h, PROGRAM_A), 1);
	assert_int_equal(n_hits_of(h, PROGRAM_B), 0);
	assert_false(is_there(h, "was-program"));
	sample_done(&other);
}

/* ---- failures ---- */

static void a_failure_has_its_reason_and_is_tried_again(void **state)
{
	struct house *h = *state;
	AUTO(buf_done) struct buf b = { 0 };
	struct index_options write = { 0 };
	struct scan_progress p;
	struct build_id id = sample_id(&h->s, 0);
	struct index_file bad, no, elf;
	struct err err = { 0 };
	struct index *ix;

	sample_package(&h->s, SAMPLE_DEB, CODEC_XZ, &b);
	b.p[b.size - 400] ^= 0xff;
	test_file_write(path_in(h, "bad.deb"), b.p, b.size);
	b.p[b.size - 400] ^= 0xff;
	test_file_write(path_in(h, "no.rpm"), "is no package", 13);
	test_file_write(path_in(h, "elf"), h->s.files[9].content.p, h->s.files[9].content.size);
	run(h);
	bad = row_of(h, "bad.deb");
	no = row_of(h, "no.rpm");
	elf = row_of(h, "elf");
	assert_int_equal(bad.state, INDEX_FAILED);
	assert_int_equal(no.state, INDEX_FAILED);
	assert_int_equal(elf.state, INDEX_FAILED);
	assert_true(bad.reason.size && no.reason.size && elf.reason.size);
	assert_int_equal(bad.tries, 1);
	assert_int_equal(elf.tries, 1);
	assert_in_range(bad.next_try_s, clock_wall_s() + 1, clock_wall_s() + SCAN_RETRY_FIRST_S);
	/* What the header said is known all the same. */
	assert_int_equal(n_hits(h, &id), 1);
	scan_progress(h->scan, &p);
	assert_int_equal(p.n_failed, 3);
	/* Before its time nothing happens. */
	scan_rescan(h->scan);
	settle(h);
	assert_int_equal(row_of(h, "bad.deb").tries, 1);
	stop(h);
	/* Its time has come. */
	assert_done(index_open(h->index, &write, &ix, &err));
	err_set(&err, ERR_INVALID, "from before");
	assert_int_equal(index_fail(ix, bad.id, &err, clock_wall_s() - 1, NULL), 0);
	assert_int_equal(index_fail(ix, elf.id, &err, clock_wall_s() - 1, NULL), 0);
	index_close(ix);
	run(h);
	assert_int_equal(row_of(h, "bad.deb").tries, 3);
	assert_int_equal(row_of(h, "elf").tries, 3);
	assert_true(row_of(h, "bad.deb").next_try_s > clock_wall_s() + 2 * SCAN_RETRY_FIRST_S);
	/* It was being copied, and now it is whole. */
	test_file_write(path_in(h, "bad.deb"), b.p, b.size);
	scan_rescan(h->scan);
	settle(h);
	assert_int_equal(row_of(h, "bad.deb").state, INDEX_SCANNED);
	assert_int_equal(row_of(h, "bad.deb").tries, 0);
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
	struct house *h = *state;
	struct index_file f;
	struct err err = { 0 };

	begin(h);
	settle(h);
	assert_int_equal(rmdir(h->points), 0);
	test_file_write(h->points, "", 0);
	put_package(h, "a.deb", SAMPLE_DEB, CODEC_XZ);
	put_program(h, "program", PROGRAM_A);
	scan_rescan(h->scan);
	settle(h);
	f = row_of(h, "a.deb");
	assert_int_equal(f.state, INDEX_FAILED);
	assert_non_null(strstr(arena_strdup(&h->a, f.reason), "resume points"));
	assert_true(f.next_try_s > clock_wall_s());
	assert_int_equal(n_hits_of(h, PROGRAM_A), 1);
	assert_int_equal(unlink(h->points), 0);
	assert_done(dir_make(h->points, 0755, &err));
}

/* ---- what goes, and what is left ---- */

static void groom_drops_what_is_gone(void **state)
{
	struct house *h = *state;
	AUTO(buf_done) struct buf points = { 0 };
	struct build_id id = sample_id(&h->s, 0);
	struct index_file f;

	put_program(h, "program", PROGRAM_A);
	put_program(h, "stays", PROGRAM_B);
	put_package(h, "a.deb", SAMPLE_DEB, CODEC_XZ);
	run(h);
	f = row_of(h, "a.deb");
	assert_true(f.points_size > 0);
	scan_points_path(h->points, &f, &points);
	assert_int_equal(access(buf_cstr(&points), F_OK), 0);
	assert_int_equal(unlink(path_in(h, "program")), 0);
	assert_int_equal(unlink(path_in(h, "a.deb")), 0);
	assert_int_equal(n_hits(h, &id), 2);
	scan_groom(h->scan);
	settle(h);
	assert_int_equal(n_hits(h, &id), 0);
	assert_int_equal(n_hits_of(h, PROGRAM_A), 0);
	assert_int_equal(n_hits_of(h, PROGRAM_B), 1);
	assert_int_equal(access(buf_cstr(&points), F_OK), -1);
	/* What goes while nobody looks is noticed at the next start. */
	stop(h);
	assert_int_equal(unlink(path_in(h, "stays")), 0);
	run(h);
	assert_int_equal(n_hits_of(h, PROGRAM_B), 0);
}

static char *stray(struct house *h, const char *name, bool old)
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
	struct house *h = *state;
	AUTO(buf_done) struct buf points = { 0 };
	const char *old_temp, *new_temp, *old_orphan, *new_orphan, *other;
	struct index_file f;

	put_package(h, "a.deb", SAMPLE_DEB, CODEC_XZ);
	run(h);
	f = row_of(h, "a.deb");
	scan_points_path(h->points, &f, &points);
	old_temp = stray(h, FILE_TEMP_PREFIX "123", true);
	new_temp = stray(h, FILE_TEMP_PREFIX "456", false);
	old_orphan = stray(h, "99.0123456789abcdef", true);
	new_orphan = stray(h, "98.0123456789abcdef", false);
	other = stray(h, "README", true);
	scan_groom(h->scan);
	settle(h);
	assert_int_equal(access(old_temp, F_OK), -1);
	assert_int_equal(access(new_temp, F_OK), 0);
	assert_int_equal(access(old_orphan, F_OK), -1);
	assert_int_equal(access(new_orphan, F_OK), 0);
	assert_int_equal(access(other, F_OK), 0);
	assert_int_equal(access(buf_cstr(&points), F_OK), 0);
}

static void points_that_are_gone_are_made_again(void **state)
{
	struct house *h = *state;
	AUTO(buf_done) struct buf points = { 0 };
	struct build_id id = sample_id(&h->s, 0);
	struct index_file f, now;
	struct stat st;

	put_package(h, "a.deb", SAMPLE_DEB, CODEC_XZ);
	run(h);
	f = row_of(h, "a.deb");
	scan_points_path(h->points, &f, &points);
	assert_int_equal(unlink(buf_cstr(&points)), 0);
	scan_groom(h->scan);
	settle(h);
	now = row_of(h, "a.deb");
	assert_int_equal(now.state, INDEX_SCANNED);
	assert_int_equal(now.points_size, f.points_size);
	assert_int_equal(n_hits(h, &id), 2);
	points.size = 0;
	scan_points_path(h->points, &now, &points);
	assert_int_equal(stat(buf_cstr(&points), &st), 0);
	assert_int_equal(st.st_size, now.points_size);
}

/* ---- inotify ---- */

/* Events come when they come. */
static bool in_time(bool (*is_so)(struct house *h), struct house *h)
{
	int64_t end_ms = clock_mono_ms() + LONG_MS;

	while (!is_so(h)) {
		if (clock_mono_ms() > end_ms)
			return false;
		usleep(20000);
	}
	return true;
}

static bool b_is_found(struct house *h)
{
	return n_hits_of(h, PROGRAM_B) == 1;
}

static bool b_is_gone(struct house *h)
{
	return n_hits_of(h, PROGRAM_B) == 0;
}

static bool deep_is_found(struct house *h)
{
	struct index_file f;

	return row(h, "new/deeper/a.deb", &f) && f.state == INDEX_SCANNED;
}

static bool deep_is_gone(struct house *h)
{
	return !is_there(h, "gone/deeper/a.deb") && !is_there(h, "new/deeper/a.deb");
}

static void inotify_tells_of_new_and_removed_files(void **state)
{
	struct house *h = *state;
	struct err err = { 0 };

	h->opts.watch = true;
	put_program(h, "program", PROGRAM_A);
	run(h);
	put_program(h, "second", PROGRAM_B);
	assert_true(in_time(b_is_found, h));
	assert_int_equal(unlink(path_in(h, "second")), 0);
	assert_true(in_time(b_is_gone, h));
	/* A whole tree at once, moved in and moved away. */
	assert_done(dir_make(path_in(h, "new/deeper"), 0755, &err));
	put_package(h, "new/deeper/a.deb", SAMPLE_DEB, CODEC_ZSTD);
	assert_true(in_time(deep_is_found, h));
	{
		char *aside = arena_printf(&h->a, "%s/aside", h->dir);

		assert_int_equal(rename(path_in(h, "new"), aside), 0);
		assert_true(in_time(deep_is_gone, h));
		assert_int_equal(rename(aside, path_in(h, "new")), 0);
		assert_true(in_time(deep_is_found, h));
	}
	settle(h);
	assert_int_equal(n_hits_of(h, PROGRAM_A), 1);
}

/* ---- which files ---- */

static void regexes_say_which(void **state)
{
	struct house *h = *state;

	put_program(h, "yes-a", PROGRAM_A);
	put_program(h, "yes-but", PROGRAM_A);
	put_program(h, "no-a", PROGRAM_A);
	h->opts.include_regex = "/yes-[^/]*$";
	h->opts.exclude_regex = "but$";
	run(h);
	assert_true(is_there(h, "yes-a"));
	assert_false(is_there(h, "yes-but"));
	assert_false(is_there(h, "no-a"));
	/* While grooming they count only if asked. */
	stop(h);
	h->opts.include_regex = "nothing-at-all";
	run(h);
	assert_true(is_there(h, "yes-a"));
	stop(h);
	h->opts.regex_groom = true;
	run(h);
	assert_false(is_there(h, "yes-a"));
}

static void a_regex_that_is_none_is_an_error(void **state)
{
	struct house *h = *state;
	struct scan *s;
	struct err err = { 0 };

	h->opts.include_regex = "fine";
	h->opts.exclude_regex = "(";
	assert_fails(scan_new(&h->opts, &s, &err), ERR_INVALID, "exclude regex '('");
}

static void no_deeper_than_asked(void **state)
{
	struct house *h = *state;
	struct err err = { 0 };

	assert_done(dir_make(path_in(h, "1/2/3"), 0755, &err));
	put_program(h, "p", PROGRAM_A);
	put_program(h, "1/p", PROGRAM_A);
	put_program(h, "1/2/p", PROGRAM_A);
	put_program(h, "1/2/3/p", PROGRAM_A);
	h->opts.max_depth = 2;
	run(h);
	assert_true(is_there(h, "p"));
	assert_true(is_there(h, "1/p"));
	assert_false(is_there(h, "1/2/p"));
	assert_false(is_there(h, "1/2/3/p"));
	stop(h);
	h->opts.max_depth = 0;
	run(h);
	assert_true(is_there(h, "1/2/3/p"));
}

static void links_are_followed_only_if_asked(void **state)
{
	struct house *h = *state;
	char *aside = arena_printf(&h->a, "%s/aside", h->dir);
	struct err err = { 0 };

	assert_done(dir_make(aside, 0755, &err));
	put_program(h, "../aside/p", PROGRAM_A);
	assert_int_equal(symlink(aside, path_in(h, "link")), 0);
	assert_int_equal(symlink("../aside/p", path_in(h, "p")), 0);
	assert_int_equal(symlink("nowhere", path_in(h, "dangling")), 0);
	assert_int_equal(symlink("..", path_in(h, "loop")), 0);
	run(h);
	assert_int_equal(n_hits_of(h, PROGRAM_A), 0);
	stop(h);
	h->opts.follow_links = true;
	h->opts.max_depth = 6;
	run(h);
	assert_true(is_there(h, "p"));
	assert_true(is_there(h, "link/p"));
}

static void suffixes_say_what_is_a_package(void **state)
{
	struct house *h = *state;
	static const struct str suffixes[] = { STR(".pkg") };

	h->opts.package_suffixes = suffixes;
	h->opts.n_package_suffixes = 1;
	h->opts.files = false;
	put_package(h, "a.pkg", SAMPLE_DEB, CODEC_XZ);
	put_package(h, "a.deb", SAMPLE_DEB, CODEC_XZ);
	put_program(h, "p", PROGRAM_A);
	run(h);
	assert_int_equal(row_of(h, "a.pkg").state, INDEX_SCANNED);
	assert_false(is_there(h, "a.deb"));
	assert_false(is_there(h, "p"));
}

/* ---- who wants something now ---- */

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
	struct pkg_map *m;
	struct err err = { 0 };
	struct index_file f;
	uint32_t number;
	int64_t from_ms;

	h->opts.header_only = true;
	put_package(h, "a.deb", SAMPLE_DEB, CODEC_XZ);
	run(h);
	f = row_of(h, "a.deb");
	assert_int_equal(f.state, INDEX_HEADER);
	assert_int_equal(n_hits(h, &id), 1);
	{
		AUTO(buf_done) struct buf points = { 0 };

		assert_int_equal(scan_partial(h->scan, f.id, &id, ANY_KIND, &m, &number, &points, &err),
				 SCAN_NOT_YET);
	}
	from_ms = clock_mono_ms();
	for (unsigned i = 0; i < 20; i++) {
		assert_int_equal(scan_want(h->scan, f.id, &id, ANY_KIND, wake, &has, &err), 0);
		assert_int_equal(scan_want(h->scan, f.id, &other, ANY_KIND, wake, &has_not, &err), 0);
		assert_int_equal(scan_want(h->scan, 424242, &id, ANY_KIND, wake, &gone, &err), 0);
	}
	wait_for(&has, 20);
	wait_for(&has_not, 20);
	wait_for(&gone, 20);
	/* Nobody slept over it. */
	assert_true(clock_mono_ms() - from_ms < 4000);
	settle(h);
	assert_int_equal(row_of(h, "a.deb").state, INDEX_SCANNED);
	f = row_of(h, "a.deb");
	/* It is through: there is nothing more to do, and nothing is done again. */
	assert_int_equal(scan_want(h->scan, f.id, &id, ANY_KIND, wake, &later, &err), 0);
	wait_for(&later, 1);
	settle(h);
	assert_int_equal(row_of(h, "a.deb").scanned_s, f.scanned_s);
	{
		struct scan_progress p;

		scan_progress(h->scan, &p);
		assert_int_equal(p.n_packages_deep, 1);
	}
	stop(h);
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
		put_package(h, arena_printf(&h->a, "%u.tar.gz", i), SAMPLE_TAR, CODEC_GZIP);
	run(h);
	for (unsigned i = 0; i < 8; i++) {
		AUTO(buf_done) struct buf points = { 0 };
		struct index_file f = row_of(h, arena_printf(&h->a, "%u.tar.gz", i));
		struct waker w = WAKER;
		struct pkg_map *m;
		uint32_t number;
		int r;

		assert_int_equal(scan_want(h->scan, f.id, &id, ANY_KIND, wake, &w, &err), 0);
		wait_for(&w, 1);
		r = scan_partial(h->scan, f.id, &id, ANY_KIND, &m, &number, &points, &err);
		assert_true(r >= 0);
		if (r == 0) {
			const struct pkg_entry *e = pkg_map_by_number(m, number);
			struct codec_source_options opts = { .points = buf_bytes(&points) };
			AUTO(source_closep) struct source *member = NULL;
			struct source *src;
			AUTO(mem_freep) uint8_t *got = mem_alloc(h->s.files[1].content.size);

			assert_non_null(e);
			assert_int_equal(source_open_file(arena_strdup(&h->a, f.path), &src, &err), 0);
			assert_done(pkg_entry_open(m, e, src, &opts, &member, &err));
			assert_int_equal(member->size, h->s.files[1].content.size);
			assert_done(source_read_full(member, 0, got, member->size, SOURCE_SEQUENTIAL, &err));
			assert_memory_equal(got, h->s.files[1].content.p, member->size);
			pkg_map_free(m);
		} else {
			assert_int_equal(row_of(h, arena_printf(&h->a, "%u.tar.gz", i)).state, INDEX_SCANNED);
		}
		assert_int_equal(w.n, 1);
	}
}

static void those_who_still_wait_at_the_end_are_woken(void **state)
{
	struct house *h = *state;
	struct waker w = WAKER;
	struct build_id id = { .size = 20 };
	struct err err = { 0 };
	unsigned n = 0;

	h->opts.header_only = true;
	for (unsigned i = 0; i < 20; i++)
		put_package(h, arena_printf(&h->a, "%u.deb", i), SAMPLE_DEB, CODEC_XZ);
	run(h);
	for (unsigned i = 0; i < 20; i++) {
		struct index_file f = row_of(h, arena_printf(&h->a, "%u.deb", i));

		n += scan_want(h->scan, f.id, &id, ANY_KIND, wake, &w, &err) == 0;
	}
	stop(h);
	assert_int_equal(n, 20);
	assert_int_equal(w.n, n);
}

/* ---- its ends ---- */

static void stopped_anywhere_it_goes_on_the_next_time(void **state)
{
	struct house *h = *state;
	struct build_id id = sample_id(&h->s, 0);

	for (unsigned i = 0; i < 30; i++)
		put_package(h, arena_printf(&h->a, "%u.deb", i), SAMPLE_DEB, CODEC_XZ);
	h->opts.watch = true;
	for (unsigned i = 0; i < 8; i++) {
		begin(h);
		usleep(i * 5000);
		stop(h);
	}
	run(h);
	for (unsigned i = 0; i < 30; i++)
		assert_int_equal(row_of(h, arena_printf(&h->a, "%u.deb", i)).state, INDEX_SCANNED);
	assert_int_equal(n_hits(h, &id), 60);
}

static void a_scan_that_never_started_can_be_freed(void **state)
{
	struct house *h = *state;
	struct err err = { 0 };

	assert_done(scan_new(&h->opts, &h->scan, &err));
	stop(h);
	scan_free(NULL);
	/* Nor one that could not start. */
	h->opts.index_path = "/nowhere/at/all/index";
	assert_done(scan_new(&h->opts, &h->scan, &err));
	assert_true(scan_start(h->scan, &err) < 0);
	stop(h);
}

static void who_only_looks_on_scans_nothing(void **state)
{
	struct house *h = *state;
	struct waker w = WAKER;
	struct build_id id = { .size = 20 };
	struct err err = { 0 };

	put_program(h, "p", PROGRAM_A);
	run(h);
	stop(h);
	put_program(h, "q", PROGRAM_B);
	h->opts.passive = true;
	run(h);
	assert_int_equal(n_hits_of(h, PROGRAM_A), 1);
	assert_int_equal(n_hits_of(h, PROGRAM_B), 0);
	assert_int_equal(scan_want(h->scan, 1, &id, ANY_KIND, wake, &w, &err), SCAN_BUSY);
	assert_int_equal(w.n, 0);
}

#define test_in_house(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		test_in_house(files_and_packages_are_found),
		test_in_house(who_wants_to_know_is_told_of_build_ids),
		test_in_house(what_is_unchanged_is_not_looked_at_again),
		test_in_house(a_changed_file_is_looked_at_again),
		test_in_house(a_failure_has_its_reason_and_is_tried_again),
		cmocka_unit_test(the_next_try_comes_ever_later),
		test_in_house(points_that_cannot_be_stored_are_a_failure_of_that_package_alone),
		test_in_house(groom_drops_what_is_gone),
		test_in_house(groom_sweeps_the_folder_of_points),
		test_in_house(points_that_are_gone_are_made_again),
		test_in_house(inotify_tells_of_new_and_removed_files),
		test_in_house(regexes_say_which),
		test_in_house(a_regex_that_is_none_is_an_error),
		test_in_house(no_deeper_than_asked),
		test_in_house(links_are_followed_only_if_asked),
		test_in_house(suffixes_say_what_is_a_package),
		test_in_house(what_is_wanted_is_scanned_and_each_is_woken_once),
		test_in_house(what_a_waiter_is_woken_for_can_be_read),
		test_in_house(those_who_still_wait_at_the_end_are_woken),
		test_in_house(stopped_anywhere_it_goes_on_the_next_time),
		test_in_house(a_scan_that_never_started_can_be_freed),
		test_in_house(who_only_looks_on_scans_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
