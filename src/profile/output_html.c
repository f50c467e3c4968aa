/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A flame graph as one HTML page that needs nothing else: the tree as JSON, and a script that draws it. The
 * page may load nothing from anywhere: its own policy forbids it.
 */
#include "profile/output.h"
#include "profile/text.h"

#include <stdlib.h>
#include "profile/assets.h"

#define MIN_SHARE 1e-5

/* In one script, each behind what it uses; lines that import are left out of them (embed.py). */
static const char *const modules[] = { "value.js",  "colour.js", "model.js", "draw.js",
				       "reader.js", "graph.js",  "page.js" };

struct packing {
	const struct profile_tree *t;
	struct buf *out;
	double min_value;
	uint32_t n, *number; /* of each node that is kept; its own number + 1 */
	uint8_t *used;       /* frames */
};

static double html_size_of(const struct profile_node *n)
{
	return (double)(n->total[0] > n->total[1] ? n->total[0] : n->total[1]);
}

/* A node is [parent, frame, total, self, flags], or with the base's total and self behind. */
static int html_enter(void *arg, uint32_t node, unsigned depth)
{
	struct packing *p = arg;
	struct profile_node n;

	profile_tree_node(p->t, node, &n);
	if (node && (html_size_of(&n) <= 0 || html_size_of(&n) < p->min_value))
		return 1;
	p->number[node] = p->n++;
	if (node)
		p->used[n.frame] = 1;
	buf_printf(p->out, "%s[%d,%d,%lld,%lld,%d", node ? ",\n" : "", node ? (int)p->number[n.parent] : -1,
		   node ? (int)n.frame : -1, (long long)n.total[0], (long long)n.self[0], n.inlined);
	if (profile_tree_compares(p->t))
		buf_printf(p->out, ",%lld,%lld", (long long)n.total[1], (long long)n.self[1]);
	buf_add_char(p->out, ']');
	return 0;
}

/* Of frames that are not shown only the place stays. */
static void add_frames(const struct packing *p, struct buf *out)
{
	for (uint32_t i = 0; i < profile_tree_n_frames(p->t); i++) {
		struct profile_frame f;

		buf_add_str(out, i ? STR(",\n") : STR(""));
		if (!p->used[i]) {
			buf_add_char(out, '0');
			continue;
		}
		profile_tree_frame(p->t, i, &f);
		buf_add_char(out, '[');
		text_json(f.name, out);
		buf_add_char(out, ',');
		text_json(f.file, out);
		buf_printf(out, ",%lld,", (long long)f.line);
		text_json(f.binary, out);
		buf_add_char(out, ']');
	}
}

void profile_write_html(const struct profile_tree *t, const struct profile_output *o, struct buf *out)
{
	struct str title = o->title ? str_of(o->title) : profile_tree_type(t);
	struct packing p = { .t = t, .out = out };
	const struct profile_walk w = { html_enter, NULL, &p };
	struct profile_node root;

	profile_tree_node(t, 0, &root);
	p.min_value = html_size_of(&root) * (o->min_share > 0 ? o->min_share : MIN_SHARE);
	p.number = mem_zalloc(profile_tree_n(t) * sizeof(*p.number));
	p.used = mem_zalloc((size_t)profile_tree_n_frames(t) + 1);
	buf_add_str(out, STR("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
			     "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
			     "style-src 'unsafe-inline'; "
			     "script-src 'unsafe-inline'\">\n<meta name=\"viewport\" "
			     "content=\"width=device-width\">\n<title>"));
	text_xml(title, out);
	buf_add_str(out, STR("</title>\n<style>\n"));
	profile_add_asset("flame.css", out);
	profile_add_asset("page.css", out);
	buf_add_str(out, STR("</style></head><body>\n"));
	profile_add_asset("page.html", out);
	buf_add_str(out, STR("<script type=\"application/json\" id=\"data\">{\"title\":"));
	text_json(title, out);
	buf_add_str(out, STR(",\"type\":"));
	text_json(profile_tree_type(t), out);
	buf_add_str(out, STR(",\"unit\":"));
	text_json(profile_tree_unit(t), out);
	buf_printf(out, ",\"compares\":%s,\"nodes\":[\n", profile_tree_compares(t) ? "true" : "false");
	profile_tree_walk(t, &w);
	buf_add_str(out, STR("],\n\"frames\":["));
	add_frames(&p, out);
	buf_add_str(out, STR("]}</script>\n<script type=\"module\">\n"));
	for (size_t i = 0; i < ARRAY_SIZE(modules); i++)
		profile_add_asset(modules[i], out);
	buf_add_str(out, STR("</script>\n</body></html>\n"));
	free(p.number);
	free(p.used);
}
