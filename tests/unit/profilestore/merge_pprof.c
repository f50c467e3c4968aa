/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks and locations that a merge lends to a writer of pprof: the file is that of copies.
 */
#include "stored.h"

struct written {
	struct buf out;
	struct profile_pprof *w;
	unsigned n_begun, n_parts;
};

static int write_out(void *arg, struct bytes b, struct err *err)
{
	struct written *x = arg;

	(void)err;
	buf_add(&x->out, b.p, b.size);
	return 0;
}

static void written_begin(void *arg)
{
	struct written *x = arg;
	const struct profile_writer to = { write_out, x };
	struct err err = { 0 };

	x->n_begun++;
	x->out.size = 0;
	profile_pprof_free(x->w);
	assert_done(profile_pprof_new(&to, x->n_begun % 2, NULL, &x->w, &err));
}

static int written_stacks(void *arg, const struct profilestore_merged *m, struct profile_trie *in,
			  struct err *err)
{
	struct written *x = arg;

	x->n_parts++;
	return profile_pprof_add_trie(x->w, m->profile, in, err);
}

static int written_locations(void *arg, const struct profilestore_merged *m,
			     const struct profile_lent_locations *l, struct err *err)
{
	struct written *x = arg;

	return profile_pprof_end(x->w, m->profile, l, err);
}

/* As text, with equal entries as one. */
static char *pprof_text(const struct profile *p)
{
	AUTO(profile_freep) struct profile *to = profile_new(NULL);
	struct buf b = { 0 };
	struct err err = { 0 };

	assert_done(profile_merge(to, p, 1, &err));
	assert_done(profile_merge_end(to, &err));
	profile_canonical(to, &b);
	return (char *)(uintptr_t)buf_cstr(&b);
}

static unsigned compare_pprof(struct stored *t, const char *selector, const char *label, int64_t from_ms)
{
	struct profilestore_range r = stored_range(selector, from_ms, NOW_MS);
	const struct profilestore_shape copied = { .label = str_of(label) };
	struct written x = { 0 };
	const struct profilestore_shape lent = { .label = str_of(label),
						 .stacks = written_stacks,
						 .locations = written_locations,
						 .begin = written_begin,
						 .arg = &x,
						 .lend_from = UINT32_MAX };
	struct profilestore_merged want = { 0 }, got = { 0 };
	AUTO(profile_freep) struct profile *read = NULL;
	AUTO(mem_freep) char *want_text = NULL;
	AUTO(mem_freep) char *got_text = NULL;
	struct err err = { 0 };

	assert_done(profilestore_merge(t->s, &r, &copied, NULL, &want, &err));
	assert_done(profilestore_merge(t->s, &r, &lent, NULL, &got, &err));
	assert_int_equal(got.profile->n_samples, 0);
	assert_int_equal(got.profile->stacks.n, 1);
	assert_int_equal(got.n_samples, want.n_samples);
	assert_int_equal(got.n_pending, want.n_pending);
	assert_int_equal(got.n_waiting, want.n_waiting);
	assert_done(profile_read_pprof(buf_bytes(&x.out), NULL, &read, &err));
	want_text = pprof_text(want.profile);
	got_text = pprof_text(read);
	assert_string_equal(got_text, want_text);
	profile_free(want.profile);
	profile_free(got.profile);
	profile_pprof_free(x.w);
	buf_done(&x.out);
	stored_range_done(&r);
	return x.n_parts;
}

/* The difference of both sides. */
static void compare_pprof_of_sides(struct stored *t, const char *selector, const char *base_selector,
				   const char *label)
{
	struct profilestore_range r = stored_range(selector, 0, NOW_MS),
				  base = stored_range(base_selector, 0, NOW_MS);
	const struct profilestore_shape copied = { .label = str_of(label) };
	struct written x = { 0 };
	const struct profilestore_shape lent = { .label = str_of(label),
						 .stacks = written_stacks,
						 .locations = written_locations,
						 .begin = written_begin,
						 .base = &base,
						 .arg = &x };
	struct profilestore_merged one[2] = { { 0 } }, both[2] = { { 0 } };
	AUTO(profile_freep) struct profile *read = NULL;
	AUTO(profile_freep) struct profile *want = NULL;
	AUTO(mem_freep) char *want_text = NULL;
	AUTO(mem_freep) char *got_text = NULL;
	struct err err = { 0 };

	assert_done(profilestore_merge(t->s, &r, &copied, NULL, &one[0], &err));
	assert_done(profilestore_merge(t->s, &base, &copied, NULL, &one[1], &err));
	assert_done(profilestore_merge(t->s, &r, &lent, NULL, both, &err));
	assert_done(profile_read_pprof(buf_bytes(&x.out), NULL, &read, &err));
	assert_done(profile_diff(one[0].profile, one[1].profile, false, &want, &err));
	want_text = pprof_text(want);
	got_text = pprof_text(read);
	assert_string_equal(got_text, want_text);
	for (unsigned i = 0; i < 2; i++) {
		profile_free(one[i].profile);
		profile_free(both[i].profile);
	}
	profile_pprof_free(x.w);
	buf_done(&x.out);
	stored_range_done(&r);
	stored_range_done(&base);
}

static void pprof_of_lent_stacks_is_that_of_copies(void **state)
{
	for (uint64_t turn = 0; turn < 8; turn++) {
		struct stored t = { 0 };

		stored_open(&t);
		for (uint64_t i = 0; i < 2 + turn; i++) {
			struct profile *p = stored_profile(i + 10 * turn, NOW_MS - (int64_t)(i + 1) * MINUTE);
			static const char *const services[] = { "web", "shop", "mail" };

			stored_add(&t, p, services[i % 3]);
			profile_free(p);
		}
		if (turn % 2)
			stored_groom(&t);
		assert_int_equal(compare_pprof(&t, CPU, "", 0), 1);
		assert_true(compare_pprof(&t, CPU, "service", 0) > 1);
		compare_pprof(&t, CPU "{service='web'}", "key_0", 0);
		compare_pprof(&t, CPU, "", NOW_MS - 2 * MINUTE);
		compare_pprof_of_sides(&t, CPU, CPU "{service='web'}", "");
		compare_pprof_of_sides(&t, CPU "{service='shop'}", CPU "{service='web'}", "");
		compare_pprof_of_sides(&t, CPU, CPU "{service='web'}", "service");
		compare_pprof_of_sides(&t, CPU "{service='web'}", CPU, "service");
		/* Nothing at all: still a file. */
		assert_int_equal(compare_pprof(&t, CPU "{service='other'}", "", 0), 0);
		stored_done(&t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pprof_of_lent_stacks_is_that_of_copies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
