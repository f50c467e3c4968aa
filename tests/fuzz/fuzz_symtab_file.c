/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of whole ELF files: the input is the file. This reaches the parts that fuzz_symtab_build does not
 * write, such as .gnu_debugdata, segments without sections, .dynsym and PLTs.
 */
#include "symtab_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(source_closep) struct source *src = source_of_mem(bytes_of(data, size), "x");
	AUTO(elf_closep) struct elf_image *img = NULL;
	const struct symtab_options o = { .n_threads = 1 };
	struct err err = { 0 };

	if (elf_open(src, &img, &err) == 0)
		check_image(img, &o);
	return 0;
}
