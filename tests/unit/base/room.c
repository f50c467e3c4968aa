/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <errno.h>
#include <sys/statvfs.h>
#include "base/room.h"

#define FREE (UINT64_C(1000) << 20)

/* In place of libc's: a file system of 20 000 MiB. */
static uint64_t available;

int fstatvfs(int fd, struct statvfs *ret)
{
	*ret = (struct statvfs){ .f_frsize = 4096,
				 .f_blocks = (20 * FREE) / 4096,
				 .f_bavail = available / 4096 };
	return 0;
}

static void a_claim_leaves_the_reserve_alone(void **state)
{
	struct room *r = room_new(FREE / 2);
	struct room_claim c = { 0 };
	struct err err = { 0 };

	available = FREE;
	assert_fails(room_claim(r, &c, 0, FREE / 2 + 4096, &err), ERR_LIMIT, "--min-free");
	assert_int_equal(err.os, ENOSPC);
	assert_done(room_claim(r, &c, 0, FREE / 2, &err));
	assert_done(room_claim(r, &c, 0, FREE / 2, &err));
	assert_fails(room_claim(r, &c, 0, FREE / 2 + 4096, &err), ERR_LIMIT, "nearly full");
	room_release(&c);
	available = FREE / 4;
	assert_fails(room_claim(r, &c, 0, 1, &err), ERR_LIMIT, "nearly full");
	room_free(r);
	room_free(NULL);
}

static void claimed_space_counts_until_it_is_written(void **state)
{
	struct room *r = room_new(FREE / 2);
	struct room_claim a = { 0 }, b = { 0 };
	struct err err = { 0 };

	available = FREE;
	assert_done(room_claim(r, &a, 0, FREE / 4, &err));
	assert_fails(room_claim(r, &b, 0, FREE / 2, &err), ERR_LIMIT, "nearly full");
	assert_done(room_claim(r, &b, 0, FREE / 4, &err));
	room_release(&b);
	/* Written: the file system has it now. */
	available -= FREE / 8;
	room_written(&a, FREE / 8);
	assert_done(room_claim(r, &b, 0, FREE / 4, &err));
	assert_fails(room_claim(r, &b, 0, FREE / 4 + 4096, &err), ERR_LIMIT, "nearly full");
	room_release(&a);
	assert_done(room_claim(r, &b, 0, FREE / 4 + FREE / 8, &err));
	room_release(&b);
	room_release(&b);
	room_free(r);
}

static void the_usual_reserve_is_a_twentieth_and_at_most_a_gigabyte(void **state)
{
	struct room *r = room_new(0);
	struct room_claim c = { 0 };
	struct err err = { 0 };

	available = 2 * FREE;
	assert_done(room_claim(r, &c, 0, FREE, &err));
	assert_fails(room_claim(r, &c, 0, FREE + 4096, &err), ERR_LIMIT, "nearly full");
	room_release(&c);
	assert_done(room_claim(NULL, &c, 0, 100 * FREE, &err));
	room_release(&c);
	room_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_claim_leaves_the_reserve_alone),
		cmocka_unit_test(claimed_space_counts_until_it_is_written),
		cmocka_unit_test(the_usual_reserve_is_a_twentieth_and_at_most_a_gigabyte),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
