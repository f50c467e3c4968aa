/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "elf_writer.h"
#include "tables/internal.h"

static const uint8_t debug[] = "bytes that a table needs", relocations[] = "relocations of a linker";

/* Of two sections that overlap, both are in the copy. */
static void make(uint16_t type, bool over, struct buf *out)
{
	AUTO(elf_writer_done) struct elf_writer w = { 0 };
	unsigned info, rela;

	elf_writer_init(&w, ELF_WRITER_X86_64, type);
	elf_writer_section(&w, ".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, bytes_of("code", 4));
	info = elf_writer_section(&w, ".debug_info", SHT_PROGBITS, 0, bytes_of(debug, sizeof(debug)));
	rela = elf_writer_section(&w, ".rela.debug_info", SHT_RELA, 0,
				  bytes_of(relocations, sizeof(relocations)));
	elf_writer_section(&w, ".rela.plt", SHT_RELA, SHF_ALLOC, bytes_of("plt", 3));
	elf_writer_finish(&w, out);
	if (!over)
		return;
	elf_writer_at(&w, info)->off = elf_writer_at(&w, rela)->off;
	elf_writer_at(&w, info)->off_set = true;
	out->size = 0;
	elf_writer_finish(&w, out);
	/* Its own bytes belong to no section now. */
	memset(memmem(out->p, out->size, debug, sizeof(debug)), 0, sizeof(debug));
}

/* In place of the relocations the copy has them (@kept), or a hole. */
static void check(struct buf *file, bool kept)
{
	AUTO(source_closep) struct source *src = source_of_mem(buf_bytes(file), "x");
	AUTO(source_closep) struct source *copy = NULL;
	AUTO(elf_closep) struct elf_image *img = NULL;
	AUTO(mem_freep) uint8_t *got = mem_alloc(file->size);
	const uint8_t *at = memmem(file->p, file->size, relocations, sizeof(relocations));
	struct err err = { 0 };
	size_t off;

	assert_non_null(at);
	off = (size_t)(at - file->p);
	assert_done(elf_open(src, &img, &err));
	assert_done(tables_copy(src, img, &(struct copy_options){ .dir = "/tmp" }, &copy, &err));
	assert_int_equal(copy->size, file->size);
	assert_done(source_read_full(copy, 0, got, file->size, SOURCE_RANDOM, &err));
	if (!kept)
		memset(file->p + off, 0, sizeof(relocations));
	assert_memory_equal(got, file->p, file->size);
}

static void relocations_left_by_the_linker_stay_a_hole(void **state)
{
	AUTO(buf_done) struct buf file = { 0 };

	make(ET_EXEC, false, &file);
	check(&file, false);
}

static void an_object_file_has_its_relocations(void **state)
{
	AUTO(buf_done) struct buf file = { 0 };

	make(ET_REL, false, &file);
	check(&file, true);
}

static void bytes_that_another_section_shares_are_copied(void **state)
{
	AUTO(buf_done) struct buf file = { 0 };

	make(ET_DYN, true, &file);
	check(&file, true);
}

static void without_sections_all_is_there(void **state)
{
	AUTO(source_closep) struct source *src = source_of_mem(bytes_of(debug, sizeof(debug)), "x");
	AUTO(source_closep) struct source *copy = NULL;
	uint8_t got[sizeof(debug)];
	struct err err = { 0 };

	assert_done(tables_copy(src, NULL, &(struct copy_options){ .dir = "/tmp" }, &copy, &err));
	assert_done(source_read_full(copy, 0, got, sizeof(got), SOURCE_RANDOM, &err));
	assert_memory_equal(got, debug, sizeof(debug));
}

static void a_missing_folder_is_an_error(void **state)
{
	AUTO(source_closep) struct source *src = source_of_mem(bytes_of(debug, sizeof(debug)), "x");
	struct source *copy = NULL;
	struct err err = { 0 };

	assert_int_equal(
		tables_copy(src, NULL, &(struct copy_options){ .dir = "/nowhere/at/all" }, &copy, &err), -1);
	assert_non_null(strstr(err.text, "/nowhere/at/all"));
}

static void one_that_is_cancelled_is_not_copied(void **state)
{
	AUTO(source_closep) struct source *src = source_of_mem(bytes_of(debug, sizeof(debug)), "x");
	struct source *copy = NULL;
	const atomic_bool cancel = true;
	struct err err = { 0 };

	assert_int_equal(tables_copy(src, NULL, &(struct copy_options){ .dir = "/tmp", .cancel = &cancel },
				     &copy, &err),
			 -1);
	assert_int_equal(err.kind, ERR_CANCELLED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(relocations_left_by_the_linker_stay_a_hole),
		cmocka_unit_test(an_object_file_has_its_relocations),
		cmocka_unit_test(bytes_that_another_section_shares_are_copied),
		cmocka_unit_test(without_sections_all_is_there),
		cmocka_unit_test(a_missing_folder_is_an_error),
		cmocka_unit_test(one_that_is_cancelled_is_not_copied),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
