/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Abbreviations: the input is the size of the DIEs (2 bytes, little endian), the DIEs, and .debug_abbrev. Two
 * units have the same DIEs, one with the table at 0 and one with that at 1.
 */
#include "symtab_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(code_writer_done) struct code_writer w;
	struct cursor c = cursor_of(bytes_of(data, size));
	struct bytes dies;
	uint64_t n;

	writer_of(&w, &c, ET_DYN);
	n = cursor_u16(&c);
	dies = cursor_bytes(&c, MIN(n, cursor_left(&c)));
	w.no_terminator = true;
	for (unsigned i = 0; i < 2; i++) {
		code_unit_begin(&w);
		if (dies.size)
			buf_add(&w.info, dies.p, dies.size);
		code_unit_end(&w);
		buf_add_char(&w.abbrev, 0); /* the next unit's table starts one byte later */
	}
	w.abbrev.size = 0;
	rest_add(&w.abbrev, &c);
	check_file(&w);
	return 0;
}
