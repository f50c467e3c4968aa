/* SPDX-License-Identifier: Apache-2.0 */
#include "shelf.h"

#include "below.h"

struct fixture shelf;
struct bytes shelf_small, shelf_large;

int shelf_setup_with(void (*change)(struct server_options *o))
{
	struct build_id id = test_id("beef");
	struct err broken = { .kind = ERR_INVALID,
			      .text = "/srv/pool/secret/a.deb: member x: section table ends past the file" };

	fixture_init(&shelf);
	below_index = false;
	below_failed[0] = '\0';
	atomic_store(&below_is_up, true);
	shelf_small = fixture_put(&shelf, RESOLVE_DEBUGINFO, SHELF_ID, "", SHELF_SMALL,
				  "/usr/lib/debug/x.debug", "/srv/pool/x.deb");
	shelf_large = fixture_put(&shelf, RESOLVE_EXECUTABLE, SHELF_ID, "", SHELF_LARGE, "/usr/bin/x",
				  "/srv/pool/x.deb");
	resolve_mem_fail(shelf.mem, RESOLVE_DEBUGINFO, &id, STR(""), &broken);
	if (change)
		change(&shelf.opts);
	fixture_start(&shelf);
	return 0;
}

int shelf_setup(void **state)
{
	return shelf_setup_with(NULL);
}

int shelf_teardown(void **state)
{
	fixture_done(&shelf);
	free((void *)shelf_small.p);
	free((void *)shelf_large.p);
	return 0;
}

struct http_answer shelf_get(const char *path, const char *headers)
{
	return http_fetch(shelf.url, "GET", path, headers);
}

static void impatient(struct server_options *o)
{
	o->idle_timeout_s = 1;
}

int shelf_setup_impatient(void **state)
{
	return shelf_setup_with(impatient);
}
