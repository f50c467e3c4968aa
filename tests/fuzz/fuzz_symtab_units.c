/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Units and their DIEs: the input is .debug_info, whose first unit has a valid header. The abbreviations are
 * valid, with one for each kind of DIE that is read.
 */
#include "symtab_check.h"

/* Code, tag, children, then pairs of attribute and form. */
static const uint8_t abbrevs[] = {
	1,  0x11, 1, 0x03, 0x08, 0x13, 0x0b, 0,    0,                         /* unit: name, language */
	2,  0x2e, 1, 0x03, 0x08, 0x11, 0x01, 0x12, 0x0b, 0x01, 0x13, 0,    0, /* function: name, low, length,
										 sibling */
	3,  0x1d, 1, 0x31, 0x13, 0x11, 0x01, 0x12, 0x0b, 0x58, 0x0b, 0x59, 0x0f, 0, 0, /* call */
	4,  0x0b, 1, 0,    0,                                                          /* block */
	5,  0x39, 1, 0x03, 0x08, 0,    0,                                              /* namespace */
	6,  0x13, 1, 0x03, 0x08, 0x01, 0x0f, 0,    0,             /* type: name, a wrong sibling */
	7,  0x2e, 0, 0x31, 0x13, 0x11, 0x01, 0x12, 0x0d, 0,    0, /* function by origin, sleb length */
	8,  0x2e, 0, 0x47, 0x10, 0x03, 0x0e, 0,    0, /* function by a reference to another unit */
	9,  0x04, 1, 0x01, 0x13, 0,    0,             /* enumeration, with a sibling */
	10, 0x34, 0, 0x02, 0x18, 0x03, 0x16, 0,    0, /* variable: expression, indirect */
	11, 0x1d, 0, 0x31, 0x13, 0x55, 0x06, 0,    0, /* call with a list */
	0,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(code_writer_done) struct code_writer w;
	struct cursor c = cursor_of(bytes_of(data, size));

	writer_of(&w, &c, ET_DYN);
	w.no_terminator = true;
	code_unit_begin(&w);
	buf_add(&w.abbrev, abbrevs, sizeof(abbrevs));
	buf_add(&w.str, "name", 5);
	rest_add(&w.info, &c);
	code_unit_end(&w);
	check_file(&w);
	return 0;
}
