/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Java's profiles as text: attributes, stacks of numbers, the names of these numbers.
 *
 *	--- heapz 1 ---                       or: --- contentionz 1 ---
 *	format = java
 *	resolution = bytes
 *	  7048     1 @ 0x00000003 0x00000004      bytes and objects; delay and contentions
 *
 *	 0x00000003 com.example.f (F.java:10)
 */
#include "profile/java.h"

#include <stdlib.h>
#include "base/search.h"
#include "profile/internal.h"
#include "profile/legacy.h"
#include "profile/prune.h"
#include "profile/words.h"

#define HEAP_RATE 524288u /* bytes between two samples of a heap */

/* ---- names ---- */

/* "f (F.java:10)", "f (/lib/libjvm.so)", "GC". */
static void java_read_place(struct profile *p, struct str text, struct profile_line *ret)
{
	const char *open = text.size && text.p[text.size - 1] == ')' ? memmem(text.p, text.size, " (", 2)
								     : NULL;
	struct str name = text, file = STR("");
	struct profile_function f = { 0 };

	/* The last one: the name may have parentheses. */
	for (const char *at = open; at; at = memmem(at + 1, text.size - (size_t)(at + 1 - text.p), " (", 2))
		open = at;
	if (open) {
		const char *colon;
		int64_t line;

		name = str_trim((struct str){ text.p, (size_t)(open - text.p) });
		file = (struct str){ open + 2, text.size - (size_t)(open + 2 - text.p) - 1 };
		colon = file.size ? memrchr(file.p, ':', file.size) : NULL;
		if (colon &&
		    words_int((struct str){ colon + 1, file.size - (size_t)(colon + 1 - file.p) }, &line)) {
			ret->line = MAX(line, (int64_t)0);
			file.size = (size_t)(colon - file.p);
		} else {
			/* A library. */
			file = path_basename(file);
		}
	} else if (memmem(text.p, text.size, "generated stub/JIT", 18)) {
		name = STR("STUB");
	}
	f.name = f.system_name = profile_add_string(p, name);
	f.file = profile_add_string(p, file);
	ret->function = profile_add_function(p, &f);
}

static int by_java_id(const void *a, const void *b)
{
	const struct java_name *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

void java_names_read(struct java_names *n, struct profile *p, struct str text)
{
	n->p = p;
	while (text.p && text.size) {
		struct str line = str_trim(str_cut(&text, '\n')), word = words_next(&line);
		struct java_name one = { 0 };

		line = str_trim(line);
		if (!str_starts(word, STR("0x")) || !words_hex(word, &one.id) || !line.size)
			continue;
		java_read_place(p, line, &one.line);
		if (!profile_push(p, &n->list, one))
			profile_index_of(p)->failed = true;
	}
	if (n->list.n)
		qsort(n->list.p, n->list.n, sizeof(*n->list.p), by_java_id);
}

void java_names_done(struct java_names *n)
{
	if (n->p)
		profile_table_free(n->p, &n->list);
}

uint32_t java_location(struct java_names *n, uint64_t id)
{
	size_t i = SEARCH(0, n->list.n, k, n->list.p[k].id <= id);
	struct profile_location l = { .mapping = PROFILE_NONE };

	if (i && n->list.p[i - 1].id == id)
		return profile_add_location(n->p, &l, &n->list.p[i - 1].line, 1);
	l.addr = id;
	return profile_add_location(n->p, &l, NULL, 0);
}

/* ---- heaps and contentions ---- */

struct java_reader {
	struct profile *p;
	struct java_names names;
	bool is_heap;
	struct str resolution;
	int64_t period;
	PROFILE_TABLE(uint32_t) stack;
};

static bool java_head(struct str line, bool *ret_heap)
{
	*ret_heap = str_eq(line, STR("--- heapz 1 ---"));
	return *ret_heap || str_eq(line, STR("--- contentionz 1 ---"));
}

/* "ms since reset = 6019923" */
static bool java_attribute(struct str line, struct str *ret_name, struct str *ret_value)
{
	if (!line.size || !memchr(line.p, '=', line.size))
		return false;
	*ret_name = str_trim(str_cut(&line, '='));
	*ret_value = str_trim(line);
	return true;
}

/* C++ programs write contentions with the same first line, and with neither a format nor a resolution. */
bool java_is_profile(struct str head)
{
	struct str name, value;
	bool is_heap, has_resolution = false;

	if (!java_head(str_trim(str_cut(&head, '\n')), &is_heap))
		return false;
	while (head.p && head.size) {
		struct str line = str_trim(str_cut(&head, '\n'));

		if (!line.size)
			continue;
		if (!java_attribute(line, &name, &value))
			break;
		if (str_eq(name, STR("format")))
			return str_eq(value, STR("java"));
		has_resolution = has_resolution || str_eq(name, STR("resolution"));
	}
	return has_resolution;
}

static int java_put_attribute(struct java_reader *r, struct str name, struct str value, struct err *err)
{
	int64_t v;

	if (str_eq(name, STR("format")))
		return str_eq(value, STR("java")) ? 0
						  : err_set(err, ERR_INVALID, "is not of the format java");
	if (str_eq(name, STR("resolution"))) {
		r->resolution = value;
		return 0;
	}
	if (!words_int(value, &v) || v < 0)
		return err_set(err, ERR_INVALID, "has no number");
	if (str_eq(name, STR("sampling period")))
		r->period = r->p->period = v;
	else if (str_eq(name, STR("ms since reset")))
		r->p->duration_ns = legacy_multiply(v, 1000000);
	return 0;
}

static void java_types(struct java_reader *r)
{
	struct profile *p = r->p;

	profile_add_type(p, r->is_heap ? STR("inuse_objects") : STR("contentions"), STR("count"));
	profile_add_type(p, r->is_heap ? STR("inuse_space") : STR("delay"),
			 r->resolution.size ? r->resolution
			 : r->is_heap       ? STR("bytes")
					    : STR("nanoseconds"));
	if (!r->is_heap)
		p->period_type = p->types.p[0];
}

static int java_values(struct java_reader *r, int64_t *v, struct profile_label *ret_size, struct err *err)
{
	if (!r->is_heap) {
		v[0] = r->period ? legacy_multiply(v[0], r->period) : v[0];
		v[1] = r->period ? legacy_multiply(v[1], r->period) : v[1];
		return 0;
	}
	if (v[0] <= 0 || v[1] < 0)
		return err_set(err, ERR_INVALID, "has no number of objects");
	ret_size->key = ret_size->unit = profile_add_string(r->p, STR("bytes"));
	ret_size->num = v[1] / v[0];
	legacy_scale_heap(&v[0], &v[1], HEAP_RATE);
	return 0;
}

/* 1: it is no sample. */
static int java_read_sample(struct java_reader *r, struct str line, struct err *err)
{
	struct profile_label size = { 0 };
	uint32_t stack;
	int64_t v[2], swapped[2];
	uint64_t id;

	if (!words_scan(&line, "nn@", v))
		return 1;
	swapped[0] = v[1];
	swapped[1] = v[0];
	if (java_values(r, swapped, &size, err) < 0)
		return -1;
	r->stack.n = 0;
	for (struct str w = words_next(&line); w.size; w = words_next(&line)) {
		if (!words_hex(w, &id))
			return err_set(err, ERR_INVALID, "has an invalid address");
		if (r->stack.n == PROFILE_MAX_DEPTH)
			return err_set(err, ERR_LIMIT, "the stack is deeper than %u", PROFILE_MAX_DEPTH);
		if (!profile_push(r->p, &r->stack, java_location(&r->names, id)))
			return profile_err_memory(r->p, err);
	}
	stack = profile_add_stacks(r->p, 0, r->stack.p, r->stack.n);
	r->stack.n = 0;
	profile_add_sample(r->p, stack, profile_add_labels(r->p, &size, r->is_heap), swapped);
	return profile_build_end(r->p, err);
}

static int java_read_text(struct java_reader *r, struct str text, struct err *err)
{
	bool has_types = false;
	struct str name, value;
	uint64_t n = 1;

	java_head(str_trim(str_cut(&text, '\n')), &r->is_heap);
	java_names_read(&r->names, r->p, text);
	while (text.p && text.size) {
		struct str line = str_trim(str_cut(&text, '\n'));
		int done = 0;

		n++;
		if (!line.size)
			continue;
		if (!has_types && java_attribute(line, &name, &value)) {
			done = java_put_attribute(r, name, value, err);
		} else {
			if (!has_types)
				java_types(r);
			has_types = true;
			done = java_read_sample(r, line, err);
		}
		if (done < 0)
			return err_in(err, "line %llu", (unsigned long long)n);
		if (done)
			break;
	}
	profile_set_usual_drops(r->p, r->is_heap ? PROFILE_OF_HEAP : PROFILE_OF_LOCKS);
	return r->p->n_samples ? 0 : err_set(err, ERR_INVALID, "has no samples");
}

int java_read(struct str text, const struct profile_limits *limits, struct profile **ret, struct err *err)
{
	AUTO(profile_freep) struct profile *p = profile_new(limits);
	struct java_reader r = { .p = p };
	int done = java_read_text(&r, text, err);

	java_names_done(&r.names);
	profile_table_free(p, &r.stack);
	if (done == 0)
		*ret = TAKE(p);
	return done;
}
