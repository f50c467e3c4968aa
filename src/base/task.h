/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A task: work on one object that is done in steps on a pool, one step at a time.
 *
 * A caller with news for the object kicks its task, from any thread and under any lock. A kick queues
 * a step; while one is queued there is nothing more to do, and while one runs another follows it. So no kick
 * is lost, and no step runs beside another of the same task.
 *
 * A step that has to wait for someone else gives a waker away and returns. The waker kicks the task when it
 * is fired, once. It may be fired long after the object has ended: then it does nothing.
 *
 *	static enum task_result step(void *arg)
 *	{
 *		struct object *o = arg;
 *		struct task_waker *w;
 *
 *		if (task_waits(&o->task))
 *			return TASK_DONE; // kicked for another reason
 *		w = task_waker_new(&o->task);
 *		if (ask(o, task_waker_fire, w) == WAITS)
 *			return TASK_DONE; // kicked by @w, perhaps already
 *		task_waker_return(&o->task, w);
 *		...
 *	}
 *
 * The task is a part of its object, which needs no memory to be queued and cannot find the pool full.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include "base/pool.h"

struct task_waker;

enum task_result {
	TASK_DONE, /* until the next kick, or at once if there was one meanwhile */
	TASK_GONE, /* the object has ended and cannot be kicked: its memory is not accessed any more */
};

struct task {
	/* Fixed, the owner's to set. */
	struct pool *pool; /* outlives the task */
	atomic_uint cls;   /* of the pool's classes; changed, it holds for steps that are queued later */
	enum task_result (*step)(void *arg);
	/* The object's references, or NULL. The task has one from a kick until its step is done, and one for
	 * a waker that may still be fired. */
	void (*ref)(void *arg);
	void (*unref)(void *arg);
	void *arg;
	/* The task's own: zeroed is idle. */
	atomic_uint state;
	struct pool_slot slot;
	struct task_waker *waker; /* used in steps only */
};

void task_kick(struct task *t);
/* The object ends: no step is queued or runs, but the one that calls this. */
void task_done(struct task *t);

/* In a step. The task must not be waiting already. */
struct task_waker *task_waker_new(struct task *t);
void task_waker_fire(void *w); /* takes @w; from any thread */
/* From any thread, before it is fired: the task still waits for it. */
bool task_waker_wanted(void *w);
void task_waker_return(struct task *t, struct task_waker *w); /* takes @w, which was not given away */
/* In a step: it waits no longer. The waker that was given away, if any, does nothing when it is fired. */
void task_waker_drop(struct task *t);
/* In a step: a waker was given away and has not been fired. */
bool task_waits(struct task *t);
