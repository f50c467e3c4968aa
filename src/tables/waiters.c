/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which request waits for which build. All but requests_ready() under the lock of struct tables.
 */
#include "tables/internal.h"

void waiter_add(struct waiter *w, struct build *b)
{
	w->build = b;
	w->prev = NULL;
	w->next = b->waiters;
	if (w->next)
		w->next->prev = w;
	b->waiters = w;
}

void request_list(struct tables_request *req)
{
	struct tables *t = req->tables;

	req->prev = NULL;
	req->next = t->waiting;
	if (t->waiting)
		t->waiting->prev = req;
	t->waiting = req;
	req->listed = true;
	pthread_cond_broadcast(&t->changed);
}

void request_unlist(struct tables_request *req)
{
	struct tables *t = req->tables;

	if (!req->listed)
		return;
	for (size_t i = 0; i < req->n * req->per_id; i++) {
		struct waiter *w = &req->waiters[i];

		if (!w->build)
			continue;
		*(w->prev ? &w->prev->next : &w->build->waiters) = w->next;
		if (w->next)
			w->next->prev = w->prev;
		w->build = NULL;
	}
	*(req->prev ? &req->prev->next : &t->waiting) = req->next;
	if (req->next)
		req->next->prev = req->prev;
	req->listed = false;
}

static void request_gets_hungry(struct tables_request *req, struct tables_request **list)
{
	if (req->hungry)
		return;
	req->hungry = true;
	req->next_hungry = *list;
	*list = req;
}

static bool is_in_group(const struct tables_request *req, enum waiters_group group)
{
	switch (group) {
	case WAITERS_UNSEARCHING:
		return !req->unscanned;
	case WAITERS_EARLY:
		return req->early;
	default:
		return true;
	}
}

struct tables_request *waiters_complete(struct build *b, struct tables_entry *e, enum waiters_group group,
					struct tables_request **ret_hungry)
{
	struct tables_request *ready = NULL;
	struct waiter *rest = NULL;

	*ret_hungry = NULL;
	for (struct waiter *w = b->waiters, *next; w; w = next) {
		struct tables_request *req = w->request;

		next = w->next;
		/* Also a waiter that goes on waiting for the scan leaves room for another build. */
		if (w->out && (group != WAITERS_EARLY || req->early)) {
			w->out = false;
			req->n_out--;
			request_gets_hungry(req, ret_hungry);
		}
		if (!is_in_group(req, group)) {
			w->prev = NULL;
			w->next = rest;
			if (rest)
				rest->prev = w;
			rest = w;
			continue;
		}
		/* A request that was to wait for the scan, but cannot, reports FRAME_PENDING. */
		w->entry = e->searching && req->unscanned ? NULL : entry_ref(e);
		w->build = NULL;
		if (--req->n_missing)
			continue;
		request_unlist(req);
		req->next = ready;
		ready = req;
	}
	b->waiters = rest;
	return ready;
}

bool waiters_await_scan(const struct build *b)
{
	for (const struct waiter *w = b->waiters; w; w = w->next)
		if (w->request->unscanned)
			return true;
	return false;
}

void requests_ready(struct tables_request *list)
{
	while (list) {
		struct tables_request *next = list->next;

		list->ready(list->arg); /* it may be gone */
		list = next;
	}
}
