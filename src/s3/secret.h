/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Secrets in memory of their own, which a core dump leaves out, and which is cleared before it is freed.
 */
#pragma once

#include "base/base.h"

struct secret {
	char *p; /* with a NUL after it */
	size_t size;
};

struct secret secret_of(struct str s); /* a copy */
void secret_done(struct secret *s);    /* takes the zeroed */
static inline struct str secret_str(const struct secret *s)
{
	return (struct str){ s->p, s->size };
}
/* Clears @b before it is freed. */
void secret_buf_done(struct buf *b);
