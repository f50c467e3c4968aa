/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kind of a file by its first bytes, and a member of it by its name. The first byte is the length of the name, the
 * rest after the name is the archive. A member is never larger than its archive permits.
 */
#include "fuzz.h"

#include "pkg/pkg.h"

static void check_kind(struct bytes file)
{
	const char *name = NULL, *help = NULL;
	struct err err = { 0 };

	elf_foreign_name(file, &name, &help);
	FUZZ_CHECK(name && *name && help && *help);
	FUZZ_CHECK(elf_foreign_err(file, &err) < 0 && err.kind == ERR_INVALID && strstr(err.text, name));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct source *src, *member = NULL;
	struct err err = { 0 };
	struct bytes file;
	struct str name;

	if (size < 1 || data[0] > size - 1)
		return 0;
	name = (struct str){ (const char *)data + 1, data[0] };
	file = bytes_of(data + 1 + name.size, size - 1 - name.size);
	check_kind(file);
	src = source_of_mem(file, "x.tar");
	if (pkg_open_member(src, name, &member, &err) == 0)
		FUZZ_CHECK(member->size <= elf_held_max(MAX(file.size, elf_held_max(file.size))));
	else
		FUZZ_CHECK(err.kind != ERR_NONE && err.kind != ERR_INTERNAL && err.text[0]);
	source_close(member);
	source_close(src);
	return 0;
}
