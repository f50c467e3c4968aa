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

static void on_answer(void *arg, size_t i, const struct tables_answer *ans)
{
	struct ask *a = arg;

	a->form->answer(a, i, ans);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct ask_form *const forms[] = { &ask_json, &ask_binary, &ask_v5, &ask_pprof };
	struct arena arena;
	struct ask a = { 0 };
	struct err err = { 0 };

	if (!size)
		return 0;
	arena_init(&arena);
	a.arena = &arena;
	a.form = forms[data[0] % ARRAY_SIZE(forms)];
	a.body = bytes_of(data + 1, size - 1);
	if (a.form->parse(&a, &err) == 0) {
		/* Without a wait, all tables are pending; their later outcome does not matter. */
		tables_request_new(nothing(), a.ids, MIN(a.n_ids, (size_t)8), a.request_flags,
				   (struct tables_wait){ 0 }, &a.request);
		a.at = NEW_N(struct ask_part, a.n + 1);
		memset(a.at, 0, (a.n + 1) * sizeof(*a.at));
		tables_find_all(a.request, a.queries, a.n, on_answer, &a);
		a.n_ids = MIN(a.n_ids, (size_t)8);
		if (a.form != &ask_v5 && a.form != &ask_json)
			a.form->finish(&a);
		tables_request_free(a.request);
	} else if (err.kind == ERR_NONE) {
		abort();
	}
	buf_done(&a.parts);
	buf_done(&a.out);
	free(a.at);
	arena_done(&arena);
	return 0;
}
