/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recordings of Java: each profile of one can be written and read again. The input is a recording; or an 'L', the size
 * of the labels of contexts, these, and a recording.
 */
#include "profile_check.h"

static int check_kind(void *arg, struct profile *p, struct str name, struct err *err)
{
	FUZZ_CHECK(name.size > 0);
	return check_profile(0, p, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct jfr_options options = { 0 };
	struct bytes in = bytes_of(data, size);
	struct profile *p = NULL;
	struct err err = { 0 };
	int done;

	if (size > 2 && data[0] == 'L' && data[1] <= size - 2) {
		options.labels = bytes_of(data + 2, data[1]);
		in = bytes_of(data + 2 + data[1], size - 2 - data[1]);
	}
	if (profile_read_jfr(in, &check_limits, &options, (struct profile_sink){ check_kind, NULL }, &err) <
	    0)
		FUZZ_CHECK(err.kind == ERR_INVALID || err.kind == ERR_LIMIT);
	err = (struct err){ 0 };
	done = profile_read(in, PROFILE_FORMAT_JFR, &check_limits, &p, &err);
	return check_profile(done, p, &err);
}
