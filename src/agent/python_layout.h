/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where CPython 3.9 to 3.14 on x86-64 keeps the facts that a profile shows: offsets in the structs of each version. 3.13
 * and later publish most of them at the start of _PyRuntime (_Py_DebugOffsets).
 */
#pragma once

#include "base/base.h"
#include "bpf/python.h"

#define PYTHON_DEBUG_OFFSETS 1024u /* bytes at _PyRuntime that python_layout_get() looks at, at most */

enum python_lines_kind {
	PYTHON_LNOTAB,    /* 3.9: co_lnotab */
	PYTHON_RANGES,    /* 3.10: co_linetable */
	PYTHON_LOCATIONS, /* 3.11 and later */
};

struct python_layout {
	uint8_t minor; /* of the version 3.minor */
	enum python_lines_kind lines;
	struct bpf_python frames;   /* without addresses of a process */
	uint32_t tss, interpreters; /* offsets in _PyRuntime; tss 0: not known */
	/* of a code object; qualname 0: there is none */
	uint16_t code_name, code_qualname, code_filename, code_first_line, code_lines;
	/* of strings and bytes */
	uint16_t string_length, string_state, string_ascii, string_wide, bytes_size, bytes_data;
	uint8_t string_kind_shift; /* of the kind in the state; then follow the bits "compact" and "ascii" */
};

/*
 * The layout of version 3.@minor. @runtime: bytes of the file at _PyRuntime, for 3.13 and later. ERR_INVALID: a version
 * that is not known, or offsets that cannot be.
 */
int python_layout_get(unsigned minor, struct bytes runtime, struct python_layout *ret, struct err *err);
