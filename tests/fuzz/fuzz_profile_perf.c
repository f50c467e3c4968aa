/* SPDX-License-Identifier: Apache-2.0 */
/* The output of perf script. */
#include "profile_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return check_profile_text(data, size, profile_read_perf);
}
