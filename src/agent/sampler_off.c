/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time off the processor. The sampler's implementation reports the stack of a thread that leaves its processor, and later
 * that it runs again; both become one sample here. A thread that sleeps for hours is delivered in parts, by
 * sampler_asleep().
 */
#include <stdlib.h>
#include "agent/sampler_ops.h"

/* In BPF at most BPF_MAX_SLEEPERS are known. */
#define SLEEPS_MAX_BYTES MIB(24)

struct sleep_begun {
	struct sampler_sample sample; /* its frames are in @user and @kernel, allocated, when it is walked */
	int64_t from_ns;              /* what is before was delivered */
	int64_t end_ns;               /* of one in sampler_sleeps.over */
	bool is_walked;
	bool is_doubtful; /* the implementation did not know it, and its end has not arrived */
	size_t bytes;
};

struct sleep_key {
	uint64_t task, out_ns; /* without padding */
};

struct sampler_sleeps {
	struct map by_task; /* sleeper -> struct sleep_begun, of threads that sleep */
	/* struct sleep_key -> struct sleep_begun, over, and its stack has to wait. The thread may sleep again meanwhile. */
	struct map over;
	size_t bytes;
};

struct sampler_sleeps *sampler_sleeps_new(void)
{
	return NEW(struct sampler_sleeps);
}

static struct bytes task_key(const uint32_t *task)
{
	return bytes_of(task, sizeof(*task));
}

static struct sleep_key over_key(uint32_t task, int64_t out_ns)
{
	return (struct sleep_key){ task, (uint64_t)out_ns };
}

static void free_sleep(struct sampler_sleeps *l, struct sleep_begun *b)
{
	if (!b)
		return;
	l->bytes -= b->bytes;
	free((void *)b->sample.user);
	free((void *)b->sample.kernel);
	free((void *)b->sample.python);
	free(b);
}

void sampler_sleeps_free(struct sampler_sleeps *l)
{
	struct bytes key;
	void *b;

	if (!l)
		return;
	map_each (&l->by_task, it, &key, &b)
		free_sleep(l, b);
	map_done(&l->by_task);
	map_each (&l->over, it, &key, &b)
		free_sleep(l, b);
	map_done(&l->over);
	free(l);
}

size_t sampler_sleeps_n(const struct sampler_sleeps *l)
{
	return l ? l->by_task.n + l->over.n : 0;
}

void sampler_sleep_begun(struct sampler *s, const struct sampler_sample *sample)
{
	struct sampler_sleeps *l = s->sleeps;
	struct sleep_begun *b;

	if (!l || l->bytes >= SLEEPS_MAX_BYTES) {
		s->stats.lost_sleeps++;
		return;
	}
	b = NEW(struct sleep_begun);
	b->sample = (struct sampler_sample){ .sleeper = sample->sleeper, .time_ns = sample->time_ns };
	b->from_ns = sample->time_ns;
	b->bytes = sizeof(*b);
	l->bytes += b->bytes;
	b = map_put(&l->by_task, task_key(&sample->sleeper), b);
	/* The record of its end was lost. */
	if (b)
		s->stats.lost_sleeps++;
	free_sleep(l, b);
}

/* The sleep that began at @out_ns, and has not ended. NULL: it is not known. */
static struct sleep_begun *sleep_of(const struct sampler_sleeps *l, uint32_t task, int64_t out_ns)
{
	struct sleep_begun *b = l ? map_get(&l->by_task, task_key(&task)) : NULL;

	return b && b->sample.time_ns == out_ns ? b : NULL;
}

/* Deliver the time up to @until_ns. */
static void deliver_part(struct sampler *s, struct sleep_begun *b, int64_t until_ns)
{
	int64_t passed_ns = until_ns - b->from_ns;

	if (passed_ns <= 0)
		return;
	b->from_ns = until_ns;
	if (__builtin_mul_overflow(passed_ns, (int64_t)b->sample.weight, &b->sample.off_ns))
		b->sample.off_ns = INT64_MAX;
	sampler_deliver(s, &b->sample);
}

/* @b is in neither map any more. */
static void end_sleep(struct sampler *s, struct sleep_begun *b)
{
	deliver_part(s, b, b->end_ns);
	free_sleep(s->sleeps, b);
}

void sampler_sleep_walked(struct sampler *s, const struct sampler_sample *sample)
{
	struct sleep_key key = over_key(sample->sleeper, sample->time_ns);
	struct sleep_begun *over = s->sleeps ? map_del(&s->sleeps->over, bytes_of(&key, sizeof(key))) : NULL;
	struct sleep_begun *b = over ? over : sleep_of(s->sleeps, sample->sleeper, sample->time_ns);
	struct sampler_python_frame *python;
	struct sampler_frame *user;
	uint64_t *kernel;

	if (!b || b->is_walked)
		return;
	user = NEW_N(struct sampler_frame, sample->n_user + 1);
	kernel = NEW_N(uint64_t, sample->n_kernel + 1);
	python = NEW_N(struct sampler_python_frame, sample->n_python + 1);
	if (sample->n_python)
		memcpy(python, sample->python, sample->n_python * sizeof(*python));
	if (sample->n_user)
		memcpy(user, sample->user, sample->n_user * sizeof(*user));
	if (sample->n_kernel)
		memcpy(kernel, sample->kernel, sample->n_kernel * sizeof(*kernel));
	b->sample = *sample;
	b->sample.user = user;
	b->sample.kernel = kernel;
	b->sample.python = python;
	b->sample.raw = NULL;
	b->is_walked = true;
	b->bytes += sample->n_user * sizeof(*user) + sample->n_kernel * sizeof(*kernel) +
		    sample->n_python * sizeof(*python);
	s->sleeps->bytes += b->bytes - sizeof(*b);
	if (over)
		end_sleep(s, over);
}

void sampler_sleep_ended(struct sampler *s, uint32_t task, int64_t out_ns, int64_t in_ns)
{
	struct sleep_begun *b = sleep_of(s->sleeps, task, out_ns);
	struct sleep_key key = over_key(task, out_ns);

	if (!b)
		return;
	map_del(&s->sleeps->by_task, task_key(&task));
	b->end_ns = MAX(in_ns, out_ns + 1);
	if (b->is_walked)
		end_sleep(s, b);
	else
		free_sleep(s->sleeps, map_put(&s->sleeps->over, bytes_of(&key, sizeof(key)), b));
}

/* The record of its end may be under way the first time that the implementation does not know it. */
static bool is_lost_sleep(struct sampler *s, struct sleep_begun *b)
{
	bool was_doubtful = b->is_doubtful;

	b->is_doubtful = !s->ops->is_asleep(s, b->sample.sleeper, b->sample.time_ns);
	return was_doubtful && b->is_doubtful;
}

void sampler_asleep(struct sampler *s, const struct sampler_handler *h)
{
	struct sampler_sleeps *l = s->sleeps;
	struct sleep_begun **lost = NULL;
	int64_t now_ns = clock_mono_ns();
	size_t n = 0, room = 0;
	struct bytes key;
	void *value;

	if (!l || !s->ops->is_asleep)
		return;
	s->handler = h;
	map_each (&l->by_task, it, &key, &value) {
		struct sleep_begun *b = value;

		if (!b->is_walked)
			continue;
		if (is_lost_sleep(s, b))
			VEC_PUSH(lost, n, room) = b;
		else if (!b->is_doubtful)
			deliver_part(s, b, now_ns);
	}
	s->handler = NULL;
	for (size_t i = 0; i < n; i++) {
		s->stats.lost_sleeps++;
		map_del(&l->by_task, task_key(&lost[i]->sample.sleeper));
		free_sleep(l, lost[i]);
	}
	free(lost);
}
