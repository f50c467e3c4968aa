/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Relocations of debug sections in relocatable files: object files, and kernel modules, which stay
 * relocatable for ever.
 *
 * Debug sections refer to one another by offsets, which in such files are relocations against a section's
 * symbol. Only two sorts of kinds matter: those that write a word of 4 or 8 bytes, and RISC-V's that write
 * differences, also in LEB128, which keeps its size.
 */
#include "base/leb.h"
#include "dwarf/internal.h"

#include <elf.h>

#define SYMTAB_MAX MIB(256)
#define CHUNK_SIZE KIB(48) /* a multiple of every entry size */

enum op { SET, ADD, SUB, SET_LEB, SUB_LEB };

static const struct reloc_kind {
	uint16_t machine;
	uint32_t type;
	uint8_t size;
	uint8_t op;
} kinds[] = {
	{ EM_X86_64, 10, 4, SET },   /* R_X86_64_32 */
	{ EM_X86_64, 1, 8, SET },    /* R_X86_64_64 */
	{ EM_X86_64, 11, 4, SET },   /* R_X86_64_32S */
	{ EM_386, 1, 4, SET },       /* R_386_32 */
	{ EM_AARCH64, 258, 4, SET }, /* R_AARCH64_ABS32 */
	{ EM_AARCH64, 257, 8, SET }, /* R_AARCH64_ABS64 */
	{ EM_ARM, 2, 4, SET },       /* R_ARM_ABS32 */
	{ EM_RISCV, 1, 4, SET },     /* R_RISCV_32 */
	{ EM_RISCV, 2, 8, SET },     /* R_RISCV_64 */
	{ EM_RISCV, 33, 1, ADD },    /* R_RISCV_ADD8 and so on */
	{ EM_RISCV, 34, 2, ADD },    { EM_RISCV, 35, 4, ADD },     { EM_RISCV, 36, 8, ADD },
	{ EM_RISCV, 37, 1, SUB },    { EM_RISCV, 38, 2, SUB },     { EM_RISCV, 39, 4, SUB },
	{ EM_RISCV, 40, 8, SUB },    { EM_RISCV, 54, 1, SET },     { EM_RISCV, 55, 2, SET },
	{ EM_RISCV, 56, 4, SET },    { EM_RISCV, 60, 1, SET_LEB }, { EM_RISCV, 61, 1, SUB_LEB },
	{ EM_PPC64, 1, 4, SET },                                 /* R_PPC64_ADDR32 */
	{ EM_PPC64, 38, 8, SET },                                /* R_PPC64_ADDR64 */
	{ EM_PPC, 1, 4, SET },                                   /* R_PPC_ADDR32 */
	{ EM_S390, 4, 4, SET },                                  /* R_390_32 */
	{ EM_S390, 22, 8, SET },                                 /* R_390_64 */
	{ EM_LOONGARCH, 1, 4, SET },                             /* R_LARCH_32 */
	{ EM_LOONGARCH, 2, 8, SET },                             /* R_LARCH_64 */
	{ EM_MIPS, 2, 4, SET },                                  /* R_MIPS_32 */
	{ EM_MIPS, 18, 8, SET },                                 /* R_MIPS_64 */
	{ EM_SPARC, 3, 4, SET },                                 /* R_SPARC_32 */
	{ EM_SPARC, 23, 4, SET },                                /* R_SPARC_UA32 */
	{ EM_SPARCV9, 3, 4, SET },                               /* the same two */
	{ EM_SPARCV9, 23, 4, SET },  { EM_SPARCV9, 32, 8, SET }, /* R_SPARC_64 */
	{ EM_SPARCV9, 54, 8, SET },                              /* R_SPARC_UA64 */
	{ EM_ALPHA, 1, 4, SET },                                 /* R_ALPHA_REFLONG */
	{ EM_ALPHA, 2, 8, SET },                                 /* R_ALPHA_REFQUAD */
	{ EM_IA_64, 0x25, 4, SET },                              /* R_IA64_DIR32LSB */
	{ EM_IA_64, 0x27, 8, SET },                              /* R_IA64_DIR64LSB */
	{ EM_IA_64, 0x65, 4, SET }, /* R_IA64_SECREL32LSB: of debug sections, which begin at 0 */
	{ EM_68K, 1, 4, SET },      /* R_68K_32 */
	{ EM_CSKY, 1, 4, SET },     /* R_CKCORE_ADDR32 */
	{ EM_MSP430, 1, 4, SET },   /* R_MSP430_32 */
	{ EM_MSP430, 5, 2, SET },   /* R_MSP430_16_BYTE */
	{ EM_BPF, 2, 8, SET },      /* R_BPF_64_ABS64 */
	{ EM_BPF, 3, 4, SET },      /* R_BPF_64_ABS32 */
	{ EM_BPF, 1, 8, SET },      /* R_BPF_64_64 and R_BPF_64_32: what LLVM wrote before these */
	{ EM_BPF, 10, 4, SET },
};

struct reloc_job {
	const struct elf_image *img;
	uint8_t *p; /* the content to be relocated */
	size_t size;
	bool rela;
	struct bytes symtab;
	const uint64_t *bases; /* of the image's sections; NULL: all 0 */
};

static const struct reloc_kind *reloc_kind_find(uint16_t machine, uint32_t type)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (kinds[i].machine == machine && kinds[i].type == type)
			return &kinds[i];
	return NULL;
}

static bool reloc_machine_known(uint16_t machine)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (kinds[i].machine == machine)
			return true;
	return false;
}

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

static uint64_t reloc_symbol_value(const struct reloc_job *j, uint32_t index)
{
	unsigned entry = j->img->h.is64 ? 24 : 16, at = j->img->h.is64 ? 8 : 4;
	struct cursor c = cursor_at(j->symtab, j->img->h.big, 0);

	uint64_t value;
	uint32_t section;

	if (!cursor_seek(&c, (uint64_t)index * entry + at))
		return 0;
	value = cursor_uint(&c, j->img->h.is64 ? 8 : 4);
	if (j->bases && cursor_seek(&c, (uint64_t)index * entry + (j->img->h.is64 ? 6 : 14))) {
		section = cursor_u16(&c);
		if (section < j->img->n_sections && section < SHN_LORESERVE)
			value += j->bases[section];
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
static void reloc_apply(const struct reloc_job *j, struct cursor *c)
{
	bool is64 = j->img->h.is64, big = j->img->h.big;
	uint64_t off = cursor_uint(c, is64 ? 8 : 4);
	uint64_t info = cursor_uint(c, is64 ? 8 : 4);
	uint64_t addend = j->rela ? cursor_uint(c, is64 ? 8 : 4) : 0;
	const struct reloc_kind *k;
	uint32_t symbol, type;
	uint64_t v, there;

	reloc_info_split(j->img, info, &symbol, &type);
	k = reloc_kind_find(j->img->h.machine, type);
	if (!k || off > j->size || k->size > j->size - off)
		return;
	there = reloc_get(j->p + off, k->size, big);
	v = reloc_symbol_value(j, symbol) + addend;
	if (k->op == SET_LEB || k->op == SUB_LEB) {
		reloc_apply_leb(j, off, k->op == SUB_LEB ? -v : v, k->op == SUB_LEB);
		return;
	}
	if (k->op == ADD)
		v = there + v;
	else if (k->op == SUB)
		v = there - v;
	else if (!j->rela)
		v += there;
	reloc_put(j->p + off, v, k->size, big);
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
	chunk = mem_alloc(CHUNK_SIZE);
	left -= left % entry;
	while (left) {
		size_t n = (size_t)MIN(left, (uint64_t)CHUNK_SIZE);
		struct cursor c;

		if (stream_read_full(s, chunk, n, err) < 0)
			return -1;
		left -= n;
		c = cursor_at(bytes_of(chunk, n), j->img->h.big, 0);
		while (cursor_left(&c))
			reloc_apply(j, &c);
	}
	return 0;
}

int dwarf_relocate(const struct elf_image *img, const struct elf_section *sec,
		   const struct dwarf_code_list *code, uint8_t *p, size_t size, struct err *err)
{
	AUTO(mem_freep) uint64_t *bases = NULL;

	if (code && code->n)
		bases = dwarf_code_bases(img, code->list, code->n);
	for (uint32_t i = 1; i < img->n_sections; i++) {
		const struct elf_section *rel = &img->sections[i];
		struct reloc_job j = {
			.img = img, .p = p, .size = size, .rela = rel->type == SHT_RELA, .bases = bases
		};
		AUTO(arena_done) struct arena a = { .hold = img->memory };

		if ((rel->type != SHT_RELA && rel->type != SHT_REL) || rel->info != sec->index)
			continue;
		/* Without relocations the section would name wrong files and functions. */
		if (!reloc_machine_known(img->h.machine))
			return err_set(err, ERR_INVALID, "relocations of machine %u are not known",
				       img->h.machine);
		/* Without symbols only the addends are used; for section symbols they are enough. */
		if (rel->link && rel->link < img->n_sections &&
		    elf_section_read(img, &img->sections[rel->link], SYMTAB_MAX, &a, &j.symtab, err) < 0)
			return -1;
		if (reloc_apply_section(&j, rel, err) < 0)
			return -1;
	}
	return 0;
}
