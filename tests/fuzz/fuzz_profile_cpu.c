/* SPDX-License-Identifier: Apache-2.0 */
/* CPU profiles of gperftools. */
#include "profile_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct profile *p = NULL;
	struct err err = { 0 };
	int done = profile_read_cpu(bytes_of(data, size), &check_limits, &p, &err);

	return check_profile(done, p, &err);
}
