/* SPDX-License-Identifier: Apache-2.0 */
#include "stubs.h"

atomic_bool stub_is_up = true, stub_is_idle = true;
bool stub_index;
unsigned stub_counted;
char stub_failed[256], stub_reason[256];
unsigned stub_n_failed;

void scan_progress(struct scan *s, struct scan_progress *ret)
{
	*ret = (struct scan_progress){ .ready = atomic_load(&stub_is_up) };
}

bool scan_wait_idle(struct scan *s, int64_t timeout_ms)
{
	return atomic_load(&stub_is_idle);
}

int index_open(const char *path, const struct index_options *opts, struct index **ret, struct err *err)
{
	if (!stub_index)
		return err_set(err, ERR_IO, "no index here");
	*ret = (struct index *)&stub_index;
	return 0;
}

void index_close(struct index *ix)
{
}

int index_stats(struct index *ix, struct index_stats *ret, struct err *err)
{
	stub_counted++;
	*ret = (struct index_stats){ .n_build_ids = 42 };
	return 0;
}

int index_complete(struct index *ix, struct bytes prefix, struct build_id *ret, struct err *err)
{
	return INDEX_MISSING;
}

int index_list(struct index *ix, const struct index_range *range, struct arena *a, struct index_file **ret,
	       size_t *ret_n, struct err *err)
{
	size_t all = stub_n_failed ? stub_n_failed : stub_failed[0] != '\0';
	struct index_file *list = ARENA_NEW_N(a, struct index_file, range->max + 1);
	size_t n = 0;

	if (range->kind == INDEX_PLAIN)
		all = 0;
	for (size_t id = (size_t)range->after + 1; n < range->max && id <= all; id++) {
		list[n] = (struct index_file){
			.id = (int64_t)id,
			.kind = INDEX_PACKAGE,
			.path = stub_n_failed ? str_of(arena_printf(a, "%s.%zu", stub_failed, id))
					      : str_of(stub_failed),
			.reason = str_of(stub_reason),
			.reason_kind = ERR_INVALID,
			.tries = 3,
			.next_try_s = clock_wall_s() + 500,
		};
		n++;
	}
	*ret = list;
	*ret_n = n;
	return 0;
}
