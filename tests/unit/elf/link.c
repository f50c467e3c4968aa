/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "elf/elf.h"
#include "elf_writer.h"

static const uint8_t id20[20] = "abcdefghijklmnopqrs";

struct input {
	struct elf_writer w;
	struct buf bytes;
	struct source *src;
	struct elf_image *img;
	struct arena a;
};

static void input_open(struct input *f)
{
	struct err err = { 0 };

	elf_writer_finish(&f->w, &f->bytes);
	f->src = source_of_mem(buf_bytes(&f->bytes), "x");
	assert_done(elf_open(f->src, &f->img, &err));
}

static void input_done(struct input *f)
{
	arena_done(&f->a);
	elf_close(f->img);
	source_close(f->src);
	buf_done(&f->bytes);
	elf_writer_done(&f->w);
}

static void debug_link_of_every_target(void **state)
{
	static const char *const names[] = { "", "a", "abc", "abcd", "libfoo-1.2.so.debug" };

	for (int target = 0; target < ELF_WRITER_N_TARGETS; target++)
		for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
			AUTO(input_done) struct input f = { 0 };
			struct err err = { 0 };
			struct str name;
			uint32_t crc;

			elf_writer_init(&f.w, target, ET_DYN);
			elf_writer_debug_link(&f.w, names[i], 0x12345678);
			input_open(&f);
			assert_done(elf_debug_link(f.img, &f.a, &name, &crc, &err));
			assert_str(name, names[i]);
			assert_int_equal(crc, 0x12345678);
		}
}

static void missing_links(void **state)
{
	AUTO(input_done) struct input f = { 0 };
	struct build_id id;
	struct err err = { 0 };
	struct str s;
	uint32_t crc;

	elf_writer_init(&f.w, ELF_WRITER_X86_64, ET_DYN);
	elf_writer_nobits(&f.w, ".gnu_debuglink", 0, 100);
	elf_writer_section(&f.w, ".gnu_debugaltlink", SHT_PROGBITS, 0, bytes_of("", 0));
	input_open(&f);
	assert_int_equal(elf_debug_link(f.img, &f.a, &s, &crc, &err), ELF_NO_LINK);
	assert_int_equal(elf_alt_link(f.img, &f.a, &s, &id, &err), ELF_NO_LINK);
}

static void damaged_debug_links(void **state)
{
	static const struct {
		const char *p;
		size_t size;
	} cases[] = { { "name without end", 16 }, { "name\0\0\0\0\1\2\3", 11 }, { "x", 1 }, { "name", 5 } };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO(input_done) struct input f = { 0 };
		struct err err = { 0 };
		struct str s;
		uint32_t crc;

		elf_writer_init(&f.w, ELF_WRITER_X86_64, ET_DYN);
		elf_writer_section(&f.w, ".gnu_debuglink", SHT_PROGBITS, 0,
				   bytes_of(cases[i].p, cases[i].size));
		input_open(&f);
		assert_fails(elf_debug_link(f.img, &f.a, &s, &crc, &err), ERR_INVALID,
			     ".gnu_debuglink ends early");
	}
}

static void a_link_section_that_is_too_large_is_a_limit(void **state)
{
	AUTO(mem_freep) char *much = mem_zalloc(KIB(9));
	AUTO(input_done) struct input f = { 0 };
	struct build_id id;
	struct err err = { 0 };
	struct str s;
	uint32_t crc;

	elf_writer_init(&f.w, ELF_WRITER_X86_64, ET_DYN);
	elf_writer_section(&f.w, ".gnu_debuglink", SHT_PROGBITS, 0, bytes_of(much, KIB(9)));
	elf_writer_section(&f.w, ".gnu_debugaltlink", SHT_PROGBITS, 0, bytes_of(much, KIB(9)));
	input_open(&f);
	assert_fails(elf_debug_link(f.img, &f.a, &s, &crc, &err), ERR_LIMIT, ".gnu_debuglink");
	assert_fails(elf_alt_link(f.img, &f.a, &s, &id, &err), ERR_LIMIT, ".gnu_debugaltlink");
}

static void alt_link(void **state)
{
	AUTO(input_done) struct input f = { 0 };
	struct build_id id;
	struct err err = { 0 };
	struct str path;

	elf_writer_init(&f.w, ELF_WRITER_S390X, ET_DYN);
	elf_writer_alt_link(&f.w, "../../.dwz/x86_64/foo.debug", bytes_of(id20, 20));
	input_open(&f);
	assert_done(elf_alt_link(f.img, &f.a, &path, &id, &err));
	assert_str(path, "../../.dwz/x86_64/foo.debug");
	assert_true(bytes_eq(build_id_bytes(&id), bytes_of(id20, 20)));
}

static void debug_sup_links_unless_it_is_the_supplementary_file_itself(void **state)
{
	for (int is_sup = 0; is_sup < 2; is_sup++)
		for (int target = 0; target < ELF_WRITER_N_TARGETS; target++) {
			AUTO(input_done) struct input f = { 0 };
			struct build_id id;
			struct err err = { 0 };
			struct str path;

			elf_writer_init(&f.w, target, ET_DYN);
			elf_writer_debug_sup(&f.w, is_sup, "/usr/lib/debug/.dwz/x", bytes_of(id20, 20));
			input_open(&f);
			if (is_sup) {
				assert_int_equal(elf_alt_link(f.img, &f.a, &path, &id, &err), ELF_NO_LINK);
				continue;
			}
			assert_done(elf_alt_link(f.img, &f.a, &path, &id, &err));
			assert_str(path, "/usr/lib/debug/.dwz/x");
			assert_true(bytes_eq(build_id_bytes(&id), bytes_of(id20, 20)));
		}
}

static void damaged_alt_links(void **state)
{
	static const struct {
		const char *section, *p;
		size_t size;
		const char *text;
	} cases[] = {
		{ ".gnu_debugaltlink", "no end", 6, "ends early" },
		{ ".gnu_debugaltlink", "no id", 6, "of 0 bytes" },
		{ ".debug_sup", "\5\0\0no end", 9, "ends early" },
		{ ".debug_sup", "\5", 1, "ends early" },
		{ ".debug_sup", "\5\0\0x\0\20abc", 9, "ends early" },
		{ ".debug_sup", "\5\0\0x\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 15, "ends early" },
		{ ".debug_sup", "\5\0\0x\0\0", 6, "of 0 bytes" },
		{ ".debug_sup", "\7\0\0x\0\1a", 7, "version 7" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO(input_done) struct input f = { 0 };
		struct build_id id;
		struct err err = { 0 };
		struct str path;

		elf_writer_init(&f.w, ELF_WRITER_X86_64, ET_DYN);
		elf_writer_section(&f.w, cases[i].section, SHT_PROGBITS, 0,
				   bytes_of(cases[i].p, cases[i].size));
		input_open(&f);
		assert_fails(elf_alt_link(f.img, &f.a, &path, &id, &err), ERR_INVALID, cases[i].text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(debug_link_of_every_target),
		cmocka_unit_test(missing_links),
		cmocka_unit_test(damaged_debug_links),
		cmocka_unit_test(a_link_section_that_is_too_large_is_a_limit),
		cmocka_unit_test(alt_link),
		cmocka_unit_test(debug_sup_links_unless_it_is_the_supplementary_file_itself),
		cmocka_unit_test(damaged_alt_links),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
