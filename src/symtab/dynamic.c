/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dynamic symbols of a file without sections, found as a dynamic linker finds them: by the dynamic segment.
 *
 * Only the hash tables give their number: DT_HASH has as many chains as there are symbols; in DT_GNU_HASH the
 * chain of the last bucket ends with the last symbol.
 */
#include "symtab/build.h"

#include <elf.h>

#define DYNAMIC_MAX MIB(1)
#define PART_MAX    MIB(64)
/* A file has one dynamic segment; each that is tried costs a walk over all segments, of which there may be 65 536. */
#define DYNAMIC_SEGMENTS 8u

#ifndef DT_GNU_HASH
#define DT_GNU_HASH 0x6ffffef5
#endif

struct dynamic {
	const struct elf_image *img;
	struct arena *arena;
	uint64_t symbols, names, names_size, hash, gnu_hash;
};

/* Read @size bytes at the address, fewer if the file ends. 1: the file has none of them. */
static int dynamic_bytes(const struct dynamic *d, uint64_t addr, uint64_t size, struct bytes *ret,
			 struct err *err)
{
	for (uint32_t i = 0; i < d->img->n_segments; i++) {
		const struct elf_segment *seg = &d->img->segments[i];
		uint64_t skip = addr - seg->vaddr, off;
		uint8_t *p;
		size_t got;

		if (seg->type != PT_LOAD || addr < seg->vaddr || skip >= seg->filesz ||
		    add_overflows(seg->off, skip, &off) || off >= d->img->src->size)
			continue;
		size = MIN(MIN(size, (uint64_t)PART_MAX), MIN(seg->filesz - skip, d->img->src->size - off));
		if (!size)
			return 1;
		p = arena_try_err(d->arena, (size_t)size, err);
		if (!p)
			return err_in(err, "dynamic symbols");
		if (source_read(d->img->src, off, p, (size_t)size, SOURCE_RANDOM, &got, err) < 0)
			return -1;
		*ret = bytes_of(p, got);
		return 0;
	}
	return 1;
}

static int dynamic_segment_read(struct dynamic *d, const struct elf_segment *seg, struct err *err)
{
	unsigned word = d->img->h.is64 ? 8 : 4;
	struct bytes b;
	struct cursor c;
	int r = dynamic_bytes(d, seg->vaddr, MIN(seg->filesz, (uint64_t)DYNAMIC_MAX), &b, err);

	if (r)
		return r;
	c = cursor_at(b, d->img->h.big, 0);
	while (cursor_left(&c) >= 2 * word) {
		uint64_t tag = cursor_uint(&c, word), v = cursor_uint(&c, word);

		switch (tag) {
		case DT_NULL:
			return 0;
		case DT_STRTAB:
			d->names = v;
			break;
		case DT_SYMTAB:
			d->symbols = v;
			break;
		case DT_STRSZ:
			d->names_size = v;
			break;
		case DT_HASH:
			d->hash = v;
			break;
		case DT_GNU_HASH:
			d->gnu_hash = v;
			break;
		}
	}
	return 0;
}

static int symbols_count_gnu(const struct dynamic *d, uint64_t *ret, struct err *err)
{
	uint64_t buckets, first, bloom, at, last = 0;
	struct bytes b;
	struct cursor c;
	int r = dynamic_bytes(d, d->gnu_hash, 16, &b, err);

	if (r)
		return r;
	c = cursor_at(b, d->img->h.big, 0);
	buckets = cursor_u32(&c);
	first = cursor_u32(&c);
	bloom = (uint64_t)cursor_u32(&c) * (d->img->h.is64 ? 8 : 4);
	if (!cursor_ok(&c))
		return 1;
	at = d->gnu_hash + 16 + bloom;
	r = dynamic_bytes(d, at, buckets * 4, &b, err);
	if (r)
		return r;
	for (c = cursor_at(b, d->img->h.big, 0); cursor_left(&c) >= 4;)
		last = MAX(last, (uint64_t)cursor_u32(&c));
	*ret = first;
	if (last < first)
		return 0;
	r = dynamic_bytes(d, at + buckets * 4 + (last - first) * 4, PART_MAX, &b, err);
	if (r)
		return r;
	for (c = cursor_at(b, d->img->h.big, 0); cursor_left(&c) >= 4; last++)
		if (cursor_u32(&c) & 1)
			break;
	*ret = last + 1;
	return 0;
}

static int symbols_count(const struct dynamic *d, uint64_t *ret, struct err *err)
{
	struct bytes b;
	struct cursor c;
	int r = 1;

	if (d->hash) {
		r = dynamic_bytes(d, d->hash, 8, &b, err);
		if (r == 0 && b.size == 8) {
			c = cursor_at(b, d->img->h.big, 0);
			cursor_u32(&c);
			*ret = cursor_u32(&c);
			return 0;
		}
	}
	return r >= 0 && d->gnu_hash ? symbols_count_gnu(d, ret, err) : r;
}

int dynamic_symbols(const struct elf_image *img, struct arena *a, struct bytes *ret_symbols,
		    struct bytes *ret_names, struct err *err)
{
	struct dynamic d = { .img = img, .arena = a };
	unsigned n_tried = 0;
	uint64_t n = 0;
	int r = 1;

	for (uint32_t i = 0; i < img->n_segments && r > 0 && n_tried < DYNAMIC_SEGMENTS; i++) {
		if (img->segments[i].type != PT_DYNAMIC)
			continue;
		r = dynamic_segment_read(&d, &img->segments[i], err);
		n_tried++;
	}
	if (r == 0)
		r = d.symbols && d.names ? symbols_count(&d, &n, err) : 1;
	if (r == 0)
		r = dynamic_bytes(&d, d.symbols, n * (img->h.is64 ? 24 : 16), ret_symbols, err);
	return r == 0 ? dynamic_bytes(&d, d.names, d.names_size, ret_names, err) : r;
}
