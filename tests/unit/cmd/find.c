/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode find: the items of targets, and the line of progress.
 */
#include "test.h"

#include <fcntl.h>
#include "cmd/find/find.h"
#include "elf_writer.h"

#define ID_A "aa00000000000000000000000000000000000000"

struct fixture {
	char dir[TEST_PATH_SIZE];
	struct settings s;
	struct finder f;
};

static int set_up(void **state)
{
	struct fixture *x = NEW(struct fixture);

	test_dir_make(x->dir);
	settings_init(&x->s, &find_command, commands);
	x->f.s = &x->s;
	arena_init(&x->f.a);
	*state = x;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *x = *state;

	arena_done(&x->f.a);
	settings_done(&x->s);
	test_dir_remove(x->dir);
	free(x);
	return 0;
}

static const char *in_dir(struct fixture *x, const char *name)
{
	return arena_printf(&x->f.a, "%s/%s", x->dir, name);
}

static const char *write_program(struct fixture *x, const char *name)
{
	const char *path = in_dir(x, name);
	AUTO(buf_done) struct buf b = { 0 };

	elf_writer_program(&b, ET_DYN, ID_A, 1000);
	test_file_write(path, b.p, b.size);
	return path;
}

static void hexadecimal_digits_are_a_build_id(void **state)
{
	struct fixture *x = *state;
	struct err err = { 0 };
	char longest[2 * BUILD_ID_MAX + 3], hex[BUILD_ID_HEX_SIZE];

	assert_done(find_target(&x->f, STR("abcd"), &err));
	assert_done(find_target(&x->f, STR("ABcd01"), &err));
	memset(longest, 'a', sizeof(longest));
	assert_done(find_target(&x->f, (struct str){ longest, 2 * BUILD_ID_MAX }, &err));
	assert_int_equal(x->f.n_items, 3);
	assert_string_equal(build_id_hex(&x->f.items[1]->id, hex), "abcd01");
	assert_string_equal(x->f.items[1]->name, "abcd01");
	assert_null(x->f.items[1]->open_path);
	/* A text that is not a build ID is the path of a file. */
	assert_fails(find_target(&x->f, STR("abc"), &err), ERR_IO, "two hexadecimal digits a byte");
	assert_fails(find_target(&x->f, (struct str){ longest, sizeof(longest) - 1 }, &err), ERR_IO,
		     "at most 84 bytes");
	assert_fails(find_target(&x->f, STR(""), &err), ERR_IO, "there is no such file");
	assert_int_equal(x->f.n_items, 3);
}

static void files_are_elf_files_packed_or_not(void **state)
{
	struct fixture *x = *state;
	const char *path = write_program(x, "abcd");
	struct err err = { 0 };
	char hex[BUILD_ID_HEX_SIZE];

	assert_done(find_target(&x->f, str_of(path), &err));
	assert_string_equal(x->f.items[0]->name, path);
	assert_string_equal(x->f.items[0]->open_path, path);
	assert_string_equal(build_id_hex(&x->f.items[0]->id, hex), ID_A);
	test_file_write(in_dir(x, "text"), "text", 4);
	assert_fails(find_target(&x->f, str_of(in_dir(x, "text")), &err), ERR_INVALID,
		     "not an ELF file, but a text file");
	test_file_write(in_dir(x, "empty"), "", 0);
	assert_fails(find_target(&x->f, str_of(in_dir(x, "empty")), &err), ERR_INVALID, "an empty file");
	test_file_write(in_dir(x, "bad.gz"), "\x1f\x8b\x08\0\0\0\0\0\0\0nonsense", 18);
	assert_true(find_target(&x->f, str_of(in_dir(x, "bad.gz")), &err) < 0);
	assert_true(find_target(&x->f, str_of(x->dir), &err) < 0);
	/* The suffix alone does not make a package. */
	test_file_write(in_dir(x, "x.deb"), "text", 4);
	assert_fails(find_target(&x->f, str_of(in_dir(x, "x.deb")), &err), ERR_INVALID, "a text file");
	assert_int_equal(x->f.n_items, 1);
}

static void items_have_a_limit(void **state)
{
	struct fixture *x = *state;
	struct err err = { 0 };

	for (unsigned i = 0; i < FIND_MAX_ITEMS; i++)
		assert_non_null(find_add(&x->f, "x", NULL, NULL, &err));
	assert_null(find_add(&x->f, "x", NULL, NULL, &err));
	assert_int_equal(err.kind, ERR_LIMIT);
}

/* ---- packages ---- */

static void an_installed_package_is_read_from_dpkgs_list(void **state)
{
	static const char *const lists[] = { "one.list", "two:amd64.list" };
	struct fixture *x = *state;
	struct err err = { 0 };

	x->s.find.sysroot = x->dir;
	assert_fails(find_package(&x->f, "one", &err), ERR_IO, "there is neither dpkg here");
	assert_done(dir_make(in_dir(x, "var/lib/dpkg/info"), 0755, &err));
	assert_done(dir_make(in_dir(x, "usr/bin"), 0755, &err));
	write_program(x, "usr/bin/x");
	assert_int_equal(symlink("x", in_dir(x, "usr/bin/link")), 0);
	test_file_write(in_dir(x, "usr/bin/script"), "#!/bin/sh\n", 10);
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		static const char text[] =
			"/.\n/usr\n/usr/bin\n\n/usr/bin/gone\n/usr/bin/link\n/usr/bin/script\n/usr/bin/x\n";

		test_file_write(arena_printf(&x->f.a, "%s/var/lib/dpkg/info/%s", x->dir, lists[i]), text,
				sizeof(text) - 1);
	}
	assert_done(find_package(&x->f, "one", &err));
	assert_done(find_package(&x->f, "two", &err));
	assert_int_equal(x->f.n_items, 2);
	assert_string_equal(x->f.items[1]->name, in_dir(x, "usr/bin/x"));
	test_file_write(in_dir(x, "var/lib/dpkg/info/none.list"), "/usr/bin/script\n", 16);
	assert_fails(find_package(&x->f, "none", &err), ERR_INVALID, "package none has no ELF file");
	assert_fails(find_package(&x->f, "three", &err), ERR_IO,
		     "package three is not installed: it is not in");
	assert_fails(find_package(&x->f, "", &err), ERR_INVALID, "the name of a package cannot be empty");
	assert_fails(find_package(&x->f, "../../etc/passwd", &err), ERR_IO, "../../etc/passwd");
}

/* ---- processes, kernels ---- */

static void a_process_has_its_program_mapped(void **state)
{
	struct fixture *x = *state;
	struct err err = { 0 };
	char pid[32], self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	bool found = false;

	assert_true(n > 0);
	self[n] = '\0';
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	assert_done(find_process(&x->f, pid, &err));
	for (size_t i = 0; i < x->f.n_items; i++) {
		found |= strcmp(x->f.items[i]->name, self) == 0;
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(x->f.items[i]->name, x->f.items[k]->name);
	}
	assert_true(found);
	assert_fails(find_process(&x->f, "x", &err), ERR_INVALID, "is not the number of a process");
	assert_fails(find_process(&x->f, "-1", &err), ERR_INVALID, "is not the number of a process");
	assert_fails(find_process(&x->f, "../1", &err), ERR_INVALID, "is not the number of a process");
	assert_fails(find_process(&x->f, "99999999999", &err), ERR_IO, "there is no process");
}

static void a_kernel_gives_vmlinux_and_its_modules(void **state)
{
	struct fixture *x = *state;
	struct err err = { 0 };

	x->s.find.sysroot = x->dir;
	assert_done(dir_make(in_dir(x, "lib/modules/1.0/kernel/deep/er"), 0755, &err));
	assert_done(dir_make(in_dir(x, "boot"), 0755, &err));
	write_program(x, "boot/vmlinux-1.0");
	write_program(x, "lib/modules/1.0/kernel/b.ko");
	write_program(x, "lib/modules/1.0/kernel/deep/er/a.ko");
	test_file_write(in_dir(x, "lib/modules/1.0/modules.dep"), "x", 1);
	assert_int_equal(symlink("/", in_dir(x, "lib/modules/1.0/source")), 0); /* is not walked */
	assert_done(find_kernel(&x->f, "1.0", &err));
	assert_int_equal(x->f.n_items, 3);
	assert_string_equal(x->f.items[0]->open_path, in_dir(x, "boot/vmlinux-1.0"));
	assert_true(x->f.items[1]->packed);
	assert_fails(find_kernel(&x->f, "2.0", &err), ERR_IO, "lib/modules/2.0");
	assert_fails(find_kernel(&x->f, "../..", &err), ERR_INVALID, "is not a kernel release");
	assert_fails(find_kernel(&x->f, "%s%s", &err), ERR_INVALID, "is not a kernel release");
}

static void a_file_that_is_not_a_core_dump_is_an_error(void **state)
{
	struct fixture *x = *state;
	struct err err = { 0 };

	assert_fails(find_core(&x->f, in_dir(x, "none"), &err), ERR_IO, "there is no such file");
	assert_fails(find_core(&x->f, write_program(x, "x"), &err), ERR_INVALID, "not a core dump");
	test_file_write(in_dir(x, "text"), "text", 4);
	assert_fails(find_core(&x->f, in_dir(x, "text"), &err), ERR_INVALID, "not an ELF file");
}

/* ---- progress ---- */

/* The line for this state after @elapsed_ms. */
static const char *shown(struct fixture *x, const struct client_progress *p, int64_t elapsed_ms)
{
	const char *path = in_dir(x, "stderr");
	AUTO(buf_done) struct buf b = { 0 };
	struct err err = { 0 };
	int keep = dup(STDERR_FILENO), fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(keep >= 0 && fd >= 0);
	dup2(fd, STDERR_FILENO);
	find_show_progress(p, clock_mono_ms() - elapsed_ms);
	dup2(keep, STDERR_FILENO);
	close(keep);
	close(fd);
	assert_done(file_read(path, KIB(64), &b, &err));
	return arena_strdup(&x->f.a, buf_str(&b));
}

static void time_left_is_by_bytes_or_by_files(void **state)
{
	struct fixture *x = *state;
	struct client_progress p = {
		.n = 4, .n_done = 1, .n_found = 1, .bytes = 5000000, .bytes_expected = 20000000
	};

	clock_test_freeze(1000000);
	assert_string_equal(shown(x, &p, 10000),
			    "\r\033[K[#####               ] 1 of 4, 5.0 MB of 20.0 MB, 500 kB/s, 30 s left");
	/* Without all sizes, by the files that are done. */
	p.n_unsized = 1;
	assert_string_equal(
		shown(x, &p, 10000),
		"\r\033[K[#####               ] 1 of 4, 5.0 MB of at least 20.0 MB, 500 kB/s, 30 s left");
	p = (struct client_progress){ .n = 4, .n_unsized = 4 };
	assert_string_equal(shown(x, &p, 10000), "\r\033[K[                    ] 0 of 4, 0 B");
	/* More bytes have arrived than were announced. */
	p = (struct client_progress){ .n = 2, .n_done = 1, .bytes = 300, .bytes_expected = 200 };
	assert_string_equal(shown(x, &p, 1000),
			    "\r\033[K[####################] 1 of 2, 300 B, 300 B/s, 1 not found");
	p = (struct client_progress){ 0 };
	assert_non_null(shown(x, &p, 0));
	clock_test_thaw();
}

#define WITH(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH(hexadecimal_digits_are_a_build_id),
		WITH(files_are_elf_files_packed_or_not),
		WITH(items_have_a_limit),
		WITH(an_installed_package_is_read_from_dpkgs_list),
		WITH(a_process_has_its_program_mapped),
		WITH(a_kernel_gives_vmlinux_and_its_modules),
		WITH(a_file_that_is_not_a_core_dump_is_an_error),
		WITH(time_left_is_by_bytes_or_by_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
