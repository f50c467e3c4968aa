/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of files that are not ELF, by their first bytes, each with the remedy for the caller that gave the file. One
 * table for all entrances.
 */
#include <ctype.h>
#include <elf.h>
#include <sys/stat.h>
#include "codec/codec.h"
#include "elf/elf.h"

#define HEAD_SIZE KIB(1)
#define TEXT_SIZE 64u /* of a file without a magic; printable bytes so far make it a text */

static const char macho[] = "a program or library of Apple's systems (Mach-O)";
static const char fat_macho[] = "a program of Apple's systems for several processors (fat Mach-O)";
static const char windows[] = "lode reads ELF files only; for Windows use its own symbol tools";
static const char apple[] = "lode reads ELF files only; for Apple's systems use atos or llvm-symbolizer";
static const char decompress[] = "decompress it first; a profile is for lode profile, compressed or not";
static const char package[] = "name a file in it, as PACKAGE!PATH, or put it into a scanned folder";
static const char member[] = "name a member of it, as ARCHIVE:MEMBER or ARCHIVE!MEMBER";

static const char kernel[] = "name its vmlinux, which lode find --kernel-release RELEASE finds";
static const char core_help[] = "lode find --core lists the files of its process; name one of them";

/* To those who want another kind of file. */
static const char elf_help[] = "lode symbolize -e names its addresses, lode push sends it to a server";

static const struct foreign {
	const char *magic;
	uint8_t size;
	const char *name, *help;
} kinds[] = {
	{ "Microsoft C/C++ MSF 7.00", 24, "debug information of Windows (PDB)", windows },
	{ "Microsoft C/C++ program database 2.00", 37, "debug information of Windows (PDB)", windows },
	{ "BSJB", 4, "debug information of .NET (Portable PDB)",
	  "lode reads ELF files only; name the native library itself" },
	{ "\xfe\xed\xfa\xce", 4, macho, apple },
	{ "\xfe\xed\xfa\xcf", 4, macho, apple },
	{ "\xce\xfa\xed\xfe", 4, macho, apple },
	{ "\xcf\xfa\xed\xfe", 4, macho, apple },
	{ "\xca\xfe\xba\xbf", 4, fat_macho, apple },
	{ "MODULE ", 7, "a Breakpad symbol file", "name the ELF file that it was made from" },
	{ "MDMP", 4, "a minidump of a crash", "name the modules of the process, which are ELF files" },
	{ "PMDM", 4, "a minidump of a crash", "name the modules of the process, which are ELF files" },
	{ "\0asm", 4, "a WebAssembly module", "lode reads ELF files only; use llvm-symbolizer" },
	{ "BC\xc0\xde", 4, "an LLVM bitcode file", "compile it to an object file" },
	{ "\xde\xc0\x17\x0b", 4, "an LLVM bitcode file", "compile it to an object file" },
	{ "go object ", 10, "an object file of the Go compiler", "link it, and name the program" },
	{ "!<arch>\ndebian-binary", 21, "a Debian package", package },
	{ "\xed\xab\xee\xdb", 4, "an rpm package", package },
	{ "!<arch>\n", 8, "an archive of object files (ar)", member },
	{ "!<thin>\n", 8, "a thin archive, which has only names of object files",
	  "name one of its object files" },
	{ "PK\3\4", 4, "a zip archive (APK, JAR)", member },
	{ "PK\5\6", 4, "a zip archive (APK, JAR)", member },
	{ "\x04\x22\x4d\x18", 4, "an lz4-compressed file", decompress },
	{ "7z\xbc\xaf\x27\x1c", 6, "a 7z archive", package },
	{ "070701", 6, "a cpio archive", package },
	{ "070702", 6, "a cpio archive", package },
	{ "LODE\x01SYM", 8, "a symbol table of lode", "name it in lode symbolize -e" },
	{ "SQLite format 3", 15, "a SQLite database", "name the ELF file" },
	{ "GSYM", 4, "a GSYM symbol file", "name the ELF file that it was made from" },
	{ "MYSG", 4, "a GSYM symbol file", "name the ELF file that it was made from" },
	{ "FLR\0", 4, "a recording of Java", "lode profile reads it" },
	{ "PERFILE2", 8, "a recording of perf", "lode profile reads it after perf script" },
	{ "#!", 2, "a script", "name the program that runs it" },
	{ "/* GNU ld script", 16, "a linker script", "name the library that it refers to" },
	{ "%PDF", 4, "a PDF document", "name an ELF file" },
	{ "\x89PNG", 4, "a PNG image", "name an ELF file" },
};

static const char *const compressed[CODEC_N_KINDS] = {
	[CODEC_GZIP] = "a gzip-compressed file",   [CODEC_XZ] = "an xz-compressed file",
	[CODEC_LZMA] = "an lzma-compressed file",  [CODEC_ZSTD] = "a zstd-compressed file",
	[CODEC_BZIP2] = "a bzip2-compressed file",
};

static uint32_t head_u32(struct bytes head, size_t off, bool big)
{
	struct cursor c = cursor_at(head, big, 0);

	cursor_seek(&c, off);
	return cursor_u32(&c);
}

/*
 * An object file of Windows: its first word is the processor. The symbols follow the sections, and there is no optional
 * header. One with many sections begins as a program for no processor, and has its own identity.
 */
static bool head_is_coff(struct bytes head)
{
	static const uint16_t machines[] = { 0x14c, 0x1c4, 0x8664, 0xaa64 };
	static const uint8_t many_sections[16] = { 0xc7, 0xa1, 0xba, 0xd1, 0xee, 0xba, 0xa9, 0x4b,
						   0xaf, 0x20, 0xfa, 0xf8, 0x6e, 0xeb, 0xa8, 0x1e };
	struct cursor c = cursor_at(head, false, 0);
	uint16_t machine, n_sections, n_optional;
	uint32_t symbols_off;

	if (head.size >= 28 && head_u32(head, 0, true) == 0xffff &&
	    memcmp(head.p + 12, many_sections, sizeof(many_sections)) == 0)
		return true;
	machine = cursor_u16(&c);
	n_sections = cursor_u16(&c);
	cursor_seek(&c, 8);
	symbols_off = cursor_u32(&c);
	cursor_seek(&c, 16);
	n_optional = cursor_u16(&c);
	if (!cursor_ok(&c) || !n_sections || n_optional || symbols_off < 20 + 40u * n_sections)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(machines); i++)
		if (machine == machines[i])
			return true;
	return false;
}

/*
 * A bootable kernel, which most have a header of PE, so that firmware can start them: of x86 ("HdrS" in its setup header), of
 * other processors (the words of Image's header), or packed for EFI.
 */
static bool head_is_kernel(struct bytes head)
{
	static const struct {
		uint16_t off;
		uint8_t size;
		const char *magic;
	} marks[] = {
		{ 0x202, 4, "HdrS" }, { 0, 8, "MZ\0\0zimg" }, { 56, 4, "ARM\x64" }, { 56, 4, "RSC\x05" }
	};

	for (size_t i = 0; i < ARRAY_SIZE(marks); i++)
		if (head.size >= marks[i].off + marks[i].size &&
		    memcmp(head.p + marks[i].off, marks[i].magic, marks[i].size) == 0)
			return true;
	return false;
}

/* Formats whose first bytes alone decide too little. */
static bool foreign_by_shape(struct bytes head, const char **ret_name, const char **ret_help)
{
	if (head.size >= 4 && memcmp(head.p, ELFMAG, SELFMAG) == 0) {
		struct cursor c = cursor_at(head, head.size > EI_DATA && head.p[EI_DATA] == ELFDATA2MSB, 0);

		bool core;

		cursor_seek(&c, EI_NIDENT);
		core = cursor_u16(&c) == ET_CORE;
		*ret_name = core ? "an ELF core dump" : "an ELF file";
		*ret_help = core ? core_help : elf_help;
		return true;
	}
	/* Java's classes share the magic: theirs is followed by a version, of at least 45. */
	if (head.size >= 8 && head_u32(head, 0, true) == 0xcafebabe) {
		bool fat = head_u32(head, 4, true) < 45;

		*ret_name = fat ? fat_macho : "a Java class";
		*ret_help = fat ? apple : "name the native library itself";
		return true;
	}
	if (head_is_kernel(head)) {
		*ret_name = "a bootable image of the Linux kernel";
		*ret_help = kernel;
		return true;
	}
	if (head.size >= 2 && memcmp(head.p, "MZ", 2) == 0) {
		size_t pe = head.size >= 64 ? head_u32(head, 60, false) : SIZE_MAX;

		*ret_name = pe <= head.size && head.size - pe >= 4 && memcmp(head.p + pe, "PE\0\0", 4) == 0
				    ? "a program or library of Windows (PE)"
				    : "a program of DOS or Windows";
		*ret_help = windows;
		return true;
	}
	if (head_is_coff(head)) {
		*ret_name = "an object file of Windows (COFF)";
		*ret_help = windows;
		return true;
	}
	if (head.size >= 262 && memcmp(head.p + 257, "ustar", 5) == 0) {
		*ret_name = "a tar archive";
		*ret_help = package;
		return true;
	}
	return false;
}

static bool head_is_text(struct bytes head)
{
	size_t n = MIN(head.size, (size_t)TEXT_SIZE);

	for (size_t i = 0; i < n; i++)
		if (head.p[i] < 0x20 && !isspace(head.p[i]))
			return false;
	return n > 0;
}

/* Whether the text starts with the tag, in any case, as pages of HTML do. */
static bool head_is_page(struct bytes head)
{
	static const char *const tags[] = { "<!doctype html", "<html", "<?xml" };
	size_t i = 0;

	while (i < head.size && isspace(head.p[i]))
		i++;
	for (size_t k = 0; k < ARRAY_SIZE(tags); k++)
		if (head.size - i >= strlen(tags[k]) &&
		    strncasecmp((const char *)head.p + i, tags[k], strlen(tags[k])) == 0)
			return true;
	return false;
}

bool elf_foreign_name(struct bytes head, const char **ret_name, const char **ret_help)
{
	enum codec_kind codec = codec_detect(head);

	*ret_help = "name an ELF file: a program, a library, an object file or a debug file";
	if (!head.size) {
		*ret_name = "an empty file";
		return true;
	}
	if (foreign_by_shape(head, ret_name, ret_help))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (head.size >= kinds[i].size && memcmp(head.p, kinds[i].magic, kinds[i].size) == 0) {
			*ret_name = kinds[i].name;
			*ret_help = kinds[i].help;
			return true;
		}
	if (codec != CODEC_NONE) {
		*ret_name = compressed[codec];
		*ret_help = decompress;
		return true;
	}
	*ret_name = head_is_page(head) ? "a page of HTML or XML" : head_is_text(head) ? "a text file" : NULL;
	if (*ret_name)
		return true;
	*ret_name = "a file of no known kind";
	return false;
}

int elf_foreign_err(struct bytes head, struct err *err)
{
	const char *name, *help;

	elf_foreign_name(head, &name, &help);
	return err_set(err, ERR_INVALID, "not an ELF file, but %s: %s", name, help);
}

int elf_foreign_source_err(struct source *src, struct err *err)
{
	uint8_t head[HEAD_SIZE];
	size_t got;

	if (source_read(src, 0, head, sizeof(head), SOURCE_RANDOM, &got, err) < 0)
		return -1;
	return elf_foreign_err(bytes_of(head, got), err);
}

int elf_refuse_core(unsigned type, struct err *err)
{
	return type == ET_CORE ? err_set(err, ERR_INVALID, "a core dump, not a program: %s", core_help) : 0;
}

/* -ffat-lto-objects adds code and data to the intermediate code; without it the sections of both are empty. */
int elf_refuse_slim_lto(const struct elf_image *img, struct err *err)
{
	bool is_lto = false;

	for (uint32_t i = 1; img->h.type == ET_REL && i < img->n_sections; i++) {
		const struct elf_section *s = &img->sections[i];

		if (s->size && s->flags & SHF_ALLOC && (s->type == SHT_PROGBITS || s->type == SHT_NOBITS))
			return 0;
		is_lto |= str_starts(s->name, STR(".gnu.lto_"));
	}
	return is_lto ? err_set(err, ERR_INVALID,
				"an object file of GCC's -flto, which has no machine code: name the program "
				"that is linked of it, or compile it with -ffat-lto-objects")
		      : 0;
}

int elf_refuse_folder(const char *path, struct err *err)
{
	struct str name = str_of(path);
	struct stat st;

	while (name.size > 1 && name.p[name.size - 1] == '/')
		name.size--;
	if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
		return 0;
	if (str_ends(name, STR(".dSYM")))
		return err_set(err, ERR_INVALID,
			       "a .dSYM folder, debug information of Apple's systems (Mach-O): %s", apple);
	return err_set(err, ERR_INVALID, "a folder: name a file in it");
}
