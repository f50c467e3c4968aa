/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hand-made tables: the input is a table. Its checksums are corrected, so that the checks after them are
 * reached.
 */
#include "fuzz.h"

#include <string.h>
#include "symtab/symtab.h"

enum { HEAD_SIZE = 192, INDEX_SIZE = 32 };

static uint32_t get32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, 4);
	return le32toh(v);
}

static void put(uint8_t *p, uint64_t v, size_t size)
{
	v = htole64(v);
	memcpy(p, &v, size);
}

static void sums_right(uint8_t *p, size_t size)
{
	uint32_t head = get32(p + 12), n = get32(p + 40), index = get32(p + 44);

	put(p + 16, size, 8);
	if (head < HEAD_SIZE || head > size || index > head || n > (head - index) / INDEX_SIZE)
		return;
	for (uint32_t i = 0; i < n; i++) {
		uint8_t *row = p + index + (size_t)i * INDEX_SIZE;
		uint64_t off = get32(row + 16), len = get32(row + 24);

		if (off <= size && len <= size - off)
			put(row + 28, hash64(p + off, len, 0), 4);
	}
	put(p + 24, 0, 8);
	put(p + 24, hash64(p, head, 0), 8);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(mem_freep) uint8_t *p = mem_alloc(size + 1);
	struct symtab_finder *f;
	struct symtab *t;
	struct symtab_frames frames;
	struct err err = { 0 };
	uint64_t at = 0;

	memcpy(p, data, size);
	if (size >= HEAD_SIZE)
		sums_right(p, size);
	if (symtab_open_mem(bytes_of(p, size), &t, &err) < 0)
		return 0;
	f = symtab_finder_new(t);
	for (unsigned i = 0; i < 2000 && symtab_next(f, at, &frames, &err) == 0 && frames.hi > at; i++) {
		AUTO(buf_done) struct buf path = { 0 };

		for (size_t k = 0; k < frames.n; k++) {
			buf_add_str(&path, frames.list[k].name);
			symtab_path(frames.list[k].dir, frames.list[k].file, &path);
		}
		at = frames.hi;
	}
	for (uint64_t a = 0x1000; a < 0x1200; a += 7) {
		uint64_t addr = a * 0x9e3779b97f4a7c15 % 0x3000;

		if (symtab_find(f, addr, &frames, &err) == 0)
			FUZZ_CHECK(frames.n >= 1 && frames.lo <= addr && addr < frames.hi);
	}
	symtab_finder_free(f);
	symtab_close(t);
	return 0;
}
