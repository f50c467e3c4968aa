/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growing array: a pointer, the number of elements, and the number there is room for, as three variables or
 * fields of the owner, zeroed at first. Its memory comes from mem_realloc(); the owner frees the pointer.
 *
 *	VEC_PUSH(v->items, v->n_items, v->room_items) = (struct item){ ... };
 *
 * An array that grows by untrusted input needs a limit of its own: out of memory ends the process.
 */
#pragma once

#include "base/mem.h"

/* The new capacity where @room is too small for @need elements: amortised constant time per element. */
static inline size_t vec_room(size_t room, size_t need)
{
	size_t more = room ? 2 * room : 16;

	return more > need ? more : need;
}

/* Make room for @more elements after the first @n. Pointers into @list become invalid. */
#define VEC_RESERVE(list, n, room, more)                                          \
	do {                                                                      \
		size_t vec_need_ = (size_t)(n) + (size_t)(more);                  \
		if (vec_need_ > (size_t)(room)) {                                 \
			size_t vec_room_ = vec_room((size_t)(room), vec_need_);   \
			(list) = mem_realloc((list), vec_room_, sizeof(*(list))); \
			(room) = (__typeof__(room))vec_room_;                     \
			/* A counter narrower than size_t would wrap around. */   \
			if ((size_t)(room) != vec_room_)                          \
				mem_none(vec_room_, sizeof(*(list)));             \
		}                                                                 \
	} while (0)

#define VEC_GROW(list, n, room) VEC_RESERVE(list, n, room, 1)

/* One more element, uninitialised, as an lvalue. */
#define VEC_PUSH(list, n, room)          \
	(*({                             \
		VEC_GROW(list, n, room); \
		&(list)[(n)++];          \
	}))
