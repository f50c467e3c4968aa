/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frame: the pure part of turning addresses into frames. Addresses of processes, files and kernels are
 * translated to addresses in the ELF file by its program headers; functions get their names in the detail
 * asked for; an address without frames gets a reason. Nothing here opens a file, waits or keeps state.
 *
 * The tables that are searched for an address are symtab's; `tables` and `lookup` find and make them.
 */
#pragma once

#include "elf/elf.h"
#include "symtab/symtab.h"

struct frame_layout;

/* ---- reasons ---- */

/* Why an address has no frames, or not all of them. Names and texts are part of the protocol. */
enum frame_reason {
	FRAME_FOUND,
	FRAME_NO_BUILD_ID,
	FRAME_NO_MAPPING,      /* a run-time address outside of all mappings */
	FRAME_UNKNOWN,         /* this server has nothing with this build ID */
	FRAME_UPSTREAM_404,    /* nor do the other servers */
	FRAME_UPSTREAM_FAILED, /* another server failed to answer */
	FRAME_TIMED_OUT,       /* another server did not answer in time */
	FRAME_NOT_ELF,
	FRAME_DAMAGED,       /* the file is here, but it or a part of it cannot be read */
	FRAME_NO_SYMBOLS,    /* the file has neither DWARF nor symbols */
	FRAME_NO_LAYOUT,     /* the program headers that would translate the address are not known */
	FRAME_OUTSIDE,       /* outside of every known function */
	FRAME_ALT_MISSING,   /* with frames: some names are in a supplementary file that is not here */
	FRAME_SPLIT_MISSING, /* with frames: inlined calls are in a .dwo file that is not here */
	FRAME_PENDING,       /* the table is being made, or a scan may still find its file: ask again */
	FRAME_BUSY,          /* too many tables wait to be made: ask again */
	FRAME_NO_DEBUG_INFO, /* in no symbol, where there was nothing but symbols to look in */
	FRAME_N_REASONS
};
const char *frame_reason_name(enum frame_reason r); /* "no-build-id" */
const char *frame_reason_text(enum frame_reason r); /* a sentence without full stop */
/* A remedy, likewise; "": nothing is wrong. frame_advice() has a better one, by circumstances. */
const char *frame_reason_help(enum frame_reason r);
/*
 * The debug file may exist, but an error prevents its use, of another server or of the file itself, or it is still asked
 * for.
 */
bool frame_reason_hides_debug(enum frame_reason r);
/* Parts of the file could not be read, so that functions may be missing. A missing .dwo file is none of them. */
bool frame_reason_is_damaged(const struct symtab_info *info);
/* Frames of a table have not all names or calls, since another file is missing; FRAME_FOUND: they have. */
enum frame_reason frame_reason_lacking(const struct symtab_info *info, const struct symtab_frames *f);
/*
 * Of an address in no function of a table: FRAME_OUTSIDE; or, if there could be one, FRAME_DAMAGED, or @no_debug if it
 * is an error, else FRAME_NO_DEBUG_INFO. @no_debug: why no debug file was found; FRAME_FOUND: not known.
 */
enum frame_reason frame_reason_outside(const struct symtab_info *info, enum frame_reason no_debug,
				       const struct frame_layout *l, uint64_t vaddr);

/* The circumstances of a reason, as far as they are known. Empty texts are not known. */
struct frame_case {
	enum frame_reason reason;
	bool at_server;     /* else a command on this machine */
	bool asks_nobody;   /* no server was asked: none is configured, or only this machine was searched */
	bool keeps_misses;  /* a command: they are not asked again for a while after they said no */
	struct str asked;   /* servers that were asked, separated by blanks */
	struct str server;  /* a debuginfod server that may have it */
	struct str package; /* the package with the debug information */
	struct str install; /* commands that install it here */
	struct str file;    /* the path of the file */
	struct str missing; /* FRAME_ALT_MISSING, FRAME_SPLIT_MISSING: the file that is not here */
	struct str place;   /* of a command: where a debug file would be found */
	/*
	 * Of a command: the file that a server sent has no debug information; `sent` is its URL (empty: it was sent before),
	 * `kept` its path in the cache folder. Servers after that one were not asked.
	 */
	struct str sent, kept;
};
/* Append a remedy: a sentence without full stop; nothing for FRAME_FOUND. */
void frame_advice(const struct frame_case *c, struct buf *out);
/* The debug file is not here: frame_advice() names the package, if it is known. */
bool frame_reason_lacks_file(enum frame_reason r);
/* Asking again soon may help. */
bool frame_reason_passes(enum frame_reason r);
#define FRAME_RETRY_MS 1000 /* after that time */

/* ---- addresses ---- */

#define FRAME_MAX_SEGMENTS 256u

/* The program headers of a file, as far as addresses are translated by them. */
struct frame_layout {
	uint16_t type, machine; /* ET_*, EM_* */
	bool is_kernel;         /* Linux itself: ET_EXEC or ET_DYN in the upper half of the address space */
	bool offsets_known;     /* false: from a debug file, where the file offsets of code mean nothing */
	bool by_sections;     /* the file has no program headers of its code: segments are runs of sections */
	uint64_t stext, text; /* of a kernel: the start of .text, and of .head.text before it */
	size_t n_segments;
	struct frame_segment {
		uint64_t off, filesz, vaddr, memsz;
		bool exec;
	} segments[FRAME_MAX_SEGMENTS];
};
void frame_layout_of(const struct elf_image *img, struct frame_layout *ret);
bool frame_layout_has_code(const struct frame_layout *l, uint64_t vaddr); /* at this address */
/*
 * How much higher code is in @img than in its debug file: prelink moves an object after its debug file was
 * made. Modulo 2^64; 0: they agree, or it cannot be known.
 */
uint64_t frame_moved(const struct elf_image *img, const struct elf_image *debug);
/* Make @l translate to addresses in the debug file. */
void frame_layout_move_back(struct frame_layout *l, uint64_t moved);

/* A line of /proc/PID/maps, or a mapping of a profile. */
struct frame_mapping {
	uint64_t start, limit; /* limit 0: not known, as far as it goes */
	uint64_t offset;       /* in the file */
	/*
	 * Of a kernel: `start` is the run-time address of this symbol, "_text" or "_stext", as in perf's
	 * mappings of it ("[kernel.kallsyms]_text").
	 */
	struct str symbol;
};

enum frame_address_kind {
	FRAME_VADDR,    /* as in the ELF file: as nm and objdump print it */
	FRAME_OFFSET,   /* of the byte in the file */
	FRAME_RUNTIME,  /* in a process: needs mappings */
	FRAME_SECTION,  /* relative to a section: of relocatable files, whose sections all begin at 0 */
	FRAME_RELATIVE, /* to the file's first page, as crash reporters count */
};

/*
 * The address in the ELF file. FRAME_FOUND, FRAME_NO_MAPPING, FRAME_OUTSIDE, FRAME_NO_LAYOUT (also for @l
 * NULL). @maps are all known mappings of this file: text that was moved to huge pages has a mapping without
 * a file, and is found by its neighbours.
 */
enum frame_reason frame_translate(const struct frame_layout *l, enum frame_address_kind kind,
				  const struct frame_mapping *maps, size_t n_maps, uint64_t addr,
				  uint64_t *ret);

/*
 * Mappings that are prepared for many addresses: each is found in logarithmic time. frame_translate() looks at all
 * mappings for each address, which is faster for a few.
 */
struct frame_maps;
/* In @a; @v is borrowed. At most 2^31 mappings. */
struct frame_maps *frame_maps_new(struct arena *a, const struct frame_mapping *v, size_t n);
/*
 * The mapping with this address: of those with a limit the first in the list, else the one without a limit that
 * starts last before it. NULL: none.
 */
const struct frame_mapping *frame_maps_at(const struct frame_maps *m, uint64_t addr);
/* The index of the first mapping with a limit that has this address; SIZE_MAX: none. */
size_t frame_maps_closed_at(const struct frame_maps *m, uint64_t addr);
enum frame_reason frame_translate_prepared(const struct frame_layout *l, enum frame_address_kind kind,
					   const struct frame_maps *m, uint64_t addr, uint64_t *ret);

/* ---- names ---- */

enum frame_demangling {
	FRAME_DEMANGLE_FULL,      /* ns::f<int>(int) */
	FRAME_DEMANGLE_TEMPLATES, /* ns::f<int> */
	FRAME_DEMANGLE_SIMPLE,    /* ns::f */
	FRAME_DEMANGLE_NONE,      /* _ZN2ns1fIiEEvT_ */
};
/* "full", "templates", "simple", "none". */
bool frame_demangling_parse(struct str s, enum frame_demangling *ret);
/*
 * Append the name of a frame's function; nothing where it is not known. Go's escapes ("%2e") are undone,
 * except for FRAME_DEMANGLE_NONE.
 */
void frame_name(const struct symtab_frame *f, enum frame_demangling how, struct buf *out);
