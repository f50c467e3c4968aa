// SPDX-License-Identifier: Apache-2.0
// Names of files that are not ELF, by their first bytes, each with the remedy for the user that dropped the file. The names are those of
// src/elf/foreign.c; a test compares them.

export const APPLE = "lode takes ELF files only; for Apple's systems use atos or llvm-symbolizer";
const WINDOWS = "lode takes ELF files only; for Windows use its own symbol tools";
const UNPACK = "unpack it and drop the debug files in it, or put it into a folder that the server scans";
const DECOMPRESS = "decompress it first", MEMBER = "unpack it and drop the ELF files in it", MADE_FROM = "drop the ELF file that it was made from";
const OTHER = "drop the program, the library or its debug file, which is usually named *.debug";
const MACHO = "a program or library of Apple's systems (Mach-O)", FAT_MACHO = "a program of Apple's systems for several processors (fat Mach-O)";
const PDB = "debug information of Windows (PDB)", MINIDUMP = "a minidump of a crash", BITCODE = "an LLVM bitcode file", GSYM = "a GSYM symbol file";
const ZIP = "a zip archive (APK, JAR)", CPIO = "a cpio archive";

// First bytes, as characters of Latin-1.
const KINDS = [
	["Microsoft C/C++ MSF 7.00", PDB, WINDOWS], ["Microsoft C/C++ program database 2.00", PDB, WINDOWS],
	["BSJB", "debug information of .NET (Portable PDB)", "lode takes ELF files only; drop the native library itself"],
	["\xfe\xed\xfa\xce", MACHO, APPLE], ["\xfe\xed\xfa\xcf", MACHO, APPLE], ["\xce\xfa\xed\xfe", MACHO, APPLE], ["\xcf\xfa\xed\xfe", MACHO, APPLE],
	["\xca\xfe\xba\xbf", FAT_MACHO, APPLE], ["MODULE ", "a Breakpad symbol file", MADE_FROM],
	["MDMP", MINIDUMP, "drop the debug files of its modules"], ["PMDM", MINIDUMP, "drop the debug files of its modules"],
	["\0asm", "a WebAssembly module", "lode takes ELF files only; use llvm-symbolizer"],
	["BC\xc0\xde", BITCODE, "compile it to an object file"], ["\xde\xc0\x17\x0b", BITCODE, "compile it to an object file"],
	["!<arch>\ndebian-binary", "a Debian package", UNPACK], ["\xed\xab\xee\xdb", "an rpm package", UNPACK],
	["!<arch>\n", "an archive of object files (ar)", MEMBER], ["!<thin>\n", "a thin archive, which has only names of object files", MEMBER],
	["PK\x03\x04", ZIP, MEMBER], ["PK\x05\x06", ZIP, MEMBER],
	["\x1f\x8b\x08", "a gzip-compressed file", DECOMPRESS], ["\xfd7zXZ\0", "an xz-compressed file", DECOMPRESS],
	["\x28\xb5\x2f\xfd", "a zstd-compressed file", DECOMPRESS], ["BZh", "a bzip2-compressed file", DECOMPRESS],
	["\x04\x22\x4d\x18", "an lz4-compressed file", DECOMPRESS], ["7z\xbc\xaf\x27\x1c", "a 7z archive", UNPACK],
	["070701", CPIO, UNPACK], ["070702", CPIO, UNPACK], ["LODE\x01SYM", "a symbol table of lode", MADE_FROM],
	["SQLite format 3", "a SQLite database", OTHER], ["GSYM", GSYM, MADE_FROM], ["MYSG", GSYM, MADE_FROM],
	["PERFILE2", "a recording of perf", "send the profile with lode send"], ["FLR\0", "a recording of Java", "send it with lode send"], ["#!", "a script", "drop the program that runs it"],
	["/* GNU ld script", "a linker script", "drop the library that it refers to"], ["%PDF", "a PDF document", OTHER], ["\x89PNG", "a PNG image", OTHER],
];

// As in src/elf/foreign.c: the processor, sections, no optional header, symbols after the sections; or many sections.
function isCoff(head, text) {
	if (text.startsWith("\0\0\xff\xff") && text.startsWith("\xc7\xa1\xba\xd1\xee\xba\xa9\x4b\xaf\x20\xfa\xf8\x6e\xeb\xa8\x1e", 12))
		return true;
	if (head.byteLength < 18)
		return false;
	const n = head.getUint16(2, true);
	return [0x14c, 0x1c4, 0x8664, 0xaa64].includes(head.getUint16(0, true)) && n > 0 && head.getUint16(16, true) === 0 && head.getUint32(8, true) >= 20 + 40 * n;
}

function byShape(head, text) {
	const word = (at, little) => at + 4 <= head.byteLength ? head.getUint32(at, little) : 0;
	if (text.startsWith("\x7fELF"))
		return text.charCodeAt(head.byteLength > 5 && head.getUint8(5) === 2 ? 17 : 16) === 4 ? ["an ELF core dump", "drop the debug files of the modules of its process"] : [];
	if (text.startsWith("\xca\xfe\xba\xbe") && text.length >= 8)
		return word(4, false) < 45 ? [FAT_MACHO, APPLE] : ["a Java class", "drop the native library itself"];
	if (isCoff(head, text))
		return ["an object file of Windows (COFF)", WINDOWS];
	if (text.startsWith("MZ"))
		return [text.startsWith("PE\0\0", word(60, true) || text.length) ? "a program or library of Windows (PE)" : "a program of DOS or Windows", WINDOWS];
	return text.startsWith("ustar", 257) ? ["a tar archive", UNPACK] : null;
}

function byText(text) {
	if (/^\s*<(!doctype html|html|\?xml)/i.test(text))
		return "a page of HTML or XML";
	// eslint-disable-next-line no-control-regex
	return /[\0-\x08\x0e-\x1f]/.test(text.slice(0, 64)) ? "a file of no known kind" : "a text file";
}

// Return { name, help } of a file with the first bytes @head (a DataView); null: it is an ELF file.
export function kindOf(head) {
	const text = Array.from({ length: head.byteLength }, (_, i) => String.fromCharCode(head.getUint8(i))).join("");
	if (!text)
		return { name: "an empty file", help: OTHER };
	const [name, help] = byShape(head, text) ?? KINDS.find(([magic]) => text.startsWith(magic))?.slice(1) ?? [byText(text), OTHER];
	return name ? { name, help } : null;
}
