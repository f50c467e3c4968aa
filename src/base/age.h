/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list of a cache's entries in the order of their use. The link is a part of the entry (CONTAINER_OF). The owner has a
 * lock for it.
 */
#pragma once

#include <stddef.h>

struct age {
	struct age *older, *younger;
};
struct age_list {
	struct age *oldest, *youngest;
};

/* As the youngest. */
static inline void age_add(struct age_list *l, struct age *a)
{
	*a = (struct age){ .older = l->youngest };
	*(l->youngest ? &l->youngest->younger : &l->oldest) = a;
	l->youngest = a;
}

static inline void age_remove(struct age_list *l, struct age *a)
{
	*(a->older ? &a->older->younger : &l->oldest) = a->younger;
	*(a->younger ? &a->younger->older : &l->youngest) = a->older;
	*a = (struct age){ 0 };
}
