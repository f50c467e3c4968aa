/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call whose caller has the loop's thread and nothing else to do: it waits.
 */
#include "net/net.h"

#define TURN_MS 100

struct call_waiter {
	bool over;
	int outcome;
	struct net_answer *answer;
	struct err *err;
};

void net_answer_done(struct net_answer *a)
{
	buf_done(&a->headers);
	buf_done(&a->body);
}

bool net_answer_is_final(unsigned status)
{
	return status >= 400 && status < 500 && status != 408 && status != 409 && status != 425 &&
	       status != 429;
}

static void waiter_answered(void *arg, struct net_call *c, int outcome, const struct net_call_answer *a,
			    const struct err *err)
{
	struct call_waiter *w = arg;

	w->over = true;
	w->outcome = outcome;
	if (outcome < 0) {
		*w->err = *err;
		return;
	}
	w->answer->status = a->status;
	w->answer->retry_after_s = a->retry_after_s;
	buf_add_str(&w->answer->headers, a->headers);
	buf_add(&w->answer->body, a->body.p, a->body.size);
}

int net_call_wait(struct net *n, struct net_call_request *req, bool (*stopped)(void *arg), void *arg,
		  struct net_answer *ret, struct err *err)
{
	struct call_waiter w = { .answer = ret, .err = err };
	struct net_call *call;

	*ret = (struct net_answer){ .retry_after_s = -1 };
	req->arg = &w;
	req->done = waiter_answered;
	net_call_start(n, req, &call);
	while (!w.over) {
		net_run(n, TURN_MS);
		if (stopped(arg))
			net_call_cancel(call);
	}
	net_call_unref(call);
	return w.outcome;
}
