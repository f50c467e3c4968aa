/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding sections and their ranges in the file.
 */
#include "elf/internal.h"

#include <elf.h>

const struct elf_section *elf_section_find(const struct elf_image *img, const char *name)
{
	struct str want = str_of(name);

	for (uint32_t i = 1; i < img->n_sections; i++)
		if (str_eq(img->sections[i].name, want))
			return &img->sections[i];
	return NULL;
}

const struct elf_section *elf_section_shndx(const struct elf_image *img, uint32_t symtab)
{
	for (uint32_t i = 1; i < img->n_sections; i++)
		if (img->sections[i].type == SHT_SYMTAB_SHNDX && img->sections[i].link == symtab)
			return &img->sections[i];
	return NULL;
}

bool elf_section_is_debug(const struct elf_section *sec, struct str *ret_base)
{
	static const struct str prefixes[] = { STR(".debug_"), STR(".zdebug_") };

	/* Every look-up of a section compares all names. */
	if (sec->name.size < prefixes[0].size || (sec->name.p[1] != 'd' && sec->name.p[1] != 'z'))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++) {
		if (!str_starts(sec->name, prefixes[i]))
			continue;
		*ret_base = (struct str){ sec->name.p + prefixes[i].size, sec->name.size - prefixes[i].size };
		return true;
	}
	return false;
}

const struct elf_section *elf_debug_section(const struct elf_image *img, const char *name)
{
	static const struct str prefix = STR(".debug_"), dwo = STR(".dwo");
	struct str want = str_of(name), base;
	const struct elf_section *split = NULL;

	if (!str_starts(want, prefix))
		return elf_section_find(img, name);
	want = (struct str){ want.p + prefix.size, want.size - prefix.size };
	for (uint32_t i = 1; i < img->n_sections; i++) {
		const struct elf_section *sec = &img->sections[i];

		if (!elf_section_is_debug(sec, &base) || !str_starts(base, want))
			continue;
		if (base.size == want.size)
			return sec;
		if (!split && str_eq((struct str){ base.p + want.size, base.size - want.size }, dwo))
			split = sec;
	}
	return split;
}

int elf_section_range(const struct elf_image *img, const struct elf_section *sec, uint64_t *ret_off,
		      uint64_t *ret_size, struct err *err)
{
	if (sec->type == SHT_NOBITS || sec->type == SHT_NULL || !sec->size)
		return ELF_NO_SECTION;
	if (!elf_range_fits(sec->off, sec->size, img->src->size))
		return err_set(err, ERR_INVALID,
			       "section %u %.*s of %llu bytes at %llu ends past the file of %llu bytes",
			       sec->index, (int)MIN(sec->name.size, (size_t)64), sec->name.p,
			       (unsigned long long)sec->size, (unsigned long long)sec->off,
			       (unsigned long long)img->src->size);
	*ret_off = sec->off;
	*ret_size = sec->size;
	return 0;
}

int elf_section_head(const struct elf_image *img, const struct elf_section *sec, uint64_t n, struct arena *a,
		     struct bytes *ret, struct err *err)
{
	uint64_t off, size;
	int r = elf_section_range(img, sec, &off, &size, err);

	return r ? r : elf_view(img, off, MIN(n, size), a, ret, err);
}

bool elf_is_reloc_type(uint32_t section_type)
{
	return section_type == SHT_REL || section_type == SHT_RELA || section_type == ELF_SHT_CREL;
}
