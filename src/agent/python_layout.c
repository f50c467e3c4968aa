/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Offsets are those that CPython's headers have (Include/internal, Include/cpython) when they are compiled for x86-64. They
 * hold for all releases 3.x.y of a 3.x but where the table says so; where one of them does not fit, no thread is found (its
 * number is compared), and the process has no frames of Python.
 */
#include "agent/python_layout.h"

static const struct python_layout layouts[] = {
	{ .minor = 9,
	  .lines = PYTHON_LNOTAB,
	  .frames = { .flags = BPF_PYTHON_EACH | BPF_PYTHON_INDEX,
		      .threads = 8,
		      .thread_next = 8,
		      .thread_id = 176,
		      .thread_frame = 24,
		      .frame_size = 112,
		      .frame_previous = 24,
		      .frame_code = 32,
		      .frame_instr = 104,
		      .code_window = 96 },
	  .tss = 584,
	  .interpreters = 32,
	  .code_first_line = 40,
	  .code_filename = 104,
	  .code_name = 112,
	  .code_lines = 120,
	  .string_ascii = 48,
	  .string_wide = 72 },
	{ .minor = 10,
	  .lines = PYTHON_RANGES,
	  .frames = { .flags = BPF_PYTHON_EACH | BPF_PYTHON_INDEX,
		      .threads = 8,
		      .thread_next = 8,
		      .thread_id = 176,
		      .thread_frame = 24,
		      .thread_cframe = 48,
		      .cframe_previous = 8,
		      .frame_size = 104,
		      .frame_previous = 24,
		      .frame_code = 32,
		      .frame_instr = 96,
		      .code_window = 96 },
	  .tss = 584,
	  .interpreters = 32,
	  .code_first_line = 40,
	  .code_filename = 104,
	  .code_name = 112,
	  .code_lines = 120,
	  .string_ascii = 48,
	  .string_wide = 72 },
	{ .minor = 11,
	  .lines = PYTHON_LOCATIONS,
	  .frames = { .flags = BPF_PYTHON_CFRAME | BPF_PYTHON_ENTRY,
		      .threads = 16,
		      .thread_next = 8,
		      .thread_id = 152,
		      .thread_cframe = 56,
		      .cframe_frame = 8,
		      .cframe_previous = 16,
		      .frame_size = 72,
		      .frame_previous = 48,
		      .frame_code = 32,
		      .frame_instr = 56,
		      .frame_owner = 68, /* is_entry */
		      .code_window = 112,
		      .code_bytes = 184 },
	  .tss = 592,
	  .interpreters = 40,
	  .code_first_line = 72,
	  .code_filename = 112,
	  .code_name = 120,
	  .code_qualname = 128,
	  .code_lines = 136,
	  .string_ascii = 48,
	  .string_wide = 72 },
	{ .minor = 12,
	  .lines = PYTHON_LOCATIONS,
	  .frames = { .flags = BPF_PYTHON_CFRAME | BPF_PYTHON_SHIM,
		      .threads = 72,
		      .thread_next = 8,
		      .thread_id = 136,
		      .thread_cframe = 56,
		      .cframe_frame = 0,
		      .cframe_previous = 8,
		      .frame_size = 72,
		      .frame_previous = 8,
		      .frame_code = 0,
		      .frame_instr = 56,
		      .frame_owner = 70,
		      .code_window = 112,
		      .code_bytes = 192 },
	  .tss = 1544,
	  .interpreters = 40,
	  .code_first_line = 68,
	  .code_filename = 112,
	  .code_name = 120,
	  .code_qualname = 128,
	  .code_lines = 136,
	  .string_ascii = 40,
	  .string_wide = 56 },
	/* The rest of 3.13 and 3.14 is in their _Py_DebugOffsets. */
	{ .minor = 13, .lines = PYTHON_LOCATIONS, .frames = { .flags = BPF_PYTHON_SHIM }, .tss = 2160 },
	{ .minor = 14, .lines = PYTHON_LOCATIONS, .frames = { .flags = BPF_PYTHON_SHIM }, .tss = 2336 },
};

/* Words of _Py_DebugOffsets after cookie, version and free_threaded: how many each of its structs has, in 3.13 and 3.14. */
enum {
	RUNTIME,
	INTERPRETER,
	THREAD,
	FRAME,
	CODE,
	OBJECT,
	TYPE,
	TUPLE,
	LIST,
	SET,
	DICT,
	FLOAT,
	LONG,
	BYTES,
	STRING,
	N_PARTS
};
static const uint8_t parts_13[N_PARTS] = { 3, 13, 9, 6, 10, 2, 4, 3, 3, 0, 3, 2, 3, 3, 4 };
static const uint8_t parts_14[N_PARTS] = { 3, 16, 9, 8, 11, 2, 4, 3, 3, 4, 3, 2, 3, 3, 4 };

struct debug_offsets {
	struct bytes b;
	size_t start[N_PARTS];
	bool bad;
};

/* Word @n of @part: an offset that is over @max cannot be one. */
static uint16_t offset_of(struct debug_offsets *o, unsigned part, unsigned n, uint64_t max)
{
	struct cursor c = cursor_of(o->b);
	uint64_t value;

	cursor_skip(&c, o->start[part] + n * 8u);
	value = cursor_u64(&c);
	o->bad |= !cursor_ok(&c) || value > max;
	return (uint16_t)value;
}

static void read_frame_offsets(struct debug_offsets *o, struct python_layout *to)
{
	struct bpf_python *f = &to->frames;

	f->threads = offset_of(o, INTERPRETER, 3, UINT16_MAX);
	f->thread_next = offset_of(o, THREAD, 2, UINT16_MAX);
	f->thread_frame = offset_of(o, THREAD, 4, UINT16_MAX);
	f->thread_id = offset_of(o, THREAD, 5, UINT16_MAX);
	f->frame_previous = offset_of(o, FRAME, 1, BPF_PYTHON_BLOCK - 8);
	f->frame_code = offset_of(o, FRAME, 2, BPF_PYTHON_BLOCK - 8);
	f->frame_instr = offset_of(o, FRAME, 3, BPF_PYTHON_BLOCK - 8);
	f->frame_owner = offset_of(o, FRAME, 5, BPF_PYTHON_BLOCK - 8);
	f->frame_size = MAX(MAX(f->frame_previous, f->frame_code), MAX(f->frame_instr, f->frame_owner)) + 8u;
	o->bad |= f->frame_previous % 8 || f->frame_code % 8 || f->frame_instr % 8;
}

static void read_code_offsets(struct debug_offsets *o, struct python_layout *to)
{
	const uint64_t max = 1024;

	to->code_filename = to->frames.code_window = offset_of(o, CODE, 1, max);
	to->code_name = offset_of(o, CODE, 2, max);
	to->code_qualname = offset_of(o, CODE, 3, max);
	to->code_lines = offset_of(o, CODE, 4, max);
	to->code_first_line = offset_of(o, CODE, 5, max);
	to->frames.code_bytes = offset_of(o, CODE, 9, max);
	to->bytes_size = offset_of(o, BYTES, 1, max);
	to->bytes_data = offset_of(o, BYTES, 2, max);
	to->string_state = offset_of(o, STRING, 1, max);
	to->string_length = offset_of(o, STRING, 2, max);
	to->string_ascii = offset_of(o, STRING, 3, max);
	to->string_wide = to->string_ascii + 16; /* utf8_length, utf8 */
}

static int read_debug_offsets(struct bytes runtime, struct python_layout *to, struct err *err)
{
	const uint8_t *parts = to->minor == 13 ? parts_13 : parts_14;
	struct debug_offsets o = { .b = runtime };
	struct cursor c = cursor_of(runtime);
	struct bytes cookie = cursor_bytes(&c, 8);
	uint64_t version = cursor_u64(&c), free_threaded = cursor_u64(&c);
	size_t at = 24;

	if (cookie.size != 8 || memcmp(cookie.p, "xdebugpy", 8) != 0 || version >> 24 != 3 ||
	    (version >> 16 & 0xff) != to->minor)
		return err_set(err, ERR_INVALID, "_PyRuntime has no offsets of Python 3.%u", to->minor);
	for (unsigned i = 0; i < N_PARTS; i++) {
		o.start[i] = at;
		at += parts[i] * 8u;
	}
	to->interpreters = offset_of(&o, RUNTIME, 2, UINT16_MAX);
	read_frame_offsets(&o, to);
	read_code_offsets(&o, to);
	if (free_threaded) {
		to->string_kind_shift = 8; /* `interned` is a byte */
		to->tss = 0;
	}
	return o.bad ? err_set(err, ERR_INVALID, "the offsets in _PyRuntime cannot be those of Python") : 0;
}

int python_layout_get(unsigned minor, struct bytes runtime, struct python_layout *ret, struct err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(layouts); i++) {
		if (layouts[i].minor != minor)
			continue;
		*ret = layouts[i];
		ret->string_length = 16;
		ret->string_state = 32;
		ret->bytes_size = 16;
		ret->bytes_data = 32;
		ret->string_kind_shift = 2;
		return minor >= 13 ? read_debug_offsets(runtime, ret, err) : 0;
	}
	return err_set(err, ERR_INVALID, "Python 3.%u: 3.9 to 3.14 are supported", minor);
}
