/* SPDX-License-Identifier: Apache-2.0 */
#include "stored.h"

#define N 6

/* The merge of all, by the module profile. */
static char *merged_text(struct profile *const *list, size_t n, uint32_t type)
{
	AUTO(profile_freep) struct profile *to = profile_new(NULL);
	struct err err = { 0 };

	for (size_t i = 0; i < n; i++)
		assert_done(profile_merge(to, list[i], 1, &err));
	assert_done(profile_merge_end(to, &err));
	return stored_text(to, type);
}

static void assert_text(const struct profile *p, const char *want)
{
	AUTO(mem_freep) char *text = stored_text(p, 0);

	assert_string_equal(text, want);
}

static void added_profiles_merge_as_in_memory(void **state)
{
	for (int turn = 0; turn < 3; turn++) {
		struct stored t = { 0 };
		struct profile *list[N];
		AUTO(mem_freep) char *cpu = NULL;
		AUTO(mem_freep) char *samples = NULL;
		struct profilestore_merged m;

		stored_open(&t);
		for (size_t i = 0; i < N; i++)
			list[i] = stored_profile(i, NOW_MS - (int64_t)(i + 1) * MINUTE);
		for (size_t i = 0; i < N; i++)
			stored_add(&t, list[(turn == 1 ? N - 1 - i : i * 5 % N + (turn == 2)) % N], "web");
		samples = merged_text(list, N, 0);
		cpu = merged_text(list, N, 1);

		m = stored_merge(&t, CPU, 0, NOW_MS);
		assert_text(m.profile, cpu);
		assert_str(profile_str(m.profile, m.profile->types.p[0].type), "cpu");
		assert_int_equal(m.profile->time_ns, list[N - 1]->time_ns);
		profile_free(m.profile);

		stored_groom(&t);
		m = stored_merge(&t, "profile:samples:count:cpu:nanoseconds:delta", 0, NOW_MS);
		assert_text(m.profile, samples);
		profile_free(m.profile);

		stored_again(&t);
		m = stored_merge(&t, CPU "{service='web'}", 0, NOW_MS);
		assert_text(m.profile, cpu);
		profile_free(m.profile);
		m = stored_merge(&t, CPU "{service='other'}", 0, NOW_MS);
		assert_int_equal(m.profile->n_samples, 0);
		profile_free(m.profile);
		for (size_t i = 0; i < N; i++)
			profile_free(list[i]);
		stored_done(&t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(added_profiles_merge_as_in_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
