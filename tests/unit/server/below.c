/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In place of the scan and the index, which these tests do without.
 */
#include "scan/scan.h"

void scan_progress(struct scan *s, struct scan_progress *ret)
{
	*ret = (struct scan_progress){ .ready = true };
}

int index_open(const char *path, const struct index_options *opts, struct index **ret, struct err *err)
{
	return err_set(err, ERR_IO, "no index here");
}

void index_close(struct index *ix)
{
}

int index_stats(struct index *ix, struct index_stats *ret, struct err *err)
{
	return err_set(err, ERR_IO, "no index here");
}

int index_list(struct index *ix, enum index_kind kind, enum index_state state, int64_t after, size_t max,
	       struct arena *a, struct index_file **ret, size_t *ret_n, struct err *err)
{
	return err_set(err, ERR_IO, "no index here");
}
