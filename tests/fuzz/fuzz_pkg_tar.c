/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tar, read at once and in chunks of the size in the first byte: the same members, the same end. If that
 * byte is odd, every block gets a right checksum first, which no mutation would find.
 */
#include "fuzz.h"
#include "pkg_walk.h"

static void mend(uint8_t *p, size_t size)
{
	for (; size >= 512; p += 512, size -= 512) {
		unsigned sum = 0;
		char text[8];

		memset(p + 148, ' ', 8);
		for (int i = 0; i < 512; i++)
			sum += p[i];
		if (sum == 8 * ' ') {
			memset(p + 148, 0, 8);
			continue;
		}
		snprintf(text, sizeof(text), "%06o", sum);
		memcpy(p + 148, text, 7);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pkg_info info = { .kind = PKG_TAR, .payload.format = PKG_FORMAT_TAR };
	struct pkg_walk whole, chunks;
	uint8_t *tar;

	if (size < 1)
		return 0;
	tar = mem_alloc(size);
	memcpy(tar, data + 1, size - 1);
	if (data[0] & 1)
		mend(tar, size - 1);
	pkg_walk_bytes(&info, bytes_of(tar, size - 1), 0, &whole);
	pkg_walk_bytes(&info, bytes_of(tar, size - 1), 1 + 5u * data[0], &chunks);
	free(tar);
	FUZZ_CHECK(whole.end == chunks.end && whole.n_members == chunks.n_members &&
		   whole.err.kind == chunks.err.kind);
	FUZZ_CHECK(whole.end < 0 || whole.sum == chunks.sum);
	return 0;
}
