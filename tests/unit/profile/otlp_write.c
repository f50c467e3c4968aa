/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile written as a request of OTLP, and read back: nothing of it is lost.
 */
#include "test.h"

#include <stdlib.h>

#include "profile/otlp.h"
#include "profile_maker.h"

#define MAX_READ 512

struct read_back {
	struct profile *p[MAX_READ];
	char labels[MAX_READ][256]; /* "name=value " each */
	unsigned n;
};

static int take_read(void *arg, struct profile *p, const struct otlp_label *labels, size_t n, struct err *err)
{
	struct read_back *r = arg;
	size_t size = 0;

	assert_true(r->n < MAX_READ);
	for (size_t i = 0; i < n; i++)
		size += (size_t)snprintf(r->labels[r->n] + size, sizeof(r->labels[0]) - size,
					 STR_FMT "=" STR_FMT " ", STR_ARG(labels[i].name),
					 STR_ARG(labels[i].value));
	r->p[r->n++] = p;
	return 0;
}

static void read_back_done(struct read_back *r)
{
	for (unsigned i = 0; i < r->n; i++)
		profile_free(r->p[i]);
}

static void write_and_read(const struct profile *p, const struct otlp_write_options *o, struct read_back *ret)
{
	AUTO(buf_done) struct buf out = { 0 };
	struct otlp_result result;
	struct err err = { 0 };

	*ret = (struct read_back){ 0 };
	assert_done(otlp_write(p, o, &out, &err));
	assert_done(otlp_read(buf_bytes(&out), NULL, (struct otlp_sink){ take_read, ret }, &result, &err));
	assert_int_equal(result.n_rejected, 0);
	assert_int_equal(result.n_profiles, ret->n);
}

/* ---- what must come back: the samples of one set of labels with one type ---- */

static uint32_t copy_text(struct profile *to, const struct profile *from, uint32_t s)
{
	return profile_add_string(to, profile_str(from, s));
}

/* Names become those of Prometheus. */
static uint32_t copy_key(struct profile *to, const struct profile *from, uint32_t s)
{
	AUTO(mem_freep)
	char *name = mem_strndup(profile_str(from, s).p, profile_str(from, s).size);

	for (char *c = name; *c; c++)
		if (*c == ' ')
			*c = '_';
	return profile_add_string(to, str_of(name));
}

static uint32_t copy_location(struct profile *to, const struct profile *from, uint32_t i)
{
	const struct profile_location *l = &from->locations.p[i];
	struct profile_location copy = { .addr = l->addr, .mapping = PROFILE_NONE };
	struct profile_line lines[4];

	if (l->mapping != PROFILE_NONE) {
		struct profile_mapping m = from->mappings.p[l->mapping];

		m.file = copy_text(to, from, m.file);
		m.build_id = copy_text(to, from, m.build_id);
		m.flags = 0;
		copy.mapping = profile_add_mapping(to, &m);
	}
	for (uint32_t k = 0; k < l->n_lines; k++) {
		struct profile_function f;

		lines[k] = from->lines.p[l->first_line + k];
		f = from->functions.p[lines[k].function];
		f.name = copy_text(to, from, f.name);
		f.system_name = copy_text(to, from, f.system_name);
		f.file = copy_text(to, from, f.file);
		lines[k].function = profile_add_function(to, &f);
	}
	return profile_add_location(to, &copy, lines, l->n_lines);
}

static uint32_t copy_stack(struct profile *to, const struct profile *from, uint32_t s)
{
	return s ? profile_add_stack(to, copy_stack(to, from, from->stacks.p[s].parent),
				     copy_location(to, from, from->stacks.p[s].location))
		 : 0;
}

static uint32_t copy_numbers(struct profile *to, const struct profile *from, uint32_t set)
{
	struct profile_label l[4];
	uint32_t n = 0;

	for (uint32_t i = 0; i < from->label_sets.p[set].n; i++) {
		l[n] = from->labels.p[from->label_sets.p[set].first + i];
		if (l[n].str)
			continue;
		l[n].key = copy_key(to, from, l[n].key);
		l[n].unit = copy_text(to, from, l[n].unit);
		n++;
	}
	return profile_add_labels(to, l, n);
}

static struct profile *part_of(const struct profile *p, uint32_t set, uint32_t type)
{
	struct profile *ret = profile_new(NULL);
	struct err err;

	profile_add_type(ret, profile_str(p, p->types.p[type].type), profile_str(p, p->types.p[type].unit));
	ret->time_ns = p->time_ns;
	ret->duration_ns = p->duration_ns;
	ret->period = p->period;
	for (uint32_t i = 0; i < p->n_samples; i++)
		if (p->sample_labels[i] == set)
			profile_add_sample(ret, copy_stack(ret, p, p->sample_stack[i]),
					   copy_numbers(ret, p, set),
					   &(int64_t){ profile_value(p, i, type) });
	assert_done(profile_build_end(ret, &err));
	return ret;
}

static void labels_of_set(const struct profile *p, uint32_t set, char *out, size_t room)
{
	size_t size = (size_t)snprintf(out, room, "host_name=n1 ");

	for (uint32_t i = 0; i < p->label_sets.p[set].n; i++) {
		const struct profile_label *l = &p->labels.p[p->label_sets.p[set].first + i];

		if (l->str)
			size += (size_t)snprintf(out + size, room - size, STR_FMT "=" STR_FMT " ",
						 STR_ARG(profile_str(p, l->key)),
						 STR_ARG(profile_str(p, l->str)));
	}
	for (char *c = out; *c; c++)
		if (*c == ' ' && c[1] >= '0' && c[1] <= '9' && strncmp(c - 3, "key", 3) == 0)
			*c = '_';
	snprintf(out + size, room - size, "service_name=unknown_service ");
}

static const struct otlp_label node = { STR("host.name"), STR("n1") };

static void everything_comes_back(enum otlp_packing packing)
{
	const struct profile_maker m = {
		.seed = 3, .world = 5, .n_samples = 300, .n_locations = 60, .depth = 12
	};
	const struct otlp_write_options o = { .resource = &node, .n_resource = 1, .packing = packing };
	AUTO(profile_freep) struct profile *p = profile_make(&m);
	static struct read_back r;
	unsigned n = 0;
	char labels[256];

	p->period = 0; /* counts stay counts */
	p->default_type = 0;
	for (uint32_t i = 0; i < p->locations.n; i++)
		p->locations.p[i].folded = false;
	write_and_read(p, &o, &r);
	assert_true(p->label_sets.n > 5);
	assert_int_equal(r.n, p->label_sets.n * p->types.n);
	for (uint32_t s = 0; s < p->label_sets.n; s++) {
		labels_of_set(p, s, labels, sizeof(labels));
		for (uint32_t t = 0; t < p->types.n; t++, n++) {
			AUTO(profile_freep) struct profile *want = part_of(p, s, t);
			AUTO(buf_done) struct buf a = { 0 };
			AUTO(buf_done) struct buf b = { 0 };

			assert_string_equal(r.labels[n], labels);
			profile_canonical(want, &a);
			profile_canonical(r.p[n], &b);
			assert_string_equal(buf_cstr(&b), buf_cstr(&a));
		}
	}
	read_back_done(&r);
}

static void nothing_is_lost(void **state)
{
	everything_comes_back(OTLP_PLAIN);
	everything_comes_back(OTLP_GZIP);
	everything_comes_back(OTLP_ZSTD);
}

static struct profile *cpu_profile(int64_t value, bool with_counts)
{
	struct profile *p = profile_new(NULL);
	struct profile_function f = { .name = profile_add_string(p, STR("main")) };
	struct profile_location l = { .mapping = PROFILE_NONE };
	struct profile_line line = { 0 };
	int64_t values[2] = { value, 3 };

	profile_add_type(p, STR("cpu"), STR("nanoseconds"));
	if (with_counts)
		profile_add_type(p, STR("samples"), STR("count"));
	p->period = 1000;
	p->period_type = p->types.p[0];
	p->time_ns = INT64_C(1760000000000000000);
	line.function = profile_add_function(p, &f);
	profile_add_sample(p, profile_add_stack(p, 0, profile_add_location(p, &l, &line, 1)), 0, values);
	return p;
}

/* As OpenTelemetry's profiler sends it; the reader makes CPU time of it. */
static void cpu_time_is_a_count_of_samples(void **state)
{
	const struct otlp_write_options o = { 0 };
	AUTO(profile_freep) struct profile *p = cpu_profile(3000, false);
	AUTO(profile_freep) struct profile *both = cpu_profile(3000, true);
	AUTO(profile_freep) struct profile *odd = cpu_profile(3001, false);
	static struct read_back r;

	write_and_read(p, &o, &r);
	assert_int_equal(r.n, 1);
	assert_int_equal(r.p[0]->types.n, 2);
	assert_int_equal(profile_value(r.p[0], 0, 0), 3);
	assert_int_equal(profile_value(r.p[0], 0, 1), 3000);
	read_back_done(&r);
	/* Not twice. */
	write_and_read(both, &o, &r);
	assert_int_equal(r.n, 1);
	assert_int_equal(profile_value(r.p[0], 0, 1), 3000);
	read_back_done(&r);
	write_and_read(odd, &o, &r);
	assert_int_equal(r.n, 1);
	assert_int_equal(r.p[0]->types.n, 1);
	assert_int_equal(profile_value(r.p[0], 0, 0), 3001);
	read_back_done(&r);
}

static void texts_are_utf8(void **state)
{
	AUTO(profile_freep) struct profile *p = cpu_profile(1000, false);
	const struct otlp_write_options o = { 0 };
	struct profile_label l = { .key = profile_add_string(p, STR("comm")),
				   .str = profile_add_string(p, STR("a\xff"
								    "b")) };
	static struct read_back r;

	profile_add_sample(p, 0, profile_add_labels(p, &l, 1), &(int64_t){ 1000 });
	write_and_read(p, &o, &r);
	assert_int_equal(r.n, 2);
	assert_string_equal(r.labels[1], "comm=a\xef\xbf\xbd"
					 "b service_name=unknown_service ");
	read_back_done(&r);
}

static struct str key_of_label(void *arg, struct str label, struct str value)
{
	return str_eq(label, STR("service")) ? STR("service.name") : label;
}

static void ids_differ_and_labels_have_keys(void **state)
{
	static const uint8_t id[16] = { 1, 2, 3, [15] = 9 };
	const struct otlp_write_options o = { .key = key_of_label, .id = id };
	AUTO(profile_freep) struct profile *p = cpu_profile(1000, false);
	struct profile_label l = { .key = profile_add_string(p, STR("service")),
				   .str = profile_add_string(p, STR("web")) };
	AUTO(buf_done) struct buf out = { 0 };
	static struct read_back r;
	struct err err;
	unsigned found = 0;

	profile_add_sample(p, 0, profile_add_labels(p, &l, 1), &(int64_t){ 1000 });
	write_and_read(p, &o, &r);
	assert_string_equal(r.labels[1], "service_name=web ");
	read_back_done(&r);
	assert_done(otlp_write(p, &o, &out, &err));
	for (size_t i = 0; i + 16 <= out.size; i++)
		found += memcmp(out.p + i, id, 12) == 0 && memcmp(out.p + i, id, 16) != 0;
	assert_int_equal(found, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_lost),
		cmocka_unit_test(cpu_time_is_a_count_of_samples),
		cmocka_unit_test(texts_are_utf8),
		cmocka_unit_test(ids_differ_and_labels_have_keys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
