/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of hand-made call frame information. */
#include "test.h"

#include <time.h>
#include "elf_writer.h"
#include "fault_source.h"
#include "unwind/unwind.h"

#define TEXT  0x401000u
#define FRAME 0x1000000u
#define LIST  0x1400000u

struct input {
	struct elf_writer w;
	struct buf text, frame, list, bytes;
	size_t cie; /* its offset in `frame` */
	unsigned n_listed;
	struct source *src;
	struct elf_image *img;
	struct buf out;
	struct unwind_table t;
	struct unwind_stats stats;
};

static void put_entry(struct buf *b, const struct buf *content)
{
	while (content->size % 4)
		buf_add_char((struct buf *)content, 0);
	buf_add_u32(b, (uint32_t)content->size);
	buf_add(b, content->p, content->size);
}

/* A CIE with "zR" (and "S"), rsp + 8, the return address at CFA - 8. */
static void put_cie(struct input *in, bool signal)
{
	static const uint8_t rest[] = { 1, 0x78, 16 }, code[] = { 0x0c, 7, 8, 0x90, 1 };
	AUTO(buf_done) struct buf e = { 0 };

	in->cie = in->frame.size;
	buf_add_u32(&e, 0);
	buf_add_char(&e, 1);
	buf_add(&e, signal ? "zRS" : "zR", signal ? 4 : 3);
	buf_add(&e, rest, sizeof(rest));
	buf_add_char(&e, 1);
	buf_add_char(&e, 0x1b);
	buf_add(&e, code, sizeof(code));
	put_entry(&in->frame, &e);
}

static void put_fde(struct input *in, uint32_t start, uint32_t size, const void *code, size_t n)
{
	AUTO(buf_done) struct buf e = { 0 };

	buf_add_u32(&in->list, start - LIST);
	buf_add_u32(&in->list, (uint32_t)(FRAME + in->frame.size - LIST));
	in->n_listed++;
	buf_add_u32(&e, (uint32_t)(in->frame.size + 4 - in->cie));
	buf_add_u32(&e, (uint32_t)(start - (FRAME + in->frame.size + 8)));
	buf_add_u32(&e, size);
	buf_add_char(&e, 0);
	buf_add(&e, code, n);
	put_entry(&in->frame, &e);
}
#define FDE(in, start, size, ...)                                               \
	do {                                                                    \
		static const uint8_t fde_code_[] = { 0, __VA_ARGS__ };          \
		put_fde(in, start, size, fde_code_ + 1, sizeof(fde_code_) - 1); \
	} while (0)

static void input_init(struct input *in)
{
	elf_writer_init(&in->w, ELF_WRITER_X86_64, ET_EXEC);
	memset(buf_reserve(&in->text, 0x1000), 0xcc, 0x1000);
	in->text.size = 0x1000;
	put_cie(in, false);
}

static void put_section(struct input *in, const char *name, uint64_t addr, const struct buf *b,
			uint32_t flags)
{
	unsigned i = elf_writer_section(&in->w, name, SHT_PROGBITS, SHF_ALLOC, buf_bytes(b));

	elf_writer_at(&in->w, i)->addr = addr;
	i = elf_writer_segment(&in->w, PT_LOAD, flags, i);
	elf_writer_segment_at(&in->w, i)->vaddr = addr;
}

static int input_build(struct input *in, bool listed, struct err *err)
{
	AUTO(buf_done) struct buf list = { 0 };

	put_section(in, ".text", TEXT, &in->text, PF_R | PF_X);
	put_section(in, ".eh_frame", FRAME, &in->frame, PF_R);
	if (listed) {
		buf_add(&list, "\x01\x1b\x03\x3b", 4);
		buf_add_u32(&list, FRAME - (LIST + 4));
		buf_add_u32(&list, in->n_listed);
		buf_add(&list, in->list.p, in->list.size);
		put_section(in, ".eh_frame_hdr", LIST, &list, PF_R);
	}
	elf_writer_finish(&in->w, &in->bytes);
	in->src = source_of_mem(buf_bytes(&in->bytes), "x");
	if (elf_open(in->src, &in->img, err) < 0)
		return -1;
	return unwind_build(in->img, NULL, &in->out, &in->stats, err);
}

static void input_table(struct input *in, bool listed)
{
	struct err err = { 0 };

	assert_done(input_build(in, listed, &err));
	assert_done(unwind_table_open(buf_bytes(&in->out), &in->t, &err));
}

static void input_done(struct input *in)
{
	elf_close(in->img);
	source_close(in->src);
	elf_writer_done(&in->w);
	buf_done(&in->text);
	buf_done(&in->frame);
	buf_done(&in->list);
	buf_done(&in->bytes);
	buf_done(&in->out);
}

static void expect_at(struct input *in, uint64_t addr, const char *want)
{
	AUTO(buf_done) struct buf text = { 0 };
	struct unwind_rule r;

	assert_int_equal(unwind_find(&in->t, addr, &r), 0);
	unwind_rule_print(&r, &text);
	assert_string_equal(buf_cstr(&text), want);
}

#define ADVANCE(n)    0x40 | (n)
#define OFFSET(reg)   0x80 | (reg)
#define DEF_OFFSET(n) 0x0e, (n)

static void a_function_with_a_frame(void **state)
{
	AUTO(input_done) struct input in = { 0 };

	input_init(&in);
	/* push rbp; mov rsp, rbp; ...; leave; ret */
	FDE(&in, TEXT + 0x10, 0x20, ADVANCE(1), DEF_OFFSET(16), OFFSET(6), 2, ADVANCE(3), 0x0d, 6,
	    ADVANCE(27), 0x0c, 7, 8);
	input_table(&in, true);
	assert_true(in.stats.sorted);
	expect_at(&in, TEXT + 0xf, "none");
	expect_at(&in, TEXT + 0x10, "cfa=rsp+8 ra=cfa-8");
	expect_at(&in, TEXT + 0x11, "cfa=rsp+16 rbp=cfa-16 ra=cfa-8");
	expect_at(&in, TEXT + 0x13, "cfa=rsp+16 rbp=cfa-16 ra=cfa-8");
	expect_at(&in, TEXT + 0x14, "cfa=rbp+16 rbp=cfa-16 ra=cfa-8");
	expect_at(&in, TEXT + 0x2f, "cfa=rsp+8 rbp=cfa-16 ra=cfa-8");
	expect_at(&in, TEXT + 0x30, "none");
}

static void expressions(void **state)
{
	AUTO(input_done) struct input in = { 0 };

	input_init(&in);
	FDE(&in, TEXT, 0x40, 0x0f, 3, 0x76, 0x78, 0x06, ADVANCE(8), 0x0f, 5, 0x77, 8, 0x06, 0x23, 16,
	    ADVANCE(8), 0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22, ADVANCE(8),
	    0x0c, 7, 8, 0x10, 6, 2, 0x76, 0x70, ADVANCE(8), 0x0f, 2, 0x9f, 0x9f);
	input_table(&in, true);
	expect_at(&in, TEXT, "cfa=*(rbp-8)+0 ra=cfa-8");
	expect_at(&in, TEXT + 8, "cfa=*(rsp+8)+16 ra=cfa-8");
	expect_at(&in, TEXT + 16, "cfa=rsp+8, rsp+16 from byte 11 of 16 ra=cfa-8");
	expect_at(&in, TEXT + 24, "cfa=rsp+8 rbp=*(rbp-16) ra=cfa-8");
	expect_at(&in, TEXT + 32, "unsupported");
	assert_int_equal(in.stats.n_bad, 1);
}

/* As in assembly of libgcrypt, and as libgcc reads it. */
static void an_offset_outlasts_an_expression(void **state)
{
	AUTO(input_done) struct input in = { 0 };

	input_init(&in);
	FDE(&in, TEXT, 0x40, DEF_OFFSET(56), 0x0f, 3, 0x76, 0x78, 0x06, ADVANCE(8), 0x0d, 7);
	input_table(&in, true);
	expect_at(&in, TEXT, "cfa=*(rbp-8)+0 ra=cfa-8");
	expect_at(&in, TEXT + 8, "cfa=rsp+56 ra=cfa-8");
}

static void the_outermost_function_and_the_signal_frame(void **state)
{
	AUTO(input_done) struct input in = { 0 };

	input_init(&in);
	FDE(&in, TEXT, 0x10, 0x07, 16);
	FDE(&in, TEXT + 0x10, 0x10, 0x09, 16, 5);
	put_cie(&in, true);
	FDE(&in, TEXT + 0x20, 0x10, 0x0f, 4, 0x77, 0xa0, 1, 0x06);
	FDE(&in, TEXT + 0x30, 0x10, DEF_OFFSET(32));
	input_table(&in, true);
	expect_at(&in, TEXT, "cfa=rsp+8 outermost");
	expect_at(&in, TEXT + 0x10, "cfa=rsp+8 ra=rdi");
	expect_at(&in, TEXT + 0x20, "signal frame, registers at rsp+40");
	expect_at(&in, TEXT + 0x30, "cfa=rsp+32 ra=cfa-8 interrupted caller");
}

static void another_stack_is_not_supported(void **state)
{
	AUTO(input_done) struct input in = { 0 };

	input_init(&in);
	FDE(&in, TEXT, 0x10, 0x09, 7, 8, ADVANCE(4), 0x16, 7, 0);
	input_table(&in, true);
	expect_at(&in, TEXT, "unsupported");
}

/* Without the list, or with one that does not fit, the entries are sorted; the table is the same. */
static void entries_in_any_order(void **state)
{
	for (int kind = 0; kind < 5; kind++) {
		AUTO(input_done) struct input in = { 0 };

		input_init(&in);
		FDE(&in, TEXT + 0x20, 0x20, ADVANCE(1), DEF_OFFSET(24));
		if (kind == 2) /* the list does not have the first one */
			in.list.size = in.n_listed = 0;
		FDE(&in, TEXT, 0x20, DEF_OFFSET(16));
		if (kind == 3) /* sorted, but the addresses are others' */
			memcpy(in.list.p + 8, in.list.p, 8), in.list.p[0] -= 0x20;
		if (kind == 4)
			in.n_listed = 1000;
		input_table(&in, kind > 0);
		assert_false(in.stats.sorted);
		assert_int_equal(in.stats.n_functions, 2);
		expect_at(&in, TEXT + 0x1f, "cfa=rsp+16 ra=cfa-8");
		expect_at(&in, TEXT + 0x20, "cfa=rsp+8 ra=cfa-8");
		expect_at(&in, TEXT + 0x21, "cfa=rsp+24 ra=cfa-8");
		expect_at(&in, TEXT + 0x40, "none");
	}
}

static void functions_that_overlap(void **state)
{
	AUTO(input_done) struct input in = { 0 };

	input_init(&in);
	FDE(&in, TEXT, 0x100, DEF_OFFSET(16));
	FDE(&in, TEXT + 0x10, 0, DEF_OFFSET(48)); /* empty: none */
	FDE(&in, TEXT + 0x20, 0x10, DEF_OFFSET(24));
	FDE(&in, TEXT + 0x400, 0x10, DEF_OFFSET(32));
	input_table(&in, true);
	expect_at(&in, TEXT + 0x1f, "cfa=rsp+16 ra=cfa-8");
	expect_at(&in, TEXT + 0x20, "cfa=rsp+24 ra=cfa-8");
	expect_at(&in, TEXT + 0x30, "none");
	expect_at(&in, TEXT + 0x400, "cfa=rsp+32 ra=cfa-8");
}

static void padding_has_no_rows_of_its_own(void **state)
{
	AUTO(input_done) struct input in = { 0 };

	input_init(&in);
	FDE(&in, TEXT, 0x11, DEF_OFFSET(16));
	FDE(&in, TEXT + 0x20, 0x10, DEF_OFFSET(24));
	FDE(&in, TEXT + 0x41, 0x10, DEF_OFFSET(32));
	input_table(&in, true);
	expect_at(&in, TEXT + 0x1f, "cfa=rsp+16 ra=cfa-8");
	expect_at(&in, TEXT + 0x40, "none");
}

static void damaged_instructions_cost_their_function(void **state)
{
	AUTO(input_done) struct input in = { 0 };

	input_init(&in);
	FDE(&in, TEXT, 0x20, ADVANCE(4), DEF_OFFSET(16), ADVANCE(4), 0x3f);
	FDE(&in, TEXT + 0x20, 0x20, 0x0b); /* restores what was not remembered */
	FDE(&in, TEXT + 0x40, 0x20, DEF_OFFSET(24));
	FDE(&in, 0x9000000, 0x20, DEF_OFFSET(24)); /* in no segment */
	input_table(&in, true);
	expect_at(&in, TEXT + 4, "cfa=rsp+16 ra=cfa-8");
	expect_at(&in, TEXT + 8, "unsupported");
	expect_at(&in, TEXT + 0x20, "unsupported");
	expect_at(&in, TEXT + 0x40, "cfa=rsp+24 ra=cfa-8");
	assert_int_equal(in.stats.n_skipped, 3);
	assert_true(in.t.chunks[0].head.flags & UNWIND_PARTIAL);
}

/* A CIE without content, in the form for 64 bits if @wide: its length is 0. It is within another entry, and an FDE has it. */
static void put_empty_cie(struct input *in, bool wide, uint64_t start)
{
	static const uint8_t content[] = { 0, 0, 0, 0, 1, 0, 1, 0x78, 16 }, code[] = { 0x0c, 7, 24, 0x90, 1 };
	AUTO(buf_done) struct buf outer = { 0 };
	AUTO(buf_done) struct buf fde = { 0 };
	size_t cie = in->frame.size + 8;

	buf_add_u32(&outer, UINT32_MAX); /* an FDE whose CIE is outside of the section */
	if (wide)
		buf_add_u32(&outer, UINT32_MAX);
	buf_add(&outer, "\0\0\0\0\0\0\0\0", wide ? 8 : 4);
	buf_add(&outer, content, sizeof(content));
	put_entry(&in->frame, &outer);
	buf_add_u32(&fde, (uint32_t)(in->frame.size + 4 - cie));
	buf_add_u64(&fde, start);
	buf_add_u64(&fde, 0x20);
	buf_add(&fde, code, sizeof(code));
	put_entry(&in->frame, &fde);
}

/* The bytes after it are not its own: the size of its content would be below zero. */
static void a_cie_without_content_is_not_sound(void **state)
{
	AUTO(input_done) struct input in = { 0 };

	input_init(&in);
	put_empty_cie(&in, false, TEXT);
	put_empty_cie(&in, true, TEXT + 0x20);
	FDE(&in, TEXT + 0x40, 0x20, DEF_OFFSET(40));
	input_table(&in, false);
	expect_at(&in, TEXT, "none");
	expect_at(&in, TEXT + 0x20, "none");
	expect_at(&in, TEXT + 0x40, "cfa=rsp+40 ra=cfa-8");
}

static void code_without_entries_is_recognised(void **state)
{
	static const uint8_t restorer[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };
	AUTO(input_done) struct input in = { 0 };

	input_init(&in);
	memcpy(in.text.p + 0x801, restorer, sizeof(restorer));
	FDE(&in, TEXT, 0x20, DEF_OFFSET(16));
	input_table(&in, true);
	expect_at(&in, TEXT + 0x7ff, "none");
	expect_at(&in, TEXT + 0x800, "signal frame, registers at rsp+40");
	expect_at(&in, TEXT + 0x808, "signal frame, registers at rsp+40");
	expect_at(&in, TEXT + 0x80a, "none");
}

/* The byte before the second one is the last of the first one: its row would be before the last row. */
static void adjacent_restorers_have_rising_rows(void **state)
{
	static const uint8_t restorer[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };
	AUTO(input_done) struct input in = { 0 };
	struct unwind_rows it;
	uint64_t last = 0;

	input_init(&in);
	memcpy(in.text.p + 0x801, restorer, sizeof(restorer));
	memcpy(in.text.p + 0x80a, restorer, sizeof(restorer));
	FDE(&in, TEXT, 0x20, DEF_OFFSET(16));
	input_table(&in, true);
	for (unwind_rows_start(&it, &in.t); unwind_rows_next(&it); last = it.addr)
		assert_true(it.addr > last);
	expect_at(&in, TEXT + 0x800, "signal frame, registers at rsp+40");
	expect_at(&in, TEXT + 0x812, "signal frame, registers at rsp+40");
	expect_at(&in, TEXT + 0x813, "none");
}

/* As in glibc's clone(): the entry ends before the call of the kernel, and another one starts after the return. */
static void the_gap_around_a_call_that_makes_a_thread(void **state)
{
	static const uint8_t near_jumps[] = { 0x0f, 0x05, 0x48, 0x85, 0xc0, 0x7c, 0x18, 0x74, 0x01, 0xc3 };
	static const uint8_t far_jumps[] = { 0x0f, 0x05, 0x48, 0x85, 0xc0, 0x0f, 0x8c,
					     1,    0,    0,    0,    0x74, 1,    0xc3 };
	static const uint8_t other[] = { 0x0f, 0x05, 0x48, 0x85, 0xc0, 0x7d, 0x18, 0x74, 0x01, 0xc3 };
	const char *rule = "cfa=rsp+8, none in a new thread ra=cfa-8";
	AUTO(input_done) struct input in = { 0 };

	input_init(&in);
	memcpy(in.text.p + 0x17, near_jumps, sizeof(near_jumps));
	memcpy(in.text.p + 0x57, far_jumps, sizeof(far_jumps));
	memcpy(in.text.p + 0x97, other, sizeof(other));
	memcpy(in.text.p + 0xd7, near_jumps, sizeof(near_jumps));
	FDE(&in, TEXT, 0x17, DEF_OFFSET(16));
	FDE(&in, TEXT + 0x21, 0x36, DEF_OFFSET(24));
	FDE(&in, TEXT + 0x65, 0x32, DEF_OFFSET(32));
	FDE(&in, TEXT + 0xa1, 0x36, DEF_OFFSET(40));
	FDE(&in, TEXT + 0xe2, 0x10, DEF_OFFSET(48)); /* a byte more than the code */
	input_table(&in, true);
	expect_at(&in, TEXT + 0x16, "cfa=rsp+16 ra=cfa-8");
	expect_at(&in, TEXT + 0x17, rule);
	expect_at(&in, TEXT + 0x20, rule);
	expect_at(&in, TEXT + 0x21, "cfa=rsp+24 ra=cfa-8");
	expect_at(&in, TEXT + 0x64, rule);
	expect_at(&in, TEXT + 0x97, "none");
	expect_at(&in, TEXT + 0xd7, "none");
	assert_true(in.t.chunks[0].head.flags & UNWIND_FROM_CODE);
}

/* @code as section .init at TEXT + 0x900, in the gap behind a function. */
static void init_table(struct input *in, const uint8_t *code, size_t n)
{
	unsigned i;

	input_init(in);
	memcpy(in->text.p + 0x900, code, n);
	FDE(in, TEXT, 0x20, DEF_OFFSET(16));
	i = elf_writer_section(&in->w, ".init", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, bytes_of(code, n));
	elf_writer_at(&in->w, i)->addr = TEXT + 0x900;
	input_table(in, true);
}

static void sections_that_are_put_together_of_pieces(void **state)
{
	static const struct {
		uint8_t n, begun, ends; /* 0: not recognised */
		uint8_t code[32];
	} cases[] = {
		/* glibc's, with the call of __gmon_start__ */
		{ 23, 4, 22, { 0x48, 0x83, 0xec, 8, 0x48, 0x8b, 5,    1,    2,    3, 4,   0x48,
			       0x85, 0xc0, 0x74, 2, 0xff, 0xd0, 0x48, 0x83, 0xc4, 8, 0xc3 } },
		/* with endbr64, and a call of another object's */
		{ 18,
		  8,
		  17,
		  { 0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x83, 0xec, 8, 0xe8, 1, 2, 3, 4, 0x48, 0x83, 0xc4, 8,
		    0xc3 } },
		/* musl's */
		{ 3, 1, 2, { 0x50, 0x58, 0xc3 } },
		/* another instruction, an end without its beginning, bytes after it, none at all */
		{ 10, 0, 0, { 0x48, 0x83, 0xec, 8, 0x57, 0x48, 0x83, 0xc4, 8, 0xc3 } },
		{ 6, 0, 0, { 0x50, 0x48, 0x83, 0xc4, 8, 0xc3 } },
		{ 4, 0, 0, { 0x50, 0x58, 0xc3, 0x90 } },
		{ 5, 0, 0, { 0x48, 0x83, 0xec, 8, 0xe8 } },
		{ 1, 0, 0, { 0xc3 } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO(input_done) struct input in = { 0 };
		uint64_t at = TEXT + 0x900;

		init_table(&in, cases[i].code, cases[i].n);
		expect_at(&in, at - 1, "none");
		expect_at(&in, at + cases[i].n, "none");
		if (!cases[i].begun) {
			expect_at(&in, at, "none");
			continue;
		}
		expect_at(&in, at, "cfa=rsp+8 ra=cfa-8");
		expect_at(&in, at + cases[i].begun - 1, "cfa=rsp+8 ra=cfa-8");
		expect_at(&in, at + cases[i].begun, "cfa=rsp+16 ra=cfa-8");
		expect_at(&in, at + cases[i].ends - 1, "cfa=rsp+16 ra=cfa-8");
		expect_at(&in, at + cases[i].ends, "cfa=rsp+8 ra=cfa-8");
	}
}

/* With walks over all segments for each gap and each dynamic segment, it takes seconds of CPU time; else some hundredths. */
static void many_segments_are_sorted_once(void **state)
{
	enum { STEP = 64, FUNCTIONS = 40000, SEGMENTS = 65000 };
	AUTO(input_done) struct input in = { 0 };
	clock_t start;

	input_init(&in);
	memset(buf_reserve(&in.text, STEP * FUNCTIONS), 0xcc, STEP * FUNCTIONS);
	in.text.size = STEP * FUNCTIONS;
	for (uint32_t i = 0; i < FUNCTIONS; i++)
		FDE(&in, TEXT + i * STEP, STEP / 2, DEF_OFFSET(16));
	for (uint32_t i = 0; i < SEGMENTS; i++) {
		unsigned k = elf_writer_segment(&in.w, i % 2 ? PT_LOAD : PT_DYNAMIC, PF_R, 0);

		elf_writer_segment_at(&in.w, k)->vaddr = 0x100000000 + i * 32;
		elf_writer_segment_at(&in.w, k)->filesz = 16;
	}
	start = clock();
	input_table(&in, true);
	assert_true(clock() - start < CLOCKS_PER_SEC);
	assert_int_equal(in.stats.n_functions, FUNCTIONS);
	expect_at(&in, TEXT + STEP * (FUNCTIONS - 1), "cfa=rsp+16 ra=cfa-8");
}

static void a_file_without_rules_has_no_table(void **state)
{
	AUTO(input_done) struct input in = { 0 };
	struct err err = { 0 };

	input_init(&in);
	assert_int_equal(input_build(&in, false, &err), UNWIND_NOTHING);
	assert_int_equal(in.out.size, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_function_with_a_frame),
		cmocka_unit_test(expressions),
		cmocka_unit_test(an_offset_outlasts_an_expression),
		cmocka_unit_test(the_outermost_function_and_the_signal_frame),
		cmocka_unit_test(another_stack_is_not_supported),
		cmocka_unit_test(entries_in_any_order),
		cmocka_unit_test(functions_that_overlap),
		cmocka_unit_test(padding_has_no_rows_of_its_own),
		cmocka_unit_test(damaged_instructions_cost_their_function),
		cmocka_unit_test(a_cie_without_content_is_not_sound),
		cmocka_unit_test(code_without_entries_is_recognised),
		cmocka_unit_test(adjacent_restorers_have_rising_rows),
		cmocka_unit_test(the_gap_around_a_call_that_makes_a_thread),
		cmocka_unit_test(sections_that_are_put_together_of_pieces),
		cmocka_unit_test(many_segments_are_sorted_once),
		cmocka_unit_test(a_file_without_rules_has_no_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
