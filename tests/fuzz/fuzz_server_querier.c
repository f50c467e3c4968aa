/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of querier.v1 up to their range: the first byte chooses the table of the message. Any bytes are a request or
 * are refused with a reason.
 */
#include "fuzz.h"

#include "server/querier/querier.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct rpc_method *const all[] = { &querier_v1_profile_types,
							&querier_v1_label_names,
							&querier_v1_label_values,
							&querier_v1_series,
							&querier_v1_select_merge_stacktraces,
							&querier_v1_select_merge_profile,
							&querier_v1_select_series,
							&querier_v1_analyze_query };
	struct arena arena;
	struct api a = { .arena = &arena };
	struct querier_request q = { 0 };
	struct profilestore_range r;
	struct err err = { 0 };
	int res;

	if (!size)
		return 0;
	arena_init(&arena);
	res = querier_read((struct bytes){ data + 1, size - 1 }, all[data[0] % ARRAY_SIZE(all)], &q, &err);
	if (res == 0)
		res = data[0] & 0x80 ? querier_type_range(&a, &q, 1, &r, &err)
				     : querier_list_range(&a, &q, &r, &err);
	if (res == 0)
		FUZZ_CHECK(r.from_ms >= 0 && r.from_ms <= r.to_ms && r.derived && r.sel && r.profile_id >= 0);
	else
		FUZZ_CHECK(err.kind == ERR_INVALID || err.kind == ERR_LIMIT);
	for (size_t i = 0; i < ARRAY_SIZE(a.selectors); i++)
		selector_free(a.selectors[i]);
	arena_done(&arena);
	return 0;
}
