/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A wish to be woken. It is registered first and the answer looked for once more behind that, so that none
 * comes in between; when the answer was there after all, the wish must come to nothing.
 */
#include "resolve/internal.h"

#include <stdlib.h>

enum { ARMED, FIRED, CANCELLED };

struct ticket {
	void (*wake)(void *arg);
	void *arg;
	_Atomic int state;
	_Atomic int n_refs; /* who asked, who wakes */
};

struct ticket *ticket_new(void (*wake)(void *arg), void *arg)
{
	struct ticket *t = NEW(struct ticket);

	t->wake = wake;
	t->arg = arg;
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
		t->wake(t->arg);
	ticket_leave(t);
}

bool ticket_cancel(struct ticket *t)
{
	int armed = ARMED;
	bool cancelled = atomic_compare_exchange_strong(&t->state, &armed, CANCELLED);

	ticket_leave(t);
	return cancelled;
}

void ticket_unused(struct ticket *t)
{
	free(t);
}
