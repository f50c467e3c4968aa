/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <sys/stat.h>

#include "elf/elf.h"

static void files_that_are_not_elf_are_named_with_a_remedy(void **state)
{
	static const struct {
		const char *head;
		size_t size;
		const char *name, *help;
	} cases[] = {
		{ "", 0, "empty file", "name an ELF file" },
		{ "MZ", 2, "DOS or Windows", "Windows" },
		{ "MZ\0", 3, "DOS or Windows", "Windows" },
		{ "Microsoft C/C++ MSF 7.00\r\n\x1a"
		  "DS",
		  29, "PDB", "Windows" },
		{ "BSJB\1\0\1\0", 8, "Portable PDB", "native library" },
		{ "\xcf\xfa\xed\xfe\7\0\0\1", 8, "Mach-O", "atos" },
		{ "\xca\xfe\xba\xbe\0\0\0\2", 8, "fat Mach-O", "atos" },
		{ "\xca\xfe\xba\xbe\0\0\0\x3d", 8, "Java class", "native" },
		{ "MODULE Linux x86_64 00 a", 24, "Breakpad", "made from" },
		{ "MDMP\x93\xa7", 6, "minidump", "modules" },
		{ "\0asm\1\0\0\0", 8, "WebAssembly", "llvm-symbolizer" },
		{ "!<arch>\ndebian-binary   ", 24, "Debian package", "scanned folder" },
		{ "!<arch>\na.o/", 12, "archive of object files", "member" },
		{ "PK\3\4\n\0", 6, "APK", "member" },
		{ "\x1f\x8b\x08\0", 4, "gzip", "decompress" },
		{ "\xed\xab\xee\xdb\3\0", 6, "an rpm package", "scanned folder" },
		{ "\xfd"
		  "7zXZ\0",
		  6, "xz-compressed", "lode profile" },
		{ "BZh91AY&SY", 10, "bzip2-compressed", "decompress" },
		{ "\x28\xb5\x2f\xfd", 4, "zstd-compressed", "decompress" },
		{ "\x50\x2a\x4d\x18\0\0\0\0", 8, "zstd-compressed", "decompress" },
		{ "!<thin>\n/", 9, "thin archive", "one of its object files" },
		{ "\x64\x86\7\0\0\0\0\0\x40\1\0\0\x1a\0\0\0\0\0\0\0", 20, "object file of Windows (COFF)",
		  "Windows" },
		{ "\x64\xaa\1\0\0\0\0\0\x3c\0\0\0\0\0\0\0\0\0\0\0", 20, "object file of Windows (COFF)",
		  "Windows" },
		{ "\0\0\xff\xff\2\0\x64\x86\0\0\0\0\xc7\xa1\xba\xd1\xee\xba\xa9\x4b\xaf\x20\xfa\xf8\x6e\xeb"
		  "\xa8\x1e",
		  28, "object file of Windows (COFF)", "Windows" },
		{ "\x64\x86\7\0\0\0\0\0\x40\1\0\0\x1a\0\0\0\1\0\0\0", 20, "no known kind",
		  "name an ELF file" },
		{ "\177ELF\2\1\1\0\0\0\0\0\0\0\0\0\4\0", 18, "ELF core dump", "lode find --core" },
		{ "\177ELF\1\2\1\0\0\0\0\0\0\0\0\0\0\4", 18, "ELF core dump", "lode find --core" },
		{ "\n <!DOCTYPE html>", 17, "HTML", "name an ELF file" },
		{ "go object linux amd64 go1.21 X:none\n\n!\n", 39, "an object file of the Go compiler",
		  "link it" },
		{ "hello, world\n", 13, "text file", "name an ELF file" },
		{ "\1\2\3\4", 4, "a file of no known kind", "name an ELF file" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct err err = { 0 };

		assert_int_equal(elf_foreign_err(bytes_of(cases[i].head, cases[i].size), &err), -1);
		assert_int_equal(err.kind, ERR_INVALID);
		if (!strstr(err.text, cases[i].name) || !strstr(err.text, cases[i].help))
			fail_msg("%zu: %s", i, err.text);
	}
}

/* Heads that end within what decides, and numbers that point outside of them. */
static void any_bytes_are_named(void **state)
{
	uint8_t head[300];

	for (unsigned first = 0; first < 256; first++)
		for (size_t n = 0; n < sizeof(head); n += 7) {
			const char *name, *help;

			memset(head, (int)first, sizeof(head));
			memcpy(head, "MZ", 2);
			elf_foreign_name(bytes_of(head, n), &name, &help);
			assert_non_null(help);
			memcpy(head, "\xca\xfe\xba\xbe", 4);
			elf_foreign_name(bytes_of(head, n), &name, &help);
		}
}

/* They have a header of PE, for firmware that starts them. */
static void kernels_are_not_programs_of_windows(void **state)
{
	static const struct {
		size_t off;
		const char *mark;
		size_t size;
	} kinds[] = {
		{ 0x202, "HdrS", 4 }, { 56, "ARM\x64", 4 }, { 56, "RSC\x05", 4 }, { 2, "\0\0zimg", 6 }
	};

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		uint8_t head[1024] = "MZ";
		struct err err = { 0 };

		head[60] = 0x80;
		memcpy(head + 0x80, "PE\0\0", 4);
		memcpy(head + kinds[i].off, kinds[i].mark, kinds[i].size);
		assert_fails(elf_foreign_err(bytes_of(head, sizeof(head)), &err), ERR_INVALID,
			     "a bootable image of the Linux kernel: name its vmlinux");
		memset(head + kinds[i].off, 0, kinds[i].size);
		assert_fails(elf_foreign_err(bytes_of(head, sizeof(head)), &err), ERR_INVALID,
			     "of Windows (PE)");
	}
}

static void folders_and_core_dumps_are_refused(void **state)
{
	char dir[TEST_PATH_SIZE];
	AUTO(mem_freep) char *dsym = mem_printf("%s/x.dSYM/", test_dir_make(dir));
	struct err err = { 0 };

	assert_int_equal(mkdir(dsym, 0700), 0);
	assert_fails(elf_refuse_folder(dsym, &err), ERR_INVALID,
		     "a .dSYM folder, debug information of Apple's");
	assert_fails(elf_refuse_folder(dir, &err), ERR_INVALID, "a folder: name a file in it");
	assert_int_equal(elf_refuse_folder("/proc/self/exe", &err), 0);
	assert_int_equal(elf_refuse_folder("/nowhere", &err), 0);
	assert_fails(elf_refuse_core(4, &err), ERR_INVALID, "lode find --core");
	assert_int_equal(elf_refuse_core(3, &err), 0);
	test_dir_remove(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_that_are_not_elf_are_named_with_a_remedy),
		cmocka_unit_test(any_bytes_are_named),
		cmocka_unit_test(kernels_are_not_programs_of_windows),
		cmocka_unit_test(folders_and_core_dumps_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
