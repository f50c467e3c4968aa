/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that spin in recursion and in callbacks of the C library; see tests/differential/test_unwind.py. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

static volatile int sink;

static int by_value(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

__attribute__((noinline)) static int recursive(int n)
{
	int v[20];

	if (n)
		return recursive(n - 1) + 1;
	for (int i = 0; i < 20; i++)
		v[i] = (i * 13 + sink) % 17;
	qsort(v, 20, sizeof(v[0]), by_value);
	return v[4];
}

static void *spin(void *arg)
{
	for (;;)
		sink += recursive((int)(size_t)arg);
	return NULL;
}

int main(void)
{
	pthread_t t;

	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	for (size_t i = 1; i <= 3; i++)
		pthread_create(&t, NULL, spin, (void *)(i * 10));
	spin((void *)5);
	return 0;
}
