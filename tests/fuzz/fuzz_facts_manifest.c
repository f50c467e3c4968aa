/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Manifests of snapshots: one that is read is written again, and says the same; but for zeros before a number it is the
 * same text.
 */
#include "fuzz.h"

#include "facts/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(buf_done) struct buf out = { 0 };
	struct manifest m, again;
	struct err err = { 0 };

	if (manifest_read(bytes_of(data, size), &m, &err) < 0) {
		FUZZ_CHECK(!m.pieces && err.text[0]);
		return 0;
	}
	manifest_write(&m, &out);
	FUZZ_CHECK(out.size <= size);
	FUZZ_CHECK(manifest_read(buf_bytes(&out), &again, &err) == 0);
	FUZZ_CHECK(m.size == again.size && m.n_rows == again.n_rows && m.fingerprint == again.fingerprint &&
		   m.n_pieces == again.n_pieces &&
		   memcmp(m.pieces, again.pieces, m.n_pieces * sizeof(*m.pieces)) == 0);
	manifest_done(&again);
	manifest_done(&m);
	return 0;
}
