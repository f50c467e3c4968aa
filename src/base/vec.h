/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growing array: a pointer, how many elements it has, and how many it has room for, as three variables or
 * fields of the owner, zeroed at first. Its memory comes from mem_realloc(); the owner frees the pointer.
 *
 *	VEC_PUSH(v->items, v->n_items, v->room_items) = (struct item){ ... };
 *
 * What grows by untrusted input needs a limit of its own: out of memory ends the process.
 */
#pragma once

#include "base/mem.h"

/* How much room to make where @room is too little for @need elements: amortised constant time per element. */
static inline size_t vec_room(size_t room, size_t need)
{
	size_t more = room ? 2 * room : 16;

	return more > need ? more : need;
}

/* Room for @more elements after the @n that are there. Pointers into @list are void afterwards. */
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
