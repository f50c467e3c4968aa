/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dwarf_sources FILE [SUPPLEMENTARY]: the source names that a file names, one a line, unsorted; what was
 * passed over on stderr. -n: only how many, and how long it took.
 */
#include "dwarf/dwarf.h"

#include <stdio.h>

static int print(void *arg, struct str name)
{
	fwrite(name.p, 1, name.size, stdout);
	putchar('\n');
	return 0;
}

int main(int argc, char **argv)
{
	AUTO(source_closep) struct source *src = NULL;
	AUTO(source_closep) struct source *alt_src = NULL;
	AUTO(elf_closep) struct elf_image *img = NULL;
	AUTO(elf_closep) struct elf_image *alt = NULL;
	bool count = argc > 1 && strcmp(argv[1], "-n") == 0;
	struct dwarf_sources *set = NULL;
	struct dwarf_sources_note note = { 0 };
	struct err err = { 0 };
	int64_t start = clock_cpu_ns();
	int r;

	argv += count;
	argc -= count;
	if (argc < 2 || source_open_file(argv[1], &src, &err) || elf_open(src, &img, &err))
		goto fail;
	if (argc > 2 && (source_open_file(argv[2], &alt_src, &err) || elf_open(alt_src, &alt, &err)))
		goto fail;
	if (count) {
		r = dwarf_sources_build(img, alt, &set, &err);
		if (r == 0) {
			note = *dwarf_sources_note(set);
			printf("%zu names, %zu bytes, %.3f s\n", dwarf_sources_n(set),
			       dwarf_sources_weight(set), (double)(clock_cpu_ns() - start) / 1e9);
		}
		dwarf_sources_free(set);
	} else {
		r = dwarf_sources_each(img, alt, print, NULL, &note, &err);
	}
	if (note.n_units_skipped || note.alt_missing)
		fprintf(stderr, "%u skipped%s: %s\n", note.n_units_skipped,
			note.alt_missing ? ", names in a supplementary file" : "", note.reason);
	if (r == 0)
		return 0;
fail:
	fprintf(stderr, "dwarf_sources: %s\n", err.text[0] ? err.text : "no such ELF file");
	return 1;
}
