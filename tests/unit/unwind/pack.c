/* SPDX-License-Identifier: Apache-2.0 */
/* The packed table against a list of the rows that were added. */
#include "test.h"

#include <stdlib.h>
#include "unwind/pack.h"
#include "unwind/unwind.h"

struct row {
	uint64_t addr;
	struct unwind_rule rule;
};

struct model {
	struct row *rows;
	size_t n, room;
	uint64_t end;
	struct buf out;
	struct unwind_table t;
	struct unwind_head h;
};

static struct unwind_rule rule_of_number(uint32_t n)
{
	if (!n)
		return (struct unwind_rule){ 0 };
	return (struct unwind_rule){ .cfa = UNWIND_CFA_REG | UNWIND_RSP << 4, .off = n * 8 };
}

static void model_row(struct model *m, uint64_t addr, uint32_t rule)
{
	VEC_PUSH(m->rows, m->n, m->room) = (struct row){ addr, rule_of_number(rule) };
}

static void model_pack(struct model *m, uint64_t end)
{
	struct pack *p = NEW(struct pack);
	struct unwind_head h = { .version = UNWIND_VERSION };
	struct err err = { 0 };

	m->end = end;
	pack_init(p, &m->out);
	for (size_t i = 0; i < m->n; i++)
		pack_add(p, m->rows[i].addr, pack_key(m->rows[i].rule));
	memcpy(h.magic, UNWIND_MAGIC, 4);
	pack_end(p, end, &h);
	pack_done(p);
	free(p);
	assert_done(unwind_table_open(buf_bytes(&m->out), &m->t, &err));
	memcpy(&m->h, m->out.p, sizeof(m->h));
}

static void expect_rule(struct model *m, uint64_t addr, struct unwind_rule want)
{
	struct unwind_rule got;

	assert_int_equal(unwind_find(&m->t, addr, &got), 0);
	if (pack_key(got) != pack_key(want))
		print_error("address %llx: cfa %d off %u, wanted %u\n", (unsigned long long)addr, got.cfa,
			    got.off, want.off);
	assert_true(pack_key(got) == pack_key(want));
}

/* Each row at its first and last address, the addresses around the table, and the rows in order. */
static void expect_rows(struct model *m)
{
	struct unwind_rule none = { 0 }, last = { 0 };
	struct unwind_rows it;
	size_t n = 0;

	expect_rule(m, m->rows[0].addr - 1, none);
	expect_rule(m, m->end, none);
	expect_rule(m, 0, none);
	expect_rule(m, UINT64_MAX, none);
	for (size_t i = 0; i < m->n; i++) {
		uint64_t next = i + 1 < m->n ? m->rows[i + 1].addr : m->end;

		if (next == m->rows[i].addr)
			continue;
		expect_rule(m, m->rows[i].addr, m->rows[i].rule);
		expect_rule(m, next - 1, m->rows[i].rule);
	}
	unwind_rows_start(&it, &m->t);
	for (size_t i = 0; i < m->n; i++) {
		if ((i + 1 < m->n && m->rows[i + 1].addr == m->rows[i].addr) ||
		    pack_key(m->rows[i].rule) == pack_key(last))
			continue;
		last = m->rows[i].rule;
		assert_true(unwind_rows_next(&it));
		assert_int_equal(it.addr, m->rows[i].addr);
		assert_true(pack_key(it.rule) == pack_key(last));
		n++;
	}
	assert_false(unwind_rows_next(&it));
	assert_int_equal(m->h.n_rows, n);
}

static void model_done(struct model *m)
{
	free(m->rows);
	buf_done(&m->out);
}

static void few_rows_are_one_chunk(void **state)
{
	AUTO(model_done) struct model m = { 0 };

	model_row(&m, 0x401000, 1);
	model_row(&m, 0x401001, 2);
	model_row(&m, 0x401004, 7);
	model_row(&m, 0x4011ff, 1);
	model_row(&m, 0x401200, 0);
	model_row(&m, 0x4017f0, 3);
	model_pack(&m, 0x401900);
	expect_rows(&m);
	assert_int_equal(m.out.size, UNWIND_CHUNK_SIZE);
}

static void the_last_row_of_an_address_counts(void **state)
{
	AUTO(model_done) struct model m = { 0 };

	model_row(&m, 0x1000, 1);
	model_row(&m, 0x1000, 2);
	model_row(&m, 0x1010, 5);
	model_row(&m, 0x1010, 2); /* no row at all */
	model_pack(&m, 0x1100);
	expect_rows(&m);
	assert_int_equal(m.h.n_rows, 1);
}

/* Pseudo-random, and the same each time. */
static uint32_t next_random(uint64_t *s)
{
	*s = *s * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*s >> 33);
}

static void rows_of_any_density_and_number_of_rules(void **state)
{
	/* Mean distance of rows, and number of rules: over 255 there are escapes, over 492 a second place of rules. */
	static const struct {
		uint32_t step, rules, rows;
	} cases[] = { { 4, 20, 9000 },   { 60, 200, 9000 },    { 60, 300, 9000 },   { 3, 2000, 20000 },
		      { 900, 40, 9000 }, { 50000, 700, 3000 }, { 300000, 10, 500 }, { 60, 64000, 130000 } };

	for (size_t k = 0; k < ARRAY_SIZE(cases); k++) {
		AUTO(model_done) struct model m = { 0 };
		uint64_t s = k + 1, addr = 0x7f0000001234;

		for (uint32_t i = 0; i < cases[k].rows; i++) {
			model_row(&m, addr, next_random(&s) % cases[k].rules + 1);
			addr += 1 + next_random(&s) % (2 * cases[k].step);
		}
		model_pack(&m, addr);
		expect_rows(&m);
	}
}

/* All bytes have rows with rules of three slots: more than numbers of slots of 16 bits can count. */
static void a_block_with_too_many_rows_keeps_its_first_ones(void **state)
{
	AUTO(model_done) struct model m = { 0 };
	struct unwind_rule r;

	for (uint32_t i = 0; i < 0x30000; i++)
		model_row(&m, 0x10000 + i, i % 600 + 1);
	model_pack(&m, 0x40000);
	expect_rule(&m, 0x10000, rule_of_number(1));
	expect_rule(&m, 0x12345, rule_of_number(0x2345 % 600 + 1));
	assert_int_equal(unwind_find(&m.t, 0x1fff0, &r), 0);
	assert_int_equal(r.cfa, UNWIND_CFA_BAD);
	expect_rule(&m, 0x20000, rule_of_number(0x10000 % 600 + 1));
}

static void rules_over_the_limit_are_not_supported(void **state)
{
	AUTO(model_done) struct model m = { 0 };
	struct unwind_rule r;

	for (uint32_t i = 0; i < UNWIND_MAX_RULES + 500; i++)
		model_row(&m, 0x10000 + 16 * i, i + 1);
	model_pack(&m, 0x10000 + 16 * (UNWIND_MAX_RULES + 500));
	assert_int_equal(m.h.n_rules, UNWIND_MAX_RULES);
	expect_rule(&m, 0x10000 + 16 * 60000, rule_of_number(60001));
	assert_int_equal(unwind_find(&m.t, 0x10000 + 16 * (UNWIND_MAX_RULES + 400), &r), 0);
	assert_int_equal(r.cfa, UNWIND_CFA_BAD);
}

static void damage_is_found(void **state)
{
	AUTO(model_done) struct model m = { 0 };
	struct unwind_table t;
	struct err err = { 0 };

	for (uint32_t i = 0; i < 3000; i++)
		model_row(&m, 0x10000 + 5 * i, i % 40 + 1);
	model_pack(&m, 0x20000);
	assert_int_equal(unwind_table_open(bytes_of(m.out.p, 100), &t, &err), UNWIND_NOT_TABLE);
	assert_fails(unwind_table_open(bytes_of(m.out.p, m.out.size - UNWIND_CHUNK_SIZE), &t, &err),
		     ERR_INVALID, "chunks");
	m.out.p[m.out.size - 2000] ^= 1;
	assert_fails(unwind_table_open(buf_bytes(&m.out), &t, &err), ERR_INVALID, "checksum");
	m.out.p[m.out.size - 2000] ^= 1;
	m.out.p[4]++;
	assert_int_equal(unwind_table_open(buf_bytes(&m.out), &t, &err), UNWIND_NOT_TABLE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(few_rows_are_one_chunk),
		cmocka_unit_test(the_last_row_of_an_address_counts),
		cmocka_unit_test(rows_of_any_density_and_number_of_rules),
		cmocka_unit_test(a_block_with_too_many_rows_keeps_its_first_ones),
		cmocka_unit_test(rules_over_the_limit_are_not_supported),
		cmocka_unit_test(damage_is_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
