/* SPDX-License-Identifier: Apache-2.0 */
/* Locations: the same code is the same location, in every process, and says what its address counts from. */
#include "stored.h"

static int64_t next_time = NOW_MS - HOUR;

/* A profile of one sample at @addr of @m. */
static void add(struct stored *t, struct profile_mapping m, const char *file, const char *build_id,
		uint64_t addr)
{
	struct profile *p = profile_new(NULL);
	struct profile_location l = { .addr = addr, .mapping = PROFILE_NONE };

	profile_add_type(p, STR("cpu"), STR("nanoseconds"));
	p->time_ns = next_time++ * 1000000;
	m.file = profile_add_string(p, str_of(file));
	m.build_id = profile_add_string(p, str_of(build_id));
	if (m.limit)
		l.mapping = profile_add_mapping(p, &m);
	profile_add_sample(p, profile_add_stack(p, 0, profile_add_location(p, &l, NULL, 0)), 0,
			   (int64_t[]){ 1 });
	stored_add(t, p, "a");
	profile_free(p);
}

static struct meta_location last(const struct stored *t)
{
	const struct meta *m = t->s->meta;

	return meta_location_at(m, column_n(&m->locations) - 1);
}

static void assert_place(const struct stored *t, uint32_t n, enum meta_kind kind, uint64_t addr,
			 const char *file)
{
	const struct meta *m = t->s->meta;
	struct meta_location l = last(t);
	const struct meta_part *p = meta_part_at(m, l.part);

	assert_int_equal(column_n(&m->locations), n);
	assert_int_equal(p->kind, kind);
	assert_int_equal(l.addr, addr);
	assert_str(meta_str(m, meta_binary_at(m, p->binary)->file), file);
}

static void the_same_code_is_one_location(void **state)
{
	const struct profile_mapping low = { 0x550000001000, 0x550000009000, 0x1000 };
	const struct profile_mapping high = { 0x7f0000001000, 0x7f0000009000, 0x1000 };
	const struct profile_mapping whole = { 0x660000000000, 0x660000010000, 0 };
	struct stored t = { 0 };

	stored_open(&t);
	add(&t, low, "/usr/bin/x", "00FFaa", 0x550000002345);
	assert_place(&t, 1, META_OFFSET, 0x2345, "/usr/bin/x");
	add(&t, high, "/usr/bin/x", "00ffaa", 0x7f0000002345);
	add(&t, high, "/proc/1/root/usr/bin/x", "00ffaa", 0x7f0000002345);
	/* Another mapping, the same byte of the file. */
	add(&t, whole, "/usr/bin/x", "00ffAA", 0x660000002345);
	assert_place(&t, 1, META_OFFSET, 0x2345, "/usr/bin/x");
	/* Without a build ID it is known by its path. */
	add(&t, low, "/usr/bin/x", "", 0x550000002345);
	assert_place(&t, 2, META_OFFSET, 0x2345, "/usr/bin/x");
	add(&t, low, "/usr/bin/y", "", 0x550000002345);
	assert_place(&t, 3, META_OFFSET, 0x2345, "/usr/bin/y");
	stored_again(&t);
	add(&t, high, "/usr/bin/y", "", 0x7f0000002345);
	assert_place(&t, 3, META_OFFSET, 0x2345, "/usr/bin/y");
	stored_done(&t);
}

static void a_location_says_what_its_address_counts_from(void **state)
{
	const struct profile_mapping none = { 0 }, normal = { 0, UINT64_MAX, 0 };
	const struct profile_mapping low = { 0x550000001000, 0x550000009000, 0x1000 };
	const struct profile_mapping kernel = { 0xffffffff81000000, 0xffffffff82000000, 0xffffffff81000000 };
	const struct profile_mapping module = { 0xffffffffc0000000, 0xffffffffc0010000, 0 };
	struct stored t = { 0 };

	stored_open(&t);
	add(&t, normal, "/usr/bin/x", "aa", 0x401234);
	assert_place(&t, 1, META_VADDR, 0x401234, "/usr/bin/x");
	add(&t, kernel, "[kernel.kallsyms]_text", "bb", 0xffffffff81001234);
	assert_place(&t, 2, META_TEXT, 0x1234, "[kernel.kallsyms]");
	add(&t, kernel, "[kernel.kallsyms]_stext", "bb", 0xffffffff81001234);
	assert_place(&t, 3, META_STEXT, 0x1234, "[kernel.kallsyms]");
	add(&t, module, "[xfs]", "cc", 0xffffffffc0000123);
	assert_place(&t, 4, META_SECTION, 0x123, "[xfs]");
	/* An address of a mapping without a file, outside of its mapping, or in none, stays as it was. */
	add(&t, low, "//anon", "", 0x550000002345);
	assert_place(&t, 5, META_RUNTIME, 0x550000002345, "//anon");
	add(&t, low, "/usr/bin/x", "aa", 0x10);
	assert_place(&t, 6, META_RUNTIME, 0x10, "/usr/bin/x");
	add(&t, none, "", "", 0x4711);
	assert_place(&t, 7, META_RUNTIME, 0x4711, "");
	/* A mapping that ends before it begins has no end. */
	add(&t, (struct profile_mapping){ 0x5000, 0x10, 0x2000 }, "/usr/bin/z", "dd", 0x5010);
	assert_place(&t, 8, META_OFFSET, 0x2010, "/usr/bin/z");
	stored_done(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_code_is_one_location),
		cmocka_unit_test(a_location_says_what_its_address_counts_from),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
