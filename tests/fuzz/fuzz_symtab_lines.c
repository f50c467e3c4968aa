/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Line tables: the input is .debug_line. Two units have the table at 0, one has the table at 16. Half of the
 * inputs are read with discriminators, since all rows are then made by other code.
 */
#include "symtab_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct symtab_options o = { .discriminators = size % 2 };
	AUTO(code_writer_done) struct code_writer w;
	AUTO(buf_done) struct buf file = { 0 };
	struct cursor c = cursor_of(bytes_of(data, size));

	writer_of(&w, &c, ET_DYN);
	rest_add(&w.line, &c);
	for (unsigned i = 0; i < 3; i++) {
		code_unit_c(&w, i == 2 ? 16 : 0);
		code_die(&w, T_SUBPROGRAM, false, A_NAME, F_STRING, (uint64_t)(uintptr_t) "f", A_LOW, F_ADDR,
			 (uint64_t)(0x1000 + 0x100 * i), A_HIGH, F_ADDR, (uint64_t)(0x10c0 + 0x100 * i),
			 A_DECL_FILE, F_DATA1, (uint64_t)2, 0u);
		code_up(&w);
		code_unit_end(&w);
	}
	code_writer_finish(&w, &file);
	check_bytes(buf_bytes(&file), &o);
	return 0;
}
