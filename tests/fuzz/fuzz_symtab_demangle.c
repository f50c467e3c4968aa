/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any names: the output is limited, and a name that is not mangled stays unchanged.
 */
#include "fuzz.h"

#include "symtab/symtab.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str name = { (const char *)data, size };

	for (int how = SYMTAB_MANGLED; how <= SYMTAB_FULL; how++) {
		AUTO(buf_done) struct buf out = { 0 };

		symtab_demangle(name, how, &out);
		FUZZ_CHECK(out.size <= MAX(size, (size_t)SYMTAB_MAX_DEMANGLED + size));
		if (!size || data[0] != '_')
			FUZZ_CHECK(str_eq(buf_str(&out), name));
	}
	return 0;
}
