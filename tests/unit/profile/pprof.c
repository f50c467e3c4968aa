/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "codec/codec.h"
#include "profile/input.h"
#include "profile_maker.h"
#include "profile_same.h"

static struct profile *reread(const struct profile *p, bool gzip)
{
	AUTO(buf_done) struct buf b = { 0 };
	struct profile *q = NULL;
	struct err err = { 0 };

	assert_done(profile_write_pprof(p, gzip, &b, &err));
	assert_int_equal(codec_detect(buf_bytes(&b)) == CODEC_GZIP, gzip);
	assert_done(profile_read_pprof(buf_bytes(&b), NULL, &q, &err));
	return q;
}

static void a_written_profile_reads_the_same(void **state)
{
	char what[PROFILE_WHAT_SIZE];

	for (uint64_t seed = 0; seed < 40; seed++) {
		const struct profile_maker m = { seed, seed % 3, (unsigned)seed * 8, 200, 30, seed % 5 == 4 };
		AUTO(profile_freep) struct profile *p = profile_make(&m);
		AUTO(profile_freep) struct profile *q = reread(p, seed % 2);

		if (!profile_same(p, q, what))
			fail_msg("seed %llu: %s differs", (unsigned long long)seed, what);
		assert_int_equal(p->stacks.n, q->stacks.n);
		assert_int_equal(p->label_sets.n, q->label_sets.n);
	}
}

static void a_difference_is_found(void **state)
{
	const struct profile_maker m = { 1, 1, 50, 20, 5, false };
	AUTO(profile_freep) struct profile *p = profile_make(&m);
	AUTO(profile_freep) struct profile *q = profile_make(&m);
	char what[PROFILE_WHAT_SIZE];

	q->values[7]++;
	assert_false(profile_same(p, q, what));
	assert_string_equal(what, "value of sample 3");
}

/* ---- messages by hand ---- */

static void add_strings(struct buf *b, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		proto_bytes(b, 6, list[i], strlen(list[i]));
}

/* A sample type, a function, and a location with an ID of its own choice. */
static void begin(struct buf *b, uint64_t location, uint64_t function)
{
	static const char *const strings[] = { "", "cpu", "count", "main" };
	AUTO(buf_done) struct buf m = { 0 };
	AUTO(buf_done) struct buf line = { 0 };

	proto_number(&m, 1, 1);
	proto_number(&m, 2, 2);
	proto_bytes(b, 1, m.p, m.size);
	m.size = 0;
	proto_number(&m, 1, 77);
	proto_number(&m, 2, 3);
	proto_bytes(b, 5, m.p, m.size);
	m.size = 0;
	proto_number(&m, 1, location);
	proto_number(&line, 1, function);
	proto_bytes(&m, 4, line.p, line.size);
	proto_bytes(b, 4, m.p, m.size);
	add_strings(b, strings, ARRAY_SIZE(strings));
}

static int read_of(struct buf *b, struct profile **ret, struct err *err)
{
	return profile_read_pprof(buf_bytes(b), NULL, ret, err);
}

static void ids_need_not_be_indices(void **state)
{
	AUTO(profile_freep) struct profile *p = NULL;
	AUTO(buf_done) struct buf b = { 0 };
	AUTO(buf_done) struct buf m = { 0 };
	struct err err = { 0 };

	begin(&b, 0xfffffffffffffff0, 77);
	proto_number(&m, 1, 0xfffffffffffffff0); /* not packed */
	proto_number(&m, 1, 0xfffffffffffffff0);
	proto_number(&m, 2, (uint64_t)-5);
	proto_bytes(&b, 2, m.p, m.size);
	proto_bytes(&b, 99, "later", 5);
	assert_done(read_of(&b, &p, &err));
	assert_int_equal(p->n_samples, 1);
	assert_int_equal(profile_value(p, 0, 0), -5);
	assert_int_equal(p->stacks.n, 3);
	assert_str(profile_str(p, p->functions.p[p->lines.p[0].function].name), "main");
}

static void a_missing_entry_is_an_error(void **state)
{
	struct profile *p = NULL;
	struct err err = { 0 };
	AUTO(buf_done) struct buf m = { 0 };
	AUTO(buf_done) struct buf b = { 0 };

	begin(&b, 1, 78);
	assert_fails(read_of(&b, &p, &err), ERR_INVALID,
		     "location 0: line 0: function 78 is not in the table");
	b.size = 0;
	begin(&b, 0, 77);
	assert_fails(read_of(&b, &p, &err), ERR_INVALID, "location 0: has the ID 0");

	b.size = 0;
	begin(&b, 5, 77);
	proto_number(&m, 1, 6);
	proto_number(&m, 2, 1);
	proto_bytes(&b, 2, m.p, m.size);
	assert_fails(read_of(&b, &p, &err), ERR_INVALID, "sample 0: location 6 is not in the table");

	b.size = m.size = 0;
	begin(&b, 5, 77);
	proto_bytes(&m, 1, "\5", 1);
	proto_bytes(&b, 2, m.p, m.size);
	assert_fails(read_of(&b, &p, &err), ERR_INVALID, "sample 0: has 0 values; there are 1 sample types");

	b.size = 0;
	begin(&b, 5, 77);
	proto_number(&b, 14, 4);
	assert_fails(read_of(&b, &p, &err), ERR_INVALID, "string 4 is not in the table of 4");

	b.size = 0;
	begin(&b, 5, 77);
	begin(&b, 5, 77);
	assert_fails(read_of(&b, &p, &err), ERR_INVALID, "two functions have the ID 77");

	b.size = 0;
	begin(&b, 5, 77);
	proto_number(&b, 2, 1);
	assert_fails(read_of(&b, &p, &err), ERR_INVALID, "field 2 is of wire type 0");

	b.size = 0;
	proto_bytes(&b, 6, "x", 1);
	assert_fails(read_of(&b, &p, &err), ERR_INVALID, "string 0 is not the empty one");

	b.size = 0;
	proto_bytes(&b, 2, "", 0);
	assert_fails(read_of(&b, &p, &err), ERR_INVALID, "has samples, but no sample types");
	b.size = 0;
	assert_fails(read_of(&b, &p, &err), ERR_INVALID, "is empty");
	assert_null(p);
}

static void cut_profiles_are_refused_or_shorter(void **state)
{
	const struct profile_maker m = { 3, 1, 30, 20, 5, false };
	AUTO(profile_freep) struct profile *p = profile_make(&m);
	AUTO(buf_done) struct buf b = { 0 };
	struct err err = { 0 };

	assert_done(profile_write_pprof(p, false, &b, &err));
	for (size_t n = 0; n < b.size; n++) {
		struct profile *q = NULL;

		if (profile_read_pprof(bytes_of(b.p, n), NULL, &q, &err) == 0)
			profile_free(q);
		else
			assert_true(err.kind == ERR_INVALID);
	}
}

static void limits_are_enforced(void **state)
{
	const struct profile_maker m = { 3, 1, 5000, 2000, 20, false };
	const struct profile_limits little = { .max_memory = 100000 }, small = { .max_size = 1000 };
	AUTO(profile_freep) struct profile *p = profile_make(&m);
	AUTO(buf_done) struct buf b = { 0 };
	AUTO(buf_done) struct buf gz = { 0 };
	AUTO(buf_done) struct buf zeros = { 0 };
	struct profile *q = NULL;
	struct err err = { 0 };

	assert_done(profile_write_pprof(p, false, &b, &err));
	assert_done(profile_write_pprof(p, true, &gz, &err));
	assert_fails(profile_read_pprof(buf_bytes(&b), &little, &q, &err), ERR_LIMIT, "memory");
	assert_fails(profile_read_pprof(buf_bytes(&b), &small, &q, &err), ERR_LIMIT, "larger than");
	assert_fails(profile_read_pprof(buf_bytes(&gz), &small, &q, &err), ERR_LIMIT, "");
	gz.p[gz.size / 2] ^= 0x55;
	assert_true(profile_read_pprof(buf_bytes(&gz), NULL, &q, &err) < 0);
	assert_null(q);
}

static void a_second_layer_of_compression_is_refused(void **state)
{
	const struct profile_maker m = { 3, 1, 30, 20, 5, false };
	AUTO(profile_freep) struct profile *p = profile_make(&m);
	AUTO(buf_done) struct buf once = { 0 };
	AUTO(buf_done) struct buf twice = { 0 };
	AUTO(buf_done) struct buf mixed = { 0 };
	struct profile *q = NULL;
	struct err err = { 0 };

	assert_done(profile_write_pprof(p, true, &once, &err));
	assert_done(codec_pack_gzip(buf_bytes(&once), 6, &twice, &err));
	assert_done(codec_pack_zstd(buf_bytes(&once), 1, &mixed, &err));
	assert_fails(profile_read_pprof(buf_bytes(&twice), NULL, &q, &err), ERR_INVALID,
		     "is compressed twice");
	assert_fails(profile_read(buf_bytes(&twice), PROFILE_FORMAT_PPROF, NULL, &q, &err), ERR_INVALID,
		     "is compressed twice");
	assert_fails(profile_read(buf_bytes(&mixed), PROFILE_FORMAT_PPROF, NULL, &q, &err), ERR_INVALID,
		     "is compressed twice");
	assert_null(q);
}

/* As in pprof's tool. */
static void a_default_that_is_no_type_counts_as_none(void **state)
{
	AUTO(profile_freep) struct profile *p = profile_new(NULL);

	assert_true(profile_type_find(p, STR("")) == PROFILE_NONE);
	profile_add_type(p, STR("samples"), STR("count"));
	profile_add_type(p, STR("cpu"), STR("nanoseconds"));
	p->default_type = profile_add_string(p, STR("samples"));
	assert_int_equal(profile_type_find(p, STR("")), 0);
	p->default_type = profile_add_string(p, STR("wall"));
	assert_int_equal(profile_type_find(p, STR("")), 1);
	assert_true(profile_type_find(p, STR("wall")) == PROFILE_NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_written_profile_reads_the_same),
		cmocka_unit_test(a_difference_is_found),
		cmocka_unit_test(ids_need_not_be_indices),
		cmocka_unit_test(a_default_that_is_no_type_counts_as_none),
		cmocka_unit_test(a_missing_entry_is_an_error),
		cmocka_unit_test(cut_profiles_are_refused_or_shorter),
		cmocka_unit_test(limits_are_enforced),
		cmocka_unit_test(a_second_layer_of_compression_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
