/* SPDX-License-Identifier: Apache-2.0 */
#include "below.h"

atomic_bool below_is_up = true;
bool below_index;
char below_failed[256], below_reason[256];

void scan_progress(struct scan *s, struct scan_progress *ret)
{
	*ret = (struct scan_progress){ .ready = atomic_load(&below_is_up) };
}

int index_open(const char *path, const struct index_options *opts, struct index **ret, struct err *err)
{
	if (!below_index)
		return err_set(err, ERR_IO, "no index here");
	*ret = (struct index *)&below_index;
	return 0;
}

void index_close(struct index *ix)
{
}

int index_stats(struct index *ix, struct index_stats *ret, struct err *err)
{
	*ret = (struct index_stats){ .n_build_ids = 42 };
	return 0;
}

int index_list(struct index *ix, enum index_kind kind, enum index_state state, int64_t after, size_t max,
	       struct arena *a, struct index_file **ret, size_t *ret_n, struct err *err)
{
	*ret_n = kind == INDEX_PACKAGE && below_failed[0];
	*ret = ARENA_NEW(a, struct index_file);
	(*ret)->path = str_of(below_failed);
	(*ret)->reason = str_of(below_reason);
	return 0;
}
