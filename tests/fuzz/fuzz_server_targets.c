/* SPDX-License-Identifier: Apache-2.0 */
/* Files of targets: refused with a reason, or each target has a URL of its scheme and each profile a path. */
#include "fuzz.h"
#include "server/scrape/internal.h"

static void first(void *arg, struct endpoint *e)
{
}

static void check_target(const struct scrape_target *t)
{
	FUZZ_CHECK(t->n_labels <= PROFILESTORE_MAX_LABELS);
	FUZZ_CHECK(!strncmp(t->base, "http://", 7) || !strncmp(t->base, "https://", 8) ||
		   !strncmp(t->base, "http+unix://%2F", 15));
	FUZZ_CHECK(t->group->n_profiles && t->group->n_profiles <= SCRAPE_MAX_PROFILES);
	for (const char *c = t->base; *c; c++)
		FUZZ_CHECK(*c > ' ' && *c < 0x7f && *c != '#');
	for (size_t i = 0; i < t->group->n_profiles; i++) {
		struct buf b = { 0 };

		scrape_url(t, &t->group->profiles[i], false, &b);
		for (size_t k = 0; k < b.size; k++)
			FUZZ_CHECK(b.p[k] > ' ' && b.p[k] < 0x7f && b.p[k] != '#');
		buf_done(&b);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct endpoints_events events = { .first = first, .gone = first };
	struct scrape_list *l = NULL;
	struct endpoints e = { 0 };
	struct err err = { 0 };

	if (scrape_list_parse(bytes_of(data, size), STR("/d"), &l, &err) < 0) {
		FUZZ_CHECK(err.kind == ERR_INVALID || err.kind == ERR_LIMIT);
		return 0;
	}
	for (size_t i = 0; i < l->n; i++)
		check_target(&l->targets[i]);
	endpoints_replace(&e, &l, 1, &events);
	endpoints_replace(&e, &l, 1, &events);
	endpoints_done(&e);
	scrape_list_unref(l);
	return 0;
}
