/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Line tables of CPython: any bytes give a line that an int has, or the first one.
 */
#include "fuzz.h"

#include "agent/python_lines.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cursor c = cursor_of(bytes_of(data, size));
	uint32_t first = cursor_u32(&c);
	struct bytes table;

	if (!cursor_ok(&c))
		return 0;
	table = bytes_of(c.p, cursor_left(&c));
	for (unsigned kind = PYTHON_LNOTAB; kind <= PYTHON_LOCATIONS; kind++)
		for (int64_t at = -2; at < 400; at += at < 40 ? 2 : 90) {
			uint32_t line = python_line(kind, table, first, at);

			FUZZ_CHECK(line == first || (line > 0 && line <= INT32_MAX));
			FUZZ_CHECK(at >= 0 || line == first);
		}
	return 0;
}
