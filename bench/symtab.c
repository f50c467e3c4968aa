/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Build a symbol table and look up addresses: CPU seconds, sizes, answers per second.
 *
 *	bench-symtab FILE [THREADS]
 */
#include "symtab/symtab.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static uint64_t mix(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 16;
}

static void ask(struct symtab *t, const uint64_t *addrs, size_t n, const char *what)
{
	struct symtab_finder *f = symtab_finder_new(t);
	struct symtab_frames frames;
	uint64_t n_frames = 0, bytes = 0;
	struct err err = { 0 };
	int64_t t0 = clock_cpu_ns();

	for (size_t i = 0; i < n; i++)
		if (symtab_find(f, addrs[i], &frames, &err) == 0)
			for (size_t k = 0; k < frames.n; k++) {
				n_frames++;
				bytes += frames.list[k].name.size + frames.list[k].file.size +
					 frames.list[k].dir.size;
			}
	printf("%s: %.2f M/s, %.2f frames each, %.1f bytes of names\n", what,
	       (double)n * 1e3 / (double)(clock_cpu_ns() - t0), (double)n_frames / (double)n,
	       (double)bytes / (double)n);
	symtab_finder_free(f);
}

int main(int argc, char **argv)
{
	AUTO(source_closep) struct source *src = NULL;
	AUTO(buf_done) struct buf out = { 0 };
	struct symtab_options o = { .temp_dir = file_temp_dir(),
				    .n_threads = argc > 2 ? (unsigned)atoi(argv[2]) : 1,
				    .no_columns = argc > 3 };
	const struct dwarf_section_place *code;
	struct arena a = { 0 };
	struct symtab_stats st;
	struct elf_image *img;
	struct symtab *t;
	struct err err = { 0 };
	struct rusage ru;
	uint64_t *addrs, state = 1, total = 0;
	size_t n = 1000000, n_code;
	int64_t t0 = clock_cpu_ns();

	if (argc < 2 || source_open_file(argv[1], &src, &err) != 0 || elf_open(src, &img, &err) != 0 ||
	    symtab_build(img, &o, &out, &st, &err) != 0) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	getrusage(RUSAGE_SELF, &ru);
	printf("built in %.3f s CPU, %.1f MB table, peak %.1f MB: %llu units, %llu functions, %llu inlined, "
	       "%llu rows, %llu symbols, %llu code ranges, "
	       "%llu blocks, %llu skipped\n",
	       (double)(clock_cpu_ns() - t0) / 1e9, (double)out.size / 1e6, (double)ru.ru_maxrss / 1e3,
	       (unsigned long long)st.n_units, (unsigned long long)st.n_functions,
	       (unsigned long long)st.n_inlined, (unsigned long long)st.n_rows,
	       (unsigned long long)st.n_symbols, (unsigned long long)st.n_ranges,
	       (unsigned long long)st.n_blocks, (unsigned long long)st.n_skipped);
	if (symtab_open_mem(buf_bytes(&out), &t, &err) < 0) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	for (size_t i = 0; i < symtab_info(t)->n_reasons; i++)
		fprintf(stderr, STR_FMT "\n", STR_ARG(symtab_info(t)->skipped[i]));
	n_code = dwarf_code(img, &a, &code);
	for (size_t i = 0; i < n_code; i++)
		total += code[i].size;
	addrs = mem_alloc(n * sizeof(*addrs));
	for (size_t i = 0; i < n; i++) {
		uint64_t x = mix(&state) % total;
		size_t k = 0;

		for (; x >= code[k].size; k++)
			x -= code[k].size;
		addrs[i] = code[k].base + x;
	}
	ask(t, addrs, n, "random");
	qsort(addrs, n, sizeof(*addrs), by_value);
	ask(t, addrs, n, "sorted");
	free(addrs);
	arena_done(&a);
	symtab_close(t);
	elf_close(img);
	return 0;
}
