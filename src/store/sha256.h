/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-256: the name of a content in the store, an rpm's digest of its payload, what is kept of a token.
 *
 * By libcrypto, which has the processor's own instructions for it, and which is loaded when it is first
 * needed: it brings 2 ms to every start of a program that is linked with it.
 */
#pragma once

#include "base/base.h"

#define SHA256_SIZE 32

struct sha256;

/* Have libcrypto, or be told that there is none: before sha256_of(), which cannot. */
int sha256_load(struct err *err);
int sha256_new(struct sha256 **ret, struct err *err);
void sha256_add(struct sha256 *s, struct bytes b);
void sha256_end(struct sha256 *s, uint8_t ret[SHA256_SIZE]); /* no more sha256_add() behind it */
void sha256_free(struct sha256 *s);                          /* takes NULL */
void sha256_freep(struct sha256 **s);
/* Of what lies in memory. Who may find no libcrypto has called sha256_load(). */
void sha256_of(struct bytes b, uint8_t ret[SHA256_SIZE]);
