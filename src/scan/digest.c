/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The payload, as it lies in the file, against the digest that its package's header has for it.
 *
 * Only where the compression has no check sums of its own: rpm writes zstd without them, and there a turned
 * bit would decode to other bytes and nobody would know. It is read before it is decoded, so that what goes
 * by can be given out at once.
 */
#include <openssl/evp.h>
#include "scan/internal.h"

#define PIECE MIB(1)

static bool has_own_sums(enum codec_kind codec)
{
	return codec == CODEC_GZIP || codec == CODEC_XZ || codec == CODEC_BZIP2;
}

static int digest_read(const struct pkg_payload *p, struct source *src, EVP_MD_CTX *ctx, uint8_t *buf,
		       int (*told)(void *arg, struct err *err), void *arg, struct err *err)
{
	for (uint64_t at = 0; at < p->size;) {
		size_t n = (size_t)MIN(p->size - at, (uint64_t)PIECE);

		if (source_read_full(src, p->off + at, buf, n, SOURCE_SEQUENTIAL, err) < 0 ||
		    told(arg, err) < 0)
			return -1;
		if (EVP_DigestUpdate(ctx, buf, n) != 1)
			return err_set(err, ERR_INTERNAL, "libcrypto does not hash");
		at += n;
	}
	return 0;
}

static void ctx_free(EVP_MD_CTX **ctx)
{
	EVP_MD_CTX_free(*ctx);
}

int digest_check(const struct pkg_info *info, struct source *src, int (*told)(void *arg, struct err *err),
		 void *arg, struct err *err)
{
	AUTO(ctx_free) EVP_MD_CTX *ctx = NULL;
	AUTO(mem_freep) uint8_t *buf = NULL;
	uint8_t digest[EVP_MAX_MD_SIZE];
	unsigned size = 0;

	if (!info->payload_sha256.size || has_own_sums(info->payload.codec))
		return 0;
	ctx = EVP_MD_CTX_new();
	if (!ctx || EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) != 1)
		return err_set(err, ERR_INTERNAL, "libcrypto has no SHA-256");
	buf = mem_alloc(PIECE);
	if (digest_read(&info->payload, src, ctx, buf, told, arg, err) < 0)
		return -1;
	if (EVP_DigestFinal_ex(ctx, digest, &size) != 1)
		return err_set(err, ERR_INTERNAL, "libcrypto does not hash");
	if (!bytes_eq(bytes_of(digest, size), info->payload_sha256))
		return err_set(err, ERR_INVALID,
			       "the payload is damaged: its SHA-256 is not the one in the header");
	return 0;
}
