/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The facts about a file: program, debug information, kernel module, supplementary file, core; and its build
 * ID.
 *
 * They follow from the kinds and names of its sections. Contents are read for two things only, the notes and
 * the few bytes of .debug_sup: this runs for every file, and over members of which most bytes are gone
 * (probe.c).
 */
#include "elf/internal.h"

#include <elf.h>

/* Sums over all sections. */
struct tally {
	bool alloc_progbits; /* bits of code or data to be loaded are in this file */
	bool alloc_bits;     /* any bits to be loaded are in this file, notes apart */
	bool alloc;          /* any section is to be loaded, with bits or not, notes apart */
	bool module_bits;    /* the sections that mark a kernel module, with their contents */
	bool debug, whole_info, symtab, module, debug_link, alt_link, dwarf, lines;
	const struct elf_section *sup;
};

static void tally_add(struct tally *t, const struct elf_section *sec)
{
	static const struct str modinfo = STR(".modinfo"), this_module = STR(".gnu.linkonce.this_module");
	bool has_bits = sec->type != SHT_NOBITS && sec->type != SHT_NULL;
	bool alloc = sec->flags & SHF_ALLOC && sec->type != SHT_NOTE && sec->type != SHT_NULL;
	struct str base;

	t->alloc |= alloc;
	t->alloc_bits |= alloc && has_bits;
	t->alloc_progbits |= alloc && sec->type == SHT_PROGBITS;
	t->symtab |= sec->type == SHT_SYMTAB;
	if (str_eq(sec->name, modinfo) || str_eq(sec->name, this_module)) {
		t->module = true;
		t->module_bits |= has_bits;
	} else if (str_eq(sec->name, STR(".gnu_debuglink"))) {
		t->debug_link = true;
	} else if (str_eq(sec->name, STR(".gnu_debugaltlink"))) {
		t->alt_link = true;
	} else if (elf_section_is_debug(sec, &base)) {
		/* Rust's and Go's programs keep .debug_gdb_scripts when they are stripped: it is loaded, and names scripts. */
		t->debug |= !(sec->flags & SHF_ALLOC) || str_eq(base, STR("info")) ||
			    str_eq(base, STR("line"));
		t->whole_info |= has_bits && str_eq(base, STR("info"));
		t->dwarf |= has_bits && (str_eq(base, STR("info")) || str_eq(base, STR("info.dwo")));
		t->lines |= has_bits && (str_eq(base, STR("line")) || str_eq(base, STR("line.dwo")));
		if (str_eq(base, STR("sup")))
			t->sup = sec;
	}
}

/* The is_supplementary byte of .debug_sup, after a version of two bytes: 1 in a supplementary file, 0 in a
 * file that refers to one. */
static int read_sup(const struct elf_image *img, const struct elf_section *sec, uint32_t *flags,
		    struct err *err)
{
	AUTO(arena_done) struct arena a = { 0 };
	struct bytes b;
	int r = elf_section_head(img, sec, 3, &a, &b, err);

	if (r < 0)
		return err_in(err, ".debug_sup");
	if (r == 0 && b.size == 3 && b.p[2] <= 1)
		*flags |= b.p[2] == 1 ? ELF_IS_DWZ : ELF_HAS_ALT_LINK;
	return 0;
}

static int flags_of_sections(const struct elf_image *img, uint32_t *ret, struct err *err)
{
	bool program = img->h.type == ET_EXEC || img->h.type == ET_DYN;
	struct tally t = { 0 };
	uint32_t flags = 0;

	for (uint32_t i = 1; i < img->n_sections; i++)
		tally_add(&t, &img->sections[i]);
	if (img->h.type == ET_REL && t.module) {
		flags |= ELF_IS_KERNEL_MODULE;
		if (t.module_bits)
			flags |= ELF_IS_EXECUTABLE;
	}
	if (program && t.alloc_progbits)
		flags |= ELF_IS_EXECUTABLE;
	/* A symtab alone is what `strip` leaves in the debug file of a program without debug information. */
	if (t.debug || (t.symtab && !t.alloc_bits))
		flags |= ELF_IS_DEBUG;
	/* .dwo files have no program of their own either, but their sections have other names. */
	if (t.whole_info && !t.alloc && !t.symtab)
		flags |= ELF_IS_DWZ;
	if (t.sup && read_sup(img, t.sup, &flags, err) < 0)
		return -1;
	if (t.alt_link)
		flags |= ELF_HAS_ALT_LINK;
	if (t.debug_link)
		flags |= ELF_HAS_DEBUG_LINK;
	if (t.dwarf)
		flags |= ELF_HAS_DWARF;
	if (t.lines)
		flags |= ELF_HAS_LINES;
	if (t.symtab)
		flags |= ELF_HAS_SYMTAB;
	*ret = flags;
	return 0;
}

/* A program that can run: it has code to be loaded, and all segments to be loaded are within the file. */
static bool segments_are_a_program(const struct elf_image *img)
{
	bool code = false;

	if (img->h.type != ET_EXEC && img->h.type != ET_DYN)
		return false;
	for (uint32_t i = 0; i < img->n_segments; i++) {
		const struct elf_segment *seg = &img->segments[i];

		if (seg->type != PT_LOAD)
			continue;
		if (!elf_range_fits(seg->off, seg->filesz, img->src->size))
			return false;
		code |= seg->flags & PF_X && seg->filesz;
	}
	return code;
}

int elf_facts_of(const struct elf_image *img, struct elf_facts *ret, struct err *err)
{
	struct elf_facts f = { .type = img->h.type, .machine = img->h.machine };
	bool program;

	if (img->n_sections) {
		if (flags_of_sections(img, &f.flags, err) < 0)
			return -1;
	} else {
		program = segments_are_a_program(img);
		if (program)
			f.flags |= ELF_IS_EXECUTABLE;
		/* Half of a debug file must not be taken for a program without section headers. */
		else if (img->sections_err.kind != ERR_NONE && f.type != ET_CORE) {
			if (err)
				*err = img->sections_err;
			return -1;
		}
	}
	if (f.type == ET_REL)
		f.flags |= ELF_IS_RELOCATABLE;
	if (f.type == ET_CORE)
		f.flags |= ELF_IS_CORE;
	if (elf_build_id(img, &f.build_id, err) < 0)
		return -1;
	*ret = f;
	return 0;
}

int elf_facts_read(struct source *src, struct elf_facts *ret, struct err *err)
{
	AUTO(elf_closep) struct elf_image *img = NULL;
	int r = elf_open(src, &img, err);

	return r ? r : elf_facts_of(img, ret, err);
}

static void print_word(struct buf *out, const char *word)
{
	if (out->size)
		buf_add_str(out, STR(", "));
	buf_add_str(out, str_of(word));
}

/* The parenthesis after "debug". */
static void print_debug(uint32_t flags, struct buf *out)
{
	const char *sep = " (";

	print_word(out, "debug");
	for (uint32_t bit = ELF_HAS_DWARF; bit <= ELF_HAS_SYMTAB; bit <<= 1) {
		if (!(flags & bit))
			continue;
		buf_add_str(out, str_of(sep));
		buf_add_str(out, str_of(bit == ELF_HAS_DWARF   ? "DWARF"
					: bit == ELF_HAS_LINES ? "lines"
							       : "symtab"));
		sep = ", ";
	}
	if (*sep == ',')
		buf_add_char(out, ')');
}

void elf_facts_print(const struct elf_facts *f, struct buf *out)
{
	AUTO(buf_done) struct buf words = { 0 };

	if (f->flags & ELF_IS_KERNEL_MODULE)
		print_word(&words, "kernel module");
	else if (f->flags & ELF_IS_EXECUTABLE)
		print_word(&words, f->type == ET_DYN ? "executable or shared object" : "executable");
	else if (f->flags & ELF_IS_CORE)
		print_word(&words, "core dump");
	else if (f->flags & ELF_IS_DWZ)
		print_word(&words, "supplementary (dwz)");
	else if (f->flags & ELF_IS_RELOCATABLE)
		print_word(&words, "relocatable");
	if (f->flags & ELF_IS_DEBUG)
		print_debug(f->flags, &words);
	if (f->flags & ELF_HAS_DEBUG_LINK)
		print_word(&words, "debug link");
	if (f->flags & ELF_HAS_ALT_LINK)
		print_word(&words, "needs a supplementary file");
	print_word(&words, elf_machine_name(f->machine));
	buf_add_str(out, buf_str(&words));
}
