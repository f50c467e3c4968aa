/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /symbolicate/v5, the protocol of Mozilla's symbolication server, for the Firefox profiler and crash
 * tools.
 *
 *   {"jobs": [{"memoryMap": [["libx.so", "<debug ID>"]], "stacks": [[[0, 4953]]]}]}, or one such job alone
 *
 * A debug ID is Breakpad's: the first 16 bytes of the build ID as a GUID, and an age. The rest of the build
 * ID is looked up in the index and the store; if several begin with these bytes, or none, the 16 bytes are
 * taken as the whole. Files of other formats than ELF have IDs that no file here has.
 *
 * As in Mozilla's server, a request of another structure, or with the index of a module that is not in the map, is
 * refused as a whole. An offset that is none costs only its frame: it gets no function, and "error".
 */
#include "server/symbolize/symbolize.h"

#include <stdio.h>
#include "base/search.h"

#define MAX_JOBS 64u

struct v5_job {
	size_t first_module, n_modules; /* in a->ids */
	size_t n_stacks;
	size_t first_stack; /* in v5->stack_ends */
};

struct v5 {
	struct v5_job *jobs;
	size_t n_jobs, n_stacks;
	size_t *stack_ends;            /* of each stack: the index after its last query */
	struct str *names, *debug_ids; /* of the modules */
	struct v5_frame {
		size_t module;    /* in names; SIZE_MAX: none */
		struct str wrong; /* the value given for an offset */
		bool is_wrong;
	} * frames; /* of each query */
	bool *used;
	bool *guessed; /* no build ID here begins with it: taken as the whole */
	/* The reply: the job and the stack at hand, and whether that is open. */
	size_t job, stack;
	bool is_open;
};

/* "030201000504070608090A0B0C0D0E0F0" to the bytes of the build ID. */
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

/* true: the build ID was found, or cannot be. */
static bool v5_set_id(struct ask *a, struct str debug_id, struct build_id *ret)
{
	uint8_t b[16];

	if (!bytes_of_debug_id(debug_id, b))
		return true;
	if (a->req && ask_complete_id(a->req->s, bytes_of(b, sizeof(b)), ret))
		return true;
	build_id_set(ret, bytes_of(b, sizeof(b)));
	return false;
}

/* A string; null is an empty one: modules of a crash report may lack an ID. */
static bool json_text_at(const json_t *list, size_t i, struct str *ret)
{
	const json_t *j = json_array_get(list, i);

	*ret = STR("");
	if (json_is_string(j))
		*ret = (struct str){ json_string_value(j), json_string_length(j) };
	return json_is_string(j) || json_is_null(j);
}

/* ---- requests ---- */

static const json_t *v5_job_at(const json_t *all, size_t i)
{
	const json_t *jobs = json_object_get(all, "jobs");

	return json_is_array(jobs) ? json_array_get(jobs, i) : i ? NULL : all;
}

/* Count first, so that limits are checked before the arrays are allocated, once. */
static int v5_count(struct ask *a, struct v5 *v, const json_t *all, size_t *ret_stacks, size_t *ret_frames,
		    struct err *err)
{
	const json_t *job, *stack;
	size_t k;

	for (size_t i = 0; (job = v5_job_at(all, i)); i++) {
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
				       "more than %u jobs, %u modules or %u frames: send several requests",
				       MAX_JOBS, ASK_MAX_IDS, ASK_MAX_ADDRS);
	}
	return 0;
}

/* Text that shows a value which is not an offset. */
static struct str wrong_offset(struct ask *a, const json_t *j)
{
	char number[32];

	if (json_is_string(j))
		return arena_str(a->arena, (struct str){ json_string_value(j),
							 MIN(json_string_length(j), (size_t)64) });
	if (json_is_integer(j) && json_integer_value(j) == INT64_MIN)
		return STR("-0x8000000000000000");
	if (json_is_integer(j))
		snprintf(number, sizeof(number), "-0x%llx", (unsigned long long)-json_integer_value(j));
	else if (json_is_real(j))
		snprintf(number, sizeof(number), "%.17g", json_real_value(j));
	else
		return STR("null"); /* also of true, lists, objects */
	return arena_str(a->arena, str_of(number));
}

static int v5_parse_frame(struct ask *a, struct v5 *v, const struct v5_job *job, const json_t *frame,
			  struct err *err)
{
	const json_t *module = json_array_get(frame, 0), *offset = json_array_get(frame, 1);
	struct tables_query *q = &a->queries[a->n];
	struct v5_frame *f = &v->frames[a->n++];

	if (json_array_size(frame) < 2)
		return err_set(err, ERR_INVALID, "it must be [module, offset]");
	*q = (struct tables_query){ .module = TABLES_NO_MODULE, .kind = FRAME_RELATIVE };
	*f = (struct v5_frame){ .module = SIZE_MAX };
	if (!json_is_integer(module) || json_integer_value(module) < -1 ||
	    json_integer_value(module) >= (json_int_t)job->n_modules)
		return err_set(err, ERR_INVALID, "there is no such module");
	if (json_integer_value(module) >= 0)
		f->module = job->first_module + (size_t)json_integer_value(module);
	if (!ask_number(offset, &q->addr)) {
		f->is_wrong = true;
		f->wrong = wrong_offset(a, offset);
		return 0;
	}
	if (f->module == SIZE_MAX)
		return 0;
	q->module = f->module;
	v->used[q->module] = true;
	return 0;
}

static int v5_parse_stack(struct ask *a, struct v5 *v, const struct v5_job *job, const json_t *stack,
			  struct err *err)
{
	const json_t *frame;
	size_t k;

	if (!json_is_array(stack))
		return err_set(err, ERR_INVALID, "it must be a list of [module, offset]");
	json_array_foreach(stack, k, frame)
	{
		if (v5_parse_frame(a, v, job, frame, err) < 0)
			return err_in(err, "frame %zu", k);
	}
	return 0;
}

static int v5_parse_job(struct ask *a, size_t i, const json_t *j, size_t *n_ids, size_t *n_stacks,
			struct err *err)
{
	struct v5 *v = a->own;
	const json_t *map = json_object_get(j, "memoryMap"), *stacks = json_object_get(j, "stacks"), *one;
	struct v5_job *job = &v->jobs[i];
	size_t k;

	*job = (struct v5_job){ *n_ids, json_array_size(map), json_array_size(stacks), *n_stacks };
	json_array_foreach(map, k, one)
	{
		struct str name, id;

		if (json_array_size(one) < 2 || !json_text_at(one, 0, &name) || !json_text_at(one, 1, &id) ||
		    name.size > ASK_MAX_STRING || id.size > 128)
			return err_set(err, ERR_INVALID, "module %zu: it must be [name, debug ID]", k);
		v->names[*n_ids] = arena_str(a->arena, name);
		v->debug_ids[*n_ids] = arena_str(a->arena, id);
		++*n_ids;
	}
	json_array_foreach(stacks, k, one)
	{
		if (v5_parse_stack(a, v, job, one, err) < 0)
			return err_in(err, "stack %zu", k);
		v->stack_ends[(*n_stacks)++] = a->n;
	}
	return 0;
}

static int v5_parse_all(struct ask *a, struct v5 *v, const json_t *all, struct err *err)
{
	size_t n_stacks = 0, n_frames = 0, n_ids = 0;
	const json_t *jobs = json_object_get(all, "jobs");

	if (!json_is_object(all) || (jobs && !json_is_array(jobs)))
		return err_set(err, ERR_INVALID, "not an object with a list 'jobs'");
	if (v5_count(a, v, all, &n_stacks, &n_frames, err) < 0)
		return -1;
	v->jobs = ARENA_NEW_N(a->arena, struct v5_job, v->n_jobs + 1);
	v->stack_ends = ARENA_NEW_N(a->arena, size_t, n_stacks + 1);
	v->names = ARENA_NEW_N(a->arena, struct str, a->n_ids + 1);
	v->debug_ids = ARENA_NEW_N(a->arena, struct str, a->n_ids + 1);
	v->used = ARENA_NEW_N(a->arena, bool, a->n_ids + 1);
	v->guessed = ARENA_NEW_N(a->arena, bool, a->n_ids + 1);
	a->ids = ARENA_NEW_N(a->arena, struct build_id, a->n_ids + 1);
	a->queries = ARENA_NEW_N(a->arena, struct tables_query, n_frames + 1);
	v->frames = ARENA_NEW_N(a->arena, struct v5_frame, n_frames + 1);
	v->n_stacks = n_stacks;
	n_stacks = 0;
	for (size_t i = 0; i < v->n_jobs; i++)
		if (v5_parse_job(a, i, v5_job_at(all, i), &n_ids, &n_stacks, err) < 0)
			return err_in(err, "job %zu", i);
	/* Modules without a frame are not looked up: clients send all modules of a process. */
	for (size_t i = 0; i < a->n_ids; i++) {
		if (!v->used[i])
			continue;
		v->guessed[i] = !v5_set_id(a, v->debug_ids[i], &a->ids[i]);
		ask_hint_name(a, &a->ids[i], v->names[i]);
	}
	a->request_flags = TABLES_LAYOUTS;
	return 0;
}

static int v5_parse(struct ask *a, struct err *err)
{
	json_t *all = ask_load_json(a, err);
	int r;

	if (!all)
		return -1;
	a->own = ARENA_NEW(a->arena, struct v5);
	r = v5_parse_all(a, a->own, all, err);
	json_decref(all);
	return r;
}

/* ---- the reply ---- */

static void v5_put_place(const struct symtab_frame *f, struct json_writer *w)
{
	if (f->file.size)
		ask_put_path(f, w);
	if (f->line)
		json_put_uint(w, "line", f->line);
}

/* The number of the query @i in its stack. */
static size_t frame_number(const struct v5 *v, size_t i)
{
	size_t stack = SEARCH(0, v->n_stacks, k, v->stack_ends[k] <= i);

	return i - (stack ? v->stack_ends[stack - 1] : 0);
}

/* Clients take an empty name for a name: it is left out. */
static bool v5_put_name(struct ask *a, const struct symtab_frame *f, struct json_writer *w)
{
	if (!f->name.size && !f->linkage.size)
		return false;
	ask_put_name(a, f, w);
	return true;
}

static void v5_put_functions(struct ask *a, uint64_t addr, const struct symtab_frames *frames,
			     struct json_writer *w)
{
	const struct symtab_frame *outer = &frames->list[frames->n - 1];
	size_t before = w->out->size;

	/* Padding after a function has lines, and no function. */
	if (v5_put_name(a, outer, w)) {
		json_put_printf(w, "function_offset", "0x%llx", (unsigned long long)(addr - frames->start));
		json_put_printf(w, "function_size", "0x%llx",
				(unsigned long long)(frames->end - frames->start));
	}
	v5_put_place(outer, w);
	if (frames->n < 2)
		return;
	json_open_array(w, "inlines");
	for (size_t k = 0; k + 1 < frames->n && w->out->size - before < ASK_MAX_ANSWER; k++) {
		if (ask_frame_is_late(a, &frames->list[k]))
			break;
		json_open_object(w, NULL);
		v5_put_name(a, &frames->list[k], w);
		v5_put_place(&frames->list[k], w);
		json_close(w);
	}
	json_close(w);
}

static void v5_answer(void *arg, size_t i, const struct tables_answer *ans)
{
	struct ask *a = arg;
	const struct v5 *v = a->own;
	const struct tables_query *q = &a->queries[i];
	const struct v5_frame *f = &v->frames[i];
	struct json_writer w = { .out = &a->parts };
	bool full = ask_is_full(a);

	ask_part_begin(a, i);
	json_open_object(&w, NULL);
	json_put_uint(&w, "frame", frame_number(v, i));
	json_put_str(&w, "module", f->module < a->n_ids ? v->names[f->module] : STR("<unknown>"));
	if (f->is_wrong) {
		json_put_str(&w, "module_offset", f->wrong);
		json_put_text(&w, "error", "the offset is not a number from 0 to 2^64-1");
	} else {
		json_put_printf(&w, "module_offset", "0x%llx", (unsigned long long)q->addr);
	}
	if (ans->frames && !full)
		v5_put_functions(a, ans->addr, ans->frames, &w);
	json_close(&w);
	ask_part_end(a, i);
}

static void v5_put_modules(struct ask *a, const struct v5_job *job, struct json_writer *w)
{
	const struct v5 *v = a->own;

	json_open_object(w, "found_modules");
	for (size_t k = 0; k < job->n_modules; k++) {
		size_t i = job->first_module + k;
		AUTO(buf_done) struct buf key = { 0 };
		struct tables_module m;

		tables_request_module(a->request, i, &m);
		buf_add_str(&key, v->names[i]);
		buf_add_char(&key, '/');
		buf_add_str(&key, v->debug_ids[i]);
		json_key(w, buf_str(&key));
		/* null: it was not looked up. */
		if (v->used[i])
			json_put_bool(w, NULL, m.reason == FRAME_FOUND);
		else
			json_put_null(w, NULL);
	}
	json_close(w);
}

static void v5_job_begin(struct ask *a)
{
	json_open_object(&a->json, NULL);
	json_open_array(&a->json, "stacks");
}

static void v5_job_end(struct ask *a)
{
	struct v5 *v = a->own;

	json_close(&a->json);
	v5_put_modules(a, &v->jobs[v->job], &a->json);
	json_close(&a->json);
}

/* Close the stacks and jobs that end before query @i, and open those up to its own. */
static void v5_go_to(struct ask *a, size_t i)
{
	struct v5 *v = a->own;

	for (;;) {
		const struct v5_job *job = &v->jobs[v->job];

		if (v->stack == job->first_stack + job->n_stacks) {
			if (v->job + 1 == v->n_jobs)
				return;
			v5_job_end(a);
			v->job++;
			v5_job_begin(a);
			continue;
		}
		if (!v->is_open)
			json_open_array(&a->json, NULL);
		v->is_open = true;
		if (i < v->stack_ends[v->stack])
			return;
		json_close(&a->json);
		v->is_open = false;
		v->stack++;
	}
}

/*
 * While the request waited, packages were scanned: if a shortened ID is known by now, the client shall ask
 * again.
 */
static void look_at_guesses(struct ask *a)
{
	const struct v5 *v = a->own;
	struct store_figures f = { .all = true };
	struct build_id ignored;

	if (a->req && a->req->s->opts.store)
		store_figures(a->req->s->opts.store, &f);
	/* Before the first walk over the store's records is done, some are not known. */
	for (size_t i = 0; i < a->n_ids && a->req; i++)
		if (v->guessed[i] && (!f.all || v5_set_id(a, v->debug_ids[i], &ignored)))
			a->passes = true;
}

static const char *v5_begin(struct ask *a)
{
	const struct v5 *v = a->own;

	look_at_guesses(a);
	json_open_object(&a->json, NULL);
	json_open_array(&a->json, "results");
	if (v->n_jobs)
		v5_job_begin(a);
	return "application/json";
}

static void v5_put(struct ask *a, size_t i)
{
	v5_go_to(a, i);
	json_put_raw(&a->json, NULL, ask_part(a, i));
}

static const char *v5_end(struct ask *a)
{
	const struct v5 *v = a->own;

	if (v->n_jobs) {
		v5_go_to(a, SIZE_MAX);
		v5_job_end(a);
	}
	json_close(&a->json);
	json_close(&a->json);
	return "application/json";
}

const struct ask_form ask_v5 = { v5_parse, v5_begin, v5_answer, v5_put, v5_end };
