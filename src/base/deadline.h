/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The deadline of one piece of work (a query, a symbolization), which its inner loops check, and a question
 * whether anybody still waits for the result.
 *
 *	for (size_t i = 0; i < n; i++) {
 *		if (deadline_check(d, 1, err) < 0)
 *			return -1;
 *		...
 *	}
 *
 * A check counts steps down and costs an addition and a branch; the clock is read once in DEADLINE_STEPS steps.
 * A step is some nanoseconds of work: a loop whose turns take longer passes more steps for each turn, so that
 * between two looks at the clock there is at most about a millisecond.
 *
 * A deadline belongs to one thread at a time. All functions take NULL: no deadline.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"

#define DEADLINE_STEPS   16384u
#define DEADLINE_POLL_MS 50 /* the shortest time between two calls of cancelled() */

enum deadline_state { DEADLINE_RUNS, DEADLINE_PASSED, DEADLINE_CANCELLED };

struct deadline {
	/* The owner's to set; texts are borrowed. */
	const char *what;                   /* "the query": the subject of the message */
	const char *remedy;                 /* "ask for a shorter time range"; NULL: none */
	int64_t start_mono_ms, end_mono_ms; /* end 0: there is no end, only cancelled() */
	bool (*cancelled)(void *arg);       /* nobody waits for the result any more; NULL: never */
	/*
	 * NULL, or called at each look at the clock: the thread may wait here while more urgent work has its
	 * CPU.
	 */
	void (*give_way)(void *arg);
	void *arg;
	/* deadline.c's; zero at first. Once it is not DEADLINE_RUNS it stays so. */
	enum deadline_state state;
	int64_t poll_at_ms;
	uint32_t spent; /* steps since the clock was read */
};

/* A deadline @ms from now. */
struct deadline deadline_in(int64_t ms, const char *what, const char *remedy);

/* deadline.c's: read the clock. */
bool deadline_look(struct deadline *d);
int deadline_error(const struct deadline *d, struct err *err);

/*
 * Count @steps. true: the work has to end, as its deadline has passed or it was cancelled. Every later call says
 * so too.
 */
static inline bool deadline_over(struct deadline *d, uint32_t steps)
{
	if (!d)
		return false;
	/* Saturates: one check may count any number of steps. */
	d->spent = d->spent + steps < steps ? UINT32_MAX : d->spent + steps;
	return d->spent >= DEADLINE_STEPS && deadline_look(d);
}

/*
 * The same. -1: ERR_CANCELLED, with err->os ETIME when the deadline has passed, ECANCELED when the work was
 * cancelled; the text says what took too long, and the remedy.
 */
static inline int deadline_check(struct deadline *d, uint32_t steps, struct err *err)
{
	return deadline_over(d, steps) ? deadline_error(d, err) : 0;
}
