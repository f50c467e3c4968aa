/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocation that cannot fail: if a small one does, the process ends with a message.
 */
#include "base/mem.h"

#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/base.h"

#define MMAP_FROM    MIB(1) /* blocks of this size and more come from the system and go back to it */
#define TRIM_FROM    MIB(1) /* free memory at the end of an arena */
#define ARENAS_LEAST 4

_Noreturn void mem_none(size_t n, size_t size)
{
	/* stderr is unbuffered: this needs no memory. */
	fprintf(stderr, "lode: out of memory: %zu x %zu bytes\n", n, size);
	abort();
}

void *mem_alloc(size_t size)
{
	void *p = malloc(size ? size : 1);

	if (!p)
		mem_none(1, size);
	return p;
}

void *mem_zalloc(size_t size)
{
	void *p = calloc(1, size ? size : 1);

	if (!p)
		mem_none(1, size);
	return p;
}

void *mem_realloc(void *p, size_t n, size_t size)
{
	size_t all;

	if (__builtin_mul_overflow(n, size, &all))
		mem_none(n, size);
	p = realloc(p, all ? all : 1);
	if (!p)
		mem_none(n, size);
	return p;
}

void *mem_try(size_t size)
{
	return malloc(size ? size : 1);
}

char *mem_strdup(const char *s)
{
	return mem_strndup(s, strlen(s));
}

char *mem_strndup(const char *s, size_t n)
{
	size_t size = n ? strnlen(s, n) : 0; /* p of an empty view may be NULL */
	char *copy = mem_alloc(size + 1);

	if (size)
		memcpy(copy, s, size);
	copy[size] = '\0';
	return copy;
}

char *mem_printf(const char *fmt, ...)
{
	va_list ap;
	char *s;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&s, fmt, ap);
	va_end(ap);
	if (n < 0)
		mem_none(1, strlen(fmt));
	return s;
}

void mem_freep(void *pp)
{
	void **p = pp;

	free(*p);
	*p = NULL;
}

/*
 * A threshold that is set does not move: by itself, glibc raises it to the largest block that was freed, 32 MiB at
 * most, and serves smaller ones from arenas, which grow and are seldom cut.
 */
void mem_return_early(void)
{
	mallopt(M_MMAP_THRESHOLD, MMAP_FROM);
	mallopt(M_TRIM_THRESHOLD, TRIM_FROM);
	mallopt(M_ARENA_MAX, MAX((int)sysconf(_SC_NPROCESSORS_ONLN), ARENAS_LEAST));
}

void mem_return_now(void)
{
	malloc_trim(0);
}
