/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sampling by SIGPROF. The handler reads its registers and the thread's own stack, and writes to a buffer
 * that was allocated before: all of this is allowed in a signal handler.
 */
#include "sampler.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

#define MAX_WORDS (1u << 18)
#define MAX_DEPTH 64

struct samples {
	uint64_t *words; /* records: a count, the number of addresses, these */
	size_t n;
	uintptr_t stack_end;
	timer_t timer;
	bool has_timer; /* else there is one for the whole process */
};

static _Thread_local struct samples *volatile mine;

struct registers {
	uintptr_t pc, sp, fp;
};

/* On other machines a sample is the leaf alone. */
static struct registers registers_of(const ucontext_t *u)
{
#if defined(__x86_64__)
	const greg_t *r = u->uc_mcontext.gregs;

	return (struct registers){ (uintptr_t)r[REG_RIP], (uintptr_t)r[REG_RSP], (uintptr_t)r[REG_RBP] };
#elif defined(__aarch64__)
	return (struct registers){ u->uc_mcontext.pc, u->uc_mcontext.sp, u->uc_mcontext.regs[29] };
#else
	return (struct registers){ (uintptr_t)__builtin_return_address(0), 0, 0 };
#endif
}

static void on_sample(int sig, siginfo_t *info, void *context)
{
	struct samples *s = mine;
	struct registers r;
	uint64_t *record;
	size_t n = 0;
	int error = errno;

	if (!s || s->n + MAX_DEPTH + 2 > MAX_WORDS)
		return;
	r = registers_of(context);
	record = s->words + s->n;
	record[0] = 1 + (s->has_timer && info->si_overrun > 0 ? (uint64_t)info->si_overrun : 0);
	record[2 + n++] = r.pc;
	/* Callers are at higher addresses. The walk ends at a frame pointer outside of the stack. */
	for (uintptr_t low = r.sp; n < MAX_DEPTH && r.fp >= low && r.fp % sizeof(uintptr_t) == 0 && low &&
				   r.fp + 2 * sizeof(uintptr_t) <= s->stack_end;) {
		const uintptr_t *frame = (const uintptr_t *)r.fp;

		if (frame[1] < 4096)
			break;
		record[2 + n++] = frame[1];
		low = r.fp + sizeof(uintptr_t);
		r.fp = frame[0];
	}
	record[1] = n;
	s->n += n + 2;
	errno = error;
}

struct samples *samples_new(void)
{
	struct samples *s = calloc(1, sizeof(*s));

	if (s)
		s->words = calloc(MAX_WORDS, sizeof(*s->words));
	if (s && !s->words) {
		free(s);
		return NULL;
	}
	return s;
}

void samples_free(struct samples *s)
{
	if (s)
		free(s->words);
	free(s);
}

static int find_stack(struct samples *s)
{
	pthread_attr_t attr;
	void *start;
	size_t size;

	if (pthread_getattr_np(pthread_self(), &attr) != 0)
		return -1;
	pthread_attr_getstack(&attr, &start, &size);
	pthread_attr_destroy(&attr);
	s->stack_end = (uintptr_t)start + size;
	return 0;
}

static int start_timer(struct samples *s)
{
	const struct timespec period = { 0, SAMPLER_PERIOD_US * 1000 };
	const struct itimerspec often = { period, period };
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGPROF };

	event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
	if (timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &s->timer) != 0)
		return -1;
	s->has_timer = true;
	return timer_settime(s->timer, 0, &often, NULL);
}

int sampler_begin(struct samples *s)
{
	struct sigaction action = { .sa_sigaction = on_sample, .sa_flags = SA_SIGINFO | SA_RESTART };
	const struct timeval period = { 0, SAMPLER_PERIOD_US };
	const struct itimerval often = { period, period };

	if (find_stack(s) < 0 || sigaction(SIGPROF, &action, NULL) != 0)
		return -1;
	mine = s;
	return start_timer(s) == 0 ? 0 : setitimer(ITIMER_PROF, &often, NULL);
}

void sampler_end(struct samples *s)
{
	mine = NULL;
	if (s->has_timer)
		timer_delete(s->timer);
}

int samples_write(const struct samples *s, FILE *out)
{
	static const uint64_t head[] = { 0, 3, 0, SAMPLER_PERIOD_US, 0 }, end[] = { 0, 1, 0 };
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[4096];

	fwrite(head, sizeof(head), 1, out);
	fwrite(s->words, sizeof(*s->words), s->n, out);
	fwrite(end, sizeof(end), 1, out);
	while (maps && fgets(line, sizeof(line), maps))
		fputs(line, out);
	if (maps)
		fclose(maps);
	return ferror(out) ? -1 : 0;
}
