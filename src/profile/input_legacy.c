/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles that are text: Go's (debug=1), heap dumps of gperftools and jemalloc. Java's and lists of threads have their
 * own files (java.h, threadz.h).
 *
 *	heap profile: 1: 512 [9: 4608] @ heap/1048576         one line per stack; Go, gperftools
 *	1: 512 [9: 4608] @ 0x46b2b5 0x46c9a1
 *	#	0x46b2b4	main.f+0x12	/src/f.go:12        Go adds the functions
 *
 *	heap_v2/524288                                        jemalloc: the stack, then its numbers
 *	@ 0x46b2b5 0x46c9a1
 *	  t*: 1: 512 [0: 0]
 *
 *	goroutine profile: total 7                            a number per stack
 *	--- contention:                                       time and number per stack
 *
 * After "MAPPED_LIBRARIES:" or "--- Memory map: ---" is the text of /proc/self/maps. Addresses are those
 * that calls return to.
 */
#include "profile/input.h"

#include <math.h>
#include "profile/internal.h"
#include "profile/java.h"
#include "profile/legacy.h"
#include "profile/maps.h"
#include "profile/prune.h"
#include "profile/threadz.h"
#include "profile/words.h"

enum kind { KIND_HEAP, KIND_JEMALLOC, KIND_COUNT, KIND_CONTENTION };

/* The function that a comment gives for an address. */
struct named {
	uint64_t addr;
	struct profile_line line;
};

struct legacy_reader {
	struct profile *p;
	enum kind kind;
	struct profile_maps maps;
	bool has_allocs;    /* freed objects are counted too */
	uint64_t rate;      /* of heaps: bytes between two samples; 0: every allocation */
	int64_t period, hz; /* of contentions */
	/* A sample is being read. */
	bool open;
	int64_t v[4];
	PROFILE_TABLE(uint64_t) addrs; /* leaf first */
	PROFILE_TABLE(struct named) named;
	PROFILE_TABLE(uint32_t) stack;
	PROFILE_TABLE(struct profile_line) lines;
	PROFILE_TABLE(struct profile_label) labels;
};

/* ---- the first line ---- */

static bool heap_head(struct str line, int64_t v[4], struct str *ret_what)
{
	if (!str_starts(line, STR("heap profile:")))
		return false;
	line.p += 13;
	line.size -= 13;
	if (!words_scan(&line, "n:n[n:n]@", v))
		return false;
	*ret_what = words_next(&line);
	return true;
}

/* "goroutine profile: total 7" */
static bool count_head(struct str line, struct str *ret_what)
{
	uint64_t n;

	*ret_what = words_next(&line);
	return str_eq(words_next(&line), STR("profile:")) && str_eq(words_next(&line), STR("total")) &&
	       str_to_u64(str_trim(line), &n) && ret_what->size;
}

static bool contention_head(struct str line)
{
	return str_starts(line, STR("--- contention")) || str_starts(line, STR("--- mutex"));
}

bool profile_is_legacy(struct str head)
{
	const struct str whole = head;
	uint64_t n = 0;
	struct str line = legacy_first_line(&head, &n), what;
	int64_t v[4];

	return heap_head(line, v, &what) || str_starts(line, STR("heap_v2/")) || count_head(line, &what) ||
	       contention_head(line) || java_is_profile(whole) || threadz_is_profile(whole);
}

/* "heap_v2/524288", "heap/1048576", "heapprofile" */
static int set_rate(struct legacy_reader *r, struct str what, struct err *err)
{
	struct str name = str_cut(&what, '/');
	bool sampled = str_eq(name, STR("heap")) || str_eq(name, STR("heap_v2")) ||
		       str_eq(name, STR("heapz_v2"));

	if (sampled && what.size && !str_to_u64(what, &r->rate))
		return err_set(err, ERR_INVALID, "has no number in its first line");
	/* Go prints twice the rate. */
	if (str_eq(name, STR("heap")))
		r->rate /= 2;
	r->p->period = r->rate ? (int64_t)MIN(r->rate, (uint64_t)INT64_MAX) : 1;
	return 0;
}

static void heap_types(struct legacy_reader *r)
{
	struct profile *p = r->p;

	/* The last type is the default. */
	if (r->has_allocs) {
		profile_add_type(p, STR("alloc_objects"), STR("count"));
		profile_add_type(p, STR("alloc_space"), STR("bytes"));
	}
	profile_add_type(p, r->has_allocs ? STR("inuse_objects") : STR("objects"), STR("count"));
	profile_add_type(p, r->has_allocs ? STR("inuse_space") : STR("space"), STR("bytes"));
	p->period_type.type = profile_add_string(p, STR("space"));
	p->period_type.unit = profile_add_string(p, STR("bytes"));
}

/* jemalloc counts freed objects only if configured to: the first "t*:" line has the totals. */
static bool jemalloc_has_allocs(struct str text)
{
	for (unsigned n = 0; n < 8 && text.p && text.size; n++) {
		struct str line = str_cut(&text, '\n');
		int64_t v[4];

		if (words_scan(&line, "t*:n:n[n:n]", v))
			return v[2] || v[3];
	}
	return false;
}

static int legacy_read_head(struct legacy_reader *r, struct str line, struct str text, struct err *err)
{
	struct profile *p = r->p;
	struct str what;
	int64_t v[4];

	if (heap_head(line, v, &what)) {
		r->kind = KIND_HEAP;
		/* Of the growth of the heap and its unused memory the second pair repeats the first one. */
		r->has_allocs = ((v[2] != v[0] && v[2]) || (v[3] != v[1] && v[3])) &&
				str_starts(what, STR("heap"));
		heap_types(r);
		return set_rate(r, what, err);
	}
	if (str_starts(line, STR("heap_v2/"))) {
		r->kind = KIND_JEMALLOC;
		r->has_allocs = jemalloc_has_allocs(text);
		heap_types(r);
		return set_rate(r, line, err);
	}
	p->period = 1;
	if (count_head(line, &what)) {
		r->kind = KIND_COUNT;
		profile_add_type(p, what, STR("count"));
		p->period_type = p->types.p[0];
		return 0;
	}
	if (!contention_head(line))
		return err_set(err, ERR_INVALID, "is not a profile of Go, gperftools or jemalloc");
	r->kind = KIND_CONTENTION;
	r->period = 1;
	profile_add_type(p, STR("contentions"), STR("count"));
	profile_add_type(p, STR("delay"), STR("nanoseconds"));
	p->period_type = p->types.p[0];
	return 0;
}

/* ---- values ---- */

static void heap_values(struct legacy_reader *r, int64_t *values)
{
	int64_t *inuse = values + (r->has_allocs ? 2 : 0);

	inuse[0] = r->v[0];
	inuse[1] = r->v[1];
	legacy_scale_heap(&inuse[0], &inuse[1], r->rate);
	if (r->has_allocs) {
		values[0] = r->v[2];
		values[1] = r->v[3];
		legacy_scale_heap(&values[0], &values[1], r->rate);
	}
}

static void values_of(struct legacy_reader *r, int64_t *values)
{
	switch (r->kind) {
	case KIND_HEAP:
	case KIND_JEMALLOC:
		heap_values(r, values);
		break;
	case KIND_COUNT:
		values[0] = r->v[0];
		break;
	case KIND_CONTENTION:
		values[0] = legacy_multiply(r->v[1], r->period);
		values[1] = r->hz > 0 ? legacy_round((double)r->v[0] * (double)r->period /
						     ((double)r->hz / 1e9))
				      : r->v[0];
		break;
	}
}

/* ---- samples ---- */

static int legacy_push_location(struct legacy_reader *r, uint64_t addr, uint32_t *named, struct err *err)
{
	struct profile_location l = { .addr = addr - (addr != 0) };

	l.mapping = profile_maps_find(&r->maps, l.addr);
	/* Comments come in the order of addresses; some addresses have none, inlined calls have one each. */
	r->lines.n = 0;
	while (*named < r->named.n && r->named.p[*named].addr == l.addr)
		if (!profile_push(r->p, &r->lines, r->named.p[(*named)++].line))
			return profile_err_memory(r->p, err);
	if (!profile_push(r->p, &r->stack, profile_add_location(r->p, &l, r->lines.p, r->lines.n)))
		return profile_err_memory(r->p, err);
	return 0;
}

/* The size of the objects that were allocated here, as a label; two sizes are two samples. */
static int size_label(struct legacy_reader *r, struct err *err)
{
	unsigned of = r->v[0] || !r->has_allocs ? 0 : 2;
	struct profile_label l = { .key = profile_add_string(r->p, STR("bytes")) };

	if (r->kind != KIND_HEAP || !r->v[of])
		return 0;
	l.unit = l.key;
	/* The one quotient that does not fit is of INT64_MIN. */
	l.num = r->v[of] == -1 ? legacy_multiply(r->v[of + 1], -1) : r->v[of + 1] / r->v[of];
	return profile_push(r->p, &r->labels, l) ? 0 : profile_err_memory(r->p, err);
}

static int legacy_end_sample(struct legacy_reader *r, struct err *err)
{
	uint32_t stack, named = 0;
	int64_t values[4] = { 0 };

	if (!r->open)
		return 0;
	r->open = false;
	r->stack.n = 0;
	for (uint32_t i = 0; i < r->addrs.n; i++)
		if (legacy_push_location(r, r->addrs.p[i], &named, err) < 0)
			return -1;
	stack = profile_add_stacks(r->p, 0, r->stack.p, r->stack.n);
	r->stack.n = 0;
	if (size_label(r, err) < 0)
		return -1;
	values_of(r, values);
	profile_add_sample(r->p, stack, profile_add_labels(r->p, r->labels.p, r->labels.n), values);
	return profile_build_end(r->p, err);
}

static int legacy_read_stack(struct legacy_reader *r, struct str line, struct err *err)
{
	r->addrs.n = r->named.n = r->labels.n = 0;
	for (struct str w = words_next(&line); w.size; w = words_next(&line)) {
		uint64_t addr;

		if (!words_hex(w, &addr))
			return err_set(err, ERR_INVALID, "has an invalid address");
		if (r->addrs.n == PROFILE_MAX_DEPTH)
			return err_set(err, ERR_LIMIT, "the stack is deeper than %u", PROFILE_MAX_DEPTH);
		if (!profile_push(r->p, &r->addrs, addr))
			return profile_err_memory(r->p, err);
	}
	return 0;
}

/* ---- comments ---- */

/* "0x46b2b4	main.f+0x12	/src/f.go:12": the file may have ':' in it, the name '+'. */
static int legacy_read_name(struct legacy_reader *r, struct str line, struct err *err)
{
	struct profile_function f = { 0 };
	struct named n = { 0 };
	struct str addr, name;
	const char *at;
	int64_t v;

	line = str_trim(line);
	addr = str_trim(str_cut(&line, '\t'));
	line = str_trim(line);
	name = str_trim(str_cut(&line, '\t'));
	line = str_trim(line);
	if (!str_starts(addr, STR("0x")) || !words_hex(addr, &n.addr) || !name.size ||
	    r->named.n == PROFILE_MAX_DEPTH)
		return 0;
	at = memrchr(name.p, '+', name.size);
	if (at)
		name.size = (size_t)(at - name.p);
	at = line.size ? memrchr(line.p, ':', line.size) : NULL;
	if (at && words_int((struct str){ at + 1, line.size - (size_t)(at + 1 - line.p) }, &v) && v >= 0) {
		n.line.line = v;
		line.size = (size_t)(at - line.p);
	}
	f.name = f.system_name = profile_add_string(r->p, name);
	f.file = profile_add_string(r->p, line);
	n.line.function = profile_add_function(r->p, &f);
	return profile_push(r->p, &r->named, n) ? 0 : profile_err_memory(r->p, err);
}

/* A string in quotes, with \" and \\ in it; other escaped characters are taken literally. */
static bool cut_quoted(struct str *s, struct buf *out)
{
	size_t i = 1;

	out->size = 0;
	*s = str_trim(*s);
	if (!s->size || s->p[0] != '"')
		return false;
	for (; i < s->size && s->p[i] != '"'; i++) {
		if (s->p[i] == '\\' && i + 1 < s->size && (s->p[i + 1] == '"' || s->p[i + 1] == '\\'))
			i++;
		buf_add(out, s->p + i, 1);
	}
	if (i >= s->size)
		return false;
	*s = (struct str){ s->p + i + 1, s->size - i - 1 };
	return true;
}

/* "{"key":"value", "other":"value"}" */
static int legacy_read_labels(struct legacy_reader *r, struct str line, struct err *err)
{
	AUTO(buf_done) struct buf key = { 0 }, value = { 0 };

	if (!words_scan(&line, "{", NULL))
		return 0;
	do {
		struct profile_label l = { 0 };

		if (!cut_quoted(&line, &key) || !words_scan(&line, ":", NULL) || !cut_quoted(&line, &value))
			return 0;
		if (r->labels.n == PROFILE_MAX_LABELS)
			return err_set(err, ERR_LIMIT, "has more than %u labels", PROFILE_MAX_LABELS);
		l.key = profile_add_string(r->p, buf_str(&key));
		l.str = profile_add_string(r->p, buf_str(&value));
		if (!profile_push(r->p, &r->labels, l))
			return profile_err_memory(r->p, err);
	} while (words_scan(&line, ",", NULL));
	return 0;
}

static int read_comment(struct legacy_reader *r, struct str line, struct err *err)
{
	struct str text = { line.p + 1, line.size - 1 };

	if (!r->open)
		return 0;
	if (text.size && text.p[0] == '\t')
		return legacy_read_name(r, text, err);
	text = str_trim(text);
	if (!str_starts(text, STR("labels:")))
		return 0;
	return legacy_read_labels(r, (struct str){ text.p + 7, text.size - 7 }, err);
}

/* ---- lines ---- */

/* "cycles/second = 3100000000"; others are ignored. */
static int read_attribute(struct legacy_reader *r, struct str line, struct err *err)
{
	struct str name = str_trim(str_cut(&line, '='));
	bool is_hz = str_eq(name, STR("cycles/second")), is_period = str_eq(name, STR("sampling period")),
	     is_duration = str_eq(name, STR("ms since reset"));
	int64_t v;

	if (!is_hz && !is_period && !is_duration)
		return 0;
	if (!words_int(str_trim(line), &v))
		return err_set(err, ERR_INVALID, "has no number");
	if (v <= 0)
		return 0;
	if (is_hz)
		r->hz = v;
	else if (is_period)
		r->period = r->p->period = v;
	else
		r->p->duration_ns = legacy_multiply(v, 1000000);
	return 0;
}

static int read_jemalloc(struct legacy_reader *r, struct str line, struct err *err)
{
	if (words_scan(&line, "@", NULL)) {
		if (legacy_end_sample(r, err) < 0)
			return -1;
		r->open = true;
		memset(r->v, 0, sizeof(r->v));
		return legacy_read_stack(r, line, err);
	}
	if (r->open && words_scan(&line, "t*:n:n[n:n]", r->v))
		return 0;
	/* Of one thread, or of all before the first stack. */
	return line.size && line.p[0] == 't' ? 0 : err_set(err, ERR_INVALID, "cannot be parsed");
}

/* 1: the samples end here; after them there may be other sections. */
static int legacy_read_line(struct legacy_reader *r, struct str line, struct err *err)
{
	static const char *const forms[] = {
		[KIND_HEAP] = "n:n[n:n]@",
		[KIND_COUNT] = "n@",
		[KIND_CONTENTION] = "nn@",
	};

	if (!line.size)
		return 0;
	if (line.p[0] == '#')
		return read_comment(r, line, err);
	if (r->kind == KIND_JEMALLOC)
		return read_jemalloc(r, line, err);
	if (legacy_end_sample(r, err) < 0)
		return -1;
	if (words_scan(&line, forms[r->kind], r->v)) {
		r->open = true;
		return legacy_read_stack(r, line, err);
	}
	if (r->kind == KIND_CONTENTION && memchr(line.p, '=', line.size))
		return read_attribute(r, line, err);
	if (r->kind != KIND_HEAP && str_starts(line, STR("---")))
		return 1;
	return err_set(err, ERR_INVALID, "cannot be parsed");
}

static int legacy_read_all(struct legacy_reader *r, struct str text, struct err *err)
{
	struct str maps = legacy_cut_maps(&text), line;
	uint64_t n = 0;
	int done = 0;

	line = legacy_first_line(&text, &n);
	if (legacy_read_head(r, line, text, err) < 0)
		return err_in(err, "line %llu", (unsigned long long)n);
	profile_maps_read(&r->maps, r->p, maps);
	while (done == 0 && text.p && text.size) {
		n++;
		done = legacy_read_line(r, words_line(&text), err);
		if (done < 0)
			return err_in(err, "line %llu", (unsigned long long)n);
	}
	if (legacy_end_sample(r, err) < 0)
		return -1;
	profile_set_usual_drops(r->p, r->kind == KIND_CONTENTION ? PROFILE_OF_LOCKS
				      : r->kind == KIND_COUNT    ? PROFILE_OF_CPU
								 : PROFILE_OF_HEAP);
	return r->p->n_samples ? 0 : err_set(err, ERR_INVALID, "has no samples");
}

int profile_read_legacy(struct str text, const struct profile_limits *limits, struct profile **ret,
			struct err *err)
{
	struct legacy_reader r = { 0 };
	int done;

	if (java_is_profile(text))
		return java_read(text, limits, ret, err);
	if (threadz_is_profile(text))
		return threadz_read(text, limits, ret, err);
	r.p = profile_new(limits);
	done = legacy_read_all(&r, text, err);

	profile_maps_done(&r.maps);
	profile_table_free(r.p, &r.addrs);
	profile_table_free(r.p, &r.named);
	profile_table_free(r.p, &r.stack);
	profile_table_free(r.p, &r.lines);
	profile_table_free(r.p, &r.labels);
	if (done < 0)
		profile_free(r.p);
	else
		*ret = r.p;
	return done;
}
