/* SPDX-License-Identifier: Apache-2.0 */
/* tests/data/arrow/parca_agent.arrows was made by the agent's writer of samples: six rows. */
#include "test.h"

#include "base/file.h"
#include "profile/parca.h"

struct taken {
	struct profile *p[8];
	char labels[8][256]; /* "name=value " each */
	unsigned n;
};

static int take_one(void *arg, struct profile *p, const struct parca_label *labels, size_t n, struct err *err)
{
	struct taken *t = arg;
	size_t size = 0;

	assert_true(t->n < ARRAY_SIZE(t->p));
	for (size_t i = 0; i < n; i++)
		size += (size_t)snprintf(t->labels[t->n] + size, sizeof(t->labels[0]) - size,
					 STR_FMT "=" STR_FMT " ", STR_ARG(labels[i].name),
					 STR_ARG(labels[i].value));
	t->p[t->n++] = p;
	return 0;
}

static void taken_done(struct taken *t)
{
	for (unsigned i = 0; i < t->n; i++)
		profile_free(t->p[i]);
}

static void read_agent(struct buf *ret)
{
	char path[512];
	struct err err;

	snprintf(path, sizeof(path), "%s/arrow/parca_agent.arrows", getenv("LODE_TEST_DATA"));
	assert_done(file_read(path, 1 << 20, ret, &err));
}

static const struct profile_location *frame_of(const struct profile *p, uint32_t sample, unsigned depth)
{
	uint32_t stack = p->sample_stack[sample];

	while (depth--)
		stack = p->stacks.p[stack].parent;
	return &p->locations.p[p->stacks.p[stack].location];
}

static void rows_become_profiles_by_labels_and_types(void **state)
{
	AUTO(buf_done) struct buf in = { 0 };
	struct parca_result result;
	struct taken t = { 0 };
	const struct profile *p;
	struct err err;

	read_agent(&in);
	assert_done(parca_read(buf_bytes(&in), NULL, (struct parca_sink){ take_one, &t }, &result, &err));
	assert_int_equal(result.n_profiles, 3);
	assert_int_equal(result.n_rejected, 0);
	/* Neither cpu nor thread_id: each value would begin a series. */
	assert_string_equal(t.labels[0], "__name__=parca_agent comm=web node=node-1 thread_name=web ");
	assert_string_equal(t.labels[1], "__name__=parca_agent comm=db node=node-1 thread_name=worker ");
	assert_string_equal(t.labels[2], "__name__=memory comm=db node=node-1 thread_name=worker ");
	p = t.p[0];
	assert_int_equal(p->time_ns, 1760000000000000000);
	assert_int_equal(p->duration_ns, 1000000000);
	assert_int_equal(p->types.n, 2);
	assert_str(profile_str(p, p->types.p[1].unit), "nanoseconds");
	assert_int_equal(p->n_samples, 3);
	assert_int_equal(profile_value(p, 0, 0), 1);
	assert_int_equal(profile_value(p, 0, 1), 52631578);
	/* Values of what is in use are no differences. */
	p = t.p[2];
	assert_int_equal(p->types.n, 1);
	assert_int_equal(p->duration_ns, 0);
	assert_str(profile_str(p, p->types.p[0].type), "inuse_space");
	taken_done(&t);
}

static void frames_of_files_kernels_and_interpreters(void **state)
{
	AUTO(buf_done) struct buf in = { 0 };
	const struct profile_location *l;
	struct parca_result result;
	struct taken t = { 0 };
	const struct profile *p;
	struct err err;

	read_agent(&in);
	assert_done(parca_read(buf_bytes(&in), NULL, (struct parca_sink){ take_one, &t }, &result, &err));
	/* Of the ELF file: without a range in memory, to be named here. */
	p = t.p[0];
	l = frame_of(p, 0, 0);
	assert_int_equal(l->addr, 0x1000);
	assert_int_equal(l->n_lines, 0);
	assert_int_equal(p->mappings.p[l->mapping].limit, 0);
	assert_str(profile_str(p, p->mappings.p[l->mapping].file), "web");
	assert_str(profile_str(p, p->mappings.p[l->mapping].build_id),
		   "0123456789abcdef0123456789abcdef01234567");
	/* A program without a build ID, by its hash. */
	l = frame_of(p, 0, 3);
	assert_str(profile_str(p, p->mappings.p[l->mapping].build_id), "00112233445566778899aabbccddeeff");
	/* An interpreter's: its address is a line's number. */
	l = frame_of(p, 1, 0);
	assert_int_equal(l->mapping, PROFILE_NONE);
	assert_int_equal(l->addr, 0);
	assert_int_equal(l->n_lines, 1);
	assert_int_equal(p->lines.p[l->first_line].line, 17);
	assert_str(profile_str(p, p->functions.p[p->lines.p[l->first_line].function].file), "app.py");
	/* The kernel's, with the name that the agent has. */
	p = t.p[1];
	l = frame_of(p, 0, 0);
	assert_str(profile_str(p, p->functions.p[p->lines.p[l->first_line].function].name), "do_syscall_64");
	assert_str(profile_str(p, p->mappings.p[l->mapping].file), "[kernel.kallsyms]");
	taken_done(&t);
}

static void memory_and_schema(void **state)
{
	AUTO(buf_done) struct buf in = { 0 };
	struct profile_limits limits = { .max_memory = 100 };
	struct parca_result result;
	struct taken t = { 0 };
	struct err err;
	uint8_t *version;

	read_agent(&in);
	assert_fails(parca_read(buf_bytes(&in), &limits, (struct parca_sink){ take_one, &t }, &result, &err),
		     ERR_LIMIT, "");
	limits = (struct profile_limits){ .max_size = 100 };
	assert_fails(parca_read(buf_bytes(&in), &limits, (struct parca_sink){ take_one, &t }, &result, &err),
		     ERR_LIMIT, "more than 100 bytes");
	version = memmem(in.p, in.size, "write_schema_version", 20);
	assert_non_null(version);
	*version = 'W';
	assert_fails(parca_read(buf_bytes(&in), NULL, (struct parca_sink){ take_one, &t }, &result, &err),
		     ERR_INVALID, "schema v2");
	assert_int_equal(t.n, 0);
}

/* However few rows there are: the texts that they use count, too. */
static void the_deadline_holds_within_a_row(void **state)
{
	struct deadline d = { .what = "the request", .end_mono_ms = 1, .spent = DEADLINE_STEPS - 64 };
	const struct profile_limits limits = { .deadline = &d };
	AUTO(buf_done) struct buf in = { 0 };
	struct parca_result result;
	struct taken t = { 0 };
	struct err err = { 0 };

	read_agent(&in);
	assert_fails(parca_read(buf_bytes(&in), &limits, (struct parca_sink){ take_one, &t }, &result, &err),
		     ERR_CANCELLED, "the request");
	taken_done(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_become_profiles_by_labels_and_types),
		cmocka_unit_test(frames_of_files_kernels_and_interpreters),
		cmocka_unit_test(memory_and_schema),
		cmocka_unit_test(the_deadline_holds_within_a_row),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
