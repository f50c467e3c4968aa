/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Secrets in memory: pages of their own.
 */
#include "s3/secret.h"

#include <sys/mman.h>
#include <unistd.h>

static size_t pages_size(size_t n)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (n + page - 1) / page * page;
}

struct secret secret_of(struct str s)
{
	size_t room = pages_size(s.size + 1);
	char *p = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		mem_none(1, room);
	/* Older kernels and sanitizers may refuse it; the secret is cleared all the same. */
	(void)!madvise(p, room, MADV_DONTDUMP);
	if (s.size)
		memcpy(p, s.p, s.size);
	return (struct secret){ p, s.size };
}

void secret_done(struct secret *s)
{
	if (!s->p)
		return;
	explicit_bzero(s->p, s->size);
	munmap(s->p, pages_size(s->size + 1));
	*s = (struct secret){ 0 };
}

void secret_buf_done(struct buf *b)
{
	if (b->p)
		explicit_bzero(b->p, b->room);
	buf_done(b);
}
