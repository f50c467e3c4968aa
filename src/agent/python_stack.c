/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A native frame has its place on the stack: from its stack pointer to that of its caller. The C frame or shim of
 * an evaluation loop is a local variable of the loop's function, so the native frame around it is that loop, whatever parts
 * the compiler has cut the function into. 3.9 has no such variable: there each frame of the function's code takes the next
 * frame.
 */
#include "agent/python_stack.h"

struct join {
	const struct sampler_sample *s;
	struct python_stack_item *to;
	size_t n, next;  /* items so far; the next frame of Python */
	bool after_loop; /* the last native frame was a loop, or glue outside of one */
};

/* The place of the next loop's entry; 0: there is no further frame of Python. */
static uint32_t next_loop_entry(const struct join *j)
{
	for (size_t i = j->next; i < j->s->n_python; i++)
		if (j->s->python[i].entry)
			return j->s->python[i].entry;
	return j->next < j->s->n_python ? SAMPLER_FAR : 0;
}

/* Frames up to the outermost one of the next loop. */
static void put_loop(struct join *j)
{
	while (j->next < j->s->n_python) {
		j->to[j->n++] = (struct python_stack_item){ true, (uint32_t)j->next };
		if (j->s->python[j->next++].entry)
			return;
	}
}

/* Native frame @i; its caller's stack pointer is at @limit. */
static void put_native(struct join *j, uint32_t i, uint32_t limit, enum python_role role)
{
	bool is_loop = role == PYTHON_LOOP;
	uint32_t entry = next_loop_entry(j);

	if (entry == SAMPLER_FAR && is_loop) {
		put_loop(j);
	} else {
		while (entry && entry < limit && entry != SAMPLER_FAR) {
			is_loop = true;
			put_loop(j);
			entry = next_loop_entry(j);
		}
	}
	j->after_loop = is_loop || (j->after_loop && role == PYTHON_GLUE);
	if (!j->after_loop)
		j->to[j->n++] = (struct python_stack_item){ false, i };
}

size_t python_stack_join(const struct sampler_sample *s, const enum python_role *roles,
			 struct python_stack_item *ret)
{
	struct join j = { .s = s, .to = ret };

	for (uint32_t i = 0; i < s->n_user; i++) {
		uint32_t limit = i + 1 < s->n_user              ? s->user[i + 1].place
				 : sampler_end_complete(s->end) ? SAMPLER_FAR
								: 0;

		put_native(&j, i, limit, roles[i]);
	}
	while (j.next < s->n_python)
		put_loop(&j);
	return j.n;
}
