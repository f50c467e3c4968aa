/* SPDX-License-Identifier: Apache-2.0 */
/* Any profile that can be read is stored, or refused with a reason; merged from the store it has the same
 * sums. */
#include "fuzz.h"

#include "profilestore/profilestore.h"
#include "test.h"

static int64_t now_ms(void)
{
	return INT64_C(1) << 50;
}

static void check_total(struct profilestore *s, const struct profile *p)
{
	struct profilestore_range r = { NULL, 0, INT64_MAX, 0 };
	struct profilestore_entries *e = NULL;
	struct err err = { 0 };
	int64_t sum = 0, want = 0;

	FUZZ_CHECK(profilestore_profiles(s, &r, 1000000, &e, &err) == 0);
	for (size_t k = 0; k < e->n; k++) {
		struct profilestore_merged m;

		r.profile_id = e->v[k].id;
		FUZZ_CHECK(profilestore_merge(s, &r, NULL, NULL, &m, &err) == 0);
		FUZZ_CHECK(m.n_profiles == 1 && m.n_samples == e->v[k].n_samples);
		sum = (int64_t)((uint64_t)sum + (uint64_t)profile_total(m.profile, 0));
		profile_free(m.profile);
	}
	free(e);
	for (uint32_t t = 0; t < p->types.n; t++)
		for (uint32_t i = 0; i < p->n_samples; i++) {
			int64_t v = profile_value(p, i, t);

			/* Sums that stop at the ends depend on the order. */
			if (v > INT32_MAX || v < INT32_MIN)
				return;
			want += v;
		}
	FUZZ_CHECK(sum == want);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct profile_limits limits = { .max_size = 1 << 20, .max_memory = 16 << 20 };
	struct profilestore_options o = { .max_metadata = 8 << 20, .now_ms = now_ms };
	struct profilestore_label l = { STR("service"), STR("fuzz") };
	struct profilestore *s = NULL;
	struct profilestore_receipt r = { 0 };
	char dir[TEST_PATH_SIZE];
	struct profile *p = NULL;
	struct err err = { 0 };

	if (profile_read_pprof(bytes_of(data, size), &limits, &p, &err) < 0)
		return 0;
	o.dir = test_dir_make(dir);
	FUZZ_CHECK(profilestore_open(&o, &s, &err) == 0);
	if (profilestore_add_wait(s, p, &l, 1, &r, &err) == 0) {
		check_total(s, p);
		profilestore_close(s);
		s = NULL;
		FUZZ_CHECK(profilestore_open(&o, &s, &err) == 0);
		check_total(s, p);
	} else {
		FUZZ_CHECK(err.kind == ERR_INVALID || err.kind == ERR_LIMIT);
	}
	profilestore_close(s);
	test_dir_remove(dir);
	profile_free(p);
	return 0;
}
