/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of processes: of this one, and of one that is not there.
 */
#include "test.h"

#include <unistd.h>

#include "agent/process_memory.h"

static void memory_is_read(void **state)
{
	struct process_memory *m = process_memory_new();
	char from[] = "from here", to[sizeof(from)] = "";

	assert_int_equal(process_memory_read(m, (uint32_t)getpid(), (uintptr_t)from, to, sizeof(to)),
			 sizeof(to));
	assert_string_equal(to, from);
	assert_int_equal(process_memory_read(m, (uint32_t)getpid(), 8, to, sizeof(to)), 0);
	assert_int_equal(process_memory_read(m, INT32_MAX, (uintptr_t)from, to, sizeof(to)), 0);
	process_memory_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(memory_is_read) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
