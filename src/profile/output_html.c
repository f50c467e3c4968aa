/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A flame graph as one self-contained HTML page: the tree as JSON, and a script that draws it. The page's
 * policy forbids it to load anything.
 */
#include "profile/output.h"
#include "profile/text.h"

#include <stdlib.h>
#include "base/json.h"
#include "profile/assets.h"

/* In one script, each after the modules that it uses; lines that import are left out (embed.py). */
static const char *const modules[] = { "value.js",  "colour.js", "model.js", "draw.js",
				       "reader.js", "graph.js",  "page.js" };

struct packing {
	const struct profile_tree *t;
	struct json_writer *json;
	struct buf row;
	double min_value;
	uint32_t n, *number; /* of each node that is kept; its own number + 1 */
	uint8_t *used;       /* frames */
};

static double html_size_of(const struct profile_node *n)
{
	return (double)(n->total[0] > n->total[1] ? n->total[0] : n->total[1]);
}

/* Start a row, on a line of its own. */
static struct json_writer row_begin(struct packing *p, bool first)
{
	struct json_writer w = { .out = &p->row, .for_html = true };

	p->row.size = 0;
	if (!first)
		buf_add_char(&p->row, '\n');
	json_open_array(&w, NULL);
	return w;
}

static void row_end(struct packing *p, struct json_writer *w)
{
	json_close(w);
	json_put_raw(p->json, NULL, buf_str(&p->row));
}

/* A node is [parent, frame, total, self, flags], in a comparison followed by the base's total and self. */
static int html_enter(void *arg, uint32_t node, unsigned depth)
{
	struct packing *p = arg;
	struct profile_node n;
	struct json_writer w;

	profile_tree_node(p->t, node, &n);
	if (node && (html_size_of(&n) <= 0 || html_size_of(&n) < p->min_value))
		return 1;
	if (buf_is_over(p->json->out))
		return 1;
	p->number[node] = p->n++;
	if (node)
		p->used[n.frame] = 1;
	w = row_begin(p, false);
	json_put_int(&w, NULL, node ? (int64_t)p->number[n.parent] : -1);
	json_put_int(&w, NULL, node ? (int64_t)n.frame : -1);
	json_put_int(&w, NULL, n.total[0]);
	json_put_int(&w, NULL, n.self[0]);
	json_put_int(&w, NULL, n.inlined);
	if (profile_tree_compares(p->t)) {
		json_put_int(&w, NULL, n.total[1]);
		json_put_int(&w, NULL, n.self[1]);
	}
	row_end(p, &w);
	return 0;
}

/* A frame that no node has is 0: its number stays. */
static void add_frames(struct packing *p)
{
	for (uint32_t i = 0; i < profile_tree_n_frames(p->t) && !buf_is_over(p->json->out); i++) {
		struct profile_frame f;
		struct json_writer w;

		if (!p->used[i]) {
			json_put_raw(p->json, NULL, i ? STR("\n0") : STR("0"));
			continue;
		}
		profile_tree_frame(p->t, i, &f);
		w = row_begin(p, !i);
		json_put_str(&w, NULL, f.name);
		json_put_str(&w, NULL, f.file);
		json_put_int(&w, NULL, f.line);
		json_put_str(&w, NULL, f.binary);
		row_end(p, &w);
	}
}

static void add_data(struct packing *p, struct str title)
{
	const struct profile_walk w = { html_enter, NULL, p };
	struct json_writer *json = p->json;

	json_open_object(json, NULL);
	json_put_str(json, "title", title);
	json_put_str(json, "type", profile_tree_type(p->t));
	json_put_str(json, "unit", profile_tree_unit(p->t));
	json_put_bool(json, "compares", profile_tree_compares(p->t));
	json_open_array(json, "nodes");
	profile_tree_walk(p->t, &w);
	json_close(json);
	/* The table of functions is made of the nodes, so its sums lack these. */
	json_put_uint(json, "left_out", profile_tree_n(p->t) - p->n + profile_tree_n_left_out(p->t));
	json_open_array(json, "frames");
	add_frames(p);
	json_close(json);
	json_close(json);
}

void profile_write_html(const struct profile_tree *t, const struct profile_output *o, struct buf *out)
{
	struct str title = o->title ? str_of(o->title) : profile_tree_type(t);
	struct json_writer json = { .out = out, .for_html = true };
	struct packing p = { .t = t, .json = &json };
	struct profile_node root;

	profile_tree_node(t, 0, &root);
	p.min_value = html_size_of(&root) * (o->min_share > 0 ? o->min_share : PROFILE_OUTPUT_MIN_SHARE);
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
	buf_add_str(out, STR("<script type=\"application/json\" id=\"data\">"));
	add_data(&p, title);
	buf_add_str(out, STR("</script>\n<script type=\"module\">\n"));
	for (size_t i = 0; i < ARRAY_SIZE(modules); i++)
		profile_add_asset(modules[i], out);
	buf_add_str(out, STR("</script>\n</body></html>\n"));
	buf_done(&p.row);
	free(p.number);
	free(p.used);
}
