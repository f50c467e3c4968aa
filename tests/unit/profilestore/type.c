/* SPDX-License-Identifier: Apache-2.0 */
/* Names of profile types, as Pyroscope and Parca have them, and queries by Pyroscope's IDs. */
#include "profilestore/type.h"
#include "stored.h"

static void the_sample_types_name_a_profile(void **state)
{
	static const struct {
		struct str types[4];
		size_t n;
		struct str period, name;
	} cases[] = {
		{ { STR("samples"), STR("cpu") }, 2, STR("cpu"), STR("process_cpu") },
		{ { STR("samples") }, 1, STR("cpu"), STR("process_cpu") },
		{ { STR("sample"), STR("wall"), STR("cpu") }, 3, STR("wall"), STR("wall") },
		{ { STR("alloc_objects"), STR("alloc_space"), STR("inuse_objects"), STR("inuse_space") },
		  4,
		  STR("space"),
		  STR("memory") },
		{ { STR("objects"), STR("space") }, 2, STR("space"), STR("memory") },
		{ { STR("mutex_count"), STR("mutex_duration") }, 2, STR("contentions"), STR("mutex") },
		{ { STR("block_count"), STR("block_duration") }, 2, STR("contentions"), STR("block") },
		{ { STR("goroutine") }, 1, STR("goroutine"), STR("goroutines") },
		{ { STR("contentions"), STR("delay") }, 2, STR("contentions"), STR("delay") },
		{ { STR("") }, 1, STR(""), STR("profile") },
		{ { STR("") }, 0, STR(""), STR("profile") },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_str(type_name_of(cases[i].types, cases[i].n, cases[i].period), cases[i].name.p);
}

static void a_stored_type_has_an_id_of_five_parts(void **state)
{
	static const char *const cases[][2] = {
		{ "process_cpu:cpu:nanoseconds:cpu:nanoseconds",
		  "process_cpu:cpu:nanoseconds:cpu:nanoseconds" },
		{ "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta",
		  "process_cpu:cpu:nanoseconds:cpu:nanoseconds" },
		{ "profile:cpu:nanoseconds:cpu:nanoseconds:delta",
		  "process_cpu:cpu:nanoseconds:cpu:nanoseconds" },
		{ "profile:samples:count:cpu:nanoseconds:delta",
		  "process_cpu:samples:count:cpu:nanoseconds" },
		{ "profile:inuse_space:bytes:space:bytes", "memory:inuse_space:bytes:space:bytes" },
		{ "parca_agent:samples:count:cpu:nanoseconds:delta",
		  "parca_agent:samples:count:cpu:nanoseconds" },
		{ "profile:mutex_count:lock_samples:contentions:count:delta",
		  "mutex:mutex_count:lock_samples:contentions:count" },
		{ "profile:::::delta", "profile::::" },
		{ "a:b:c:d:delta", "a:b:c:d:delta" },
		{ "profile", "profile" },
		{ "", "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO(buf_done) struct buf b = { 0 };

		type_id_of(str_of(cases[i][0]), &b);
		assert_string_equal(buf_cstr(&b), cases[i][1]);
		assert_true(type_has_id(str_of(cases[i][0]), str_of(cases[i][1])));
		buf_add_char(&b, 'x');
		assert_false(type_has_id(str_of(cases[i][0]), buf_str(&b)));
	}
}

static void add_as(struct stored *t, const struct profilestore_upload *how)
{
	AUTO(profile_freep) struct profile *p = stored_profile(1, NOW_MS);
	struct profilestore_upload u = *how;

	u.p = p;
	(void)stored_upload(t, &u);
}

static uint64_t merged_profiles(struct stored *t, const char *type, bool by_id)
{
	struct profilestore_range r = stored_range(by_id ? "" : type, 0, NOW_MS + 1);
	struct profilestore_merged m;
	struct err err = { 0 };

	if (by_id)
		selector_set_type_id((struct selector *)r.sel, str_of(type));
	assert_done(profilestore_merge(t->s, &r, NULL, NULL, &m, &err));
	profile_free(m.profile);
	stored_range_done(&r);
	return m.n_profiles;
}

/* What is stored of senders of all kinds, and of older versions. */
static void an_id_selects_profiles_under_all_their_names(void **state)
{
	static const struct profilestore_label named[] = { { STR("__name__"), STR("process_cpu") } },
					       other[] = { { STR("service"), STR("other") } };
	struct stored t = { 0 };

	stored_open(&t);
	add_as(&t, &(struct profilestore_upload){ 0 });
	add_as(&t, &(struct profilestore_upload){ .labels = named, .n_labels = 1 });
	add_as(&t, &(struct profilestore_upload){ .labels = named, .n_labels = 1, .no_delta = true });
	add_as(&t, &(struct profilestore_upload){
			   .labels = other, .n_labels = 1, .name = STR("process_cpu"), .no_delta = true });
	add_as(&t, &(struct profilestore_upload){ .name = STR("wall"), .no_delta = true });
	assert_true(merged_profiles(&t, CPU, false));
	assert_int_equal(merged_profiles(&t, "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta", false),
			 merged_profiles(&t, CPU, false));
	assert_int_equal(merged_profiles(&t, "process_cpu:cpu:nanoseconds:cpu:nanoseconds", false),
			 2 * merged_profiles(&t, CPU, false));
	assert_int_equal(merged_profiles(&t, "process_cpu:cpu:nanoseconds:cpu:nanoseconds", true),
			 4 * merged_profiles(&t, CPU, false));
	assert_int_equal(merged_profiles(&t, "wall:cpu:nanoseconds:cpu:nanoseconds", true),
			 merged_profiles(&t, CPU, false));
	assert_int_equal(merged_profiles(&t, "none:cpu:nanoseconds:cpu:nanoseconds", true), 0);
	stored_done(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_sample_types_name_a_profile),
		cmocka_unit_test(a_stored_type_has_an_id_of_five_parts),
		cmocka_unit_test(an_id_selects_profiles_under_all_their_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
