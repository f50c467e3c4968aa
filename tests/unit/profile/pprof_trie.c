/* SPDX-License-Identifier: Apache-2.0 */
/* pprof of stacks that are kept elsewhere: read again, it is the profile of the same samples. */
#include "test.h"

#include "lent.h"

static int write_to_buf(void *arg, struct bytes b, struct err *err)
{
	buf_add(arg, b.p, b.size);
	return 0;
}

/* One sample type, and no labels. */
static struct profile *plain_make(const struct profile_maker *m)
{
	AUTO(profile_freep) struct profile *p = counts_make(m);
	struct profile *sum = profile_new(NULL);
	struct err err = { 0 };

	for (uint32_t i = 0; i < p->n_samples; i++) {
		p->values[i] = p->values[(size_t)i * p->types.n];
		p->sample_labels[i] = 0;
	}
	p->types.n = 1;
	p->default_type = 0;
	/* A stack has one sample. */
	assert_done(profile_merge(sum, p, 1, &err));
	return sum;
}

/* The content of a pprof file. */
static void canonical_of(const struct buf *pprof, struct buf *out)
{
	AUTO(profile_freep) struct profile *p = NULL;
	AUTO(profile_freep) struct profile *sum = profile_new(NULL);
	struct err err = { 0 };

	assert_done(profile_read_pprof(buf_bytes(pprof), NULL, &p, &err));
	/* Equal samples become one. */
	assert_done(profile_merge(sum, p, 1, &err));
	assert_done(profile_merge_end(sum, &err));
	profile_canonical(sum, out);
}

static void pprof_of_lent(const struct profile *p, const struct profile_trie *in, struct buf *out)
{
	const struct profile_writer to = { write_to_buf, out };
	struct profile_pprof *w = NULL;
	struct err err = { 0 };

	assert_done(profile_pprof_new(&to, false, NULL, &w, &err));
	assert_done(profile_pprof_add_trie(w, p, in, &err));
	assert_done(profile_pprof_end(w, p, NULL, &err));
	profile_pprof_free(w);
}

/* @want: a profile of the samples that @in has of @p. */
static void compare_pprof(const struct profile *p, const struct profile_trie *in,
			  const struct profile *want_p)
{
	AUTO(buf_done) struct buf want = { 0 };
	AUTO(buf_done) struct buf got = { 0 };
	AUTO(buf_done) struct buf want_text = { 0 };
	AUTO(buf_done) struct buf got_text = { 0 };
	struct err err = { 0 };

	assert_done(profile_write_pprof(want_p, false, &want, &err));
	pprof_of_lent(p, in, &got);
	canonical_of(&want, &want_text);
	canonical_of(&got, &got_text);
	assert_string_equal(buf_cstr(&got_text), buf_cstr(&want_text));
}

static struct profile_maker random_maker(unsigned i, uint64_t *seed)
{
	return (struct profile_maker){ i,
				       i % 5,
				       1 + (unsigned)(profile_maker_next(seed) % 60),
				       1 + (unsigned)(profile_maker_next(seed) % 30),
				       1 + (unsigned)(profile_maker_next(seed) % 12),
				       i % 11 == 0 };
}

static void samples_are_those_of_the_profile(void **state)
{
	uint64_t seed = 3;

	for (unsigned i = 0; i < 300; i++) {
		const struct profile_maker m = random_maker(i, &seed);
		AUTO(profile_freep) struct profile *p = plain_make(&m);
		struct lent l;
		struct profile_trie in = lend(&l, p);

		compare_pprof(p, &in, p);
		lent_done(&l);
	}
}

static void differences_are_those_of_profiles(void **state)
{
	uint64_t seed = 4;

	for (unsigned i = 0; i < 300; i++) {
		const struct profile_maker m = random_maker(i, &seed);
		AUTO(profile_freep) struct profile *p = plain_make(&m);
		AUTO(profile_freep) struct profile *base = plain_make(&m);
		AUTO(profile_freep) struct profile *want = NULL;
		struct err err = { 0 };
		struct lent l, other;
		struct profile_trie in;

		for (uint32_t k = 0; k < p->n_samples; k++) {
			base->values[k] = k % 3 ? base->values[k] * 7 % 101 : 0;
			p->values[k] = k % 4 || !base->values[k] ? p->values[k] : 0;
		}
		in = lend(&l, p);
		in.base = lend(&other, base).values;
		in.scale = 1;
		if (i % 2 && profile_total(base, 0))
			in.scale = (double)profile_total(p, 0) / (double)profile_total(base, 0);
		assert_done(profile_diff(p, base, i % 2, &want, &err));
		compare_pprof(p, &in, want);
		lent_done(&l);
		lent_done(&other);
	}
}

/* A value of a label may have few of many stacks. */
static void words_without_stacks_are_not_read(void **state)
{
	const struct profile_maker m = { 3, 3, 5000, 300, 12, false };
	AUTO(profile_freep) struct profile *p = plain_make(&m);
	struct profile_trie in;
	struct lent l;

	p->n_samples = 20;
	in = lend(&l, p);
	lend_few(&l, &in);
	compare_pprof(p, &in, p);
	lent_done(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(samples_are_those_of_the_profile),
		cmocka_unit_test(differences_are_those_of_profiles),
		cmocka_unit_test(words_without_stacks_are_not_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
