/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <sys/resource.h>
#include <unistd.h>
#include "base/nice.h"

struct nice_note {
	int nice;
	pid_t thread;
};

/* On Linux, of this thread alone. */
static void note_nice(void *arg)
{
	struct nice_note *n = arg;

	n->nice = getpriority(PRIO_PROCESS, 0);
	n->thread = gettid();
}

static void the_work_is_nice_and_its_caller_is_not(void **state)
{
	struct nice_note before, inside = { 0 }, after;

	note_nice(&before);
	nice_call(19, note_nice, &inside);
	note_nice(&after);
	assert_int_equal(inside.nice, 19);
	assert_int_not_equal(inside.thread, before.thread);
	assert_int_equal(after.nice, before.nice);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_work_is_nice_and_its_caller_is_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
