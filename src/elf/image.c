/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening an image: the header, the program headers, the section headers with their names.
 *
 * This runs for every file of a machine and every member of a package, so it reads only twice: the head of
 * the file, and the section headers with the bytes shortly before them. Both are kept, since they usually
 * hold the bytes requested next.
 */
#include "elf/internal.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>

/* The tail is kept only while it is small; the headers of 100 000 sections are dropped after parsing. */
#define TAIL_MAX KIB(64)

/*
 * Names may share bytes (".text" in ".rela.text"), within limits: measuring them may read this many times the
 * table's size, otherwise a table of 64 MiB without a NUL would take hours.
 */
#define NAMES_SHARED_MAX 8
/* How many times the size of the file all its sections together may have. */
#define SECTIONS_SHARED_MAX 4

#define HELD_FACTOR 32
#define HELD_LEAST  MIB(128)

struct image {
	struct elf_image pub;
	const uint8_t *mem; /* the source's own memory, or NULL */
	struct bytes head;  /* of the file */
	struct bytes tail;  /* at tail_off of the file; in the arena */
	uint64_t tail_off;
	struct budget_hold memory, disk;
	uint8_t head_room[ELF_HEAD_SIZE];
};

int elf_header_parse(struct bytes head, struct elf_header *h, struct elf_tables *ret, struct err *err)
{
	struct elf_header out = { 0 };
	struct elf_tables t = { 0 };
	uint8_t class, data;
	struct cursor c;

	if (head.size < SELFMAG || memcmp(head.p, ELFMAG, SELFMAG) != 0)
		return ELF_NOT_ELF;
	if (head.size < EI_NIDENT)
		return err_set(err, ERR_INVALID, "ELF header ends early at offset %zu", head.size);
	class = head.p[EI_CLASS];
	data = head.p[EI_DATA];
	if (class != ELFCLASS32 && class != ELFCLASS64)
		return err_set(err, ERR_INVALID, "ELF class %u is neither 32 nor 64 bit", class);
	if (data != ELFDATA2LSB && data != ELFDATA2MSB)
		return err_set(err, ERR_INVALID, "ELF data encoding %u is unknown", data);
	out.is64 = class == ELFCLASS64;
	out.big = data == ELFDATA2MSB;
	c = cursor_at(head, out.big, 0);
	cursor_skip(&c, EI_NIDENT);
	out.type = cursor_u16(&c);
	out.machine = cursor_u16(&c);
	cursor_u32(&c); /* e_version */
	out.entry = cursor_uint(&c, out.is64 ? 8 : 4);
	out.phoff = cursor_uint(&c, out.is64 ? 8 : 4);
	out.shoff = cursor_uint(&c, out.is64 ? 8 : 4);
	out.flags = cursor_u32(&c);
	cursor_u16(&c); /* e_ehsize */
	t.phentsize = cursor_u16(&c);
	t.phnum = cursor_u16(&c);
	t.shentsize = cursor_u16(&c);
	t.shnum = cursor_u16(&c);
	t.shstrndx = cursor_u16(&c);
	if (!cursor_ok(&c))
		return cursor_err(&c, "ELF header", err);
	*h = out;
	*ret = t;
	return 0;
}

void elf_segment_parse(struct cursor *c, bool is64, struct elf_segment *ret)
{
	unsigned word = is64 ? 8 : 4;

	ret->type = cursor_u32(c);
	if (is64)
		ret->flags = cursor_u32(c);
	ret->off = cursor_uint(c, word);
	ret->vaddr = cursor_uint(c, word);
	ret->paddr = cursor_uint(c, word);
	ret->filesz = cursor_uint(c, word);
	ret->memsz = cursor_uint(c, word);
	if (!is64)
		ret->flags = cursor_u32(c);
	ret->align = cursor_uint(c, word);
}

void elf_section_parse(struct cursor *c, bool is64, struct elf_section *ret, uint32_t *ret_name)
{
	unsigned word = is64 ? 8 : 4;

	*ret_name = cursor_u32(c);
	ret->name = (struct str){ 0 };
	ret->type = cursor_u32(c);
	ret->flags = cursor_uint(c, word);
	ret->addr = cursor_uint(c, word);
	ret->off = cursor_uint(c, word);
	ret->size = cursor_uint(c, word);
	ret->link = cursor_u32(c);
	ret->info = cursor_u32(c);
	ret->align = cursor_uint(c, word);
	ret->entsize = cursor_uint(c, word);
}

static bool view_within(struct bytes chunk, uint64_t chunk_off, uint64_t off, uint64_t n, struct bytes *ret)
{
	if (off < chunk_off || !elf_range_fits(off - chunk_off, n, chunk.size))
		return false;
	*ret = bytes_of(chunk.p + (off - chunk_off), (size_t)n);
	return true;
}

int elf_view(const struct elf_image *img, uint64_t off, uint64_t n, struct arena *a, struct bytes *ret,
	     struct err *err)
{
	const struct image *im = CONTAINER_OF(img, struct image, pub);

	if (im->mem) {
		*ret = bytes_of(im->mem + off, (size_t)n);
		return 0;
	}
	if (view_within(im->head, 0, off, n, ret) || view_within(im->tail, im->tail_off, off, n, ret))
		return 0;
	return source_read_arena(img->src, range_of(off, n), SIZE_MAX, a, ret, err);
}

/* Section 0 holds values that do not fit the header: numbers of sections, of segments, the index of the
 * names. Returns 1 if it is not in the file. */
static int read_section_zero(struct image *im, const struct elf_tables *t, struct elf_section *ret,
			     struct err *err)
{
	const struct elf_header *h = &im->pub.h;
	struct bytes b;
	struct cursor c;
	uint32_t name;

	if (!h->shoff || t->shentsize < elf_section_size(h->is64) ||
	    !elf_range_fits(h->shoff, t->shentsize, im->pub.src->size))
		return 1;
	if (elf_view(&im->pub, h->shoff, t->shentsize, &im->pub.arena, &b, err) < 0)
		return -1;
	c = cursor_at(b, h->big, h->shoff);
	elf_section_parse(&c, h->is64, ret, &name);
	return 0;
}

/* The numbers of sections and segments and the index of the names, from the header or section 0. */
static int resolve_numbers(struct image *im, const struct elf_tables *t, struct err *err)
{
	struct elf_header *h = &im->pub.h;
	bool far_segments = h->phoff && t->phnum == PN_XNUM;
	bool far_sections = h->shoff && t->shnum == 0;
	bool far_names = h->shoff && t->shstrndx == SHN_XINDEX;
	struct elf_section zero = { 0 };
	int r = 0;

	if (far_segments || far_sections || far_names)
		r = read_section_zero(im, t, &zero, err);
	if (r < 0)
		return -1;
	if (r > 0 && far_segments)
		return err_set(
			err, ERR_INVALID,
			"the number of segments is in section header 0, at %llu, which is not in the file",
			(unsigned long long)h->shoff);
	h->n_segments = !h->phoff ? 0 : far_segments ? zero.info : t->phnum;
	h->names_index = far_names ? zero.link : t->shstrndx;
	if (!h->shoff)
		h->n_sections = 0;
	else if (!far_sections)
		h->n_sections = t->shnum;
	else if (r > 0 || zero.size > ELF_MAX_SECTIONS)
		/* Reported as unsound when the table is read. */
		h->n_sections = UINT32_MAX;
	else
		h->n_sections = (uint32_t)zero.size;
	return 0;
}

static int image_read_segments(struct image *im, const struct elf_tables *t, struct err *err)
{
	struct elf_image *img = &im->pub;
	AUTO(arena_done) struct arena scratch = { 0 };
	uint64_t n = img->h.n_segments;
	struct elf_segment *out;
	struct bytes table;

	if (!n)
		return 0;
	if (n > ELF_MAX_SEGMENTS)
		return err_set(err, ERR_LIMIT, "%llu segments are more than the %u allowed",
			       (unsigned long long)n, ELF_MAX_SEGMENTS);
	if (t->phentsize < elf_segment_size(img->h.is64))
		return err_set(err, ERR_INVALID, "program headers of %u bytes are too small", t->phentsize);
	if (!elf_range_fits(img->h.phoff, n * t->phentsize, img->src->size))
		return err_set(err, ERR_INVALID,
			       "the %llu program headers at %llu end past the file of %llu bytes",
			       (unsigned long long)n, (unsigned long long)img->h.phoff,
			       (unsigned long long)img->src->size);
	if (elf_view(img, img->h.phoff, n * t->phentsize, &scratch, &table, err) < 0)
		return err_in(err, "program headers");
	out = ARENA_NEW_N(&img->arena, struct elf_segment, n);
	for (size_t i = 0; i < n; i++) {
		struct cursor c = cursor_at(bytes_of(table.p + i * t->phentsize, t->phentsize), img->h.big,
					    0);

		elf_segment_parse(&c, img->h.is64, &out[i]);
	}
	img->segments = out;
	img->n_segments = (uint32_t)n;
	return 0;
}

/* Read the table. While it is small, also keep it and the bytes shortly before it as the image's tail. */
static int read_section_table(struct image *im, uint64_t size, struct arena *scratch, struct bytes *ret,
			      struct err *err)
{
	uint64_t shoff = im->pub.h.shoff, from = shoff - MIN(shoff, (uint64_t)ELF_TAIL_SLACK);
	struct bytes got;

	if (size <= TAIL_MAX && !im->mem && !view_within(im->head, 0, shoff, size, ret)) {
		if (source_read_arena(im->pub.src, range_of(from, shoff - from + size), SIZE_MAX,
				      &im->pub.arena, &got, err) < 0)
			return -1;
		im->tail = got;
		im->tail_off = from;
	}
	return elf_view(&im->pub, shoff, size, scratch, ret, err);
}

/* Check the section table: 1 with the reason in *why if it is unsound. */
static int check_section_table(const struct image *im, const struct elf_tables *t, struct err *why)
{
	const struct elf_header *h = &im->pub.h;

	if (h->n_sections > ELF_MAX_SECTIONS) {
		err_set(why, ERR_LIMIT,
			"the number of sections is more than the %u allowed, or not in the file",
			ELF_MAX_SECTIONS);
	} else if (t->shentsize < elf_section_size(h->is64)) {
		err_set(why, ERR_INVALID, "section headers of %u bytes are too small", t->shentsize);
	} else if (!elf_range_fits(h->shoff, (uint64_t)h->n_sections * t->shentsize, im->pub.src->size)) {
		err_set(why, ERR_INVALID, "section table of %u at %llu ends past the file of %llu bytes",
			h->n_sections, (unsigned long long)h->shoff, (unsigned long long)im->pub.src->size);
	} else if (h->names_index != SHN_UNDEF && h->names_index >= h->n_sections) {
		err_set(why, ERR_INVALID, "section names are in section %u of %u", h->names_index,
			h->n_sections);
	} else {
		return 0;
	}
	return 1;
}

/* As check_section_table(), for the section that holds the names. */
static int check_names(const struct image *im, const struct elf_section *names, struct err *why)
{
	/* A file whose end was never written and is zeros looks like this. */
	if (names->type == SHT_NULL)
		err_set(why, ERR_INVALID,
			"section names are in section %u, which is empty: the section table is damaged",
			names->index);
	else if (names->type == SHT_NOBITS || !elf_range_fits(names->off, names->size, im->pub.src->size))
		err_set(why, ERR_INVALID,
			"section names of %llu bytes at %llu are not in the file of %llu bytes",
			(unsigned long long)names->size, (unsigned long long)names->off,
			(unsigned long long)im->pub.src->size);
	else if (names->size > ELF_MAX_NAMES_SIZE)
		err_set(why, ERR_LIMIT, "section names of %llu bytes are more than the %zu allowed",
			(unsigned long long)names->size, (size_t)ELF_MAX_NAMES_SIZE);
	else
		return 0;
	return 1;
}

/*
 * Sections do not share bytes, and all that reads, copies or relocates each section relies on it: thousands of them with
 * the same megabytes would cost any time and space.
 */
static int check_overlap(const struct image *im, const struct elf_section *sections, size_t n,
			 struct err *why)
{
	uint64_t size = im->pub.src->size,
		 left = MIN(size, UINT64_MAX / SECTIONS_SHARED_MAX) * SECTIONS_SHARED_MAX;

	for (size_t i = 1; i < n; i++) {
		const struct elf_section *s = &sections[i];

		if (s->type == SHT_NULL || s->type == SHT_NOBITS || !elf_range_fits(s->off, s->size, size))
			continue;
		if (s->size > left) {
			err_set(why, ERR_LIMIT, "sections overlap each other too much");
			return 1;
		}
		left -= s->size;
	}
	return 0;
}

/* Give each section its name. One whose offset is outside of the names gets none. */
static int name_sections(struct elf_section *sections, const uint32_t *offs, size_t n, struct bytes names,
			 struct err *why)
{
	uint64_t budget = (uint64_t)names.size * NAMES_SHARED_MAX + KIB(64);

	for (size_t i = 0; i < n; i++) {
		const char *p;
		size_t size;

		if (offs[i] >= names.size)
			continue;
		p = (const char *)names.p + offs[i];
		size = strnlen(p, names.size - offs[i]);
		if (size > budget) {
			err_set(why, ERR_LIMIT, "section names overlap each other too much");
			return 1;
		}
		budget -= size;
		sections[i].name = (struct str){ p, size };
	}
	return 0;
}

/* Read the sections. An unsound table is reported in sections_err; only a failure of the source is
 * returned. */
static int image_read_sections(struct image *im, const struct elf_tables *t, struct err *err)
{
	struct elf_image *img = &im->pub;
	AUTO(arena_done) struct arena scratch = { 0 };
	size_t n = img->h.n_sections;
	struct elf_section *out;
	struct bytes table, names = { 0 };
	uint32_t *name_offs;

	if (!n || check_section_table(im, t, &img->sections_err))
		return 0;
	if (read_section_table(im, (uint64_t)n * t->shentsize, &scratch, &table, err) < 0)
		return err_in(err, "section table");
	out = arena_try(&img->arena, n * sizeof(*out));
	name_offs = arena_try(&scratch, n * sizeof(*name_offs));
	if (!out || !name_offs)
		return err_os(err, ENOMEM, "%zu sections", n);
	for (size_t i = 0; i < n; i++) {
		struct cursor c = cursor_at(bytes_of(table.p + i * t->shentsize, t->shentsize), img->h.big,
					    0);

		out[i].index = (uint32_t)i;
		elf_section_parse(&c, img->h.is64, &out[i], &name_offs[i]);
	}
	if (check_overlap(im, out, n, &img->sections_err))
		return 0;
	if (img->h.names_index != SHN_UNDEF) {
		const struct elf_section *sec = &out[img->h.names_index];

		if (check_names(im, sec, &img->sections_err))
			return 0;
		if (elf_view(img, sec->off, sec->size, &img->arena, &names, err) < 0)
			return err_in(err, "section names");
	}
	if (name_sections(out, name_offs, n, names, &img->sections_err))
		return 0;
	img->sections = out;
	img->n_sections = (uint32_t)n;
	return 0;
}

static int image_read_head(struct image *im, struct err *err)
{
	size_t n;

	im->mem = source_raw_mem(im->pub.src);
	if (im->mem) {
		im->head = bytes_of(im->mem, (size_t)MIN(im->pub.src->size, (uint64_t)ELF_HEAD_SIZE));
		return 0;
	}
	if (source_read(im->pub.src, 0, im->head_room, ELF_HEAD_SIZE, SOURCE_RANDOM, &n, err) < 0)
		return err_in(err, "ELF header");
	im->head = bytes_of(im->head_room, n);
	return 0;
}

uint64_t elf_held_max(uint64_t size)
{
	static _Atomic uint64_t most;

	/* Threads that find it unset compute the same. */
	if (!atomic_load_explicit(&most, memory_order_relaxed))
		atomic_store_explicit(&most, budget_usual(), memory_order_relaxed);
	if (size > UINT64_MAX / HELD_FACTOR - HELD_LEAST)
		return most;
	return MIN(size * HELD_FACTOR + HELD_LEAST, atomic_load_explicit(&most, memory_order_relaxed));
}

void elf_hold_in(const struct elf_image *img, struct budget_hold *memory, struct budget_hold *disk)
{
	budget_hold_done(img->memory);
	budget_hold_done(img->disk);
	img->memory->outer = memory;
	img->disk->outer = disk;
}

int elf_open(struct source *src, struct elf_image **ret, struct err *err)
{
	struct image *im = mem_alloc(sizeof(*im));
	AUTO(elf_closep) struct elf_image *img = &im->pub;
	struct elf_tables t;
	int r;

	im->pub = (struct elf_image){ .src = src };
	im->tail = (struct bytes){ 0 };
	im->tail_off = 0;
	budget_hold_init(&im->memory, NULL, BUDGET_TABLE);
	budget_hold_init(&im->disk, NULL, BUDGET_TABLE);
	im->memory.max = im->disk.max = elf_held_max(src->size);
	img->memory = &im->memory;
	img->disk = &im->disk;
	if (image_read_head(im, err) < 0)
		return -1;
	r = elf_header_parse(im->head, &img->h, &t, err);
	if (r)
		return r;
	if (resolve_numbers(im, &t, err) < 0 || image_read_segments(im, &t, err) < 0 ||
	    image_read_sections(im, &t, err) < 0)
		return -1;
	*ret = TAKE(img);
	return 0;
}

void elf_close(struct elf_image *img)
{
	if (!img)
		return;
	arena_done(&img->arena);
	budget_hold_done(img->memory);
	budget_hold_done(img->disk);
	free(CONTAINER_OF(img, struct image, pub));
}

void elf_closep(struct elf_image **img)
{
	elf_close(*img);
	*img = NULL;
}
