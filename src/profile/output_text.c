/* SPDX-License-Identifier: Apache-2.0 */
/* A tree of calls as a table of functions for people; and values for people. */
#include "profile/output.h"
#include "profile/text.h"

#include <math.h>
#include <stdlib.h>

/* ---- values ---- */

struct scale {
	const char *unit; /* as profiles name the unit */
	const char *names[7];
	double steps[7]; /* factors from one unit to the next */
};

static const struct scale scales[] = {
	{ "nanoseconds", { "ns", "us", "ms", "s", "min", "h" }, { 1000, 1000, 1000, 60, 60 } },
	{ "microseconds", { "us", "ms", "s", "min", "h" }, { 1000, 1000, 60, 60 } },
	{ "milliseconds", { "ms", "s", "min", "h" }, { 1000, 60, 60 } },
	{ "seconds", { "s", "min", "h" }, { 60, 60 } },
	{ "bytes", { "B", "kB", "MB", "GB", "TB", "PB" }, { 1024, 1024, 1024, 1024, 1024 } },
	{ "kilobytes", { "kB", "MB", "GB", "TB", "PB" }, { 1024, 1024, 1024, 1024 } },
};

void profile_value_text(int64_t v, struct str unit, struct buf *out)
{
	double d = (double)v;

	for (size_t i = 0; i < ARRAY_SIZE(scales); i++) {
		const struct scale *s = &scales[i];
		unsigned k = 0;

		if (!str_eq(unit, str_of(s->unit)))
			continue;
		while (s->names[k + 1] && fabs(d) >= s->steps[k])
			d /= s->steps[k++];
		buf_printf(out, k ? "%.2f%s" : "%.0f%s", d, s->names[k]);
		return;
	}
	buf_printf(out, "%lld", (long long)v);
}

/* ---- top ---- */

static void add_share(int64_t v, int64_t total, struct buf *out)
{
	AUTO(buf_done) struct buf b = { 0 };

	buf_printf(&b, "%.2f%%", total ? 100.0 * (double)v / (double)total : 0);
	buf_printf(out, " %7s", buf_cstr(&b));
}

static void add_value(int64_t v, struct str unit, struct buf *out)
{
	AUTO(buf_done) struct buf b = { 0 };

	profile_value_text(v, unit, &b);
	buf_printf(out, " %10s", buf_cstr(&b));
}

void profile_write_top(const struct profile_tree *t, const struct profile_output *o, struct buf *out)
{
	struct str unit = profile_tree_unit(t), type = profile_tree_type(t);
	bool compares = profile_tree_compares(t);
	struct profile_top *top;
	struct profile_node root;
	uint32_t n;

	top = profile_tree_top(t, o->by_cum, &n);
	profile_tree_node(t, 0, &root);
	buf_add_str(out, STR("# "));
	text_line(type, 0, out);
	buf_add_str(out, STR(", "));
	if (str_eq(unit, STR("count")) || !unit.size)
		buf_printf(out, "%lld", (long long)root.total[0]);
	else
		profile_value_text(root.total[0], unit, out);
	if (compares) {
		buf_add_str(out, STR(" against "));
		profile_value_text(root.total[1], unit, out);
	}
	buf_add_str(out, compares ? STR("\n       flat   flat%        cum    cum%       base  function\n")
				  : STR("\n       flat   flat%        cum    cum%  function\n"));
	for (uint32_t i = 0; i < n && (!o->rows || i < o->rows); i++) {
		struct profile_frame f;

		profile_tree_frame(t, top[i].frame, &f);
		add_value(top[i].flat[0], unit, out);
		add_share(top[i].flat[0], root.total[0], out);
		add_value(top[i].cum[0], unit, out);
		add_share(top[i].cum[0], root.total[0], out);
		if (compares)
			add_value(top[i].flat[1], unit, out);
		buf_add_str(out, STR("  "));
		text_line(f.name, 0, out);
		buf_add_char(out, '\n');
	}
	free(top);
}
