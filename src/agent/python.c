/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A function takes four reads: its code object; the heads of its strings and of its line table; their contents; and the code
 * object once more, to see that it was there all the time.
 */
#include "agent/python.h"

#include <stdlib.h>

#include "agent/process_memory.h"
#include "agent/python_lines.h"

#define HANG_MS        INT64_C(60000) /* each time eight times as long: each may cost a thread (process_memory.h) */
#define HANG_MAX       3u
#define READ_SHARE     16 /* reading takes at most 1/16 of a processor */
#define READ_CREDIT_NS INT64_C(250000000)
#define CODE_MAX       1088u /* bytes of a code object: as far as python_layout.c lets offsets reach */
#define HEAD_MAX       64u   /* of a string or a line table */
#define N_LINES        16u

struct python_code {
	char *name, *file; /* NULL: it could not be read */
	uint8_t *table;
	size_t table_size;
	uint32_t first_line;
	struct {
		uint32_t instr, line; /* line 0: free */
	} lines[N_LINES];             /* that were looked up, by the instruction */
};

struct python_process {
	struct python_reader *reader;
	struct python_process *next, **at; /* in the reader's list; @at points to this one */
	uint32_t pid;
	struct python_layout layout;
	struct map codes; /* struct code_key -> struct python_code */
	size_t bytes;
	int64_t hangs_until_ms; /* its memory did not come in time: it is not read before */
	unsigned n_hangs;
};

struct code_key {
	uint64_t code, hash;
};

/* ---- kept code objects ---- */

static size_t code_bytes(const struct python_code *c)
{
	return sizeof(*c) + 128 + (c->name ? strlen(c->name) + strlen(c->file) : 0) + c->table_size;
}

static void forget_codes(struct python_process *p)
{
	struct bytes ignored;
	void *value;

	map_each (&p->codes, it, &ignored, &value) {
		struct python_code *c = value;

		free(c->name);
		free(c->file);
		free(c->table);
		free(c);
	}
	map_done(&p->codes);
	p->reader->bytes -= p->bytes;
	p->bytes = 0;
}

/* Not the one that needs room: a few that hold all of it would leave the others none. */
static void forget_largest(const struct python_reader *r)
{
	struct python_process *largest = r->first;

	for (struct python_process *p = r->first; p; p = p->next)
		if (p->bytes > largest->bytes)
			largest = p;
	forget_codes(largest);
}

struct python_process *python_process_new(struct python_reader *r, uint32_t pid,
					  const struct python_layout *layout)
{
	struct python_process *p = NEW(struct python_process);

	p->reader = r;
	p->pid = pid;
	p->layout = *layout;
	p->next = r->first;
	p->at = &r->first;
	if (p->next)
		p->next->at = &p->next;
	r->first = p;
	return p;
}

void python_process_free(struct python_process *p)
{
	if (!p)
		return;
	forget_codes(p);
	*p->at = p->next;
	if (p->next)
		p->next->at = p->at;
	free(p);
}

const struct python_layout *python_process_layout(const struct python_process *p)
{
	return &p->layout;
}

/* ---- memory of the process ---- */

static bool is_hanging(const struct python_process *p)
{
	return p->hangs_until_ms && clock_mono_ms() < p->hangs_until_ms;
}

static bool read_memory(struct python_process *p, uint64_t address, void *to, size_t size)
{
	size_t got;

	if (!size)
		return true;
	if (!p->reader->read || is_hanging(p))
		return false;
	got = p->reader->read(p->reader->arg, p->pid, address, to, size);
	if (got == PROCESS_MEMORY_LATE) {
		p->hangs_until_ms = clock_mono_ms() + (HANG_MS << 3 * p->n_hangs);
		p->n_hangs = MIN(p->n_hangs + 1, HANG_MAX);
	}
	return got == size;
}

static uint64_t python_word_at(const uint8_t *b, size_t off)
{
	uint64_t v;

	memcpy(&v, b + off, sizeof(v));
	return v;
}

static uint32_t half_at(const uint8_t *b, size_t off)
{
	uint32_t v;

	memcpy(&v, b + off, sizeof(v));
	return v;
}

static void add_python_char(struct buf *out, uint32_t c)
{
	/* Also the characters that change the direction of a line, or end it. */
	if (c < ' ' || (c >= 0x7f && c < 0xa0) || (c >= 0xd800 && c < 0xe000) || c > 0x10ffff ||
	    (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069))
		c = '?';
	if (c < 0x80) {
		buf_add_char(out, (char)c);
	} else if (c < 0x800) {
		buf_add_char(out, (char)(0xc0 | c >> 6));
		buf_add_char(out, (char)(0x80 | (c & 63)));
	} else if (c < 0x10000) {
		buf_add_char(out, (char)(0xe0 | c >> 12));
		buf_add_char(out, (char)(0x80 | (c >> 6 & 63)));
		buf_add_char(out, (char)(0x80 | (c & 63)));
	} else {
		buf_add_char(out, (char)(0xf0 | c >> 18));
		buf_add_char(out, (char)(0x80 | (c >> 12 & 63)));
		buf_add_char(out, (char)(0x80 | (c >> 6 & 63)));
		buf_add_char(out, (char)(0x80 | (c & 63)));
	}
}

/* The string at @address, as UTF-8, of at most @max characters; the rest of a longer one is left out. NULL: not a string. */
static char *read_string(struct python_process *p, uint64_t address, size_t max)
{
	const struct python_layout *l = &p->layout;
	size_t head_size = MAX((size_t)l->string_length + 8, (size_t)l->string_state + 4);
	uint8_t head[HEAD_MAX], chars[PYTHON_MAX_FILE * 4];
	AUTO(buf_done) struct buf text = { 0 };
	uint32_t state, kind;
	uint64_t length;
	bool is_ascii;

	if (head_size > sizeof(head) || !read_memory(p, address, head, head_size))
		return NULL;
	length = python_word_at(head, l->string_length);
	state = half_at(head, l->string_state) >> l->string_kind_shift;
	kind = state & 7;
	is_ascii = state >> 4 & 1;
	/* A string in one piece ("compact"); others are made by very old extensions only. */
	if ((kind != 1 && kind != 2 && kind != 4) || !(state >> 3 & 1) || length > INT64_MAX)
		return NULL;
	length = MIN(length, (uint64_t)max);
	if (!read_memory(p, address + (is_ascii ? l->string_ascii : l->string_wide), chars, length * kind))
		return NULL;
	for (size_t i = 0; i < length; i++)
		add_python_char(&text, kind == 1   ? chars[i]
				       : kind == 2 ? (uint32_t)(chars[2 * i] | chars[2 * i + 1] << 8)
						   : half_at(chars, 4 * i));
	return mem_strdup(buf_cstr(&text));
}

/* Without one, the function has its first line only. */
static void read_table(struct python_process *p, uint64_t address, struct python_code *to)
{
	const struct python_layout *l = &p->layout;
	uint8_t *table;
	uint64_t size;

	if (!read_memory(p, address + l->bytes_size, &size, sizeof(size)) || size > PYTHON_MAX_TABLE)
		return;
	table = mem_alloc(size + 1);
	if (!read_memory(p, address + l->bytes_data, table, size)) {
		free(table);
		return;
	}
	to->table = table;
	to->table_size = size;
}

static bool read_code_object(struct python_process *p, const struct sampler_python_frame *frame,
			     struct python_code *to)
{
	const struct python_layout *l = &p->layout;
	size_t name = l->code_qualname ? l->code_qualname : l->code_name, window = l->frames.code_window;
	size_t size = MAX(MAX(name, (size_t)l->code_filename),
			  (size_t)MAX(l->code_lines, l->code_first_line)) +
		      8;
	uint8_t code[CODE_MAX];
	uint64_t words[4];

	size = MAX(size, window + sizeof(words));
	if (size > sizeof(code) || !read_memory(p, frame->code, code, size))
		return false;
	memcpy(words, code + window, sizeof(words));
	if (python_hash(words) != frame->hash)
		return false;
	to->first_line = half_at(code, l->code_first_line);
	to->name = read_string(p, python_word_at(code, name), PYTHON_MAX_NAME);
	to->file = read_string(p, python_word_at(code, l->code_filename), PYTHON_MAX_FILE);
	read_table(p, python_word_at(code, l->code_lines), to);
	return to->name && to->file && read_memory(p, frame->code + window, words, sizeof(words)) &&
	       python_hash(words) == frame->hash;
}

/* ---- names ---- */

/* NULL: its memory did not come in time, which says nothing about it. */
static struct python_code *add_code(struct python_process *p, const struct sampler_python_frame *frame)
{
	const struct code_key key = { frame->code, frame->hash };
	struct python_code *c = NEW(struct python_code);

	p->reader->n_read++;
	if (!read_code_object(p, frame, c)) {
		free(c->name);
		free(c->file);
		free(c->table);
		if (is_hanging(p)) {
			free(c);
			return NULL;
		}
		p->reader->n_gone++;
		*c = (struct python_code){ 0 };
	}
	if (p->codes.n >= PYTHON_MAX_CODES || p->bytes >= PYTHON_MAX_MEMORY)
		forget_codes(p);
	if (p->reader->bytes >= PYTHON_ALL_MEMORY)
		forget_largest(p->reader);
	p->bytes += code_bytes(c);
	p->reader->bytes += code_bytes(c);
	map_put(&p->codes, bytes_of(&key, sizeof(key)), c);
	return c;
}

/* The offset of the instruction in the code: the unit of the line tables. */
static int64_t instruction_offset(const struct python_layout *l, uint32_t instr)
{
	if (l->minor == 10)
		return (int64_t)(int32_t)instr * 2;
	return (int32_t)instr;
}

/* 0: it was not looked up, and @may_look_up is false: a table may be long. */
static uint32_t line_of_code(const struct python_process *p, struct python_code *c, uint32_t instr,
			     bool may_look_up)
{
	size_t i = (instr / 2) % N_LINES;

	if (c->lines[i].line && c->lines[i].instr == instr)
		return c->lines[i].line;
	if (!may_look_up)
		return 0;
	c->lines[i].instr = instr;
	c->lines[i].line = python_line(p->layout.lines, bytes_of(c->table, c->table_size), c->first_line,
				       instruction_offset(&p->layout, instr));
	return c->lines[i].line;
}

int python_function_of(struct python_process *p, const struct sampler_python_frame *frame,
		       struct python_function *ret)
{
	const struct code_key key = { frame->code, frame->hash };
	struct python_code *c = map_get(&p->codes, bytes_of(&key, sizeof(key)));
	bool has_time = cost_share_saved(&p->reader->reading, READ_SHARE, READ_CREDIT_NS) > 0;
	int64_t from_ns;

	/* Known names stay: a process that makes functions all the time would leave the others none. */
	if (!c && (!has_time || is_hanging(p))) {
		p->reader->n_late++;
		return PYTHON_LATE;
	}
	from_ns = clock_mono_ns();
	if (!c)
		c = add_code(p, frame);
	if (c && c->name)
		*ret = (struct python_function){ str_of(c->name), str_of(c->file),
						 line_of_code(p, c, frame->instr, has_time), c->first_line };
	p->reader->reading.credit_ns -= clock_mono_ns() - from_ns;
	p->reader->n_late += !c;
	if (!c)
		return PYTHON_LATE;
	return c->name ? 0 : PYTHON_GONE;
}
