/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /symbolicate/v5, as Mozilla's symbolication server has it, for the Firefox profiler and crash tools.
 *
 *   {"jobs": [{"memoryMap": [["libx.so", "<debug ID>"]], "stacks": [[[0, 4953]]]}]}, or one such job alone
 *
 * A debug ID is Breakpad's: the build ID's first 16 bytes as a GUID, and an age. The rest of the build ID is
 * looked up in the index and the store; where several begin like this, or none, the 16 bytes are taken for
 * all of it. What is not ELF's has an ID that nobody here has.
 */
#include "server/symbolize/symbolize.h"

#include <stdio.h>

#define MAX_JOBS 64u

struct job {
	size_t first_module, n_modules; /* in a->ids */
	size_t n_stacks;
	size_t first_stack; /* in v5->stack_ends */
};

struct v5 {
	struct job *jobs;
	size_t n_jobs;
	bool single;                   /* one job, without the list */
	size_t *stack_ends;            /* of each stack: the query behind its last */
	struct str *names, *debug_ids; /* of the modules */
	bool *used;
	bool *guessed; /* nothing here has an ID that begins so: taken for all of it */
};

/* "030201000504070608090A0B0C0D0E0F0": back to the bytes of the build ID. */
static bool bytes_of_debug_id(struct str s, uint8_t out[16])
{
	static const uint8_t order[16] = { 3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15 };
	uint8_t b[16];
	size_t n;

	if (s.size < 33 || !hex_decode((struct str){ s.p, 32 }, true, b, sizeof(b), &n))
		return false;
	for (size_t i = 0; i < 16; i++)
		out[order[i]] = b[i];
	return true;
}

/* true: by what is known here. */
static bool set_id(struct ask *a, struct str debug_id, struct build_id *ret)
{
	uint8_t b[16];

	if (!bytes_of_debug_id(debug_id, b))
		return true;
	if (a->req && ask_complete_id(a->req->s, bytes_of(b, sizeof(b)), ret))
		return true;
	build_id_set(ret, bytes_of(b, sizeof(b)));
	return false;
}

static struct str text_at(const json_t *list, size_t i)
{
	const json_t *j = json_array_get(list, i);

	return json_is_string(j) ? (struct str){ json_string_value(j), json_string_length(j) } : STR("");
}

/* ---- what is asked ---- */

static const json_t *job_at(const json_t *all, size_t i)
{
	const json_t *jobs = json_object_get(all, "jobs");

	return json_is_array(jobs) ? json_array_get(jobs, i) : i ? NULL : all;
}

/* So that all arrays are made once, and not before the limits were looked at. */
static int count(struct ask *a, struct v5 *v, const json_t *all, size_t *ret_stacks, size_t *ret_frames,
		 struct err *err)
{
	const json_t *job, *stack;
	size_t k;

	for (size_t i = 0; (job = job_at(all, i)); i++) {
		const json_t *map = json_object_get(job, "memoryMap"),
			     *stacks = json_object_get(job, "stacks");

		if (!json_is_array(map) || !json_is_array(stacks))
			return err_set(err, ERR_INVALID, "job %zu: no lists 'memoryMap' and 'stacks'", i);
		a->n_ids += json_array_size(map);
		*ret_stacks += json_array_size(stacks);
		json_array_foreach(stacks, k, stack) *ret_frames += json_array_size(stack);
		v->n_jobs = i + 1;
		if (v->n_jobs > MAX_JOBS || a->n_ids > ASK_MAX_IDS || *ret_frames > ASK_MAX_ADDRS ||
		    *ret_stacks > ASK_MAX_ADDRS)
			return err_set(err, ERR_LIMIT,
				       "more than %u jobs, %u modules or %u frames: ask in several", MAX_JOBS,
				       ASK_MAX_IDS, ASK_MAX_ADDRS);
	}
	v->single = !json_is_array(json_object_get(all, "jobs"));
	return 0;
}

static int parse_stack(struct ask *a, struct v5 *v, const struct job *job, const json_t *stack,
		       struct err *err)
{
	const json_t *frame;
	size_t k;

	json_array_foreach(stack, k, frame)
	{
		struct tables_query *q = &a->queries[a->n++];
		const json_t *module = json_array_get(frame, 0);

		*q = (struct tables_query){ .module = TABLES_NO_MODULE, .kind = FRAME_RELATIVE };
		if (!json_is_integer(module) || json_integer_value(module) < -1 ||
		    json_integer_value(module) >= (json_int_t)job->n_modules)
			return err_set(err, ERR_INVALID, "frame %zu: there is no such module", k);
		if (!ask_number(json_array_get(frame, 1), &q->addr))
			return err_set(err, ERR_INVALID, "frame %zu: is no offset", k);
		if (json_integer_value(module) < 0)
			continue;
		q->module = job->first_module + (size_t)json_integer_value(module);
		v->used[q->module] = true;
	}
	return 0;
}

static int parse_job(struct ask *a, struct v5 *v, size_t i, const json_t *j, size_t *n_ids, size_t *n_stacks,
		     struct err *err)
{
	const json_t *map = json_object_get(j, "memoryMap"), *stacks = json_object_get(j, "stacks"), *one;
	struct job *job = &v->jobs[i];
	size_t k;

	*job = (struct job){ *n_ids, json_array_size(map), json_array_size(stacks), *n_stacks };
	json_array_foreach(map, k, one)
	{
		struct str name = text_at(one, 0), id = text_at(one, 1);

		if (json_array_size(one) < 2 || name.size > ASK_MAX_STRING || id.size > 128)
			return err_set(err, ERR_INVALID, "module %zu: wanted is [name, debug ID]", k);
		v->names[*n_ids] = arena_str(a->arena, name);
		v->debug_ids[*n_ids] = arena_str(a->arena, id);
		++*n_ids;
	}
	json_array_foreach(stacks, k, one)
	{
		if (parse_stack(a, v, job, one, err) < 0)
			return err_in(err, "stack %zu", k);
		v->stack_ends[(*n_stacks)++] = a->n;
	}
	return 0;
}

static int parse_all(struct ask *a, struct v5 *v, const json_t *all, struct err *err)
{
	size_t n_stacks = 0, n_frames = 0, n_ids = 0;

	if (!json_is_object(all))
		return err_set(err, ERR_INVALID, "no object with 'jobs'");
	if (count(a, v, all, &n_stacks, &n_frames, err) < 0)
		return -1;
	v->jobs = ARENA_NEW_N(a->arena, struct job, v->n_jobs + 1);
	v->stack_ends = ARENA_NEW_N(a->arena, size_t, n_stacks + 1);
	v->names = ARENA_NEW_N(a->arena, struct str, a->n_ids + 1);
	v->debug_ids = ARENA_NEW_N(a->arena, struct str, a->n_ids + 1);
	v->used = ARENA_NEW_N(a->arena, bool, a->n_ids + 1);
	v->guessed = ARENA_NEW_N(a->arena, bool, a->n_ids + 1);
	a->ids = ARENA_NEW_N(a->arena, struct build_id, a->n_ids + 1);
	a->queries = ARENA_NEW_N(a->arena, struct tables_query, n_frames + 1);
	n_stacks = 0;
	for (size_t i = 0; i < v->n_jobs; i++)
		if (parse_job(a, v, i, job_at(all, i), &n_ids, &n_stacks, err) < 0)
			return err_in(err, "job %zu", i);
	/* Modules that no frame is in are not looked for: whole processes are sent. */
	for (size_t i = 0; i < a->n_ids; i++)
		if (v->used[i])
			v->guessed[i] = !set_id(a, v->debug_ids[i], &a->ids[i]);
	a->hold_flags = TABLES_LAYOUTS;
	return 0;
}

static int parse(struct ask *a, struct err *err)
{
	json_t *all = ask_load_json(a, err);
	int r;

	if (!all)
		return -1;
	a->own = ARENA_NEW(a->arena, struct v5);
	r = parse_all(a, a->own, all, err);
	json_decref(all);
	return r;
}

/* ---- the reply ---- */

static void add_place(const struct symtab_frame *f, struct buf *b)
{
	if (f->file.size) {
		buf_add_str(b, STR(",\"file\":"));
		ask_add_path(f, b);
	}
	if (f->line)
		buf_printf(b, ",\"line\":%u", f->line);
}

/* All but the number of the frame, which is not known before all of them are here. */
static void answer(void *arg, size_t i, const struct tables_answer *ans)
{
	struct ask *a = arg;
	const struct v5 *v = a->own;
	const struct tables_query *q = &a->queries[i];
	const struct symtab_frames *frames = ask_is_full(a) ? NULL : ans->frames;
	struct buf *b = &a->parts;

	ask_part_begin(a, i);
	buf_add_str(b, STR(",\"module\":"));
	json_add_string(b, q->module < a->n_ids ? v->names[q->module] : STR("<unknown>"));
	buf_printf(b, ",\"module_offset\":\"0x%llx\"", (unsigned long long)q->addr);
	if (frames) {
		const struct symtab_frame *outer = &frames->list[frames->n - 1];

		buf_add_str(b, STR(",\"function\":"));
		ask_add_name(a, outer, b);
		buf_printf(b, ",\"function_offset\":\"0x%llx\"",
			   (unsigned long long)(ans->addr - frames->start));
		buf_printf(b, ",\"function_size\":\"0x%llx\"",
			   (unsigned long long)(frames->end - frames->start));
		add_place(outer, b);
		for (size_t k = 0; k + 1 < frames->n; k++) {
			buf_add_str(b, k ? STR(",{\"function\":") : STR(",\"inlines\":[{\"function\":"));
			ask_add_name(a, &frames->list[k], b);
			add_place(&frames->list[k], b);
			buf_add_char(b, '}');
		}
		if (frames->n > 1)
			buf_add_char(b, ']');
	}
	ask_part_end(a, i);
}

static void add_modules(struct ask *a, const struct job *job, struct buf *b)
{
	const struct v5 *v = a->own;

	buf_add_str(b, STR(",\"found_modules\":{"));
	for (size_t k = 0; k < job->n_modules; k++) {
		size_t i = job->first_module + k;
		AUTO(buf_done) struct buf key = { 0 };
		struct tables_module m;

		tables_request_module(a->hold, i, &m);
		buf_add_str(&key, v->names[i]);
		buf_add_char(&key, '/');
		buf_add_str(&key, v->debug_ids[i]);
		if (k)
			buf_add_char(b, ',');
		json_add_string(b, buf_str(&key));
		/* null: it was not looked for. */
		buf_add_str(b, !v->used[i]               ? STR(":null")
			       : m.reason == FRAME_FOUND ? STR(":true")
							 : STR(":false"));
	}
	buf_add_char(b, '}');
}

static void add_job(struct ask *a, size_t i)
{
	const struct v5 *v = a->own;
	const struct job *job = &v->jobs[i];
	struct buf *b = &a->out;

	buf_add_str(b, STR("{\"stacks\":["));
	for (size_t k = 0; k < job->n_stacks; k++) {
		size_t stack = job->first_stack + k, from = stack ? v->stack_ends[stack - 1] : 0;

		buf_add_str(b, k ? STR(",[") : STR("["));
		for (size_t q = from; q < v->stack_ends[stack]; q++) {
			buf_printf(b, "%s{\"frame\":%zu", q > from ? "," : "", q - from);
			ask_add_part(a, q);
			buf_add_char(b, '}');
		}
		buf_add_char(b, ']');
	}
	buf_add_char(b, ']');
	add_modules(a, job, b);
	buf_add_char(b, '}');
}

/* What was waited for has been scanned by now: it was asked for by half its name, and is to be asked anew. */
static void look_at_guesses(struct ask *a)
{
	const struct v5 *v = a->own;
	struct build_id ignored;

	for (size_t i = 0; i < a->n_ids && a->req; i++)
		if (v->guessed[i] && set_id(a, v->debug_ids[i], &ignored))
			a->passes = true;
}

static const char *finish(struct ask *a)
{
	const struct v5 *v = a->own;

	look_at_guesses(a);
	if (v->single) {
		add_job(a, 0);
		return "application/json";
	}
	buf_add_str(&a->out, STR("{\"results\":["));
	for (size_t i = 0; i < v->n_jobs; i++) {
		if (i)
			buf_add_char(&a->out, ',');
		add_job(a, i);
	}
	buf_add_str(&a->out, STR("]}"));
	return "application/json";
}

const struct ask_form ask_v5 = { parse, answer, finish };
