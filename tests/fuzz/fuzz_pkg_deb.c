/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Debian package: the outer ar, the control archive, and the members of the payload.
 */
#include "fuzz.h"
#include "pkg_walk.h"

#include "pkg/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct source *src = source_of_mem(bytes_of(data, size), "x.deb");
	struct err err = { 0 };
	struct pkg_info info;
	struct pkg_walk w;
	struct stream *s;
	struct arena a;
	int r = PKG_NOT_A_PACKAGE;

	arena_init(&a);
	if (ar_detect(bytes_of(data, size)))
		r = deb_open(src, &a, &info, &err);
	else if (size > 2 && data[0] == 0x1f)
		/* .ipk: a gzipped tar */
		r = pkg_open(src, STR("x.ipk"), &a, &info, &err);
	FUZZ_CHECK(r >= 0 || err.kind != ERR_NONE);
	if (r == 0) {
		pkg_walk_info(&info, size);
		if (info.kind != PKG_OTHER &&
		    codec_stream_open(info.payload.codec,
				      stream_of_source(src, false, info.payload.off, info.payload.size), &s,
				      &err) == 0) {
			pkg_walk_stream(&info, s, src, &w);
			stream_close(s);
		}
	}
	arena_done(&a);
	source_close(src);
	return 0;
}
