/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elf: ELF files over a source: 32 and 64 bit, both byte orders, every byte untrusted (System V ABI, gABI
 * chapters 4 and 5).
 *
 * elf_open() reads the header, the section and the program header table and the section names (bounded, see
 * limits); sections are read on request. It works over any source, so that a member of a package is read
 * without being unpacked.
 */
#pragma once

#include "base/budget.h"
#include "io/io.h"

/* Limits: more than this is ERR_LIMIT. */
#define ELF_MAX_SECTIONS   (1u << 20) /* -ffunction-sections and LTO objects have some 100 000 */
#define ELF_MAX_SEGMENTS   65536u
#define ELF_MAX_NAMES_SIZE MIB(64) /* section name table */
/* Per note section or segment; the rest of a longer one is ignored. */
#define ELF_MAX_NOTE_SIZE MIB(1)

enum {
	ELF_NOT_ELF = 1, /* no ELF magic: not an error */
	ELF_NO_BUILD_ID = 2,
	ELF_NO_SECTION = 3, /* also NOBITS and empty ones */
	ELF_NO_LINK = 4,
};

struct elf_header {
	bool is64, big;
	uint16_t type, machine; /* ET_*, EM_* as in <elf.h> */
	uint64_t entry, flags;
	uint64_t phoff, shoff;
	uint32_t n_segments, n_sections, names_index; /* extended numbering resolved */
};

struct elf_section {
	struct str name; /* lives as long as the image */
	uint32_t index, type, link, info;
	uint64_t flags, addr, off, size, entsize, align;
};

struct elf_segment {
	uint32_t type, flags;
	uint64_t off, vaddr, paddr, filesz, memsz, align;
};

struct elf_image {
	struct source *src; /* borrowed: must outlive the image */
	struct elf_header h;
	struct elf_section *sections; /* n_sections; [0] is the null section. NULL if the tables do not fit
				         the file: sections_err has the reason */
	struct elf_segment *segments; /* n_segments */
	uint32_t n_sections, n_segments;
	struct arena arena;
	struct err sections_err; /* kind ERR_NONE when the section table is sound or absent */
	/*
	 * The image's: memory and temporary copies of its read and inflated bytes. Their max is
	 * elf_held_max(). NULL in an image that was not made by elf_open().
	 */
	struct budget_hold *memory, *disk;
};

/*
 * How many bytes a file of @size bytes may be inflated to, all that is held at a time together: 32 times its
 * size (debug files have 3 to 10) and 128 MiB, at most half of the machine's memory.
 */
uint64_t elf_held_max(uint64_t size);
/*
 * From now on the memory and the copies of @img count in @memory and @disk, too, which end later; NULL: no more.
 * Nothing is held of the image then.
 */
void elf_hold_in(const struct elf_image *img, struct budget_hold *memory, struct budget_hold *disk);

/*
 * Read the tables. Outcome ELF_NOT_ELF: no magic. An unsound section table is no failure if the header is
 * sound: a stripped or cut file can still have segments and notes; see sections_err.
 */
int elf_open(struct source *src, struct elf_image **ret, struct err *err);
void elf_close(struct elf_image *img); /* takes NULL; @src stays the caller's */
void elf_closep(struct elf_image **img);

/*
 * The name, with its article, of any file that is not ELF, or is an ELF core dump, by its first bytes (1 KiB is enough),
 * and the remedy for the caller that gave it; false: the kind is not known, and the name says so. The others set
 * ERR_INVALID with both, and return -1.
 */
bool elf_foreign_name(struct bytes head, const char **ret_name, const char **ret_help);
int elf_foreign_err(struct bytes head, struct err *err);
int elf_foreign_source_err(struct source *src, struct err *err);
/*
 * Refuse a core dump (by the type of the ELF file) given in place of a program, and a folder in place of a file: a .dSYM by
 * its name. 0: it is none.
 */
int elf_refuse_core(unsigned type, struct err *err);
int elf_refuse_folder(const char *path, struct err *err);
/* Refuse an object file of GCC's -flto without machine code, of which a table would be empty. 0: it is none. */
int elf_refuse_slim_lto(const struct elf_image *img, struct err *err);

/* The first section of that name; NULL: none. */
const struct elf_section *elf_section_find(const struct elf_image *img, const char *name);
/* The section numbers of the symbols in section @symtab that do not fit into them (SHT_SYMTAB_SHNDX); NULL: none. */
const struct elf_section *elf_section_shndx(const struct elf_image *img, uint32_t symtab);

/*
 * The range of a section in the file (with the header of SHF_COMPRESSED ones). ELF_NO_SECTION for NOBITS and
 * empty ones; a range outside of the file is ERR_INVALID.
 */
int elf_section_range(const struct elf_image *img, const struct elf_section *sec, uint64_t *ret_off,
		      uint64_t *ret_size, struct err *err);

/*
 * The content of a section, decompressed if it is compressed (SHF_COMPRESSED zlib and zstd; ".zdebug_*" with
 * its "ZLIB" header), into the arena. Content over @max is ERR_LIMIT, even if the header claims less. Memory is
 * allocated, and granted by the arena's hold, as the content is decompressed, not by the size in the header. Other outcomes
 * than 0, that of elf_section_range() among them, leave *ret empty.
 */
int elf_section_read(const struct elf_image *img, const struct elf_section *sec, size_t max, struct arena *a,
		     struct bytes *ret, struct err *err);
/* The same in memory from malloc(), with @pad zeros after it; @hold grants it, and the caller subtracts
 * *ret_size + @pad when it frees it. */
int elf_section_load(const struct elf_image *img, const struct elf_section *sec, size_t pad,
		     struct budget_hold *hold, uint8_t **ret, size_t *ret_size, struct err *err);
/* The same as a stream, for one sequential pass: a few windows of memory, however large the section is. @img
 * is borrowed until close. */
int elf_section_stream(const struct elf_image *img, const struct elf_section *sec, struct stream **ret,
		       struct err *err);
/* The decompressed size that the header states; the section's size if it is not compressed. */
int elf_section_content_size(const struct elf_image *img, const struct elf_section *sec, uint64_t *ret,
			     struct err *err);
/* The section .debug_X, .zdebug_X or .debug_X.dwo, or NULL. @name is ".debug_line". */
const struct elf_section *elf_debug_section(const struct elf_image *img, const char *name);

/*
 * Call fn for every note of PT_NOTE segments, then of SHT_NOTE sections, with 4 and 8 byte alignment. A
 * non-zero return of fn ends the loop and is returned. A damaged note ends its own section only. A note that
 * is in a segment and a section is passed twice. Its views are valid during the call.
 */
struct elf_note {
	uint32_t type;
	struct str owner; /* without trailing NULs */
	struct bytes desc;
};
int elf_notes_each(const struct elf_image *img, int (*fn)(void *arg, const struct elf_note *note), void *arg,
		   struct err *err);

/*
 * The build ID: the note of type 3 *with owner GNU* (a kernel's .notes starts with a Xen note of type 3), in
 * any segment or section. One of 0 or more than BUILD_ID_MAX bytes is skipped. Without it, Go's build ID, if that
 * identifies a file. ELF_NO_BUILD_ID.
 */
int elf_build_id(const struct elf_image *img, struct build_id *ret, struct err *err);
/* The GNU build ID in raw notes, such as those of /sys/kernel/notes. */
int elf_notes_build_id(struct bytes notes, bool big, struct build_id *ret);
/* Go's own build ID (note type 4, owner "Go", ".note.go.buildid"): text, in the arena. ELF_NO_BUILD_ID. */
int elf_go_build_id(const struct elf_image *img, struct arena *a, struct str *ret, struct err *err);

/* .gnu_debuglink: a file name and the CRC-32 of the debug file. ELF_NO_LINK. Strings in @a. */
int elf_debug_link(const struct elf_image *img, struct arena *a, struct str *ret_name, uint32_t *ret_crc,
		   struct err *err);
/* .gnu_debugaltlink (or DWARF 5 .debug_sup with is_supplementary 0): path and build ID of the supplementary
 * (dwz) file. ELF_NO_LINK. */
int elf_alt_link(const struct elf_image *img, struct arena *a, struct str *ret_path, struct build_id *ret_id,
		 struct err *err);

/* Relocations as LLVM 19 writes them with --crel; not in all versions of the system's elf.h. */
#define ELF_SHT_CREL 0x40000014u
bool elf_is_reloc_type(uint32_t section_type); /* REL, RELA, CREL */

/* ---- facts about a file ---- */

enum elf_flags {
	ELF_IS_EXECUTABLE = 1 << 0, /* ET_EXEC/ET_DYN with an allocated PROGBITS section (or no sections, and
				       a PT_LOAD): code; kernel modules too */
	/* has .debug_* / .zdebug_* sections, or a symtab and no other allocated bits */
	ELF_IS_DEBUG = 1 << 1,
	ELF_IS_RELOCATABLE = 1 << 2,   /* ET_REL */
	ELF_IS_KERNEL_MODULE = 1 << 3, /* ET_REL with .modinfo or .gnu.linkonce.this_module */
	ELF_IS_CORE = 1 << 4,
	ELF_IS_DWZ = 1 << 5, /* a supplementary file: .debug_sup with is_supplementary 1, or debug sections
				and no program of its own */
	ELF_HAS_ALT_LINK = 1 << 6,
	ELF_HAS_DEBUG_LINK = 1 << 7,
	ELF_HAS_DWARF = 1 << 8, /* .debug_info, in whichever form */
	ELF_HAS_LINES = 1 << 9, /* .debug_line */
	ELF_HAS_SYMTAB = 1 << 10,
};

struct elf_facts {
	uint32_t flags;
	uint16_t type, machine;
	struct build_id build_id; /* elf_build_id(); size 0: none */
};

/* ELF_NOT_ELF; a broken file is an error that names the place. */
int elf_facts_read(struct source *src, struct elf_facts *ret, struct err *err);

/* ---- identities: docs/decisions/0031-identities.md ---- */

/* The other identities of a file, beside facts.build_id. */
#define ELF_MAX_ALIASES 2
struct elf_aliases {
	struct elf_alias {
		enum build_id_kind kind;
		struct build_id id;
	} v[ELF_MAX_ALIASES];
	unsigned n;
};
/*
 * As elf_facts_read(), with all identities of the file. The build ID is the GNU one, else Go's, else, of a program or
 * library, the hash of the file; *ret_kind is its kind.
 */
int elf_identify(struct source *src, struct elf_facts *ret, enum build_id_kind *ret_kind,
		 struct elf_aliases *ret_aliases, struct err *err);
/*
 * OpenTelemetry's hash: SHA-256 over the first 4 KiB, the last 4 KiB and the length (8 bytes, the highest first), of
 * which the first 16 bytes count.
 */
int elf_file_hash(struct source *src, struct build_id *ret, struct err *err);
/* @id is the GNU or Go build ID, or the hash, of this file. */
bool elf_is_identified_by(struct source *src, const struct elf_image *img, const struct build_id *id);
/*
 * Whether a server may answer a request for @id, which may be an alias, with this file: it is identified by it, or it is
 * @debug, a debug file, and @id is the hash of its program. That hash cannot be compared, so its build ID must be one that
 * cannot be mistaken for a hash.
 */
bool elf_is_answer_to(struct source *src, const struct elf_image *img, const struct build_id *id, bool debug);
/* Human-readable: "executable, debug (DWARF, lines), x86-64". */
void elf_facts_print(const struct elf_facts *f, struct buf *out);
const char *elf_machine_name(uint16_t machine);

/*
 * A prober reads the same facts from a member that streams by and is not stored: feed all of its bytes in
 * order, then finish.
 *
 * It keeps the head, the notes, the alt link and the tables at the tail, as far as the head has their
 * offsets: a few hundred KiB at most. elf_probe_finish(): 0; ELF_NOT_ELF (known from the first 4 bytes:
 * elf_probe_wants() is false when more bytes are of no use); ELF_PROBE_AGAIN: bytes that had passed are
 * needed; read the file by elf_facts_read() over a random-access source.
 */
enum { ELF_PROBE_AGAIN = 5 };
struct elf_probe;
/* Facts and identities are those of elf_identify(). */
struct elf_probe *elf_probe_new(void); /* reusable: one for all members of a package */
void elf_probe_start(struct elf_probe *p, uint64_t size);
bool elf_probe_wants(const struct elf_probe *p);
void elf_probe_feed(struct elf_probe *p, struct bytes chunk); /* the chunk is borrowed for the call */
int elf_probe_finish(struct elf_probe *p, struct elf_facts *ret, struct err *err);
/* The range of a section's bytes in its file. size 0: it has none there. */
struct elf_place {
	struct str name;
	uint64_t off, size;
};
/*
 * After elf_probe_finish() has returned 0, until the next start: the name and range of each section as
 * elf_section_range() returns it, in the order of the table; names and array in @a. Returns 0 when the table
 * is unsound or was not kept completely.
 */
/* After elf_probe_finish() has returned 0, until the next start. */
const struct elf_aliases *elf_probe_aliases(const struct elf_probe *p);
size_t elf_probe_places(struct elf_probe *p, struct arena *a, const struct elf_place **ret);
void elf_probe_free(struct elf_probe *p);
