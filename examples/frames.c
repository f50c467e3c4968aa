/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that prints its own stack by liblode.
 *
 *	cc -g -o frames frames.c $(pkg-config --cflags --libs liblode)
 *	./frames                prints its own stack
 *	./frames FILE ADDRESS   prints the frames of an address in a file
 */
#include <execinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <lode/lode.h>

#define MAX_MAPS  256
#define MAX_DEPTH 32

static int print(struct lode_table *t, uint64_t addr, unsigned flags)
{
	struct lode_finder *f = lode_finder_new(t);
	const struct lode_frame *frames;
	size_t n;
	int r = lode_frames(f, addr, flags, &frames, &n);

	for (size_t i = 0; r == 0 && i < n; i++)
		printf("%s %s:%u%s\n", frames[i].function[0] ? frames[i].function : "??", frames[i].file,
		       frames[i].line, frames[i].inlined ? " (inlined)" : "");
	lode_finder_free(f);
	return r;
}

/* The mappings of this program's own file. */
static size_t own_maps(struct lode_mapping *maps)
{
	unsigned long long start, end, offset, inode, own = 0;
	FILE *in = fopen("/proc/self/maps", "r");
	char line[4096];
	size_t n = 0;

	while (in && n < MAX_MAPS && fgets(line, sizeof(line), in)) {
		if (sscanf(line, "%llx-%llx %*s %llx %*s %llu", &start, &end, &offset, &inode) != 4 || !inode)
			continue;
		/* The program comes first. */
		if (!own)
			own = inode;
		if (inode == own)
			maps[n++] = (struct lode_mapping){ start, end, offset };
	}
	if (in)
		fclose(in);
	return n;
}

static __attribute__((noinline)) int tell_stack(struct lode *l)
{
	struct lode_mapping maps[MAX_MAPS];
	size_t n_maps = own_maps(maps);
	struct lode_table *t;
	void *stack[MAX_DEPTH];
	int depth = backtrace(stack, MAX_DEPTH);

	if (lode_open(l, "/proc/self/exe", NULL, &t) < 0) {
		fprintf(stderr, "frames: %s\n", lode_error(l));
		return 1;
	}
	for (int i = 0; i < depth; i++) {
		uint64_t addr;

		/* Addresses in other files, such as the C library, are left out. */
		if (lode_translate(t, maps, n_maps, (uint64_t)(uintptr_t)stack[i], &addr) == 0)
			print(t, addr, LODE_RETURN_ADDRESS);
	}
	lode_close(t);
	return 0;
}

static int tell_address(struct lode *l, const char *path, const char *text)
{
	struct lode_table *t;
	int r;

	if (lode_open(l, path, NULL, &t) < 0) {
		fprintf(stderr, "frames: %s: %s\n", path, lode_error(l));
		return 1;
	}
	r = print(t, strtoull(text, NULL, 16), 0);
	if (r)
		fprintf(stderr, "frames: no function is known there\n");
	lode_close(t);
	return r != 0;
}

int main(int argc, char **argv)
{
	struct lode *l = lode_new(NULL);
	int status = argc > 2 ? tell_address(l, argv[1], argv[2]) : tell_stack(l);

	lode_free(l);
	return status;
}
