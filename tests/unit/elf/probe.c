/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "elf/elf.h"
#include "elf_writer.h"

static const uint8_t id20[20] = "abcdefghijklmnopqrs";

/* Feed @file to @p in chunks of @chunk bytes, as long as it wants more. */
static int probe(struct elf_probe *p, struct bytes file, size_t chunk, struct elf_facts *ret, size_t *ret_fed,
		 struct err *err)
{
	size_t at = 0;

	elf_probe_start(p, file.size);
	while (at < file.size && elf_probe_wants(p)) {
		/* A copy without slack: an overread by one byte is noticed. */
		size_t n = MIN(chunk, file.size - at);
		AUTO(mem_freep) uint8_t *copy = mem_alloc(n);

		memcpy(copy, file.p + at, n);
		elf_probe_feed(p, bytes_of(copy, n));
		at += n;
	}
	if (ret_fed)
		*ret_fed = at;
	return elf_probe_finish(p, ret, err);
}

/* The places of its sections are those of the image; none if its table is unsound. */
static void expect_places(struct elf_probe *p, struct source *src)
{
	AUTO(elf_closep) struct elf_image *img = NULL;
	AUTO(arena_done) struct arena a = { 0 };
	const struct elf_place *places = NULL;
	struct err err = { 0 };
	size_t n;

	arena_init(&a);
	n = elf_probe_places(p, &a, &places);
	if (elf_open(src, &img, &err) != 0 || img->sections_err.kind != ERR_NONE || !img->n_sections) {
		assert_int_equal(n, 0);
		return;
	}
	assert_int_equal(n, img->n_sections - 1);
	for (size_t i = 0; i < n; i++) {
		const struct elf_section *sec = &img->sections[i + 1];
		uint64_t off = 0, size = 0;

		assert_true(str_eq(places[i].name, sec->name));
		assert_true(elf_section_range(img, sec, &off, &size, &err) >= 0);
		assert_true(places[i].off == off && places[i].size == size);
	}
}

static void expect_aliases(const struct elf_aliases *got, const struct elf_aliases *want)
{
	assert_int_equal(got->n, want->n);
	for (unsigned i = 0; i < want->n; i++) {
		assert_int_equal(got->v[i].kind, want->v[i].kind);
		assert_true(build_id_eq(&got->v[i].id, &want->v[i].id));
	}
}

/* In chunks of any size the outcome is that of the file. */
static void expect_same(struct elf_probe *p, struct buf *file)
{
	static const size_t chunks[] = { 1, 3, 64, 1000, 4096, 4097, 65536, SIZE_MAX };
	AUTO(source_closep) struct source *src = source_of_mem(buf_bytes(file), "x");
	struct elf_facts want = { 0 };
	struct err err = { 0 }, probe_err = { 0 };
	struct elf_aliases aliases = { .n = 0 };
	enum build_id_kind kind;
	int r = elf_identify(src, &want, &kind, &aliases, &err);

	for (size_t i = 0; i < ARRAY_SIZE(chunks); i++) {
		struct elf_facts got = { 0 };

		assert_int_equal(probe(p, buf_bytes(file), chunks[i], &got, NULL, &probe_err), r);
		assert_int_equal(got.flags, want.flags);
		assert_int_equal(got.type, want.type);
		assert_int_equal(got.machine, want.machine);
		assert_true(build_id_eq(&got.build_id, &want.build_id));
		if (r < 0)
			assert_string_equal(probe_err.text, err.text);
		if (r == 0)
			expect_places(p, src);
		if (r == 0)
			expect_aliases(elf_probe_aliases(p), &aliases);
	}
}

static void programs_debug_files_and_modules(void **state)
{
	static const uint16_t types[] = { ET_EXEC, ET_DYN, ET_REL };
	static const size_t sizes[] = { 10, 3000, 5000, 100000 };
	struct elf_probe *p = elf_probe_new();

	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		for (size_t k = 0; k < ARRAY_SIZE(sizes); k++) {
			AUTO(buf_done) struct buf program = { 0 }, debug = { 0 };

			elf_writer_program(&program, types[i], "0011223344", sizes[k]);
			expect_same(p, &program);
			elf_writer_debug_file(&debug, types[i], "0011223344", sizes[k]);
			expect_same(p, &debug);
		}
	elf_probe_free(p);
}

static void other_files_are_refused_after_four_bytes(void **state)
{
	static const char *const files[] = { "#!/bin/sh\necho\n",
					     "\x7f"
					     "ELG and more",
					     "\x7f"
					     "E",
					     "x" };
	struct elf_probe *p = elf_probe_new();
	struct elf_facts f;
	struct err err;
	size_t fed;

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		for (size_t chunk = 1; chunk < 20; chunk++) {
			struct bytes b = bytes_of(files[i], strlen(files[i]));

			assert_int_equal(probe(p, b, chunk, &f, &fed, &err), ELF_NOT_ELF);
			assert_true(fed < chunk + 4);
		}
	assert_int_equal(probe(p, bytes_of("", 0), 1, &f, &fed, &err), ELF_NOT_ELF);
	elf_probe_free(p);
}

static void a_section_table_at_the_front(void **state)
{
	struct elf_probe *p = elf_probe_new();
	AUTO(mem_freep) char *much = mem_zalloc(200000);
	AUTO(elf_writer_done) struct elf_writer w = { 0 };
	AUTO(buf_done) struct buf file = { 0 };

	/* The names come after the table that has their offset, with many bytes in between and after. */
	elf_writer_init(&w, ELF_WRITER_X86_64, ET_EXEC);
	w.tables_first = true;
	w.gap = 300000;
	elf_writer_section(&w, ".text", SHT_PROGBITS, SHF_ALLOC, bytes_of(much, 200000));
	elf_writer_section(&w, ".debug_info", SHT_PROGBITS, 0, bytes_of(much, 20));
	elf_writer_finish(&w, &file);
	expect_same(p, &file);
	{
		struct elf_facts f;
		struct err err;

		assert_int_equal(probe(p, buf_bytes(&file), 1000, &f, NULL, &err), 0);
	}
	elf_probe_free(p);
}

static void names_far_before_the_table(void **state)
{
	struct elf_probe *p = elf_probe_new();
	AUTO(elf_writer_done) struct elf_writer w = { 0 };
	AUTO(buf_done) struct buf file = { 0 };

	elf_writer_init(&w, ELF_WRITER_X86_64, ET_EXEC);
	w.gap = 50000;
	elf_writer_section(&w, ".text", SHT_PROGBITS, SHF_ALLOC, bytes_of("code", 4));
	elf_writer_finish(&w, &file);
	expect_same(p, &file);
	elf_probe_free(p);
}

static void ranges_that_passed_unseen_need_another_read(void **state)
{
	struct elf_probe *p = elf_probe_new();
	AUTO(mem_freep) char *much = mem_zalloc(20000);
	struct elf_facts f;
	struct err err;

	for (int far_names = 0; far_names < 2; far_names++) {
		AUTO(elf_writer_done) struct elf_writer w = { 0 };
		AUTO(buf_done) struct buf file = { 0 };

		elf_writer_init(&w, ELF_WRITER_X86_64, ET_REL);
		elf_writer_section(&w, ".text", SHT_PROGBITS, SHF_ALLOC, bytes_of(much, 20000));
		if (!far_names)
			elf_writer_build_id(&w, bytes_of(id20, 20));
		w.gap = 100000;
		elf_writer_finish(&w, &file);
		assert_int_equal(probe(p, buf_bytes(&file), 1000, &f, NULL, &err), ELF_PROBE_AGAIN);
	}
	elf_probe_free(p);
}

static void notes_far_from_the_head(void **state)
{
	struct elf_probe *p = elf_probe_new();
	AUTO(mem_freep) char *much = mem_zalloc(200000);
	AUTO(elf_writer_done) struct elf_writer w = { 0 };
	AUTO(buf_done) struct buf file = { 0 };

	elf_writer_init(&w, ELF_WRITER_S390X, ET_EXEC);
	elf_writer_section(&w, ".text", SHT_PROGBITS, SHF_ALLOC, bytes_of(much, 200000));
	elf_writer_build_id(&w, bytes_of(id20, 20));
	elf_writer_section(&w, ".data", SHT_PROGBITS, SHF_ALLOC, bytes_of(much, 200000));
	elf_writer_finish(&w, &file);
	expect_same(p, &file);
	elf_probe_free(p);
}

static void extended_numbering_and_many_segments(void **state)
{
	struct elf_probe *p = elf_probe_new();
	AUTO(mem_freep) char *much = mem_zalloc(100000);
	AUTO(elf_writer_done) struct elf_writer w = { 0 }, core = { 0 };
	AUTO(buf_done) struct buf file = { 0 }, core_file = { 0 };

	elf_writer_init(&w, ELF_WRITER_I386, ET_EXEC);
	w.extended = true;
	for (int i = 0; i < 3000; i++)
		elf_writer_section(&w, ".text", SHT_PROGBITS, SHF_ALLOC, bytes_of("code", 4));
	elf_writer_build_id(&w, bytes_of(id20, 20));
	elf_writer_section(&w, ".data", SHT_PROGBITS, SHF_ALLOC, bytes_of(much, 100000));
	elf_writer_finish(&w, &file);
	{
		/* With the number of segments in section 0 the offsets of notes are unknown while they
		 * pass. */
		AUTO(source_closep) struct source *src = source_of_mem(buf_bytes(&file), "x");
		struct elf_facts want, got;
		struct err err = { 0 };

		assert_done(elf_facts_read(src, &want, &err));
		assert_int_equal(want.build_id.size, 20);
		assert_int_equal(probe(p, buf_bytes(&file), 1000, &got, NULL, &err), ELF_PROBE_AGAIN);
	}
	elf_writer_init(&core, ELF_WRITER_X86_64, ET_CORE);
	core.no_sections = true;
	for (int i = 0; i < 1000; i++)
		elf_writer_segment(&core, PT_LOAD, PF_R, 0);
	elf_writer_build_id(&core, bytes_of(id20, 20));
	elf_writer_finish(&core, &core_file);
	expect_same(p, &core_file);
	elf_probe_free(p);
}

static void damaged_and_cut_files_fail_as_the_file_does(void **state)
{
	struct elf_probe *p = elf_probe_new();
	AUTO(buf_done) struct buf file = { 0 };

	elf_writer_debug_file(&file, ET_DYN, "0011223344", 500);
	for (size_t n = file.size; n > 0; n -= MIN(n, (size_t)37)) {
		file.size = n;
		expect_same(p, &file);
	}
	elf_probe_free(p);
}

static void a_stream_shorter_than_its_stated_size(void **state)
{
	struct elf_probe *p = elf_probe_new();
	AUTO(buf_done) struct buf file = { 0 };
	struct elf_facts f;
	struct err err = { 0 };

	elf_writer_program(&file, ET_DYN, "0011223344", 50000);
	elf_probe_start(p, file.size);
	elf_probe_feed(p, bytes_of(file.p, 2000));
	assert_int_equal(elf_probe_finish(p, &f, &err), ELF_PROBE_AGAIN);
	/* It can be reused. */
	expect_same(p, &file);
	/* Bytes after the stated size are ignored. */
	elf_probe_start(p, file.size);
	elf_probe_feed(p, buf_bytes(&file));
	elf_probe_feed(p, buf_bytes(&file));
	assert_int_equal(elf_probe_finish(p, &f, &err), 0);
	elf_probe_free(p);
	elf_probe_free(NULL);
}

static void the_probe_keeps_few_bytes(void **state)
{
	struct elf_probe *p = elf_probe_new();
	AUTO(elf_writer_done) struct elf_writer w = { 0 };
	AUTO(buf_done) struct buf file = { 0 };
	struct elf_facts f;
	struct err err = { 0 };

	/* Every segment claims that another MiB is notes. */
	elf_writer_init(&w, ELF_WRITER_X86_64, ET_EXEC);
	for (uint64_t i = 0; i < 60; i++) {
		struct elf_writer_segment *seg = elf_writer_segment_at(
			&w, elf_writer_segment(&w, PT_NOTE, PF_R, 0));

		seg->off = MIB(1) * (i + 1);
		seg->filesz = MIB(1);
	}
	w.no_sections = true;
	elf_writer_finish(&w, &file);
	memset(buf_reserve(&file, MIB(64)), 0, MIB(64));
	file.size += MIB(64);
	assert_int_equal(probe(p, buf_bytes(&file), 65536, &f, NULL, &err), ELF_PROBE_AGAIN);
	elf_probe_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(programs_debug_files_and_modules),
		cmocka_unit_test(other_files_are_refused_after_four_bytes),
		cmocka_unit_test(a_section_table_at_the_front),
		cmocka_unit_test(names_far_before_the_table),
		cmocka_unit_test(ranges_that_passed_unseen_need_another_read),
		cmocka_unit_test(notes_far_from_the_head),
		cmocka_unit_test(extended_numbering_and_many_segments),
		cmocka_unit_test(damaged_and_cut_files_fail_as_the_file_does),
		cmocka_unit_test(a_stream_shorter_than_its_stated_size),
		cmocka_unit_test(the_probe_keeps_few_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
