/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files that a line table lists (section 6.2.4.1), by number. Only the offsets of their entries are kept: rows
 * refer to few of the files of a large table, and a name is read when it is asked for.
 */
#include "dwarf/code.h"

/* Index the files that can be skipped without being read. */
static void files_pass(struct dwarf_reader *r)
{
	struct dwarf_line_header *h = &r->line_header;
	const uint8_t *p = h->files.p, *next, *end = h->files.end;
	struct dwarf_line_skip skip;

	if (!dwarf_line_skip_plan(h, &skip))
		return;
	for (; h->n_files_left && (size_t)(end - p) > skip.before; p = next, h->n_files_left--) {
		next = p + skip.before;
		if (skip.has_number)
			leb_u(&next, end);
		if (next > end || (size_t)(end - next) < skip.after)
			break;
		next += skip.after;
		READER_GROW(r, r->file_offs, r->n_files, r->room_files);
		r->file_offs[r->n_files++] = (uint32_t)(p - r->files.p);
	}
	h->files.p = p;
}

int dwarf_reader_index_files(struct dwarf_reader *r, struct err *err)
{
	struct dwarf_line_header *h = &r->line_header;
	struct dwarf_line_file ignored;
	int rc;

	r->n_files = 0;
	r->files = h->files;
	files_pass(r);
	for (;;) {
		const uint8_t *at = h->files.p;

		rc = dwarf_line_file_next(h, &ignored, err);
		if (rc)
			return rc < 0 ? -1 : 0;
		READER_GROW(r, r->file_offs, r->n_files, r->room_files);
		r->file_offs[r->n_files++] = (uint32_t)(at - r->files.p);
	}
}

/* The entry of a file; false: there is none. */
static bool file_entry(const struct dwarf_reader *r, uint64_t file, struct dwarf_line_file *ret)
{
	const struct dwarf_line_header *h = &r->line_header;
	struct cursor at = r->files;
	struct err err = { 0 };

	if (!r->lines_cu->has_lines || (h->format.version < 5 && !file--) || file >= r->n_files)
		return false;
	if (r->file_offs[file] > cursor_left(&at))
		at.end = r->lines_end; /* an entry that the program defined */
	cursor_skip(&at, r->file_offs[file]);
	return dwarf_line_file_read(h, &at, ret, &err) == 0;
}

/* Directory 0 of DWARF 5 is the compilation's own, so it is not below comp_dir, which is the same one. They are relative
 * after -ffile-prefix-map=$PWD=. */
static bool is_in_comp_dir(const struct dwarf_line_header *h, const struct dwarf_line_file *entry)
{
	return h->format.version >= 5 && !entry->dir;
}

/* Whether the table should have the file. Rows begin with file 1, also where the only one of DWARF 5 is file 0. */
static bool file_is_lacking(const struct dwarf_reader *r, uint64_t file)
{
	if (!r->lines_cu->has_lines || r->table_err.kind)
		return false;
	return r->line_header.format.version >= 5 ? file >= r->n_files && file != 1 : file > r->n_files;
}

bool dwarf_reader_file(struct dwarf_reader *r, uint64_t file, struct dwarf_file_name *ret)
{
	const struct dwarf_line_header *h = &r->line_header;
	struct dwarf_line_file entry;
	bool stable, missing;

	*ret = (struct dwarf_file_name){ .stable = true };
	if (file_is_lacking(r, file))
		dwarf_reader_lose(r, "line table at %llu: no file %llu", (unsigned long long)r->lines.table,
				  (unsigned long long)file);
	if (!file_entry(r, file, &entry))
		return false;
	if (!dwarf_cu_string(r->lines_cu, &entry.name, &ret->name, &stable, &missing)) {
		dwarf_reader_lose(r, "line table at %llu: the name of file %llu cannot be read",
				  (unsigned long long)r->lines.table, (unsigned long long)file);
		return false;
	}
	if (!ret->name.size)
		return false;
	ret->stable &= stable;
	if (entry.dir < h->n_dirs &&
	    dwarf_cu_string(r->lines_cu, &h->dirs[entry.dir], &ret->dir, &stable, &missing))
		ret->stable &= stable;
	if (is_in_comp_dir(h, &entry) && ret->dir.size)
		return true;
	if (dwarf_cu_string(r->lines_cu, &r->lines_cu->comp_dir, &ret->comp_dir, &stable, &missing))
		ret->stable &= stable;
	return true;
}

/* Offsets fit into 32 bits: DWARF_MAX_SECTION. */
static bool string_key(const struct dwarf_value *v, uint32_t *ret, uint32_t *sections)
{
	*sections = *sections << 2 | (v->class == DWARF_LINE_STRP ? 1 : v->class == DWARF_STRP ? 2 : 0);
	*ret = v->class == DWARF_NONE ? 0 : (uint32_t)v->number;
	return v->class == DWARF_NONE || (*sections & 3 && v->number < UINT32_MAX);
}

bool dwarf_reader_file_key(struct dwarf_reader *r, uint64_t file, struct dwarf_file_key *ret)
{
	const struct dwarf_line_header *h = &r->line_header;
	static const struct dwarf_value none;
	struct dwarf_line_file entry;

	ret->sections = 0;
	if (!file_entry(r, file, &entry))
		return false;
	ret->sections = is_in_comp_dir(h, &entry); /* another directory may have the same name */
	return string_key(&entry.name, &ret->name, &ret->sections) &&
	       string_key(entry.dir < h->n_dirs ? &h->dirs[entry.dir] : &none, &ret->dir, &ret->sections) &&
	       string_key(&r->lines_cu->comp_dir, &ret->comp_dir, &ret->sections);
}
