/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters of requests about profiles: the first byte chooses the route, the rest is the query.
 */
#include "fuzz.h"

#include "server/profiles/profiles.h"

static const struct api_route *route_at(uint8_t which)
{
	const struct api_route *all[64];
	size_t n = 0;

	for (const struct http_route *r = server_routes; r->pattern; r++)
		if (r->handler == &profiles_get || r->handler == &profiles_post)
			all[n++] = r->arg;
	return all[which % n];
}

static int add_all(struct api *a, struct str query, struct err *err)
{
	while (query.p) {
		struct str value = str_cut(&query, '&'), name = str_cut(&value, '=');

		if (api_arg_add(a, name, value.p ? value : STR(""), err) < 0)
			return -1;
	}
	return api_args_check(a, err);
}

static void check_range(const struct profilestore_range *r)
{
	FUZZ_CHECK(r->from_ms >= 0 && r->from_ms <= r->to_ms && r->profile_id >= 0);
}

static int ask_all(struct api *a, struct err *err)
{
	struct profile_tree *t = NULL;
	struct profilestore_range r;
	struct profile_view v;
	int64_t ms = -1;
	uint64_t n = 0;
	bool flag;

	if (api_range(a, false, &r, err) < 0)
		return -1;
	check_range(&r);
	if (api_compares(a)) {
		if (api_range(a, true, &r, err) < 0)
			return -1;
		check_range(&r);
	}
	if (api_view(a, &v, err) < 0 || profile_tree_new(&v, NULL, &t, err) < 0)
		return -1;
	profile_tree_free(t);
	if (api_duration(a, "wait", 0, API_MAX_WAIT_MS, &ms, err) < 0 ||
	    api_number(a, "limit", 5, 1000, &n, err) < 0 || api_flag(a, "normalise", &flag, err) < 0)
		return -1;
	FUZZ_CHECK(ms >= 0 && ms <= API_MAX_WAIT_MS && n <= 1000);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err err = { 0 };
	struct arena arena;
	struct api a = { .arena = &arena, .now_ms = INT64_C(1795000000000) };

	if (!size)
		return 0;
	arena_init(&arena);
	budget_hold_init(&a.memory, NULL, BUDGET_QUERY);
	a.route = route_at(data[0]);
	if (add_all(&a, (struct str){ (const char *)data + 1, size - 1 }, &err) < 0 || ask_all(&a, &err) < 0)
		FUZZ_CHECK(err.kind == ERR_INVALID || err.kind == ERR_LIMIT);
	selector_free(a.selectors[0]);
	selector_free(a.selectors[1]);
	arena_done(&arena);
	return 0;
}
