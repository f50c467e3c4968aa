/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocation that cannot fail (a small one that does ends the process with a message: there is no sane way on), guards
 * that undo a local at the end of its scope, and arithmetic that notices overflow.
 *
 * A size that comes from input meets a named limit *before* it comes here; what may be large (megabytes) is asked for
 * with mem_try() and its failure is an error like any other.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

void *mem_alloc(size_t size);                       /* uninitialised */
void *mem_zalloc(size_t size);                      /* zeroed */
void *mem_realloc(void *p, size_t n, size_t size);  /* n elements of size; overflow ends the process */
void *mem_try(size_t size);                         /* NULL when there is none; uninitialised */
char *mem_strdup(const char *s);
char *mem_strndup(const char *s, size_t n);
char *mem_printf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#define NEW(type)      ((type *)mem_zalloc(sizeof(type)))
#define NEW_N(type, n) ((type *)mem_realloc(NULL, (n), sizeof(type)))

/* AUTO(fn) T x: calls fn(&x) when x goes out of scope. fn takes a pointer to the local and accepts its empty value. */
#define AUTO(fn) __attribute__((cleanup(fn)))
void mem_freep(void *pp); /* AUTO(mem_freep) char *s = NULL; */

/* Hand a guarded pointer on: the local becomes NULL. */
#define TAKE(p)                                                                                                        \
	({                                                                                                             \
		__typeof__(p) take_ = (p);                                                                             \
		(p) = NULL;                                                                                            \
		take_;                                                                                                 \
	})

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b)                                                                                                      \
	({                                                                                                             \
		__typeof__(a) min_a_ = (a);                                                                            \
		__typeof__(b) min_b_ = (b);                                                                            \
		min_a_ < min_b_ ? min_a_ : min_b_;                                                                     \
	})
#define MAX(a, b)                                                                                                      \
	({                                                                                                             \
		__typeof__(a) max_a_ = (a);                                                                            \
		__typeof__(b) max_b_ = (b);                                                                            \
		max_a_ > max_b_ ? max_a_ : max_b_;                                                                     \
	})
#define CONTAINER_OF(p, type, member) ((type *)((char *)(p)-offsetof(type, member)))

#define KIB(n) ((size_t)(n) << 10)
#define MIB(n) ((size_t)(n) << 20)

/* true on overflow; *ret is written only without. */
static inline bool add_overflows(uint64_t a, uint64_t b, uint64_t *ret)
{
	return __builtin_add_overflow(a, b, ret);
}
static inline bool mul_overflows(uint64_t a, uint64_t b, uint64_t *ret)
{
	return __builtin_mul_overflow(a, b, ret);
}
