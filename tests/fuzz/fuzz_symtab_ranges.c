/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Range lists: the input is the size of .debug_addr (a byte), that section, and .debug_ranges or
 * .debug_rnglists. Functions have overlapping lists at several offsets, and lists by index.
 */
#include "symtab_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(code_writer_done) struct code_writer w;
	struct cursor c = cursor_of(bytes_of(data, size));
	struct bytes addrs;
	uint64_t n;
	bool five;

	writer_of(&w, &c, ET_DYN);
	five = w.version == 5;
	n = cursor_u8(&c);
	addrs = cursor_bytes(&c, MIN(n, cursor_left(&c)));
	if (addrs.size)
		buf_add(&w.addr, addrs.p, addrs.size);
	rest_add(five ? &w.rnglists : &w.ranges, &c);
	code_unit_begin(&w);
	code_die(&w, T_COMPILE, true, A_LANGUAGE, F_DATA1, (uint64_t)0x1d, A_LOW, F_ADDR, (uint64_t)0x1000,
		 A_ADDR_BASE, F_DATA4, (uint64_t)0, A_RNGLISTS_BASE, F_DATA4, (uint64_t)8, 0u);
	for (unsigned i = 0; i < 4; i++) {
		uint64_t f = code_die(&w, T_SUBPROGRAM, true, A_NAME, F_STRING, (uint64_t)(uintptr_t) "f",
				      A_RANGES, F_DATA4, (uint64_t)(i * 8), 0u);

		code_die(&w, T_INLINED, false, A_ORIGIN, F_REF4, f, A_RANGES, five ? F_RNGLISTX : F_DATA4,
			 (uint64_t)i, 0u);
		code_up(&w);
	}
	code_up(&w);
	code_unit_end(&w);
	check_file(&w);
	return 0;
}
