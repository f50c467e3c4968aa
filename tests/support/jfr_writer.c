/* SPDX-License-Identifier: Apache-2.0 */
#include "jfr_writer.h"

#include <stdio.h>
#include <string.h>

enum {
	T_METADATA,
	T_CHECKPOINT,
	T_LONG = 10,
	T_INT,
	T_BOOLEAN,
	T_FLOAT,
	T_STRING,
	T_CLASS = 20,
	T_SYMBOL,
	T_METHOD,
	T_STACK,
	T_FRAME,
	T_FRAME_TYPE,
	T_STATE,
	T_THREAD,
	T_POINT,
	T_SAMPLE = 101,
	T_CPU_TIME,
	T_WALL,
	T_ALLOC,
	T_MONITOR,
	T_SETTING,
	T_UNKNOWN,
};

static const struct {
	int id;
	const char *name;
	bool event;
	struct {
		const char *name;
		int type;
		bool constant, array;
	} fields[9];
} classes[] = {
	{ T_LONG, "long" },
	{ T_INT, "int" },
	{ T_BOOLEAN, "boolean" },
	{ T_FLOAT, "float" },
	{ T_STRING, "java.lang.String" },
	{ T_CLASS, "java.lang.Class", false, { { "modifiers", T_INT }, { "name", T_SYMBOL, true } } },
	{ T_SYMBOL, "jdk.types.Symbol", false, { { "string", T_STRING } } },
	{ T_METHOD,
	  "jdk.types.Method",
	  false,
	  { { "type", T_CLASS, true }, { "name", T_SYMBOL, true }, { "hidden", T_BOOLEAN } } },
	{ T_STACK,
	  "jdk.types.StackTrace",
	  false,
	  { { "truncated", T_BOOLEAN }, { "frames", T_FRAME, false, true } } },
	{ T_FRAME,
	  "jdk.types.StackFrame",
	  false,
	  { { "method", T_METHOD, true },
	    { "later", T_POINT },
	    { "lineNumber", T_INT },
	    { "type", T_FRAME_TYPE, true } } },
	{ T_FRAME_TYPE, "jdk.types.FrameType", false, { { "description", T_STRING } } },
	{ T_STATE, "jdk.types.ThreadState", false, { { "name", T_STRING } } },
	{ T_THREAD, "java.lang.Thread", false, { { "osName", T_STRING }, { "javaName", T_STRING } } },
	{ T_POINT, "later.Point", false, { { "x", T_FLOAT }, { "list", T_INT, false, true } } },
	{ T_SAMPLE,
	  "jdk.ExecutionSample",
	  true,
	  { { "startTime", T_LONG },
	    { "point", T_POINT },
	    { "points", T_POINT, false, true },
	    { "sampledThread", T_THREAD, true },
	    { "stackTrace", T_STACK, true },
	    { "state", T_STATE, true },
	    { "contextId", T_LONG },
	    { "spanName", T_LONG } } },
	{ T_CPU_TIME,
	  "jdk.CPUTimeSample",
	  true,
	  { { "startTime", T_LONG },
	    { "stackTrace", T_STACK, true },
	    { "failed", T_BOOLEAN },
	    { "samplingPeriod", T_LONG } } },
	{ T_WALL,
	  "profiler.WallClockSample",
	  true,
	  { { "startTime", T_LONG },
	    { "stackTrace", T_STACK, true },
	    { "state", T_STATE, true },
	    { "samples", T_INT } } },
	{ T_ALLOC,
	  "jdk.ObjectAllocationInNewTLAB",
	  true,
	  { { "startTime", T_LONG },
	    { "stackTrace", T_STACK, true },
	    { "allocationSize", T_LONG },
	    { "tlabSize", T_LONG } } },
	{ T_MONITOR,
	  "jdk.JavaMonitorEnter",
	  true,
	  { { "startTime", T_LONG }, { "duration", T_LONG }, { "stackTrace", T_STACK, true } } },
	{ T_SETTING,
	  "jdk.ActiveSetting",
	  true,
	  { { "startTime", T_LONG }, { "id", T_LONG }, { "name", T_STRING }, { "value", T_STRING } } },
	{ T_UNKNOWN, "later.Event", true, { { "startTime", T_LONG }, { "text", T_STRING } } },
};

/* ---- numbers, texts ---- */

static void put_big(struct buf *b, uint64_t v, unsigned size)
{
	for (unsigned i = size; i-- > 0;)
		buf_add_char(b, (char)(v >> (8 * i)));
}

static void put_number(struct jfr_writer *w, uint64_t v, unsigned size)
{
	if (w->how.plain) {
		put_big(&w->part, v, size);
		return;
	}
	/* At most nine bytes. */
	for (unsigned i = 0; i < 8 && v >= 0x80; i++, v >>= 7)
		buf_add_char(&w->part, (char)(v | 0x80));
	buf_add_char(&w->part, (char)v);
}
#define put_long(w, v) put_number((w), (v), 8)
#define put_int(w, v)  put_number((w), (v), 4)

static void put_text(struct jfr_writer *w, const char *s, uint8_t encoding)
{
	size_t n = strlen(s);

	encoding = encoding ? encoding : 3;
	buf_add_char(&w->part, (char)encoding);
	put_int(w, n);
	for (size_t i = 0; i < n; i++) {
		if (encoding == 4)
			put_number(w, (unsigned char)s[i], 2);
		else
			buf_add_char(&w->part, s[i]);
	}
}

/* ---- events ---- */

static void begin_event(struct jfr_writer *w, unsigned type)
{
	w->part.size = 0;
	put_long(w, type);
	put_long(w, 1000 + w->now++);
}

static void end_event(struct jfr_writer *w)
{
	uint64_t size = w->part.size + (w->how.plain ? 4 : 2);

	if (w->how.plain) {
		put_big(&w->out, size, 4);
	} else if (size < 1 << 14) {
		buf_add_char(&w->out, (char)(size | 0x80));
		buf_add_char(&w->out, (char)(size >> 7));
	} else {
		size += 2;
		for (unsigned i = 0; i < 3; i++)
			buf_add_char(&w->out, (char)(size >> (7 * i) | 0x80));
		buf_add_char(&w->out, (char)(size >> 21));
	}
	buf_add_str(&w->out, buf_str(&w->part));
}

/* later.Point: no reader knows it. */
static void put_point(struct jfr_writer *w)
{
	put_big(&w->part, 0x3f800000, 4);
	put_int(w, 2);
	put_int(w, 7);
	put_int(w, 70000);
}

void jfr_setting(struct jfr_writer *w, const char *event, const char *name, const char *value)
{
	begin_event(w, T_SETTING);
	for (size_t i = 0; i < ARRAY_SIZE(classes); i++)
		if (strcmp(classes[i].name, event) == 0)
			put_long(w, (uint64_t)classes[i].id);
	put_text(w, name, 5);
	put_text(w, value, 3);
	end_event(w);
}

void jfr_sample(struct jfr_writer *w, uint64_t stack, unsigned state, uint64_t context)
{
	begin_event(w, T_SAMPLE);
	put_point(w);
	put_int(w, 2);
	put_point(w);
	put_point(w);
	put_long(w, 1);
	put_long(w, stack);
	put_long(w, state);
	put_long(w, context);
	put_long(w, 0);
	end_event(w);
}

void jfr_cpu_time(struct jfr_writer *w, uint64_t stack, uint64_t ticks)
{
	begin_event(w, T_CPU_TIME);
	put_long(w, stack);
	buf_add_char(&w->part, stack == 0);
	put_long(w, ticks);
	end_event(w);
}

void jfr_wall(struct jfr_writer *w, uint64_t stack, unsigned state, uint64_t samples)
{
	begin_event(w, T_WALL);
	put_long(w, stack);
	put_long(w, state);
	put_int(w, samples);
	end_event(w);
}

void jfr_alloc(struct jfr_writer *w, uint64_t stack, uint64_t size, uint64_t tlab)
{
	begin_event(w, T_ALLOC);
	put_long(w, stack);
	put_long(w, size);
	put_long(w, tlab);
	end_event(w);
}

void jfr_monitor(struct jfr_writer *w, uint64_t stack, uint64_t ticks)
{
	begin_event(w, T_MONITOR);
	put_long(w, ticks);
	put_long(w, stack);
	end_event(w);
}

void jfr_unknown(struct jfr_writer *w)
{
	begin_event(w, T_UNKNOWN);
	put_text(w, "what it says", 4);
	end_event(w);
}

/* ---- metadata ---- */

struct strings {
	char text[256][40];
	unsigned n;
};

static unsigned string_number(struct strings *s, const char *text)
{
	for (unsigned i = 0; i < s->n; i++)
		if (strcmp(s->text[i], text) == 0)
			return i;
	snprintf(s->text[s->n], sizeof(s->text[0]), "%s", text);
	return s->n++;
}

/* @text: name and value in turn, up to NULL. */
static void put_element(struct jfr_writer *w, struct strings *s, const char *kind, const char *const *text,
			uint64_t n_children)
{
	uint64_t n = 0;

	while (text[n])
		n++;
	put_int(w, string_number(s, kind));
	put_int(w, n / 2);
	for (uint64_t i = 0; i < n; i++)
		put_int(w, string_number(s, text[i]));
	put_int(w, n_children);
}

static void put_class(struct jfr_writer *w, struct strings *s, size_t i)
{
	char id[16];
	const char *text[] = {
		"name", classes[i].name, "id", id, classes[i].event ? "superType" : NULL, "jdk.jfr.Event",
		NULL
	};
	uint64_t n = 0;

	snprintf(id, sizeof(id), "%d", classes[i].id);
	while (n < ARRAY_SIZE(classes[0].fields) && classes[i].fields[n].name)
		n++;
	put_element(w, s, "class", text, n);
	for (uint64_t k = 0; k < n; k++) {
		int type = w->how.loop && classes[i].id == T_FRAME && k == 1 ? T_FRAME
									     : classes[i].fields[k].type;
		char number[16];
		const char *field[8] = { "name", classes[i].fields[k].name, "class", number };
		unsigned at = 4;

		snprintf(number, sizeof(number), "%d", type);
		if (classes[i].fields[k].constant) {
			field[at++] = "constantPool";
			field[at++] = "true";
		} else if (classes[i].fields[k].array) {
			field[at++] = "dimension";
			field[at++] = "1";
		}
		put_element(w, s, "field", field, 0);
	}
}

static void put_tree(struct jfr_writer *w, struct strings *s)
{
	static const char *const none[] = { NULL };

	put_element(w, s, "root", none, 1);
	put_element(w, s, "metadata", none, ARRAY_SIZE(classes));
	for (size_t i = 0; i < ARRAY_SIZE(classes); i++)
		put_class(w, s, i);
}

static void write_metadata(struct jfr_writer *w)
{
	struct strings s = { .n = 0 };

	put_tree(w, &s); /* for its strings */
	begin_event(w, T_METADATA);
	put_long(w, 0);
	put_long(w, 1);
	put_int(w, s.n);
	for (unsigned i = 0; i < s.n; i++)
		put_text(w, s.text[i], 4);
	put_tree(w, &s);
	end_event(w);
}

/* ---- constants ---- */

static void put_pool(struct jfr_writer *w, unsigned type, uint64_t n)
{
	put_long(w, type);
	put_int(w, n);
}

static void put_frame(struct jfr_writer *w, uint64_t method, uint64_t line, uint64_t type)
{
	put_long(w, method);
	put_point(w);
	put_int(w, line);
	put_long(w, type);
}

static void put_stack(struct jfr_writer *w, uint64_t key, bool truncated, uint64_t n)
{
	put_long(w, key);
	buf_add_char(&w->part, truncated);
	put_int(w, n);
}

static void put_stacks(struct jfr_writer *w)
{
	put_pool(w, T_STACK, 6);
	put_stack(w, 1, false, w->how.n_frames ? w->how.n_frames : 2);
	put_frame(w, JFR_F, 20, JFR_COMPILED);
	put_frame(w, JFR_MAIN, 10, JFR_INTERPRETED);
	put_stack(w, 2, false, 2);
	put_frame(w, JFR_F, 21, JFR_INLINED);
	put_frame(w, JFR_MAIN, 11, JFR_COMPILED);
	put_stack(w, 3, false, 4);
	put_frame(w, JFR_TCP, 0, JFR_KERNEL_FRAME);
	put_frame(w, JFR_READ, 0, JFR_NATIVE_FRAME);
	put_frame(w, JFR_LAMBDA, UINT32_MAX, JFR_COMPILED);
	put_frame(w, JFR_MAIN, 12, JFR_COMPILED);
	put_stack(w, 4, true, 1);
	put_frame(w, JFR_F, 22, JFR_COMPILED);
	put_stack(w, 5, false, 0);
	put_stack(w, 6, false, 2);
	put_frame(w, JFR_NO_METHOD, 1, JFR_COMPILED);
	put_frame(w, JFR_MAIN, 13, JFR_COMPILED);
}

static void put_texts(struct jfr_writer *w, unsigned type, const char *const *list, uint64_t n,
		      uint8_t encoding)
{
	put_pool(w, type, n);
	for (uint64_t i = 0; i < n; i++) {
		put_long(w, i);
		put_text(w, list[i], encoding);
	}
}

static void put_methods(struct jfr_writer *w)
{
	/* Class, name. */
	static const uint8_t methods[][2] = { { 0, 0 }, { 1, 3 }, { 1, 4 }, { 2, 5 }, { 3, 6 }, { 4, 7 } };

	put_pool(w, T_METHOD, 5);
	for (uint64_t i = 1; i <= 5; i++) {
		put_long(w, i);
		put_long(w, methods[i][0]);
		put_long(w, methods[i][1]);
		buf_add_char(&w->part, 0);
	}
	put_pool(w, T_CLASS, 4);
	for (uint64_t i = 0; i < 4; i++) {
		/* The last one has no name; a library is a class, too. */
		static const uint8_t names[] = { 1, 2, 8, 0 };

		put_long(w, i + 1);
		put_int(w, 1);
		put_long(w, names[i]);
	}
}

static void write_constants(struct jfr_writer *w)
{
	const char *const symbols[] = {
		"",     "a/b/Main",    w->how.lambda ? w->how.lambda : "a/b/Main$$Lambda$7+0x00007f0001/12",
		"main", "f",           "run",
		"read", "tcp_recvmsg", "/lib/libc.so.6",
	};
	static const char *const types[] = { "Interpreted", "JIT compiled", "Inlined", "Native", "Kernel" };
	static const char *const states[] = { "STATE_DEFAULT", "STATE_RUNNABLE", "STATE_SLEEPING" };

	begin_event(w, T_CHECKPOINT);
	put_long(w, 0);
	put_long(w, 0);
	buf_add_char(&w->part, 1);
	put_int(w, 7);
	put_texts(w, T_SYMBOL, symbols, ARRAY_SIZE(symbols), w->how.text);
	put_texts(w, T_FRAME_TYPE, types, ARRAY_SIZE(types) - w->how.no_kernel, 0);
	put_texts(w, T_STATE, states, ARRAY_SIZE(states), 0);
	put_methods(w);
	put_pool(w, T_THREAD, 1);
	put_long(w, 1);
	buf_add_char(&w->part, 0); /* null */
	put_text(w, "worker-1", 0);
	put_stacks(w);
	end_event(w);
}

/* ---- chunks ---- */

void jfr_begin(struct jfr_writer *w, struct jfr_how how)
{
	static const uint8_t header[68];

	w->how = how;
	w->now = 0;
	w->start = w->out.size;
	buf_add(&w->out, header, sizeof(header));
}

static void put_header(uint8_t *p, unsigned off, uint64_t v, unsigned size)
{
	for (unsigned i = size; i-- > 0; v >>= 8)
		p[off + i] = (uint8_t)v;
}

void jfr_end(struct jfr_writer *w, int64_t duration_ns)
{
	size_t constants = w->out.size - w->start, metadata;
	uint64_t size;
	uint8_t *p;

	write_constants(w);
	metadata = w->out.size - w->start;
	write_metadata(w);
	size = w->how.size ? w->how.size : w->out.size - w->start;
	p = w->out.p + w->start;
	memcpy(p, "FLR", 4);
	put_header(p, 4, w->how.major ? w->how.major : 2, 2);
	put_header(p, 6, 1, 2);
	put_header(p, 8, w->how.no_size ? 0 : size, 8);
	put_header(p, 16, w->how.no_size ? 0 : constants, 8);
	put_header(p, 24, w->how.no_size ? 0 : metadata, 8);
	put_header(p, 32, JFR_START_NS, 8);
	put_header(p, 40, w->how.no_size ? 0 : (uint64_t)duration_ns, 8);
	put_header(p, 48, 1000, 8);
	put_header(p, 56, JFR_TICKS_PER_S, 8);
	put_header(p, 64, !w->how.plain, 4);
}

void jfr_writer_done(struct jfr_writer *w)
{
	buf_done(&w->out);
	buf_done(&w->part);
}
