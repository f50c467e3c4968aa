/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <errno.h>
#include <sys/statvfs.h>
#include "base/spool.h"

/* In place of libc's: a file system with so much room. */
static uint64_t available = UINT64_C(1) << 40;

int fstatvfs(int fd, struct statvfs *ret)
{
	*ret = (struct statvfs){ .f_frsize = 4096,
				 .f_blocks = (UINT64_C(1) << 40) / 4096,
				 .f_bavail = available / 4096 };
	return 0;
}

static void add_bytes(struct spool *s, struct buf *all, size_t size, uint64_t *seed)
{
	AUTO(buf_done) struct buf b = { 0 };
	struct err err = { 0 };

	while (b.size < size) {
		*seed = *seed * 6364136223846793005 + 1;
		buf_add_u32(&b, (uint32_t)(*seed >> 32));
	}
	b.size = size;
	assert_done(spool_add(s, buf_bytes(&b), &err));
	buf_add(all, b.p, b.size);
}

static int add_piece(void *arg, struct bytes b, struct err *err)
{
	assert_true(b.size <= SPOOL_MEMORY);
	buf_add(arg, b.p, b.size);
	return 0;
}

static void assert_content(struct spool *s, const struct buf *all)
{
	AUTO(buf_done) struct buf got = { 0 };
	struct err err = { 0 };

	assert_int_equal(spool_size(s), all->size);
	assert_done(spool_read(s, &got, &err));
	assert_int_equal(got.size, all->size);
	assert_true(!got.size || memcmp(got.p, all->p, got.size) == 0);
	got.size = 0;
	assert_done(spool_each(s, add_piece, &got, &err));
	assert_int_equal(got.size, all->size);
	assert_true(!got.size || memcmp(got.p, all->p, got.size) == 0);
}

static void few_bytes_stay_in_memory_and_many_do_not(void **state)
{
	static const size_t sizes[] = { 0, 100, SPOOL_MEMORY - 1, SPOOL_MEMORY, SPOOL_MEMORY + 1, MIB(20) };
	static const size_t steps[] = { 997, 300000, MIB(9) };
	uint64_t seed = 1;

	for (size_t i = 0; i < ARRAY_SIZE(sizes) * ARRAY_SIZE(steps); i++) {
		size_t size = sizes[i / ARRAY_SIZE(steps)], step = steps[i % ARRAY_SIZE(steps)];
		AUTO(buf_done) struct buf all = { 0 };
		struct spool s = { 0 };

		while (all.size < size)
			add_bytes(&s, &all, MIN(step, size - all.size), &seed);
		assert_int_equal(s.filed, size >= SPOOL_MEMORY);
		if (s.filed)
			assert_true(s.mem.room < MIB(10));
		assert_content(&s, &all);
		spool_done(&s);
		assert_int_equal(spool_size(&s), 0);
		/* It may be used again. */
		all.size = 0;
		add_bytes(&s, &all, 10, &seed);
		assert_content(&s, &all);
		spool_done(&s);
	}
}

static void a_file_gets_a_head(void **state)
{
	AUTO(buf_done) struct buf all = { 0 };
	AUTO(buf_done) struct buf got = { 0 };
	struct spool s = { 0 };
	struct spool_file f;
	struct err err = { 0 };
	uint64_t seed = 2;
	size_t n;

	for (size_t i = 0; i < 100; i++)
		add_bytes(&s, &all, 100000, &seed);
	assert_done(spool_take_file(&s, bytes_of("head!", 5), &f, &err));
	assert_int_equal(f.size, all.size + 5);
	buf_reserve(&got, f.size);
	assert_done(fd_pread(f.fd, got.p, f.size, f.off, &n, &err));
	assert_int_equal(n, f.size);
	assert_memory_equal(got.p, "head!", 5);
	assert_true(memcmp(got.p + 5, all.p, all.size) == 0);
	fd_close(&f.fd);
	spool_done(&s);
}

static void a_full_disk_is_an_error(void **state)
{
	AUTO(buf_done) struct buf all = { 0 };
	struct room *room = room_new(MIB(1));
	struct spool s = { .room = room };
	struct err err = { 0 };
	uint64_t seed = 3;

	available = MIB(12);
	add_bytes(&s, &all, MIB(10), &seed);
	/* Now it is on the disk. */
	available -= MIB(10);
	assert_fails(spool_add(&s, buf_bytes(&all), &err), ERR_LIMIT, "nearly full");
	assert_int_equal(err.os, ENOSPC);
	spool_done(&s);
	s = (struct spool){ .dir = "/nowhere/at/all" };
	assert_fails(spool_add(&s, buf_bytes(&all), &err), ERR_IO, "the file of a large reply");
	spool_done(&s);
	room_free(room);
	available = UINT64_C(1) << 40;
}

static void reading_it_needs_a_grant(void **state)
{
	struct budget *b = budget_new_undivided(MIB(12));
	AUTO(buf_done) struct buf all = { 0 };
	struct budget_hold hold = { 0 };
	struct buf out = { 0 };
	struct spool s = { 0 };
	struct err err = { 0 };
	uint64_t seed = 4;

	add_bytes(&s, &all, MIB(13), &seed);
	budget_hold_init(&hold, b, BUDGET_REPLY);
	buf_meter(&out, &hold);
	assert_true(spool_read(&s, &out, &err) < 0);
	assert_int_equal(err.kind, ERR_LIMIT);
	assert_int_equal(out.size, 0);
	buf_done(&out);
	spool_done(&s);
	budget_hold_done(&hold);
	budget_free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(few_bytes_stay_in_memory_and_many_do_not),
		cmocka_unit_test(a_file_gets_a_head),
		cmocka_unit_test(a_full_disk_is_an_error),
		cmocka_unit_test(reading_it_needs_a_grant),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
