/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The output of `perf script`.
 *
 * A sample is a line with the command, its process, the time, the period and the event; then a line for each
 * frame, the innermost first, with an address, a symbol and in parentheses the file; then an empty line.
 * Options of perf decide which fields there are; every field may be missing. With --show-mmap-events there
 * are lines with the mappings of files, and addresses can be looked up.
 */
#include "profile/input.h"

#include <ctype.h>
#include <stdlib.h>
#include "profile/internal.h"
#include "profile/perf_maps.h"
#include "profile/words.h"

#define MAX_EVENTS 16u
#define NS_PER_S   INT64_C(1000000000)
#define MAX_LINES  1024u /* frames at one address */

struct perf_head {
	struct str comm, event, rest, time;
	uint64_t pid, tid, period;
	bool has_pid, has_time, has_period;
};

struct perf_reader {
	struct profile *p;
	struct perf_maps maps;
	PROFILE_TABLE(uint32_t) stack;        /* locations, leaf first */
	struct profile_line lines[MAX_LINES]; /* of the frame that is being read */
	uint32_t n_lines;
	struct str events[MAX_EVENTS];
	uint32_t n_events;
	int64_t first_ns, last_ns; /* of samples; since boot */
	/* A sample is being read. */
	bool open;
	struct perf_head head;
};

/* ---- words ---- */

/* "12345.678901:" */
static bool is_time(struct str s)
{
	bool dot = false;

	if (s.size < 4 || s.p[s.size - 1] != ':' || !isdigit((unsigned char)s.p[0]))
		return false;
	for (size_t i = 0; i + 1 < s.size; i++) {
		if (s.p[i] == '.' && !dot)
			dot = true;
		else if (!isdigit((unsigned char)s.p[i]))
			return false;
	}
	return dot;
}

/* Of a text that is_time(); 0: it is out of range. */
static int64_t time_ns(struct str s)
{
	struct str fraction = { s.p, s.size - 1 }, seconds = str_cut(&fraction, '.');
	int64_t ns = 0, unit = NS_PER_S / 10;
	uint64_t v;

	if (!str_to_u64(seconds, &v) || v > INT32_MAX)
		return 0;
	for (size_t i = 0; i < fraction.size; i++, unit /= 10)
		ns += (fraction.p[i] - '0') * unit;
	return (int64_t)v * NS_PER_S + ns;
}

/* "123", "123/124" */
static bool is_pid(struct str s, uint64_t *ret_pid, uint64_t *ret_tid)
{
	struct str pid = str_cut(&s, '/');

	if (pid.size && pid.p[0] == '-') { /* the kernel's own mappings are of -1 */
		pid.p++;
		pid.size--;
	}
	if (!str_to_u64(pid, ret_pid))
		return false;
	*ret_tid = *ret_pid;
	return !s.p || str_to_u64(s, ret_tid);
}

/* ---- heads ---- */

/* A command's name may have blanks: it ends where a number is followed by a CPU or a time, or by the end. */
static bool find_pid(struct str line, struct perf_head *h, struct str *rest)
{
	struct str left = line;
	const char *first = str_trim(line).p;

	while (left.size) {
		struct str w = words_next(&left), next, after = left;
		uint64_t pid, tid;

		if (!w.size)
			return false;
		if (w.p == first || !is_pid(w, &pid, &tid))
			continue;
		next = words_next(&after);
		if (next.size && next.p[0] != '[' && !is_time(next))
			continue;
		h->comm = str_trim((struct str){ line.p, (size_t)(w.p - line.p) });
		h->pid = pid;
		h->tid = tid;
		h->has_pid = true;
		*rest = left;
		return true;
	}
	return false;
}

/* "cpu-clock:ppp": the precision of the address is not part of the event. */
static struct str without_precision(struct str event)
{
	struct str s = event;

	while (s.size && (s.p[s.size - 1] == 'p' || s.p[s.size - 1] == 'P'))
		s.size--;
	if (s.size > 1 && s.size < event.size && s.p[s.size - 1] == ':')
		event.size = s.size - 1;
	return event;
}

static bool perf_read_head(struct str line, struct perf_head *h)
{
	struct str rest, w, before;
	uint64_t v;

	*h = (struct perf_head){ 0 };
	if (!find_pid(line, h, &rest))
		return false;
	before = rest;
	w = words_next(&rest);
	if (w.size && w.p[0] == '[') {
		before = rest;
		w = words_next(&rest);
	}
	h->has_time = is_time(w);
	h->time = w;
	if (!h->has_time)
		rest = before;
	before = rest;
	w = words_next(&rest);
	if (str_to_u64(w, &v)) {
		h->period = v;
		h->has_period = true;
		w = words_next(&rest);
	} else if (!w.size) {
		rest = before;
	}
	/* "cycles:u:", "sched:sched_switch:" */
	if (w.size > 1 && w.p[w.size - 1] == ':') {
		h->event = without_precision((struct str){ w.p, w.size - 1 });
		h->rest = rest;
	} else {
		h->rest = before;
	}
	return true;
}

static bool is_frame(struct str line)
{
	uint64_t addr;
	struct str rest = line, first = words_next(&rest);

	return line.size && (line.p[0] == '\t' || line.p[0] == ' ') && words_hex(first, &addr);
}

static bool is_record(const struct perf_head *h)
{
	struct str rest = h->rest;

	return str_starts(words_next(&rest), STR("PERF_RECORD_")) ||
	       str_starts(h->event, STR("PERF_RECORD_"));
}

bool profile_is_perf(struct str head)
{
	for (unsigned n = 0; n < 100 && head.p && head.size; n++) {
		struct str line = str_cut(&head, '\n');
		struct perf_head h;

		if (perf_read_head(line, &h) && (h.has_time || h.event.size || is_record(&h)))
			return true;
		/* A sample without an event: the frames that follow show it. */
		if (line.size && line.p[0] == '\t' && is_frame(line))
			return true;
	}
	return false;
}

/* ---- where files are mapped ---- */

/*
 * "[0x7f00(0x1000) @ 0x2000 08:01 123 0]: r-xp /usr/lib/libc.so.6"; with "<build ID>" in place of device and
 * inode.
 */
static void read_map(struct perf_reader *r, uint32_t pid, bool kernel, struct str s)
{
	struct str at = s, start = { 0 }, size, off, id = { 0 }, prot;
	struct profile_mapping m = { 0 };
	bool ends;
	uint64_t v;

	str_cut(&at, '[');
	if (!at.p)
		return;
	start = str_cut(&at, '(');
	size = str_cut(&at, ')');
	if (!at.p || !words_hex(start, &m.start) || !words_hex(size, &v) ||
	    add_overflows(m.start, v, &m.limit))
		return;
	words_next(&at); /* "@" */
	off = words_next(&at);
	ends = str_ends(off, STR("]:"));
	if (ends)
		off.size -= 2;
	if (!words_hex(off, &m.offset))
		return;
	if (memchr(at.p, '<', at.size)) {
		struct str more = at;

		str_cut(&more, '<');
		id = str_cut(&more, '>');
	}
	while (!ends && at.size && !str_starts(at, STR("]:"))) {
		at.p++;
		at.size--;
	}
	if (!ends)
		str_cut(&at, ':');
	prot = words_next(&at);
	at = str_trim(at);
	/* Data; but the kernel's own mapping with a build ID is "---p". */
	kernel = kernel || str_starts(at, STR("[kernel"));
	if (!prot.size || !at.size || !(kernel || memchr(prot.p, 'x', prot.size)))
		return;
	m.file = profile_add_string(r->p, at);
	m.build_id = profile_add_string(r->p, id);
	perf_maps_add(&r->maps, pid, kernel, &m);
}

/*
 * "(123:124):(120:120)": the new process has the maps of its parent. They are looked up by the process number
 * of frames.
 */
static void read_fork(struct perf_reader *r, struct str s)
{
	struct str at = s, child, parent;
	uint64_t c, p;

	str_cut(&at, '(');
	if (!at.p)
		return;
	child = str_cut(&at, ':');
	str_cut(&at, '(');
	if (!at.p)
		return;
	parent = str_cut(&at, ':');
	if (str_to_u64(child, &c) && str_to_u64(parent, &p))
		perf_maps_fork(&r->maps, (uint32_t)c, (uint32_t)p);
}

static void perf_read_record(struct perf_reader *r, const struct perf_head *h, struct str line)
{
	struct str at = line;
	const char *what = memmem(line.p, line.size, "PERF_RECORD_", 12);
	struct str name, pid;
	uint64_t p = h->pid, tid;
	bool kernel;

	at.size -= (size_t)(what - at.p);
	at.p = what;
	name = at;
	if (str_starts(name, STR("PERF_RECORD_FORK"))) {
		read_fork(r, at);
		return;
	}
	if (!str_starts(name, STR("PERF_RECORD_MMAP")))
		return;
	words_next(&at);
	pid = words_next(&at);
	if (pid.size && pid.p[pid.size - 1] == ':')
		pid.size--;
	kernel = pid.size && pid.p[0] == '-';
	is_pid(pid, &p, &tid);
	/* Mappings of the kernel and its modules are of process -1. */
	read_map(r, (uint32_t)p, kernel, at);
}

static int perf_mapping_of(struct perf_reader *r, uint64_t *addr, struct str file, uint32_t *ret,
			   struct err *err)
{
	struct profile_mapping m = { .file = profile_add_string(r->p, file) };
	int done = perf_maps_find(&r->maps, (uint32_t)r->head.pid, m.file, addr, ret, err);

	if (done < 0 || *ret != PROFILE_NONE || !file.size || str_eq(file, STR("[unknown]")))
		return done;
	/* As if the file were mapped at 0. */
	*ret = profile_add_mapping(r->p, &m);
	return 0;
}

/* ---- frames ---- */

/* Cut off the file in the last parentheses; parentheses within them belong to its name. */
static struct str cut_file(struct str *s)
{
	struct str file = { 0 };
	unsigned depth = 0;

	*s = str_trim(*s);
	if (!s->size || s->p[s->size - 1] != ')')
		return file;
	for (size_t i = s->size; i-- > 0;) {
		depth += s->p[i] == ')';
		if (s->p[i] == '(' && --depth == 0) {
			file = (struct str){ s->p + i + 1, s->size - i - 2 };
			s->size = i;
			break;
		}
	}
	*s = str_trim(*s);
	if (str_ends(file, STR(" (deleted)")))
		file.size -= 10;
	return file;
}

static struct str without_offset(struct str name)
{
	const char *plus = name.size ? memrchr(name.p, '+', name.size) : NULL;
	uint64_t v;

	if (plus && str_starts((struct str){ plus, (size_t)(name.p + name.size - plus) }, STR("+0x")) &&
	    words_hex((struct str){ plus + 1, (size_t)(name.p + name.size - plus) - 1 }, &v))
		name.size = (size_t)(plus - name.p);
	return name;
}

static void perf_add_name(struct perf_reader *r, struct str name)
{
	struct profile_function f = { 0 };

	if (!name.size || str_eq(name, STR("[unknown]")) || r->n_lines == MAX_LINES)
		return;
	f.name = f.system_name = profile_add_string(r->p, name);
	r->lines[r->n_lines++] = (struct profile_line){ .function = profile_add_function(r->p, &f) };
}

static int read_frame(struct perf_reader *r, struct str line, struct err *err)
{
	struct profile_location l = { .mapping = PROFILE_NONE };
	struct str rest = line, addr = words_next(&rest), file = cut_file(&rest);

	if (!words_hex(addr, &l.addr))
		return 0; /* a source line, or other output that an option adds */
	perf_add_name(r, without_offset(rest));
	if (str_eq(file, STR("inlined")))
		return 0; /* it is inlined into the next line, which has the address too */
	if (r->stack.n == PROFILE_MAX_DEPTH)
		return err_set(err, ERR_LIMIT, "the stack is deeper than %u", PROFILE_MAX_DEPTH);
	if (perf_mapping_of(r, &l.addr, file, &l.mapping, err) < 0)
		return -1;
	/* Callers are given by return addresses; the call is before that. */
	if (r->stack.n && l.addr)
		l.addr--;
	if (!profile_room(r->p, &r->stack, 1))
		return profile_err_memory(r->p, err);
	r->stack.p[r->stack.n++] = profile_add_location(r->p, &l, r->lines, r->n_lines);
	r->n_lines = 0;
	return 0;
}

/* ---- samples ---- */

static void note_time(struct perf_reader *r)
{
	int64_t ns = r->head.has_time ? time_ns(r->head.time) : 0;

	if (!ns)
		return;
	r->first_ns = r->first_ns ? MIN(r->first_ns, ns) : ns;
	r->last_ns = MAX(r->last_ns, ns);
}

static int perf_end_sample(struct perf_reader *r, struct err *err)
{
	struct profile_label labels[3] = { 0 };
	int64_t values[MAX_EVENTS + 1] = { 1 };
	uint32_t stack, n = 0;

	if (!r->open)
		return 0;
	r->open = false;
	note_time(r);
	for (uint32_t i = 0; i < r->n_events; i++)
		if (str_eq(r->events[i], r->head.event))
			values[i + 1] = r->head.has_period ? (int64_t)MIN(r->head.period, (uint64_t)INT64_MAX)
							   : 1;
	stack = profile_add_stacks(r->p, 0, r->stack.p, r->stack.n);
	labels[n++] = (struct profile_label){ .key = profile_add_string(r->p, STR("comm")),
					      .str = profile_add_string(r->p, r->head.comm) };
	labels[n++] = (struct profile_label){ .key = profile_add_string(r->p, STR("pid")),
					      .num = (int64_t)r->head.pid };
	labels[n++] = (struct profile_label){ .key = profile_add_string(r->p, STR("tid")),
					      .num = (int64_t)r->head.tid };
	profile_add_sample(r->p, stack, profile_add_labels(r->p, labels, n), values);
	r->stack.n = r->n_lines = 0;
	return profile_build_end(r->p, err);
}

static int perf_read_line(struct perf_reader *r, struct str line, struct err *err)
{
	struct str trimmed = str_trim(line), rest;
	struct perf_head h;
	int done;

	if (!trimmed.size)
		return perf_end_sample(r, err);
	if (line.p[0] == '#')
		return 0;
	if (r->open && (line.p[0] == '\t' || (is_frame(line) && !(perf_read_head(line, &h) && h.has_time))))
		return read_frame(r, line, err);
	if (!perf_read_head(line, &h))
		return line.p[0] == ' ' || line.p[0] == '\t'
			       ? 0
			       : err_set(err, ERR_INVALID, "is not output of perf script");
	if (perf_end_sample(r, err) < 0)
		return -1;
	if (is_record(&h)) {
		perf_read_record(r, &h, line);
		return profile_build_end(r->p, err);
	}
	r->head = h;
	r->open = true;
	/* Without call chains the one frame is in the same line. */
	rest = h.rest;
	if (!str_trim(rest).size || !is_frame(rest))
		return 0;
	r->maps.flat = true;
	done = read_frame(r, rest, err);
	r->maps.flat = false;
	return done;
}

static bool in_nanoseconds(struct str event)
{
	return str_starts(event, STR("cpu-clock")) || str_starts(event, STR("task-clock"));
}

/* Events become sample types, so they must be known before the first sample. */
static int find_events(struct perf_reader *r, struct str text, struct err *err)
{
	while (text.p && text.size) {
		struct str line = str_cut(&text, '\n');
		struct perf_head h;
		uint32_t i = 0;

		if (!line.size || line.p[0] == '\t' || !perf_read_head(line, &h) || !h.event.size ||
		    is_record(&h))
			continue;
		while (i < r->n_events && !str_eq(r->events[i], h.event))
			i++;
		if (i < r->n_events)
			continue;
		if (r->n_events == MAX_EVENTS)
			return err_set(err, ERR_LIMIT, "has more than %u kinds of events", MAX_EVENTS);
		r->events[r->n_events++] = h.event;
	}
	profile_add_type(r->p, STR("samples"), STR("count"));
	for (uint32_t i = 0; i < r->n_events; i++)
		profile_add_type(r->p, r->events[i],
				 in_nanoseconds(r->events[i]) ? STR("nanoseconds") : STR("count"));
	if (r->p->types.n > 1)
		r->p->period_type = r->p->types.p[1];
	return 0;
}

static int perf_read_all(struct perf_reader *r, struct str text, struct err *err)
{
	uint64_t n = 0;

	if (find_events(r, text, err) < 0)
		return -1;
	while (text.p && text.size) {
		struct str line = str_cut(&text, '\n');

		n++;
		if (line.size && perf_read_line(r, line, err) < 0)
			return err_in(err, "line %llu", (unsigned long long)n);
		if (!line.size && perf_end_sample(r, err) < 0)
			return -1;
	}
	if (perf_end_sample(r, err) < 0)
		return -1;
	r->p->duration_ns = r->last_ns - r->first_ns;
	return r->p->n_samples ? 0 : err_set(err, ERR_INVALID, "has no samples");
}

int profile_read_perf(struct str text, const struct profile_limits *limits, struct profile **ret,
		      struct err *err)
{
	struct perf_reader *r = NEW(struct perf_reader);
	int done;

	r->p = r->maps.p = profile_new(limits);
	done = perf_read_all(r, text, err);
	perf_maps_done(&r->maps);
	free(r->stack.p);
	if (done < 0)
		profile_free(r->p);
	else
		*ret = r->p;
	free(r);
	return done;
}
