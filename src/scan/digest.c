/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The payload, as stored in the package, against the digest in the package's header.
 *
 * This is done only if the compression has no check sums of its own: rpm writes zstd without them, and there
 * a flipped bit would decode to other bytes without an error. The payload is read before it is decoded, so
 * that members can be served as they go by.
 */
#include "scan/internal.h"
#include "base/sha256.h"

#define CHUNK MIB(1)

static bool has_own_sums(enum codec_kind codec)
{
	return codec == CODEC_GZIP || codec == CODEC_XZ || codec == CODEC_BZIP2;
}

int digest_check(const struct pkg_info *info, struct source *src, int (*tick)(void *arg, struct err *err),
		 void *arg, struct err *err)
{
	const struct pkg_payload *p = &info->payload;
	AUTO(sha256_freep) struct sha256 *sha = NULL;
	AUTO(mem_freep) uint8_t *buf = NULL;
	uint8_t digest[SHA256_SIZE];

	if (!info->payload_sha256.size || has_own_sums(p->codec))
		return 0;
	if (sha256_new(&sha, err) < 0)
		return -1;
	buf = mem_alloc(CHUNK);
	for (uint64_t at = 0; at < p->size;) {
		size_t n = (size_t)MIN(p->size - at, (uint64_t)CHUNK);

		if (source_read_full(src, p->off + at, buf, n, SOURCE_SEQUENTIAL, err) < 0 ||
		    tick(arg, err) < 0)
			return -1;
		sha256_add(sha, bytes_of(buf, n));
		at += n;
	}
	sha256_end(sha, digest);
	if (!bytes_eq(bytes_of(digest, sizeof(digest)), info->payload_sha256))
		return err_set(err, ERR_INVALID,
			       "the payload is damaged: its SHA-256 is not the one in the header");
	return 0;
}
