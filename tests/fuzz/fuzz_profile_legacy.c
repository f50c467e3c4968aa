/* SPDX-License-Identifier: Apache-2.0 */
/* Text of Go's profiles, heap dumps of gperftools and jemalloc. */
#include "profile_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return check_profile_text(data, size, profile_read_legacy);
}
