/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "elf/elf.h"
#include "elf_writer.h"
#include "fault_source.h"

#define CONTENT_SIZE 300000

static const struct {
	uint32_t kind;
	const char *name; /* its name in the file */
} packings[] = { { ELFCOMPRESS_ZLIB, ".debug_info" },
		 { ELFCOMPRESS_ZSTD, ".debug_info" },
		 { 0, ".zdebug_info" } };

/* Compressible, but not uniform. */
static uint8_t *make_content(size_t n)
{
	uint8_t *p = mem_alloc(n);

	test_fill(p, n, 1);
	for (size_t i = 0; i < n; i++)
		p[i] &= 3;
	return p;
}

static void make_packed(enum elf_writer_target target, uint32_t kind, struct bytes content,
			struct elf_writer *w, struct buf *out)
{
	elf_writer_init(w, target, ET_DYN);
	elf_writer_section(w, ".comment", SHT_PROGBITS, 0,
			   bytes_of("x", 1)); /* so that the next one is at an odd offset */
	elf_writer_compressed(w, ".debug_info", kind, content);
	elf_writer_finish(w, out);
}

static void compressed_sections_of_every_kind_and_target(void **state)
{
	AUTO(mem_freep) uint8_t *content = make_content(CONTENT_SIZE);
	struct bytes want = bytes_of(content, CONTENT_SIZE);

	for (int target = 0; target < ELF_WRITER_N_TARGETS; target++)
		for (size_t k = 0; k < ARRAY_SIZE(packings); k++) {
			AUTO(elf_writer_done) struct elf_writer w = { 0 };
			AUTO(buf_done) struct buf file = { 0 };
			AUTO(arena_done) struct arena a = { 0 };
			AUTO(source_closep) struct source *mem = NULL;
			AUTO(source_closep) struct source *src = NULL;
			AUTO(elf_closep) struct elf_image *img = NULL;
			const struct elf_section *sec;
			uint64_t size, off;
			struct bytes got;
			struct err err = { 0 };

			make_packed(target, packings[k].kind, want, &w, &file);
			mem = source_of_mem(buf_bytes(&file), "x");
			src = fault_source_new(mem, false);
			fault_short(src, 1000);
			assert_done(elf_open(src, &img, &err));
			sec = elf_debug_section(img, ".debug_info");
			assert_non_null(sec);
			assert_str(sec->name, packings[k].name);
			assert_done(elf_section_content_size(img, sec, &size, &err));
			assert_int_equal(size, CONTENT_SIZE);
			assert_done(elf_section_read(img, sec, CONTENT_SIZE, &a, &got, &err));
			assert_true(bytes_eq(got, want));
			/* The raw bytes are those in the file, including the header. */
			assert_done(elf_section_range(img, sec, &off, &size, &err));
			assert_int_equal(off, elf_writer_at(&w, 2)->off);
			assert_int_equal(size, elf_writer_at(&w, 2)->data.size);
			assert_fails(elf_section_read(img, sec, CONTENT_SIZE - 1, &a, &got, &err), ERR_LIMIT,
				     "300000 bytes are more");
		}
}

static void a_section_as_a_stream(void **state)
{
	AUTO(mem_freep) uint8_t *content = make_content(CONTENT_SIZE);
	struct bytes want = bytes_of(content, CONTENT_SIZE);

	for (size_t k = 0; k <= ARRAY_SIZE(packings); k++) {
		AUTO(elf_writer_done) struct elf_writer w = { 0 };
		AUTO(buf_done) struct buf file = { 0 }, got = { 0 };
		AUTO(source_closep) struct source *src = NULL;
		AUTO(elf_closep) struct elf_image *img = NULL;
		AUTO(stream_closep) struct stream *s = NULL;
		struct err err = { 0 };
		struct bytes chunk;

		if (k < ARRAY_SIZE(packings)) {
			make_packed(ELF_WRITER_X86_64, packings[k].kind, want, &w, &file);
		} else {
			elf_writer_init(&w, ELF_WRITER_X86_64, ET_DYN);
			elf_writer_section(&w, ".debug_info", SHT_PROGBITS, 0, want);
			elf_writer_finish(&w, &file);
		}
		src = source_of_mem(buf_bytes(&file), "x");
		assert_done(elf_open(src, &img, &err));
		assert_done(elf_section_stream(img, elf_debug_section(img, ".debug_info"), &s, &err));
		assert_done(stream_skip(s, 100001, &err));
		do {
			assert_done(stream_next(s, 777, &chunk, &err));
			buf_add(&got, chunk.p, chunk.size);
		} while (chunk.size);
		assert_true(bytes_eq(buf_bytes(&got), bytes_of(content + 100001, CONTENT_SIZE - 100001)));
	}
}

/* The offset of the content's size in the compression header. */
static size_t size_field(const struct elf_writer *w, uint32_t kind)
{
	return (size_t)w->sections[2].off + (kind && w->is64 ? 8 : 4);
}

static void set_size(struct buf *file, const struct elf_writer *w, uint32_t kind, uint64_t v)
{
	unsigned n = kind && !w->is64 ? 4 : 8;
	uint8_t *p = file->p + size_field(w, kind);

	for (unsigned i = 0; i < n; i++)
		p[i] = (uint8_t)(v >> 8 * (kind && !w->big ? i : n - 1 - i));
}

static void a_wrong_size_in_the_header_is_an_error(void **state)
{
	AUTO(mem_freep) uint8_t *content = make_content(CONTENT_SIZE);

	for (int target = ELF_WRITER_X86_64; target <= ELF_WRITER_PPC; target++)
		for (size_t k = 0; k < ARRAY_SIZE(packings); k++) {
			AUTO(elf_writer_done) struct elf_writer w = { 0 };
			AUTO(buf_done) struct buf file = { 0 };
			AUTO(arena_done) struct arena a = { 0 };
			AUTO(source_closep) struct source *src = NULL;
			AUTO(elf_closep) struct elf_image *img = NULL;
			const struct elf_section *sec;
			struct bytes got;
			uint64_t size;
			struct err err = { 0 };

			make_packed(target, packings[k].kind, bytes_of(content, CONTENT_SIZE), &w, &file);
			src = source_of_mem(buf_bytes(&file), "x");
			assert_done(elf_open(src, &img, &err));
			sec = elf_debug_section(img, ".debug_info");
			set_size(&file, &w, packings[k].kind, CONTENT_SIZE + 1);
			assert_fails(elf_section_read(img, sec, MIB(1), &a, &got, &err), ERR_INVALID,
				     "1 bytes shorter than");
			set_size(&file, &w, packings[k].kind, CONTENT_SIZE - 1);
			assert_fails(elf_section_read(img, sec, MIB(1), &a, &got, &err), ERR_INVALID,
				     "longer than");
			set_size(&file, &w, packings[k].kind, 1);
			assert_fails(elf_section_read(img, sec, MIB(1), &a, &got, &err), ERR_INVALID,
				     "longer than");
			/* The header claims an empty content, but there are bytes. */
			set_size(&file, &w, packings[k].kind, 0);
			assert_fails(elf_section_read(img, sec, MIB(1), &a, &got, &err), ERR_INVALID,
				     "longer than the 0");
			/* Over the limit even though the file might hold it. */
			set_size(&file, &w, packings[k].kind, MIB(2));
			assert_fails(elf_section_read(img, sec, MIB(1), &a, &got, &err), ERR_LIMIT,
				     "more than");
			if (w.is64 || !packings[k].kind) {
				set_size(&file, &w, packings[k].kind, (uint64_t)1 << 40);
				assert_fails(elf_section_read(img, sec, SIZE_MAX, &a, &got, &err),
					     ERR_INVALID, "cannot decode to");
				assert_fails(elf_section_content_size(img, sec, &size, &err), ERR_INVALID,
					     "cannot decode to");
				set_size(&file, &w, packings[k].kind, UINT64_MAX);
				assert_fails(elf_section_read(img, sec, SIZE_MAX, &a, &got, &err),
					     ERR_INVALID, "cannot decode to");
			}
		}
}

static void damage_in_compressed_content_is_noticed(void **state)
{
	AUTO(mem_freep) uint8_t *content = mem_alloc(5000);

	/* Incompressible, so that one flipped bit is one wrong byte: Adler-32 misses some larger damage. */
	test_fill(content, 5000, 1);
	/* zstd frames made by one call have no checksum: only zlib's is tested. */
	for (size_t k = 0; k < ARRAY_SIZE(packings); k++) {
		AUTO(elf_writer_done) struct elf_writer w = { 0 };
		AUTO(buf_done) struct buf file = { 0 };
		AUTO(source_closep) struct source *src = NULL;
		AUTO(elf_closep) struct elf_image *img = NULL;
		const struct elf_section *sec;
		struct err err = { 0 };
		struct bytes got;
		size_t end, from;

		make_packed(ELF_WRITER_X86_64, packings[k].kind, bytes_of(content, 5000), &w, &file);
		src = source_of_mem(buf_bytes(&file), "x");
		assert_done(elf_open(src, &img, &err));
		sec = elf_debug_section(img, ".debug_info");
		from = (size_t)sec->off + 24;
		end = (size_t)(sec->off + sec->size);
		for (size_t i = from; i < end; i++) {
			AUTO(arena_done) struct arena a = { 0 };
			int r;

			file.p[i] ^= 0x10;
			r = elf_section_read(img, sec, 5000, &a, &got, &err);
			/* Deflate pads its last byte with meaningless bits. */
			if (r == 0 && packings[k].kind != ELFCOMPRESS_ZSTD)
				assert_true(bytes_eq(got, bytes_of(content, 5000)));
			file.p[i] ^= 0x10;
		}
	}
}

static void cut_compressed_content(void **state)
{
	AUTO(mem_freep) uint8_t *content = make_content(5000);

	for (size_t k = 0; k < ARRAY_SIZE(packings); k++) {
		AUTO(elf_writer_done) struct elf_writer w = { 0 };
		AUTO(buf_done) struct buf file = { 0 };
		AUTO(source_closep) struct source *src = NULL;
		AUTO(elf_closep) struct elf_image *img = NULL;
		struct elf_section sec;
		struct err err = { 0 };

		make_packed(ELF_WRITER_X86_64, packings[k].kind, bytes_of(content, 5000), &w, &file);
		src = source_of_mem(buf_bytes(&file), "x");
		assert_done(elf_open(src, &img, &err));
		sec = *elf_debug_section(img, ".debug_info");
		for (uint64_t n = sec.size; --n;) {
			AUTO(arena_done) struct arena a = { 0 };
			struct bytes got;

			sec.size = n;
			assert_int_equal(elf_section_read(img, &sec, 5000, &a, &got, &err), -1);
		}
	}
}

static void unknown_compression(void **state)
{
	AUTO(elf_writer_done) struct elf_writer w = { 0 };
	AUTO(buf_done) struct buf file = { 0 };
	AUTO(arena_done) struct arena a = { 0 };
	AUTO(source_closep) struct source *src = NULL;
	AUTO(elf_closep) struct elf_image *img = NULL;
	struct err err = { 0 };
	struct bytes got;

	elf_writer_init(&w, ELF_WRITER_X86_64, ET_DYN);
	elf_writer_section(&w, ".debug_a", SHT_PROGBITS, SHF_COMPRESSED,
			   bytes_of("\7\0\0\0....12345678abcdefgh", 24));
	elf_writer_section(&w, ".zdebug_b", SHT_PROGBITS, 0, bytes_of("ZLIP12345678", 12));
	elf_writer_section(&w, ".zdebug_c", SHT_PROGBITS, 0, bytes_of("ZLIB123", 7));
	elf_writer_section(&w, ".debug_d", SHT_PROGBITS, SHF_COMPRESSED, bytes_of("\1\0\0\0....1234", 12));
	elf_writer_finish(&w, &file);
	src = source_of_mem(buf_bytes(&file), "x");
	assert_done(elf_open(src, &img, &err));
	assert_fails(elf_section_read(img, &img->sections[1], MIB(1), &a, &got, &err), ERR_INVALID,
		     "section 1 .debug_a: compression type 7");
	assert_fails(elf_section_read(img, &img->sections[2], MIB(1), &a, &got, &err), ERR_INVALID,
		     "\"ZLIB\" is missing");
	assert_fails(elf_section_read(img, &img->sections[3], MIB(1), &a, &got, &err), ERR_INVALID,
		     "ends early");
	assert_fails(elf_section_read(img, &img->sections[4], MIB(1), &a, &got, &err), ERR_INVALID,
		     "ends early");
}

static void several_zstd_frames_are_one_content(void **state)
{
	AUTO(elf_writer_done) struct elf_writer w = { 0 }, one = { 0 };
	AUTO(buf_done) struct buf file = { 0 }, data = { 0 };
	AUTO(arena_done) struct arena a = { 0 };
	AUTO(source_closep) struct source *src = NULL;
	AUTO(elf_closep) struct elf_image *img = NULL;
	struct err err = { 0 };
	struct bytes got;

	elf_writer_init(&one, ELF_WRITER_X86_64, ET_DYN);
	for (int i = 0; i < 3; i++) {
		unsigned at = elf_writer_compressed(&one, ".debug_x", ELFCOMPRESS_ZSTD,
						    bytes_of("abcdefgh", 8));
		struct buf *b = &elf_writer_at(&one, at)->data;

		buf_add(&data, b->p + (i ? 24 : 0), b->size - (i ? 24 : 0));
	}
	data.p[8] = 24;
	elf_writer_init(&w, ELF_WRITER_X86_64, ET_DYN);
	elf_writer_section(&w, ".debug_str", SHT_PROGBITS, SHF_COMPRESSED, buf_bytes(&data));
	elf_writer_finish(&w, &file);
	src = source_of_mem(buf_bytes(&file), "x");
	assert_done(elf_open(src, &img, &err));
	assert_done(elf_section_read(img, &img->sections[1], 24, &a, &got, &err));
	assert_true(bytes_eq(got, bytes_of("abcdefghabcdefghabcdefgh", 24)));
}

static void sections_without_bytes_and_out_of_bounds(void **state)
{
	static const struct {
		uint64_t off, size;
	} lies[] = { { 0, UINT64_MAX }, { UINT64_MAX, 2 }, { 1, UINT64_MAX - 1 },
		     { 10000, 1 },      { 0, 10000 },      { UINT64_MAX - 4, 8 } };
	AUTO(elf_writer_done) struct elf_writer w = { 0 };
	AUTO(buf_done) struct buf file = { 0 };
	AUTO(arena_done) struct arena a = { 0 };
	AUTO(source_closep) struct source *src = NULL;
	AUTO(elf_closep) struct elf_image *img = NULL;
	struct err err = { 0 };
	uint64_t off, size;
	struct stream *s;
	struct bytes got;

	elf_writer_init(&w, ELF_WRITER_X86_64, ET_DYN);
	elf_writer_nobits(&w, ".bss", SHF_ALLOC, 100);
	elf_writer_section(&w, ".empty", SHT_PROGBITS, 0, bytes_of("", 0));
	for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
		unsigned at = elf_writer_section(&w, ".lie", SHT_PROGBITS, 0, bytes_of("xy", 2));

		elf_writer_at(&w, at)->off_set = true;
		elf_writer_at(&w, at)->off = lies[i].off;
		elf_writer_at(&w, at)->size = lies[i].size;
	}
	elf_writer_finish(&w, &file);
	src = source_of_mem(buf_bytes(&file), "x");
	assert_done(elf_open(src, &img, &err));
	for (uint32_t i = 0; i <= 2; i++) {
		assert_int_equal(elf_section_range(img, &img->sections[i], &off, &size, &err),
				 ELF_NO_SECTION);
		assert_int_equal(elf_section_read(img, &img->sections[i], MIB(1), &a, &got, &err),
				 ELF_NO_SECTION);
		assert_int_equal(elf_section_stream(img, &img->sections[i], &s, &err), ELF_NO_SECTION);
		assert_int_equal(elf_section_content_size(img, &img->sections[i], &size, &err),
				 ELF_NO_SECTION);
	}
	for (uint32_t i = 3; i < 3 + ARRAY_SIZE(lies); i++) {
		assert_fails(elf_section_range(img, &img->sections[i], &off, &size, &err), ERR_INVALID,
			     "ends past the file");
		assert_fails(elf_section_read(img, &img->sections[i], SIZE_MAX, &a, &got, &err), ERR_INVALID,
			     "ends past the file");
		assert_fails(elf_section_stream(img, &img->sections[i], &s, &err), ERR_INVALID,
			     "ends past the file");
	}
}

static void debug_sections_by_any_of_their_names(void **state)
{
	AUTO(elf_writer_done) struct elf_writer w = { 0 };
	AUTO(buf_done) struct buf file = { 0 };
	AUTO(source_closep) struct source *src = NULL;
	AUTO(elf_closep) struct elf_image *img = NULL;
	struct err err = { 0 };

	elf_writer_init(&w, ELF_WRITER_X86_64, ET_DYN);
	elf_writer_section(&w, ".debug_line_str", SHT_PROGBITS, 0, bytes_of("x", 1));
	elf_writer_section(&w, ".debug_line.dwo", SHT_PROGBITS, 0, bytes_of("x", 1));
	elf_writer_section(&w, ".debug_line", SHT_PROGBITS, 0, bytes_of("x", 1));
	elf_writer_section(&w, ".debug_abbrev.dwo", SHT_PROGBITS, 0, bytes_of("x", 1));
	elf_writer_section(&w, ".zdebug_str", SHT_PROGBITS, 0, bytes_of("x", 1));
	elf_writer_section(&w, ".strange", SHT_PROGBITS, 0, bytes_of("x", 1));
	elf_writer_finish(&w, &file);
	src = source_of_mem(buf_bytes(&file), "x");
	assert_done(elf_open(src, &img, &err));
	assert_int_equal(elf_debug_section(img, ".debug_line")->index, 3);
	assert_int_equal(elf_debug_section(img, ".debug_line_str")->index, 1);
	assert_int_equal(elf_debug_section(img, ".debug_abbrev")->index, 4);
	assert_int_equal(elf_debug_section(img, ".debug_str")->index, 5);
	assert_int_equal(elf_debug_section(img, ".strange")->index, 6);
	assert_null(elf_debug_section(img, ".debug_info"));
	assert_null(elf_debug_section(img, ".debug_lin"));
}

/* ---- memory ---- */

#define ZEROS_SIZE MIB(5)

static void content_is_granted_as_it_is_decompressed(void **state)
{
	AUTO(mem_freep) uint8_t *zeros = mem_zalloc(ZEROS_SIZE);

	for (size_t k = 0; k < ARRAY_SIZE(packings); k++) {
		AUTO(elf_writer_done) struct elf_writer w = { 0 };
		AUTO(buf_done) struct buf file = { 0 };
		AUTO(source_closep) struct source *src = NULL;
		AUTO(elf_closep) struct elf_image *img = NULL;
		const struct elf_section *sec;
		struct budget_hold hold;
		struct arena a = { 0 };
		struct bytes got;
		struct err err = { 0 };

		make_packed(ELF_WRITER_X86_64, packings[k].kind, bytes_of(zeros, ZEROS_SIZE), &w, &file);
		src = source_of_mem(buf_bytes(&file), "x");
		assert_done(elf_open(src, &img, &err));
		sec = elf_debug_section(img, ".debug_info");
		budget_hold_init(&hold, NULL, BUDGET_TABLE);
		hold.max = MIB(3);
		a.hold = &hold;
		assert_fails(elf_section_read(img, sec, SIZE_MAX, &a, &got, &err), ERR_LIMIT,
			     "of 5242880 decompressed bytes: it needs more memory");
		assert_int_equal(atomic_load(&hold.used), 0);
		hold.max = MIB(6);
		assert_done(elf_section_read(img, sec, SIZE_MAX, &a, &got, &err));
		assert_true(bytes_eq(got, bytes_of(zeros, ZEROS_SIZE)));
		assert_true(atomic_load(&hold.used) >= ZEROS_SIZE);
		arena_done(&a);
		assert_int_equal(atomic_load(&hold.used), 0);
	}
}

static void a_read_without_memory_is_refused_once_and_may_be_tried_again(void **state)
{
	AUTO(mem_freep) uint8_t *zeros = mem_zalloc(ZEROS_SIZE);
	AUTO(elf_writer_done) struct elf_writer w = { 0 };
	AUTO(buf_done) struct buf file = { 0 };
	AUTO(source_closep) struct source *src = NULL;
	AUTO(elf_closep) struct elf_image *img = NULL;
	struct budget *memory = budget_new_undivided(MIB(8));
	const struct elf_section *sec;
	struct budget_stats stats;
	struct budget_hold hold;
	struct arena a = { 0 };
	struct bytes got;
	struct err err = { 0 };

	elf_writer_init(&w, ELF_WRITER_X86_64, ET_DYN);
	elf_writer_section(&w, ".debug_info", SHT_PROGBITS, 0, bytes_of(zeros, ZEROS_SIZE));
	elf_writer_finish(&w, &file);
	src = source_of_mem(buf_bytes(&file), "x");
	assert_done(elf_open(src, &img, &err));
	sec = elf_debug_section(img, ".debug_info");
	budget_hold_init(&hold, memory, BUDGET_TABLE);
	a.hold = &hold;
	assert_true(budget_try(memory, BUDGET_TABLE, MIB(4)));
	assert_fails(elf_section_read(img, sec, SIZE_MAX, &a, &got, &err), ERR_BUSY, "--memory");
	assert_int_equal(atomic_load(&hold.used), 0);
	budget_stats(memory, &stats);
	assert_int_equal(stats.classes[BUDGET_TABLE].n_refused, 1);
	assert_int_equal(stats.classes[BUDGET_TABLE].used, MIB(4));
	assert_fails(source_read_arena(src, range_of(0, ZEROS_SIZE), SIZE_MAX, &a, &got, &err), ERR_BUSY,
		     "--memory");
	budget_return(memory, BUDGET_TABLE, MIB(4));
	assert_done(elf_section_read(img, sec, SIZE_MAX, &a, &got, &err));
	assert_true(bytes_eq(got, bytes_of(zeros, ZEROS_SIZE)));
	arena_done(&a);
	assert_int_equal(atomic_load(&hold.used), 0);
	budget_hold_done(&hold);
	budget_free(memory);
}

static void a_size_that_no_file_of_its_size_may_have_is_refused_at_once(void **state)
{
	AUTO(mem_freep) uint8_t *content = mem_alloc(KIB(16));
	AUTO(elf_writer_done) struct elf_writer w = { 0 };
	AUTO(buf_done) struct buf file = { 0 };
	AUTO(source_closep) struct source *src = NULL;
	AUTO(elf_closep) struct elf_image *img = NULL;
	AUTO(arena_done) struct arena a = { 0 };
	struct bytes got;
	struct err err = { 0 };

	test_fill(content, KIB(16), 1);
	make_packed(ELF_WRITER_X86_64, ELFCOMPRESS_ZSTD, bytes_of(content, KIB(16)), &w, &file);
	set_size(&file, &w, ELFCOMPRESS_ZSTD, MIB(300));
	src = source_of_mem(buf_bytes(&file), "x");
	assert_done(elf_open(src, &img, &err));
	assert_fails(elf_section_read(img, elf_debug_section(img, ".debug_info"), SIZE_MAX, &a, &got, &err),
		     ERR_LIMIT, "314572800 decompressed bytes are more than the");
	assert_int_equal(a.size, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(compressed_sections_of_every_kind_and_target),
		cmocka_unit_test(a_section_as_a_stream),
		cmocka_unit_test(a_wrong_size_in_the_header_is_an_error),
		cmocka_unit_test(damage_in_compressed_content_is_noticed),
		cmocka_unit_test(cut_compressed_content),
		cmocka_unit_test(unknown_compression),
		cmocka_unit_test(several_zstd_frames_are_one_content),
		cmocka_unit_test(sections_without_bytes_and_out_of_bounds),
		cmocka_unit_test(debug_sections_by_any_of_their_names),
		cmocka_unit_test(content_is_granted_as_it_is_decompressed),
		cmocka_unit_test(a_read_without_memory_is_refused_once_and_may_be_tried_again),
		cmocka_unit_test(a_size_that_no_file_of_its_size_may_have_is_refused_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
