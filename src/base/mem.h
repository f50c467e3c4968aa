/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocation that cannot fail (a small one that does ends the process with a message, since no caller could
 * recover), guards that undo a local at the end of its scope, and arithmetic that detects overflow.
 *
 * A size that comes from input is checked against a named limit *before* it comes here. Large sizes
 * (megabytes) use mem_try(), whose failure is an error like any other.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

void *mem_alloc(size_t size);                      /* uninitialised */
void *mem_zalloc(size_t size);                     /* zeroed */
void *mem_realloc(void *p, size_t n, size_t size); /* n elements of size; overflow ends the process */
void *mem_try(size_t size);                        /* NULL when there is no memory; uninitialised */
_Noreturn void mem_none(size_t n, size_t size);    /* ends the process: no memory for n elements of size */
/*
 * For a service, at its start: return the memory of large blocks to the system when they are freed, and keep few
 * arenas. Else the largest query of the day would stay in the resident size.
 */
void mem_return_early(void);
/*
 * After a burst: return the free pages between blocks in use, too. Each arena is locked meanwhile, about 1 ms for 10 MB
 * returned: not of a thread of low priority.
 */
void mem_return_now(void);
char *mem_strdup(const char *s);
char *mem_strndup(const char *s, size_t n);
char *mem_printf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#define NEW(type)      ((type *)mem_zalloc(sizeof(type)))
#define NEW_N(type, n) ((type *)mem_realloc(NULL, (n), sizeof(type)))

/* AUTO(fn) T x: calls fn(&x) when x goes out of scope. fn takes a pointer to the local and accepts its empty
 * value. */
#define AUTO(fn) __attribute__((cleanup(fn)))
void mem_freep(void *pp); /* AUTO(mem_freep) char *s = NULL; */

/* Pass a guarded pointer on: the local becomes NULL. */
#define TAKE(p)                            \
	({                                 \
		__typeof__(p) take_ = (p); \
		(p) = NULL;                \
		take_;                     \
	})

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
/* Each argument is evaluated once; they may nest. */
#define MIN(a, b) MEM_PICK_((a), (b), <, __COUNTER__)
#define MAX(a, b) MEM_PICK_((a), (b), >, __COUNTER__)
/* The second macro makes a number of __COUNTER__ before it becomes part of a name. The dead comparison makes
 * the compiler warn of mixed signs, which it does not do for constants. */
#define MEM_PICK_(a, b, op, n) MEM_PICK_N_(a, b, op, n)
#define MEM_PICK_N_(a, b, op, n)                                    \
	({                                                          \
		if (0)                                              \
			(void)(a op b);                             \
		__typeof__(1 ? a : b) pick_a_##n = a;               \
		__typeof__(1 ? a : b) pick_b_##n = b;               \
		pick_a_##n op pick_b_##n ? pick_a_##n : pick_b_##n; \
	})
#define CONTAINER_OF(p, type, member) ((type *)((char *)(p)-offsetof(type, member)))

#define KIB(n) ((size_t)(n) << 10)
#define MIB(n) ((size_t)(n) << 20)

/* Stops at INT64_MIN and INT64_MAX. */
static inline int64_t add_saturating(int64_t a, int64_t b)
{
	int64_t v;

	if (__builtin_add_overflow(a, b, &v))
		return a < 0 ? INT64_MIN : INT64_MAX;
	return v;
}
/* true on overflow; *ret is written only if there is none. */
static inline bool add_overflows(uint64_t a, uint64_t b, uint64_t *ret)
{
	uint64_t v;

	if (__builtin_add_overflow(a, b, &v))
		return true;
	*ret = v;
	return false;
}
static inline bool mul_overflows(uint64_t a, uint64_t b, uint64_t *ret)
{
	uint64_t v;

	if (__builtin_mul_overflow(a, b, &v))
		return true;
	*ret = v;
	return false;
}
