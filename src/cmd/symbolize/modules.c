/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The modules of a process, of the kernel, of crash text: each is opened once, when the first address is in
 * it.
 */
#include <stdlib.h>
#include "cmd/symbolize/symbolize.h"

void modules_init(struct modules *m, struct settings *s)
{
	*m = (struct modules){ .s = s, .places = lookup_options_of(s) };
}

void modules_done(struct modules *m)
{
	for (size_t i = 0; i < m->n; i++) {
		lookup_file_done(&m->list[i]->file);
		map_done(&m->list[i]->symbols);
		map_done(&m->list[i]->sizes);
		free(m->list[i]->maps);
		free(m->list[i]->name);
		free(m->list[i]->path);
		free(m->list[i]);
	}
	free(m->list);
	map_done(&m->by_name);
}

/* @more: the rest of the key. */
static struct module *modules_get_by(struct modules *m, struct str name, struct bytes more)
{
	AUTO(buf_done) struct buf key = { 0 };
	struct module *one;

	buf_add_str(&key, name);
	buf_add_char(&key, '\0');
	if (more.size)
		buf_add(&key, more.p, more.size);
	one = map_get(&m->by_name, buf_bytes(&key));
	if (one || m->n >= MODULES_MAX)
		return one;
	one = NEW(struct module);
	one->name = mem_strndup(name.p, name.size);
	/* glibc and sanitizers have a program's path as it was started: "./test". Names of kernel modules have no slash. */
	if (name.size && memchr(name.p, '/', name.size))
		one->path = mem_strndup(name.p, name.size);
	map_put(&m->by_name, buf_bytes(&key), one);
	VEC_PUSH(m->list, m->n, m->room) = one;
	return one;
}

struct module *modules_get(struct modules *m, struct str name, const struct build_id *id)
{
	struct module *one = modules_get_by(m, name, id ? build_id_bytes(id) : (struct bytes){ 0 });

	if (one && id)
		one->id = *id;
	return one;
}

struct module *modules_get_mapped(struct modules *m, struct str path, struct bytes inode)
{
	return modules_get_by(m, path, inode);
}

void module_add_map(struct module *m, const struct frame_mapping *map)
{
	VEC_PUSH(m->maps, m->n_maps, m->room_maps) = *map;
}

/* false: it cannot be opened, which is reported once. */
static bool module_open(struct modules *m, struct module *one)
{
	struct err err = { 0 };

	if (one->tried)
		return one->file.finder != NULL;
	one->tried = true;
	if (one->gone) {
		fprintf(stderr, "lode: symbolize: ");
		print_text(stderr, str_of(one->name));
		fprintf(stderr, ": was replaced or deleted since the process mapped it; only root can read "
				"the mapped file\n");
		return false;
	}
	if (lookup_open_module(&one->file, &m->places, one->path, &one->id, &err) < 0) {
		one->closed = one->file.no_debug == FRAME_FOUND ? FRAME_DAMAGED : one->file.no_debug;
		lookup_file_done(&one->file);
		if (m->verbose || m->s->verbose) {
			fprintf(stderr, "lode: symbolize: ");
			print_text(stderr, str_of(one->name));
			fprintf(stderr, ": ");
			print_text(stderr, str_of(err.text));
			fprintf(stderr, "\n");
		}
		return false;
	}
	/* The layout of the program, if it is here: offsets in a debug file have no meaning. */
	frame_layout_of(one->file.img, &one->layout);
	return true;
}

static bool module_look_up(struct modules *m, struct module *one, uint64_t addr, bool is_return,
			   struct symtab_frames *ret)
{
	struct err ignored = { 0 };
	int r = lookup_frames(&one->file, is_return && addr ? addr - 1 : addr, ret, &ignored);

	one->why_not = r == 0  ? FRAME_FOUND
		       : r < 0 ? FRAME_DAMAGED
			       : frame_reason_outside(symtab_info(one->file.table), one->file.no_debug,
						      &one->layout, addr);
	if (r != 0)
		return false;
	if (m->s->symbols.no_inlines)
		symbolize_fold(ret, &one->folded);
	return true;
}

bool module_find(struct modules *m, struct module *one, const struct module_address *a, uint64_t *ret_vaddr,
		 struct symtab_frames *ret)
{
	const struct symtab_info *info;
	uint64_t vaddr = a->addr;

	one->why_not = FRAME_FOUND;
	if (!module_open(m, one)) {
		one->why_not = one->closed;
		return false;
	}
	info = symtab_info(one->file.table);
	if (info->flags & SYMTAB_RELOCATABLE) {
		const struct symtab_section *text = symtab_section(one->file.table, STR(".text"));

		if (one->n_maps && a->kind == FRAME_RUNTIME)
			vaddr = a->addr - one->maps[0].start;
		/* The module's other sections of code are mapped elsewhere, not in the order of the table. */
		if (!text || vaddr - (a->is_return && vaddr) >= text->size) {
			one->why_not = FRAME_OUTSIDE;
			return false;
		}
		vaddr += text->base;
	} else {
		one->why_not = frame_translate(&one->layout, a->kind, one->maps, one->n_maps, a->addr,
					       &vaddr);
		if (one->why_not != FRAME_FOUND)
			return false;
	}
	*ret_vaddr = vaddr;
	if (!module_look_up(m, one, vaddr, a->is_return, ret))
		return false;
	/* Addresses in the result are of the kind of the given one. */
	ret->lo += a->addr - vaddr;
	ret->hi += a->addr - vaddr;
	ret->start += a->addr - vaddr;
	ret->end += a->addr - vaddr;
	return true;
}

/* ---- by name and offset ---- */

#define MAX_SYMBOLS_SIZE MIB(512)
#define PADDING          256u /* after a function */
#define NAME_MAX_SIZE    KIB(16)
#define NAMES_SHARED     8u /* all names together: so many times the section, since one may end another */

static uint64_t symbol_field(const uint8_t *p, unsigned size, bool big)
{
	struct cursor c = cursor_at(bytes_of(p, size), big, 0);

	return cursor_uint(&c, size);
}

static void module_read_symbols(struct module *one, const struct elf_image *img, const char *section)
{
	AUTO(arena_done) struct arena a = { 0 };
	const struct elf_section *sec = elf_section_find(img, section);
	unsigned entry = img->h.is64 ? 24 : 16;
	struct bytes table, names;
	struct err ignored = { 0 };
	uint64_t base = img == one->file.debug ? one->file.moved : 0;
	uint64_t room;

	if (!sec || sec->link >= img->n_sections ||
	    elf_section_read(img, sec, MAX_SYMBOLS_SIZE, &a, &table, &ignored) != 0 ||
	    elf_section_read(img, &img->sections[sec->link], MAX_SYMBOLS_SIZE, &a, &names, &ignored) != 0)
		return;
	room = (uint64_t)names.size * NAMES_SHARED + MIB(1);
	for (size_t off = 0; table.size - off >= entry; off += entry) {
		const uint8_t *p = table.p + off;
		uint32_t name = (uint32_t)symbol_field(p, 4, img->h.big);
		unsigned type = p[img->h.is64 ? 4 : 12] & 15;
		uint64_t value = img->h.is64 ? symbol_field(p + 8, 8, img->h.big)
					     : symbol_field(p + 4, 4, img->h.big);
		uint16_t index = (uint16_t)(img->h.is64 ? symbol_field(p + 6, 2, img->h.big)
							: symbol_field(p + 14, 2, img->h.big));
		struct str text;
		const uint8_t *end;

		if ((type != 2 && type != 0 && type != 10) || !index || name >= names.size)
			continue;
		/* Each name is searched and copied: a damaged table may have millions of long ones in the same bytes. */
		end = memchr(names.p + name, 0, MIN(names.size - name, NAME_MAX_SIZE));
		if (!end || end == names.p + name)
			continue;
		if ((uint64_t)(end - (names.p + name)) > room)
			return;
		room -= (uint64_t)(end - (names.p + name));
		if (img->h.type == 1) {
			const struct symtab_section *of = symtab_section_of_index(one->file.table, index);

			if (!of)
				continue;
			base = of->base;
		}
		text = (struct str){ (const char *)names.p + name, (size_t)(end - (names.p + name)) };
		/* Of several symbols of one name the first counts, as for perf and the kernel. The value is
		 * the address + 1, since 0 is "none". */
		if (!map_get(&one->symbols, bytes_of(text.p, text.size))) {
			uint64_t size = img->h.is64 ? symbol_field(p + 16, 8, img->h.big)
						    : symbol_field(p + 8, 4, img->h.big);

			map_put(&one->symbols, bytes_of(text.p, text.size),
				(void *)(uintptr_t)(base + value + 1));
			if (size)
				map_put(&one->sizes, bytes_of(text.p, text.size), (void *)(uintptr_t)size);
		}
	}
}

bool module_find_symbol(struct modules *m, struct module *one, const struct module_symbol *sym,
			struct symtab_frames *ret)
{
	struct bytes name = bytes_of(sym->name.p, sym->name.size);
	uint64_t off;
	void *at;

	one->why_not = FRAME_FOUND;
	if (!module_open(m, one)) {
		one->why_not = one->closed;
		return false;
	}
	if (!one->read_symbols) {
		one->read_symbols = true;
		module_read_symbols(one, one->file.debug, ".symtab");
		module_read_symbols(one, one->file.img, ".symtab");
		module_read_symbols(one, one->file.img, ".dynsym");
	}
	at = map_get(&one->symbols, name);
	if (!at) {
		/* Debug information would have it; or else the file is of another version. */
		one->why_not = frame_reason_outside(symtab_info(one->file.table), one->file.no_debug, NULL,
						    0);
		if (one->why_not == FRAME_OUTSIDE)
			one->why_not = FRAME_FOUND;
		return false;
	}
	off = sym->off + (uint64_t)(uintptr_t)at - 1;
	if (!module_look_up(m, one, off, sym->is_return, ret))
		return false;
	/* A function of another size is one of another version of the file. The given size includes
	 * padding. */
	at = map_get(&one->sizes, name);
	return !sym->size || !at || sym->size - (uint64_t)(uintptr_t)at < PADDING;
}
