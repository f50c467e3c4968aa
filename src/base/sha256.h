/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-256: names of contents in the store, OpenTelemetry's hashes of files, digests of rpm payloads, hashes of tokens.
 *
 * By libcrypto, which uses the processor's instructions. It is loaded when it is first needed, since linking
 * it adds 2 ms to every start of a program.
 */
#pragma once

#include "base/base.h"
#include "base/file.h"

#define SHA256_SIZE 32

struct sha256;

/* Load libcrypto, or fail: call it before sha256_of(), which cannot fail. */
int sha256_load(struct err *err);
int sha256_new(struct sha256 **ret, struct err *err);
void sha256_add(struct sha256 *s, struct bytes b);
void sha256_end(struct sha256 *s, uint8_t ret[SHA256_SIZE]); /* no sha256_add() after it */
void sha256_free(struct sha256 *s);                          /* takes NULL */
void sha256_freep(struct sha256 **s);
/* Of bytes in memory. Call sha256_load() first where libcrypto may be missing. */
void sha256_of(struct bytes b, uint8_t ret[SHA256_SIZE]);
/* Of bytes of a file, in small pieces. ERR_CHANGED: it is shorter. ERR_CANCELLED: @stopped (NULL: never) has said so. */
int sha256_of_file(const struct file_range *f, bool (*stopped)(void *arg), void *arg,
		   uint8_t ret[SHA256_SIZE], struct err *err);
/* Of a few kilobytes: by libcrypto if it is loaded, else in C, which takes 4 us a kilobyte. Cannot fail. */
void sha256_small(struct bytes b, uint8_t ret[SHA256_SIZE]);
void sha256_portable(struct bytes b, uint8_t ret[SHA256_SIZE]); /* always in C */
