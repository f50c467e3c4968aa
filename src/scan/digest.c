/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The payload, as it lies in the file, against the digest that its package's header has for it.
 *
 * Only where the compression has no check sums of its own: rpm writes zstd without them, and there a turned
 * bit would decode to other bytes and nobody would know. It is read before it is decoded, so that what goes
 * by can be given out at once.
 */
#include "scan/internal.h"
#include "store/sha256.h"

#define PIECE MIB(1)

static bool has_own_sums(enum codec_kind codec)
{
	return codec == CODEC_GZIP || codec == CODEC_XZ || codec == CODEC_BZIP2;
}

static int digest_read(const struct pkg_payload *p, struct source *src, struct sha256 *sha, uint8_t *buf,
		       int (*told)(void *arg, struct err *err), void *arg, struct err *err)
{
	for (uint64_t at = 0; at < p->size;) {
		size_t n = (size_t)MIN(p->size - at, (uint64_t)PIECE);

		if (source_read_full(src, p->off + at, buf, n, SOURCE_SEQUENTIAL, err) < 0 ||
		    told(arg, err) < 0)
			return -1;
		sha256_add(sha, bytes_of(buf, n));
		at += n;
	}
	return 0;
}

int digest_check(const struct pkg_info *info, struct source *src, int (*told)(void *arg, struct err *err),
		 void *arg, struct err *err)
{
	AUTO(sha256_freep) struct sha256 *sha = NULL;
	AUTO(mem_freep) uint8_t *buf = NULL;
	uint8_t digest[SHA256_SIZE];

	if (!info->payload_sha256.size || has_own_sums(info->payload.codec))
		return 0;
	if (sha256_new(&sha, err) < 0)
		return -1;
	buf = mem_alloc(PIECE);
	if (digest_read(&info->payload, src, sha, buf, told, arg, err) < 0)
		return -1;
	sha256_end(sha, digest);
	if (!bytes_eq(bytes_of(digest, sizeof(digest)), info->payload_sha256))
		return err_set(err, ERR_INVALID,
			       "the payload is damaged: its SHA-256 is not the one in the header");
	return 0;
}
