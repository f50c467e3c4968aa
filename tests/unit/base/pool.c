/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worker threads: order, bounds, end.
 */
#include "test.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <unistd.h>
#include "base/condition.h"

/* A worker stands still until the gate is opened, so that a test can look at the queue. */
static struct queue *gate_reached, *gate_open;

static void stand_still(void *arg)
{
	void *item;

	queue_push(gate_reached, arg);
	queue_pop(gate_open, -1, &item);
}

static int setup(void **state)
{
	gate_reached = queue_new(16);
	gate_open = queue_new(16);
	return 0;
}

static int teardown(void **state)
{
	queue_free(gate_reached);
	queue_free(gate_open);
	return 0;
}

static void hold_worker(struct pool *p)
{
	void *item;

	assert_int_equal(pool_submit(p, POOL_NORMAL, stand_still, p), 0);
	assert_int_equal(queue_pop(gate_reached, -1, &item), 0);
}

static char letters[] = "aXbYcZ";
static char order[32];
static size_t n_order;

static void note(void *arg)
{
	order[n_order++] = *(char *)arg;
}

static void urgent_tasks_come_first_each_class_in_order(void **state)
{
	struct pool *p = pool_new("test", 1, 16);

	n_order = 0;
	hold_worker(p);
	for (int i = 0; i < 6; i++)
		assert_int_equal(pool_submit(p, i % 2 ? POOL_URGENT : POOL_NORMAL, note, &letters[i]), 0);
	assert_int_equal(pool_queued(p), 6);
	assert_int_equal(pool_busy(p), 1);
	queue_push(gate_open, p);
	pool_free(p); /* runs what is queued */
	assert_memory_equal(order, "XYZabc", 6);
	assert_int_equal(n_order, 6);
}

static void a_full_pool_refuses_work(void **state)
{
	struct pool *p = pool_new("test", 1, 2);

	n_order = 0;
	hold_worker(p);
	assert_int_equal(pool_submit(p, POOL_URGENT, note, &letters[0]), 0);
	assert_int_equal(pool_submit(p, POOL_NORMAL, note, &letters[1]), 0);
	assert_int_equal(pool_submit(p, POOL_URGENT, note, &letters[2]), POOL_FULL);
	queue_push(gate_open, p);
	pool_free(p);
	assert_int_equal(n_order, 2);
	pool_free(NULL);
}

static void slots_are_queued_in_a_full_pool(void **state)
{
	struct pool *p = pool_new("test", 1, 1);
	struct pool_slot slots[6] = { 0 };

	n_order = 0;
	hold_worker(p);
	assert_int_equal(pool_submit(p, POOL_NORMAL, note, &letters[0]), 0);
	for (int i = 1; i < 6; i++)
		pool_queue(p, i % 2 ? POOL_URGENT : POOL_NORMAL, &slots[i], note, &letters[i]);
	assert_int_equal(pool_queued(p), 6);
	assert_int_equal(pool_submit(p, POOL_NORMAL, note, &letters[0]), POOL_FULL);
	queue_push(gate_open, p);
	pool_free(p);
	assert_memory_equal(order, "XYZabc", 6);
	for (int i = 0; i < 6; i++)
		assert_false(slots[i].queued);
}

static struct pool_slot *twice_slot;
static struct pool *twice_pool;

static void queue_once_more(void *arg)
{
	struct pool_slot *slot = TAKE(twice_slot);

	if (slot)
		pool_queue(twice_pool, POOL_NORMAL, slot, queue_once_more, arg);
	note(arg);
}

static void a_slot_is_free_when_its_work_begins(void **state)
{
	struct pool_slot slot = { 0 };

	n_order = 0;
	twice_slot = &slot;
	twice_pool = pool_new("test", 1, 0);
	pool_queue(twice_pool, POOL_NORMAL, &slot, queue_once_more, &letters[0]);
	while (pool_queued(twice_pool) || pool_busy(twice_pool))
		sched_yield();
	pool_free(twice_pool);
	assert_int_equal(n_order, 2);
}

static struct pool *resubmit_pool;
static atomic_int resubmitted;

static void resubmit(void *arg)
{
	int r;

	/* Until the pool begins to close. */
	while ((r = pool_submit(resubmit_pool, POOL_NORMAL, note, &letters[0])) != POOL_CLOSED)
		;
	atomic_store(&resubmitted, r);
}

static void a_closing_pool_takes_no_more(void **state)
{
	n_order = 0;
	resubmit_pool = pool_new("test", 1, 4);
	assert_int_equal(pool_submit(resubmit_pool, POOL_NORMAL, resubmit, NULL), 0);
	pool_free(resubmit_pool);
	assert_int_equal(resubmitted, POOL_CLOSED);
	assert_in_range(n_order, 0, 4);
}

struct facts {
	char name[16];
	bool blocked;
};

static void look(void *arg)
{
	struct facts *f = arg;
	sigset_t set;

	pthread_getname_np(pthread_self(), f->name, sizeof(f->name));
	pthread_sigmask(SIG_SETMASK, NULL, &set);
	f->blocked = sigismember(&set, SIGTERM) && sigismember(&set, SIGUSR1);
}

static void workers_have_names_and_get_no_signals(void **state)
{
	struct pool *p = pool_new("a-very-long-name", 1, 4);
	struct facts f = { 0 };

	hold_worker(p); /* the thread that starts a worker names it */
	assert_int_equal(pool_submit(p, POOL_NORMAL, look, &f), 0);
	queue_push(gate_open, p);
	assert_int_equal(pool_threads(p), 1);
	pool_free(p);
	assert_string_equal(f.name, "a-very-long--0");
	assert_true(f.blocked);
}

static atomic_int counted;

static void count(void *arg)
{
	atomic_fetch_add(&counted, 1);
}

static void *submit_many(void *arg)
{
	for (int i = 0; i < 2000; i++)
		while (pool_submit(arg, i % 3 ? POOL_NORMAL : POOL_URGENT, count, NULL) == POOL_FULL)
			usleep(100);
	return NULL;
}

static void every_task_runs_once(void **state)
{
	struct pool *p = pool_new("test", 4, 8);
	pthread_t t[3];

	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&t[i], NULL, submit_many, p), 0);
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	pool_free(p);
	assert_int_equal(counted, 6000);
}

/* ---- fair pools ---- */

/* Work of @cls that stands still; it has begun when this returns. */
static void hold_class(struct pool *p, unsigned cls, struct pool_slot *slot)
{
	void *item;

	pool_queue(p, cls, slot, stand_still, p);
	assert_int_equal(queue_pop(gate_reached, -1, &item), 0);
}

static void open_gates(struct pool *p, unsigned n)
{
	while (n--)
		queue_push(gate_open, p);
}

static void a_class_that_has_all_shared_workers_leaves_others_theirs(void **state)
{
	struct pool *p = pool_new_fair(
		&(struct pool_options){ .name = "test", .n_threads = 2, .max_queued = 1, .n_classes = 3 });
	struct pool_slot slots[6] = { 0 };
	void *item;

	assert_int_equal(pool_threads(p), 5);
	for (unsigned i = 0; i < 3; i++)
		hold_class(p, 0, &slots[i]); /* its own worker, and both shared ones */
	pool_queue(p, 0, &slots[3], stand_still, p);
	hold_class(p, 1, &slots[4]);
	hold_class(p, 2, &slots[5]);
	assert_int_equal(pool_queued(p), 1);
	assert_int_equal(pool_busy(p), 5);
	assert_int_not_equal(queue_pop(gate_reached, 0, &item), 0);
	open_gates(p, 6);
	assert_int_equal(queue_pop(gate_reached, -1, &item), 0);
	pool_free(p);
}

static void clients_of_a_class_take_turns(void **state)
{
	struct pool *p = pool_new_fair(
		&(struct pool_options){ .name = "test", .n_threads = 1, .max_queued = 1, .n_classes = 1 });
	struct pool_slot hold[2] = { 0 }, slots[6] = { 0 };
	static const uint32_t clients[] = { 5, 5, 5, 5, 9, 70 };

	/* Both workers are held; one of them is let go. */
	n_order = 0;
	hold_class(p, 0, &hold[0]);
	hold_class(p, 0, &hold[1]);
	for (unsigned i = 0; i < 6; i++) {
		slots[i].client = clients[i];
		pool_queue(p, 0, &slots[i], note, &letters[i]);
	}
	open_gates(p, 1);
	while (pool_queued(p) || pool_busy(p) > 1)
		sched_yield();
	open_gates(p, 1);
	pool_free(p);
	/* Clients 5, 6 (70 modulo 64) and 9; the first has a, X, b, Y. */
	assert_memory_equal(order, "aZcXbY", 6);
}

static void one_client_does_not_get_all_workers(void **state)
{
	struct pool *p = pool_new_fair(&(struct pool_options){
		.name = "test", .n_threads = 2, .max_queued = 1, .n_classes = 1, .max_per_client = 2 });
	struct pool_slot slots[4] = { { .client = 1 }, { .client = 1 }, { .client = 1 }, { .client = 2 } };
	void *item;

	hold_class(p, 0, &slots[0]);
	hold_class(p, 0, &slots[1]);
	pool_queue(p, 0, &slots[2], stand_still, p);
	assert_int_not_equal(queue_pop(gate_reached, 0, &item), 0);
	hold_class(p, 0, &slots[3]);
	assert_int_equal(pool_queued(p), 1);
	open_gates(p, 4);
	assert_int_equal(queue_pop(gate_reached, -1, &item), 0);
	pool_free(p);
}

static struct queue *last_gate;

static void stand_still_longer(void *arg)
{
	void *item;

	queue_push(gate_reached, arg);
	queue_pop(last_gate, -1, &item);
}

static void note_for_10_ms(void *arg)
{
	clock_test_advance(10);
	note(arg);
}

static void shared_workers_go_by_shares_of_time(void **state)
{
	static const unsigned shares[] = { 1, 2 };
	struct pool *p = pool_new_fair(&(struct pool_options){
		.name = "test", .n_threads = 1, .max_queued = 1, .n_classes = 2, .shares = shares });
	struct pool_slot hold[3] = { 0 }, slots[6] = { 0 };

	void *item;

	clock_test_freeze(1000);
	last_gate = queue_new(4);
	n_order = 0;
	pool_queue(p, 0, &hold[0], stand_still_longer, p);
	assert_int_equal(queue_pop(gate_reached, -1, &item), 0);
	pool_queue(p, 1, &hold[1], stand_still_longer, p);
	assert_int_equal(queue_pop(gate_reached, -1, &item), 0);
	hold_class(p, 0, &hold[2]);
	for (unsigned i = 0; i < 6; i++) /* letters of class 0 are small */
		pool_queue(p, i % 2, &slots[i], note_for_10_ms, &letters[i]);
	open_gates(p, 1);
	while (pool_queued(p) || pool_busy(p) > 2)
		sched_yield();
	queue_push(last_gate, p);
	queue_push(last_gate, p);
	pool_free(p);
	queue_free(last_gate);
	clock_test_thaw();
	assert_memory_equal(order, "aXYbZc", 6);
}

static int found_nice;

static void note_nice(void *arg)
{
	found_nice = getpriority(PRIO_PROCESS, 0);
	queue_push(arg, arg);
}

static int nice_of_worker(struct pool *p)
{
	struct queue *q = queue_new(1);
	void *item;

	assert_int_equal(pool_submit(p, POOL_NORMAL, note_nice, q), 0);
	assert_int_equal(queue_pop(q, -1, &item), 0);
	queue_free(q);
	return found_nice;
}

static void helpers_are_as_nice_as_their_maker_or_as_they_are_told(void **state)
{
	int mine = getpriority(PRIO_PROCESS, 0);
	struct pool *plain = pool_new("plain", 1, 1), *p = pool_new_helpers("help", 1, 1);

	assert_int_equal(nice_of_worker(plain), MIN(mine + POOL_NICE, 19));
	assert_int_equal(nice_of_worker(p), mine);
	pool_renice(p, 19);
	assert_int_equal(nice_of_worker(p), 19);
	/* Without the privilege they stay as nice as they are. */
	pool_renice(p, mine);
	assert_in_range(nice_of_worker(p) + 20, mine + 20, 39);
	assert_int_equal(getpriority(PRIO_PROCESS, 0), mine);
	pool_free(plain);
	pool_free(p);
	/* Told before its threads run. */
	p = pool_new_helpers("help", 1, 1);
	pool_renice(p, 19);
	assert_int_equal(nice_of_worker(p), 19);
	pool_free(p);
}

/* ---- work that waits for another machine ---- */

static void stand_still_waiting(void *arg)
{
	pool_wait_begin();
	pool_wait_begin();
	pool_wait_end();
	stand_still(arg);
	pool_wait_end();
}

static void open_gate(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		queue_push(gate_open, gate_open);
}

static void work_that_waits_occupies_no_worker(void **state)
{
	struct pool *p = pool_new_fair(&(struct pool_options){
		.name = "test", .n_threads = 1, .max_queued = 16, .n_classes = 1, .max_per_client = 1 });
	void *item;

	pool_permit_waiting(p, 8);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(pool_submit(p, 0, stand_still_waiting, p), 0);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(queue_pop(gate_reached, -1, &item), 0);
	assert_int_equal(pool_waiting(p), 8);
	assert_int_equal(pool_busy(p), 0);
	/* Of the same client, whose limit is one worker. */
	assert_true(nice_of_worker(p) >= getpriority(PRIO_PROCESS, 0));
	assert_true(pool_may_wait());
	open_gate(8);
	pool_free(p);
}

static bool found_may_wait;

static void note_may_wait(void *arg)
{
	found_may_wait = pool_may_wait();
	queue_push(arg, arg);
}

static void too_many_waits_keep_their_workers(void **state)
{
	struct pool *p = pool_new("test", 2, 16);
	struct queue *q = queue_new(1);
	void *item;

	pool_permit_waiting(p, 2);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(pool_submit(p, POOL_NORMAL, stand_still_waiting, p), 0);
		assert_int_equal(queue_pop(gate_reached, -1, &item), 0);
	}
	assert_int_equal(pool_waiting(p), 2);
	assert_int_equal(pool_busy(p), 1);
	assert_int_equal(pool_submit(p, POOL_NORMAL, note_may_wait, q), 0);
	assert_int_equal(queue_pop(q, -1, &item), 0);
	assert_false(found_may_wait);
	open_gate(3);
	pool_free(p);
	queue_free(q);
}

/* ---- pool_condition_wait() ---- */

struct waited {
	pthread_mutex_t lock;
	pthread_cond_t changed, ended;
	bool begun, done, is_over; /* under the lock */
};

static void *wait_for_done(void *arg)
{
	struct waited *w = arg;

	pthread_mutex_lock(&w->lock);
	w->begun = true;
	pthread_cond_signal(&w->ended);
	while (!w->done)
		pool_condition_wait(&w->changed, &w->lock);
	w->is_over = true;
	pthread_cond_signal(&w->ended);
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

/* The signal comes after the short wait has ended, and before its thread has the lock again. */
static void a_signal_at_the_end_of_the_short_wait_is_not_lost(void **state)
{
	struct waited w = { .lock = PTHREAD_MUTEX_INITIALIZER };
	pthread_t thread;
	bool is_over;

	condition_init(&w.changed);
	condition_init(&w.ended);
	pthread_mutex_lock(&w.lock);
	assert_int_equal(pthread_create(&thread, NULL, wait_for_done, &w), 0);
	while (!w.begun)
		pthread_cond_wait(&w.ended, &w.lock);
	usleep(200000); /* it waits, at most 20 ms; then for the lock */
	w.done = true;
	pthread_cond_broadcast(&w.changed);
	for (unsigned i = 0; i < 100 && !w.is_over; i++)
		(void)condition_wait(&w.ended, &w.lock, 100);
	is_over = w.is_over;
	pthread_cond_broadcast(&w.changed);
	pthread_mutex_unlock(&w.lock);
	pthread_join(thread, NULL);
	assert_true(is_over);
	pthread_cond_destroy(&w.ended);
	pthread_cond_destroy(&w.changed);
}

static bool may_wait_as(struct pool *p, uint32_t client, struct queue *q)
{
	struct pool_slot slot = { .client = client };
	void *item;

	pool_queue(p, 0, &slot, note_may_wait, q);
	assert_int_equal(queue_pop(q, -1, &item), 0);
	return found_may_wait;
}

static void a_client_has_half_of_the_waits_that_others_leave(void **state)
{
	struct pool *p = pool_new_fair(
		&(struct pool_options){ .name = "test", .n_threads = 1, .max_queued = 16, .n_classes = 1 });
	static const uint32_t clients[] = { 1, 1, 1, 1, 2, 2, 3 };
	struct pool_slot slots[ARRAY_SIZE(clients)] = { 0 };
	struct queue *q = queue_new(1);
	void *item;

	pool_permit_waiting(p, 8);
	for (size_t i = 0; i < ARRAY_SIZE(slots); i++) {
		assert_true(may_wait_as(p, clients[i], q));
		slots[i].client = clients[i];
		pool_queue(p, 0, &slots[i], stand_still_waiting, p);
		assert_int_equal(queue_pop(gate_reached, -1, &item), 0);
		/* A client has no more than it leaves to the others. */
		if (i + 1 == ARRAY_SIZE(slots) || clients[i + 1] != clients[i])
			assert_false(may_wait_as(p, clients[i], q));
	}
	assert_true(may_wait_as(p, 4, q));
	open_gate(ARRAY_SIZE(slots));
	pool_free(p);
	queue_free(q);
}

/* Clients that take as many waits as they may leave each other client its own. */
static void each_client_has_waits_of_its_own(void **state)
{
	enum { OWN = 1, ALL = 4 * OWN * POOL_CLIENTS };
	struct pool *p = pool_new_fair(
		&(struct pool_options){ .name = "test", .n_threads = 1, .max_queued = 16, .n_classes = 1 });
	struct pool_slot slots[ALL] = { 0 };
	struct queue *q = queue_new(1);
	unsigned n = 0, n_first = 0;
	void *item;

	pool_permit_waiting(p, ALL);
	for (uint32_t client = 0; client < POOL_CLIENTS; client++) {
		unsigned n_before = n;

		while (may_wait_as(p, client, q)) {
			assert_true(n < ALL);
			slots[n].client = client;
			pool_queue(p, 0, &slots[n++], stand_still_waiting, p);
			assert_int_equal(queue_pop(gate_reached, -1, &item), 0);
		}
		assert_true(n - n_before >= OWN);
		n_first = client ? n_first : n;
	}
	assert_int_equal(pool_waiting(p), n);
	/* Of the waits that are no client's own the first one left half. */
	assert_int_equal(n_first, OWN + (ALL - OWN * POOL_CLIENTS) / 2);
	open_gate(n);
	pool_free(p);
	queue_free(q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_signal_at_the_end_of_the_short_wait_is_not_lost),
		cmocka_unit_test_setup_teardown(urgent_tasks_come_first_each_class_in_order, setup, teardown),
		cmocka_unit_test_setup_teardown(a_full_pool_refuses_work, setup, teardown),
		cmocka_unit_test_setup_teardown(a_class_that_has_all_shared_workers_leaves_others_theirs,
						setup, teardown),
		cmocka_unit_test_setup_teardown(clients_of_a_class_take_turns, setup, teardown),
		cmocka_unit_test_setup_teardown(one_client_does_not_get_all_workers, setup, teardown),
		cmocka_unit_test_setup_teardown(shared_workers_go_by_shares_of_time, setup, teardown),
		cmocka_unit_test_setup_teardown(slots_are_queued_in_a_full_pool, setup, teardown),
		cmocka_unit_test(a_slot_is_free_when_its_work_begins),
		cmocka_unit_test_setup_teardown(a_closing_pool_takes_no_more, setup, teardown),
		cmocka_unit_test_setup_teardown(workers_have_names_and_get_no_signals, setup, teardown),
		cmocka_unit_test(helpers_are_as_nice_as_their_maker_or_as_they_are_told),
		cmocka_unit_test_setup_teardown(every_task_runs_once, setup, teardown),
		cmocka_unit_test_setup_teardown(work_that_waits_occupies_no_worker, setup, teardown),
		cmocka_unit_test_setup_teardown(too_many_waits_keep_their_workers, setup, teardown),
		cmocka_unit_test_setup_teardown(a_client_has_half_of_the_waits_that_others_leave, setup,
						teardown),
		cmocka_unit_test_setup_teardown(each_client_has_waits_of_its_own, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
