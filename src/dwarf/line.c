/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Headers of line tables (section 6.2.4, also in DWARF 2 to 4): the directories and files that they list. The
 * programs after them are skipped.
 */
#include "dwarf/internal.h"

#define HEADER_MAX MIB(64)

/* The kinds of an entry's content that are read (section 6.2.4.1); others are skipped by their forms. */
enum { LNCT_PATH = 1, LNCT_DIRECTORY_INDEX = 2 };

/* Directories of one table. */
#define DIRS_MAX (1u << 20)

/* The bytes up to header_length at most: version, address and segment sizes, header_length. */
#define START_SIZE 12

int dwarf_line_place(struct dwarf_section *line, uint64_t off, struct dwarf_line_place *ret, struct err *err)
{
	uint8_t offset_size;
	uint64_t length;
	struct bytes b;
	struct cursor c;

	if (dwarf_section_next(line, off, 12, &b, err) < 0)
		return -1;
	c = cursor_at(b, line->img->h.big, off);
	if (!dwarf_length_read(&c, &length, &offset_size) || length > line->size - cursor_off(&c))
		return err_set(err, ERR_INVALID, "ends past the section");
	*ret = (struct dwarf_line_place){ cursor_off(&c), cursor_off(&c) + length, offset_size };
	return 0;
}

static size_t count_strings(struct cursor c)
{
	size_t n = 0;

	while (cursor_cstr(&c).size)
		n++;
	return n;
}

static struct dwarf_value string_here(struct str s)
{
	return (struct dwarf_value){ .class = DWARF_STRING, .bytes = { (const uint8_t *)s.p, s.size } };
}

/* DWARF 2 to 4: strings up to an empty one. */
static int dirs_read_v2(struct cursor *c, struct arena *a, struct dwarf_line_header *h, struct err *err)
{
	size_t n = count_strings(*c);
	struct str s;

	if (n > DIRS_MAX)
		return err_set(err, ERR_INVALID, "%zu directories are more than allowed", n);
	h->dirs = ARENA_NEW_N(a, struct dwarf_value, n + 1);
	h->n_dirs = 1;
	while ((s = cursor_cstr(c)).size)
		h->dirs[h->n_dirs++] = string_here(s);
	return cursor_ok(c) ? 0 : cursor_err(c, "line table header", err);
}

/* Likewise, each with directory, time and length. */
static int file_read_v2(struct cursor *c, struct dwarf_line_file *ret, struct err *err)
{
	struct str s = cursor_cstr(c);

	if (cursor_ok(c) && !s.size)
		return DWARF_LINE_END;
	ret->name = string_here(s);
	ret->dir = dwarf_uleb(c);
	dwarf_uleb(c);
	dwarf_uleb(c);
	return cursor_ok(c) ? 0 : cursor_err(c, "line table header", err);
}

/* DWARF 5: the format of an entry, then the number of entries. */
static int formats_read(struct cursor *c, struct dwarf_entry_format *formats, size_t *ret_n,
			uint64_t *ret_count, struct err *err)
{
	size_t n = cursor_u8(c);
	uint64_t count;

	for (size_t i = 0; i < n; i++) {
		formats[i].content = dwarf_uleb(c);
		formats[i].form = dwarf_uleb(c);
		/* Otherwise an entry of one byte could have 254 more parts, and a header millions of entries. */
		if (formats[i].form == FORM_FLAG_PRESENT || formats[i].form == FORM_IMPLICIT_CONST)
			return err_set(err, ERR_INVALID, "form %llu in an entry is of no size",
				       (unsigned long long)formats[i].form);
	}
	count = dwarf_uleb(c);
	if (!cursor_ok(c))
		return cursor_err(c, "line table header", err);
	/* Each entry takes a byte at least, so the number is limited by the bytes left. */
	if (count > cursor_left(c))
		return err_set(err, ERR_INVALID, "%llu entries in a header with %zu bytes left",
			       (unsigned long long)count, cursor_left(c));
	if (count && !n)
		return err_set(err, ERR_INVALID, "%llu entries without a format", (unsigned long long)count);
	*ret_n = n;
	*ret_count = count;
	return 0;
}

static int line_entry_read(struct cursor *c, const struct dwarf_entry_format *formats, size_t n,
			   const struct dwarf_format *format, struct dwarf_line_file *ret, struct err *err)
{
	const uint8_t *start = c->p;

	*ret = (struct dwarf_line_file){ 0 };
	for (size_t i = 0; i < n; i++) {
		struct dwarf_value v;

		if (!dwarf_form_read(c, formats[i].form, 0, format, &v))
			return err_set(err, ERR_INVALID, "unknown form %llu",
				       (unsigned long long)formats[i].form);
		if (formats[i].content == LNCT_PATH)
			ret->name = v;
		else if (formats[i].content == LNCT_DIRECTORY_INDEX && v.class == DWARF_NUMBER)
			ret->dir = v.number;
	}
	if (!cursor_ok(c))
		return cursor_err(c, "line table header", err);
	if (c->p == start)
		return err_set(err, ERR_INVALID, "entries of no size");
	return 0;
}

static int dirs_read_v5(struct cursor *c, struct arena *a, struct dwarf_line_header *h, struct err *err)
{
	struct dwarf_line_file dir;
	uint64_t count;
	size_t n;

	if (formats_read(c, h->file_formats, &n, &count, err) < 0)
		return -1;
	if (count > DIRS_MAX)
		return err_set(err, ERR_INVALID, "%llu directories are more than allowed",
			       (unsigned long long)count);
	h->dirs = ARENA_NEW_N(a, struct dwarf_value, (size_t)count);
	for (; h->n_dirs < count; h->n_dirs++) {
		if (line_entry_read(c, h->file_formats, n, &h->format, &dir, err) < 0)
			return -1;
		h->dirs[h->n_dirs] = dir.name;
	}
	return formats_read(c, h->file_formats, &h->n_file_formats, &h->n_files_left, err);
}

int dwarf_line_file_read(const struct dwarf_line_header *h, struct cursor *files, struct dwarf_line_file *ret,
			 struct err *err)
{
	if (h->format.version < 5)
		return file_read_v2(files, ret, err);
	return line_entry_read(files, h->file_formats, h->n_file_formats, &h->format, ret, err);
}

int dwarf_line_file_next(struct dwarf_line_header *h, struct dwarf_line_file *ret, struct err *err)
{
	if (h->format.version >= 5) {
		if (!h->n_files_left)
			return DWARF_LINE_END;
		h->n_files_left--;
	}
	return dwarf_line_file_read(h, &h->files, ret, err);
}

bool dwarf_line_skip_plan(const struct dwarf_line_header *h, struct dwarf_line_skip *ret)
{
	size_t i;

	*ret = (struct dwarf_line_skip){ 0 };
	if (h->format.version < 5)
		return false;
	for (i = 0; i < h->n_file_formats; i++) {
		uint64_t form = h->file_formats[i].form;
		unsigned *size = ret->has_number ? &ret->after : &ret->before;

		if (form == FORM_LINE_STRP || form == FORM_STRP)
			*size += h->format.offset_size;
		else if (form == FORM_DATA16)
			*size += 16;
		else if (form == FORM_UDATA && !ret->has_number)
			ret->has_number = true;
		else
			return false;
	}
	return i != 0;
}

/* Parse version, sizes and header_length; *ret_size is the size of the header from its start. */
static int header_start_parse(struct cursor *c, const struct dwarf_line_place *place,
			      struct dwarf_format *ret, uint64_t *ret_size, struct err *err)
{
	struct dwarf_format f = { .offset_size = place->offset_size };
	uint64_t length;

	f.version = cursor_u16(c);
	if (cursor_ok(c) && (f.version < 2 || f.version > 5))
		return err_set(err, ERR_INVALID, "unknown version %u", f.version);
	if (f.version >= 5) {
		f.addr_size = cursor_u8(c);
		cursor_u8(c); /* segment selector size */
	}
	length = cursor_uint(c, f.offset_size);
	if (!cursor_ok(c))
		return cursor_err(c, "line table header", err);
	if (length > place->end - cursor_off(c))
		return err_set(err, ERR_INVALID, "header of %llu bytes ends past the table",
			       (unsigned long long)length);
	if (length > HEADER_MAX)
		return err_set(err, ERR_INVALID, "header of %llu bytes is larger than allowed",
			       (unsigned long long)length);
	*ret = f;
	*ret_size = cursor_off(c) + length - place->header_off;
	return 0;
}

/* Parse the header after header_length. */
static int header_rest_parse(struct cursor *c, struct arena *a, struct dwarf_line_header *ret,
			     struct err *err)
{
	ret->n_dirs = 0;
	ret->min_length = cursor_u8(c);
	ret->max_ops = ret->format.version >= 4 ? cursor_u8(c) : 1;
	cursor_skip(c, 1); /* default_is_stmt */
	ret->line_base = (int8_t)cursor_u8(c);
	ret->line_range = cursor_u8(c);
	ret->opcode_base = cursor_u8(c);
	ret->opcode_lengths = c->p;
	cursor_skip(c, ret->opcode_base ? ret->opcode_base - 1 : 0);
	if (!cursor_ok(c))
		return cursor_err(c, "line table header", err);
	if ((ret->format.version >= 5 ? dirs_read_v5 : dirs_read_v2)(c, a, ret, err) < 0)
		return -1;
	ret->files = *c;
	return 0;
}

int dwarf_line_header_of(struct bytes table, const struct dwarf_line_place *place, bool big, struct arena *a,
			 struct dwarf_line_header *ret, struct err *err)
{
	struct cursor c = cursor_at(table, big, place->header_off);
	uint64_t size;

	if (header_start_parse(&c, place, &ret->format, &size, err) < 0)
		return -1;
	c.end = c.start + size;
	ret->program_off = place->header_off + size;
	return header_rest_parse(&c, a, ret, err);
}

int dwarf_line_header(struct dwarf_section *line, const struct dwarf_line_place *place, struct arena *a,
		      struct dwarf_line_header *ret, struct err *err)
{
	uint64_t size, room = place->end - place->header_off;
	struct bytes b;
	struct cursor c;

	if (dwarf_section_next(line, place->header_off, (size_t)MIN(room, (uint64_t)START_SIZE), &b, err) < 0)
		return -1;
	c = cursor_at(b, line->img->h.big, place->header_off);
	if (header_start_parse(&c, place, &ret->format, &size, err) < 0 ||
	    dwarf_section_next(line, place->header_off, (size_t)size, &b, err) < 0)
		return -1;
	c = cursor_at(b, line->img->h.big, place->header_off);
	cursor_skip(&c, (ret->format.version >= 5 ? 4 : 2) + ret->format.offset_size);
	ret->program_off = place->header_off + size;
	return header_rest_parse(&c, a, ret, err);
}
