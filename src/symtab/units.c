/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All units of a file to code ranges, by several threads.
 *
 * Each thread takes chunks of units and has its own ids. Ids are not stored in the table, and overlapping code
 * ranges are ordered by their units, so the table does not depend on which thread read which unit.
 */
#include "symtab/build.h"

#include <pthread.h>
#include <stdlib.h>

/* Bytes of .debug_info. Each chunk has its own budget, so this must not depend on the number of threads. */
#define CHUNK_SIZE MIB(8)

static void chunk_add(struct build *b, size_t first, size_t end)
{
	VEC_PUSH(b->chunks, b->n_chunks, b->room_chunks) = (struct unit_chunk){ first, end };
}

static void chunks_cut(struct build *b)
{
	uint64_t bytes = 0, size = b->o->chunk_size ? b->o->chunk_size : CHUNK_SIZE;
	size_t first = 0, n = dwarf_n_units(b->dwarf);

	for (size_t i = 0; i < n; i++) {
		bytes += dwarf_unit_size(b->dwarf, i);
		if (bytes < size && i + 1 < n)
			continue;
		chunk_add(b, first, i + 1);
		first = i + 1;
		bytes = 0;
	}
}

/*
 * Units that are read for each address in `only`. Each is a chunk with a budget of its own, and a file may name any number of
 * units for one address: if there are more, all units of the file are read.
 */
#define ONLY_UNITS_MAX 64u

struct unit_worker {
	struct build *b;
	struct batch *batch;
	pthread_t thread;
	bool started;
	int r;
	struct err err;
};

static void *batch_work(void *arg)
{
	struct unit_worker *w = arg;
	size_t i;

	while (w->r == 0 && (i = atomic_fetch_add(&w->b->next_chunk, 1)) < w->b->n_chunks)
		w->r = batch_run(w->batch, w->b->chunks[i].first, w->b->chunks[i].end, &w->err);
	return NULL;
}

static int units_run(struct build *b, struct err *err)
{
	AUTO(mem_freep) struct unit_worker *workers = NULL;
	unsigned n = MIN(MAX(b->o->n_threads, 1u), THREADS_MAX);
	int r = 0;

	if (!b->dwarf || !dwarf_threads(b->dwarf))
		n = 1;
	n = (unsigned)MAX(MIN((size_t)n, b->n_chunks), (size_t)1);
	b->n_batches = n;
	workers = mem_zalloc(n * sizeof(*workers));
	for (unsigned i = 0; i < n; i++) {
		b->batches[i] = batch_new(b->dwarf, i, b->o, &b->memory);
		b->batches[i]->symbol_spans = b->symbol_spans;
		b->batches[i]->n_symbol_spans = b->n_symbol_spans;
		workers[i].b = b;
		workers[i].batch = b->batches[i];
	}
	for (unsigned i = 1; i < n; i++)
		workers[i].started = pthread_create(&workers[i].thread, NULL, batch_work, &workers[i]) == 0;
	batch_work(&workers[0]);
	for (unsigned i = 0; i < n; i++) {
		if (workers[i].started)
			pthread_join(workers[i].thread, NULL);
		if (workers[i].r < 0 && r == 0) {
			*err = workers[i].err;
			r = -1;
		}
	}
	return r;
}

/* Replace the ids of all batches by those of the first one. */
static void ids_join(struct build *b)
{
	struct intern *in = &b->batches[0]->in;

	for (unsigned k = 1; k < b->n_batches; k++) {
		struct batch *one = b->batches[k];
		AUTO(mem_freep) uint32_t *strings = NEW_N(uint32_t, one->in.n_strings);
		AUTO(mem_freep) uint32_t *files = NEW_N(uint32_t, one->in.n_files);
		AUTO(mem_freep) uint32_t *functions = NEW_N(uint32_t, one->in.n_functions);

		for (size_t i = 0; i < one->in.n_strings; i++)
			strings[i] = intern_str(in, one->in.strings[i], true);
		for (size_t i = 0; i < one->in.n_files; i++)
			files[i] = i ? intern_file(in, strings[one->in.files[i].dir],
						   strings[one->in.files[i].name])
				     : 0;
		for (size_t i = 0; i < one->in.n_functions; i++) {
			struct function_id f = one->in.functions[i];

			f.name = strings[f.name];
			f.linkage = strings[f.linkage];
			f.file = files[f.file];
			functions[i] = intern_function(in, &f);
		}
		for (size_t i = 0; i < one->n_ranges; i++)
			one->ranges[i].function = functions[one->ranges[i].function];
		for (size_t i = 0; i < one->n_entries; i++) {
			struct range_entry *e = &one->entries[i];

			e->function = functions[e->function];
			e->file = files[e->file];
			e->call_file = files[e->call_file];
		}
	}
}

static int range_by_unit(const void *a, const void *b)
{
	const struct code_range *x = *(const struct code_range *const *)a,
				*y = *(const struct code_range *const *)b;

	if (x->unit != y->unit)
		return x->unit < y->unit ? -1 : 1;
	/* Of one unit, so both are in one batch's array. */
	return x < y ? -1 : x > y;
}

void units_collect(struct build *b)
{
	size_t n = 0;

	for (unsigned k = 0; k < b->n_batches; k++)
		b->n_ranges += b->batches[k]->n_ranges;
	b->ranges = NEW_N(const struct code_range *, b->n_ranges + 1);
	for (unsigned k = 0; k < b->n_batches; k++)
		for (size_t i = 0; i < b->batches[k]->n_ranges; i++)
			b->ranges[n++] = &b->batches[k]->ranges[i];
	if (b->n_batches > 1)
		qsort(b->ranges, n, sizeof(*b->ranges), range_by_unit);
}

int units_read(struct build *b, struct err *err)
{
	if (b->dwarf)
		chunks_cut(b);
	if (units_run(b, err) < 0)
		return -1;
	ids_join(b);
	return 0;
}

static int range_by_start(const void *a, const void *b)
{
	const struct code_range *x = *(const struct code_range *const *)a,
				*y = *(const struct code_range *const *)b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/*
 * Whether every address asked for is in a function's code range, or in the padding after one. *ret_padding: some are in
 * padding, where there may be short code that only a symbol names, such as a thunk of C++.
 */
static bool only_found(const struct build *b, bool *ret_padding)
{
	AUTO(mem_freep) const struct code_range **list = NEW_N(const struct code_range *, b->n_ranges + 1);
	size_t n = 0, i = 0, k = 0;

	for (; i < b->n_ranges; i++)
		if (b->ranges[i]->origin == SYMTAB_DWARF && !b->ranges[i]->of_calls)
			list[n++] = b->ranges[i];
	if (n)
		qsort(list, n, sizeof(*list), range_by_start);
	*ret_padding = false;
	for (i = 0; i < b->o->n_only; i++) {
		/* After the padding there may be code that only a symbol names. */
		while (k < n &&
		       list[k]->start + list[k]->size + MIN(list[k]->tail, PADDING_END - 1) <= b->o->only[i])
			k++;
		if (k == n || list[k]->start > b->o->only[i])
			return false;
		*ret_padding |= list[k]->start + list[k]->size <= b->o->only[i];
	}
	return true;
}

void units_free(struct build *b)
{
	for (unsigned k = 0; k < b->n_batches; k++)
		batch_free(b->batches[k]);
	free(b->ranges);
	b->ranges = NULL;
	b->n_batches = 0;
	b->n_ranges = b->n_chunks = 0;
	atomic_store(&b->next_chunk, 0);
}

int units_read_only(struct build *b, struct err *err)
{
	AUTO(mem_freep) size_t *units = NULL;
	struct err ignored = { 0 };
	bool padding;
	size_t n = 0;

	if (!b->o->only || !b->dwarf || b->img->h.type == 1 ||
	    dwarf_units_of(b->dwarf, b->o->only, b->o->n_only, &units, &n, &ignored) < 0 || !n ||
	    (n - 1) / ONLY_UNITS_MAX >= b->o->n_only)
		return 1;
	for (size_t i = 0; i < n; i++)
		chunk_add(b, units[i], units[i] + 1);
	if (units_run(b, err) < 0)
		return -1;
	ids_join(b);
	units_collect(b);
	if (only_found(b, &padding)) {
		b->some = !padding;
		return 0;
	}
	units_free(b);
	return 1;
}
