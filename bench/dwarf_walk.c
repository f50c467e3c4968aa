/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time to read all DIEs and rows of a file, with and without names: the lower bound for any use of them.
 *
 *	bench-dwarf-walk FILE [names]
 */
#include "dwarf/dwarf.h"

#include <stdio.h>
#include <stdlib.h>

struct count {
	uint64_t functions, nodes, spans, rows, sequences, names, bytes;
	struct dwarf_reader *r;
	uint64_t *dies;
	size_t n_dies, room_dies;
};

static int on_function(void *arg, const struct dwarf_function *f, struct err *err)
{
	struct count *c = arg;

	c->functions++;
	c->nodes += f->n_nodes - 1;
	c->spans += f->n_spans;
	if (c->dies)
		for (size_t i = 0; i < f->n_nodes; i++) {
			if (c->n_dies == c->room_dies)
				c->dies = mem_realloc(c->dies, c->room_dies *= 2, sizeof(*c->dies));
			c->dies[c->n_dies++] = f->nodes[i].die;
		}
	return 0;
}

static void one_unit(struct count *c, size_t i)
{
	const struct dwarf_lines *l;
	struct err err = { 0 };
	int r = dwarf_reader_unit(c->r, i, &err);

	if (r == 0) {
		l = dwarf_reader_lines(c->r);
		for (size_t k = 0; k < l->n_sequences; k++)
			c->rows += l->sequences[k].n_rows;
		c->sequences += l->n_sequences;
		if (dwarf_reader_lines_err(c->r)->kind)
			fprintf(stderr, "%s\n", dwarf_reader_lines_err(c->r)->text);
		c->n_dies = 0;
		r = dwarf_reader_walk(c->r, on_function, c, &err);
		for (size_t k = 0; k < c->n_dies; k++) {
			struct dwarf_name name;

			if (dwarf_reader_name(c->r, c->dies[k], false, &name, &err) == 0 && name.name.size)
				c->names++;
		}
	}
	if (r < 0)
		fprintf(stderr, "unit %zu: %s\n", i, err.text);
}

int main(int argc, char **argv)
{
	AUTO(source_closep) struct source *src = NULL;
	struct count c = { 0 };
	struct elf_image *img;
	struct dwarf *d;
	struct err err = { 0 };
	int64_t t0 = clock_cpu_ns(), t1;

	if (argc < 2 || source_open_file(argv[1], &src, &err) != 0 || elf_open(src, &img, &err) != 0 ||
	    dwarf_open(img, NULL, file_temp_dir(), &d, &err) != 0) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	t1 = clock_cpu_ns();
	if (argc > 2)
		c.dies = mem_alloc((c.room_dies = 1024) * sizeof(*c.dies));
	c.r = dwarf_reader_new(d);
	for (size_t i = 0; i < dwarf_n_units(d); i++)
		one_unit(&c, i);
	printf("open %.3f s, walk %.3f s: %zu units, %llu functions, %llu inlined, %llu spans, %llu "
	       "sequences, %llu rows, %llu names\n",
	       (double)(t1 - t0) / 1e9, (double)(clock_cpu_ns() - t1) / 1e9, dwarf_n_units(d),
	       (unsigned long long)c.functions, (unsigned long long)c.nodes, (unsigned long long)c.spans,
	       (unsigned long long)c.sequences, (unsigned long long)c.rows, (unsigned long long)c.names);
	free(c.dies);
	dwarf_reader_free(c.r);
	dwarf_close(d);
	elf_close(img);
	return 0;
}
