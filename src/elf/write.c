/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The output of an ELF file: sequential bytes, and the tables that are known only at the end.
 */
#include "elf/write.h"

#include <elf.h>
#include <errno.h>
#include <unistd.h>

#define PENDING_SIZE KIB(256)

void elf_out_init(struct elf_out *o, int fd, const struct elf_image *like)
{
	*o = (struct elf_out){ .fd = fd, .is64 = like->h.is64, .big = like->h.big };
}

void elf_out_done(struct elf_out *o)
{
	buf_done(&o->pending);
}

int elf_out_flush(struct elf_out *o, struct err *err)
{
	uint64_t from = o->pos - o->pending.size;

	if (fd_pwrite(o->fd, o->pending.p, o->pending.size, from, err) < 0)
		return -1;
	o->pending.size = 0;
	return 0;
}

int elf_out_add(struct elf_out *o, const void *p, size_t n, struct err *err)
{
	if (o->pending.size + n > PENDING_SIZE && elf_out_flush(o, err) < 0)
		return -1;
	if (n > PENDING_SIZE) {
		if (fd_pwrite(o->fd, p, n, o->pos, err) < 0)
			return -1;
	} else {
		buf_add(&o->pending, p, n);
	}
	o->pos += n;
	return 0;
}

int elf_out_zeros(struct elf_out *o, uint64_t n, struct err *err)
{
	static const uint8_t zeros[4096];

	while (n) {
		size_t chunk = (size_t)MIN(n, (uint64_t)sizeof(zeros));

		if (elf_out_add(o, zeros, chunk, err) < 0)
			return -1;
		n -= chunk;
	}
	return 0;
}

int elf_out_align(struct elf_out *o, uint64_t align, struct err *err)
{
	/* The alignment is from input: one that is no power of two, or huge, is ignored rather than paid for
	 * with gigabytes of zeros. */
	if (align <= 1 || align > MIB(1) || (align & (align - 1)))
		return 0;
	return elf_out_zeros(o, (0 - o->pos) & (align - 1), err);
}

int elf_out_copy(struct elf_out *o, struct source *src, uint64_t off, uint64_t n, struct err *err)
{
	AUTO(stream_closep) struct stream *s = stream_of_source(src, false, off, n);
	struct bytes chunk;

	while (n) {
		if (stream_next(s, (size_t)MIN(n, (uint64_t)PENDING_SIZE), &chunk, err) < 0)
			return -1;
		if (!chunk.size)
			return err_set(err, ERR_INVALID, "ends %llu bytes early", (unsigned long long)n);
		if (elf_out_add(o, chunk.p, chunk.size, err) < 0)
			return -1;
		n -= chunk.size;
	}
	return 0;
}

int elf_out_back(struct elf_out *o, uint64_t pos, struct err *err)
{
	if (elf_out_flush(o, err) < 0)
		return -1;
	if (ftruncate(o->fd, (off_t)pos) < 0)
		return err_os(err, errno, "truncate");
	o->pos = pos;
	return 0;
}

void elf_put(bool big, void *at, uint64_t v, unsigned size)
{
	uint8_t *p = at;

	for (unsigned i = 0; i < size; i++)
		p[big ? size - 1 - i : i] = (uint8_t)(v >> (8 * i));
}

uint64_t elf_get(bool big, const void *at, unsigned size)
{
	const uint8_t *p = at;
	uint64_t v = 0;

	for (unsigned i = 0; i < size; i++)
		v |= (uint64_t)p[big ? size - 1 - i : i] << (8 * i);
	return v;
}

/* A structure that is assembled field by field. */
struct elf_record {
	uint8_t b[64];
	unsigned size;
	bool big;
};

static void record_add(struct elf_record *r, uint64_t v, unsigned size)
{
	elf_put(r->big, r->b + r->size, v, size);
	r->size += size;
}

int elf_out_segments(struct elf_out *o, const struct elf_segment *segments, size_t n, struct err *err)
{
	unsigned word = o->is64 ? 8 : 4;

	for (size_t i = 0; i < n; i++) {
		const struct elf_segment *s = &segments[i];
		struct elf_record r = { .big = o->big };

		record_add(&r, s->type, 4);
		if (o->is64)
			record_add(&r, s->flags, 4);
		record_add(&r, s->off, word);
		record_add(&r, s->vaddr, word);
		record_add(&r, s->paddr, word);
		record_add(&r, s->filesz, word);
		record_add(&r, s->memsz, word);
		if (!o->is64)
			record_add(&r, s->flags, 4);
		record_add(&r, s->align, word);
		if (elf_out_add(o, r.b, r.size, err) < 0)
			return -1;
	}
	return 0;
}

static int section_write(struct elf_out *o, const struct elf_out_section *sec, struct err *err)
{
	const struct elf_section *s = &sec->s;
	struct elf_record r = { .big = o->big };
	unsigned word = o->is64 ? 8 : 4;

	record_add(&r, sec->name_off, 4);
	record_add(&r, s->type, 4);
	record_add(&r, s->flags, word);
	record_add(&r, s->addr, word);
	record_add(&r, s->off, word);
	record_add(&r, s->size, word);
	record_add(&r, s->link, 4);
	record_add(&r, s->info, 4);
	record_add(&r, s->align, word);
	record_add(&r, s->entsize, word);
	return elf_out_add(o, r.b, r.size, err);
}

/* Numbers that do not fit the header go to section 0. */
static void extended_numbers(struct elf_out_section *zero, size_t n_sections, size_t n_segments,
			     uint32_t names_index)
{
	zero->s.type = SHT_NULL;
	zero->s.size = n_sections >= SHN_LORESERVE ? n_sections : 0;
	zero->s.info = n_segments >= PN_XNUM ? (uint32_t)n_segments : 0;
	zero->s.link = names_index >= SHN_LORESERVE ? names_index : 0;
}

static int header_write(struct elf_out *o, const struct elf_image *img, const struct elf_out_tables *t,
			uint64_t shoff, struct err *err)
{
	unsigned word = o->is64 ? 8 : 4, size = o->is64 ? sizeof(Elf64_Ehdr) : sizeof(Elf32_Ehdr);
	size_t n_segments = t->phoff ? img->n_segments : 0;
	struct elf_record r = { .big = o->big };

	if (source_read_full(img->src, 0, r.b, size, SOURCE_RANDOM, err) < 0)
		return -1;
	r.size = 24 + word; /* after e_entry */
	record_add(&r, t->phoff, word);
	record_add(&r, shoff, word);
	r.size += 4; /* e_flags */
	record_add(&r, size, 2);
	record_add(&r, elf_segment_size(o->is64) * (n_segments != 0), 2);
	record_add(&r, n_segments >= PN_XNUM ? PN_XNUM : n_segments, 2);
	record_add(&r, elf_section_size(o->is64), 2);
	record_add(&r, t->n_sections >= SHN_LORESERVE ? 0 : t->n_sections, 2);
	record_add(&r, t->names_index >= SHN_LORESERVE ? SHN_XINDEX : t->names_index, 2);
	return fd_pwrite(o->fd, r.b, size, 0, err);
}

int elf_out_finish(struct elf_out *o, const struct elf_image *img, const struct elf_out_tables *t,
		   struct err *err)
{
	struct elf_out_section zero = t->sections[0];
	uint64_t shoff;

	if (elf_out_align(o, o->is64 ? 8 : 4, err) < 0)
		return -1;
	shoff = o->pos;
	if (!o->is64 && shoff + t->n_sections * elf_section_size(false) > UINT32_MAX)
		return err_set(err, ERR_LIMIT, "the file becomes larger than a 32-bit ELF file can be");
	extended_numbers(&zero, t->n_sections, t->phoff ? img->n_segments : 0, t->names_index);
	if (section_write(o, &zero, err) < 0)
		return -1;
	for (size_t i = 1; i < t->n_sections; i++)
		if (section_write(o, &t->sections[i], err) < 0)
			return -1;
	if (elf_out_flush(o, err) < 0)
		return -1;
	return header_write(o, img, t, shoff, err);
}
