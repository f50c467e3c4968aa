/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A flame graph as an SVG image: one group of rectangle and text for each node, the widest first, root at the
 * bottom. Nodes that are too narrow to see are left out. A small script, where a viewer runs it, zooms and
 * searches.
 */
#include "profile/output.h"
#include "profile/text.h"

#include <math.h>
#include <stdlib.h>
#include "base/vec.h"
#include "profile/assets.h"

#define WIDTH  1200.0
#define ROW    17
#define HEAD   52
#define FOOT   24
#define MARGIN 10
#define CHAR   7.3 /* width of a character, about */
#define MIN_PX 0.1

struct level {
	double left, right; /* where the next child begins, and where they all end */
	double scale;       /* pixels per unit */
};

struct drawing {
	const struct profile_tree *t;
	struct buf *out;
	double min_value, scale; /* pixels per unit, of the root */
	struct level *levels;    /* of each depth */
	unsigned room, depth;    /* the deepest level drawn */
	int64_t total[PROFILE_COLUMNS];
	bool measure; /* first pass: only the depth is needed */
};

static unsigned hue_of(struct str s)
{
	return (unsigned)(hash64(s.p, s.size, 1) % 360);
}

/* Warm colours, the same for the same binary; in a comparison red is more than before, blue is less. */
static void add_color(const struct drawing *d, const struct profile_node *n, const struct profile_frame *f,
		      struct buf *out)
{
	unsigned h = hue_of(f->name);

	if (profile_tree_compares(d->t)) {
		double now = d->total[0] ? (double)n->total[0] / (double)d->total[0] : 0,
		       was = d->total[1] ? (double)n->total[1] / (double)d->total[1] : 0;
		double change = now + was > 0 ? (now - was) / (now + was) : 0;
		int light = (int)(95 - 45 * fabs(change));

		buf_printf(out, "hsl(%d,%d%%,%d%%)", change >= 0 ? 0 : 220, fabs(change) < 0.01 ? 0 : 80,
			   light);
		return;
	}
	if (str_starts(f->binary, STR("[kernel")) || str_ends(f->binary, STR("vmlinux")))
		buf_printf(out, "hsl(%u,75%%,%u%%)", 20 + h % 20, 62 + h / 36);
	else if (n->inlined)
		buf_printf(out, "hsl(%u,55%%,%u%%)", 80 + h % 40, 66 + h / 36);
	else
		buf_printf(out, "hsl(%u,75%%,%u%%)", 35 + h % 22, 62 + h / 36);
}

static void add_title(const struct drawing *d, const struct profile_node *n, const struct profile_frame *f,
		      struct buf *out)
{
	struct str unit = profile_tree_unit(d->t);

	text_xml(f->name, out);
	buf_add_str(out, STR(" ("));
	profile_value_text(n->total[0], unit, out);
	buf_printf(out, ", %.2f%%", d->total[0] ? 100.0 * (double)n->total[0] / (double)d->total[0] : 0);
	if (n->self[0]) {
		buf_add_str(out, STR(", itself "));
		profile_value_text(n->self[0], unit, out);
	}
	if (profile_tree_compares(d->t)) {
		buf_add_str(out, STR(", before "));
		profile_value_text(n->total[1], unit, out);
	}
	buf_add_char(out, ')');
	if (n->inlined)
		buf_add_str(out, STR(" inlined"));
	if (f->file.size) {
		buf_add_char(out, ' ');
		text_xml(f->file, out);
	}
	if (f->binary.size) {
		buf_add_str(out, STR(" ["));
		text_xml(f->binary, out);
		buf_add_char(out, ']');
	}
}

/* The part of a name that fits, followed by two dots; in whole characters. */
static struct str shorten_name(struct str s, double width, bool *ret_cut)
{
	size_t n = 0, room = (size_t)((width - 6) / CHAR), cut = s.size;

	for (size_t i = 0; i < s.size; i++) {
		if (((unsigned char)s.p[i] & 0xc0) == 0x80)
			continue;
		if (n == (room > 2 ? room - 2 : 0))
			cut = i;
		n++;
	}
	*ret_cut = n > room;
	if (*ret_cut)
		s.size = cut;
	return s;
}

static void draw_frames(struct drawing *d, const struct profile_node *n, uint32_t node, double x,
			double width, unsigned depth)
{
	struct profile_frame f = { .name = STR("all") };
	struct buf *b = d->out;
	struct str label;
	bool cut;

	if (node)
		profile_tree_frame(d->t, n->frame, &f);
	buf_printf(b, "<g data-x=\"%.6f\" data-w=\"%.6f\" data-d=\"%u\"><title>",
		   (x - MARGIN) / (WIDTH - 2 * MARGIN), width / (WIDTH - 2 * MARGIN), depth);
	add_title(d, n, &f, b);
	buf_printf(b, "</title><rect x=\"%.1f\" y=\"%u\" width=\"%.1f\" height=\"%d\" rx=\"1\" fill=\"", x,
		   HEAD + (d->depth - depth) * ROW, width, ROW - 1);
	add_color(d, n, &f, b);
	buf_add_str(b, STR("\"/><text "));
	buf_printf(b, "x=\"%.1f\" y=\"%u\">", x + 3, HEAD + (d->depth - depth) * ROW + 12);
	label = width > 3 * CHAR ? shorten_name(f.name, width, &cut) : STR("");
	text_xml(label, b);
	if (label.size && cut)
		buf_add_str(b, STR(".."));
	buf_add_str(b, STR("</text></g>\n"));
}

static int svg_enter(void *arg, uint32_t node, unsigned depth)
{
	struct drawing *d = arg;
	struct profile_node n;
	struct level *in;
	double width, callees;

	profile_tree_node(d->t, node, &n);
	VEC_RESERVE(d->levels, depth, d->room, 2);
	in = &d->levels[depth];
	if (!depth)
		*in = (struct level){ MARGIN, WIDTH - MARGIN, d->scale };
	width = MIN(MAX((double)n.total[0] * in->scale, 0.0), MAX(in->right - in->left, 0.0));
	in[1] = (struct level){ in->left, in->left + width, in->scale };
	if (n.total[0] <= 0 || (double)n.total[0] < d->min_value || width < MIN_PX)
		return 1;
	if (buf_is_over(d->out))
		return 1;
	/* If there are negative values, callees may be larger than their caller: each is drawn, and narrower. */
	callees = profile_tree_callees_sum(d->t, node, MAX(d->min_value, 1.0));
	if (callees > (double)n.total[0])
		in[1].scale = width / callees;
	if (d->measure)
		d->depth = MAX(d->depth, depth);
	else
		draw_frames(d, &n, node, in->left, width, depth);
	return 0;
}

static void svg_leave(void *arg, uint32_t node, unsigned depth)
{
	struct drawing *d = arg;

	d->levels[depth].left = d->levels[depth + 1].right;
}

void profile_write_svg(const struct profile_tree *t, const struct profile_output *o, struct buf *out)
{
	struct str title = o->title ? str_of(o->title) : profile_tree_type(t);
	struct drawing d = { .t = t, .out = out, .measure = true };
	const struct profile_walk w = { svg_enter, svg_leave, &d };
	struct profile_node root;
	unsigned height;

	profile_tree_node(t, 0, &root);
	memcpy(d.total, root.total, sizeof(d.total));
	d.scale = root.total[0] > 0 ? (WIDTH - 2 * MARGIN) / (double)root.total[0] : 0;
	d.min_value = (double)root.total[0] * (o->min_share > 0 ? o->min_share : PROFILE_OUTPUT_MIN_SHARE);
	profile_tree_walk(t, &w);
	d.measure = false;
	height = HEAD + (d.depth + 1) * ROW + FOOT;
	buf_printf(
		out,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" width=\"%.0f\" height=\"%u\" "
		"viewBox=\"0 0 %.0f %u\" "
		"data-rows=\"%u\" font-family=\"ui-monospace,Menlo,Consolas,monospace\" font-size=\"12\">\n"
		"<style>text{pointer-events:none}g:hover "
		"rect{stroke:#000;stroke-width:1;cursor:pointer}g.dim{opacity:.35}"
		"g.hit "
		"rect{fill:#e040fb}.ui{cursor:pointer;pointer-events:all}.ui:hover{text-decoration:underline}"
		"</style>\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"#fcfcf8\"/>\n<text x=\"%.0f\" y=\"22\" "
		"text-anchor=\"middle\" "
		"font-size=\"16\">",
		WIDTH, height, WIDTH, height, d.depth, WIDTH / 2);
	text_xml(title, out);
	buf_printf(out,
		   "</text>\n<text id=\"reset\" class=\"ui\" x=\"%d\" y=\"22\" visibility=\"hidden\">Reset "
		   "zoom</text>\n"
		   "<text id=\"search\" class=\"ui\" x=\"%.0f\" y=\"22\" text-anchor=\"end\">Search</text>\n"
		   "<text id=\"found\" x=\"%.0f\" y=\"40\" text-anchor=\"end\"></text>\n"
		   "<text id=\"said\" x=\"%d\" y=\"%u\"> </text>\n<g id=\"frames\">\n",
		   MARGIN, WIDTH - MARGIN, WIDTH - MARGIN, MARGIN, height - 8);
	profile_tree_walk(t, &w);
	buf_add_str(out, STR("</g>\n<script><![CDATA[\n"));
	profile_add_asset("svg.js", out);
	buf_add_str(out, STR("]]></script>\n</svg>\n"));
	free(d.levels);
}
