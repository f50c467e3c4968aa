/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Crash text: for any input, the output has its lines or their frames, and only files named in it are opened.
 */
#include "fuzz.h"

#include <stdlib.h>
#include "cmd/symbolize/symbolize.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct settings s = { .find.here = true, .symbols.file = size % 2 ? "/nowhere" : NULL };
	struct text_filter *t;
	struct buf out = { 0 };
	size_t n_in = 0, n_out = 0;

	setenv("LODE_SYMTAB_CACHE", "", 1);
	t = text_filter_new(&s);
	for (struct str rest = { (const char *)data, size }; rest.size; n_in++)
		text_filter_line(t, str_cut(&rest, '\n'), &out);
	for (size_t i = 0; i < out.size; i++)
		n_out += out.p[i] == '\n';
	FUZZ_CHECK(n_out >= n_in);
	text_filter_free(t);
	buf_done(&out);
	return 0;
}
