/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <elf.h>
#include "elf_writer.h"
#include "frame/frame.h"

/* As GNU ld and lld lay out a shared object. */
static struct frame_layout shared(void)
{
	return (struct frame_layout){
		.type = ET_DYN,
		.offsets_known = true,
		.n_segments = 3,
		.segments = { { 0, 0x600, 0, 0x600, false },
			      { 0x600, 0x1a00, 0x1600, 0x1a00, true },
			      { 0x2000, 0x200, 0x4000, 0x400, false } },
	};
}

static uint64_t at(const struct frame_layout *l, const struct frame_mapping *maps, size_t n, uint64_t addr)
{
	uint64_t v = 0;
	enum frame_reason r = frame_translate(l, FRAME_RUNTIME, maps, n, addr, &v);

	if (r != FRAME_FOUND)
		fail_msg("0x%llx: %s", (unsigned long long)addr, frame_reason_name(r));
	return v;
}

static void a_shared_object_is_where_its_mapping_says(void **state)
{
	struct frame_layout l = shared();
	const struct frame_mapping maps[] = { { 0x7f0000000000, 0x7f0000001000, 0, { 0 } },
					      { 0x7f0000001000, 0x7f0000003000, 0, { 0 } },
					      { 0x7f0000004000, 0x7f0000005000, 0x2000, { 0 } } };
	uint64_t v;

	/* The mapping of the text begins at the page of its first byte: offset 0 of the file. */
	assert_int_equal(at(&l, maps, 3, 0x7f0000001700), 0x1700);
	assert_int_equal(at(&l, maps, 3, 0x7f0000002fff), 0x2fff);
	assert_int_equal(at(&l, maps + 1, 1, 0x7f0000001700), 0x1700);
	assert_int_equal(at(&l, maps, 3, 0x7f0000004010), 0x4010);
	assert_int_equal(frame_translate(&l, FRAME_RUNTIME, maps, 3, 0x7f0000003000, &v), FRAME_NO_MAPPING);
	assert_int_equal(frame_translate(NULL, FRAME_RUNTIME, maps, 3, 0x7f0000001700, &v), FRAME_NO_LAYOUT);
}

static void a_mapping_of_a_part_of_the_text(void **state)
{
	struct frame_layout l = shared();
	const struct frame_mapping maps[] = { { 0x7f0000002000, 0x7f0000003000, 0x1000, { 0 } } };

	assert_int_equal(at(&l, maps, 1, 0x7f0000002010), 0x2010);
}

/* The page that both segments share is in the mapping of each. */
static void each_of_several_segments_has_its_own_distance(void **state)
{
	struct frame_layout l = { .type = ET_DYN,
				  .offsets_known = true,
				  .n_segments = 3,
				  .segments = { { 0, 0x400, 0, 0x400, false },
						{ 0x400, 0x1400, 0x1400, 0x1400, true },
						{ 0x1800, 0x1000, 0x7800, 0x1000, true } } };
	const struct frame_mapping maps[] = { { 0x7f0000000000, 0x7f0000001000, 0, { 0 } },
					      { 0x7f0000001000, 0x7f0000003000, 0, { 0 } },
					      { 0x7f0000007000, 0x7f0000009000, 0x1000, { 0 } } };

	assert_int_equal(at(&l, maps, 3, 0x7f0000001410), 0x1410);
	assert_int_equal(at(&l, maps, 3, 0x7f00000027f0), 0x27f0);
	assert_int_equal(at(&l, maps, 3, 0x7f0000007810), 0x7810);
	assert_int_equal(at(&l, maps + 2, 1, 0x7f0000008010), 0x8010);
}

static void a_mapping_without_end(void **state)
{
	struct frame_layout l = shared();
	const struct frame_mapping maps[] = { { 0x7f0000001000, 0, 0, { 0 } } };

	assert_int_equal(at(&l, maps, 1, 0x7f0000001700), 0x1700);
}

static void file_offsets_go_by_the_segment_of_code(void **state)
{
	struct frame_layout l = shared();
	uint64_t v;

	assert_int_equal(frame_translate(&l, FRAME_OFFSET, NULL, 0, 0x700, &v), FRAME_FOUND);
	assert_int_equal(v, 0x1700);
	assert_int_equal(frame_translate(&l, FRAME_OFFSET, NULL, 0, 0x2010, &v), FRAME_FOUND);
	assert_int_equal(v, 0x4010);
	assert_int_equal(frame_translate(&l, FRAME_OFFSET, NULL, 0, 0x9000, &v), FRAME_OUTSIDE);
	l.offsets_known = false;
	assert_int_equal(frame_translate(&l, FRAME_OFFSET, NULL, 0, 0x700, &v), FRAME_NO_LAYOUT);
	assert_int_equal(frame_translate(&l, FRAME_VADDR, NULL, 0, 0x700, &v), FRAME_FOUND);
	assert_int_equal(v, 0x700);
}

static void a_fixed_program_is_where_it_was_linked(void **state)
{
	struct frame_layout l = { .type = ET_EXEC,
				  .offsets_known = true,
				  .n_segments = 1,
				  .segments = { { 0, 0x5000, 0x400000, 0x5000, true } } };
	/* Also where a mapping contradicts, like that of text moved to huge pages. */
	const struct frame_mapping maps[] = { { 0x401000, 0x405000, 0, { 0 } } };

	assert_int_equal(at(&l, maps, 1, 0x401234), 0x401234);
}

static void a_prelinked_object_has_addresses_of_its_own(void **state)
{
	struct frame_layout l = { .type = ET_DYN,
				  .offsets_known = true,
				  .n_segments = 1,
				  .segments = { { 0, 0x5000, 0x3000000000, 0x5000, true } } };
	const struct frame_mapping maps[] = { { 0x3000000000, 0x3000005000, 0, { 0 } } },
				   moved[] = { { 0x7f0000000000, 0x7f0000005000, 0, { 0 } } };

	assert_int_equal(at(&l, maps, 1, 0x3000001234), 0x3000001234);
	assert_int_equal(at(&l, moved, 1, 0x7f0000001234), 0x3000001234);
}

/* The debug file is from before prelinking: its code has other addresses. */
static void a_prelinked_object_is_moved_back_to_its_debug_file(void **state)
{
	struct elf_segment here[] = { { .type = 1, .vaddr = 0x3000000000, .memsz = 0x1000, .flags = 4 },
				      { .type = 1, .vaddr = 0x3000001000, .memsz = 0x1000, .flags = 5 } },
			   there[] = { { .type = 1, .vaddr = 0, .memsz = 0x1000, .flags = 4 },
				       { .type = 1, .vaddr = 0x1000, .memsz = 0x1000, .flags = 5 } };
	struct elf_image img = { .h.type = 3, .segments = here, .n_segments = 2 },
			 debug = { .h.type = 3, .segments = there, .n_segments = 2 };
	struct frame_layout l = { .type = 3,
				  .offsets_known = true,
				  .n_segments = 1,
				  .segments = { { 0x1000, 0x1000, 0x3000001000, 0x1000, true } } };
	const struct frame_mapping maps[] = { { 0x7f0000001000, 0x7f0000002000, 0x1000, { 0 } } };

	assert_int_equal(frame_moved(&img, &debug), 0x3000000000);
	assert_int_equal(frame_moved(&debug, &img), -(uint64_t)0x3000000000);
	assert_int_equal(frame_moved(&img, &img), 0);
	frame_layout_move_back(&l, frame_moved(&img, &debug));
	assert_int_equal(at(&l, maps, 1, 0x7f0000001234), 0x1234);
	debug.n_segments = 1; /* without code it cannot be known */
	assert_int_equal(frame_moved(&img, &debug), 0);
	img.h.type = 2;
	assert_int_equal(frame_moved(&img, &img), 0);
}

static void text_on_huge_pages_goes_by_its_neighbours(void **state)
{
	struct frame_layout l = { .type = ET_DYN,
				  .offsets_known = true,
				  .n_segments = 2,
				  .segments = { { 0, 0x200000, 0, 0x200000, false },
						{ 0x200000, 0x800000, 0x200000, 0x800000, true } } };
	const struct frame_mapping maps[] = { { 0x7f0000000000, 0x7f0000200000, 0, { 0 } },
					      { 0x7f0000200000, 0x7f0000400000, 0x200000, { 0 } },
					      { 0x7f0000400000, 0x7f0000800000, 0, { 0 } } };

	assert_int_equal(at(&l, maps, 3, 0x7f0000500000), 0x500000);
	assert_int_equal(at(&l, maps, 3, 0x7f0000200010), 0x200010);
}

static void of_a_debug_file_only_addresses_count(void **state)
{
	struct frame_layout l = shared();
	const struct frame_mapping maps[] = { { 0x7f0000000000, 0x7f0000001000, 0, { 0 } },
					      { 0x7f0000001000, 0x7f0000003000, 0x600, { 0 } } };

	l.offsets_known = false;
	l.segments[1].filesz = 0;
	assert_int_equal(at(&l, maps, 2, 0x7f0000001700), 0x1700);
	assert_int_equal(at(&l, maps + 1, 1, 0x7f0000001700), 0x1700);
}

/* ---- files without program headers ---- */

struct stripped_section {
	const char *name;
	uint32_t type;
	uint64_t flags, addr, size;
};

/* As Parca's agent strips a file for an upload: removed sections have neither bytes nor a size. */
static struct frame_layout layout_of_stripped(uint16_t type, const struct stripped_section *list, size_t n)
{
	AUTO(elf_writer_done) struct elf_writer w = { 0 };
	AUTO(buf_done) struct buf file = { 0 };
	AUTO(source_closep) struct source *src = NULL;
	AUTO(elf_closep) struct elf_image *img = NULL;
	struct frame_layout l;
	struct err err = { 0 };

	elf_writer_init(&w, ELF_WRITER_X86_64, type);
	for (size_t i = 0; i < n; i++) {
		unsigned at = elf_writer_nobits(&w, list[i].name, list[i].flags, list[i].size);

		elf_writer_at(&w, at)->type = list[i].type;
		elf_writer_at(&w, at)->addr = list[i].addr;
	}
	elf_writer_finish(&w, &file);
	src = source_of_mem(buf_bytes(&file), "x");
	assert_done(elf_open(src, &img, &err));
	frame_layout_of(img, &l);
	return l;
}

#define CODE (SHF_ALLOC | SHF_EXECINSTR)

static const struct stripped_section stripped_shared[] = {
	{ ".note", SHT_NOBITS, SHF_ALLOC, 0x2a8, 0 },
	{ ".fini", SHT_NOBITS, CODE, 0x45f0, 0 }, /* in another order than in memory */
	{ ".init", SHT_NOBITS, CODE, 0x3010, 0 },
	{ ".text", SHT_NOBITS, CODE, 0x3100, 0 },
	{ ".rodata", SHT_NOBITS, SHF_ALLOC, 0x5000, 0 },
	{ ".tbss", SHT_NOBITS, SHF_ALLOC | SHF_TLS, 0x4000, 0x40 },
	{ ".data", SHT_NOBITS, SHF_ALLOC | SHF_WRITE, 0x7000, 0 },
	{ ".comment", SHT_NOBITS, 0, 0, 0 },
};

static void without_program_headers_sections_say_where_code_is(void **state)
{
	struct frame_layout l = layout_of_stripped(ET_DYN, stripped_shared, ARRAY_SIZE(stripped_shared));
	const struct frame_mapping maps[] = { { 0x7f0000000000, 0x7f0000001000, 0, { 0 } },
					      { 0x7f0000003000, 0x7f0000005000, 0x2000, { 0 } } };

	assert_true(l.by_sections);
	assert_false(l.offsets_known);
	assert_int_equal(at(&l, maps, 2, 0x7f0000003123), 0x3123);
	assert_int_equal(at(&l, maps + 1, 1, 0x7f0000004567), 0x4567);
	assert_false(frame_layout_has_code(&l, 0x300f));
	assert_true(frame_layout_has_code(&l, 0x3010));
	assert_true(frame_layout_has_code(&l, 0x4fff));
	assert_false(frame_layout_has_code(&l, 0x5000));
}

static void a_fixed_program_without_program_headers(void **state)
{
	const struct stripped_section list[] = { { ".note.go.buildid", SHT_NOTE, SHF_ALLOC, 0x400f9c, 100 },
						 { ".text", SHT_NOBITS, CODE, 0x401000, 0 } };
	struct frame_layout l = layout_of_stripped(ET_EXEC, list, ARRAY_SIZE(list));
	const struct frame_mapping maps[] = { { 0x400000, 0x900000, 0, { 0 } } };
	uint64_t v = 0;

	assert_int_equal(at(&l, maps, 1, 0x412345), 0x412345);
	assert_int_equal(frame_translate(&l, FRAME_RELATIVE, NULL, 0, 0x12345, &v), FRAME_FOUND);
	assert_int_equal(v, 0x412345);
}

/* Several runs of code, as BOLT leaves: which of them is mapped cannot be known. */
static void several_runs_of_code_are_not_guessed(void **state)
{
	const struct stripped_section list[] = { { ".bolt.org.text", SHT_NOBITS, CODE, 0x1000, 0 },
						 { ".rodata", SHT_NOBITS, SHF_ALLOC, 0x3000, 0 },
						 { ".text", SHT_NOBITS, CODE, 0x200000, 0x1000 } };
	struct frame_layout l = layout_of_stripped(ET_DYN, list, ARRAY_SIZE(list));
	const struct frame_mapping m = { 0x7f0000200000, 0x7f0000201000, 0x200000, { 0 } };
	uint64_t v;

	assert_int_equal(frame_translate(&l, FRAME_RUNTIME, &m, 1, 0x7f0000200010, &v), FRAME_NO_LAYOUT);
	assert_true(frame_layout_has_code(&l, 0x200fff));
	assert_false(frame_layout_has_code(&l, 0x201000));
}

static void sections_that_make_no_layout(void **state)
{
	static struct stripped_section many[1100];
	struct frame_layout l;

	l = layout_of_stripped(ET_REL, stripped_shared, ARRAY_SIZE(stripped_shared));
	assert_int_equal(l.n_segments, 0);
	l = layout_of_stripped(ET_DYN, NULL, 0);
	assert_int_equal(l.n_segments, 0);
	/* Hostile: code and data by turns, up to the end of all addresses. */
	for (size_t i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = (struct stripped_section){ ".x", SHT_NOBITS, i % 2 ? CODE : SHF_ALLOC,
						     i ? i << 12 : UINT64_MAX, UINT64_MAX };
	l = layout_of_stripped(ET_DYN, many, ARRAY_SIZE(many));
	assert_int_equal(l.n_segments, 0);
	l = layout_of_stripped(ET_DYN, many, 300);
	assert_int_equal(l.n_segments, 0);
	assert_false(l.by_sections);
	l = layout_of_stripped(ET_DYN, many, 100);
	assert_int_equal(l.n_segments, 100);
}

static void a_kernel_is_moved_as_a_whole(void **state)
{
	struct frame_layout l = { .type = ET_EXEC,
				  .offsets_known = true,
				  .is_kernel = true,
				  .text = 0xffffffff81000000,
				  .stext = 0xffffffff81000080,
				  .n_segments = 1,
				  .segments = {
					  { 0x200000, 0x1000000, 0xffffffff81000000, 0x1000000, true } } };
	const struct frame_mapping text[] = { { 0xffffffffa5000000, 0xffffffffa7000000, 0xffffffffa5000000,
						STR("_text") } },
				   stext[] = { { 0xffffffffa5000080, 0, 0xffffffffa5000080, STR("_stext") } },
				   all[] = { { 0, UINT64_MAX, 0, { 0 } } };

	assert_int_equal(at(&l, text, 1, 0xffffffffa5001234), 0xffffffff81001234);
	assert_int_equal(at(&l, stext, 1, 0xffffffffa5001234), 0xffffffff81001234);
	/* The profiler has translated these addresses already. */
	assert_int_equal(at(&l, all, 1, 0xffffffff81001234), 0xffffffff81001234);
}

static void numbers_at_the_ends_do_not_run_over(void **state)
{
	struct frame_layout l = { .type = ET_DYN,
				  .offsets_known = true,
				  .n_segments = 2,
				  .segments = { { UINT64_MAX - 10, 100, 0, 100, true },
						{ 0, UINT64_MAX, 0, UINT64_MAX, true } } };
	const struct frame_mapping maps[] = { { UINT64_MAX - 5, UINT64_MAX, UINT64_MAX, { 0 } } };
	uint64_t v;

	for (uint64_t a = UINT64_MAX - 20; a; a++) {
		frame_translate(&l, FRAME_RUNTIME, maps, 1, a, &v);
		frame_translate(&l, FRAME_OFFSET, maps, 1, a, &v);
	}
}

/* ---- prepared mappings ---- */

static uint32_t map_seed = 1;

static uint64_t map_dice(uint64_t n)
{
	map_seed = map_seed * 1664525 + 1013904223;
	return ((uint64_t)map_seed * n) >> 32;
}

static void prepared_mappings_translate_as_a_list_does(void **state)
{
	struct frame_layout with = shared(), without = shared();

	without.offsets_known = false;
	for (unsigned round = 0; round < 300; round++) {
		struct frame_mapping maps[12];
		size_t n = map_dice(ARRAY_SIZE(maps));
		struct frame_maps *m;
		struct arena a;

		for (size_t i = 0; i < n; i++) {
			maps[i] = (struct frame_mapping){ .start = 0x1000 * map_dice(16),
							  .offset = 0x600 * map_dice(4) };
			if (map_dice(4))
				maps[i].limit = maps[i].start + 0x1000 * map_dice(6);
		}
		arena_init(&a);
		m = frame_maps_new(&a, maps, n);
		for (uint64_t addr = 0; addr < 0x18000; addr += 0x480) {
			const struct frame_layout *l = addr & 0x80 ? &with : &without;
			uint64_t v = 0, w = 0;
			enum frame_reason r = frame_translate(l, FRAME_RUNTIME, maps, n, addr, &v);

			assert_int_equal(frame_translate_prepared(l, FRAME_RUNTIME, m, addr, &w), r);
			assert_int_equal(w, v);
		}
		arena_done(&a);
	}
}

/* One after the other this would be 13 000 million comparisons. */
static void many_addresses_in_many_mappings(void **state)
{
	enum { N_MAPS = 65536, N_ADDRS = 200000 };
	AUTO(mem_freep) struct frame_mapping *maps = NEW_N(struct frame_mapping, N_MAPS);
	struct frame_layout l = shared();
	struct frame_maps *m;
	struct arena a;
	uint64_t v;

	memset(maps, 0, N_MAPS * sizeof(*maps));
	for (uint64_t i = 0; i < N_MAPS; i++) {
		maps[i].start = 0x10000 * (N_MAPS - i);
		maps[i].limit = maps[i].start + 0x3000;
	}
	arena_init(&a);
	m = frame_maps_new(&a, maps, N_MAPS);
	for (uint64_t i = 0; i < N_ADDRS; i++) {
		uint64_t in = 0x10000 * (1 + i % N_MAPS);

		assert_int_equal(frame_translate_prepared(&l, FRAME_RUNTIME, m, in + 0x4000, &v),
				 FRAME_NO_MAPPING);
		assert_ptr_equal(frame_maps_at(m, in + 0x1700), &maps[N_MAPS - 1 - i % N_MAPS]);
	}
	arena_done(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_shared_object_is_where_its_mapping_says),
		cmocka_unit_test(a_mapping_of_a_part_of_the_text),
		cmocka_unit_test(each_of_several_segments_has_its_own_distance),
		cmocka_unit_test(a_mapping_without_end),
		cmocka_unit_test(file_offsets_go_by_the_segment_of_code),
		cmocka_unit_test(a_fixed_program_is_where_it_was_linked),
		cmocka_unit_test(a_prelinked_object_has_addresses_of_its_own),
		cmocka_unit_test(a_prelinked_object_is_moved_back_to_its_debug_file),
		cmocka_unit_test(text_on_huge_pages_goes_by_its_neighbours),
		cmocka_unit_test(of_a_debug_file_only_addresses_count),
		cmocka_unit_test(without_program_headers_sections_say_where_code_is),
		cmocka_unit_test(a_fixed_program_without_program_headers),
		cmocka_unit_test(several_runs_of_code_are_not_guessed),
		cmocka_unit_test(sections_that_make_no_layout),
		cmocka_unit_test(a_kernel_is_moved_as_a_whole),
		cmocka_unit_test(numbers_at_the_ends_do_not_run_over),
		cmocka_unit_test(prepared_mappings_translate_as_a_list_does),
		cmocka_unit_test(many_addresses_in_many_mappings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
