/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The main() of a fuzz target without a fuzzer: every file of the folders named as arguments goes through it
 * once, whole and cut at some places, as one test each. So the seeds, and what a fuzzer once found, are
 * ordinary tests.
 */
#include "fuzz.h"

#include <dirent.h>
#include <string.h>
#include "base/base.h"

#define SEED_MAX MIB(16)
/* Cuts of each seed: enough to end in every part of a small one, few enough for a large one. */
#define CUTS 64

/* In a block of exactly that size, so that the sanitizers see a read past its end. */
static void run_copy(const uint8_t *p, size_t size)
{
	uint8_t *copy = mem_alloc(size);

	if (size)
		memcpy(copy, p, size);
	LLVMFuzzerTestOneInput(copy, size);
	free(copy);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_seed(const struct dirent *e)
{
	return e->d_name[0] != '.';
}

/* Returns how many it ran, or -1. */
static int replay_dir(const char *dir, int n_before)
{
	struct dirent **names;
	int n = scandir(dir, &names, is_seed, by_name);

	if (n < 0) {
		perror(dir);
		return -1;
	}
	for (int i = 0; i < n; i++) {
		AUTO(mem_freep) char *path = mem_printf("%s/%s", dir, names[i]->d_name);
		AUTO(buf_done) struct buf b = { 0 };
		struct err err = { 0 };

		if (file_read(path, SEED_MAX, &b, &err) != 0) {
			printf("Bail out! %s: %s\n", path, err.text);
			return -1;
		}
		run_copy(b.p, b.size);
		for (size_t cut = 0; cut < CUTS; cut++)
			run_copy(b.p, b.size * cut / CUTS);
		printf("ok %d - %s\n", n_before + i + 1, names[i]->d_name);
		fflush(stdout);
		free(names[i]);
	}
	free(names);
	return n;
}

int main(int argc, char **argv)
{
	int n = 0;

	run_copy(NULL, 0);
	for (int i = 1; i < argc; i++) {
		int r = replay_dir(argv[i], n);

		if (r < 0)
			return 1;
		n += r;
	}
	printf("1..%d\n", n);
	/* A plan of no tests counts as skipped. */
	return n ? 0 : 1;
}
