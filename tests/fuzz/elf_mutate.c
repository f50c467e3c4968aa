/* SPDX-License-Identifier: Apache-2.0 */
#include "elf_mutate.h"

#include <elf.h>

/* libFuzzer's own mutations; a program that replays seeds has none. */
__attribute__((weak)) size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

uint64_t mutate_random(uint64_t *state, uint64_t n)
{
	*state += 0x9e3779b97f4a7c15;

	uint64_t z = *state;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	z ^= z >> 31;
	return n ? z % n : 0;
}

/* ---- values ---- */

static uint64_t some_value(const struct buf *f, uint64_t was, uint64_t *random)
{
	static const uint64_t odd[] = { 0,
					1,
					2,
					3,
					4,
					7,
					8,
					16,
					0x7f,
					0x80,
					0xff,
					0x100,
					0x7fff,
					0x8000,
					0xffff,
					0x7fffffff,
					0x80000000,
					0xfffffff0,
					0xffffffff,
					0x7fffffffffffffff,
					0x8000000000000000,
					0xfffffffffffffff0,
					0xffffffffffffffff };
	uint64_t n = elf_edit_n_sections(f), i = mutate_random(random, n);

	switch (mutate_random(random, 10)) {
	case 0:
		return was + 1;
	case 1:
		return was - 1;
	case 2:
		return was ^ (1ull << mutate_random(random, 64));
	case 3:
		return odd[mutate_random(random, ARRAY_SIZE(odd))];
	case 4:
		return f->size - mutate_random(random, 3);
	case 5:
		return elf_edit_at(f, elf_edit_sh(f, i, (unsigned)mutate_random(random, SH_FIELDS)));
	case 6:
		return mutate_random(random, n + 2);
	case 7:
		return was + mutate_random(random, 64) * 8;
	case 8:
		return was - mutate_random(random, 64);
	default:
		return mutate_random(random, 0x10000);
	}
}

static void change_place(struct buf *f, struct elf_place_of p, uint64_t *random)
{
	elf_edit_put(f, p.at, p.size, some_value(f, elf_edit_at(f, p), random));
}

/* ---- contents ---- */

struct content {
	uint64_t section, off, size; /* in the file */
};

static struct content content_of(const struct buf *f, uint64_t section)
{
	struct bytes b = elf_edit_content(f, section);

	return (struct content){ section, b.size ? (uint64_t)(b.p - f->p) : 0, b.size };
}

/* Abbreviations: attributes, forms, tags and the flag for children are changed to others that exist. */
static void change_abbrevs(struct buf *f, struct content c, uint64_t *random)
{
	static const uint8_t forms[] = { 0x01, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a,
					 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x10, 0x11, 0x12, 0x13,
					 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c,
					 0x1d, 0x1e, 0x1f, 0x20, 0x21, 0x22, 0x23, 0x25, 0x29 };
	static const uint8_t attributes[] = { 0x01, 0x03, 0x0b, 0x10, 0x11, 0x12, 0x1b, 0x20, 0x31,
					      0x34, 0x39, 0x3a, 0x3b, 0x3c, 0x3e, 0x47, 0x49, 0x52,
					      0x55, 0x57, 0x58, 0x59, 0x6e, 0x72, 0x73, 0x74, 0x76 };
	static const uint8_t tags[] = {
		0x0b, 0x11, 0x13, 0x1d, 0x2e, 0x39, 0x3c, 0x3d, 0x41, 0x4a, 0x24, 0x01
	};
	uint8_t *p = f->p + c.off, *end = p + c.size, *at[3] = { 0 };
	uint64_t n_seen = 0;

	/* Bytes of 7 bits are read only: others are rare here. Each place has the same chance. */
	while (p + 3 < end) {
		if (!*p) {
			p++;
			continue;
		}
		if (!mutate_random(random, ++n_seen))
			at[0] = p + 1;
		p += 3;
		while (p + 1 < end && (p[0] || p[1])) {
			if (!mutate_random(random, ++n_seen))
				at[1] = p;
			p += p[1] == 0x21 ? 3 : 2;
			while (p < end && p[-1] & 0x80)
				p++;
		}
		p += 2;
	}
	if (at[1] && mutate_random(random, 4)) {
		if (mutate_random(random, 2))
			at[1][1] = forms[mutate_random(random, sizeof(forms))];
		else
			at[1][0] = attributes[mutate_random(random, sizeof(attributes))];
	} else if (at[0]) {
		if (mutate_random(random, 2))
			at[0][0] = tags[mutate_random(random, sizeof(tags))];
		else
			at[0][1] ^= 1;
	}
}

/* One field of an entry of a table, such as symbols. */
static bool change_entry(struct buf *f, struct content c, uint64_t *random)
{
	uint64_t type = elf_edit_at(f, elf_edit_sh(f, c.section, SH_TYPE)), i;
	bool is64 = elf_edit_is64(f);
	static const struct elf_field symbol[] = { { 0, 4, 0, 4 },  { 4, 1, 12, 1 }, { 5, 1, 13, 1 },
						   { 6, 2, 14, 2 }, { 8, 8, 4, 4 },  { 16, 8, 8, 4 } };
	const struct elf_field *field = &symbol[mutate_random(random, ARRAY_SIZE(symbol))];
	unsigned size, word = is64 ? 8 : 4;

	switch (type) {
	case SHT_SYMTAB:
	case SHT_DYNSYM:
		size = is64 ? 24 : 16;
		i = mutate_random(random, c.size / size) * size;
		change_place(f,
			     is64 ? (struct elf_place_of){ c.off + i + field->at64, field->size64 }
				  : (struct elf_place_of){ c.off + i + field->at32, field->size32 },
			     random);
		return true;
	case SHT_RELA:
	case SHT_REL:
	case SHT_DYNAMIC:
	case SHT_INIT_ARRAY:
		i = mutate_random(random, c.size / word) * word;
		change_place(f, (struct elf_place_of){ c.off + i, word }, random);
		return true;
	default:
		return false;
	}
}

static void change_bytes(struct buf *f, struct content c, uint64_t *random)
{
	uint64_t size = MIN(1 + mutate_random(random, 24), c.size),
		 at = c.off + mutate_random(random, c.size - size + 1);
	static const uint8_t widths[] = { 1, 2, 4, 8 };
	uint8_t window[32];

	if (mutate_random(random, 2) || !LLVMFuzzerMutate) {
		change_place(f, (struct elf_place_of){ at, widths[mutate_random(random, 4)] }, random);
		return;
	}
	memcpy(window, f->p + at, (size_t)size);
	(void)LLVMFuzzerMutate(window, (size_t)size, (size_t)size);
	memcpy(f->p + at, window, (size_t)size);
}

/* Bytes are inserted or removed within the section: the new content goes to the end of the file. */
static void change_size(struct buf *f, struct content c, uint64_t *random)
{
	AUTO(buf_done) struct buf out = { 0 };
	uint64_t at = mutate_random(random, c.size), n = 1 + mutate_random(random, 16);

	buf_add(&out, f->p + c.off, (size_t)at);
	switch (mutate_random(random, 4)) {
	case 0: /* removed */
		at = MIN(at + n, c.size);
		break;
	case 1: /* repeated */
		n = MIN(n * 4, c.size - at);
		buf_add(&out, f->p + c.off + at, (size_t)n);
		break;
	case 2: /* cut off */
		at = c.size;
		break;
	default:
		for (uint64_t i = 0; i < n; i++)
			buf_add_char(&out, (char)mutate_random(random, 256));
	}
	buf_add(&out, f->p + c.off + at, (size_t)(c.size - at));
	elf_edit_set_content(f, c.section, buf_bytes(&out));
}

static void change_content(struct buf *f, uint64_t *random)
{
	uint64_t n = elf_edit_n_sections(f);
	struct content c = { 0 };
	struct str name;

	for (unsigned tries = 0; tries < 8 && !c.size; tries++)
		c = content_of(f, mutate_random(random, n));
	if (!c.size)
		return;
	name = elf_edit_name(f, c.section);
	if (str_starts(name, STR(".debug_abbrev")) && mutate_random(random, 4))
		change_abbrevs(f, c, random);
	else if (!mutate_random(random, 5))
		change_size(f, c, random);
	else if (mutate_random(random, 8) == 0 || !change_entry(f, c, random))
		change_bytes(f, c, random);
}

/* ---- tables ---- */

static const char *const names[] = {
	".text",
	".plt",
	".plt.got",
	".plt.sec",
	".got",
	".got.plt",
	".symtab",
	".strtab",
	".dynsym",
	".dynstr",
	".dynamic",
	".rela.plt",
	".rel.plt",
	".gnu_debugdata",
	".gnu_debugaltlink",
	".gopclntab",
	".go.buildinfo",
	".noptrdata",
	".data.rel.ro",
	".rodata",
	".debug_info",
	".debug_abbrev",
	".debug_line",
	".debug_str",
	".debug_line_str",
	".debug_ranges",
	".debug_rnglists",
	".debug_addr",
	".debug_str_offsets",
	".debug_types",
	".debug_aranges",
	".rela.debug_info",
	".rela.debug_line",
	".debug_sup",
	".symtab_shndx",
	".debug_info.dwo",
	".debug_cu_index",
	".debug_tu_index",
	".opd",
	".init",
	".rela.debug_addr",
	".zdebug_info",
	".typelink",
	".debug_abbrev.dwo",
};

static void change_section(struct buf *f, uint64_t *random)
{
	uint64_t n = elf_edit_n_sections(f), a = mutate_random(random, n), b = mutate_random(random, n);
	static const unsigned often[] = { SH_TYPE, SH_FLAGS, SH_ADDR,    SH_SIZE,
					  SH_LINK, SH_INFO,  SH_ENTSIZE, SH_OFFSET };

	switch (mutate_random(random, 8)) {
	case 0: /* swapped, or only in part */
		for (unsigned i = 0; i < SH_FIELDS; i++) {
			struct elf_place_of x = elf_edit_sh(f, a, i), y = elf_edit_sh(f, b, i);
			uint64_t v = elf_edit_at(f, x);

			elf_edit_put(f, x.at, x.size, elf_edit_at(f, y));
			elf_edit_put(f, y.at, y.size, v);
		}
		break;
	case 1: {
		struct bytes content = elf_edit_content(f, b);

		(void)elf_edit_add(f, f, a, content);
		break;
	}
	case 2:
		elf_edit_remove(f, a);
		break;
	case 3:
		elf_edit_rename(f, a, names[mutate_random(random, ARRAY_SIZE(names))]);
		break;
	case 4: { /* a field of another section */
		unsigned i = often[mutate_random(random, ARRAY_SIZE(often))];
		struct elf_place_of x = elf_edit_sh(f, a, i);

		elf_edit_put(f, x.at, x.size, elf_edit_at(f, elf_edit_sh(f, b, i)));
		break;
	}
	case 5: { /* a type or flag that exists */
		static const uint32_t types[] = { SHT_NULL, SHT_PROGBITS, SHT_SYMTAB, SHT_STRTAB,
						  SHT_RELA, SHT_DYNAMIC,  SHT_NOTE,   SHT_NOBITS,
						  SHT_REL,  SHT_DYNSYM,   SHT_GROUP,  SHT_SYMTAB_SHNDX };
		struct elf_place_of x = elf_edit_sh(f, a, SH_TYPE), y = elf_edit_sh(f, a, SH_FLAGS);

		if (mutate_random(random, 2))
			elf_edit_put(f, x.at, x.size, types[mutate_random(random, ARRAY_SIZE(types))]);
		else
			elf_edit_put(f, y.at, y.size, elf_edit_at(f, y) ^ (1u << mutate_random(random, 12)));
		break;
	}
	default:
		change_place(f, elf_edit_sh(f, a, often[mutate_random(random, ARRAY_SIZE(often))]), random);
	}
}

static void change_header(struct buf *f, uint64_t *random)
{
	static const uint16_t machines[] = { EM_386,    EM_PPC,     EM_PPC64, EM_S390, EM_ARM,
					     EM_X86_64, EM_AARCH64, EM_RISCV, EM_MIPS };
	struct elf_place_of p;

	switch (mutate_random(random, 5)) {
	case 0:
		p = elf_edit_eh(f, EH_TYPE);
		elf_edit_put(f, p.at, p.size, 1 + mutate_random(random, 3));
		break;
	case 1:
		p = elf_edit_eh(f, EH_MACHINE);
		elf_edit_put(f, p.at, p.size, machines[mutate_random(random, ARRAY_SIZE(machines))]);
		break;
	case 2: /* no sections: their table stays */
		p = elf_edit_eh(f, mutate_random(random, 2) ? EH_SHNUM : EH_SHOFF);
		elf_edit_put(f, p.at, p.size,
			     mutate_random(random, 2) ? 0 : some_value(f, elf_edit_at(f, p), random));
		break;
	default:
		change_place(f, elf_edit_eh(f, (unsigned)mutate_random(random, EH_FIELDS)), random);
	}
}

static void take_from(struct buf *f, const struct buf *donor, uint64_t *random)
{
	uint64_t from = mutate_random(random, elf_edit_n_sections(donor)), to;
	struct str name = elf_edit_name(donor, from);
	struct bytes content = elf_edit_content(donor, from);
	AUTO(mem_freep) char *text = mem_printf(STR_FMT, STR_ARG(name));

	to = elf_edit_find(f, text);
	if (to && mutate_random(random, 2)) {
		elf_edit_set_content(f, to, content);
		return;
	}
	to = elf_edit_add(f, donor, from, content);
	elf_edit_rename(f, to, text);
}

void elf_mutate(struct buf *f, const struct buf *donor, size_t max, uint64_t *random)
{
	AUTO(buf_done) struct buf out = { 0 };
	uint64_t n_segments = elf_edit_n_segments(f);

	buf_add(&out, f->p, f->size);
	switch (mutate_random(random, 16)) {
	case 0:
		change_header(&out, random);
		break;
	case 1:
		if (n_segments)
			change_place(&out,
				     elf_edit_ph(&out, mutate_random(random, n_segments),
						 (unsigned)mutate_random(random, PH_FIELDS)),
				     random);
		break;
	case 2:
	case 3:
		if (donor)
			take_from(&out, donor, random);
		break;
	case 4:
	case 5:
	case 6:
	case 7:
		if (elf_edit_n_sections(f))
			change_section(&out, random);
		break;
	case 8:
		if (out.size)
			change_bytes(&out, (struct content){ 0, 0, out.size }, random);
		break;
	default:
		change_content(&out, random);
	}
	if (out.size > max)
		return;
	buf_done(f);
	*f = out;
	out = (struct buf){ 0 };
}
