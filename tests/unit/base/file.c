/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that exist, are missing, or are something else; durable writes that fail half-way.
 */
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

static char dir[TEST_PATH_SIZE];

/* Calls of fsync(), if there is a path that is being replaced: 'f' for a file that has not got this name yet, 'F' after that, 'd'
 * for a folder. */
static struct {
	const char *path;
	char calls[16];
	char fails; /* calls of this kind fail */
} syncs;

/* In place of libc's. */
int fsync(int fd)
{
	struct stat st, named;
	char kind = 'd';

	if (!syncs.path)
		return (int)syscall(SYS_fsync, fd);
	if (fstat(fd, &st) < 0)
		return -1;
	if (S_ISREG(st.st_mode))
		kind = stat(syncs.path, &named) == 0 && named.st_ino == st.st_ino ? 'F' : 'f';
	syncs.calls[MIN(strlen(syncs.calls), sizeof(syncs.calls) - 2)] = kind;
	errno = EIO;
	return kind == syncs.fails ? -1 : 0;
}

static int setup(void **state)
{
	test_dir_make(dir);
	return 0;
}

static int teardown(void **state)
{
	syncs.path = NULL;
	test_dir_remove(dir);
	return 0;
}

/* A path in the test's folder; valid until the fourth next call. */
static const char *in_dir(const char *name)
{
	static char paths[4][2 * TEST_PATH_SIZE];
	static unsigned i;
	char *path = paths[i++ % 4];

	snprintf(path, sizeof(paths[0]), "%s/%s", dir, name);
	return path;
}

static unsigned count_files(void)
{
	DIR *d = opendir(dir);
	unsigned n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

static void only_regular_files_are_opened(void **state)
{
	AUTO(fd_close) int fd = -1;
	AUTO(fd_close) int sock = socket(AF_UNIX, SOCK_STREAM, 0);
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct err err = { 0 };
	struct stat st;

	test_file_write(in_dir("x"), "hello", 5);
	assert_done(file_open(in_dir("x"), &fd, &st, &err));
	assert_int_equal(st.st_size, 5);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	fd_close(&fd);

	assert_int_equal(file_open(in_dir("none"), &fd, &st, &err), FILE_MISSING);
	assert_int_equal(file_open(in_dir("x/y"), &fd, &st, &err), FILE_MISSING);
	assert_int_equal(mkfifo(in_dir("fifo"), 0600), 0);
	assert_fails(file_open(in_dir("fifo"), &fd, &st, &err), ERR_INVALID, "fifo: not a regular file");
	assert_fails(file_open(dir, &fd, &st, &err), ERR_INVALID, "not a regular file");
	assert_fails(file_open("/dev/null", &fd, &st, &err), ERR_INVALID, "not a regular file");
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", in_dir("sock"));
	assert_int_equal(bind(sock, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_fails(file_open(in_dir("sock"), &fd, &st, &err), ERR_INVALID, "not a regular file");
	assert_int_equal(symlink("loop", in_dir("loop")), 0);
	assert_fails(file_open(in_dir("loop"), &fd, &st, &err), ERR_IO, "symbolic links");
	assert_int_equal(fd, -1);
}

static void a_path_of_others_leads_to_files_below_the_roots(void **state)
{
	AUTO(fd_close) int fd = -1;
	const char *roots[2];
	char root[2 * TEST_PATH_SIZE], link[2 * TEST_PATH_SIZE];
	struct err err = { 0 };
	struct stat st;
	char text[8];

	assert_done(dir_make(in_dir("served/a"), 0755, &err));
	assert_done(dir_make(in_dir("served-too"), 0755, &err));
	test_file_write(in_dir("served/a/x"), "hello", 5);
	test_file_write(in_dir("served-too/x"), "too", 3);
	test_file_write(in_dir("secret"), "secret", 6);
	assert_int_equal(symlink("../secret", in_dir("served/secret")), 0);
	assert_int_equal(symlink("served", in_dir("link")), 0);
	assert_int_equal(symlink("../served/a/x", in_dir("served-too/back")), 0);
	assert_int_equal(mkfifo(in_dir("served/fifo"), 0600), 0);
	strcpy(root, in_dir("served"));
	strcpy(link, in_dir("link"));
	roots[0] = "/nonexistent";
	roots[1] = root;

	assert_done(file_open_below(in_dir("served/a/x"), roots, 2, &fd, &st, &err));
	assert_int_equal(st.st_size, 5);
	assert_int_equal(pread(fd, text, 5, 0), 5);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	fd_close(&fd);
	assert_done(file_open_below(in_dir("link/a/../a/x"), roots, 2, &fd, &st, &err));
	fd_close(&fd);
	assert_done(file_open_below(in_dir("served-too/back"), roots, 2, &fd, &st, &err));
	fd_close(&fd);
	assert_int_equal(file_open_below(in_dir("served/none"), roots, 2, &fd, &st, &err), FILE_MISSING);
	assert_int_equal(file_open_below(in_dir("served/secret"), roots, 2, &fd, &st, &err), FILE_OUTSIDE);
	assert_int_equal(file_open_below(in_dir("served/../secret"), roots, 2, &fd, &st, &err), FILE_OUTSIDE);
	assert_int_equal(file_open_below(in_dir("served-too/x"), roots, 2, &fd, &st, &err), FILE_OUTSIDE);
	assert_int_equal(file_open_below("/proc/self/root/etc/passwd", roots, 2, &fd, &st, &err),
			 FILE_OUTSIDE);
	assert_int_equal(file_open_below("/dev/zero", roots, 2, &fd, &st, &err), FILE_OUTSIDE);
	assert_fails(file_open_below(in_dir("served/fifo"), roots, 2, &fd, &st, &err), ERR_INVALID,
		     "not a regular file");
	assert_fails(file_open_below(in_dir("served/a"), roots, 2, &fd, &st, &err), ERR_INVALID,
		     "not a regular file");
	/* A root may be a link, one file, or the root folder. */
	roots[0] = link;
	assert_done(file_open_below(in_dir("served/a/x"), roots, 1, &fd, &st, &err));
	fd_close(&fd);
	strcpy(root, in_dir("secret"));
	roots[0] = root;
	assert_done(file_open_below(in_dir("served/secret"), roots, 1, &fd, &st, &err));
	fd_close(&fd);
	roots[0] = "/";
	assert_done(file_open_below(in_dir("secret"), roots, 1, &fd, &st, &err));
	fd_close(&fd);
	assert_int_equal(file_open_below(in_dir("secret"), NULL, 0, &fd, &st, &err), FILE_OUTSIDE);
}

struct swapper {
	pthread_t thread;
	atomic_bool stop;
	char name[2 * TEST_PATH_SIZE], temp[2 * TEST_PATH_SIZE], good[2 * TEST_PATH_SIZE],
		bad[2 * TEST_PATH_SIZE];
};

static void *swap_links(void *arg)
{
	struct swapper *w = arg;

	for (unsigned i = 0; !atomic_load(&w->stop); i++) {
		if (symlink(i % 2 ? w->good : w->bad, w->temp) < 0 || rename(w->temp, w->name) < 0)
			return w;
	}
	return NULL;
}

static void a_link_that_changes_meanwhile_gives_nothing_away(void **state)
{
	struct swapper w = { 0 };
	const char *roots[] = { w.name };
	char root[2 * TEST_PATH_SIZE], text[8];
	unsigned n_open = 0, n_outside = 0;
	struct err err = { 0 };
	struct stat st;
	void *failed;

	assert_done(dir_make(in_dir("served"), 0755, &err));
	strcpy(root, in_dir("served"));
	roots[0] = root;
	strcpy(w.name, in_dir("served/name"));
	strcpy(w.temp, in_dir("served/temp"));
	strcpy(w.good, in_dir("served/good"));
	strcpy(w.bad, in_dir("secret"));
	test_file_write(w.good, "good", 4);
	test_file_write(w.bad, "evil", 4);
	assert_int_equal(symlink(w.good, w.name), 0);
	assert_int_equal(pthread_create(&w.thread, NULL, swap_links, &w), 0);
	for (unsigned i = 0; i < 1000000 && (i < 20000 || !n_open || !n_outside); i++) {
		AUTO(fd_close) int fd = -1;
		int r = file_open_below(w.name, roots, 1, &fd, &st, &err);

		assert_true(r == 0 || r == FILE_OUTSIDE);
		n_open += r == 0;
		n_outside += r != 0;
		if (r == 0 && (pread(fd, text, 4, 0) != 4 || memcmp(text, "good", 4) != 0))
			fail_msg("a file outside was opened");
	}
	atomic_store(&w.stop, true);
	pthread_join(w.thread, &failed);
	assert_null(failed);
	assert_true(n_open && n_outside);
}

static void closing_keeps_errno_and_accepts_minus_one(void **state)
{
	int fd = -1, other;

	fd_close(&fd);
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	other = TAKE_FD(fd);
	assert_int_equal(fd, -1);
	errno = EPIPE;
	fd_close(&other);
	assert_int_equal(errno, EPIPE);
	assert_int_equal(other, -1);
}

static void reads_and_writes_at_a_place(void **state)
{
	AUTO(fd_close) int fd = open(in_dir("x"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	struct err err = { 0 };
	char b[16];
	size_t got;

	assert_done(fd_pwrite(fd, "world", 5, 6, &err));
	assert_done(fd_pwrite(fd, "hello ", 6, 0, &err));
	assert_done(fd_pread(fd, b, sizeof(b), 0, &got, &err));
	assert_int_equal(got, 11);
	assert_memory_equal(b, "hello world", 11);
	assert_done(fd_pread(fd, b, 5, 6, &got, &err));
	assert_int_equal(got, 5);
	assert_done(fd_pread(fd, b, 5, 100, &got, &err));
	assert_int_equal(got, 0);

	assert_fails(fd_pread(fd, b, 5, UINT64_MAX - 2, &got, &err), ERR_IO, "read at 18446744073709551613");
	assert_fails(fd_pwrite(fd, b, 5, INT64_MAX, &err), ERR_IO, "write at");
	assert_fails(fd_pread(-1, b, 5, 0, &got, &err), ERR_IO, "Bad file descriptor");
	assert_fails(fd_pwrite(-1, b, 5, 0, &err), ERR_IO, "Bad file descriptor");
	assert_fails(fd_write(-1, b, 5, &err), ERR_IO, "Bad file descriptor");
}

static void whole_files_within_a_limit(void **state)
{
	AUTO(buf_done) struct buf b = { 0 };
	struct err err = { 0 };
	char big[10000];

	test_fill(big, sizeof(big), 1);
	test_file_write(in_dir("x"), big, sizeof(big));
	assert_done(file_read(in_dir("x"), sizeof(big), &b, &err));
	assert_int_equal(b.size, sizeof(big));
	assert_memory_equal(b.p, big, sizeof(big));
	assert_fails(file_read(in_dir("x"), sizeof(big) - 1, &b, &err), ERR_LIMIT, "longer than 9999 bytes");
	assert_int_equal(b.size, sizeof(big)); /* a failure leaves the result as it was */
	assert_int_equal(file_read(in_dir("none"), 10, &b, &err), FILE_MISSING);
	assert_fails(file_read(dir, 10, &b, &err), ERR_INVALID, "not a regular file");

	test_file_write(in_dir("empty"), "", 0);
	assert_done(file_read(in_dir("empty"), 0, &b, &err));
	assert_int_equal(b.size, 0);

	/* These have content, though stat() reports 0 bytes. */
	assert_done(file_read("/proc/self/stat", 4096, &b, &err));
	assert_true(b.size > 20);
	assert_fails(file_read("/proc/self/stat", 20, &b, &err), ERR_LIMIT, "longer than 20 bytes");
	assert_fails(file_read("/proc/self/stat", 0, &b, &err), ERR_LIMIT, "longer than 0 bytes");
	assert_fails(file_read("/proc/self/mem", 20, &b, &err), ERR_IO, "/proc/self/mem: read at 0: ");
	assert_done(file_read("/proc/self/smaps", MIB(4), &b, &err));
	assert_true(b.size > 4096);
}

/* A regular file is replaced; anything else is written to. */
static void a_device_or_pipe_is_written_to(void **state)
{
	AUTO(file_temp_done) struct file_temp t = FILE_TEMP_NONE;
	AUTO(buf_done) struct buf b = { 0 };
	struct err err = { 0 };
	char text[8] = "";
	struct stat st;
	int fd;

	assert_int_equal(mkfifo(in_dir("pipe"), 0600), 0);
	fd = open(in_dir("pipe"), O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_done(file_write_named(in_dir("pipe"), "one", 3, 0644, &err));
	assert_int_equal(read(fd, text, sizeof(text)), 3);
	assert_string_equal(text, "one");
	assert_fails(file_temp_open(in_dir("pipe"), 0600, &t, &err), ERR_INVALID, "not a regular file");
	assert_int_equal(stat(in_dir("pipe"), &st), 0);
	assert_true(S_ISFIFO(st.st_mode));
	close(fd);
	assert_done(file_write_named(in_dir("x"), "two", 3, 0644, &err));
	assert_done(file_read(in_dir("x"), 100, &b, &err));
	assert_str(buf_str(&b), "two");
}

static void a_durable_write_replaces(void **state)
{
	AUTO(buf_done) struct buf b = { 0 };
	struct err err = { 0 };
	struct stat st;

	assert_done(file_write_durable(in_dir("x"), "one", 3, 0644, &err));
	assert_done(file_write_durable(in_dir("x"), "two two", 7, 0600, &err));
	assert_done(file_read(in_dir("x"), 100, &b, &err));
	assert_str(buf_str(&b), "two two");
	assert_int_equal(stat(in_dir("x"), &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_done(file_write_durable(in_dir("x"), NULL, 0, 0600, &err));
	assert_int_equal(count_files(), 1);
	/* The longest possible name: that of the temporary file does not build on it. */
	{
		char name[256];

		memset(name, 'n', 255);
		name[255] = '\0';
		assert_done(file_write_durable(in_dir(name), "x", 1, 0600, &err));
	}
	assert_int_equal(chdir(dir), 0);
	assert_done(file_write_durable("rel", "x", 1, 0600, &err));
	assert_int_equal(chdir("/"), 0);
	assert_int_equal(count_files(), 3);
}

static int replace_at_once(const char *path, struct err *err)
{
	return file_write_durable(path, "two", 3, 0600, err);
}

static int replace_in_pieces(const char *path, struct err *err)
{
	AUTO(file_temp_done) struct file_temp t = FILE_TEMP_NONE;

	if (file_temp_open(path, 0600, &t, err) < 0 || fd_write(t.fd, "two", 3, err) < 0)
		return -1;
	return file_temp_commit(&t, err);
}

/* The bytes are on disk before the name is, and the name before the call returns. */
static void a_durable_write_is_synced_before_it_is_named(void **state)
{
	static int (*const ways[])(const char *path, struct err *err) = { replace_at_once,
									  replace_in_pieces };

	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		AUTO(buf_done) struct buf b = { 0 };
		char path[2 * TEST_PATH_SIZE];
		struct err err = { 0 };

		snprintf(path, sizeof(path), "%s/x", dir);
		test_file_write(path, "one", 3);
		memset(&syncs, 0, sizeof(syncs));
		syncs.path = path;
		syncs.fails = 'f';
		assert_fails(ways[i](path, &err), ERR_IO, "sync");
		assert_string_equal(syncs.calls, "f");
		assert_int_equal(count_files(), 1);
		assert_done(file_read(path, 100, &b, &err));
		assert_str(buf_str(&b), "one");
		memset(&syncs.calls, 0, sizeof(syncs.calls));
		syncs.fails = 'd';
		assert_fails(ways[i](path, &err), ERR_IO, "sync");
		syncs.fails = 0;
		memset(&syncs.calls, 0, sizeof(syncs.calls));
		assert_done(ways[i](path, &err));
		assert_string_equal(syncs.calls, "fd");
		syncs.path = NULL;
		b.size = 0;
		assert_done(file_read(path, 100, &b, &err));
		assert_str(buf_str(&b), "two");
	}
}

static void a_failed_durable_write_leaves_all_as_it_was(void **state)
{
	AUTO(buf_done) struct buf b = { 0 };
	struct rlimit old, low = { .rlim_cur = 1000 };
	static char big[5000];
	struct err err = { 0 };

	assert_fails(file_write_durable(in_dir("no/x"), "x", 1, 0600, &err), ERR_IO, "No such file");

	assert_int_equal(mkdir(in_dir("d"), 0700), 0);
	assert_fails(file_write_durable(in_dir("d"), "x", 1, 0600, &err), ERR_IO, "rename");
	assert_int_equal(count_files(), 1);

	/* The disk is full in the middle of the write. */
	assert_done(file_write_durable(in_dir("x"), "one", 3, 0644, &err));
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &old);
	low.rlim_max = old.rlim_max;
	setrlimit(RLIMIT_FSIZE, &low);
	err.kind = ERR_NONE;
	assert_int_equal(file_write_durable(in_dir("x"), big, sizeof(big), 0644, &err), -1);
	setrlimit(RLIMIT_FSIZE, &old);
	assert_int_equal(err.kind, ERR_IO);
	assert_int_equal(err.os, EFBIG);
	assert_int_equal(count_files(), 2);
	assert_done(file_read(in_dir("x"), 100, &b, &err));
	assert_str(buf_str(&b), "one");
}

static void folders_are_made_with_their_parents(void **state)
{
	struct err err = { 0 };
	struct stat st;

	assert_done(dir_make(in_dir("a//b/c/"), 0755, &err));
	assert_done(dir_make(in_dir("a/b/c"), 0755, &err));
	assert_int_equal(stat(in_dir("a/b/c"), &st), 0);
	assert_true(S_ISDIR(st.st_mode));
	assert_done(dir_make("/", 0755, &err));
	assert_done(dir_sync(in_dir("a"), &err));

	test_file_write(in_dir("f"), "", 0);
	assert_fails(dir_make(in_dir("f"), 0755, &err), ERR_IO, "Not a directory");
	assert_fails(dir_make(in_dir("f/x"), 0755, &err), ERR_IO, "Not a directory");
	assert_fails(dir_sync(in_dir("f"), &err), ERR_IO, "Not a directory");
	assert_fails(dir_make("/proc/none/x", 0755, &err), ERR_IO, "/proc/none: mkdir: No such file");
	assert_fails(dir_sync("/proc", &err), ERR_IO, "/proc: sync: ");
	assert_fails(dir_sync(in_dir("none"), &err), ERR_IO, "No such file");
}

static void mappings(void **state)
{
	struct mapping m = { 0 };
	struct err err = { 0 };

	mapping_done(&m);
	test_file_write(in_dir("x"), "hello", 5);
	assert_done(mapping_open(in_dir("x"), &m, &err));
	assert_true(bytes_eq(m.bytes, bytes_of("hello", 5)));
	mapping_done(&m);
	assert_null(m.bytes.p);
	test_file_write(in_dir("empty"), "", 0);
	assert_done(mapping_open(in_dir("empty"), &m, &err));
	assert_int_equal(m.bytes.size, 0);
	mapping_done(&m);
	assert_int_equal(mapping_open(in_dir("none"), &m, &err), FILE_MISSING);
	assert_fails(mapping_open(dir, &m, &err), ERR_INVALID, "not a regular file");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(only_regular_files_are_opened, setup, teardown),
		cmocka_unit_test_setup_teardown(a_path_of_others_leads_to_files_below_the_roots, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_link_that_changes_meanwhile_gives_nothing_away, setup,
						teardown),
		cmocka_unit_test_setup_teardown(closing_keeps_errno_and_accepts_minus_one, setup, teardown),
		cmocka_unit_test_setup_teardown(reads_and_writes_at_a_place, setup, teardown),
		cmocka_unit_test_setup_teardown(whole_files_within_a_limit, setup, teardown),
		cmocka_unit_test_setup_teardown(a_device_or_pipe_is_written_to, setup, teardown),
		cmocka_unit_test_setup_teardown(a_durable_write_replaces, setup, teardown),
		cmocka_unit_test_setup_teardown(a_durable_write_is_synced_before_it_is_named, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_failed_durable_write_leaves_all_as_it_was, setup, teardown),
		cmocka_unit_test_setup_teardown(folders_are_made_with_their_parents, setup, teardown),
		cmocka_unit_test_setup_teardown(mappings, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
