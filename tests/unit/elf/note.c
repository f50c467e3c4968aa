/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "elf/elf.h"
#include "elf_writer.h"

static const uint8_t id64[64] = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";

struct input {
	struct elf_writer w;
	struct buf bytes;
	struct source *src;
	struct elf_image *img;
};

static void input_init(struct input *f, enum elf_writer_target target, uint16_t type)
{
	elf_writer_init(&f->w, target, type);
}

static void input_open(struct input *f)
{
	struct err err = { 0 };

	elf_writer_finish(&f->w, &f->bytes);
	f->src = source_of_mem(buf_bytes(&f->bytes), "x");
	assert_done(elf_open(f->src, &f->img, &err));
}

static void input_done(struct input *f)
{
	elf_close(f->img);
	source_close(f->src);
	buf_done(&f->bytes);
	elf_writer_done(&f->w);
}

/* The file opens, and its build ID is the first @want bytes of id64; 0: there is none. */
static void expect_id(struct input *f, size_t want)
{
	struct build_id id = { 0 };
	struct err err = { 0 };

	input_open(f);
	if (!want) {
		assert_int_equal(elf_build_id(f->img, &id, &err), ELF_NO_BUILD_ID);
		return;
	}
	assert_done(elf_build_id(f->img, &id, &err));
	assert_true(bytes_eq(build_id_bytes(&id), bytes_of(id64, want)));
}

static void ids_of_any_size(void **state)
{
	static const size_t sizes[] = { 1, 2, 3, 8, 16, 20, 32, 63, 64 };

	for (int target = 0; target < ELF_WRITER_N_TARGETS; target++)
		for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
			AUTO(input_done) struct input f = { 0 };

			input_init(&f, target, ET_DYN);
			elf_writer_build_id(&f.w, bytes_of(id64, sizes[i]));
			expect_id(&f, sizes[i]);
		}
}

static void ids_of_no_size_or_too_large_are_passed_over(void **state)
{
	AUTO(input_done) struct input none = { 0 }, f = { 0 };
	AUTO(buf_done) struct buf b = { 0 };
	uint8_t large[BUILD_ID_MAX + 1] = { 1 };

	input_init(&none, ELF_WRITER_X86_64, ET_DYN);
	elf_writer_build_id(&none.w, bytes_of(large, 0));
	elf_writer_build_id(&none.w, bytes_of(large, sizeof(large)));
	expect_id(&none, 0);

	input_init(&f, ELF_WRITER_X86_64, ET_DYN);
	elf_writer_note(&f.w, &b, 4, 3, "GNU", bytes_of(large, 0));
	elf_writer_note(&f.w, &b, 4, 3, "GNU", bytes_of(large, sizeof(large)));
	elf_writer_note(&f.w, &b, 4, 3, "GNU", bytes_of(id64, 20));
	elf_writer_section(&f.w, ".note", SHT_NOTE, 0, buf_bytes(&b));
	expect_id(&f, 20);
}

static void a_xen_note_of_type_3_is_no_build_id(void **state)
{
	for (int as_section = 0; as_section < 2; as_section++) {
		AUTO(input_done) struct input f = { 0 };
		AUTO(buf_done) struct buf b = { 0 };
		unsigned at;

		input_init(&f, ELF_WRITER_X86_64, ET_EXEC);
		elf_writer_note(&f.w, &b, 4, 6, "Xen", bytes_of("linux", 6));
		elf_writer_note(&f.w, &b, 4, 3, "Xen", bytes_of("\0\0\0\x80\xff\xff\xff\xff", 8));
		elf_writer_note(&f.w, &b, 4, 3, "GNU", bytes_of(id64, 20));
		elf_writer_note(&f.w, &b, 4, 0x100, "Linux", bytes_of("6.1", 4));
		at = elf_writer_section(&f.w, ".notes", as_section ? SHT_NOTE : SHT_PROGBITS, SHF_ALLOC,
					buf_bytes(&b));
		if (!as_section)
			elf_writer_segment(&f.w, PT_NOTE, PF_R, at);
		expect_id(&f, 20);
	}
}

static void other_owners_types_and_kinds_are_no_build_id(void **state)
{
	static const struct {
		uint32_t type;
		const char *owner;
	} notes[] = { { 3, "CORE" }, { 3, "GNU2" }, { 3, "GN" }, { 3, "" },
		      { 1, "GNU" },  { 5, "GNU" },  { 3, "gnu" } };

	AUTO(input_done) struct input f = { 0 };
	AUTO(buf_done) struct buf b = { 0 }, real = { 0 };

	input_init(&f, ELF_WRITER_X86_64, ET_EXEC);
	for (size_t i = 0; i < ARRAY_SIZE(notes); i++)
		elf_writer_note(&f.w, &b, 4, notes[i].type, notes[i].owner, bytes_of(id64, 20));
	elf_writer_section(&f.w, ".notes", SHT_NOTE, 0, buf_bytes(&b));
	elf_writer_note(&f.w, &real, 4, 3, "GNU", bytes_of(id64, 20));
	elf_writer_section(&f.w, ".note.gnu.build-id", SHT_PROGBITS, 0, buf_bytes(&real));
	expect_id(&f, 0);
}

static void an_id_in_an_oddly_named_section(void **state)
{
	AUTO(input_done) struct input f = { 0 };
	AUTO(buf_done) struct buf b = { 0 };

	input_init(&f, ELF_WRITER_PPC, ET_REL);
	elf_writer_section(&f.w, ".text", SHT_PROGBITS, SHF_ALLOC, bytes_of("code", 4));
	elf_writer_note(&f.w, &b, 4, 3, "GNU", bytes_of(id64, 16));
	elf_writer_section(&f.w, "whatever", SHT_NOTE, 0, buf_bytes(&b));
	expect_id(&f, 16);
}

static void an_id_in_a_segment_only(void **state)
{
	AUTO(input_done) struct input f = { 0 };

	input_init(&f, ELF_WRITER_S390X, ET_EXEC);
	f.w.no_sections = true;
	elf_writer_build_id(&f.w, bytes_of(id64, 32));
	expect_id(&f, 32);
}

static void notes_with_8_byte_alignment(void **state)
{
	AUTO(input_done) struct input f = { 0 };
	AUTO(buf_done) struct buf b = { 0 };
	unsigned at;

	input_init(&f, ELF_WRITER_X86_64, ET_DYN);
	/* Sizes that are padded differently for 4 and for 8. */
	elf_writer_note(&f.w, &b, 8, 5, "GNU", bytes_of("\2\0\0\xc0\4\0\0\0\3\0\0\0", 12));
	elf_writer_note(&f.w, &b, 8, 77, "longer name", bytes_of("12345", 5));
	elf_writer_note(&f.w, &b, 8, 3, "GNU", bytes_of(id64, 20));
	at = elf_writer_section(&f.w, ".note.gnu.property", SHT_NOTE, SHF_ALLOC, buf_bytes(&b));
	elf_writer_at(&f.w, at)->align = 8;
	expect_id(&f, 20);
}

static void a_segment_with_the_wrong_alignment_does_not_hide_the_section(void **state)
{
	AUTO(input_done) struct input f = { 0 };
	AUTO(buf_done) struct buf b = { 0 };
	unsigned at;

	input_init(&f, ELF_WRITER_X86_64, ET_DYN);
	elf_writer_note(&f.w, &b, 4, 1, "GNU", bytes_of("1234", 4));
	elf_writer_note(&f.w, &b, 4, 3, "GNU", bytes_of(id64, 20));
	at = elf_writer_section(&f.w, ".note", SHT_NOTE, SHF_ALLOC, buf_bytes(&b));
	elf_writer_at(&f.w, at)->align = 4;
	elf_writer_segment_at(&f.w, elf_writer_segment(&f.w, PT_NOTE, PF_R, at))->align = 8;
	expect_id(&f, 20);
}

static void a_damaged_note_ends_its_own_section_only(void **state)
{
	static const uint32_t lies[] = { 5, 1000, UINT32_MAX, UINT32_MAX - 11 };

	for (size_t i = 0; i < ARRAY_SIZE(lies); i++)
		for (int field = 0; field < 2; field++) {
			AUTO(input_done) struct input f = { 0 };
			AUTO(buf_done) struct buf b = { 0 };

			input_init(&f, ELF_WRITER_X86_64, ET_REL);
			elf_writer_put(&f.w, &b, field ? 4 : lies[i], 4);
			elf_writer_put(&f.w, &b, field ? lies[i] : 4, 4);
			elf_writer_put(&f.w, &b, 3, 4);
			buf_add(&b, "GNU", 4);
			elf_writer_section(&f.w, ".note.a", SHT_NOTE, 0, buf_bytes(&b));
			elf_writer_build_id(&f.w, bytes_of(id64, 20));
			expect_id(&f, 20);
		}
}

static void notes_that_are_not_in_the_file_are_passed_over(void **state)
{
	static const uint64_t offs[] = { 100000, UINT64_MAX, UINT64_MAX - 100 };

	for (size_t i = 0; i < ARRAY_SIZE(offs); i++) {
		AUTO(input_done) struct input f = { 0 };
		struct elf_writer_segment *seg;
		unsigned at;

		input_init(&f, ELF_WRITER_X86_64, ET_DYN);
		seg = elf_writer_segment_at(&f.w, elf_writer_segment(&f.w, PT_NOTE, PF_R, 0));
		seg->off = offs[i];
		seg->filesz = UINT64_MAX;
		at = elf_writer_section(&f.w, ".note.x", SHT_NOTE, 0, bytes_of("x", 1));
		elf_writer_at(&f.w, at)->off_set = true;
		elf_writer_at(&f.w, at)->off = offs[i];
		elf_writer_at(&f.w, at)->size = UINT64_MAX;
		elf_writer_build_id(&f.w, bytes_of(id64, 20));
		expect_id(&f, 20);
	}
}

static void notes_that_run_past_the_file_are_read_up_to_its_end(void **state)
{
	AUTO(input_done) struct input f = { 0 };
	AUTO(buf_done) struct buf b = { 0 };
	unsigned at;

	input_init(&f, ELF_WRITER_X86_64, ET_REL);
	elf_writer_note(&f.w, &b, 4, 3, "GNU", bytes_of(id64, 20));
	at = elf_writer_section(&f.w, ".note", SHT_NOTE, 0, buf_bytes(&b));
	elf_writer_at(&f.w, at)->size = 1000000;
	expect_id(&f, 20);
}

static int count(void *arg, const struct elf_note *note)
{
	(*(size_t *)arg)++;
	return 0;
}

static void reading_of_notes_is_bounded(void **state)
{
	AUTO(input_done) struct input f = { 0 };
	AUTO(buf_done) struct buf b = { 0 };
	struct err err = { 0 };
	size_t n = 0;
	unsigned at;

	input_init(&f, ELF_WRITER_X86_64, ET_CORE);
	while (b.size < 2 * ELF_MAX_NOTE_SIZE)
		elf_writer_note(&f.w, &b, 4, 1, "GNU", bytes_of(id64, 0));
	at = elf_writer_section(&f.w, ".note", SHT_PROGBITS, 0, buf_bytes(&b));
	elf_writer_segment(&f.w, PT_NOTE, PF_R, at);
	for (int i = 0; i < 1000; i++)
		elf_writer_segment(&f.w, PT_NOTE, PF_R, at);
	input_open(&f);
	assert_done(elf_notes_each(f.img, count, &n, &err));
	assert_int_equal(n, 16 * (ELF_MAX_NOTE_SIZE / 16));
}

static int stop_at_third(void *arg, const struct elf_note *note)
{
	return ++*(int *)arg == 3 ? 42 : 0;
}

static int print_note(void *arg, const struct elf_note *note)
{
	struct buf *out = arg;

	buf_printf(out, "%u " STR_FMT " %zu;", note->type, STR_ARG(note->owner), note->desc.size);
	return 0;
}

static void every_note_in_order(void **state)
{
	AUTO(input_done) struct input f = { 0 };
	AUTO(buf_done) struct buf b = { 0 }, c = { 0 }, text = { 0 };
	struct err err = { 0 };
	int n = 0;

	input_init(&f, ELF_WRITER_I386, ET_DYN);
	elf_writer_note(&f.w, &b, 4, 1, "A", bytes_of(id64, 1));
	elf_writer_note(&f.w, &b, 4, 2, "", bytes_of(id64, 2));
	elf_writer_section(&f.w, ".note.x", SHT_NOTE, 0, buf_bytes(&b));
	elf_writer_note(&f.w, &c, 4, 3, "long owner", bytes_of(id64, 3));
	elf_writer_segment(&f.w, PT_NOTE, PF_R,
			   elf_writer_section(&f.w, ".x", SHT_PROGBITS, 0, buf_bytes(&c)));
	input_open(&f);
	assert_done(elf_notes_each(f.img, print_note, &text, &err));
	assert_str(buf_str(&text), "3 long owner 3;1 A 1;2  2;");
	assert_int_equal(elf_notes_each(f.img, stop_at_third, &n, &err), 42);
}

static void go_build_ids(void **state)
{
	static const char text[] = "h4sh/of/the/inputs/and-action";
	AUTO(input_done) struct input f = { 0 }, none = { 0 };
	AUTO(arena_done) struct arena a = { 0 };
	AUTO(buf_done) struct buf b = { 0 };
	struct err err = { 0 };
	struct str id;

	input_init(&f, ELF_WRITER_X86_64, ET_EXEC);
	elf_writer_note(&f.w, &b, 4, 4, "Go", bytes_of(text, sizeof(text) - 1));
	elf_writer_segment(&f.w, PT_NOTE, PF_R,
			   elf_writer_section(&f.w, ".note.go.buildid", SHT_NOTE, SHF_ALLOC, buf_bytes(&b)));
	expect_id(&f, 0);
	assert_done(elf_go_build_id(f.img, &a, &id, &err));
	assert_str(id, text);

	input_init(&none, ELF_WRITER_X86_64, ET_EXEC);
	elf_writer_build_id(&none.w, bytes_of(id64, 20));
	input_open(&none);
	assert_int_equal(elf_go_build_id(none.img, &a, &id, &err), ELF_NO_BUILD_ID);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ids_of_any_size),
		cmocka_unit_test(ids_of_no_size_or_too_large_are_passed_over),
		cmocka_unit_test(a_xen_note_of_type_3_is_no_build_id),
		cmocka_unit_test(other_owners_types_and_kinds_are_no_build_id),
		cmocka_unit_test(an_id_in_an_oddly_named_section),
		cmocka_unit_test(an_id_in_a_segment_only),
		cmocka_unit_test(notes_with_8_byte_alignment),
		cmocka_unit_test(a_segment_with_the_wrong_alignment_does_not_hide_the_section),
		cmocka_unit_test(a_damaged_note_ends_its_own_section_only),
		cmocka_unit_test(notes_that_are_not_in_the_file_are_passed_over),
		cmocka_unit_test(notes_that_run_past_the_file_are_read_up_to_its_end),
		cmocka_unit_test(reading_of_notes_is_bounded),
		cmocka_unit_test(every_note_in_order),
		cmocka_unit_test(go_build_ids),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
