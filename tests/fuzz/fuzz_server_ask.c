/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies of requests for frames: the first byte chooses the form, the rest is the body. A valid request
 * goes to tables without any files, and its reply is written.
 */
#include "fuzz.h"

#include <stdlib.h>
#include "resolve_mem.h"
#include "server/symbolize/symbolize.h"

static struct tables *nothing(void)
{
	static struct tables *s;
	static const struct tables_options none = { .n_threads = 1 };

	if (!s) {
		struct tables_options o = none;

		o.resolver = resolve_mem_new();
		s = tables_new(&o);
	}
	return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct ask_form *const forms[] = { &ask_json, &ask_binary, &ask_v5, &ask_pprof };
	struct arena arena;
	struct ask a = { 0 };
	struct err err = { 0 };
	const char *type;

	if (!size)
		return 0;
	arena_init(&arena);
	a.arena = &arena;
	budget_hold_init(&a.hold, NULL, BUDGET_REPLY);
	a.form = forms[data[0] % ARRAY_SIZE(forms)];
	a.body = bytes_of(data + 1, size - 1);
	if (a.form->parse(&a, &err) == 0) {
		/* Without a wait, all tables are pending; their later outcome does not matter. */
		tables_request_new(nothing(), a.ids, MIN(a.n_ids, (size_t)8), a.request_flags,
				   (struct tables_wait){ 0 }, &a.request);
		a.n_ids = MIN(a.n_ids, (size_t)8);
		/* The others need the server's options. */
		while (!a.ended && a.form != &ask_v5 && a.form != &ask_json)
			FUZZ_CHECK(ask_write_chunk(&a, &type, &err) == 0);
		tables_request_free(a.request);
	} else if (err.kind == ERR_NONE) {
		abort();
	}
	buf_done(&a.parts);
	buf_done(&a.out);
	arena_done(&arena);
	return 0;
}
