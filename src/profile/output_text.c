/* SPDX-License-Identifier: Apache-2.0 */
/* A tree of calls as text: folded stacks, speedscope's JSON, a table of functions; and values for people. */
#include "profile/output.h"
#include "profile/text.h"

#include <math.h>
#include <stdlib.h>
#include "base/json.h"
#include "base/vec.h"

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

/* ---- folded ---- */

struct folding {
	const struct profile_tree *t;
	struct buf *out, path;
	uint32_t *sizes; /* of the path at each depth */
	unsigned room;
};

static int folded_enter(void *arg, uint32_t node, unsigned depth)
{
	struct folding *f = arg;
	struct profile_node n;
	struct profile_frame frame;

	VEC_RESERVE(f->sizes, depth, f->room, 1);
	f->sizes[depth] = (uint32_t)f->path.size;
	if (buf_is_over(f->out))
		return 1;
	profile_tree_node(f->t, node, &n);
	if (node) {
		profile_tree_frame(f->t, n.frame, &frame);
		if (f->path.size)
			buf_add_char(&f->path, ';');
		text_line(frame.name, ';', &f->path);
	}
	/* In a comparison the base's value comes first, as difffolded.pl expects. */
	if (n.self[0] || n.self[1]) {
		if (f->path.size)
			buf_add_str(f->out, buf_str(&f->path));
		else
			buf_add_str(f->out, STR("[no stack]"));
		if (profile_tree_compares(f->t))
			buf_printf(f->out, " %lld", (long long)n.self[1]);
		buf_printf(f->out, " %lld\n", (long long)n.self[0]);
	}
	return 0;
}

static void folded_leave(void *arg, uint32_t node, unsigned depth)
{
	struct folding *f = arg;

	f->path.size = f->sizes[depth];
}

void profile_write_folded(const struct profile_tree *t, const struct profile_output *o, struct buf *out)
{
	struct folding f = { .t = t, .out = out };
	const struct profile_walk w = { folded_enter, folded_leave, &f };

	profile_tree_walk(t, &w);
	buf_done(&f.path);
	free(f.sizes);
}

/* ---- speedscope ---- */

struct scoping {
	const struct profile_tree *t;
	struct buf path; /* frames from the root, 32 bits each */
	struct buf row;
	struct json_writer *json;
	size_t n_rows;
};

static int scope_sample(void *arg, uint32_t node, unsigned depth)
{
	struct scoping *s = arg;
	struct json_writer row = { .out = &s->row };
	struct profile_node n;

	profile_tree_node(s->t, node, &n);
	if (node)
		buf_add_u32(&s->path, n.frame);
	if (buf_is_over(s->json->out))
		return 1;
	if (n.self[0] <= 0)
		return 0;
	s->row.size = 0;
	if (s->n_rows++)
		buf_add_char(&s->row, '\n');
	json_open_array(&row, NULL);
	for (size_t i = 0; i < s->path.size; i += 4) {
		uint32_t frame;

		memcpy(&frame, s->path.p + i, 4);
		json_put_uint(&row, NULL, frame);
	}
	json_close(&row);
	json_put_raw(s->json, NULL, buf_str(&s->row));
	return 0;
}

static int scope_weight(void *arg, uint32_t node, unsigned depth)
{
	struct scoping *s = arg;
	struct profile_node n;

	profile_tree_node(s->t, node, &n);
	if (buf_is_over(s->json->out))
		return 1;
	if (n.self[0] > 0)
		json_put_int(s->json, NULL, n.self[0]);
	return 0;
}

static void scope_leave(void *arg, uint32_t node, unsigned depth)
{
	struct scoping *s = arg;

	if (node)
		s->path.size -= 4;
}

static const char *scope_unit(struct str unit)
{
	static const char *const known[] = { "nanoseconds", "microseconds", "milliseconds", "seconds",
					     "bytes" };

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (str_eq(unit, str_of(known[i])))
			return known[i];
	return "none";
}

static void add_scope_frames(struct scoping *s, struct json_writer *w)
{
	for (uint32_t i = 0; i < profile_tree_n_frames(s->t) && !buf_is_over(w->out); i++) {
		struct json_writer row = { .out = &s->row, .for_html = true };
		struct profile_frame f;

		profile_tree_frame(s->t, i, &f);
		s->row.size = 0;
		if (i)
			buf_add_char(&s->row, '\n');
		json_open_object(&row, NULL);
		json_put_str(&row, "name", f.name);
		if (f.file.size)
			json_put_str(&row, "file", f.file);
		if (f.line > 0)
			json_put_int(&row, "line", f.line);
		json_close(&row);
		json_put_raw(w, NULL, buf_str(&s->row));
	}
}

/* Two walks: the text of one of the lists beside the answer would take as much memory again. */
static void add_scope_samples(struct scoping *s, struct json_writer *w)
{
	const struct profile_walk samples = { scope_sample, scope_leave, s },
				  weights = { scope_weight, NULL, s };

	s->json = w;
	json_open_array(w, "samples");
	profile_tree_walk(s->t, &samples);
	json_close(w);
	json_open_array(w, "weights");
	profile_tree_walk(s->t, &weights);
	json_close(w);
}

void profile_write_speedscope(const struct profile_tree *t, const struct profile_output *o, struct buf *out)
{
	struct json_writer w = { .out = out, .for_html = true };
	struct scoping s = { .t = t };
	struct profile_node root;

	profile_tree_node(t, 0, &root);
	json_open_object(&w, NULL);
	json_put_text(&w, "$schema", "https://www.speedscope.app/file-format-schema.json");
	json_put_text(&w, "exporter", "lode " LODE_VERSION);
	json_put_str(&w, "name", o->title ? str_of(o->title) : profile_tree_type(t));
	json_open_object(&w, "shared");
	json_open_array(&w, "frames");
	add_scope_frames(&s, &w);
	json_close(&w);
	json_close(&w);
	json_open_array(&w, "profiles");
	json_open_object(&w, NULL);
	json_put_text(&w, "type", "sampled");
	json_put_str(&w, "name", profile_tree_type(t));
	json_put_text(&w, "unit", scope_unit(profile_tree_unit(t)));
	json_put_int(&w, "startValue", 0);
	json_put_int(&w, "endValue", root.total[0]);
	add_scope_samples(&s, &w);
	json_close(&w);
	json_close(&w);
	json_close(&w);
	buf_add_char(out, '\n');
	buf_done(&s.path);
	buf_done(&s.row);
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
