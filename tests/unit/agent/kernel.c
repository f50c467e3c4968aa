/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of the kernel's functions, from texts like /proc/kallsyms.
 */
#include "test.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/kernel.h"

static const char usual[] = "0000000000000000 A fixed_percpu_data\n"
			    "ffffffff81000000 T _text\n"
			    "ffffffff81000000 T _stext\n"
			    "ffffffff81001000 t helper\n"
			    "ffffffff81001000 T global\n"
			    "ffffffff81002000 D data\n"
			    "ffffffff81003000 W weak\n"
			    "ffffffff82000000 T _etext\n"
			    "ffffffffc0201000 t mod_init\t[mod]\n"
			    "ffffffffc0202000 t bpf_prog_0123_x\t[bpf]\n";

static struct kernel_names *names_of(const char *text)
{
	struct kernel_names *k = kernel_names_new("/nonexistent");

	kernel_names_load(k, str_of(text));
	return k;
}

static const char *name_at(struct kernel_names *k, uint64_t addr)
{
	static char text[64];
	struct kernel_symbol s;

	if (!kernel_names_at(k, addr, &s))
		return "-";
	snprintf(text, sizeof(text), STR_FMT "|" STR_FMT "|%llx", STR_ARG(s.name), STR_ARG(s.module),
		 (unsigned long long)s.start);
	return text;
}

static void a_function_reaches_to_the_next_one(void **state)
{
	struct kernel_names *k = names_of(usual);
	uint64_t text;

	assert_int_equal(kernel_names_state(k, &text), KERNEL_NAMED);
	assert_int_equal(text, 0xffffffff81000000);
	assert_string_equal(name_at(k, 0xffffffff81001fff), "global||ffffffff81001000");
	assert_string_equal(name_at(k, 0xffffffff81002fff), "global||ffffffff81001000");
	assert_string_equal(name_at(k, 0xffffffff81003000), "weak||ffffffff81003000");
	assert_string_equal(name_at(k, 0xffffffff80ffffff), "-");
	assert_string_equal(name_at(k, 0x1000), "-");
	kernel_names_free(k);
}

static void modules_and_bpf_programs_have_their_module(void **state)
{
	struct kernel_names *k = names_of(usual);

	assert_string_equal(name_at(k, 0xffffffffc0201010), "mod_init|mod|ffffffffc0201000");
	assert_string_equal(name_at(k, 0xffffffffc0202010), "bpf_prog_0123_x|bpf|ffffffffc0202000");
	/* So far from it another module or program must be: it was loaded later. */
	assert_string_equal(name_at(k, 0xffffffffc0212010), "-");
	kernel_names_free(k);
}

static void hidden_addresses_are_a_state_and_no_end(void **state)
{
	struct kernel_names *k = names_of("0000000000000000 T _text\n0000000000000000 t f\n");
	uint64_t text;

	assert_int_equal(kernel_names_state(k, &text), KERNEL_HIDDEN);
	assert_int_equal(text, 0);
	assert_string_equal(name_at(k, 0xffffffff81001000), "-");
	kernel_names_load(k, STR(""));
	assert_int_equal(kernel_names_state(k, &text), KERNEL_MISSING);
	kernel_names_load(k, STR("garbage\n\n T\nffffffff81000000\nffffffff81000000 T\n"));
	assert_int_equal(kernel_names_state(k, &text), KERNEL_MISSING);
	kernel_names_free(k);
}

static void the_names_of_a_kernel_take_four_megabytes(void **state)
{
	AUTO(buf_done) struct buf text = { 0 };
	struct kernel_names *k = names_of("");
	size_t n;

	for (unsigned i = 0; i < 122000; i++)
		buf_printf(&text, "%llx t a_function_of_25_bytes_%05x\n", 0xffffffff81000000ull + i * 64,
			   i & 0xfffff);
	assert_int_equal(kernel_names_load(k, buf_str(&text)), 122000);
	assert_true(kernel_names_size(k, &n) < 5 * 1000 * 1000);
	assert_int_equal(n, 122000);
	assert_string_equal(name_at(k, 0xffffffff81000041), "a_function_of_25_bytes_00001||ffffffff81000040");
	kernel_names_free(k);
}

/* As for a moment without a descriptor, or without memory for the kernel's text. */
static void names_stay_while_the_file_cannot_be_read(void **state)
{
	static const char other[] = "ffffffff81000000 T _text\nffffffff81001000 T other\n"
				    "ffffffff82000000 T _etext\n";
	char dir[TEST_PATH_SIZE];
	struct kernel_names *k;
	char *path;

	test_dir_make(dir);
	path = mem_printf("%s/kallsyms", dir);
	test_file_write(path, usual, sizeof(usual) - 1);
	clock_test_freeze(1000);
	k = kernel_names_new(path);
	assert_string_equal(name_at(k, 0xffffffff81001000), "global||ffffffff81001000");
	assert_string_equal(name_at(k, 0xffffffffc0212010), "-"); /* so the file is to be read again */
	assert_int_equal(unlink(path), 0);
	clock_test_advance(60000);
	assert_false(kernel_names_refresh(k));
	assert_string_equal(name_at(k, 0xffffffff81001000), "global||ffffffff81001000");
	/* Reading it fails: a folder can be opened. */
	assert_int_equal(mkdir(path, 0700), 0);
	clock_test_advance(60000);
	assert_false(kernel_names_refresh(k));
	assert_string_equal(name_at(k, 0xffffffff81001000), "global||ffffffff81001000");
	assert_int_equal(rmdir(path), 0);
	test_file_write(path, other, sizeof(other) - 1);
	clock_test_advance(60000);
	assert_true(kernel_names_refresh(k));
	assert_string_equal(name_at(k, 0xffffffff81001000), "other||ffffffff81001000");
	clock_test_advance(60000);
	assert_false(kernel_names_refresh(k));
	kernel_names_free(k);
	clock_test_thaw();
	free(path);
	test_dir_remove(dir);
}

static void this_machine_does_not_fail(void **state)
{
	struct kernel_names *k = kernel_names_new(NULL);
	struct kernel_symbol s;
	uint64_t text;

	if (kernel_names_state(k, &text) == KERNEL_NAMED && text) {
		assert_true(kernel_names_at(k, text + 4096, &s));
		assert_true(s.name.size);
	}
	assert_false(kernel_names_refresh(k));
	kernel_names_free(k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_function_reaches_to_the_next_one),
		cmocka_unit_test(modules_and_bpf_programs_have_their_module),
		cmocka_unit_test(hidden_addresses_are_a_state_and_no_end),
		cmocka_unit_test(the_names_of_a_kernel_take_four_megabytes),
		cmocka_unit_test(names_stay_while_the_file_cannot_be_read),
		cmocka_unit_test(this_machine_does_not_fail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
