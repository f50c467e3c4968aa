/* SPDX-License-Identifier: Apache-2.0 */
/* The modules of a core dump. */
#include "fuzz.h"

#include "elf/core.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct source *src = source_of_mem(bytes_of(data, size), "core");
	const struct elf_core_module *modules;
	struct elf_image *img = NULL;
	struct arena a = { 0 };
	struct err err = { 0 };
	size_t n;

	if (elf_open(src, &img, &err) == 0) {
		int r = elf_core_modules(img, &a, &modules, &n, &err);

		FUZZ_CHECK(r >= 0 || err.kind == ERR_INVALID || err.kind == ERR_LIMIT);
		for (size_t i = 0; r == 0 && i < n; i++) {
			FUZZ_CHECK(modules[i].path.size);
			FUZZ_CHECK(modules[i].dumped || (!modules[i].is_elf && !modules[i].id.size));
		}
	}
	elf_close(img);
	arena_done(&a);
	source_close(src);
	return 0;
}
