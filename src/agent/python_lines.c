/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects/lnotab_notes.txt of CPython 3.9 and 3.10, InternalDocs/code_objects.md ("Source code locations") of 3.11 and later.
 */
#include "agent/python_lines.h"

#define LINE_MAX_VALUE 0x7fffffff

static uint32_t bounded_line(int64_t line, uint32_t first)
{
	return line > 0 && line <= LINE_MAX_VALUE ? (uint32_t)line : first;
}

/* Pairs: bytes of code, then by how much the line changes. */
static uint32_t line_of_lnotab(struct bytes t, uint32_t first, int64_t at)
{
	int64_t line = first, code = 0;

	for (size_t i = 0; i + 1 < t.size; i += 2) {
		code += t.p[i];
		if (code > at)
			break;
		line += (int8_t)t.p[i + 1];
	}
	return bounded_line(line, first);
}

/* Pairs: the length of a range of code, then its line after that of the range before; -128: none. */
static uint32_t line_of_ranges(struct bytes t, uint32_t first, int64_t at)
{
	int64_t line = first, end = 0;

	for (size_t i = 0; i + 1 < t.size; i += 2) {
		int8_t delta = (int8_t)t.p[i + 1];

		if (delta != -128)
			line += delta;
		end += t.p[i];
		if (at < end)
			return delta == -128 ? first : bounded_line(line, first);
	}
	return first;
}

/* Groups of 6 bits, the lowest first; bit 6: more follow. */
static uint64_t location_varint(struct cursor *c)
{
	uint64_t value = 0;
	uint8_t byte = 0;

	for (unsigned shift = 0; shift < 60; shift += 6) {
		byte = cursor_u8(c);
		value |= (uint64_t)(byte & 63) << shift;
		if (!(byte & 64))
			return value;
	}
	cursor_skip(c, UINT64_MAX); /* no line is so far away */
	return 0;
}

static int64_t location_svarint(struct cursor *c)
{
	uint64_t value = location_varint(c);

	return value & 1 ? -(int64_t)(value >> 1) : (int64_t)(value >> 1);
}

enum {
	LOCATION_SHORT_LAST = 9,
	LOCATION_ONE_LINE = 10,
	LOCATION_NO_COLUMNS = 13,
	LOCATION_LONG,
	LOCATION_NONE
};

/* Entries: the first byte has bit 7, a code, and the number of instruction units; then the operands of the code. */
static uint32_t line_of_locations(struct bytes t, uint32_t first, int64_t at)
{
	struct cursor c = cursor_of(t);
	int64_t line = first, end = 0;

	while (cursor_left(&c)) {
		uint8_t head = cursor_u8(&c), code = head >> 3 & 15;
		int64_t delta = 0;

		if (code <= LOCATION_SHORT_LAST) {
			cursor_skip(&c, 1);
		} else if (code < LOCATION_NO_COLUMNS) {
			delta = code - LOCATION_ONE_LINE;
			cursor_skip(&c, 2);
		} else if (code == LOCATION_NO_COLUMNS) {
			delta = location_svarint(&c);
		} else if (code == LOCATION_LONG) {
			delta = location_svarint(&c);
			for (unsigned i = 0; i < 3; i++)
				location_varint(&c);
		}
		if (!cursor_ok(&c))
			return first;
		/* Both are below 2^61, so that the sum of any table ends here. */
		line += delta;
		if (line < -LINE_MAX_VALUE || line > LINE_MAX_VALUE)
			return first;
		end += ((head & 7) + 1) * 2;
		if (at < end)
			return code == LOCATION_NONE ? first : bounded_line(line, first);
	}
	return first;
}

uint32_t python_line(enum python_lines_kind kind, struct bytes table, uint32_t first, int64_t at)
{
	if (at < 0)
		return first;
	switch (kind) {
	case PYTHON_LNOTAB:
		return line_of_lnotab(table, first, at);
	case PYTHON_RANGES:
		return line_of_ranges(table, first, at);
	case PYTHON_LOCATIONS:
		return line_of_locations(table, first, at);
	}
	return first;
}
