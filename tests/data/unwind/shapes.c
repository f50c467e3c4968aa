/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program with all kinds of frames that compilers make, between two breakpoints; see tests/differential/test_unwind.py.
 * With an argument it spins in them instead, and its parent stops it.
 */
#define _GNU_SOURCE
#include <alloca.h>
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static volatile int sink;
static jmp_buf jump;
static char other_stack[65536] __attribute__((aligned(16)));
static ucontext_t from_context, to_context;

__attribute__((noinline)) static int leaf(int n)
{
	sink += n;
	return n * 3;
}

__attribute__((noinline)) static int variable(int n)
{
	char *p = alloca((size_t)n * 7 + 1);

	memset(p, n, (size_t)n * 7 + 1);
	return leaf(p[n / 2]) + p[0];
}

/* The stack is realigned: the CFA is a word in memory. */
__attribute__((noinline)) static int aligned(int n)
{
	char p[64 + 32] __attribute__((aligned(64)));

	memset(p, n, sizeof(p));
	sink += p[n & 31];
	return leaf(n) + variable(n + (p[3] & 1));
}

__attribute__((noinline)) static int aligned_variable(int n)
{
	char p[64] __attribute__((aligned(64)));
	char *q = alloca((size_t)n + 3);

	memset(p, n, sizeof(p));
	memset(q, n, (size_t)n);
	return aligned(p[1] + q[0]) + leaf(n);
}

__attribute__((noinline)) static int large(int n)
{
	char p[20000];

	memset(p, n, 100);
	p[19999] = (char)n;
	return aligned_variable(p[50] & 15) + p[19999];
}

static int by_value(const void *a, const void *b)
{
	return leaf(*(const int *)a) - leaf(*(const int *)b);
}

__attribute__((noinline)) static int sorted(int n)
{
	int v[12];

	for (int i = 0; i < 12; i++)
		v[i] = (i * 7 + n) % 13;
	qsort(v, 12, sizeof(v[0]), by_value);
	return v[3];
}

__attribute__((noinline)) static int many_arguments(int a, int b, int c, int d, int e, int f, int g, int h,
						    double x)
{
	return leaf(a + b + c + d + e + f + g + h + (int)x);
}

__attribute__((noinline)) static int recursive(int n)
{
	int r = n ? recursive(n - 1) + leaf(n) : large(5);

	return r + many_arguments(1, 2, 3, 4, 5, 6, n, r, 2.5);
}

static void on_signal(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	(void)context;
	sink += variable(3);
}

__attribute__((noinline)) static void raised(void)
{
	raise(SIGUSR1);
	raise(SIGUSR2); /* on another stack */
}

__attribute__((noinline)) static void jumped(int n)
{
	if (n)
		jumped(n - 1);
	else
		longjmp(jump, 1);
	sink++;
}

static void in_context(void)
{
	sink += variable(4);
}

__attribute__((noinline)) static void printed(void)
{
	char text[200];
	struct timespec t;

	snprintf(text, sizeof(text), "%d %s %f", sink, "text", 2.25);
	clock_gettime(CLOCK_MONOTONIC, &t);
	sink += (int)strlen(text) + (strchr(text, 't') != NULL);
	free(malloc(100 + (size_t)text[0]));
}

__attribute__((noinline)) static void all_shapes(void)
{
	sink += recursive(12);
	sink += sorted(3);
	printed();
	raised();
	if (!setjmp(jump))
		jumped(4);
}

int main(int argc, char **argv)
{
	struct sigaction a = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };
	stack_t s = { .ss_sp = other_stack, .ss_size = sizeof(other_stack) };

	(void)argv;
	sigaltstack(&s, NULL);
	sigaction(SIGUSR1, &a, NULL);
	a.sa_flags |= SA_ONSTACK;
	sigaction(SIGUSR2, &a, NULL);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	if (argc > 1)
		for (;;) {
			all_shapes();
			in_context();
		}
	__asm__ volatile("int3");
	all_shapes();
	__asm__ volatile("int3");
	return 0;
}
