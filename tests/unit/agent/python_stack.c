/* SPDX-License-Identifier: Apache-2.0 */
/* Native frames and frames of Python become one stack. */
#include "test.h"

#include "agent/python_stack.h"

/* @native: a letter a frame, innermost first: 'l' a loop, 'g' glue, others anything. At places 0, 10, 20, ... */
static const char *joined_text(const char *native, const struct sampler_python_frame *python, size_t n_python,
			       enum sampler_end end)
{
	static char text[200];
	static struct python_stack_item items[PYTHON_STACK_MAX];
	struct sampler_frame user[32] = { 0 };
	enum python_role roles[32];
	struct sampler_sample s = {
		.user = user, .n_user = strlen(native), .python = python, .n_python = n_python, .end = end
	};
	size_t n;

	for (size_t i = 0; native[i]; i++) {
		user[i].place = (uint32_t)i * 10;
		roles[i] = native[i] == 'l' ? PYTHON_LOOP : native[i] == 'g' ? PYTHON_GLUE : PYTHON_OTHER;
	}
	n = python_stack_join(&s, roles, items);
	for (size_t i = 0; i < n; i++)
		text[i] = items[i].is_python ? (char)('1' + items[i].i) : native[items[i].i];
	text[n] = '\0';
	return text;
}

static void loops_are_replaced_by_their_frames(void **state)
{
	/* Frames 1 and 2 are run by the loop at place 15, frame 3 by that at 35. */
	const struct sampler_python_frame python[] = { { 1 }, { 2, .entry = 15 }, { 3, .entry = 35 } };

	assert_string_equal(joined_text("alblm", python, 3, SAMPLER_COMPLETE), "a12b3m");
	/* By the place, also where the compiler has cut the function into parts with other names. */
	assert_string_equal(joined_text("axblm", python, 3, SAMPLER_COMPLETE), "a12b3m");
	assert_string_equal(
		joined_text("l", (struct sampler_python_frame[]){ { 1, .entry = 3 } }, 1, SAMPLER_COMPLETE),
		"1");
}

static void glue_outside_of_a_loop_is_left_out(void **state)
{
	const struct sampler_python_frame python[] = { { 1, .entry = 5 }, { 2, .entry = 45 } };

	assert_string_equal(joined_text("lggcl", python, 2, SAMPLER_COMPLETE), "1c2");
	assert_string_equal(joined_text("lcggl", python, 2, SAMPLER_COMPLETE), "1cgg2");
}

static void loops_without_a_place_take_frames_in_turn(void **state)
{
	const struct sampler_python_frame python[] = { { 1, .entry = SAMPLER_FAR },
						       { 2, .entry = SAMPLER_FAR },
						       { 3, .entry = SAMPLER_FAR } };

	assert_string_equal(joined_text("algblm", python, 2, SAMPLER_COMPLETE), "a1b2m");
	/* More frames than loops were found: none is lost. */
	assert_string_equal(joined_text("alm", python, 3, SAMPLER_COMPLETE), "a1m23");
}

static void a_loop_that_has_no_frame_yet_is_left_out(void **state)
{
	const struct sampler_python_frame python[] = { { 1, .entry = 25 } };

	assert_string_equal(joined_text("lglm", python, 1, SAMPLER_COMPLETE), "1m");
}

static void frames_are_kept_when_the_native_stack_is_cut(void **state)
{
	const struct sampler_python_frame python[] = { { 1, .entry = 5 }, { 2, .entry = 150 }, { 3 } };

	assert_string_equal(joined_text("lab", python, 3, SAMPLER_TRUNCATED), "1ab23");
	assert_string_equal(joined_text("", python, 3, SAMPLER_NO_PROCESS), "123");
}

static void places_of_a_stranger_are_bounded(void **state)
{
	/* Falling places, and the same one again and again. */
	struct sampler_python_frame python[SAMPLER_MAX_PYTHON];
	static struct python_stack_item items[PYTHON_STACK_MAX];
	static struct sampler_frame user[SAMPLER_MAX_USER];
	static enum python_role roles[SAMPLER_MAX_USER];
	struct sampler_sample s = {
		.user = user, .n_user = SAMPLER_MAX_USER, .python = python, .n_python = SAMPLER_MAX_PYTHON
	};

	for (uint32_t i = 0; i < SAMPLER_MAX_PYTHON; i++)
		python[i] = (struct sampler_python_frame){ i, .entry = i % 3 ? 1000 - i : 0 };
	for (uint32_t i = 0; i < SAMPLER_MAX_USER; i++)
		user[i].place = i * 7919 % 5000;
	assert_true(python_stack_join(&s, roles, items) <= PYTHON_STACK_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loops_are_replaced_by_their_frames),
		cmocka_unit_test(glue_outside_of_a_loop_is_left_out),
		cmocka_unit_test(loops_without_a_place_take_frames_in_turn),
		cmocka_unit_test(a_loop_that_has_no_frame_yet_is_left_out),
		cmocka_unit_test(frames_are_kept_when_the_native_stack_is_cut),
		cmocka_unit_test(places_of_a_stranger_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
