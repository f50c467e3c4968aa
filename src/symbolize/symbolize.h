/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symbolize: addresses in, frames out, whoever asks: the server, the commands, the library.
 *
 * A *symbolizer* has a table (symtab) for each build ID that is asked for: one that was kept in the store, or
 * one that is made in the background of what the resolver has: the debug file with its supplementary (dwz)
 * file, or, without one, the symbols of the program itself. Tables are mapped and kept in an LRU; each is
 * made once, however many ask for it. One that lacks something (its supplementary file, a debug file) is
 * used, and replaced when that has turned up.
 *
 * Who asks takes a *hold* of the tables of some build IDs. That never takes longer than its deadline: what is
 * not there by then is SYMBOLIZE_PENDING. With the hold addresses are asked for, each by itself or all in one
 * go, and each answer has frames or a reason.
 *
 *	symbolize_hold_new(s, ids, n, 0, deadline, ready, arg, &h) -> later ready(arg)
 *	symbolize_ask_all(h, queries, n_queries, fn, arg)
 *	symbolize_hold_free(h)
 *
 * A symbolizer may be used by many threads; a hold by one at a time.
 */
#pragma once

#include "resolve/resolve.h"
#include "symtab/symtab.h"

/* Why an address has no frames, or not all that there are. Names and texts are part of the protocol. */
enum symbolize_reason {
	SYMBOLIZE_FOUND,
	SYMBOLIZE_NO_BUILD_ID,
	SYMBOLIZE_NO_MAPPING,      /* a run-time address that lies in none of the mappings */
	SYMBOLIZE_UNKNOWN,         /* nothing here has this build ID */
	SYMBOLIZE_UPSTREAM_404,    /* nor have the other servers */
	SYMBOLIZE_UPSTREAM_FAILED, /* another server could not tell */
	SYMBOLIZE_TIMED_OUT,       /* another server did not answer in time */
	SYMBOLIZE_NOT_ELF,
	SYMBOLIZE_DAMAGED,       /* it is here, but cannot be read */
	SYMBOLIZE_NO_SYMBOLS,    /* the file has neither DWARF nor symbols */
	SYMBOLIZE_NO_LAYOUT,     /* the program headers that would be needed to translate the address are not
				    known */
	SYMBOLIZE_OUTSIDE,       /* outside of any function that is known */
	SYMBOLIZE_ALT_MISSING,   /* with frames: some names are in a supplementary file that is not here */
	SYMBOLIZE_SPLIT_MISSING, /* with frames: inlined calls are in a .dwo file that is not here */
	SYMBOLIZE_PENDING, /* the table is being made, or what may have it is being scanned: ask again */
	SYMBOLIZE_BUSY,    /* too many tables are to be made: ask again */
	SYMBOLIZE_N_REASONS
};
const char *symbolize_reason_name(enum symbolize_reason r); /* "no-build-id" */
const char *symbolize_reason_text(enum symbolize_reason r); /* a sentence without full stop */
/* What would help, likewise; "": nothing is wrong. */
const char *symbolize_reason_help(enum symbolize_reason r);
/* Asking again soon may help. */
bool symbolize_reason_passes(enum symbolize_reason r);
#define SYMBOLIZE_RETRY_MS 1000 /* when */

/* ---- the symbolizer ---- */

struct symbolizer;

struct symbolize_options {
	struct resolver *resolver; /* borrowed */
	struct store *store;       /* borrowed: tables are kept there; NULL: they are not kept */
	const char *spool_dir;     /* for files that cannot be read at random; NULL: /var/tmp */
	size_t tables_size;        /* bytes of tables that stay mapped; 0: 512 MiB */
	uint64_t building_size;    /* bytes of the files that tables are made of at once; a larger one goes
				      alone. 0: 1 GiB */
	unsigned n_threads;        /* that make tables; 0: as many as CPUs, at most 4 */
	unsigned max_flights;      /* tables that wait to be made; more are SYMBOLIZE_BUSY. 0: 4096 */
	int64_t miss_ms;           /* what is not there is remembered for so long. 0: 15 s */
	int64_t error_ms;          /* a failure. 0: 5 s */
	/* Tables tell discriminators too; one in the store that does not is made again. */
	bool discriminators;
};
struct symbolizer *symbolizer_new(const struct symbolize_options *o);
/* All holds become ready now, and from now on no hold waits; tables that are being made are given up. For a
 * service that ends. Takes NULL. */
void symbolizer_stop(struct symbolizer *s);
/* All holds must be back; before the resolver and the store. Takes NULL. */
void symbolizer_free(struct symbolizer *s);

bool symbolizer_has_discriminators(const struct symbolizer *s);

struct symbolizer_stats {
	uint64_t n_made, n_from_store, n_failed, n_replaced;
	uint64_t n_wanted, n_hits; /* tables asked for; those that were mapped already */
	uint64_t tables_size;      /* bytes mapped */
	unsigned n_flights;        /* being made or waited for */
};
void symbolizer_stats(struct symbolizer *s, struct symbolizer_stats *ret);

/*
 * Something new is here for this build ID: what is known to be missing, or lacks something, is looked for
 * anew when it is asked for next, and what is being made or waited for takes the new one in. @replaced: its
 * file is another now, so its table is made again whatever it has. May wait for disks.
 */
void symbolizer_renew(struct symbolizer *s, const struct build_id *id, bool replaced);

/* ---- how a file lies in memory ---- */

#define SYMBOLIZE_MAX_SEGMENTS 256u

/* The program headers of a file, as far as addresses are translated by them. */
struct symbolize_layout {
	uint16_t type, machine; /* ET_*, EM_* */
	bool is_kernel;         /* Linux itself: ET_EXEC or ET_DYN in the upper half of the address space */
	/* false: from a debug file, where the offsets of code mean nothing. */
	bool offsets_known;
	uint64_t stext, text; /* a kernel's: where .text begins, and what lies before it (.head.text) */
	size_t n_segments;
	struct symbolize_segment {
		uint64_t off, filesz, vaddr, memsz;
		bool exec;
	} segments[SYMBOLIZE_MAX_SEGMENTS];
};
void symbolize_layout_of(const struct elf_image *img, struct symbolize_layout *ret);
bool symbolize_layout_has_code(const struct symbolize_layout *l, uint64_t vaddr); /* there */
/*
 * How much higher the code of @img lies than in the debug file that belongs to it: a prelinked object was
 * moved after that had been made. Modulo 2^64; 0: both are the same, or nobody knows.
 */
uint64_t symbolize_moved(const struct elf_image *img, const struct elf_image *debug);
/* From now on what is translated are addresses in the debug file. */
void symbolize_layout_move_back(struct symbolize_layout *l, uint64_t moved);

/* A line of /proc/PID/maps, a mapping of a profile. */
struct symbolize_mapping {
	uint64_t start, limit; /* limit 0: not known, as far as it goes */
	uint64_t offset;       /* in the file */
	/*
	 * Of a kernel: the run-time address of this symbol, "_text" or "_stext", is `start`. perf's mappings
	 * of it ("[kernel.kallsyms]_text") have it so.
	 */
	struct str symbol;
};

enum symbolize_kind {
	SYMBOLIZE_VADDR,    /* as in the ELF file: what nm and objdump print */
	SYMBOLIZE_OFFSET,   /* where the byte lies in the file */
	SYMBOLIZE_RUNTIME,  /* in a process: needs mappings */
	SYMBOLIZE_SECTION,  /* relative to a section: of relocatable files, whose sections all begin at 0 */
	SYMBOLIZE_RELATIVE, /* to where the file's first page is, as crash reporters count */
};

/*
 * An address as it is in the ELF file. SYMBOLIZE_FOUND, NO_MAPPING, NO_LAYOUT (also for @l NULL). @maps are
 * all known mappings of this file: where a part of it was moved to huge pages, whose mapping says nothing,
 * the others tell.
 */
enum symbolize_reason symbolize_translate(const struct symbolize_layout *l, enum symbolize_kind kind,
					  const struct symbolize_mapping *maps, size_t n_maps, uint64_t addr,
					  uint64_t *ret);

/* ---- asking ---- */

struct symbolize_hold;

enum {
	SYMBOLIZE_LAYOUTS = 1 << 0, /* file offsets and run-time addresses will be asked for */
	/* A table that may be had better by now is not used meanwhile: who asks waits until that was looked
	   for. */
	SYMBOLIZE_FRESH = 1 << 1,
	/* What nobody has may be in what is still being scanned: who asks waits for that, and what is not
	   there by the deadline is SYMBOLIZE_PENDING. Without it, it is said to be unknown at once. */
	SYMBOLIZE_UNSCANNED = 1 << 2,
};
enum { SYMBOLIZE_WAITS = 1 };
/*
 * The tables of @n build IDs (one of size 0 is SYMBOLIZE_NO_BUILD_ID). 0: *ret can be used now, and @ready
 * will not be called. SYMBOLIZE_WAITS: ready(arg) will be called once, from any thread, at @deadline_mono_ms
 * at the latest, and perhaps before this returns (*ret is set before); @ready must only hand on. Until then
 * the hold is not to be touched. @ready NULL: this waits itself, and returns 0.
 */
int symbolize_hold_new(struct symbolizer *s, const struct build_id *ids, size_t n, unsigned flags,
		       int64_t deadline_mono_ms, void (*ready)(void *arg), void *arg,
		       struct symbolize_hold **ret);
void symbolize_hold_free(struct symbolize_hold *h); /* takes NULL */

struct symbolize_module {
	enum symbolize_reason reason;   /* SYMBOLIZE_FOUND: there is a table */
	const char *why;                /* more about the reason; "": nothing */
	const char *origin;             /* of a table: the file it was made of, "PACKAGE: FILE", or "" */
	bool lacking;                   /* a better table may be had some day, */
	bool due;                       /* perhaps by now: SYMBOLIZE_FRESH looks for it */
	const struct symtab_info *info; /* of a table */
	const struct symbolize_layout *layout; /* NULL: not known */
};
/* What there is of the @i-th build ID; good as long as the hold. */
void symbolize_hold_module(const struct symbolize_hold *h, size_t i, struct symbolize_module *ret);

#define SYMBOLIZE_NO_MODULE SIZE_MAX
struct symbolize_query {
	size_t module; /* which of the build IDs */
	enum symbolize_kind kind;
	uint64_t addr;
	/*
	 * It is where a call returns to (any frame but the innermost of a stack): what is wanted is the call,
	 * so the byte before it is looked up.
	 */
	bool is_return;
	struct str section;                   /* SYMBOLIZE_SECTION; empty: .text */
	const struct symbolize_mapping *maps; /* SYMBOLIZE_RUNTIME: of this module; borrowed */
	size_t n_maps;
};
struct symbolize_answer {
	enum symbolize_reason reason;
	uint64_t addr;                      /* in the ELF file; 0 where it is not known */
	const struct symtab_frames *frames; /* NULL: none. Good until the next question */
};
/* The answer to one address. Fastest when addresses of a module rise. */
void symbolize_ask(struct symbolize_hold *h, const struct symbolize_query *q, struct symbolize_answer *ret);
/* All of them, each once, in the order that is fastest; @i is the place in @q. */
void symbolize_ask_all(struct symbolize_hold *h, const struct symbolize_query *q, size_t n,
		       void (*fn)(void *arg, size_t i, const struct symbolize_answer *a), void *arg);

/* ---- names ---- */

enum symbolize_demangling {
	SYMBOLIZE_FULL,      /* ns::f<int>(int) */
	SYMBOLIZE_TEMPLATES, /* ns::f<int> */
	SYMBOLIZE_SIMPLE,    /* ns::f */
	SYMBOLIZE_NONE,      /* _ZN2ns1fIiEEvT_ */
};
/* "full", "templates", "simple", "none". */
bool symbolize_demangling_parse(struct str s, enum symbolize_demangling *ret);
/* A frame's function, appended; nothing when it is not known. Go's escapes ("%2e") are undone but for NONE.
 */
void symbolize_name(const struct symtab_frame *f, enum symbolize_demangling how, struct buf *out);

/* Breakpad's debug ID of an ELF file: a GUID of the build ID's first 16 bytes, and the age 0. Little endian
 * machines' order. */
#define SYMBOLIZE_DEBUG_ID_SIZE 34
char *symbolize_debug_id(const struct build_id *id, char out[SYMBOLIZE_DEBUG_ID_SIZE]);
