/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of symtab share.
 *
 *   intern   strings, files, functions: each once
 *   batch    units made into code ranges: contiguous code of one function, with its calls and rows
 *   rows     the byte code of rows, written and read
 *   go       Go's own table into code ranges
 *   symbols  ELF symbols
 *   dynamic  those of a file without sections
 *   plt      names of linkage table entries
 *   overlaps_resolve    of what lies over one another, what is seen
 *   block    code ranges made into blocks
 *   strings  a block's strings
 *   build    all of it in its order, and the head
 *   open     a table's head and blocks
 *   find     an address to its frames; rows.h: the rows on the way
 *   verify   the table against DWARF
 */
#pragma once

#include "base/leb.h"
#include "symtab/symtab.h"

/* ---- intern ---- */

/* From numbers to the numbers 1, 2, ... in the order in which they came; open addressing. */
struct id_map_slot {
	uint32_t key, value; /* value up to the map's `before`: free */
};
struct id_map {
	struct id_map_slot *slots;
	uint32_t n, n_slots;
	uint32_t before; /* numbers given before the map was cleared */
};
/* The number of @key; it is n if the key is new. */
uint32_t id_map_at(struct id_map *m, uint32_t key);
void id_map_clear(struct id_map *m);
void id_map_done(struct id_map *m);

/* From four numbers to numbers. */
struct quad {
	uint32_t v[4];
};
struct quad_slot {
	struct quad key;
	uint32_t value; /* 0: free */
};
struct quad_map {
	struct quad_slot *slots;
	size_t n, n_slots;
	uint64_t seed;
};
/* The place of the value under @key, which is 0 if the key is new: the caller then sets it to something else.
 * Good until the next call. */
uint32_t *quad_map_at(struct quad_map *m, struct quad key);
/* It shall not be there after all. Right behind quad_map_at(), which gave @place. */
void quad_map_undo(struct quad_map *m, uint32_t *place);
/* The key will be asked for soon: maps are larger than caches. */
void quad_map_prefetch(const struct quad_map *m, const struct quad *key);
/* Places stay until @n more keys have come. */
void quad_map_room(struct quad_map *m, size_t n);
void quad_map_done(struct quad_map *m);

struct file_id {
	uint32_t dir, name; /* strings */
};
struct function_id {
	uint32_t name, linkage; /* strings */
	uint32_t file, line;    /* where it is declared */
};

/* Of ids by hashes of what they stand for, which are kept: to grow, nothing else has to be looked at. */
struct id_slot {
	uint32_t hash, id; /* id 0: free */
};
struct id_slots {
	struct id_slot *list;
	size_t n_slots;
};

/* Ids are those of the order in which things came, from 1; 0 is the empty one, "not known". */
struct intern {
	uint64_t seed;
	struct arena arena;
	struct str *strings;
	struct file_id *files;
	struct function_id *functions;
	size_t n_strings, room_strings, n_files, room_files, n_functions, room_functions;
	struct quad_map by_files; /* of directory and name */
	struct id_slots string_slots, function_slots;
};
void intern_init(struct intern *in);
void intern_done(struct intern *in);
/* @stays: the bytes are there as long as the intern; else they are copied if they are new. */
uint32_t intern_str(struct intern *in, struct str s, bool stays);
/* It will be asked for; what is returned is its hash. */
uint32_t intern_str_prefetch(const struct intern *in, struct str s);
uint32_t intern_str_hashed(struct intern *in, struct str s, uint32_t hash, bool stays);
uint32_t intern_file(struct intern *in, uint32_t dir, uint32_t name);
uint32_t intern_function(struct intern *in, const struct function_id *f);
uint32_t intern_function_prefetch(const struct intern *in, const struct function_id *f);
uint32_t intern_function_hashed(struct intern *in, const struct function_id *f, uint32_t hash);

/* ---- batch ---- */

/* A place that rows refer to: a call (or the function itself) in its usual file, or the same in another file.
 */
struct range_entry {
	uint32_t parent;   /* entry of the code range; of `other_file` the one that it is another file of */
	uint32_t function; /* of a call; 0 for the first and for `other_file` */
	uint32_t file, line;
	uint32_t call_file, call_line;
	uint16_t call_column, column;
	uint8_t other_file;
	uint8_t passive; /* was needed as a parent before it had rows; PASSIVE_USED: has them by now */
};

enum { PASSIVE_USED = 2 };

/* The discriminators that belong to an entry's columns. Few tables have them. */
struct range_entry_more {
	uint32_t discriminator, call_discriminator;
};

/*
 * Where columns are handed on together with a discriminator: the lower 16 bits are the column, the 32 above
 * them the discriminator, 0 in tables without. So it is written, too.
 */
static inline uint64_t column_with(uint16_t column, uint32_t discriminator)
{
	return column | (uint64_t)discriminator << 16;
}

/* Before the next function, which begins at a multiple of 16: padding is less than that. */
#define PADDING_END 16u

struct code_range {
	uint64_t start;
	uint32_t size;
	uint32_t tail;     /* bytes behind it that its last row goes on over: padding, nobody's code */
	uint32_t function; /* 0: not known */
	uint32_t batch;
	uint32_t first_entry, n_entries;
	uint64_t rows_off;
	uint32_t rows_size;
	uint32_t unit;
	uint8_t origin;
	bool part;        /* the function of the code range before goes on in it */
	bool columns;     /* its rows may have some */
	bool from_symbol; /* it is another one's tail: seen where a symbol begins in it, and nowhere else */
};

struct skipped {
	size_t unit;
	char *reason;
};

/* What one thread makes of its units. */
struct batch {
	const struct dwarf *dwarf;
	struct dwarf_reader *reader;
	struct intern in;
	/* Ids + 1 of what the units before had: functions and files by what tells them apart in the DWARF. */
	struct quad_map known, known_files;
	struct code_range *ranges;
	struct range_entry *entries;
	struct range_entry_more *more; /* of each entry; NULL: without discriminators */
	struct buf rows;
	size_t n_ranges, room_ranges, n_entries, room_entries, room_more;
	struct skipped *skipped;
	size_t n_skipped, room_skipped;
	uint32_t flags;
	uint64_t n_functions, n_inlined, n_rows;
	uint64_t row_budget; /* steps over rows that may still be made */
	bool columns, discriminators;
	const atomic_bool *cancel; /* NULL: nobody cancels it */
	uint32_t index;
	struct unit_work *work;
};

struct batch *batch_new(const struct dwarf *d, uint32_t index, const struct symtab_options *o);
void batch_free(struct batch *b);
/* There are no more units: what is needed only to read them is given back, but for what they were read into,
 * which @room gets if it has none and is not NULL. */
void batch_end(struct batch *b, struct buf *room);
/* The units [first, end). Damage is listed; what is returned is a failure of the system. */
int batch_run(struct batch *b, size_t first, size_t end, struct err *err);
void batch_skip(struct batch *b, size_t unit, const struct err *why);

/* ---- rows ---- */

/*
 * The code of rows: each op moves on to the next row, by its low 4 bits + 1. docs/formats/symtab.md says what
 * they are.
 */
enum {
	ROW_STEPS = 16,
	/* The high bits. */
	ROW_NEW = 0,  /* the next new entry */
	ROW_BACK = 1, /* up to 4: a place that was in force before, the last first */
	ROW_NEAR = 5, /* up to 11: the same entry, its line -1 to +5 */
	ROW_NEAR_FIRST = -1,
	ROW_LINE = 12,   /* the same entry */
	ROW_PARENT = 13, /* the call that the entry's call stands in */
	ROW_BEFORE = 14, /* the entry before this one */
	ROW_ENTRY = 15,  /* any; steps up to 12 */
	/* Before an op: how much further its step goes, or what it is. */
	ROW_FAR = 252, /* 16, 32, 48 more */
	ROW_STEP = 255,
	ROW_PLACES = ROW_NEAR - ROW_BACK,
};

struct row_place {
	union {
		struct {
			uint32_t entry, line;
		};
		uint64_t both;
	};
	uint64_t column; /* column_with() */
};

struct row_state {
	uint32_t addr;
	uint32_t before; /* the entry that was in force before that of `at` */
	uint32_t n_new;  /* entries that have been in force, or passed by as passive ones */
	struct row_place at;
	struct row_place back[ROW_PLACES]; /* before `at`, the last first, each once */
};

struct row_writer {
	struct row_state st;
	struct buf *out;
	bool columns;
};

static inline bool row_place_is(const struct row_place *a, const struct row_place *b)
{
	return a->both == b->both && a->column == b->column;
}

/* Which of the places before it is; ROW_PLACES: none. */
static inline unsigned row_state_find(const struct row_state *st, const struct row_place *to)
{
	unsigned k = 0;

	while (k < ROW_PLACES && !row_place_is(&st->back[k], to))
		k++;
	return k;
}

/* Go to @to, which is the place before @k or, if that is ROW_PLACES, none of them. */
static inline void row_state_go(struct row_state *st, struct row_place to, unsigned k)
{
	if (to.entry != st->at.entry)
		st->before = st->at.entry;
	else if (row_place_is(&to, &st->at))
		return;
	/* Those before @k each one on. A loop would take as long as all of the rest. */
	_Static_assert(ROW_PLACES == 4, "as many as are moved here");
	switch (k) {
	default:
		st->back[3] = st->back[2];
		__attribute__((fallthrough));
	case 2:
		st->back[2] = st->back[1];
		__attribute__((fallthrough));
	case 1:
		st->back[1] = st->back[0];
		__attribute__((fallthrough));
	case 0:
		break;
	}
	st->back[0] = st->at;
	st->at = to;
}

/* ---- symbols ---- */

struct symbol {
	uint64_t start, end; /* end == start: its size is not known */
	struct str name;
	uint8_t origin;
	uint8_t rank; /* among those at one address, the lower the better */
};
struct symbols {
	struct symbol *list; /* sorted by start, then the best first */
	size_t n, room;
	struct arena arena;
	uint32_t flags;
};
/* Symbols of code out of .symtab, .gnu_debugdata and .dynsym. What is damaged is told in @ret_damage
 * (ERR_NONE: nothing). */
int symbols_read(struct symbols *s, const struct elf_image *img, const struct dwarf_section_place *code,
		 size_t n_code, struct err *ret_damage, struct err *err);
void symbols_done(struct symbols *s);
/* The dynamic symbols of a file without sections, and their names, in @a. 1: there are none. */
int dynamic_symbols(const struct elf_image *img, struct arena *a, struct bytes *ret_symbols,
		    struct bytes *ret_names, struct err *err);
/* Add names of procedure linkage table entries. */
int plt_read(struct symbols *s, const struct elf_image *img, struct err *err);

/* ---- overlaps_resolve ---- */

struct span {
	uint64_t start, end;
	uint32_t rank; /* the lower is seen; of equal ones the one that starts later, then the one of the
			  lower `what` */
	uint32_t what;
};
/* What is seen of @in, into *ret (heap), disjoint and sorted. @in is sorted in place. */
size_t overlaps_resolve(struct span *in, size_t n, struct span **ret);

/* ---- Go ---- */

const struct elf_section *go_section(const struct elf_image *img); /* NULL: it is none of Go's */
/*
 * Go's table into code ranges of @b, but for functions that begin in one of @dwarf (sorted, disjoint). There is a
 * table. ERR_INVALID, ERR_LIMIT: damage; what was read before it is there.
 */
int go_read(struct batch *b, const struct elf_image *img, const struct dwarf_section_place *code,
	    size_t n_code, const struct span *dwarf, size_t n_dwarf, struct err *err);

/* ---- block ---- */

struct block_index {
	uint64_t first, last; /* addresses: the first code range's begin; the last one's end */
	uint64_t off;
	uint32_t size, check;
};
struct block_writer;
struct visible_range {
	uint64_t start, end;
	const struct code_range *range; /* NULL: a symbol alone */
	const struct range_entry *entries;
	const struct range_entry_more *more; /* of each of them, or NULL */
	const uint8_t *rows;
	uint64_t tail;          /* bytes behind end that have the last row and no function */
	uint64_t before, after; /* bytes of the function that are in the parts before it, behind it */
	uint32_t name, linkage; /* strings; 0: the function's */
	uint8_t origin;
};
/* Blocks go to @out, which must be empty or have only what is before them. */
struct block_writer *block_writer_new(struct intern *in, struct buf *out, bool columns);
int block_writer_add(struct block_writer *w, const struct visible_range *p, struct err *err);
int block_writer_finish(struct block_writer *w, struct err *err);
size_t block_writer_index(const struct block_writer *w, const struct block_index **ret);
void block_writer_free(struct block_writer *w);

/* ---- the bytes of a table ---- */

#define HEAD_MAGIC   "LODE\x01SYM"
#define HEAD_SIZE    192u /* of the fixed part */
#define INDEX_SIZE   32u  /* of one block's row */
#define BLOCK_HEAD   24u
#define BLOCK_TARGET KIB(192)
#define TABLE_PAD    32u /* zeros behind everything: reads of numbers need not look for the end first */
#define FIRST_READ   KIB(32)

/* Of a code range's record. */
enum {
	RANGE_ORIGIN = 7,
	RANGE_PART = 7, /* for the origin: DWARF, and the function has other parts */
	RANGE_ROWS = 1 << 3,
	RANGE_SKIP = 1 << 4, /* rows begin before the code range */
	RANGE_LINKAGE = 1 << 5,
	RANGE_DECL = 1 << 6,
	RANGE_TAIL = 1 << 7,
};
#define STRINGS_GROUP 16u  /* strings that are read together */
#define STRINGS_PACK  128u /* ... that are packed together: some groups */

/* Of an entry. */
enum {
	ENTRY_OTHER_FILE = 1 << 0,
	ENTRY_PASSIVE = 1 << 1,
	ENTRY_DECL_FILE = 1 << 2, /* its file is that of the declaration; of other_file: unused */
	ENTRY_CALL_FILE = 1 << 3, /* explicit; else the parent's file */
	ENTRY_PARENT = 3 << 4,
	ENTRY_PARENT_LAST = 0 << 4,  /* the entry before */
	ENTRY_PARENT_SAME = 1 << 4,  /* the same as that of the call before */
	ENTRY_PARENT_FIRST = 2 << 4, /* the function */
	ENTRY_PARENT_OTHER = 3 << 4,
	ENTRY_CALL_COLUMN = 1 << 6,
	ENTRY_COLUMNS = 1 << 6, /* of entry 0: rows and begins have columns */
	ENTRY_USUAL = 1 << 7,   /* begins where calls of its function usually do */
};

struct symtab {
	struct source *src; /* NULL: in memory */
	bool takes;
	struct bytes bytes; /* in memory: all of it */
	uint8_t *head;      /* heap, if over a source */
	struct arena arena;
	struct symtab_info info;
	const uint8_t *index; /* n_blocks rows */
	size_t n_blocks;
	_Atomic uint8_t *checked; /* of each block: it has been held against its sum. In memory only */
};

struct block {
	struct bytes bytes; /* TABLE_PAD readable bytes behind */
	uint64_t first, last;
	uint32_t n_ranges, records, functions, files, strings;
	uint32_t n_files, n_strings;
};
void symtab_index(const struct symtab *t, size_t i, struct block_index *ret);
/* The last block that begins at or before @addr; SIZE_MAX: none. */
size_t symtab_block_at(const struct symtab *t, uint64_t addr);
/* Block @i; in @room if the table is over a source. */
int symtab_block(struct symtab *t, size_t i, struct buf *room, struct block *ret, struct err *err);

/* ---- a block's strings ---- */

/* Those that were asked for. Nothing of it is a view of the block: that may lie elsewhere the next time. */
struct string_pack {
	struct bytes text;                                /* unpacked; p NULL: it is in the block as it is */
	struct str *groups[STRINGS_PACK / STRINGS_GROUP]; /* NULL: not read yet */
};
struct block_strings {
	struct arena arena;
	struct string_pack **packs; /* in the arena; NULL: not yet */
	size_t room;
};
void block_strings_start(struct block_strings *s, const struct block *b);
void block_strings_done(struct block_strings *s); /* takes the zeroed */
/* A group of them, the missing ones empty. */
const struct str *block_strings_read(struct block_strings *s, const struct block *b, size_t group);
/* What is needed to write them, kept from block to block. */
struct string_writer {
	struct buf text, groups;
	void *lz4; /* its stream */
};
void string_writer_done(struct string_writer *w); /* takes the zeroed */
/* @n strings of rising bytes, as blocks have them. */
void block_strings_write(struct string_writer *w, struct buf *out, const struct str *list, size_t n);
/* @n strings may be what @size bytes hold. */
bool block_strings_fit(uint64_t n, uint64_t size);

/* Good until the next start. Empty: there is none. */
static inline struct str block_string(struct block_strings *s, const struct block *b, uint32_t number)
{
	const struct str *group = NULL;
	const struct string_pack *pack;
	size_t i = (size_t)number - 1;

	if (!number || number > b->n_strings)
		return (struct str){ 0 };
	pack = s->packs[i / STRINGS_PACK];
	if (pack)
		group = pack->groups[i % STRINGS_PACK / STRINGS_GROUP];
	if (!group)
		group = block_strings_read(s, b, i / STRINGS_GROUP);
	return group[i % STRINGS_GROUP];
}

/* Of the blocks that were asked last: who asks here and there comes back to the same again and again. */
#define STRINGS_KEPT 128u
struct strings_kept {
	struct strings_of {
		size_t block; /* + 1; 0: none */
		struct block_strings s;
	} list[STRINGS_KEPT];
};
/* Those of @block, which is @b. The ones before it may be gone. */
struct block_strings *strings_kept_of(struct strings_kept *k, size_t block, const struct block *b);
void strings_kept_done(struct strings_kept *k);

static inline uint32_t get32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, 4);
	return le32toh(v);
}
static inline uint64_t get64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, 8);
	return le64toh(v);
}
