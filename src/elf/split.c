/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks whether a file can be split, and which sections are stripped.
 */
#include "elf/write.h"

#include <elf.h>

#define REST_MAX KIB(64) /* padding, and the signature of a module */

bool elf_section_is_stripped(const struct elf_section *s)
{
	static const struct str prefixes[] = {
		STR(".debug"), STR(".zdebug"), STR(".gnu.debuglto_.debug_"), STR(".gnu.linkonce.wi."),
		STR(".line"),  STR(".stab"),
	};

	if (elf_is_alloc(s) || elf_is_reloc_type(s->type))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++)
		if (str_starts(s->name, prefixes[i]))
			return true;
	return str_eq(s->name, STR(".gdb_index"));
}

static bool has_bits(const struct elf_section *s)
{
	return s->type != SHT_NULL && s->type != SHT_NOBITS && s->size;
}

/*
 * All ranges of the tables are within the file; *ret_end is the end of the last one. Sections that share bytes would be copied
 * more than once, so that a file of a megabyte could have a debug file of gigabytes.
 */
static int check_ranges(const struct elf_image *img, uint64_t *ret_end, struct err *err)
{
	const struct elf_header *h = &img->h;
	uint64_t end = h->shoff + (uint64_t)h->n_sections * elf_section_size(h->is64), off, size, sum = 0;

	end = MAX(end, h->phoff + (uint64_t)h->n_segments * elf_segment_size(h->is64));
	for (uint32_t i = 1; i < img->n_sections; i++) {
		int r = elf_section_range(img, &img->sections[i], &off, &size, err);

		if (r < 0)
			return -1;
		if (r)
			continue;
		end = MAX(end, off + size);
		if (size > img->src->size - sum)
			return err_set(err, ERR_INVALID,
				       "its sections overlap: up to section %u they have more bytes "
				       "than the file",
				       i);
		sum += size;
	}
	for (uint32_t i = 0; i < img->n_segments; i++) {
		const struct elf_segment *s = &img->segments[i];

		if (!s->filesz)
			continue;
		if (!elf_range_fits(s->off, s->filesz, img->src->size))
			return err_set(err, ERR_INVALID,
				       "segment %u of %llu bytes at %llu ends past the file of %llu bytes", i,
				       (unsigned long long)s->filesz, (unsigned long long)s->off,
				       (unsigned long long)img->src->size);
		end = MAX(end, s->off + s->filesz);
	}
	*ret_end = end;
	return 0;
}

/*
 * The size of a module signature, which Linux appends to a module: names and signature, twelve bytes with
 * their lengths (struct module_signature), a line of text. 0: there is none.
 * Documentation/admin-guide/module-signing.rst.
 */
static uint64_t signature_size(struct bytes rest)
{
	static const char magic[] = "~Module signature appended~\n";
	const uint64_t tail = 12 + sizeof(magic) - 1;
	uint64_t size;
	const uint8_t *p;

	if (rest.size < tail ||
	    memcmp(rest.p + rest.size - (sizeof(magic) - 1), magic, sizeof(magic) - 1) != 0)
		return 0;
	p = rest.p + rest.size - tail;
	size = tail + p[3] + p[4] + elf_get(true, p + 8, 4);
	return size <= rest.size ? size : 0;
}

/* Zeros after the tables are padding, which may be lost. */
static int check_rest(const struct elf_image *img, uint64_t end, bool *ret_signed, struct err *err)
{
	AUTO(arena_done) struct arena a = { 0 };
	uint64_t left = img->src->size - end, signature = 0;
	struct bytes rest = { 0 };
	bool zeros = left <= REST_MAX;

	if (zeros && source_read_arena(img->src, range_of(end, left), SIZE_MAX, &a, &rest, err) < 0)
		return -1;
	if (img->h.type == ET_REL)
		signature = signature_size(rest);
	for (uint64_t i = 0; zeros && i < left - signature; i++)
		zeros = rest.p[i] == 0;
	*ret_signed = zeros && signature;
	if (zeros)
		return 0;
	return err_set(err, ERR_INVALID,
		       "%llu bytes after the end of the ELF file would be lost (an archive?): split the file "
		       "before they are appended",
		       (unsigned long long)left);
}

/* Tables that are written anew must be stored as they are, neither compressed nor without bytes. */
static int check_table(const struct elf_image *img, uint32_t i, struct err *err)
{
	const struct elf_section *s = &img->sections[i];
	struct str base;

	if (i == img->h.names_index && s->type != SHT_STRTAB)
		return err_set(err, ERR_INVALID,
			       "section %u, which should hold the section names, has type %u", i, s->type);
	switch (s->type) {
	case SHT_SYMTAB:
	case SHT_STRTAB:
	case SHT_SYMTAB_SHNDX:
	case SHT_GROUP:
	case SHT_REL:
	case SHT_RELA:
	case ELF_SHT_CREL:
		if ((s->flags & SHF_COMPRESSED) || str_starts(s->name, STR(".zdebug")) ||
		    elf_section_is_debug(s, &base))
			return err_set(err, ERR_INVALID,
				       "section %u of type %u is compressed, or named as a debug section", i,
				       s->type);
	}
	return 0;
}

/* Classify the sections, and check that their headers are consistent. */
static int check_sections(const struct elf_image *img, bool *ret_debug, bool *ret_program, struct err *err)
{
	bool debug = false, program = false;
	unsigned n_symtabs = 0;

	for (uint32_t i = 1; i < img->n_sections; i++) {
		const struct elf_section *s = &img->sections[i];

		debug |= elf_section_is_stripped(s) && has_bits(s);
		program |= elf_is_alloc(s) && has_bits(s) && s->type != SHT_NOTE;
		n_symtabs += s->type == SHT_SYMTAB;
		if (check_table(img, i, err) < 0)
			return -1;
		if (s->link >= img->n_sections && s->type != SHT_NULL)
			return err_set(err, ERR_INVALID, "section %u links to section %u of %u", i, s->link,
				       img->n_sections);
	}
	if (n_symtabs > 1)
		return err_set(err, ERR_INVALID, "%u symbol tables", n_symtabs);
	*ret_debug = debug;
	*ret_program = program;
	return 0;
}

/* The writer uses entries of the usual sizes, and the reader of the raw tables relies on them. */
static int check_header(const struct elf_image *img, struct err *err)
{
	const struct elf_header *h = &img->h;
	unsigned at = h->is64 ? 52 : 40; /* e_ehsize, e_phentsize, e_phnum, e_shentsize */
	uint8_t head[64];

	if (source_read_full(img->src, 0, head, h->is64 ? sizeof(Elf64_Ehdr) : sizeof(Elf32_Ehdr),
			     SOURCE_RANDOM, err) < 0)
		return -1;
	if ((h->n_segments && elf_get(h->big, head + at + 2, 2) != elf_segment_size(h->is64)) ||
	    (h->n_sections && elf_get(h->big, head + at + 6, 2) != elf_section_size(h->is64)))
		return err_set(err, ERR_INVALID, "headers of an unusual size");
	return 0;
}

int elf_split_check(const struct elf_image *img, bool *ret_signed, struct err *err)
{
	bool debug, program;
	uint64_t end;

	if (img->sections_err.kind)
		return err_set(err, img->sections_err.kind, "%s", img->sections_err.text);
	if (img->h.type == ET_CORE)
		return err_set(err, ERR_INVALID,
			       "a core dump, which belongs to a process: lode find --core finds its debug "
			       "files");
	if (img->h.type != ET_EXEC && img->h.type != ET_DYN && img->h.type != ET_REL)
		return err_set(err, ERR_INVALID, "an ELF file of the unknown type %u", img->h.type);
	if (check_header(img, err) < 0 || check_sections(img, &debug, &program, err) < 0)
		return -1;
	if (!debug)
		return ELF_NOTHING_TO_SPLIT;
	if (!program)
		return err_set(err, ERR_INVALID, "a debug file, without a program");
	if (check_ranges(img, &end, err) < 0)
		return -1;
	return check_rest(img, end, ret_signed, err);
}
