/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Find Go's table and the addresses that it counts from.
 *
 * Since Go 1.18 functions have offsets from the start of Go's code. The table's header has that start up to
 * Go 1.25; the runtime's description of the module (moduledata) always has it, and the start of the trees of
 * calls. In a file that has lost both, the entry point of the program tells it, for that is a function of the
 * table. The section .text starts with Go's code only if no C compiler had a part in it.
 */
#include "symtab/go.h"

#include <elf.h>

#define HEAD_MIN     64u
#define ENTRY_NAMES  16u /* names of entry points that are compared */
#define TEXT_PADDING 64u /* linkers align the end of code to this at most */

/*
 * The numbers of the words of moduledata that have the start of the code and of all trees. Since Go 1.27 the latter
 * has moved: after the start of the types come the length of their descriptors, their end, and two lengths.
 */
enum {
	MODULE_TEXT = 22,
	MODULE_TYPES = 37,
	MODULE_TREES_18 = 38,
	MODULE_TREES_20 = 40,
	MODULE_TREES_27 = 43
};

int go_head_read(struct go *g, struct err *err)
{
	struct cursor c = go_at(g, 0);
	uint32_t magic = cursor_u32(&c);

	cursor_skip(&c, 2);
	g->quantum = cursor_u8(&c);
	g->ptr = cursor_u8(&c);
	g->layout = magic == 0xfffffffb   ? GO_2
		    : magic == 0xfffffffa ? GO_16
		    : magic == 0xfffffff0 ? GO_18
					  : GO_20;
	if (!cursor_ok(&c) || (g->layout == GO_20 && magic != 0xfffffff1) || (g->ptr != 4 && g->ptr != 8) ||
	    (g->quantum != 1 && g->quantum != 2 && g->quantum != 4))
		return err_set(err, ERR_INVALID, "unknown layout %08x", magic);
	g->n_funcs = cursor_uint(&c, g->ptr);
	if (g->layout == GO_2) {
		struct cursor end;

		g->funcs = cursor_off(&c);
		end = go_at(g, g->funcs + g->n_funcs * 2 * g->ptr + g->ptr);
		g->files = cursor_u32(&end);
		c.failed |= end.failed;
	} else {
		cursor_uint(&c, g->ptr); /* number of files */
		g->text = g->layout >= GO_18 ? cursor_uint(&c, g->ptr) : 0;
		g->names = cursor_uint(&c, g->ptr);
		g->units = cursor_uint(&c, g->ptr);
		g->files = cursor_uint(&c, g->ptr);
		g->programs = cursor_uint(&c, g->ptr);
		g->funcs = cursor_uint(&c, g->ptr);
	}
	if (!cursor_ok(&c))
		return cursor_err(&c, "header", err);
	/* Each function has a row of two numbers. */
	if (g->n_funcs > GO_FUNCS_MAX || g->n_funcs > g->table.size / 8 || g->names > g->table.size ||
	    g->units > g->table.size || g->files > g->table.size || g->programs > g->table.size ||
	    g->funcs > g->table.size)
		return err_set(err, ERR_INVALID, "damaged header");
	g->text_told = g->text || g->layout < GO_18;
	return 0;
}

/* ---- the table ---- */

/* Whether the part has the table's first bytes at @off, and the rest of the part may be the table. */
static bool table_starts(struct go *g, struct bytes part, size_t off)
{
	struct cursor c = cursor_at(bytes_of(part.p + off, part.size - off), g->big, 0);
	uint32_t magic = cursor_u32(&c);
	struct err ignored = { 0 };
	uint64_t first, last, at;

	if ((magic < 0xfffffffa || magic > 0xfffffffb) && magic != 0xfffffff0 && magic != 0xfffffff1)
		return false;
	if (cursor_u16(&c))
		return false;
	g->table = bytes_of(part.p + off, part.size - off);
	if (go_head_read(g, &ignored) < 0 || !g->n_funcs || g->ptr != (g->img->h.is64 ? 8 : 4))
		return false;
	first = go_func_at(g, 0, &at);
	last = go_func_at(g, g->n_funcs, &at);
	return first < last;
}

/* Whether a section has a name that only Go's linker gives; a C linker keeps it. */
static bool has_go_section(const struct elf_image *img)
{
	return elf_section_find(img, ".go.buildinfo") || elf_section_find(img, ".note.go.buildid");
}

/*
 * Without sections nothing names the table, and a C linker merges it into .data.rel.ro. So all bytes of data are
 * searched for one.
 */
static int table_scan(struct go *g, struct err *err)
{
	struct go_part part;

	for (uint32_t i = 0; go_part_at(g, i, &part); i++) {
		AUTO(arena_done) struct arena a = { .hold = g->memory };
		struct bytes b;
		bool found = false;
		size_t off = 0;
		int r;

		if (part.size < HEAD_MIN || part.size > GO_DATA_MAX || (part.section && part.code))
			continue;
		r = go_part_read(g, &part, &a, &b, err);
		if (r < 0)
			return -1;
		for (; r == 0 && off + HEAD_MIN <= b.size; off += 4) {
			found = b.p[off + (g->big ? 0 : 3)] == 0xff && table_starts(g, b, off);
			if (found)
				break;
		}
		g->table = (struct bytes){ 0 };
		if (!found)
			continue;
		g->addr = part.addr + off;
		/* Names are views of the table. */
		r = go_part_read(g, &part, g->kept, &b, err);
		if (r == 0)
			g->table = bytes_of(b.p + off, b.size - off);
		return r;
	}
	return GO_NONE;
}

static const struct elf_section *table_section(const struct elf_image *img)
{
	const struct elf_section *sec = elf_section_find(img, ".gopclntab");

	return sec ? sec : elf_section_find(img, ".data.rel.ro.gopclntab");
}

/*
 * Go's linker writes .debug_gdb_scripts beside its DWARF. Without that section the DWARF is of C alone: with `-ldflags=-w`
 * the units of a C compiler remain. Rust's section of that name is part of the program's memory.
 */
static bool has_go_dwarf(const struct elf_image *img)
{
	const struct elf_section *scripts = elf_debug_section(img, ".debug_gdb_scripts");

	return elf_debug_section(img, ".debug_info") && scripts && !(scripts->flags & SHF_ALLOC);
}

bool go_in_program(const struct elf_image *img)
{
	const struct elf_section *sec = table_section(img);

	if (!sec)
		sec = elf_section_find(img, ".go.buildinfo");
	return sec && sec->type == SHT_NOBITS && !has_go_dwarf(img);
}

int go_table_find(struct go *g, struct err *err)
{
	const struct elf_section *sec = table_section(g->img);
	struct go_part part = { .section = sec };

	if (g->img->h.type == ET_REL || (!sec && g->img->n_sections > 1 && !has_go_section(g->img)))
		return GO_NONE;
	if (go_relocs_read(g, err) < 0)
		return -1;
	if (!sec)
		return table_scan(g, err);
	part.addr = g->addr = sec->addr;
	/* Names are views of the table. */
	return go_part_read(g, &part, g->kept, &g->table, err);
}

/* ---- addresses ---- */

/* moduledata starts with the table's address and the slice of the functions' names. */
static bool is_moduledata(const struct go *g, struct cursor c)
{
	uint64_t size;

	if (cursor_left(&c) < (MODULE_TREES_20 + 1) * (uint64_t)g->ptr ||
	    cursor_uint(&c, g->ptr) != g->addr || cursor_uint(&c, g->ptr) != g->addr + g->names)
		return false;
	size = cursor_uint(&c, g->ptr);
	return size == cursor_uint(&c, g->ptr) && size <= g->table.size;
}

static uint64_t module_word(const struct go *g, struct cursor c, unsigned word)
{
	cursor_skip(&c, (uint64_t)word * g->ptr);
	return cursor_uint(&c, g->ptr);
}

/* The magic is the same since Go 1.20. Before Go 1.27 the word after the types' start is their end. */
static unsigned trees_word(const struct go *g, struct cursor c)
{
	uint64_t types = module_word(g, c, MODULE_TYPES), size = module_word(g, c, MODULE_TYPES + 1),
		 end = module_word(g, c, MODULE_TYPES + 2), interfaces = module_word(g, c, MODULE_TYPES + 3);

	if (g->layout == GO_18)
		return MODULE_TREES_18;
	return types <= end && size <= end - types && interfaces <= end - types ? MODULE_TREES_27
										: MODULE_TREES_20;
}

/* Read the start of the code and of the trees from moduledata. False: it is not in these bytes. */
static bool module_scan(struct go *g, struct bytes b)
{
	for (size_t off = 0; off + g->ptr <= b.size; off += g->ptr) {
		struct cursor c = cursor_at(bytes_of(b.p + off, b.size - off), g->big, 0);

		if (!is_moduledata(g, c))
			continue;
		g->trees = module_word(g, c, trees_word(g, c));
		if (!g->text_told) {
			g->text = module_word(g, c, MODULE_TEXT);
			g->text_told = g->text != 0;
		}
		return true;
	}
	return false;
}

static int module_find(struct go *g, struct err *err)
{
	struct go_part part;

	for (uint32_t i = 0; g->addr && go_part_at(g, i, &part); i++) {
		AUTO(arena_done) struct arena a = { .hold = g->memory };
		struct bytes b;
		int r;

		if (!part.size || part.code || (!part.writable && !str_eq(part.name, STR(".go.module"))))
			continue;
		r = go_part_read(g, &part, &a, &b, err);
		if (r < 0)
			return -1;
		if (r == 0 && module_scan(g, b))
			return 0;
	}
	return 0;
}

/* The program's entry point is Go's function _rt0_ARCHITECTURE_SYSTEM unless C's startup code was linked in. */
static bool text_of_entry(struct go *g, const struct elf_section *text)
{
	uint64_t last, end = go_func_at(g, g->n_funcs, &last);
	unsigned n = 0;

	for (uint64_t i = 0; i < g->n_funcs && n < ENTRY_NAMES; i++) {
		uint64_t off, pc = go_func_at(g, i, &off);
		struct cursor c = go_at(g, off);
		struct str name;

		cursor_skip(&c, 4);
		c = go_at(g, g->names + cursor_u32(&c));
		if (cursor_left(&c) < 5 || memcmp(c.p, "_rt0_", 5))
			continue;
		n++;
		name = go_string(g, cursor_off(&c));
		/* All systems share _rt0_ARCHITECTURE; the one of a library is not the entry point. */
		if (name.size < 5 || str_ends(name, STR("_lib")) || !memchr(name.p + 5, '_', name.size - 5))
			continue;
		pc = g->img->h.entry - pc;
		if (pc > g->img->h.entry || (text && (pc < text->addr || pc - text->addr > text->size ||
						      end > text->size - (pc - text->addr))))
			return false;
		g->text = pc;
		return true;
	}
	return false;
}

int go_places_find(struct go *g, struct err *err)
{
	const struct elf_section *text = elf_section_find(g->img, ".text");
	uint64_t off, end;

	if (g->layout < GO_18)
		return 0;
	if (module_find(g, err) < 0)
		return -1;
	if (g->text_told || text_of_entry(g, text))
		return 0;
	end = go_func_at(g, g->n_funcs, &off);
	if (text && text->size >= end && text->size - end < TEXT_PADDING) {
		g->text = text->addr;
		return 0;
	}
	return err_set(
		err, ERR_INVALID,
		"the address of Go's code is in .go.module or .noptrdata, which the file does not have");
}
