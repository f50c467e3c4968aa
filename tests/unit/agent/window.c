/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples become a profile: names of the kernel, addresses in files, marks of incomplete stacks, labels.
 */
#include "test.h"

#include "agent/process_internal.h"
#include "agent/window.h"

static const char kernel_text[] = "ffffffff81000000 T _text\nffffffff81001000 T do_work\nffffffff81001800 T "
				  "__schedule\nffffffff82000000 T _etext\n"
				  "ffffffffc0201000 t mod_f\t[mod]\n";

struct window_fixture {
	struct window_sources s;
	struct window *w;
	struct mapped_file file;
};

static struct mapped_file *fixture_file(void *arg, uint32_t number)
{
	struct window_fixture *f = arg;

	return number == f->file.number ? &f->file : NULL;
}

static int window_setup(void **state)
{
	struct window_fixture *f = NEW(struct window_fixture);

	f->s.kernel = kernel_names_new("/nonexistent");
	kernel_names_load(f->s.kernel, str_of(kernel_text));
	f->s.labels = label_maker_new(&(struct label_options){ 0 }, NULL);
	f->s.processes = processes_new(&(struct processes_options){ .proc = "/nonexistent" }, NULL,
				       f->s.labels, NULL);
	f->s.file = fixture_file;
	f->s.arg = f;
	build_id_parse(&f->s.kernel_id, STR("abcd"));
	f->file = (struct mapped_file){ .number = 7,
					.path = (char *)"/usr/lib/libx.so",
					.state = FILE_KNOWN,
					.segments = { { 0x2340, 0x1340, 0x1000 } },
					.n_segments = 1 };
	build_id_parse(&f->file.id, STR("0123"));
	f->w = window_new(&f->s, &(struct window_options){ .frequency_hz = 100 });
	*state = f;
	return 0;
}

static int window_teardown(void **state)
{
	struct window_fixture *f = *state;

	window_free(f->w);
	processes_free(f->s.processes);
	label_maker_free(f->s.labels);
	kernel_names_free(f->s.kernel);
	free(f);
	return 0;
}

static struct profile *end_of_window(struct window_fixture *f)
{
	uint64_t lost;
	struct profile *p = window_end(f->w, 5, 7, &lost);

	assert_int_equal(lost, 0);
	assert_non_null(p);
	return p;
}

static const struct profile_location *location_of(const struct profile *p, uint32_t stack)
{
	return &p->locations.p[p->stacks.p[stack].location];
}

/* "outer;inner" of a stack; addresses in hexadecimal where there is no name. */
static const char *stack_text(const struct profile *p, uint32_t stack)
{
	static char text[512];
	char part[160];

	text[0] = '\0';
	for (; stack; stack = p->stacks.p[stack].parent) {
		const struct profile_location *l = location_of(p, stack);
		char rest[512];

		if (l->n_lines)
			snprintf(part, sizeof(part), STR_FMT,
				 STR_ARG(profile_str(
					 p, p->functions.p[p->lines.p[l->first_line].function].name)));
		else
			snprintf(part, sizeof(part), "%llx", (unsigned long long)l->addr);
		snprintf(rest, sizeof(rest), "%s%s%.300s", part, *text ? ";" : "", text);
		memcpy(text, rest, sizeof(text));
	}
	return text;
}

static void time_off_the_processor_is_a_type_of_its_own(void **state)
{
	static const uint64_t kernel[] = { 0xffffffffc0201002, 0xffffffff81001810, 0xffffffff81001012 };
	static const struct sampler_frame user[] = { { 0x2350, 7, true } };
	struct window_fixture *f = *state;
	struct sampler_sample s = { .pid = 1,
				    .comm = "worker",
				    .kernel = kernel,
				    .n_kernel = 3,
				    .user = user,
				    .n_user = 1,
				    .off_ns = 77 };
	struct profile *p;

	window_free(f->w);
	f->w = window_new(&f->s, &(struct window_options){ .frequency_hz = 100, .off_cpu = true });
	assert_int_equal(WINDOW_ADDED, window_add(f->w, &s));
	assert_int_equal(WINDOW_ADDED, window_add(f->w, &s));
	s.preempted = true;
	assert_int_equal(WINDOW_ADDED, window_add(f->w, &s));
	s.preempted = false;
	s.off_ns = 0;
	assert_int_equal(WINDOW_ADDED, window_add(f->w, &s));
	p = end_of_window(f);
	assert_int_equal(p->types.n, 2);
	assert_int_equal(profile_type_find(p, STR("")), profile_type_find(p, STR("cpu")));
	assert_int_equal(p->n_samples, 3);
	assert_int_equal(profile_total(p, profile_type_find(p, STR("off_cpu"))), 3 * 77);
	assert_int_equal(profile_total(p, profile_type_find(p, STR("cpu"))), 10000000);
	/* Frames of the tracepoint, above the scheduler, are left out; not those of a sample on the processor. */
	assert_string_equal(stack_text(p, p->sample_stack[0]), "2350;do_work;__schedule");
	assert_int_equal(profile_value(p, 0, 1), 2 * 77);
	assert_string_equal(stack_text(p, p->sample_stack[1]),
			    "2350;do_work;__schedule;[waits for a processor]");
	assert_string_equal(stack_text(p, p->sample_stack[2]), "2350;do_work;__schedule;mod_f");
	profile_free(p);
}

static void a_sample_has_its_frames_and_labels(void **state)
{
	static const uint64_t kernel[] = { 0xffffffff81001010, 0xffffffffc0201001 };
	static const struct sampler_frame user[] = { { 0x2350, 7, true }, { 0x2360, 7, false } };
	struct window_fixture *f = *state;
	const struct sampler_sample s = {
		.pid = 1, .comm = "worker", .kernel = kernel, .n_kernel = 2, .user = user, .n_user = 2
	};
	const struct profile_mapping *m;
	struct profile *p;

	assert_int_equal(WINDOW_ADDED, window_add(f->w, &s));
	assert_int_equal(WINDOW_ADDED, window_add(f->w, &s));
	p = end_of_window(f);
	assert_int_equal(p->n_samples, 1);
	assert_int_equal(profile_value(p, 0, 0), 20000000);
	assert_string_equal(stack_text(p, p->sample_stack[0]), "2360;2350;mod_f;do_work");
	assert_int_equal(p->time_ns, 5);
	assert_int_equal(p->duration_ns, 7);
	assert_int_equal(p->period, 10000000);
	assert_int_equal(p->label_sets.p[p->sample_labels[0]].n, 1);
	assert_str(profile_str(p, p->labels.p[p->label_sets.p[p->sample_labels[0]].first].str), "worker");
	for (uint32_t i = 0; i < p->mappings.n; i++) {
		m = &p->mappings.p[i];
		if (str_eq(profile_str(p, m->file), STR("/usr/lib/libx.so"))) {
			/* The page of the segment, so that address - start + offset is the offset in the file. */
			assert_int_equal(m->start, 0x2000);
			assert_int_equal(m->offset, 0x1000);
			assert_int_equal(m->limit, 0x4000);
			assert_str(profile_str(p, m->build_id), "0123");
		} else if (str_eq(profile_str(p, m->file), STR("[kernel.kallsyms]_text"))) {
			assert_int_equal(m->start, 0xffffffff81000000);
			assert_str(profile_str(p, m->build_id), "abcd");
		} else {
			assert_str(profile_str(p, m->file), "[mod]");
		}
	}
	assert_int_equal(p->mappings.n, 3);
	profile_free(p);
}

/* The innermost address was interrupted; the others follow the call, which may be the last instruction of its function. */
static void return_addresses_of_the_kernel_are_those_of_calls(void **state)
{
	static const uint64_t kernel[] = { 0xffffffff81001800, 0xffffffff81001800 };
	struct window_fixture *f = *state;
	struct sampler_sample s = {
		.comm = "a", .kernel = kernel, .n_kernel = 2, .end = SAMPLER_KERNEL_ONLY
	};
	struct profile *p;

	assert_int_equal(WINDOW_ADDED, window_add(f->w, &s));
	p = end_of_window(f);
	assert_string_equal(stack_text(p, p->sample_stack[0]), "do_work;__schedule");
	assert_int_equal(location_of(p, p->sample_stack[0])->addr, 0xffffffff81001800);
	assert_int_equal(location_of(p, p->stacks.p[p->sample_stack[0]].parent)->addr, 0xffffffff810017ff);
	profile_free(p);
	/* Off the processor no address was interrupted but that of the tracepoint, which is left out. */
	s.kernel = (const uint64_t[]){ 0xffffffffc0201002, 0xffffffff81001810 };
	s.off_ns = 5;
	window_free(f->w);
	f->w = window_new(&f->s, &(struct window_options){ .frequency_hz = 100, .off_cpu = true });
	assert_int_equal(WINDOW_ADDED, window_add(f->w, &s));
	p = end_of_window(f);
	assert_string_equal(stack_text(p, p->sample_stack[0]), "__schedule");
	assert_int_equal(location_of(p, p->sample_stack[0])->addr, 0xffffffff8100180f);
	profile_free(p);
}

static struct str file_of_stack(const struct profile *p, uint32_t stack)
{
	const struct profile_location *l = location_of(p, stack);

	assert_true(l->mapping < p->mappings.n);
	return profile_str(p, p->mappings.p[l->mapping].file);
}

static struct str label_of_sample(const struct profile *p, uint32_t sample)
{
	assert_true(p->sample_labels[sample] < p->label_sets.n);
	return profile_str(p, p->labels.p[p->label_sets.p[p->sample_labels[sample]].first].str);
}

/* Files, labels and the kernel have other numbers in each profile. */
static void a_window_has_nothing_of_the_one_before(void **state)
{
	static const uint64_t kernel[] = { 0xffffffff81001010 };
	static const struct sampler_frame user[] = { { 0x2350, 7, true } };
	struct window_fixture *f = *state;
	const struct sampler_sample both = {
		.pid = 1, .comm = "first", .kernel = kernel, .n_kernel = 1, .user = user, .n_user = 1
	};
	const struct sampler_sample of_kernel = {
		.pid = 2, .comm = "second", .kernel = kernel, .n_kernel = 1, .end = SAMPLER_KERNEL_ONLY
	};
	const struct sampler_sample of_user = { .pid = 3, .comm = "third", .user = user, .n_user = 1 };
	struct profile *p;

	assert_int_equal(WINDOW_ADDED, window_add(f->w, &both));
	assert_int_equal(WINDOW_ADDED, window_add(f->w, &of_kernel));
	assert_int_equal(WINDOW_ADDED, window_add(f->w, &of_user));
	profile_free(end_of_window(f));
	assert_int_equal(WINDOW_ADDED, window_add(f->w, &of_kernel));
	assert_int_equal(WINDOW_ADDED, window_add(f->w, &of_user));
	p = end_of_window(f);
	assert_int_equal(p->n_samples, 2);
	assert_int_equal(p->mappings.n, 2);
	assert_str(label_of_sample(p, 0), "second");
	assert_str(label_of_sample(p, 1), "third");
	assert_str(file_of_stack(p, p->sample_stack[0]), "[kernel.kallsyms]_text");
	assert_str(file_of_stack(p, p->sample_stack[1]), "/usr/lib/libx.so");
	profile_free(p);
	/* Only the file, so that it is the first. */
	assert_int_equal(WINDOW_ADDED, window_add(f->w, &of_user));
	p = end_of_window(f);
	assert_int_equal(p->mappings.n, 1);
	assert_str(label_of_sample(p, 0), "third");
	assert_str(file_of_stack(p, p->sample_stack[0]), "/usr/lib/libx.so");
	profile_free(p);
}

static void an_incomplete_stack_says_why(void **state)
{
	static const struct sampler_frame user[] = { { 0x2350, 7, true }, { 0x111, SAMPLER_NO_FILE, false } };
	static const struct {
		enum sampler_end end;
		size_t n_user;
		const char *text;
	} cases[] = {
		{ SAMPLER_COMPLETE, 1, "2350" },
		{ SAMPLER_FRAME_END, 1, "2350" },
		{ SAMPLER_NO_ROW, 1, "[no row in libx.so];2350" },
		{ SAMPLER_NO_TABLE, 1, "[no table in libx.so];2350" },
		{ SAMPLER_NO_ROW, 2,
		  "[no row in code made at run time];[code made at run time, without a perf map];2350" },
		{ SAMPLER_UNREADABLE, 2, "[unreadable];[code made at run time, without a perf map];2350" },
		{ SAMPLER_TOO_DEEP, 1, "[too deep];2350" },
		{ SAMPLER_NO_PROCESS, 0, "[no process]" },
	};
	struct window_fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct sampler_sample s = {
			.comm = "a", .user = user, .n_user = cases[i].n_user, .end = cases[i].end
		};
		struct profile *p;

		assert_int_equal(WINDOW_ADDED, window_add(f->w, &s));
		p = end_of_window(f);
		assert_string_equal(stack_text(p, p->sample_stack[0]), cases[i].text);
		profile_free(p);
	}
}

/* In a storm the time for reading /proc is used up: samples that do not wait come before their process is read. */
static void a_sample_of_a_process_that_is_not_read_yet_counts(void **state)
{
	struct window_fixture *f = *state;
	const struct sampler_sample s = { .pid = 5, .comm = "make", .end = SAMPLER_KERNEL_ONLY };
	struct profile *p;

	clock_test_freeze(1000);
	f->s.processes->reading.credit_ns = INT64_MIN / 2;
	processes_event(f->s.processes,
			&(struct sampler_event){ .kind = SAMPLER_NEW, .pid = 5, .start_ticks = 7 });
	assert_non_null(processes_find(f->s.processes, 5, 7));
	assert_int_equal(WINDOW_ADDED, window_add(f->w, &s));
	p = end_of_window(f);
	assert_str(profile_str(p, p->labels.p[p->label_sets.p[p->sample_labels[0]].first].str), "make");
	profile_free(p);
	clock_test_thaw();
}

static void frames_that_stand_for_others_are_one(void **state)
{
	static const struct sampler_frame user[] = { { 0x2350, 7, true },
						     { 0x111, SAMPLER_NO_FILE, false },
						     { 0x222, SAMPLER_NO_FILE, false },
						     { 0x333, 8, false } };
	struct window_fixture *f = *state;
	const struct sampler_sample s = { .comm = "a", .user = user, .n_user = 4 };
	struct profile *p;

	assert_int_equal(WINDOW_ADDED, window_add(f->w, &s));
	p = end_of_window(f);
	assert_string_equal(stack_text(p, p->sample_stack[0]),
			    "[code of a file that is gone];[code made at run time, without a perf map];2350");
	profile_free(p);
}

static void a_kernel_without_names_keeps_its_addresses(void **state)
{
	static const uint64_t kernel[] = { 0xffffffff81001010 };
	struct window_fixture *f = *state;
	const struct sampler_sample s = {
		.comm = "a", .kernel = kernel, .n_kernel = 1, .end = SAMPLER_KERNEL_ONLY
	};
	struct profile *p;

	kernel_names_load(f->s.kernel, STR("0000000000000000 T _text\n"));
	assert_int_equal(WINDOW_ADDED, window_add(f->w, &s));
	p = end_of_window(f);
	assert_string_equal(stack_text(p, p->sample_stack[0]), "ffffffff81001010");
	assert_str(profile_str(p, p->mappings.p[0].file), "[kernel.kallsyms]");
	profile_free(p);
}

static void a_window_without_samples_is_none_and_a_full_one_says_so(void **state)
{
	struct window_fixture *f = *state;
	uint64_t lost;

	assert_null(window_end(f->w, 0, 0, &lost));
	window_free(f->w);
	f->w = window_new(&f->s, &(struct window_options){ .frequency_hz = 100, .max_memory = KIB(64) });
	for (uint64_t i = 0; i < 10000 && !window_is_full(f->w); i++) {
		const struct sampler_frame user[] = { { 0x2340 + i % 0x1000, 7, true },
						      { 0x2340 + i / 7 % 0x1000, 7, false } };
		const struct sampler_sample s = { .comm = "a", .user = user, .n_user = 2 };

		assert_int_equal(WINDOW_ADDED, window_add(f->w, &s));
	}
	assert_true(window_is_full(f->w));
	profile_free(window_end(f->w, 0, 0, &lost));
	assert_false(window_is_full(f->w));
}

/* As of "lode agent -o": the samples up to then are the profile. */
static void a_full_run_keeps_what_it_has(void **state)
{
	struct window_fixture *f = *state;
	struct profile *p;
	uint64_t lost, kept = 0;

	window_free(f->w);
	f->w = window_new(&f->s, &(struct window_options){
					 .frequency_hz = 100, .max_memory = KIB(64), .is_run = true });
	for (uint64_t i = 0; i < 10000; i++) {
		const struct sampler_frame user[] = { { 0x2340 + i % 0x1000, 7, true },
						      { 0x2340 + i / 7 % 0x1000, 7, false } };
		const struct sampler_sample s = { .comm = "a", .user = user, .n_user = 2 };

		kept += window_add(f->w, &s) == WINDOW_ADDED;
	}
	p = window_end(f->w, 0, 0, &lost);
	assert_non_null(p);
	assert_true(kept > 100);
	assert_int_equal(p->n_samples, kept);
	assert_int_equal(kept + lost, 10000);
	profile_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_sample_has_its_frames_and_labels, window_setup,
						window_teardown),
		cmocka_unit_test_setup_teardown(time_off_the_processor_is_a_type_of_its_own, window_setup,
						window_teardown),
		cmocka_unit_test_setup_teardown(return_addresses_of_the_kernel_are_those_of_calls,
						window_setup, window_teardown),
		cmocka_unit_test_setup_teardown(a_window_has_nothing_of_the_one_before, window_setup,
						window_teardown),
		cmocka_unit_test_setup_teardown(an_incomplete_stack_says_why, window_setup, window_teardown),
		cmocka_unit_test_setup_teardown(a_sample_of_a_process_that_is_not_read_yet_counts,
						window_setup, window_teardown),
		cmocka_unit_test_setup_teardown(frames_that_stand_for_others_are_one, window_setup,
						window_teardown),
		cmocka_unit_test_setup_teardown(a_kernel_without_names_keeps_its_addresses, window_setup,
						window_teardown),
		cmocka_unit_test_setup_teardown(a_full_run_keeps_what_it_has, window_setup, window_teardown),
		cmocka_unit_test_setup_teardown(a_window_without_samples_is_none_and_a_full_one_says_so,
						window_setup, window_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
