/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pprof's symbolz: a POST of "0x1+0x2+..." is answered by lines of "0x1<TAB>name". All addresses are of the
 * file with the build ID in the path (/buildid/ID/symbolz, /buildid/ID/pprof/symbol) or in ?buildid=ID. An
 * address without a name has no line: pprof expects that.
 */
#include "server/symbolize/symbolize.h"

static int pprof_parse(struct ask *a, struct err *err)
{
	struct str body = { (const char *)a->body.p, a->body.size }, id = STR("");
	size_t n = 1;

	for (size_t i = 0; i < body.size; i++)
		n += body.p[i] == '+';
	if (n > ASK_MAX_ADDRS)
		return err_set(err, ERR_LIMIT, "more than %u addresses: send several requests",
			       ASK_MAX_ADDRS);
	a->n_ids = 1;
	a->ids = ARENA_NEW(a->arena, struct build_id);
	if (a->req)
		a->ids[0] = a->path_id;
	if (a->req && !a->ids[0].size && request_arg(a->req, "buildid", &id) < 0)
		return err_set(err, ERR_INVALID, "a broken %%-escape");
	if (id.size && !build_id_read(&a->ids[0], id))
		return err_set(err, ERR_INVALID, "'buildid' is not a build ID");
	if (a->req && !a->ids[0].size)
		return err_set(err, ERR_INVALID, "a build ID is needed: /buildid/ID/symbolz or ?buildid=ID");
	a->queries = ARENA_NEW_N(a->arena, struct tables_query, n);
	a->demangling = FRAME_DEMANGLE_NONE; /* pprof demangles names itself, as its options say */
	for (struct str rest = body; rest.size;) {
		struct str one = str_trim(str_cut(&rest, '+'));

		if (!one.size)
			continue;
		if (!ask_number_text(one, true, &a->queries[a->n].addr))
			return err_set(err, ERR_INVALID, "addresses must have the form 0x1+0x2");
		a->n++;
	}
	return 0;
}

static void pprof_answer(void *arg, size_t i, const struct tables_answer *ans)
{
	struct ask *a = arg;
	size_t before, before_line = a->parts.size;

	ask_part_begin(a, i);
	/* There is one name for an address: of the function itself, not of functions inlined into it. */
	if (ans->frames && !ask_is_full(a)) {
		buf_printf(&a->parts, "0x%llx\t", (unsigned long long)a->queries[i].addr);
		before = a->parts.size;
		frame_name(&ans->frames->list[ans->frames->n - 1], a->demangling, &a->parts);
		buf_add_char(&a->parts, '\n');
		if (a->parts.size == before + 1)
			a->parts.size = before_line;
	}
	ask_part_end(a, i);
}

static const char *pprof_symbol_begin(struct ask *a)
{
	return "text/plain; charset=utf-8";
}

static void pprof_put(struct ask *a, size_t i)
{
	buf_add_str(&a->out, ask_part(a, i));
}

const struct ask_form ask_pprof = { pprof_parse, pprof_symbol_begin, pprof_answer, pprof_put,
				    pprof_symbol_begin };
