/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Line tables of CPython's code objects: an instruction -> its line. Pure; the bytes are a stranger's.
 */
#pragma once

#include "agent/python_layout.h"

/*
 * The line of the instruction at byte @at of the code whose first line is @first; @first, if the table has none for it.
 * A negative @at: before the first instruction.
 */
uint32_t python_line(enum python_lines_kind kind, struct bytes table, uint32_t first, int64_t at);
