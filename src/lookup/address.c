/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses as people write them, their frames, and whether two files have the same ones.
 */
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include "lookup/lookup.h"

/* Blocks are checked when they are read. An earlier failure, or another process, may have deleted the file. */
static int table_failed(const struct lookup_file *f, struct err *err)
{
	if (f->cached_as && err->kind == ERR_INVALID && (unlink(f->cached_as) == 0 || errno == ENOENT))
		return err_in(err, "%s was damaged and is deleted; run this again to build it anew",
			      f->cached_as);
	return -1;
}

int lookup_frames_by(const struct lookup_file *f, struct symtab_finder *finder, uint64_t addr,
		     struct symtab_frames *ret, struct err *err)
{
	int r = symtab_find(finder, addr - f->moved, ret, err);

	if (r == 0) {
		ret->lo += f->moved;
		ret->hi += f->moved;
		ret->start += f->moved;
		ret->end += f->moved;
	}
	return r < 0 ? table_failed(f, err) : r;
}

int lookup_frames(const struct lookup_file *f, uint64_t addr, struct symtab_frames *ret, struct err *err)
{
	return lookup_frames_by(f, f->finder, addr, ret, err);
}

const struct elf_image *lookup_program(const struct lookup_file *f)
{
	return f->img && f->img != f->debug && !frame_moved(f->img, f->debug) ? f->img : NULL;
}

bool lookup_number(struct str s, uint64_t *ret)
{
	uint64_t v = 0;

	if (str_starts(s, STR("0x")) || str_starts(s, STR("0X"))) {
		s.p += 2;
		s.size -= 2;
	}
	if (!s.size || s.size > 16)
		return false;
	for (size_t i = 0; i < s.size; i++) {
		unsigned c = (unsigned char)s.p[i], d = c - '0' < 10         ? c - '0'
							: (c | 32) - 'a' < 6 ? (c | 32) - 'a' + 10
									     : 16;

		if (d == 16)
			return false;
		v = v << 4 | d;
	}
	*ret = v;
	return true;
}

static int by_address(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

void lookup_only(struct lookup_file *f, const struct str *addresses, size_t n)
{
	if (!n || n > LOOKUP_ONLY_MAX)
		return;
	f->n_only = 0;
	for (size_t i = 0; i < n; i++)
		if (!lookup_number(str_trim(addresses[i]), &f->only[f->n_only++])) {
			f->n_only = 0;
			return;
		}
	qsort(f->only, f->n_only, sizeof(*f->only), by_address);
}

/* Where a section begins: in the table of a relocatable file, else in memory. */
static bool section_place(const struct lookup_file *f, struct str name, uint64_t *ret_base,
			  uint64_t *ret_size)
{
	const struct symtab_section *sec = symtab_section(f->table, name);
	const struct elf_section *own = NULL;
	AUTO(mem_freep) char *text = NULL;

	if (sec) {
		*ret_base = sec->base;
		*ret_size = sec->size;
		return true;
	}
	if (!f->img || (symtab_info(f->table)->flags & SYMTAB_RELOCATABLE))
		return false;
	text = mem_strndup(name.p, name.size);
	own = elf_section_find(f->img, text);
	if (!own || !(own->flags & SHF_ALLOC))
		return false;
	*ret_base = own->addr;
	*ret_size = own->size;
	return true;
}

bool lookup_has_section(const struct lookup_file *f, const char *name)
{
	return symtab_section(f->table, str_of(name)) || !f->img || elf_section_find(f->img, name);
}

bool lookup_address(const struct lookup_file *f, const char *section, struct str text, uint64_t *ret)
{
	uint64_t base, size;
	struct str name = section ? str_of(section) : (struct str){ 0 }, off = text = str_trim(text);
	const char *plus = memrchr(text.p ? text.p : "", '+', text.size);

	if (plus) {
		name = (struct str){ text.p, (size_t)(plus - text.p) };
		off = (struct str){ plus + 1, text.size - name.size - 1 };
		if (name.size > 2 && name.p[0] == '(' && name.p[name.size - 1] == ')')
			name = (struct str){ name.p + 1, name.size - 2 };
	}
	if (!lookup_number(off, ret))
		return false;
	/* In a relocatable file a bare number is an offset in the first section of code. */
	if (!name.size)
		return true;
	if (!section_place(f, name, &base, &size) || *ret >= size)
		return false;
	*ret += base;
	return true;
}
