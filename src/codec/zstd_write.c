/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compressing a buffer with zstd.
 */
#include "codec/internal.h"

#include <zstd.h>

int codec_pack_zstd(struct bytes in, int level, struct buf *out, struct err *err)
{
	size_t room = ZSTD_compressBound(in.size), n;
	uint8_t *to = ZSTD_isError(room) ? NULL : buf_try_reserve(out, room);

	if (!to)
		return err_set(err, ERR_LIMIT, "no memory");
	n = ZSTD_compress(to, room, in.p ? in.p : (const uint8_t *)"", in.size, level);
	if (ZSTD_isError(n))
		return err_set(err, ERR_INTERNAL, "zstd: %s", ZSTD_getErrorName(n));
	out->size += n;
	return 0;
}
