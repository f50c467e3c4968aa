/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Relocations of debug sections in relocatable files: object files, and kernel modules, which stay
 * relocatable for ever.
 *
 * Debug sections refer to one another by offsets, which in such files are relocations against a section's
 * symbol. There are three formats: REL, RELA, and CREL, which LLVM 19 writes if it is asked to (--crel): a stream of
 * differences in LEB128. reloc_kinds.c has the kinds. Entries of an unknown kind are counted.
 */
#include "base/leb.h"
#include "dwarf/internal.h"

#include <elf.h>

#define SYMTAB_MAX MIB(256)
#define CHUNK_SIZE KIB(48) /* a multiple of every entry size */
#define CREL_MAX   MIB(256)
/* Sections of relocations of one section, each of which reads the symbol table again. Assemblers write one. */
#define RELOC_SECTIONS_MAX 4u

#define CREL_ADDENDS 4u /* in the head: entries have addends */

struct reloc_job {
	const struct elf_image *img;
	uint8_t *p; /* the content to be relocated */
	size_t size;
	bool rela; /* the addends are in the entries */
	struct bytes symtab,
		shndx;         /* shndx: the section numbers that do not fit into symbols; may be empty */
	const uint64_t *bases; /* of the image's sections; NULL: all 0 */
	struct reloc_unknown *unknown;
	bool *names_code;
};

struct reloc_entry {
	uint64_t off, addend;
	uint32_t symbol, type;
};

/* Entries of kinds that are not known. */
struct reloc_unknown {
	uint64_t n;
	uint32_t first; /* the kind of the first one */
};

/* Split an entry's info into its symbol and its kind. */
static void reloc_info_split(const struct elf_image *img, uint64_t info, uint32_t *ret_symbol,
			     uint32_t *ret_type)
{
	if (!img->h.is64) {
		*ret_symbol = (uint32_t)(info >> 8);
		*ret_type = info & 0xff;
	} else if (img->h.machine == EM_MIPS) {
		/* Three kinds in a byte each, the first one last; the symbol comes before them in either byte
		 * order. */
		*ret_symbol = (uint32_t)(img->h.big ? info >> 32 : info);
		*ret_type = (uint32_t)(img->h.big ? info & 0xff : info >> 56);
	} else {
		*ret_symbol = (uint32_t)(info >> 32);
		*ret_type = (uint32_t)info;
	}
}

/* The number of a symbol's section. *ret_known is false if it is in none: SHN_ABS and the like. */
static uint32_t reloc_symbol_section(const struct reloc_job *j, uint32_t index, bool *ret_known)
{
	struct cursor c = cursor_at(j->symtab, j->img->h.big, 0);
	uint32_t section;

	*ret_known = cursor_seek(&c, j->img->h.is64 ? (uint64_t)index * 24 + 6 : (uint64_t)index * 16 + 14);
	section = cursor_u16(&c);
	if (section == SHN_XINDEX) {
		c = cursor_at(j->shndx, j->img->h.big, 0);
		*ret_known &= cursor_seek(&c, (uint64_t)index * 4);
		section = cursor_u32(&c);
	} else if (section >= SHN_LORESERVE) {
		*ret_known = false;
	}
	*ret_known &= cursor_ok(&c) && section < j->img->n_sections;
	return section;
}

static uint64_t reloc_symbol_value(const struct reloc_job *j, uint32_t index)
{
	unsigned entry = j->img->h.is64 ? 24 : 16, at = j->img->h.is64 ? 8 : 4;
	struct cursor c = cursor_at(j->symtab, j->img->h.big, 0);

	uint64_t value;
	uint32_t section;
	bool known;

	if (!cursor_seek(&c, (uint64_t)index * entry + at))
		return 0;
	value = cursor_uint(&c, j->img->h.is64 ? 8 : 4);
	if (j->bases) {
		section = reloc_symbol_section(j, index, &known);
		value += known ? j->bases[section] : 0;
		*j->names_code |= known && j->bases[section];
	}
	return value;
}

static void reloc_put(uint8_t *p, uint64_t v, unsigned size, bool big)
{
	for (unsigned i = 0; i < size; i++)
		p[big ? size - 1 - i : i] = (uint8_t)(v >> 8 * i);
}

static uint64_t reloc_get(const uint8_t *p, unsigned size, bool big)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < size; i++)
		v |= (uint64_t)p[big ? size - 1 - i : i] << 8 * i;
	return v;
}

/* Set the LEB128 at @off to @v, or add @v to it, without changing its size. */
static void reloc_apply_leb(const struct reloc_job *j, uint64_t off, uint64_t v, bool add)
{
	size_t n = 0;
	uint64_t there = 0;

	for (bool more = true; more; n++) {
		if (n == LEB_MAX || n == j->size - off)
			return;
		there |= (uint64_t)(j->p[off + n] & 0x7f) << 7 * n;
		more = j->p[off + n] & 0x80;
	}
	v = add ? there + v : v;
	for (size_t i = 0; i < n; i++, v >>= 7)
		j->p[off + i] = (uint8_t)((v & 0x7f) | (i + 1 < n ? 0x80 : 0));
}

/* Apply one entry. An entry that points outside of the section changes nothing. */
static void reloc_apply(const struct reloc_job *j, const struct reloc_entry *e)
{
	const struct dwarf_reloc_kind *k = dwarf_reloc_kind_find(j->img->h.machine, e->type);
	bool big = j->img->h.big;
	uint64_t v, there;

	if (!k && !j->unknown->n++)
		j->unknown->first = e->type;
	if (!k || k->op == DWARF_RELOC_NONE || e->off > j->size || k->size > j->size - e->off)
		return;
	there = reloc_get(j->p + e->off, k->size, big);
	v = reloc_symbol_value(j, e->symbol) + e->addend;
	switch (k->op) {
	case DWARF_RELOC_SET_LEB:
		reloc_apply_leb(j, e->off, v, false);
		return;
	case DWARF_RELOC_ADD_LEB:
		reloc_apply_leb(j, e->off, v, true);
		return;
	case DWARF_RELOC_SUB_LEB:
		reloc_apply_leb(j, e->off, -v, true);
		return;
	case DWARF_RELOC_ADD:
		v = there + v;
		break;
	case DWARF_RELOC_SUB:
		v = there - v;
		break;
	default:
		v += j->rela ? 0 : there;
	}
	reloc_put(j->p + e->off, v, k->size, big);
}

/* Read the symbols in section @symtab, and their section numbers. */
static int reloc_symbols_read(struct reloc_job *j, uint32_t symtab, struct arena *a, struct err *err)
{
	const struct elf_section *shndx = elf_section_shndx(j->img, symtab);

	if (elf_section_read(j->img, &j->img->sections[symtab], SYMTAB_MAX, a, &j->symtab, err) < 0)
		return -1;
	return shndx && elf_section_read(j->img, shndx, SYMTAB_MAX, a, &j->shndx, err) < 0 ? -1 : 0;
}

/* An entry of REL or RELA. */
static struct reloc_entry reloc_entry_read(const struct reloc_job *j, struct cursor *c)
{
	unsigned word = j->img->h.is64 ? 8 : 4;
	struct reloc_entry e = { .off = cursor_uint(c, word) };

	reloc_info_split(j->img, cursor_uint(c, word), &e.symbol, &e.type);
	e.addend = j->rela ? cursor_uint(c, word) : 0;
	return e;
}

static int reloc_apply_section(struct reloc_job *j, const struct elf_section *rel, struct err *err)
{
	unsigned word = j->img->h.is64 ? 8 : 4, entry = word * (j->rela ? 3 : 2);
	AUTO(stream_closep) struct stream *s = NULL;
	AUTO(mem_freep) uint8_t *chunk = NULL;
	uint64_t left;
	int r = elf_section_content_size(j->img, rel, &left, err);

	if (r == 0)
		r = elf_section_stream(j->img, rel, &s, err);
	if (r)
		return r < 0 ? -1 : 0;
	/* A section that is cut is not applied at all: places without their relocation would be at addresses of other code. */
	if (left % entry)
		return err_set(err, ERR_INVALID, "%llu bytes of relocations are not whole entries of %u",
			       (unsigned long long)left, entry);
	chunk = mem_alloc(CHUNK_SIZE);
	while (left) {
		size_t n = (size_t)MIN(left, (uint64_t)CHUNK_SIZE);
		struct cursor c;

		if (stream_read_full(s, chunk, n, err) < 0)
			return -1;
		left -= n;
		c = cursor_at(bytes_of(chunk, n), j->img->h.big, 0);
		while (cursor_left(&c)) {
			struct reloc_entry e = reloc_entry_read(j, &c);

			reloc_apply(j, &e);
		}
	}
	return 0;
}

/*
 * Apply a section of CREL. A head has the number of entries * 8, a bit for addends, and two bits of the shift of all
 * offsets. An entry begins with two or three flags of its changed fields and the low bits of the step of its offset;
 * the changes of symbol, kind and addend follow.
 */
static int reloc_apply_crel(struct reloc_job *j, const struct elf_section *rel, struct err *err)
{
	AUTO(arena_done) struct arena a = { .hold = j->img->memory };
	struct reloc_entry e = { 0 };
	struct bytes all;
	struct cursor c;
	uint64_t head, off = 0;
	unsigned n_flags;

	if (elf_section_read(j->img, rel, CREL_MAX, &a, &all, err) < 0)
		return -1;
	c = cursor_at(all, j->img->h.big, 0);
	head = cursor_uleb(&c);
	j->rela = head & CREL_ADDENDS;
	n_flags = j->rela ? 3 : 2;
	for (uint64_t n = head / 8; n; n--) {
		uint8_t first = cursor_u8(&c);

		off += first >> n_flags;
		if (first & 0x80)
			off += (cursor_uleb(&c) << (7 - n_flags)) - (0x80u >> n_flags);
		if (first & 1)
			e.symbol += (uint32_t)cursor_sleb(&c);
		if (first & 2)
			e.type += (uint32_t)cursor_sleb(&c);
		if (j->rela && first & 4)
			e.addend += (uint64_t)cursor_sleb(&c);
		/* Each entry takes a byte at least, so a count that lies ends here. */
		if (!cursor_ok(&c))
			return cursor_err(&c, "CREL", err);
		e.off = off << (head & 3);
		reloc_apply(j, &e);
	}
	return 0;
}

bool dwarf_is_reloc_section(const struct elf_section *sec)
{
	return elf_is_reloc_type(sec->type);
}

int dwarf_relocate(const struct elf_image *img, struct dwarf_relocated *what, struct err *err)
{
	AUTO(mem_freep) uint64_t *bases = NULL;
	const struct dwarf_code_list *code = what->code;
	struct reloc_unknown unknown = { 0 };
	unsigned n = 0;

	if (code && code->n)
		bases = dwarf_code_bases(img, code->list, code->n);
	for (uint32_t i = 1; i < img->n_sections; i++) {
		const struct elf_section *rel = &img->sections[i];
		struct reloc_job j = { .img = img,
				       .p = what->p,
				       .size = what->size,
				       .rela = rel->type == SHT_RELA,
				       .bases = bases,
				       .unknown = &unknown,
				       .names_code = &what->names_code };
		AUTO(arena_done) struct arena a = { .hold = img->memory };
		bool is_crel = rel->type == ELF_SHT_CREL;

		if (!dwarf_is_reloc_section(rel) || rel->info != what->sec->index)
			continue;
		if (++n > RELOC_SECTIONS_MAX)
			return err_set(err, ERR_LIMIT, "more than the %u sections of relocations allowed",
				       RELOC_SECTIONS_MAX);
		/* Without relocations the section would name wrong files and functions. */
		if (!dwarf_reloc_machine_known(img->h.machine))
			return err_set(err, ERR_INVALID, "relocations of machine %u are not known",
				       img->h.machine);
		/* Without symbols only the addends are used; for section symbols they are enough. */
		if (rel->link >= img->n_sections)
			return err_set(err, ERR_INVALID,
				       "the symbols of its relocations are in section %u of %u", rel->link,
				       img->n_sections);
		if (rel->link && reloc_symbols_read(&j, rel->link, &a, err) < 0)
			return -1;
		if ((is_crel ? reloc_apply_crel : reloc_apply_section)(&j, rel, err) < 0)
			return -1;
	}
	if (unknown.n)
		(void)err_set(
			&what->unknown, ERR_INVALID,
			"%llu relocations left out, the first of kind %u, which is not known for machine %u",
			(unsigned long long)unknown.n, unknown.first, img->h.machine);
	return 0;
}
