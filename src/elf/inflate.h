/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zlib's format (RFC 1950) undone: by ISA-L, which is twice as fast and checks the same sum, where it is
 * installed and there is enough to do that loading it pays; by zlib otherwise.
 */
#pragma once

#include "base/view.h"
#include "base/err.h"

struct inflate;
/* @content is what will come out. ERR_LIMIT: no memory. */
int inflate_open(uint64_t content, struct inflate **ret, struct err *err);
void inflate_close(struct inflate *z); /* takes NULL */
/*
 * Take from @in and give up to @n bytes at @out: *ret_taken and *ret_got say how many. Neither took nor gave
 * anything: it wants more input. *ret_ended: the content and its check sum were all there, and good.
 */
int inflate_step(struct inflate *z, struct bytes in, size_t *ret_taken, void *out, size_t n, size_t *ret_got,
		 bool *ret_ended, struct err *err);
