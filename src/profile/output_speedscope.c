/* SPDX-License-Identifier: Apache-2.0 */
/*
 * speedscope's JSON: of a tree of calls, and of stacks that are kept elsewhere. It has the stacks in one list and their
 * values in another one.
 */
#include "profile/output.h"
#include "profile/stream.h"

#include "base/json.h"
#include "base/spool.h"

/* ---- both ---- */

static const char *scope_unit(struct str unit)
{
	static const char *const known[] = { "nanoseconds", "microseconds", "milliseconds", "seconds",
					     "bytes" };

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (str_eq(unit, str_of(known[i])))
			return known[i];
	return "none";
}

static void scope_put_head(struct json_writer *w, const struct profile_tree *t, const char *title)
{
	json_put_text(w, "$schema", "https://www.speedscope.app/file-format-schema.json");
	json_put_text(w, "exporter", "lode " LODE_VERSION);
	json_put_str(w, "name", title ? str_of(title) : profile_tree_type(t));
}

static void scope_put_type(struct json_writer *w, const struct profile_tree *t)
{
	json_put_text(w, "type", "sampled");
	json_put_str(w, "name", profile_tree_type(t));
	json_put_text(w, "unit", scope_unit(profile_tree_unit(t)));
	json_put_int(w, "startValue", 0);
}

/* On a line of its own. */
static void scope_frame_text(const struct profile_tree *t, uint32_t frame, struct buf *out)
{
	struct json_writer row = { .out = out, .for_html = true };
	struct profile_frame f;

	profile_tree_frame(t, frame, &f);
	if (frame)
		buf_add_char(out, '\n');
	json_open_object(&row, NULL);
	json_put_str(&row, "name", f.name);
	if (f.file.size)
		json_put_str(&row, "file", f.file);
	if (f.line > 0)
		json_put_int(&row, "line", f.line);
	json_close(&row);
}

/* ---- of a tree ---- */

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

static void add_scope_frames(struct scoping *s, struct json_writer *w)
{
	for (uint32_t i = 0; i < profile_tree_n_frames(s->t) && !buf_is_over(w->out); i++) {
		s->row.size = 0;
		scope_frame_text(s->t, i, &s->row);
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
	scope_put_head(&w, t, o->title);
	json_open_object(&w, "shared");
	json_open_array(&w, "frames");
	add_scope_frames(&s, &w);
	json_close(&w);
	json_close(&w);
	json_open_array(&w, "profiles");
	json_open_object(&w, NULL);
	scope_put_type(&w, t);
	json_put_int(&w, "endValue", root.total[0]);
	add_scope_samples(&s, &w);
	json_close(&w);
	json_close(&w);
	json_close(&w);
	buf_add_char(out, '\n');
	buf_done(&s.path);
	buf_done(&s.row);
}

/* ---- of stacks, as they come ---- */

#define WEIGHTS_BLOCK KIB(64)

static int begin_scope(struct profile_stream *s, struct err *err)
{
	struct json_writer *w = s->json = NEW(struct json_writer);

	w->out = &s->out;
	w->for_html = true;
	json_open_object(w, NULL);
	scope_put_head(w, s->t, s->o.title);
	json_open_array(w, "profiles");
	json_open_object(w, NULL);
	scope_put_type(w, s->t);
	json_open_array(w, "samples");
	return 0;
}

static void put_scope_row(struct profile_stream *s, int64_t value, int64_t base)
{
	s->total = add_saturating(s->total, value);
	if (value <= 0)
		return;
	if (s->n_rows++) {
		buf_add_str(&s->out, STR(",\n"));
		buf_add_char(&s->weights, ',');
	}
	for (size_t i = 0; i < s->n_path; i++) {
		buf_add_char(&s->out, i ? ',' : '[');
		buf_add_decimal(&s->out, s->path[i]);
	}
	buf_add_str(&s->out, s->n_path ? STR("]") : STR("[]"));
	buf_add_decimal(&s->weights, (uint64_t)value);
}

static int put_weights_aside(struct profile_stream *s, struct err *err)
{
	struct bytes b = buf_bytes(&s->weights);

	s->weights.size = 0;
	return spool_add(s->o.aside, b, err);
}

static int pass_scope_on(struct profile_stream *s, struct err *err)
{
	return s->weights.size >= WEIGHTS_BLOCK ? put_weights_aside(s, err) : 0;
}

static int put_scope_frames(struct profile_stream *s, struct err *err)
{
	AUTO(buf_done) struct buf row = { 0 };

	for (uint32_t i = 0; i < profile_tree_n_frames(s->t); i++) {
		row.size = 0;
		scope_frame_text(s->t, i, &row);
		json_put_raw(s->json, NULL, buf_str(&row));
		if (stream_pass_on(s, err) < 0 ||
		    deadline_check(s->t->deadline, TREE_STEPS_OF_FRAME, err) < 0)
			return -1;
	}
	return 0;
}

/* The weights come after the samples, and the frames after all values of the label. */
static int end_scope(struct profile_stream *s, struct err *err)
{
	struct json_writer *w = s->json;

	json_close(w);
	json_open_array(w, "weights");
	if (put_weights_aside(s, err) < 0 || stream_flush(s, err) < 0 ||
	    spool_each(s->o.aside, s->o.to.write, s->o.to.arg, err) < 0)
		return -1;
	json_close(w);
	json_put_int(w, "endValue", s->total);
	json_close(w);
	json_close(w);
	json_open_object(w, "shared");
	json_open_array(w, "frames");
	if (put_scope_frames(s, err) < 0)
		return -1;
	json_close(w);
	json_close(w);
	json_close(w);
	buf_add_char(&s->out, '\n');
	return 0;
}

const struct stream_form stream_speedscope = {
	.begin = begin_scope, .row = put_scope_row, .passed = pass_scope_on, .end = end_scope
};
