/* SPDX-License-Identifier: Apache-2.0 */
/* See internal.h. */
#include "unwind/internal.h"

#include <stdlib.h>

/* Windows are read this many times the size of the section before all of it is loaded. */
#define READS_MAX 4u

void section_init(struct section *s, struct source *src, struct byte_range range, uint64_t addr,
		  struct budget_hold *memory)
{
	const uint8_t *all = source_raw_mem(src);

	*s = (struct section){
		.src = src, .off = range.off, .size = range.size, .addr = addr, .memory = memory
	};
	if (all)
		s->all = all + range.off;
}

void section_done(struct section *s)
{
	free(s->loaded);
	free(s->windows);
	free(s->long_entry);
	if (s->memory)
		budget_hold_sub(s->memory, s->held);
	*s = (struct section){ 0 };
}

static void *take_memory(struct section *s, uint64_t size, struct err *err)
{
	void *p;

	if (size > UNWIND_MAX_FRAME_SECTION) {
		(void)err_set(err, ERR_LIMIT, "unwind information of %llu bytes", (unsigned long long)size);
		return NULL;
	}
	if (s->memory && budget_hold_add(s->memory, size, err) < 0)
		return NULL;
	p = mem_try(size);
	if (p) {
		s->held += size;
		return p;
	}
	if (s->memory)
		budget_hold_sub(s->memory, size);
	(void)err_set(err, ERR_BUSY, "no memory for unwind information of %llu bytes",
		      (unsigned long long)size);
	return NULL;
}

static int load_section(struct section *s, struct err *err)
{
	uint8_t *p = take_memory(s, s->size, err);

	if (!p)
		return -1;
	if (source_read_full(s->src, s->off, p, s->size, SOURCE_SEQUENTIAL, err) < 0) {
		free(p);
		return -1;
	}
	s->all = s->loaded = p;
	return 0;
}

/* An entry that is longer than the overlap of windows. */
static const uint8_t *read_long(struct section *s, uint64_t off, size_t n, struct err *err)
{
	if (n > s->room_long) {
		uint8_t *p = take_memory(s, n, err);

		if (!p)
			return NULL;
		free(s->long_entry);
		s->long_entry = p;
		s->room_long = n;
	}
	if (source_read_full(s->src, s->off + off, s->long_entry, n, SOURCE_SEQUENTIAL, err) < 0)
		return NULL;
	return s->long_entry;
}

const uint8_t *section_slow(struct section *s, uint64_t off, size_t n, struct err *err)
{
	const size_t stride = SECTION_WINDOW + SECTION_OVERLAP;
	uint64_t number = off / SECTION_WINDOW, start = number * SECTION_WINDOW;
	size_t slot = number % SECTION_N_WINDOWS, size = MIN(stride, s->size - start);

	s->n_reads += n > SECTION_OVERLAP ? n / SECTION_WINDOW + 1 : 1;
	if (s->n_reads > READS_MAX * (s->size / SECTION_WINDOW + SECTION_N_WINDOWS))
		return load_section(s, err) < 0 ? NULL : s->all + off;
	if (n > SECTION_OVERLAP)
		return read_long(s, off, n, err);
	if (!s->windows) {
		/* A small section is read at once. */
		if (s->size <= 2 * SECTION_WINDOW)
			return load_section(s, err) < 0 ? NULL : s->all + off;
		s->windows = take_memory(s, SECTION_N_WINDOWS * stride, err);
		if (!s->windows)
			return NULL;
	}
	s->of_window[slot] = 0;
	if (source_read_full(s->src, s->off + start, s->windows + slot * stride, size, SOURCE_SEQUENTIAL,
			     err) < 0)
		return NULL;
	s->of_window[slot] = number + 1;
	return s->windows + slot * stride + (off - start);
}
