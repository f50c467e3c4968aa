/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of perf events, also such as no kernel writes; lists of processors.
 */
#include "test.h"

#include <linux/perf_event.h>
#include "agent/sampler_cpus.h"
#include "agent/sampler_records.h"

static void put_u64(struct buf *b, uint64_t v)
{
	buf_add(b, &v, sizeof(v));
}

static void begin_record(struct buf *b, uint32_t type, uint16_t misc)
{
	struct perf_event_header h = { .type = type, .misc = misc };

	b->size = 0;
	buf_add(b, &h, sizeof(h));
}

static struct bytes end_record(struct buf *b)
{
	uint16_t size = (uint16_t)b->size;

	memcpy(b->p + offsetof(struct perf_event_header, size), &size, sizeof(size));
	return bytes_of(b->p, b->size);
}

/* A sample of pid 7, tid 8, with @n_chain addresses and @stack bytes of stack. */
static struct bytes make_sample(struct buf *b, size_t n_chain, size_t stack, uint64_t dyn_size)
{
	static const uint8_t bytes[KIB(64)] = { 1, 2, 3 };

	begin_record(b, PERF_RECORD_SAMPLE, 0);
	put_u64(b, 7 | UINT64_C(8) << 32);
	put_u64(b, 1234);
	put_u64(b, 3);
	put_u64(b, n_chain + 1);
	put_u64(b, (uint64_t)PERF_CONTEXT_KERNEL);
	for (size_t i = 0; i < n_chain; i++)
		put_u64(b, UINT64_C(0xffffffff81000000) + i);
	put_u64(b, PERF_SAMPLE_REGS_ABI_64);
	for (unsigned i = 0; i < 64; i++)
		if (sampler_record_registers() >> i & 1)
			put_u64(b, 100 + i);
	put_u64(b, stack);
	if (stack) {
		buf_add(b, bytes, stack);
		put_u64(b, dyn_size);
	}
	put_u64(b, 42);
	return end_record(b);
}

#define FLAGS (RECORD_KERNEL | RECORD_CGROUP)

static void a_sample_has_its_fields(void **state)
{
	AUTO(buf_done) struct buf b = { 0 };
	static struct sampler_record r;

	assert_int_equal(sampler_record_read(make_sample(&b, 3, 64, 48), FLAGS, &r, NULL), 0);
	assert_int_equal(r.kind, RECORD_SAMPLE);
	assert_int_equal(r.pid, 7);
	assert_int_equal(r.tid, 8);
	assert_int_equal(r.cpu, 3);
	assert_int_equal(r.time_ns, 1234);
	assert_int_equal(r.cgroup, 42);
	assert_int_equal(r.n_kernel, 3);
	assert_int_equal(r.kernel[0], UINT64_C(0xffffffff81000000));
	assert_int_equal(r.mode, RECORD_USER_64);
	/* DWARF's numbers: rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8; asm/perf_regs.h has other ones. */
	assert_int_equal(r.raw.ip, 108);
	assert_int_equal(r.raw.regs[0], 100);
	assert_int_equal(r.raw.regs[1], 103);
	assert_int_equal(r.raw.regs[3], 101);
	assert_int_equal(r.raw.regs[7], 107);
	assert_int_equal(r.raw.regs[15], 123);
	assert_int_equal(r.raw.stack.size, 48);
	assert_int_equal(r.raw.stack.p[1], 2);
}

static void a_long_kernel_stack_is_cut(void **state)
{
	AUTO(buf_done) struct buf b = { 0 };
	static struct sampler_record r;

	assert_int_equal(sampler_record_read(make_sample(&b, SAMPLER_MAX_KERNEL, 0, 0), FLAGS, &r, NULL), 0);
	assert_false(r.kernel_cut);
	assert_int_equal(sampler_record_read(make_sample(&b, SAMPLER_MAX_KERNEL + 5, 0, 0), FLAGS, &r, NULL),
			 0);
	assert_true(r.kernel_cut);
	assert_int_equal(r.n_kernel, SAMPLER_MAX_KERNEL);
}

static void sizes_that_do_not_fit_are_refused(void **state)
{
	AUTO(buf_done) struct buf b = { 0 };
	static struct sampler_record r;
	struct bytes whole = make_sample(&b, 2, 64, UINT64_MAX);
	struct err err;
	uint64_t much = UINT64_MAX / 8 + 2;

	/* The kernel's "used" size is no more than the copy. */
	assert_int_equal(sampler_record_read(whole, FLAGS, &r, NULL), 0);
	assert_int_equal(r.raw.stack.size, 64);
	for (size_t n = 0; n < whole.size; n++) {
		assert_int_equal(sampler_record_read(bytes_of(whole.p, n), FLAGS, &r, &err),
				 n < 4 ? RECORD_OTHER : -1);
		assert_true(n < 4 || err.kind == ERR_INVALID);
	}
	memcpy(b.p + 32, &much, 8); /* of the chain */
	assert_int_equal(sampler_record_read(whole, FLAGS, &r, NULL), -1);
}

static void names_and_ends_of_threads(void **state)
{
	AUTO(buf_done) struct buf b = { 0 };
	static struct sampler_record r;

	begin_record(&b, PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC);
	put_u64(&b, 7 | UINT64_C(8) << 32);
	buf_add(&b, "name\0\0\0", 8);
	assert_int_equal(sampler_record_read(end_record(&b), FLAGS, &r, NULL), 0);
	assert_int_equal(r.kind, RECORD_EXEC);
	assert_true(str_eq(r.comm, STR("name")));
	begin_record(&b, PERF_RECORD_COMM, 0);
	put_u64(&b, 7 | UINT64_C(8) << 32);
	buf_add(&b, "nameless", 8); /* without end */
	assert_int_equal(sampler_record_read(end_record(&b), FLAGS, &r, NULL), -1);
	begin_record(&b, PERF_RECORD_EXIT, 0);
	put_u64(&b, 7 | UINT64_C(1) << 32);
	put_u64(&b, 8 | UINT64_C(2) << 32);
	put_u64(&b, 99);
	assert_int_equal(sampler_record_read(end_record(&b), FLAGS, &r, NULL), 0);
	assert_int_equal(r.kind, RECORD_EXIT);
	assert_int_equal(r.pid, 7);
	assert_int_equal(r.tid, 8);
	assert_int_equal(r.parent_tid, 2);
	begin_record(&b, 77, 0);
	assert_int_equal(sampler_record_read(end_record(&b), FLAGS, &r, NULL), RECORD_OTHER);
}

static void a_record_may_wrap_around_the_ring(void **state)
{
	static uint8_t copy[RECORD_MAX], ring[256];
	AUTO(buf_done) struct buf b = { 0 };
	struct bytes all = bytes_of(ring, sizeof(ring)), record, made;

	begin_record(&b, PERF_RECORD_LOST, 0);
	put_u64(&b, 1);
	put_u64(&b, 5);
	made = end_record(&b);
	for (uint64_t tail = 0; tail < 512; tail += 8) {
		static struct sampler_record r;

		for (size_t i = 0; i < made.size; i++)
			ring[(tail + i) % sizeof(ring)] = made.p[i];
		assert_int_equal(sampler_ring_next(all, tail + made.size, tail, copy, &record), made.size);
		assert_true(bytes_eq(record, made));
		assert_int_equal(sampler_record_read(record, FLAGS, &r, NULL), 0);
		assert_int_equal(r.lost, 5);
		/* Not all of it is there yet. */
		assert_int_equal(sampler_ring_next(all, tail + made.size - 8, tail, copy, &record), 0);
	}
	/* A length of 0, and more waiting than there is room for. */
	memset(ring, 0, sizeof(ring));
	assert_int_equal(sampler_ring_next(all, 64, 0, copy, &record), 0);
	assert_int_equal(sampler_ring_next(all, 1024, 0, copy, &record), 0);
	assert_int_equal(sampler_ring_next(all, 68, 4, copy, &record), 0);
}

static void lists_of_processors(void **state)
{
	static bool set[SAMPLER_MAX_CPUS];
	static const char *const bad[] = {
		"", "a", "0-", "-1", "3-1", "0,,1", "0,", "4096", "99999999999999999999", "0 1"
	};

	assert_int_equal(sampler_cpus_parse(STR("0-2,5,4095\n"), set, NULL), 0);
	assert_true(set[0] && set[2] && set[5] && set[4095]);
	assert_false(set[3] || set[4] || set[4094]);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(sampler_cpus_parse(str_of(bad[i]), set, NULL), -1);
	assert_int_equal(sampler_cpus_online(set, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sample_has_its_fields),
		cmocka_unit_test(a_long_kernel_stack_is_cut),
		cmocka_unit_test(sizes_that_do_not_fit_are_refused),
		cmocka_unit_test(names_and_ends_of_threads),
		cmocka_unit_test(a_record_may_wrap_around_the_ring),
		cmocka_unit_test(lists_of_processors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
