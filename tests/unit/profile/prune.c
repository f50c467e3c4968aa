/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "profile/input.h"
#include "profile/output.h"
#include "profile/prune.h"

static void assert_pruned(const char *folded, const char *drop, const char *keep, const char *want)
{
	AUTO(profile_tree_freep) struct profile_tree *t = NULL;
	AUTO(profile_freep) struct profile *p = NULL;
	AUTO(buf_done) struct buf b = { 0 };
	struct err err = { 0 };

	assert_done(profile_read_folded(str_of(folded), NULL, &p, &err));
	p->drop_frames = profile_add_string(p, str_of(drop));
	p->keep_frames = profile_add_string(p, str_of(keep));
	assert_done(profile_prune(p, &err));
	assert_done(profile_tree_new(&(struct profile_view){ 0 }, NULL, &t, &err));
	assert_done(profile_tree_add(t, p, 0, 0, 1, &err));
	assert_done(profile_tree_end(t, &err));
	profile_write_folded(t, &(struct profile_output){ 0 }, &b);
	assert_string_equal(buf_cstr(&b), want);
}

static void stacks_end_at_a_dropped_frame(void **state)
{
	assert_pruned("main;f;malloc;helper 1\n", "malloc", "", "main;f 1\n");
	/* The outermost one counts; the pattern is of the whole name. */
	assert_pruned("main;malloc;f;malloc 1\nmain;malloc2 2\n", "malloc", "", "main 1\nmain;malloc2 2\n");
	assert_pruned("main;f 1\n", "", "", "main;f 1\n");
	/* Without a caller that stays, nothing would be left. */
	assert_pruned("malloc;main;f;malloc 1\nmalloc;malloc 2\n", "malloc", "",
		      "malloc;malloc 2\nmalloc;main;f 1\n");
	assert_pruned("main;runtime.call32;f;runtime.mallocgc 1\n", "runtime\\..*", "runtime\\.call[0-9]*",
		      "main;runtime.call32;f 1\n");
}

static void names_are_compared_without_parameters(void **state)
{
	assert_pruned("main;operator new[](unsigned long) 1\n", "operator new(\\[\\])?", "", "main 1\n");
	assert_pruned("main;(anonymous namespace)::f(int);g 1\n", "\\(anonymous namespace\\)::f", "",
		      "main 1\n");
	assert_pruned("main;x::operator()(int);g 1\n", "x::operator\\(\\)", "", "main 1\n");
	assert_pruned("main;.f;g 1\n", "f", "", "main 1\n");
	/* What is not understood drops nothing. */
	assert_pruned("main;f 1\n", "f(", "", "main;f 1\n");
}

/* Prune a stack whose outermost frame, at address 1, has no name, and return the address of its innermost frame. */
static uint64_t pruned_leaf(const char *const *names, unsigned n)
{
	AUTO(profile_freep) struct profile *p = profile_new(NULL);
	struct profile_location l = { .mapping = PROFILE_NONE, .addr = 1 };
	const int64_t one = 1;
	struct err err = { 0 };
	uint32_t stack;

	profile_add_type(p, STR("space"), STR("bytes"));
	stack = profile_add_stack(p, 0, profile_add_location(p, &l, NULL, 0));
	for (unsigned i = 0; i < n; i++) {
		const struct profile_function f = { .name = profile_add_string(p, str_of(names[i])) };
		const struct profile_line line = { .function = profile_add_function(p, &f) };

		l.addr++;
		stack = profile_add_stack(p, stack, profile_add_location(p, &l, &line, 1));
	}
	profile_add_sample(p, stack, 0, &one);
	assert_done(profile_build_end(p, &err));
	profile_set_usual_drops(p, PROFILE_OF_HEAP);
	assert_done(profile_prune(p, &err));
	return p->locations.p[p->stacks.p[p->sample_stack[0]].location].addr;
}

static void an_outermost_frame_without_a_name_is_a_caller_but_in_go(void **state)
{
	static const char *const go[] = { "runtime.main", "main.f", "runtime.mallocgc" };
	static const char *const cpp[] = { "operator new(unsigned long)", "malloc" };

	/* runtime.goexit: up to main.f. */
	assert_int_equal(pruned_leaf(go, ARRAY_SIZE(go)), 3);
	/* The program is stripped, its libraries are not. */
	assert_int_equal(pruned_leaf(cpp, ARRAY_SIZE(cpp)), 1);
}

/* Calls inlined into a function that stays are dropped alone. */
static void inlined_calls(void **state)
{
	AUTO(profile_freep) struct profile *p = profile_new(NULL);
	static const char *const names[] = { "malloc", "wrap", "main" };
	struct profile_location l = { .mapping = PROFILE_NONE, .addr = 1 };
	struct profile_line lines[3] = { 0 };
	const int64_t one = 1;
	struct err err = { 0 };
	uint32_t stack;

	for (unsigned i = 0; i < 3; i++) {
		const struct profile_function f = { .name = profile_add_string(p, str_of(names[i])) };

		lines[i].function = profile_add_function(p, &f);
	}
	profile_add_type(p, STR("space"), STR("bytes"));
	stack = profile_add_stack(p, 0, profile_add_location(p, &l, &lines[2], 1));
	l.addr = 2;
	stack = profile_add_stack(p, stack, profile_add_location(p, &l, lines, 2));
	profile_add_sample(p, stack, 0, &one);
	assert_done(profile_build_end(p, &err));
	profile_set_usual_drops(p, PROFILE_OF_HEAP);
	assert_done(profile_prune(p, &err));
	assert_int_equal(p->stacks.p[p->sample_stack[0]].location, 1);
	assert_int_equal(p->locations.p[1].n_lines, 1);
	assert_str(profile_str(p, p->functions.p[p->lines.p[p->locations.p[1].first_line].function].name),
		   "wrap");
}

static void usual_drops(void **state)
{
	static const struct {
		enum profile_measured what;
		const char *function;
		bool drops;
	} list[] = {
		{ PROFILE_OF_HEAP, "malloc", true },
		{ PROFILE_OF_HEAP, "__posix_memalign", true },
		{ PROFILE_OF_HEAP, "operator new(unsigned long)", true },
		{ PROFILE_OF_HEAP, "tcmalloc::f(int)", true },
		{ PROFILE_OF_HEAP, "runtime.mallocgc", true },
		{ PROFILE_OF_HEAP, "runtime.panic", false },
		{ PROFILE_OF_HEAP, "runtime.call32", false },
		{ PROFILE_OF_HEAP, "my_malloc", false },
		{ PROFILE_OF_HEAP, "freeze", false },
		{ PROFILE_OF_LOCKS, "base::Mutex::Unlock()", true },
		{ PROFILE_OF_LOCKS, "sync.(*Mutex).Unlock", false },
		{ PROFILE_OF_LOCKS, "malloc", false },
		{ PROFILE_OF_CPU, "__restore_rt", true },
		{ PROFILE_OF_CPU, "CpuProfiler::prof_handler(int)", true },
		{ PROFILE_OF_CPU, "restore", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
		AUTO(mem_freep) char *text = mem_printf("main;%s 1\n", list[i].function);
		AUTO(profile_freep) struct profile *p = NULL;
		struct err err = { 0 };

		assert_done(profile_read_folded(str_of(text), NULL, &p, &err));
		profile_set_usual_drops(p, list[i].what);
		assert_done(profile_prune(p, &err));
		if ((p->stacks.p[p->sample_stack[0]].parent == 0) != list[i].drops)
			fail_msg("%s", list[i].function);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stacks_end_at_a_dropped_frame),
		cmocka_unit_test(names_are_compared_without_parameters),
		cmocka_unit_test(an_outermost_frame_without_a_name_is_a_caller_but_in_go),
		cmocka_unit_test(inlined_calls),
		cmocka_unit_test(usual_drops),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
