/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoding zlib's format (RFC 1950): by ISA-L, which is twice as fast and verifies the same checksum, if it
 * is installed and the content is large enough to repay loading it; else by zlib.
 */
#pragma once

#include "base/view.h"
#include "base/err.h"

struct inflate;
/* @content is the decoded size. ERR_LIMIT: no memory. */
int inflate_open(uint64_t content, struct inflate **ret, struct err *err);
void inflate_close(struct inflate *z); /* takes NULL */
/*
 * Take from @in and give up to @n bytes at @out: *ret_taken and *ret_got say how many. Neither took nor gave
 * anything: it wants more input. *ret_ended: the content and its check sum were all there, and good.
 */
int inflate_step(struct inflate *z, struct bytes in, size_t *ret_taken, void *out, size_t n, size_t *ret_got,
		 bool *ret_ended, struct err *err);
