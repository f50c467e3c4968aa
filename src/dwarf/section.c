/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a debug section, with as few of them in memory as possible.
 *
 * A debug file may be larger than memory, and most of it is not needed here. Reading in order uses a stream,
 * decompressed on the way. Reading at random reads windows of the file; a compressed section has none, so it
 * is decompressed as a whole. A section to be relocated is held whole, too: it is of an object file or a kernel
 * module, which are small.
 */
#include "dwarf/code.h"

#include <elf.h>

#define WINDOW_SIZE KIB(16)

/* Up to this size one read of all costs less than the windows that would be read. */
#define WHOLE_SIZE MIB(1)

bool dwarf_is_relocated(const struct elf_image *img, const struct elf_section *sec)
{
	if (img->h.type != ET_REL)
		return false;
	for (uint32_t i = 1; i < img->n_sections; i++) {
		const struct elf_section *rel = &img->sections[i];

		if (dwarf_is_reloc_section(rel) && rel->info == sec->index)
			return true;
	}
	return false;
}

bool dwarf_is_compressed(const struct elf_section *sec)
{
	return sec->flags & SHF_COMPRESSED || str_starts(sec->name, STR(".zdebug_"));
}

/* ".debug_info" and ".zdebug_info" are the same. */
static struct str plain_name(struct str name)
{
	return str_starts(name, STR(".z")) ? (struct str){ name.p + 2, name.size - 2 }
	       : name.size                 ? (struct str){ name.p + 1, name.size - 1 }
					   : name;
}

/* Whether the first unit of the section is a type unit (DWARF 5). */
static bool has_type_unit(const struct elf_image *img, const struct elf_section *sec)
{
	AUTO(stream_closep) struct stream *stream = NULL;
	struct err ignored = { 0 };
	uint64_t length;
	uint8_t head[15], offset_size, type;
	uint64_t size;
	struct cursor c;

	if (elf_section_content_size(img, sec, &size, &ignored) || size < sizeof(head) ||
	    elf_section_stream(img, sec, &stream, &ignored) ||
	    stream_read_full(stream, head, sizeof(head), &ignored) < 0)
		return false;
	c = cursor_at(bytes_of(head, sizeof(head)), img->h.big, 0);
	if (!dwarf_length_read(&c, &length, &offset_size) || cursor_u16(&c) < 5)
		return false;
	type = cursor_u8(&c);
	return type == DW_UT_type || type == DW_UT_split_type;
}

static bool section_has_name(const struct elf_section *sec, struct str name)
{
	return str_eq(plain_name(sec->name), plain_name(name));
}

/*
 * The first section called @name, from section @i on, that has units that are no type units; NULL: there is none. In
 * an object file or .dwo, GCC and clang put each type unit of DWARF 5 into a .debug_info of its own, so that the
 * linker keeps one of each.
 */
static const struct elf_section *info_next(const struct elf_image *img, struct str name, uint32_t i)
{
	for (; i < img->n_sections; i++) {
		const struct elf_section *sec = &img->sections[i];

		if (section_has_name(sec, name) && sec->size && !has_type_unit(img, sec))
			return sec;
	}
	return NULL;
}

/* The section to read among those with the name of @first. Most files have only one, which is not opened for that. */
static const struct elf_section *info_choose(const struct elf_image *img, const struct elf_section *first)
{
	const struct elf_section *sec;
	uint32_t i = first->index + 1;

	while (i < img->n_sections && !section_has_name(&img->sections[i], first->name))
		i++;
	if (i >= img->n_sections)
		return first;
	sec = info_next(img, first->name, first->index);
	return sec ? sec : first;
}

uint32_t dwarf_info_more(const struct elf_image *img, const struct elf_section *info)
{
	const struct elf_section *sec = info;
	uint32_t n = 0;

	while ((sec = info_next(img, info->name, sec->index + 1)))
		n++;
	return n;
}

int dwarf_section_find(const struct elf_image *img, const char *name, const struct elf_section **ret,
		       uint64_t *ret_size, struct err *err)
{
	const struct elf_section *sec = elf_debug_section(img, name);
	uint64_t size = 0;
	int r;

	if (sec && str_starts(str_of(name), STR(".debug_info")))
		sec = info_choose(img, sec);
	r = sec ? elf_section_content_size(img, sec, &size, err) : ELF_NO_SECTION;

	if (r < 0)
		return -1;
	*ret = r ? NULL : sec;
	*ret_size = size;
	return 0;
}

int dwarf_section_fits(const struct elf_section *sec, uint64_t size, struct err *err)
{
	if (size <= DWARF_MAX_SECTION)
		return 0;
	return err_set(err, ERR_LIMIT, "%.*s: %llu bytes are more than the %zu allowed in memory",
		       (int)MIN(sec->name.size, (size_t)64), sec->name.p, (unsigned long long)size,
		       (size_t)DWARF_MAX_SECTION);
}

static int section_load(struct dwarf_section *s, bool relocate, struct err *err)
{
	if (dwarf_section_fits(s->sec, s->size, err) < 0 ||
	    elf_section_read(s->img, s->sec, DWARF_MAX_SECTION, &s->arena, &s->held, err) < 0)
		return -1;
	/* The bytes are the arena's, hence ours. */
	if (relocate && dwarf_relocate(s->img,
				       &(struct dwarf_relocated){ .sec = s->sec,
								  .p = (uint8_t *)(uintptr_t)s->held.p,
								  .size = s->held.size },
				       err) < 0)
		return err_in(err, "relocations of %.*s", (int)MIN(s->sec->name.size, (size_t)64),
			      s->sec->name.p);
	s->held_off = 0;
	s->whole = true;
	return 0;
}

int dwarf_section_open(struct dwarf_section *s, const struct elf_image *img, const char *name,
		       struct err *err)
{
	*s = (struct dwarf_section){ .img = img, .arena.hold = img->memory };
	if (dwarf_section_find(img, name, &s->sec, &s->size, err) < 0)
		return -1;
	return s->sec && dwarf_is_relocated(img, s->sec) ? section_load(s, true, err) : 0;
}

void dwarf_section_close(struct dwarf_section *s)
{
	stream_close(s->stream);
	buf_done(&s->room);
	arena_done(&s->arena);
	*s = (struct dwarf_section){ 0 };
}

/* Whether all of [off, off + n) is held. */
static bool section_held(const struct dwarf_section *s, uint64_t off, size_t n, struct bytes *ret)
{
	if (off < s->held_off || off - s->held_off > s->held.size || n > s->held.size - (off - s->held_off))
		return false;
	*ret = bytes_of(s->held.p + (off - s->held_off), n);
	return true;
}

static size_t section_cut(const struct dwarf_section *s, uint64_t off, size_t n)
{
	return off < s->size ? (size_t)MIN((uint64_t)n, s->size - off) : 0;
}

static int section_stream_read(struct dwarf_section *s, uint64_t skip, void *buf, size_t n, struct err *err)
{
	if (!s->stream && elf_section_stream(s->img, s->sec, &s->stream, err) < 0)
		return -1;
	if (skip && stream_skip(s->stream, skip, err) < 0)
		return -1;
	return stream_read_full(s->stream, buf, n, err);
}

int dwarf_section_next(struct dwarf_section *s, uint64_t off, size_t n, struct bytes *ret, struct err *err)
{
	uint64_t end = s->held_off + s->room.size;
	size_t keep, more;

	n = section_cut(s, off, n);
	if (!n) {
		*ret = (struct bytes){ 0 };
		return 0;
	}
	if (section_held(s, off, n, ret))
		return 0;
	keep = off < end ? (size_t)(end - off) : 0;
	more = n - keep;
	if (keep)
		memmove(s->room.p, s->room.p + (s->room.size - keep), keep);
	s->room.size = keep;
	s->held_off = off;
	if (section_stream_read(s, off > end ? off - end : 0, buf_reserve(&s->room, more), more, err) < 0) {
		s->held = (struct bytes){ 0 };
		s->size = off; /* nothing more will come */
		return -1;
	}
	s->room.size += more;
	s->held = buf_bytes(&s->room);
	*ret = s->held;
	return 0;
}

int dwarf_section_at(struct dwarf_section *s, uint64_t off, size_t n, struct bytes *ret, struct err *err)
{
	uint64_t from, file_off, file_size;

	n = section_cut(s, off, n);
	if (!n) {
		*ret = (struct bytes){ 0 };
		return 0;
	}
	if (section_held(s, off, n, ret))
		return 0;
	if (dwarf_is_compressed(s->sec) || s->size <= WHOLE_SIZE) {
		if (section_load(s, false, err) < 0)
			return -1;
	} else {
		if (elf_section_range(s->img, s->sec, &file_off, &file_size, err) < 0)
			return -1;
		from = off & ~(uint64_t)(KIB(4) - 1);
		s->room.size = 0;
		s->held = (struct bytes){ 0 };
		n += (size_t)(off - from);
		n = section_cut(s, from, MAX(n, WINDOW_SIZE));
		if (source_read_full(s->img->src, file_off + from, buf_reserve(&s->room, n), n, SOURCE_RANDOM,
				     err) < 0)
			return -1;
		s->room.size = n;
		s->held = buf_bytes(&s->room);
		s->held_off = from;
		n -= (size_t)(off - from);
	}
	*ret = bytes_of(s->held.p + (off - s->held_off), n);
	return 0;
}

int dwarf_section_str(struct dwarf_section *s, uint64_t off, struct str *ret, struct err *err)
{
	size_t n = 256;

	if (off >= s->size)
		return err_set(err, ERR_INVALID, "no string at %llu: the section has %llu bytes",
			       (unsigned long long)off, (unsigned long long)s->size);
	for (;;) {
		struct bytes b;
		const uint8_t *nul;

		if (dwarf_section_at(s, off, n, &b, err) < 0)
			return -1;
		nul = memchr(b.p, 0, b.size);
		if (nul) {
			*ret = (struct str){ (const char *)b.p, (size_t)(nul - b.p) };
			return 0;
		}
		if (b.size < n || n >= DWARF_MAX_NAME)
			return err_set(err, ERR_INVALID, "string at %llu has no end within %zu bytes",
				       (unsigned long long)off, b.size);
		n = MIN(n * 8, DWARF_MAX_NAME);
	}
}
