/* SPDX-License-Identifier: Apache-2.0 */
#include "sample.h"

#include "stubs.h"

#include <errno.h>

struct server_fixture sample;
struct bytes sample_small, sample_large;

int sample_setup_with(void (*change)(struct server_options *o))
{
	struct build_id id = test_id("beef");
	struct err broken = { .kind = ERR_INVALID,
			      .text = "/srv/pool/secret/a.deb: member x: section table ends past the file" };

	fixture_init(&sample);
	stub_index = false;
	stub_failed[0] = '\0';
	atomic_store(&stub_is_up, true);
	sample_small = fixture_put(&sample, RESOLVE_DEBUGINFO, SAMPLE_ID, "", SAMPLE_SMALL,
				   "/usr/lib/debug/x.debug", "/srv/pool/x.deb");
	sample_large = fixture_put(&sample, RESOLVE_EXECUTABLE, SAMPLE_ID, "", SAMPLE_LARGE, "/usr/bin/x",
				   "/srv/pool/x.deb");
	resolve_mem_fail(sample.mem, RESOLVE_DEBUGINFO, &id, STR(""), &broken);
	id = test_id("dead");
	broken = (struct err){ .kind = ERR_IO, .os = EIO, .text = "x.deb: Input/output error" };
	resolve_mem_fail(sample.mem, RESOLVE_DEBUGINFO, &id, STR(""), &broken);
	id = test_id("fade");
	broken = (struct err){ .kind = ERR_IO, .os = EACCES, .text = "x.deb: Permission denied" };
	resolve_mem_fail(sample.mem, RESOLVE_DEBUGINFO, &id, STR(""), &broken);
	if (change)
		change(&sample.opts);
	fixture_start(&sample);
	return 0;
}

int sample_setup(void **state)
{
	return sample_setup_with(NULL);
}

int sample_teardown(void **state)
{
	fixture_done(&sample);
	free((void *)sample_small.p);
	free((void *)sample_large.p);
	return 0;
}

struct http_answer sample_get(const char *path, const char *headers)
{
	return http_fetch(sample.url, "GET", path, headers);
}

static void impatient(struct server_options *o)
{
	o->idle_timeout_s = 1;
}

int sample_setup_impatient(void **state)
{
	return sample_setup_with(impatient);
}
