/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "codec/codec.h"
#include "otlp_maker.h"
#include "profile/otlp.h"
#include "profile/otlp_fields.h"
#include "wire/proto.h"

#define TIME_NS UINT64_C(1760000000000000000)

struct taken {
	struct profile *p; /* the last */
	char labels[256];  /* "name=value " each */
	unsigned n;
};

static int take_one(void *arg, struct profile *p, const struct otlp_label *labels, size_t n, struct err *err)
{
	struct taken *t = arg;
	size_t size = 0;

	profile_free(t->p);
	t->p = p;
	t->n++;
	for (size_t i = 0; i < n; i++)
		size += (size_t)snprintf(t->labels + size, sizeof(t->labels) - size, STR_FMT "=" STR_FMT " ",
					 STR_ARG(labels[i].name), STR_ARG(labels[i].value));
	return 0;
}

static int read_parts(const struct otlp_request_parts *parts, struct taken *t, struct otlp_result *result,
		      struct err *err)
{
	AUTO(buf_done) struct buf in = { 0 };

	otlp_make(parts, TIME_NS, &in);
	return otlp_read(buf_bytes(&in), NULL, (struct otlp_sink){ take_one, t }, result, err);
}

static const struct otlp_request_parts usual = { .build_id = STR("0123456789abcdef0123456789abcdef01234567"),
						 .stack = 1 };

static void a_request_of_the_ebpf_profiler(void **state)
{
	struct otlp_result result;
	struct taken t = { 0 };
	const struct profile *p;
	const struct profile_location *leaf, *root;
	struct err err;

	assert_int_equal(read_parts(&usual, &t, &result, &err), 0);
	assert_int_equal(result.n_profiles, 1);
	assert_int_equal(result.n_rejected, 0);
	/* Not the process ID, which would make a series of each process. */
	assert_string_equal(t.labels, "service_name=web host_name=node-1 ");
	p = t.p;
	assert_int_equal(p->time_ns, TIME_NS);
	assert_int_equal(p->duration_ns, 5000000000);
	assert_int_equal(p->period, 20000000);
	assert_int_equal(p->types.n, 2);
	assert_true(str_eq(profile_str(p, p->types.p[1].type), STR("cpu")));
	assert_int_equal(p->n_samples, 1);
	/* Each timestamp counts as one sample of 20 ms. */
	assert_int_equal(profile_value(p, 0, 0), 2);
	assert_int_equal(profile_value(p, 0, 1), 40000000);

	leaf = &p->locations.p[p->stacks.p[p->sample_stack[0]].location];
	assert_int_equal(leaf->addr, 0x1234);
	assert_int_equal(leaf->n_lines, 0);
	assert_true(str_eq(profile_str(p, p->mappings.p[leaf->mapping].build_id), usual.build_id));
	assert_true(str_eq(profile_str(p, p->mappings.p[leaf->mapping].file), STR("/bin/x")));
	root = &p->locations.p[p->stacks.p[p->stacks.p[p->sample_stack[0]].parent].location];
	assert_int_equal(root->mapping, PROFILE_NONE);
	assert_int_equal(root->n_lines, 2);
	assert_int_equal(p->lines.p[root->first_line].line, 7);
	assert_true(str_eq(profile_str(p, p->functions.p[p->lines.p[root->first_line].function].name),
			   STR("inline_")));

	/* Of the sample's attributes the thread's name stays, its number not. */
	assert_int_equal(p->label_sets.p[p->sample_labels[0]].n, 1);
	assert_true(str_eq(profile_str(p, p->labels.p[p->label_sets.p[p->sample_labels[0]].first].str),
			   STR("worker")));
	profile_free(t.p);
}

static void values_count_before_timestamps(void **state)
{
	struct otlp_request_parts parts = usual;
	struct otlp_result result;
	struct taken t = { 0 };
	struct err err;

	parts.with_values = true;
	assert_int_equal(read_parts(&parts, &t, &result, &err), 0);
	assert_int_equal(profile_value(t.p, 0, 0), 12);
	profile_free(t.p);
}

static void a_compressed_request(void **state)
{
	AUTO(buf_done) struct buf in = { 0 };
	AUTO(buf_done) struct buf packed = { 0 };
	struct otlp_result result;
	struct taken t = { 0 };
	struct err err;

	otlp_make(&usual, TIME_NS, &in);
	assert_int_equal(codec_pack_gzip(buf_bytes(&in), 6, &packed, &err), 0);
	assert_int_equal(
		otlp_read(buf_bytes(&packed), NULL, (struct otlp_sink){ take_one, &t }, &result, &err), 0);
	assert_int_equal(t.n, 1);
	profile_free(t.p);
}

static void a_damaged_profile_costs_itself_only(void **state)
{
	AUTO(buf_done) struct buf in = { 0 };
	struct otlp_request_parts parts = usual;
	struct otlp_result result;
	struct taken t = { 0 };
	struct err err;

	/* Two requests in one: messages of the same fields add up. */
	parts.stack = 77;
	parts.no_dictionary = true;
	otlp_make(&parts, TIME_NS, &in);
	otlp_make(&usual, TIME_NS, &in);
	assert_int_equal(otlp_read(buf_bytes(&in), NULL, (struct otlp_sink){ take_one, &t }, &result, &err),
			 0);
	assert_int_equal(result.n_profiles, 1);
	assert_int_equal(result.n_rejected, 1);
	assert_string_equal(result.why.text, "there is no stack 77, the dictionary has 2");
	profile_free(t.p);
}

/* Location 0 is "nothing", and one entry however often stacks name it. */
static void locations_without_an_entry_cost_no_memory(void **state)
{
	static const uint8_t zeros[1000];
	AUTO(buf_done) struct buf in = { 0 };
	AUTO(buf_done) struct buf m = { 0 };
	AUTO(buf_done) struct buf dictionary = { 0 };
	struct otlp_request_parts parts = usual;
	struct otlp_result result;
	struct taken t = { 0 };
	struct err err;

	proto_put_bytes(&m, OTLP_STACK_LOCATIONS, zeros, sizeof(zeros));
	proto_put_message(&dictionary, OTLP_STACKS, &m);
	parts.stack = 2;
	otlp_make(&parts, TIME_NS, &in);
	proto_put_message(&in, OTLP_DICTIONARY, &dictionary);
	assert_done(otlp_read(buf_bytes(&in), NULL, (struct otlp_sink){ take_one, &t }, &result, &err));
	assert_int_equal(result.n_profiles, 1);
	assert_int_equal(t.p->stacks.n, 1 + sizeof(zeros));
	assert_int_equal(t.p->locations.n, 1);
	profile_free(t.p);
	/* One that is missing ends the reading of its stack. */
	proto_put_bytes(&m, OTLP_STACK_LOCATIONS, "\x63\x63", 2);
	proto_put_message(&dictionary, OTLP_STACKS, &m);
	parts.stack = 2;
	in.size = 0;
	otlp_make(&parts, TIME_NS, &in);
	proto_put_message(&in, OTLP_DICTIONARY, &dictionary);
	assert_done(otlp_read(buf_bytes(&in), NULL, (struct otlp_sink){ take_one, &t }, &result, &err));
	assert_int_equal(result.n_rejected, 1);
	assert_string_equal(result.why.text, "there is no location 99, the dictionary has 3");
}

static void older_revisions_are_told(void **state)
{
	struct otlp_request_parts parts = usual;
	struct otlp_result result;
	struct taken t = { 0 };
	struct err err;

	parts.old = true;
	assert_int_equal(read_parts(&parts, &t, &result, &err), 0);
	assert_int_equal(result.n_rejected, 1);
	assert_non_null(strstr(result.why.text, "before 1.9"));

	parts.old = false;
	parts.no_dictionary = true;
	assert_int_equal(read_parts(&parts, &t, &result, &err), -1);
	assert_int_equal(err.kind, ERR_INVALID);
	assert_non_null(strstr(err.text, "before 1.7"));
	assert_int_equal(t.n, 0);
}

/* Each cut is refused or read, never more than what is there. */
static void cut_requests(void **state)
{
	AUTO(buf_done) struct buf in = { 0 };

	otlp_make(&usual, TIME_NS, &in);
	for (size_t n = 0; n < in.size; n++) {
		uint8_t *copy = n ? malloc(n) : NULL;
		struct otlp_result result;
		struct taken t = { 0 };
		struct err err;

		if (n)
			memcpy(copy, in.p, n);
		if (otlp_read((struct bytes){ copy, n }, NULL, (struct otlp_sink){ take_one, &t }, &result,
			      &err) == 0)
			assert_true(result.n_rejected || !t.n);
		profile_free(t.p);
		free(copy);
	}
}

static void check_service_of(struct str program, const char *want)
{
	struct otlp_request_parts parts = usual;
	struct otlp_result result;
	struct taken t = { 0 };
	struct err err;

	parts.no_service = true;
	parts.program = program;
	assert_int_equal(read_parts(&parts, &t, &result, &err), 0);
	assert_string_equal(t.labels, want);
	profile_free(t.p);
}

static void a_resource_without_a_service_has_that_of_its_program(void **state)
{
	check_service_of(STR("nginx"), "process_executable_name=nginx host_name=node-1 "
				       "service_name=unknown_service:nginx ");
	check_service_of(STR(""), "host_name=node-1 service_name=unknown_service ");
}

/* Few bytes that ask for much work: profiles that share one deep stack. */
static void deep_stacks_of_many_profiles_are_bounded(void **state)
{
	AUTO(buf_done) struct buf in = { 0 };
	AUTO(buf_done) struct buf dictionary = { 0 };
	AUTO(buf_done) struct buf m = { 0 };
	AUTO(buf_done) struct buf deep = { 0 };
	AUTO(buf_done) struct buf profile = { 0 };
	AUTO(buf_done) struct buf scope = { 0 };
	AUTO(buf_done) struct buf resource = { 0 };
	struct otlp_result result;
	struct taken t = { 0 };
	struct err err;

	proto_put_bytes(&dictionary, 5, "", 0);
	proto_put_bytes(&dictionary, 5, "x", 1);
	proto_put_message(&dictionary, 2, &m);
	proto_put_message(&dictionary, 2, &m);
	proto_put_message(&dictionary, 7, &m);
	for (unsigned i = 0; i < PROFILE_MAX_DEPTH; i++)
		buf_add_uleb(&deep, 1);
	proto_put_message(&m, 1, &deep);
	proto_put_message(&dictionary, 7, &m);
	proto_put_message(&in, 2, &dictionary);
	for (unsigned i = 0; i < 300; i++) {
		proto_put_bytes(&profile, 1, "\x08\x01", 2);
		proto_put_bytes(&profile, 2, "\x08\x01\x22\x01\x01", 5);
		proto_put_message(&scope, 2, &profile);
	}
	proto_put_message(&resource, 2, &scope);
	proto_put_message(&in, 1, &resource);
	assert_int_equal(otlp_read(buf_bytes(&in), NULL, (struct otlp_sink){ take_one, &t }, &result, &err),
			 0);
	assert_int_equal(result.n_profiles, OTLP_MAX_FRAMES / PROFILE_MAX_DEPTH);
	assert_int_equal(result.why.kind, ERR_LIMIT);
	profile_free(t.p);
}

/* A resource with @n profiles without samples, of a type with a long name. */
static void put_idle_profiles(struct buf *in, unsigned n, size_t name_size)
{
	AUTO(buf_done) struct buf dictionary = { 0 };
	AUTO(buf_done) struct buf name = { 0 };
	AUTO(buf_done) struct buf scope = { 0 };
	AUTO(buf_done) struct buf resource = { 0 };

	while (name.size < name_size)
		buf_add_char(&name, 'x');
	proto_put_bytes(&dictionary, OTLP_STRINGS, "", 0);
	proto_put_message(&dictionary, OTLP_STRINGS, &name);
	for (unsigned i = 0; i < n; i++)
		proto_put_bytes(&scope, OTLP_PROFILES, "\x0a\x02\x08\x01", 4);
	proto_put_message(&resource, OTLP_SCOPE_PROFILES, &scope);
	proto_put_message(in, OTLP_RESOURCE_PROFILES, &resource);
	proto_put_message(in, OTLP_DICTIONARY, &dictionary);
}

static void profiles_without_samples_count(void **state)
{
	AUTO(buf_done) struct buf in = { 0 };
	struct otlp_result result;
	struct taken t = { 0 };
	struct err err = { 0 };

	put_idle_profiles(&in, OTLP_MAX_PROFILES + 1, 1);
	assert_fails(otlp_read(buf_bytes(&in), NULL, (struct otlp_sink){ take_one, &t }, &result, &err),
		     ERR_LIMIT, "more than 4096 profiles");
}

static void entries_that_are_used_again_count_towards_the_deadline(void **state)
{
	struct deadline deadline = { .end_mono_ms = 1 };
	const struct profile_limits limits = { .deadline = &deadline };
	AUTO(buf_done) struct buf in = { 0 };
	struct otlp_result result;
	struct taken t = { 0 };
	struct err err = { 0 };

	put_idle_profiles(&in, 2, DEADLINE_STEPS);
	assert_fails(otlp_read(buf_bytes(&in), &limits, (struct otlp_sink){ take_one, &t }, &result, &err),
		     ERR_CANCELLED, "took longer");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_of_the_ebpf_profiler),
		cmocka_unit_test(values_count_before_timestamps),
		cmocka_unit_test(a_compressed_request),
		cmocka_unit_test(a_damaged_profile_costs_itself_only),
		cmocka_unit_test(locations_without_an_entry_cost_no_memory),
		cmocka_unit_test(older_revisions_are_told),
		cmocka_unit_test(cut_requests),
		cmocka_unit_test(a_resource_without_a_service_has_that_of_its_program),
		cmocka_unit_test(deep_stacks_of_many_profiles_are_bounded),
		cmocka_unit_test(profiles_without_samples_count),
		cmocka_unit_test(entries_that_are_used_again_count_towards_the_deadline),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
