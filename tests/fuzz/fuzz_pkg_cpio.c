/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cpio, read at once and in chunks of the size in the first byte: the same members, the same end. rpm's
 * stripped headers get a list of some files.
 */
#include "fuzz.h"
#include "pkg_walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pkg_header_file files[] = {
		{ .path = STR("usr/a"), .mode = S_IFREG | 0644, .size = 3, .content = 2, .n_links = 2 },
		{ .path = STR("usr/link"), .mode = S_IFLNK | 0777, .size = 2, .content = 1, .n_links = 1 },
		{ .path = STR("usr/b"), .mode = S_IFREG | 0644, .size = 3, .content = 2, .n_links = 2 },
		{ .path = STR("usr"), .mode = S_IFDIR | 0755, .content = 3, .n_links = 1 },
		{ .path = STR("huge"),
		  .mode = S_IFREG | 0755,
		  .size = UINT64_C(1) << 62,
		  .content = 4,
		  .n_links = 1 },
	};
	struct pkg_info info = { .kind = PKG_RPM,
				 .payload.format = PKG_FORMAT_CPIO,
				 .files = files,
				 .n_files = ARRAY_SIZE(files) };
	struct pkg_walk whole, chunks;

	if (size < 1)
		return 0;
	pkg_walk_bytes(&info, bytes_of(data + 1, size - 1), 0, &whole);
	pkg_walk_bytes(&info, bytes_of(data + 1, size - 1), 1 + 5u * data[0], &chunks);
	FUZZ_CHECK(whole.end == chunks.end && whole.n_members == chunks.n_members &&
		   whole.err.kind == chunks.err.kind);
	FUZZ_CHECK(whole.end < 0 || whole.sum == chunks.sum);
	return 0;
}
