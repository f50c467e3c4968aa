/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-256 by libcrypto.
 */
#include "base/sha256.h"

#include <assert.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include "base/lazy.h"

#define FILE_PIECE KIB(64) /* stays in the processor's cache */

#define CRYPTO_FUNCTIONS(X)   \
	X(EVP_Digest)         \
	X(EVP_DigestFinal_ex) \
	X(EVP_DigestInit_ex)  \
	X(EVP_DigestUpdate)   \
	X(EVP_MD_CTX_free)    \
	X(EVP_MD_CTX_new)     \
	X(EVP_sha256)

static struct {
	CRYPTO_FUNCTIONS(LAZY_FIELD)
} crypto;

static struct lazy libcrypto = LAZY_INIT;

int sha256_load(struct err *err)
{
	static const char *const names[] = { CRYPTO_FUNCTIONS(LAZY_NAME) };

	return lazy_load(&libcrypto, "libcrypto.so.3", "libssl3", names, &crypto, ARRAY_SIZE(names), err);
}

/* struct sha256 is libcrypto's EVP_MD_CTX. */
static EVP_MD_CTX *ctx_of(struct sha256 *s)
{
	return (EVP_MD_CTX *)s;
}

int sha256_new(struct sha256 **ret, struct err *err)
{
	EVP_MD_CTX *ctx;

	if (sha256_load(err) < 0)
		return -1;
	ctx = crypto.EVP_MD_CTX_new();
	if (!ctx || crypto.EVP_DigestInit_ex(ctx, crypto.EVP_sha256(), NULL) != 1) {
		crypto.EVP_MD_CTX_free(ctx);
		return err_set(err, ERR_LIMIT, "libcrypto has no SHA-256, or no memory for it");
	}
	*ret = (struct sha256 *)ctx;
	return 0;
}

/* Neither can fail after the context was initialised. */

void sha256_add(struct sha256 *s, struct bytes b)
{
	int r = crypto.EVP_DigestUpdate(ctx_of(s), b.p, b.size);

	assert(r == 1);
}

void sha256_end(struct sha256 *s, uint8_t ret[SHA256_SIZE])
{
	int r = crypto.EVP_DigestFinal_ex(ctx_of(s), ret, NULL);

	assert(r == 1);
}

void sha256_free(struct sha256 *s)
{
	if (s)
		crypto.EVP_MD_CTX_free(ctx_of(s));
}

void sha256_freep(struct sha256 **s)
{
	sha256_free(*s);
}

void sha256_of(struct bytes b, uint8_t ret[SHA256_SIZE])
{
	int r = sha256_load(NULL);

	assert(r == 0);
	r = crypto.EVP_Digest(b.p, b.size, ret, NULL, crypto.EVP_sha256(), NULL);
	assert(r == 1);
}

int sha256_of_file(const struct file_range *f, bool (*stopped)(void *arg), void *arg,
		   uint8_t ret[SHA256_SIZE], struct err *err)
{
	AUTO(mem_freep) uint8_t *piece = mem_alloc(FILE_PIECE);
	AUTO(sha256_freep) struct sha256 *sha = NULL;
	uint64_t at = 0;

	if (sha256_new(&sha, err) < 0)
		return -1;
	while (at < f->size) {
		size_t got = 0;

		if (stopped && stopped(arg))
			return err_set(err, ERR_CANCELLED, "stopped");
		if (fd_pread(f->fd, piece, (size_t)MIN((uint64_t)FILE_PIECE, f->size - at), f->off + at, &got,
			     err) < 0)
			return -1;
		if (!got)
			return err_set(err, ERR_CHANGED, "the file became shorter while it was read");
		sha256_add(sha, bytes_of(piece, got));
		at += got;
	}
	sha256_end(sha, ret);
	return 0;
}

void sha256_small(struct bytes b, uint8_t ret[SHA256_SIZE])
{
	if (lazy_is_loaded(&libcrypto))
		sha256_of(b, ret);
	else
		sha256_portable(b, ret);
}
