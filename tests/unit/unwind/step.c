/* SPDX-License-Identifier: Apache-2.0 */
/* Steps by single rules, over a stack in memory. */
#include "test.h"

#include "unwind/unwind.h"

#define STACK 0x7ffc00001000u
#define WORDS 64u

struct stack {
	uint64_t words[WORDS];
	struct unwind_memory memory;
	struct unwind_frame f;
};

static int stack_read(void *arg, uint64_t address, void *to, size_t size)
{
	const struct stack *s = arg;

	if (address < STACK || address - STACK > sizeof(s->words) - size)
		return -1;
	memcpy(to, (const uint8_t *)s->words + (address - STACK), size);
	return 0;
}

static void stack_init(struct stack *s)
{
	*s = (struct stack){ .memory = { .read = stack_read } };
	s->memory.arg = s;
	for (unsigned i = 0; i < WORDS; i++)
		s->words[i] = 0x5000 + i;
	for (unsigned i = 0; i < 16; i++)
		s->memory.registers[i] = STACK + 8 * i;
	s->f = (struct unwind_frame){
		.pc = 0x401000, .sp = STACK, .bp = STACK + 8 * 20, .flags = UNWIND_EXACT | UNWIND_TOP
	};
}

static enum unwind_outcome step(struct stack *s, struct unwind_rule r)
{
	return unwind_apply(&s->memory, &r, &s->f);
}

static struct unwind_rule rule(unsigned cfa, unsigned reg, int off)
{
	return (struct unwind_rule){ .cfa = (uint8_t)(cfa | reg << 4), .off = (uint32_t)off & 0xffffff };
}

static void expect_frame(const struct stack *s, uint64_t pc, uint64_t sp, uint64_t bp)
{
	assert_int_equal(s->f.pc, pc);
	assert_int_equal(s->f.sp, sp);
	assert_int_equal(s->f.bp, bp);
}

static void by_stack_pointer(void **state)
{
	struct stack s;

	stack_init(&s);
	assert_int_equal(unwind_pc(&s.f), 0x401000);
	assert_int_equal(step(&s, rule(UNWIND_CFA_REG, UNWIND_RSP, 24)), UNWIND_CALLER);
	expect_frame(&s, 0x5002, STACK + 24, STACK + 160);
	assert_int_equal(unwind_pc(&s.f), 0x5001);
}

static void rbp_is_where_the_rule_says(void **state)
{
	struct unwind_rule r = rule(UNWIND_CFA_REG, UNWIND_RSP, 80);
	struct stack s;

	stack_init(&s);
	r.save = UNWIND_RBP_CFA;
	r.aux = -16; /* one read with the return address */
	assert_int_equal(step(&s, r), UNWIND_CALLER);
	expect_frame(&s, 0x5009, STACK + 80, 0x5008);
	stack_init(&s);
	r.aux = -40;
	assert_int_equal(step(&s, r), UNWIND_CALLER);
	expect_frame(&s, 0x5009, STACK + 80, 0x5005);
	stack_init(&s);
	r.save = UNWIND_RBP_RBP;
	r.aux = 8;
	assert_int_equal(step(&s, r), UNWIND_CALLER);
	expect_frame(&s, 0x5009, STACK + 80, 0x5015);
	stack_init(&s);
	r.save = UNWIND_RBP_LOST;
	assert_int_equal(step(&s, r), UNWIND_CALLER);
	expect_frame(&s, 0x5009, STACK + 80, 0);
	/* No register has that value: a rule that needs it cannot be used. */
	assert_int_equal(step(&s, rule(UNWIND_CFA_REG, UNWIND_RBP, 16)), UNWIND_BAD_RULE);
}

static void by_a_word_in_memory(void **state)
{
	struct stack s;

	/* *(rbp - 8) + 16, as functions with a realigned stack have it. */
	stack_init(&s);
	s.words[19] = STACK + 8 * 30;
	assert_int_equal(step(&s, rule(UNWIND_CFA_DEREF, UNWIND_RBP, 16 << 16 | 0xfff8)), UNWIND_CALLER);
	expect_frame(&s, 0x5000 + 31, STACK + 8 * 32, STACK + 160);
	stack_init(&s);
	assert_int_equal(step(&s, rule(UNWIND_CFA_DEREF, UNWIND_RBP, 0x7000)), UNWIND_UNREADABLE);
}

static void by_another_register_in_the_top_frame_only(void **state)
{
	struct stack s;

	stack_init(&s);
	assert_int_equal(step(&s, rule(UNWIND_CFA_REG, 10, 0)), UNWIND_CALLER);
	expect_frame(&s, 0x5009, STACK + 80, STACK + 160);
	assert_int_equal(step(&s, rule(UNWIND_CFA_REG, 10, 0)), UNWIND_BAD_RULE);
}

/* The dynamic linker finds its CFA by rbx, which the functions that it calls save. */
static void rbx_is_found_where_a_callee_saved_it(void **state)
{
	struct unwind_rule by_rbx = rule(UNWIND_CFA_REG, 3, 16), same = rule(UNWIND_CFA_REG, UNWIND_RSP, 16),
			   saved = same;
	struct stack s;

	saved.off |= 2u << 24; /* at CFA - 16 */
	stack_init(&s);
	s.memory.registers[3] = STACK + 8 * 40;
	s.words[2] = STACK + 8 * 30;
	assert_int_equal(step(&s, same), UNWIND_CALLER);
	assert_int_equal(step(&s, by_rbx), UNWIND_CALLER);
	expect_frame(&s, 0x5000 + 41, STACK + 8 * 42, STACK + 160);
	stack_init(&s);
	s.words[2] = STACK + 8 * 30;
	assert_int_equal(step(&s, same), UNWIND_CALLER);
	assert_int_equal(step(&s, saved), UNWIND_CALLER);
	assert_int_equal(step(&s, same), UNWIND_CALLER);
	assert_int_equal(step(&s, by_rbx), UNWIND_CALLER);
	expect_frame(&s, 0x5000 + 31, STACK + 8 * 32, STACK + 160);
	/* A function that keeps it nowhere. */
	stack_init(&s);
	same.off |= UNWIND_RBX_LOST << 24;
	assert_int_equal(step(&s, same), UNWIND_CALLER);
	assert_int_equal(step(&s, by_rbx), UNWIND_BAD_RULE);
}

static void linkage_entries_push_their_number_in_the_middle(void **state)
{
	struct stack s;

	stack_init(&s);
	s.f.pc = 0x40102a;
	assert_int_equal(step(&s, rule(UNWIND_CFA_PLT, 0, 11)), UNWIND_CALLER);
	expect_frame(&s, 0x5000, STACK + 8, STACK + 160);
	stack_init(&s);
	s.f.pc = 0x40102b;
	assert_int_equal(step(&s, rule(UNWIND_CFA_PLT, 0, 11)), UNWIND_CALLER);
	expect_frame(&s, 0x5001, STACK + 16, STACK + 160);
}

static void a_new_thread_has_no_caller(void **state)
{
	struct stack s;

	stack_init(&s);
	s.memory.registers[UNWIND_RAX] = (uint64_t)-38; /* in the call: ENOSYS */
	assert_int_equal(step(&s, rule(UNWIND_CFA_CLONE, 0, 0)), UNWIND_CALLER);
	expect_frame(&s, 0x5000, STACK + 8, STACK + 160);
	stack_init(&s);
	s.memory.registers[UNWIND_RAX] = 0;
	assert_int_equal(step(&s, rule(UNWIND_CFA_CLONE, 0, 0)), UNWIND_END);
	/* Not called itself: its registers are not known. */
	stack_init(&s);
	s.f.flags = 0;
	assert_int_equal(step(&s, rule(UNWIND_CFA_CLONE, 0, 0)), UNWIND_BAD_RULE);
}

static void a_signal_frame_has_all_registers(void **state)
{
	struct unwind_rule r = rule(UNWIND_CFA_SIGNAL, 0, 40);
	struct stack s;

	stack_init(&s);
	s.words[5 + UNWIND_GREG_SP] = STACK - 0x900000; /* the other stack may be anywhere */
	assert_int_equal(step(&s, r), UNWIND_CALLER);
	expect_frame(&s, 0x5005 + 16, STACK - 0x900000, 0x5005 + 10);
	/* It was interrupted: its own address counts, and its registers are known. */
	assert_int_equal(unwind_pc(&s.f), 0x5005 + 16);
	s.words[5 + 2] = STACK + 8 * 40; /* r10 */
	assert_int_equal(step(&s, rule(UNWIND_CFA_REG, 10, 8)), UNWIND_CALLER);
	expect_frame(&s, 0x5000 + 40, STACK + 8 * 41, 0x5005 + 10);
	assert_int_equal(step(&s, rule(UNWIND_CFA_REG, 10, 8)), UNWIND_BAD_RULE);
}

static void all_registers_are_found_in_a_signal_frame(void **state)
{
	/* DWARF's numbers and the kernel's order: r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip. */
	static const unsigned places[16] = { 13, 12, 14, 11, 9, 8, 10, 15, 0, 1, 2, 3, 4, 5, 6, 7 };

	for (unsigned i = 0; i < 16; i++) {
		struct stack s;
		uint64_t v;

		stack_init(&s);
		s.f.saved = STACK;
		s.f.bp = s.words[10];
		s.f.sp = s.words[15];
		assert_int_equal(unwind_register(&s.memory, &s.f, i, &v), 0);
		assert_int_equal(v, 0x5000 + places[i]);
	}
}

static void a_return_address_in_a_register(void **state)
{
	struct unwind_rule r = rule(UNWIND_CFA_REG, UNWIND_RSP, 0);
	struct stack s;

	stack_init(&s);
	r.save = UNWIND_RA_REG << 2;
	r.aux = 5;
	assert_int_equal(step(&s, r), UNWIND_CALLER);
	expect_frame(&s, STACK + 40, STACK, STACK + 160);
	/* The next frame does not have its registers. */
	assert_int_equal(step(&s, r), UNWIND_BAD_RULE);
	stack_init(&s);
	r.save = UNWIND_RA_AT << 2;
	r.off = 40;
	r.aux = -24;
	assert_int_equal(step(&s, r), UNWIND_CALLER);
	expect_frame(&s, 0x5002, STACK + 40, STACK + 160);
}

static void ends(void **state)
{
	struct unwind_rule r = rule(UNWIND_CFA_REG, UNWIND_RSP, 8);
	struct stack s;

	stack_init(&s);
	s.words[0] = 0;
	assert_int_equal(step(&s, r), UNWIND_END);
	r.save = UNWIND_RA_END << 2;
	stack_init(&s);
	assert_int_equal(step(&s, r), UNWIND_END);
	stack_init(&s);
	assert_int_equal(step(&s, rule(UNWIND_CFA_BAD, 0, 0)), UNWIND_BAD_RULE);
	assert_int_equal(step(&s, rule(15, 0, 0)), UNWIND_BAD_RULE);
	assert_int_equal(step(&s, rule(UNWIND_CFA_REG, UNWIND_RSP, 1 << 20)), UNWIND_UNREADABLE);
	for (int off = 0; off >= -64; off -= 8)
		assert_int_equal(step(&s, rule(UNWIND_CFA_REG, UNWIND_RSP, off)), UNWIND_LOOP);
}

static void without_a_row_by_frame_pointer(void **state)
{
	struct unwind_rule none = { 0 };
	struct stack s;

	stack_init(&s);
	assert_int_equal(step(&s, none), UNWIND_CALLER_CHAIN);
	expect_frame(&s, 0x5015, STACK + 8 * 22, 0x5014);
	assert_int_equal(step(&s, none), UNWIND_NO_ROW); /* not a multiple of 8, and not on the stack */
	stack_init(&s);
	s.f.bp = STACK - 8;
	assert_int_equal(step(&s, none), UNWIND_NO_ROW);
	s.f.bp = 0;
	assert_int_equal(step(&s, none), UNWIND_END_CHAIN);
	s.f.bp = STACK + 8;
	s.words[2] = 0;
	assert_int_equal(step(&s, none), UNWIND_END_CHAIN);
}

/* ---- the cache of rows ---- */

static void a_kept_row_is_found_by_its_file_and_address(void **state)
{
	struct unwind_rule a = rule(UNWIND_CFA_REG, UNWIND_RSP, 24), b = rule(UNWIND_CFA_REG, UNWIND_RBP, 16);
	struct unwind_set set = { 0 };
	uint32_t way;

	unwind_set_put(&set, UNWIND_WAYS, 0x10007, 0x4010, 5, &a);
	unwind_set_put(&set, UNWIND_WAYS, 0x20007, 0x4010, 6, &b);
	way = unwind_set_find(&set, 0x10007, 0x4010);
	assert_in_range(way, 0, UNWIND_WAYS - 1);
	assert_memory_equal(&set.rule[way], &a, sizeof(a));
	assert_int_equal(set.since[way], 5);
	way = unwind_set_find(&set, 0x20007, 0x4010);
	assert_in_range(way, 0, UNWIND_WAYS - 1);
	assert_memory_equal(&set.rule[way], &b, sizeof(b));
	assert_int_equal(unwind_set_find(&set, 0x30007, 0x4010), UNWIND_WAYS);
	assert_int_equal(unwind_set_find(&set, 0x10007, 0x4011), UNWIND_WAYS);
	/* The same way again: a newer rule of the same address. */
	way = unwind_set_find(&set, 0x10007, 0x4010);
	unwind_set_put(&set, way, 0x10007, 0x4010, 9, &b);
	assert_int_equal(unwind_set_find(&set, 0x10007, 0x4010), way);
	assert_int_equal(set.since[way], 9);
	assert_memory_equal(&set.rule[way], &b, sizeof(b));
}

static void a_full_set_forgets_its_oldest_row(void **state)
{
	struct unwind_rule r = rule(UNWIND_CFA_REG, UNWIND_RSP, 24);
	struct unwind_set set = { 0 };

	for (uint32_t i = 0; i < 3 * UNWIND_WAYS; i++) {
		unwind_set_put(&set, unwind_set_find(&set, 7, i), 7, i, 1, &r);
		for (uint32_t k = 0; k <= i; k++)
			assert_int_equal(unwind_set_find(&set, 7, k) < UNWIND_WAYS, k + UNWIND_WAYS > i);
	}
	/* A damaged set, as of another processor's write in between: no way outside of it. */
	set.next = 77;
	unwind_set_put(&set, UNWIND_WAYS, 7, 99, 1, &r);
	assert_in_range(unwind_set_find(&set, 7, 99), 0, UNWIND_WAYS - 1);
}

/* An empty set has zeros in the places of a file and an address; and only 32 bits of an address are kept. */
static void no_row_is_found_that_was_not_kept(void **state)
{
	struct unwind_rule r = rule(UNWIND_CFA_REG, UNWIND_RSP, 24);
	struct unwind_set set = { 0 }, empty = { 0 };

	assert_int_equal(unwind_set_find(&set, 0, 0), UNWIND_WAYS);
	unwind_set_put(&set, UNWIND_WAYS, 0, 0x10, 1, &r);
	unwind_set_put(&set, UNWIND_WAYS, 7, 0x100000010, 1, &r);
	assert_memory_equal(&set, &empty, sizeof(set));
	unwind_set_put(&set, UNWIND_WAYS, 7, 0x10, 1, &r);
	assert_int_equal(unwind_set_find(&set, 7, 0x100000010), UNWIND_WAYS);
}

/*
 * The addresses after calls in one function, and of the same function in other files, are in different sets for the most
 * part.
 */
static void rows_are_spread_over_the_sets(void **state)
{
	static unsigned n[UNWIND_SETS];
	unsigned used = 0;

	for (uint32_t file = 0x10001; file < 0x10009; file++)
		for (uint32_t i = 0; i < 64; i++) {
			uint32_t at = unwind_set_of(file, 0x401000 + 5 * i);

			assert_in_range(at, 0, UNWIND_SETS - 1);
			n[at]++;
		}
	for (unsigned i = 0; i < UNWIND_SETS; i++) {
		used += n[i] > 0;
		assert_in_range(n[i], 0, 3 * UNWIND_WAYS);
	}
	/* 512 keys at random would use 63 % of 512 sets. */
	assert_in_range(used, UNWIND_SETS / 2, UNWIND_SETS);
}

/* Of code outside of files; a trampoline of CPython has 8 bytes of stack and no frame pointer. */
static void a_trampoline_is_known_by_its_code(void **state)
{
	struct stack s;

	stack_init(&s);
	s.f.bp = 1;
	s.f.flags = 0;
	assert_int_equal(step(&s, unwind_made_rule(0xccccccc308c48348)), UNWIND_CALLER);
	expect_frame(&s, 0x5001, STACK + 16, 1);
	/* Other code has its caller by rbp. */
	assert_int_equal(step(&s, unwind_made_rule(0xccccccc310c48348)), UNWIND_NO_ROW);
	assert_int_equal(unwind_made_rule(0).cfa, UNWIND_CFA_NONE);
}

static void every_outcome_has_a_name(void **state)
{
	for (unsigned i = 0; i < UNWIND_N_OUTCOMES; i++) {
		assert_non_null(unwind_outcome_name(i));
		for (unsigned k = 0; k < i; k++)
			assert_string_not_equal(unwind_outcome_name(i), unwind_outcome_name(k));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_stack_pointer),
		cmocka_unit_test(rbp_is_where_the_rule_says),
		cmocka_unit_test(by_a_word_in_memory),
		cmocka_unit_test(by_another_register_in_the_top_frame_only),
		cmocka_unit_test(rbx_is_found_where_a_callee_saved_it),
		cmocka_unit_test(linkage_entries_push_their_number_in_the_middle),
		cmocka_unit_test(a_new_thread_has_no_caller),
		cmocka_unit_test(a_signal_frame_has_all_registers),
		cmocka_unit_test(all_registers_are_found_in_a_signal_frame),
		cmocka_unit_test(a_return_address_in_a_register),
		cmocka_unit_test(ends),
		cmocka_unit_test(without_a_row_by_frame_pointer),
		cmocka_unit_test(a_kept_row_is_found_by_its_file_and_address),
		cmocka_unit_test(a_full_set_forgets_its_oldest_row),
		cmocka_unit_test(no_row_is_found_that_was_not_kept),
		cmocka_unit_test(rows_are_spread_over_the_sets),
		cmocka_unit_test(a_trampoline_is_known_by_its_code),
		cmocka_unit_test(every_outcome_has_a_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
