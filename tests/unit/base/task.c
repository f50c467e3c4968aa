/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks: each kick is followed by a step, steps do not run beside one another, wakers fire once.
 */
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>
#include "base/task.h"

#define N_KICKERS 4
#define N_KICKS   2000
#define N_ROUNDS  1000

struct object {
	struct task task;
	atomic_uint refs; /* the task's */
	atomic_uint n_steps, n_running;
	atomic_uint kicked;         /* number of kicks so far */
	unsigned seen;              /* @kicked as the last step saw it */
	struct queue *reached, *go; /* where steps stop, if set */
	unsigned more;              /* steps that kick their own task */
	bool ends;
};

static void object_ref(void *arg)
{
	atomic_fetch_add(&((struct object *)arg)->refs, 1);
}

static void object_unref(void *arg)
{
	unsigned before = atomic_fetch_sub(&((struct object *)arg)->refs, 1);

	assert_true(before > 0);
}

static enum task_result object_step(void *arg)
{
	struct object *o = arg;
	void *item;

	assert_int_equal(atomic_fetch_add(&o->n_running, 1), 0);
	o->seen = atomic_load(&o->kicked);
	atomic_fetch_add(&o->n_steps, 1);
	if (o->reached) {
		queue_push(o->reached, o);
		queue_pop(o->go, -1, &item);
	}
	if (o->more && o->more--)
		task_kick(&o->task);
	atomic_fetch_sub(&o->n_running, 1);
	if (!o->ends)
		return TASK_DONE;
	task_done(&o->task);
	free(o);
	return TASK_GONE;
}

static void object_init(struct object *o, struct pool *p)
{
	*o = (struct object){
		.task = { .pool = p, .step = object_step, .ref = object_ref, .unref = object_unref, .arg = o }
	};
}

static void kicks_while_a_step_is_queued_are_one(void **state)
{
	struct pool *p = pool_new("test", 1, 0);
	struct object blocker, o;
	void *item;

	object_init(&blocker, p);
	object_init(&o, p);
	blocker.reached = queue_new(1);
	blocker.go = queue_new(1);
	task_kick(&blocker.task);
	queue_pop(blocker.reached, -1, &item);
	for (unsigned i = 0; i < 5; i++)
		task_kick(&o.task);
	assert_int_equal(o.refs, 1);
	assert_int_equal(pool_queued(p), 1);
	queue_push(blocker.go, p);
	pool_free(p);
	assert_int_equal(o.n_steps, 1);
	assert_int_equal(o.refs, 0);
	assert_int_equal(blocker.refs, 0);
	queue_free(blocker.reached);
	queue_free(blocker.go);
	task_done(&o.task);
}

static void kicks_while_a_step_runs_are_one_more(void **state)
{
	struct pool *p = pool_new("test", 2, 0);
	struct object o;
	void *item;

	object_init(&o, p);
	o.reached = queue_new(1);
	o.go = queue_new(1);
	task_kick(&o.task);
	queue_pop(o.reached, -1, &item);
	task_kick(&o.task);
	task_kick(&o.task);
	assert_int_equal(pool_queued(p), 0);
	queue_push(o.go, p);
	queue_pop(o.reached, -1, &item);
	assert_int_equal(o.n_steps, 2);
	queue_push(o.go, p);
	pool_free(p);
	assert_int_equal(o.n_steps, 2);
	assert_int_equal(o.refs, 0);
	queue_free(o.reached);
	queue_free(o.go);
}

static void *kick_often(void *arg)
{
	struct object *o = arg;

	for (unsigned i = 0; i < N_KICKS; i++) {
		atomic_fetch_add(&o->kicked, 1);
		task_kick(&o->task);
	}
	return NULL;
}

static void no_kick_is_lost(void **state)
{
	struct pool *p = pool_new("test", 3, 0);
	pthread_t kickers[N_KICKERS];
	struct object o;

	object_init(&o, p);
	for (unsigned i = 0; i < N_KICKERS; i++)
		assert_int_equal(pthread_create(&kickers[i], NULL, kick_often, &o), 0);
	for (unsigned i = 0; i < N_KICKERS; i++)
		pthread_join(kickers[i], NULL);
	while (atomic_load(&o.refs))
		sched_yield();
	assert_int_equal(o.seen, N_KICKERS * N_KICKS);
	pool_free(p);
}

static void a_step_may_kick_its_own_task(void **state)
{
	struct pool *p = pool_new("test", 1, 0);
	struct object o;

	object_init(&o, p);
	o.more = 3;
	task_kick(&o.task);
	while (atomic_load(&o.n_steps) < 4)
		sched_yield();
	pool_free(p);
	assert_int_equal(o.n_steps, 4);
	assert_int_equal(o.refs, 0);
}

static void an_object_may_end_in_its_step(void **state)
{
	struct pool *p = pool_new("test", 2, 0);

	for (unsigned i = 0; i < N_ROUNDS; i++) {
		struct object *o = NEW(struct object);

		object_init(o, p);
		o->task.ref = o->task.unref = NULL;
		o->ends = true;
		task_kick(&o->task);
	}
	pool_free(p);
}

/* ---- wakers ---- */

struct sleeper {
	struct task task;
	atomic_uint refs;
	struct task_waker *waker; /* given away by the first step */
	atomic_uint n_steps, n_waits;
	bool drops, returns; /* action of the first step */
	struct queue *given;
};

static void sleeper_ref(void *arg)
{
	atomic_fetch_add(&((struct sleeper *)arg)->refs, 1);
}

static void sleeper_unref(void *arg)
{
	atomic_fetch_sub(&((struct sleeper *)arg)->refs, 1);
}

static enum task_result sleeper_step(void *arg)
{
	struct sleeper *s = arg;

	if (atomic_fetch_add(&s->n_steps, 1)) {
		atomic_fetch_add(&s->n_waits, task_waits(&s->task));
		return TASK_DONE;
	}
	assert_false(task_waits(&s->task));
	s->waker = task_waker_new(&s->task);
	assert_true(task_waits(&s->task));
	if (s->returns)
		task_waker_return(&s->task, s->waker);
	queue_push(s->given, s->waker);
	if (s->drops)
		task_waker_drop(&s->task);
	if (s->returns || s->drops)
		assert_false(task_waits(&s->task));
	return TASK_DONE;
}

static struct task_waker *sleeper_start(struct sleeper *s, struct pool *p, struct queue *given)
{
	void *waker;

	s->task = (struct task){
		.pool = p, .step = sleeper_step, .ref = sleeper_ref, .unref = sleeper_unref, .arg = s
	};
	s->given = given;
	task_kick(&s->task);
	queue_pop(given, -1, &waker);
	return waker;
}

static void sleeper_rest(struct sleeper *s, unsigned refs)
{
	while (atomic_load(&s->refs) != refs)
		sched_yield();
}

static void a_waker_brings_the_next_step(void **state)
{
	struct pool *p = pool_new("test", 1, 0);
	struct queue *given = queue_new(1);
	struct sleeper s = { .refs = 0 };
	struct task_waker *w = sleeper_start(&s, p, given);

	sleeper_rest(&s, 1);
	task_kick(&s.task);
	sleeper_rest(&s, 1);
	assert_int_equal(s.n_steps, 2);
	assert_int_equal(s.n_waits, 1);
	task_waker_fire(w);
	sleeper_rest(&s, 0);
	pool_free(p);
	assert_int_equal(s.n_steps, 3);
	assert_int_equal(s.n_waits, 1);
	task_done(&s.task);
	queue_free(given);
}

static void a_waker_that_was_dropped_or_returned_does_nothing(void **state)
{
	struct pool *p = pool_new("test", 1, 0);
	struct queue *given = queue_new(1);
	struct sleeper dropped = { .drops = true }, returned = { .returns = true };
	struct task_waker *w = sleeper_start(&dropped, p, given);

	sleeper_rest(&dropped, 0);
	task_waker_fire(w);
	sleeper_start(&returned, p, given);
	sleeper_rest(&returned, 0);
	pool_free(p);
	assert_int_equal(dropped.n_steps, 1);
	assert_int_equal(returned.n_steps, 1);
	task_done(&dropped.task);
	task_done(&returned.task);
	queue_free(given);
}

static void *fire(void *arg)
{
	task_waker_fire(arg);
	return NULL;
}

/* The object of a task may be freed as soon as its waker is dropped. */
static void wakers_are_fired_and_dropped_at_once(void **state)
{
	struct pool *p = pool_new("test", 2, 0);
	struct queue *given = queue_new(1);

	for (unsigned i = 0; i < N_ROUNDS; i++) {
		struct sleeper *s = NEW(struct sleeper);
		struct task_waker *w;
		pthread_t t;

		s->drops = i % 2;
		w = sleeper_start(s, p, given);
		assert_int_equal(pthread_create(&t, NULL, fire, w), 0);
		sleeper_rest(s, 0);
		assert_in_range(s->n_steps, 1, 2);
		task_done(&s->task);
		free(s);
		pthread_join(t, NULL);
	}
	pool_free(p);
	queue_free(given);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kicks_while_a_step_is_queued_are_one),
		cmocka_unit_test(kicks_while_a_step_runs_are_one_more),
		cmocka_unit_test(no_kick_is_lost),
		cmocka_unit_test(a_step_may_kick_its_own_task),
		cmocka_unit_test(an_object_may_end_in_its_step),
		cmocka_unit_test(a_waker_brings_the_next_step),
		cmocka_unit_test(a_waker_that_was_dropped_or_returned_does_nothing),
		cmocka_unit_test(wakers_are_fired_and_dropped_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
