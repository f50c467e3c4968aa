/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compressing a package map's columns with zstd, in one call, since their size is known.
 */
#include "pkg/map_format.h"

#include <zstd.h>

/* Half a second for the largest packages, milliseconds for most. */
#define LEVEL 15

void map_pack(struct bytes in, struct buf *out)
{
	size_t room = ZSTD_compressBound(in.size), n;

	n = ZSTD_compress(buf_reserve(out, room), room, in.p, in.size, LEVEL);
	if (ZSTD_isError(n)) {
		/* There is room for the result, so the failure is a lack of memory. Level 1 needs less. */
		n = ZSTD_compress(buf_reserve(out, room), room, in.p, in.size, 1);
	}
	out->size += ZSTD_isError(n) ? 0 : n;
}

int map_unpack(struct bytes in, uint8_t *out, size_t size, struct err *err)
{
	size_t n = ZSTD_decompress(out, size, in.p, in.size);

	if (ZSTD_isError(n))
		return err_set(err, ERR_INVALID, "%s", ZSTD_getErrorName(n));
	if (n != size)
		return err_set(err, ERR_INVALID, "%zu bytes instead of %zu", n, size);
	return 0;
}
