/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request at a time is handed to the worker. The worker and its caller both own the struct between them: the last one
 * frees it, so that a worker that comes back after minutes finds its own memory.
 */
#include "agent/process_memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/uio.h>

#include "base/condition.h"

struct memory_worker {
	pthread_mutex_t lock;
	pthread_cond_t asked, answered;
	/* under the lock */
	bool is_asked, is_left; /* is_left: the caller is gone, the worker frees this */
	bool is_stuck;          /* it is left, and counted in n_stuck */
	uint32_t pid;
	uint64_t address;
	uint8_t *bytes;
	size_t size, room, got;
};

struct process_memory {
	struct memory_worker *worker; /* NULL: none */
};

/* Of the process: threads outlive a struct process_memory. */
static atomic_uint n_stuck;

static void memory_worker_free(struct memory_worker *w)
{
	pthread_cond_destroy(&w->asked);
	pthread_cond_destroy(&w->answered);
	pthread_mutex_destroy(&w->lock);
	free(w->bytes);
	free(w);
}

static size_t read_bytes(const struct memory_worker *w)
{
	struct iovec here = { w->bytes, w->size }, there = { (void *)(uintptr_t)w->address, w->size };
	ssize_t n = process_vm_readv((pid_t)w->pid, &here, 1, &there, 1, 0);

	return n > 0 ? (size_t)n : 0;
}

static void *memory_worker_run(void *arg)
{
	struct memory_worker *w = arg;

	pthread_mutex_lock(&w->lock);
	while (!w->is_left) {
		if (!w->is_asked) {
			condition_wait(&w->asked, &w->lock, 60000);
			continue;
		}
		pthread_mutex_unlock(&w->lock);
		w->got = read_bytes(w);
		pthread_mutex_lock(&w->lock);
		w->is_asked = false;
		pthread_cond_signal(&w->answered);
	}
	pthread_mutex_unlock(&w->lock);
	/* Also if it was left before it ran: there may be no processor for long. */
	if (w->is_stuck)
		atomic_fetch_sub(&n_stuck, 1);
	memory_worker_free(w);
	return NULL;
}

static struct memory_worker *memory_worker_new(void)
{
	struct memory_worker *w;
	pthread_t thread;

	if (atomic_load(&n_stuck) >= PROCESS_MEMORY_MAX_STUCK)
		return NULL;
	w = NEW(struct memory_worker);
	pthread_mutex_init(&w->lock, NULL);
	condition_init(&w->asked);
	condition_init(&w->answered);
	if (pthread_create(&thread, NULL, memory_worker_run, w)) {
		memory_worker_free(w);
		return NULL;
	}
	pthread_setname_np(thread, "lode-memory");
	pthread_detach(thread);
	return w;
}

struct process_memory *process_memory_new(void)
{
	return NEW(struct process_memory);
}

/* Under the lock, which is given up. */
static void leave_worker(struct process_memory *m)
{
	struct memory_worker *w = TAKE(m->worker);

	w->is_stuck = w->is_asked;
	if (w->is_stuck)
		atomic_fetch_add(&n_stuck, 1);
	w->is_left = true;
	pthread_cond_signal(&w->asked);
	pthread_mutex_unlock(&w->lock);
}

void process_memory_free(struct process_memory *m)
{
	if (m && m->worker) {
		pthread_mutex_lock(&m->worker->lock);
		leave_worker(m);
	}
	free(m);
}

size_t process_memory_read(void *arg, uint32_t pid, uint64_t address, void *to, size_t size)
{
	struct process_memory *m = arg;
	struct memory_worker *w = m->worker ? m->worker : memory_worker_new();
	int64_t until_ms = clock_mono_ms() + PROCESS_MEMORY_WAIT_MS;
	size_t got;

	/* Others hang: that says nothing of this process's memory. */
	if (!w)
		return PROCESS_MEMORY_LATE;
	m->worker = w;
	pthread_mutex_lock(&w->lock);
	if (size > w->room) {
		w->bytes = mem_realloc(w->bytes, size, 1);
		w->room = size;
	}
	w->pid = pid;
	w->address = address;
	w->size = size;
	w->is_asked = true;
	pthread_cond_signal(&w->asked);
	while (w->is_asked && clock_mono_ms() < until_ms)
		condition_wait(&w->answered, &w->lock, MAX(until_ms - clock_mono_ms(), INT64_C(1)));
	if (w->is_asked) {
		leave_worker(m);
		return PROCESS_MEMORY_LATE;
	}
	got = w->got;
	memcpy(to, w->bytes, MIN(got, size));
	pthread_mutex_unlock(&w->lock);
	return got;
}
