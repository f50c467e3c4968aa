/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of debug sections for the readers of code.
 *
 * Sections that all units refer to (abbreviations, strings, lists) are held whole. .debug_info and .debug_line
 * are many times larger: they are read unit by unit into a reused buffer. That costs as much as the page
 * faults of a mapping would, and a file that is truncated meanwhile is an error, not a signal. Compressed ones
 * are decompressed into a file without a name and read from there, unless they are small. Relocated ones are
 * held whole.
 */
#include "dwarf/code.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>

#define SECTION_NAME 64
#define COPY_MIN     MIB(16) /* smaller sections are decompressed into memory */
#define COPY_STEP    KIB(256)

/* Read chunks from @src, from @off on, and directly from its file or memory if it has one. */
static void data_chunks_from(struct dwarf_data *s, struct source *src, uint64_t off)
{
	s->src = src;
	s->off = off;
	s->mem = source_raw_mem(src);
	if (!source_raw_fd(src, &s->fd, &s->fd_off))
		s->fd = -1;
}

/* *ret_held: the bytes of disk that @disk has granted. */
static int stream_to_file(struct stream *in, uint64_t size, int fd, struct budget_hold *disk,
			  uint64_t *ret_held, struct err *err)
{
	AUTO(mem_freep) uint8_t *room = mem_alloc(COPY_STEP);
	size_t n;

	for (uint64_t off = 0; off < size; off += n) {
		n = (size_t)MIN(size - off, (uint64_t)COPY_STEP);
		if (budget_hold_add(disk, n, err) < 0)
			return -1;
		*ret_held += n;
		if (stream_read_full(in, room, n, err) < 0 || fd_pwrite(fd, room, n, off, err) < 0)
			return -1;
	}
	return 0;
}

/* Decompress the section into a temporary copy. False: there is no room, or it is damaged, which a read into
 * memory will report. */
static bool data_unpack_to_file(struct dwarf_data *s, const struct dwarf *d)
{
	AUTO(stream_closep) struct stream *stream = NULL;
	AUTO(fd_close) int fd = -1;
	struct err ignored = { 0 };
	uint64_t held = 0;

	if (d->img->disk && s->size > d->img->disk->max)
		return false;
	if (file_unnamed(d->temp_dir, &fd, &ignored) < 0 ||
	    elf_section_stream(d->img, s->sec, &stream, &ignored) < 0 ||
	    stream_to_file(stream, s->size, fd, d->img->disk, &held, &ignored) < 0) {
		budget_hold_sub(d->img->disk, held);
		return false;
	}
	s->copy = source_of_fd(TAKE_FD(fd), s->size, d->img->src->mtime, d->img->src->name);
	data_chunks_from(s, s->copy, 0);
	return true;
}

static int data_read_whole(struct dwarf_data *s, const struct dwarf *d, struct err *err)
{
	struct dwarf_code_list code = { d->code, d->n_code };
	struct dwarf_relocated what = { .sec = s->sec, .code = &code, .size = s->size };
	size_t size;

	if (dwarf_section_fits(s->sec, s->size, err) < 0 ||
	    elf_section_load(d->img, s->sec, DWARF_PAD, d->img->memory, &s->heap, &size, err) < 0)
		return -1;
	s->p = what.p = s->heap;
	if (!dwarf_is_relocated(d->img, s->sec))
		return 0;
	if (dwarf_relocate(d->img, &what, err) < 0)
		return -1;
	s->unknown = what.unknown;
	s->names_code = what.names_code;
	return 0;
}

static bool section_is_dwo(const struct elf_section *sec)
{
	return sec && sec->name.size > 4 && memcmp(sec->name.p + sec->name.size - 4, ".dwo", 4) == 0;
}

/*
 * The section's name in this file. An object file may have both .debug_info and .debug_info.dwo: then the
 * sections without .dwo in their names belong to the first. NULL: there is none.
 */
static const char *data_section_name(const struct dwarf *d, const char *name, char room[SECTION_NAME])
{
	if (d->split && !str_eq(str_of(name), STR(".debug_cu_index"))) {
		snprintf(room, SECTION_NAME, "%s.dwo", name);
		return room;
	}
	return section_is_dwo(elf_debug_section(d->img, name)) &&
			       !section_is_dwo(elf_debug_section(d->img, ".debug_info"))
		       ? NULL
		       : name;
}

int dwarf_data_open(struct dwarf_data *s, const struct dwarf *d, const char *name, enum dwarf_data_way way,
		    struct err *err)
{
	const struct elf_section *sec;
	uint64_t size, off = 0, raw;
	bool packed, moved;
	char room[SECTION_NAME];

	*s = (struct dwarf_data){ .img = d->img };
	name = data_section_name(d, name, room);
	if (!name)
		return 0;
	if (dwarf_section_find(d->img, name, &sec, &size, err) < 0)
		return -1;
	if (!sec)
		return 0;
	s->sec = sec;
	s->size = size;
	packed = dwarf_is_compressed(sec);
	moved = dwarf_is_relocated(d->img, sec);
	if (!packed && elf_section_range(d->img, sec, &off, &raw, err) < 0)
		return err_in(err, "%s", name);
	data_chunks_from(s, d->img->src, off);
	if (way == DWARF_CHUNKS && !packed && !moved)
		return 0;
	if (way == DWARF_CHUNKS && !moved && d->temp_dir && size >= COPY_MIN && data_unpack_to_file(s, d))
		return 0;
	return data_read_whole(s, d, err) < 0 ? err_in(err, "%s", name) : 0;
}

void dwarf_data_close(struct dwarf_data *s)
{
	if (s->heap)
		budget_hold_sub(s->img->memory, s->size + DWARF_PAD);
	if (s->copy)
		budget_hold_sub(s->img->disk, s->size);
	free(s->heap);
	source_close(s->copy);
	*s = (struct dwarf_data){ 0 };
}

int dwarf_data_chunk(const struct dwarf_data *s, uint64_t off, size_t n, struct buf *room,
		     const uint8_t **ret, struct err *err)
{
	struct budget_hold *memory = s->img->memory;
	uint8_t *p;
	size_t got, more;

	if (s->p) {
		*ret = s->p + off;
		return 0;
	}
	room->size = 0;
	more = n > room->room ? n - room->room : 0;
	/* The owner of @room accounts for it. Ask before: a unit may be as large as its section. */
	if (budget_hold_add(memory, more, err) < 0)
		return err_in(err, "a unit of %zu bytes", n);
	budget_hold_sub(memory, more);
	p = buf_try_reserve(room, n + DWARF_PAD);
	if (!p)
		return err_set(err, ERR_LIMIT, "no memory for a unit of %zu bytes", n);
	if (s->mem) {
		memcpy(p, s->mem + s->off + off, n);
	} else if (s->fd >= 0) {
		if (fd_pread(s->fd, p, n, s->fd_off + s->off + off, &got, err) < 0)
			return -1;
		if (got < n)
			return err_set(err, ERR_CHANGED, "the file was truncated while it was read");
	} else if (source_read_full(s->src, s->off + off, p, n, SOURCE_SEQUENTIAL, err) < 0) {
		return -1;
	}
	memset(p + n, 0, DWARF_PAD);
	*ret = p;
	return 0;
}

bool dwarf_data_threads(const struct dwarf_data *s)
{
	return s->p || !s->size || s->fd >= 0 || s->mem;
}

bool dwarf_data_str(const struct dwarf_data *s, uint64_t off, struct str *ret)
{
	const uint8_t *nul;

	if (off >= s->size)
		return false;
	nul = memchr(s->p + off, 0, MIN(s->size - off, DWARF_MAX_NAME));
	if (!nul)
		return false;
	*ret = (struct str){ (const char *)s->p + off, (size_t)(nul - (s->p + off)) };
	return true;
}
