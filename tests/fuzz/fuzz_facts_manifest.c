/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Manifests of snapshots: one that is read is written again, and is the same text.
 */
#include "fuzz.h"

#include "facts/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(buf_done) struct buf out = { 0 };
	struct manifest m;
	struct err err = { 0 };

	if (manifest_read(bytes_of(data, size), &m, &err) < 0) {
		FUZZ_CHECK(!m.pieces && err.text[0]);
		return 0;
	}
	manifest_write(&m, &out);
	FUZZ_CHECK(bytes_eq(buf_bytes(&out), bytes_of(data, size)));
	manifest_done(&m);
	return 0;
}
