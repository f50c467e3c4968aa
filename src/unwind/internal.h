/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building a table.
 *
 *   build    from a file to its table: where functions are, in order, and the gaps between them
 *   frames   .eh_frame, .debug_frame: entries (CIE, FDE), and the index .eh_frame_hdr
 *   cfi      an entry's instructions: rows
 *   section  bytes of a section by windows
 *   gap      code without entries: linkage tables, the return from signal handlers
 *   init     _init and _fini
 *   go       code without entries: Go's functions
 *   pack     rows to the packed table
 */
#pragma once

#include "base/base.h"
#include "base/sort.h"
#include "unwind/pack.h"
#include "unwind/unwind.h"

/* ---- section.c ---- */

#define SECTION_WINDOW    KIB(64)
#define SECTION_OVERLAP   KIB(4)
#define SECTION_N_WINDOWS 8u

/*
 * Bytes of a section (or of any other range of the file), read by windows, so that a large one takes little memory. If it is
 * read in such an order that windows are read again and again, all of it is loaded.
 */
struct section {
	struct source *src;
	uint64_t off, size; /* in the file */
	uint64_t addr;
	const uint8_t *all; /* NULL: by windows */
	uint8_t *loaded;    /* owned: `all`, if it was not in memory already */
	uint8_t *windows;
	uint64_t of_window[SECTION_N_WINDOWS]; /* its number and 1 */
	uint8_t *long_entry;
	size_t room_long;
	uint64_t n_reads;
	struct budget_hold *memory;
	uint64_t held;
};
void section_init(struct section *s, struct source *src, struct byte_range range, uint64_t addr,
		  struct budget_hold *memory);
void section_done(struct section *s);
/* Bytes [off, off + n) of the section, which it has; valid until the next call. NULL: an error. */
const uint8_t *section_slow(struct section *s, uint64_t off, size_t n, struct err *err);
static inline const uint8_t *section_at(struct section *s, uint64_t off, size_t n, struct err *err)
{
	size_t slot = off / SECTION_WINDOW % SECTION_N_WINDOWS;

	if (s->all)
		return s->all + off;
	if (s->of_window[slot] == off / SECTION_WINDOW + 1 && n <= SECTION_OVERLAP)
		return s->windows + slot * (SECTION_WINDOW + SECTION_OVERLAP) + off % SECTION_WINDOW;
	return section_slow(s, off, n, err);
}

/* ---- cfi.c ---- */

#define CFI_RBX        3u
#define CFI_RBP        6u
#define CFI_RSP        7u
#define CFI_RA         16u
#define CFI_RA_UNKNOWN 4u /* beside enum unwind_ra: not supported */

/* The values of the registers that matter, at an address. */
struct cfi_state {
	uint8_t cfa, cfa_reg; /* enum unwind_cfa */
	uint8_t rbp, ra;      /* enum unwind_rbp, enum unwind_ra or CFI_RA_UNKNOWN */
	uint8_t rbx;          /* as in struct unwind_rule */
	int64_t cfa_off; /* stays while the CFA is an expression, and counts again when a register is set */
	int64_t expression, rbp_off, ra_off; /* the first: as in struct unwind_rule */
	/* The caller's rsp is not the CFA: where setcontext() and longjmp() load another stack. */
	bool own_rsp;
};

struct cfi_cie {
	uint64_t off; /* of the entry in the section */
	bool used;    /* this place of the cache is in use */
	bool sound;
	bool signal, has_size; /* augmentations S and z */
	uint8_t pointer;       /* the encoding of addresses */
	uint64_t code_align;
	int64_t data_align;
	struct cfi_state initial;
};

/* Instructions, and the addresses for which rows are made: [start, end), of which [start, limit) get rows. */
struct cfi_program {
	const uint8_t *p, *end;
	const struct cfi_cie *cie;
	uint64_t start, limit;
};
/* false: the instructions are damaged; the rest of the function gets a rule that is not supported. */
bool cfi_run(const struct cfi_program *program, struct pack *pack);
/* Run the initial instructions of a CIE, into cie->initial. */
bool cfi_run_initial(const uint8_t *p, const uint8_t *end, struct cfi_cie *cie);

/* ---- frames.c ---- */

#define FRAMES_CIES 256u

struct frames {
	struct section section;
	bool debug; /* .debug_frame */
	bool open;  /* the section's size is not known: it ends at an entry of size 0 */
	struct cfi_cie cies[FRAMES_CIES];
	uint64_t n_bytes; /* of entries that were read, CIEs included */
};

struct frames_function {
	uint64_t start, end;      /* addresses */
	uint64_t off;             /* of the entry */
	uint64_t code, code_size; /* its instructions */
	struct cfi_cie cie;       /* a copy: the cache keeps one only until the next is read */
};
enum { FRAMES_END = 1, FRAMES_OTHER = 2 };
/*
 * The entry at @off; *ret_next is where the next one starts. FRAMES_END: no more entries. FRAMES_OTHER: a CIE, or a damaged
 * entry; then *ret_damaged is set.
 */
int frames_read(struct frames *f, uint64_t off, struct frames_function *ret, uint64_t *ret_next,
		bool *ret_damaged, struct err *err);

/* ---- build.c ---- */

#define BUILD_RANGES 64u /* of code, in a file */

struct code_range {
	uint64_t start, end;
};
struct build {
	const struct elf_image *img;
	const struct unwind_options *o;
	struct unwind_stats stats;
	uint32_t flags;
	struct pack pack;
	struct code_range code[BUILD_RANGES]; /* executable segments, sorted and disjoint */
	size_t n_code;
	/* Loaded segments with bytes in the file, by their addresses; `at` is the segment's index. */
	struct sort_key *loads;
	size_t n_loads;
	uint64_t pos; /* addresses below it have their rows */
	struct gap_reader *gaps;
	uint64_t n_steps; /* since the last check of o->cancel */
};

/* Functions of a section, sorted by their starts. */
struct collected {
	struct sort_key *list; /* the start, and the offset of the entry */
	size_t n, room;
	uint64_t held;
	struct budget_hold *memory;
};
int build_collect(struct build *b, struct frames *frames, struct collected *c, struct err *err);
void collected_done(struct collected *c);
int build_check_cancel(struct build *b, struct err *err);

/* ---- gap.c ---- */

/* Reads the code that has no entries in .eh_frame. Damage of another table is no error. */
int gap_reader_new(struct build *b, struct gap_reader **ret, struct err *err);
void gap_reader_free(struct gap_reader *g); /* takes NULL */
/* Rows for the gap [from, to), which is in one executable segment. The row at @from says that there is no rule. */
int gap_fill(struct build *b, uint64_t from, uint64_t to, struct err *err);
/*
 * The range of the file from address @addr to the end of its segment; of segments that overlap, which the ELF
 * specification excludes, the one that starts last. false: the file has no bytes for it.
 */
bool gap_file_range(const struct build *b, uint64_t addr, struct byte_range *ret);
/* Up to @n bytes from there; *ret may be fewer, or 0. */
int gap_read_code(const struct build *b, uint64_t addr, uint8_t *to, size_t n, size_t *ret, struct err *err);

/* ---- init.c ---- */

/* _init or _fini: it has a word more on the stack from byte @begun to byte @ends. */
struct init_code {
	uint64_t begun, ends;
};
/* The section [start, end). 1: it is of a known form. 0: it is not. */
int init_find(const struct build *b, uint64_t start, uint64_t end, struct init_code *ret, struct err *err);

/* ---- go.c ---- */

struct go_rows;
/* Go's table of the file; NULL: it has none, or a damaged one. */
int go_rows_new(struct build *b, struct go_rows **ret, struct err *err);
void go_rows_free(struct go_rows *g); /* takes NULL */
/* The next function from @from on that starts before @to. false: there is none. */
bool go_rows_next(struct go_rows *g, uint64_t from, uint64_t to, struct code_range *ret);
/* Rows of the function that was found last, up to @limit. */
int go_rows_add(struct go_rows *g, struct build *b, uint64_t limit, struct err *err);
