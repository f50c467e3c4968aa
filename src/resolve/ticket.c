/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A wake that can be cancelled. A waiter registers first and then checks once more for the answer, so that
 * none is missed in between; when the answer was there after all, the wake must do nothing.
 */
#include "resolve/internal.h"

#include <stdlib.h>

enum { ARMED, FIRED, CANCELLED };

struct ticket {
	struct resolve_wake wake;
	_Atomic int state;
	_Atomic int n_refs; /* one of the waiter, one of the waker */
};

struct ticket *ticket_new(struct resolve_wake wake)
{
	struct ticket *t = NEW(struct ticket);

	t->wake = wake;
	atomic_init(&t->state, ARMED);
	atomic_init(&t->n_refs, 2);
	return t;
}

void ticket_leave(struct ticket *t)
{
	if (atomic_fetch_sub(&t->n_refs, 1) == 1)
		free(t);
}

void ticket_fire(void *ticket)
{
	struct ticket *t = ticket;
	int armed = ARMED;

	if (atomic_compare_exchange_strong(&t->state, &armed, FIRED))
		t->wake.fn(t->wake.arg);
	ticket_leave(t);
}

bool ticket_cancel(struct ticket *t)
{
	int armed = ARMED;
	bool cancelled = atomic_compare_exchange_strong(&t->state, &armed, CANCELLED);

	ticket_leave(t);
	return cancelled;
}

bool ticket_wanted(void *ticket)
{
	struct ticket *t = ticket;

	/* While the caller has its reference it may cancel, after which its wake may be gone. */
	if (atomic_load(&t->n_refs) > 1)
		return true;
	return atomic_load(&t->state) == ARMED && (!t->wake.wanted || t->wake.wanted(t->wake.arg));
}

void ticket_unused(struct ticket *t)
{
	free(t);
}
