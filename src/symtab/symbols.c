/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ELF symbols of code: .symtab, the .symtab within .gnu_debugdata, .dynsym.
 *
 * A stripped file has only .dynsym left; .gnu_debugdata has the symbols that are not in .dynsym. So all are
 * read, and the best of those at one address comes first. `strip -g` leaves .symtab in the program, and `eu-strip -g -f`
 * puts none into the debug file.
 */
#include "codec/codec.h"
#include "symtab/build.h"

#include <elf.h>
#include <stdlib.h>
#include "base/search.h"
#include "base/sort.h"
#include "symtab/go.h"

#define TABLE_MAX MIB(1024)
/* Symbol tables of one file, for each of which all sections are searched. Files have one of each of two kinds. */
#define TABLES_MAX 16u
#define MINI_MAX   MIB(256) /* .gnu_debugdata decompressed */
/* Symbols at one address that are compared with the name in a mark. */
#define ALIASES_MAX 64u
/* Bytes between such a mark and its function at most; kernels have 11 to 59. */
#define MARK_GAP_MAX 256u

struct symbols_reader {
	struct symbols *s;
	const struct elf_image *img, *program; /* program: of which img is the debug file, or NULL */
	const struct dwarf_section_place *code;
	size_t n_code;
	const uint64_t *bases; /* of a relocatable file's sections */
	struct bytes opd;      /* function descriptors, at opd_addr: 64-bit PowerPC, first ABI */
	uint64_t opd_addr;
	bool opd_lacks;      /* this file has descriptors without their bytes */
	uint32_t n_nameless; /* of one table: symbols whose names are not in the section of names */
	uint8_t origin;
};

/* Whether no person gave this name: mapping symbols ($a, $x.1), which have no type, local labels, marks that a
 * compiler's plugin for notes puts before functions. */
static bool name_is_noise(struct str name, uint8_t type)
{
	if (!name.size)
		return true;
	if (type == STT_NOTYPE && name.p[0] == '$' && name.size > 1 && strchr("adtx", name.p[1]) &&
	    (name.size == 2 || name.p[2] == '.' || (name.p[1] == 'x' && name.p[2] == 'r')))
		return true;
	return str_starts(name, STR(".L")) || str_starts(name, STR(".annobin_")) ||
	       str_eq(name, STR("gcc2_compiled.")) || str_eq(name, STR("gcc_compiled."));
}

/* The rank among symbols at one address: functions before labels, global before local, names without
 * underscores before others. */
static uint8_t symbol_rank(uint8_t type, uint8_t binding, struct str name)
{
	uint8_t rank = 0;

	if (type == STT_NOTYPE)
		rank |= 16;
	if (binding == STB_LOCAL)
		rank |= 8;
	else if (binding != STB_GLOBAL)
		rank |= 4;
	if (str_starts(name, STR("__")))
		rank |= 2;
	return rank;
}

int symbols_grow(struct symbols *s, struct err *err)
{
	size_t room;

	if (s->n < s->room)
		return 0;
	/* Several tables may have the same bytes of the file. */
	room = vec_room(s->room, s->n + 1);
	if (budget_hold_add(s->memory, (room - s->room) * sizeof(*s->list), err) < 0)
		return -1;
	s->held += (room - s->room) * sizeof(*s->list);
	VEC_GROW(s->list, s->n, s->room);
	return 0;
}

/* Note why a table could not be read. Returns -1 if that is a failure of the system. */
static int symbols_damage_note(struct symbols *s, const struct err *why)
{
	return err_note_input(why, s->damage, SYMBOLS_MAX_DAMAGE, &s->n_damage);
}

static int symbol_read(struct symbols_reader *r, struct cursor *c, struct bytes names, uint32_t index,
		       struct bytes shndx, struct err *err)
{
	bool is64 = r->img->h.is64;
	struct symbol sym = { .origin = r->origin };
	uint64_t value = 0, size = 0;
	uint32_t name = cursor_u32(c), section;
	const struct dwarf_section_place *place;
	uint8_t info, type;
	const uint8_t *nul;
	const char *at;

	if (!is64) {
		value = cursor_u32(c);
		size = cursor_u32(c);
	}
	info = cursor_u8(c);
	cursor_u8(c);
	section = cursor_u16(c);
	if (is64) {
		value = cursor_u64(c);
		size = cursor_u64(c);
	}
	type = info & 15;
	if (type != STT_NOTYPE && type != STT_FUNC && type != STT_GNU_IFUNC)
		return 0;
	if (section == SHN_XINDEX && shndx.size / 4 > index)
		section = r->img->h.big
				  ? be32toh(*(const uint32_t *)(const void *)(shndx.p + 4 * (size_t)index))
				  : get32(shndx.p + 4 * (size_t)index);
	else if (section == SHN_UNDEF || section >= SHN_LORESERVE)
		return 0;
	nul = name < names.size ? memchr(names.p + name, 0, MIN(names.size - name, DWARF_MAX_NAME)) : NULL;
	if (!nul) {
		r->n_nameless++;
		return 0;
	}
	sym.name = (struct str){ (const char *)names.p + name, (size_t)(nul - (names.p + name)) };
	at = memchr(sym.name.p, '@', sym.name.size);
	if (at && at != sym.name.p)
		sym.name.size = (size_t)(at - sym.name.p); /* f@@VERSION */
	if (name_is_noise(sym.name, type))
		return 0;
	if (r->img->h.machine == EM_ARM || r->img->h.machine == EM_MIPS)
		value &= ~(uint64_t)1; /* marks another instruction set */
	if (r->bases) {
		if (section >= r->img->n_sections || (!r->bases[section] && section != r->code[0].index))
			return 0;
		value += r->bases[section];
	}
	/* The first ABI of 64-bit PowerPC: f is a descriptor in .opd, .f the code. */
	if (r->img->h.machine == EM_PPC64 && type == STT_FUNC && sym.name.size > 1 && sym.name.p[0] == '.')
		sym.name = (struct str){ sym.name.p + 1, sym.name.size - 1 };
	if (value - r->opd_addr < r->opd.size && r->opd.size - (value - r->opd_addr) >= 8) {
		struct cursor d = cursor_at(r->opd, r->img->h.big, 0);

		cursor_skip(&d, value - r->opd_addr);
		value = cursor_u64(&d);
	}
	place = dwarf_place_at(r->code, r->n_code, value);
	/* If neither sections nor segments tell code from data, a label may be one of data. */
	if (!place || (place->size == DWARF_CODE_ANYWHERE && type == STT_NOTYPE))
		return 0;
	/* Without the descriptors nothing tells where the function after a label starts: the label is one address. */
	if (!size && r->opd_lacks)
		size = 1;
	sym.start = value;
	sym.end = value + MIN(size, place->base + place->size - value);
	sym.rank = symbol_rank(type, info >> 4, sym.name);
	if (r->s->n >= SYMTAB_MAX_SYMBOLS)
		return err_set(err, ERR_LIMIT, "more than the %u symbols allowed", SYMTAB_MAX_SYMBOLS);
	if (symbols_grow(r->s, err) < 0)
		return -1;
	r->s->list[r->s->n++] = sym;
	return 0;
}

/* An error about some of the symbols does not take back the others. */
static int symbols_each(struct symbols_reader *r, struct bytes table, struct bytes names, struct bytes shndx,
			struct err *err)
{
	struct cursor c = cursor_at(table, r->img->h.big, 0);
	unsigned entry = r->img->h.is64 ? 24 : 16;

	r->n_nameless = 0;
	for (uint32_t index = 0; cursor_left(&c) >= entry; index++)
		if (symbol_read(r, &c, names, index, shndx, err) < 0)
			return -1;
	if (r->n_nameless)
		return err_set(err, ERR_INVALID,
			       "%u of the table's symbols have no name in its section of names",
			       r->n_nameless);
	return 0;
}

static int symbol_table_read(struct symbols_reader *r, const struct elf_section *sec, struct err *err)
{
	struct bytes table = { 0 }, names = { 0 }, shndx = { 0 };
	const struct elf_section *numbers;
	int rc;

	if (!sec->link || sec->link >= r->img->n_sections)
		return err_set(err, ERR_INVALID, "a symbol table without names");
	rc = elf_section_read(r->img, sec, TABLE_MAX, &r->s->arena, &table, err);
	if (rc == 0)
		rc = elf_section_read(r->img, &r->img->sections[sec->link], TABLE_MAX, &r->s->arena, &names,
				      err);
	if (rc)
		return rc < 0 ? -1 : 0;
	numbers = elf_section_shndx(r->img, sec->index);
	if (numbers && elf_section_read(r->img, numbers, TABLE_MAX, &r->s->arena, &shndx, err) < 0)
		return -1;
	return symbols_each(r, table, names, shndx, err);
}

/* The section of function descriptors. NULL: @img has none. */
static const struct elf_section *opd_section(const struct elf_image *img)
{
	return img->h.machine == EM_PPC64 && img->h.type != ET_REL ? elf_section_find(img, ".opd") : NULL;
}

/*
 * The descriptors are data: a debug file has their section without bytes, which the program has at the same address. If that
 * section is damaged, the symbols that need none remain.
 */
static int opd_read(struct symbols_reader *r, struct err *err)
{
	const struct elf_section *sec = opd_section(r->img), *other;
	const struct elf_image *img = r->img;

	if (!sec)
		return 0;
	r->opd_addr = sec->addr;
	other = sec->type == SHT_NOBITS && r->program ? opd_section(r->program) : NULL;
	if (other && other->addr == sec->addr) {
		img = r->program;
		sec = other;
	}
	if (elf_section_read(img, sec, TABLE_MAX, &r->s->arena, &r->opd, err) < 0) {
		(void)err_in(err, "function descriptors");
		if (symbols_damage_note(r->s, err) < 0)
			return -1;
	}
	r->opd_lacks = !r->opd.size;
	return 0;
}

static int dynamic_read(struct symbols_reader *r, struct err *err)
{
	struct bytes table, names, none = { 0 };
	int rc = dynamic_symbols(r->img, &r->s->arena, &table, &names, err);

	if (rc)
		return rc < 0 ? -1 : 0;
	r->origin = SYMTAB_DYNAMIC;
	r->s->flags |= SYMTAB_HAS_SYMBOLS;
	return symbols_each(r, table, names, none, err);
}

static int image_read(struct symbols_reader *r, struct err *err)
{
	AUTO(mem_freep) uint64_t *bases = NULL;
	unsigned n = 0;

	if (r->img->h.type == ET_REL && r->n_code)
		bases = dwarf_code_bases(r->img, r->code, r->n_code);
	r->bases = bases;
	if (opd_read(r, err) < 0)
		return err_in(err, "symbols");
	if (r->img->n_sections <= 1)
		return dynamic_read(r, err) < 0 ? err_in(err, "dynamic symbols") : 0;
	for (uint32_t i = 1; i < r->img->n_sections; i++) {
		const struct elf_section *sec = &r->img->sections[i];

		if (sec->type != SHT_SYMTAB && sec->type != SHT_DYNSYM)
			continue;
		if (++n > TABLES_MAX)
			return err_set(err, ERR_LIMIT, "symbols: more than the %u tables allowed",
				       TABLES_MAX);
		if (r->origin != SYMTAB_MINIDEBUG)
			r->s->flags |= SYMTAB_HAS_SYMBOLS;
		if (sec->type == SHT_DYNSYM && r->origin == SYMTAB_MINIDEBUG)
			continue;
		if (r->origin != SYMTAB_MINIDEBUG)
			r->origin = sec->type == SHT_SYMTAB ? SYMTAB_SYMBOL : SYMTAB_DYNAMIC;
		if (symbol_table_read(r, sec, err) < 0) {
			err_in(err, "symbols: section %u", i);
			if (symbols_damage_note(r->s, err) < 0)
				return -1;
		}
	}
	return 0;
}

/* .gnu_debugdata, decompressed. */
struct mini_content {
	struct budget_hold *memory;
	struct buf b;
};

static int mini_take(void *arg, struct bytes chunk, struct err *err)
{
	struct mini_content *m = arg;

	if (chunk.size > MINI_MAX - m->b.size)
		return err_set(err, ERR_LIMIT, "more than %zu bytes", (size_t)MINI_MAX);
	if (budget_hold_add(m->memory, chunk.size, err) < 0)
		return err_in(err, "after %zu decompressed bytes", m->b.size);
	buf_add(&m->b, chunk.p, chunk.size);
	return 0;
}

static void mini_done(struct mini_content *m)
{
	budget_hold_sub(m->memory, m->b.size);
	buf_done(&m->b);
}

/*
 * Read .gnu_debugdata: an ELF file with a symbol table, compressed by xz. Its symbols are addresses of the
 * outer file. A relocatable one has none: its symbols would be offsets into its own sections, and r->code has
 * the outer file's.
 */
static int mini_read(struct symbols_reader *r, struct err *err)
{
	const struct elf_section *sec = elf_section_find(r->img, ".gnu_debugdata");
	AUTO(stream_closep) struct stream *xz = NULL;
	AUTO(mini_done) struct mini_content content = { .memory = r->s->memory };
	AUTO(source_closep) struct source *src = NULL;
	struct symbols_reader mini = *r;
	struct elf_image *img = NULL;
	struct stream *raw = NULL;
	int rc;

	if (!sec)
		return 0;
	rc = elf_section_stream(r->img, sec, &raw, err);
	if (rc)
		return rc < 0 ? -1 : 0;
	if (codec_stream_open(CODEC_XZ, raw, &xz, err) < 0 || stream_each(xz, mini_take, &content, err) < 0)
		return -1;
	src = source_of_mem(buf_bytes(&content.b), ".gnu_debugdata");
	rc = elf_open(src, &img, err);
	if (rc)
		return rc < 0 ? -1 : err_set(err, ERR_INVALID, "is not ELF");
	mini.img = img;
	mini.program = r->img;
	mini.origin = SYMTAB_MINIDEBUG;
	if (img->h.type == ET_REL)
		rc = err_set(err, ERR_INVALID, "is a relocatable file, whose symbols have no addresses");
	else
		rc = image_read(&mini, err);
	elf_close(img);
	return rc;
}

static int symbol_by_rank(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (x->name.size != y->name.size)
		return x->name.size < y->name.size ? -1 : 1;
	if (str_cmp(x->name, y->name))
		return str_cmp(x->name, y->name);
	if (x->origin != y->origin)
		return x->origin < y->origin ? -1 : 1;
	return x->end > y->end ? -1 : x->end < y->end;
}

/* Sort by start; of equal starts the best is the first. */
static int symbols_sort(struct symbols *s, struct err *err)
{
	uint64_t more = s->n * (sizeof(struct sort_key) + sizeof(struct symbol));
	struct sort_key *keys;
	struct symbol *list;

	if (budget_hold_add(s->memory, more, err) < 0)
		return -1;
	keys = NEW_N(struct sort_key, s->n);
	list = NEW_N(struct symbol, s->n);
	for (size_t i = 0; i < s->n; i++)
		keys[i] = (struct sort_key){ s->list[i].start, i };
	sort_keys(keys, s->n);
	for (size_t i = 0, first = 0; i < s->n; i++) {
		list[i] = s->list[keys[i].at];
		if (i + 1 < s->n && keys[i + 1].key == keys[i].key)
			continue;
		SORT(list + first, i + 1 - first, symbol_by_rank);
		first = i + 1;
	}
	free(keys);
	free(s->list);
	s->list = list;
	s->room = s->n;
	s->held += more;
	budget_hold_track(s->memory, &s->held, s->room * sizeof(*s->list));
	return 0;
}

/*
 * Clang puts the hash of a function's type before it (-fsanitize=kcfi), with the symbol __cfi_f: no code. The symbol
 * ends at f, or before the padding that -fpatchable-function-entry=N,M puts there. The functions of its runtime
 * (__cfi_check, __cfi_slowpath) are no such marks.
 */
static bool symbol_marks_next(const struct symbols *s, size_t at)
{
	static const struct str prefix = STR("__cfi_");
	const struct symbol *mark = &s->list[at];
	struct str name = mark->name;
	uint64_t start;
	size_t i;

	if (!str_starts(name, prefix))
		return false;
	name = (struct str){ name.p + prefix.size, name.size - prefix.size };
	/* A mark may have no size. */
	i = SEARCH(at, s->n, k, s->list[k].start < MAX(mark->end, mark->start + 1));
	start = i < s->n ? s->list[i].start : 0;
	if (i == s->n || start - mark->end > MARK_GAP_MAX)
		return false;
	for (unsigned tries = 0; i < s->n && s->list[i].start == start && tries < ALIASES_MAX; i++, tries++)
		if (str_eq(s->list[i].name, name))
			return true;
	return false;
}

/* Drop those of the sorted symbols that only mark the next one. */
static void symbols_drop_marks(struct symbols *s)
{
	size_t n = 0;

	/* The symbols after the one at hand are where they were. */
	for (size_t i = 0; i < s->n; i++)
		if (!symbol_marks_next(s, i))
			s->list[n++] = s->list[i];
	s->n = n;
}

static int tables_read(struct symbols *s, const struct elf_image *img, const struct elf_image *program,
		       const struct dwarf_section_place *code, size_t n_code, struct err *err)
{
	struct symbols_reader r = { .s = s, .img = img, .program = program, .code = code, .n_code = n_code };

	if (img->sections_err.kind && symbols_damage_note(s, &img->sections_err) < 0) {
		*err = img->sections_err;
		return -1;
	}
	if (image_read(&r, err) < 0 && symbols_damage_note(s, err) < 0)
		return -1;
	if (mini_read(&r, err) == 0)
		return 0;
	err_in(err, ".gnu_debugdata");
	return symbols_damage_note(s, err);
}

static bool has_symbol_table(const struct elf_image *img)
{
	for (uint32_t i = 1; i < img->n_sections; i++)
		if (img->sections[i].type == SHT_SYMTAB)
			return true;
	return false;
}

bool symtab_needs_program(const struct elf_image *img)
{
	const struct elf_section *opd = opd_section(img);

	return !has_symbol_table(img) || (opd && opd->type == SHT_NOBITS) || go_in_program(img);
}

int symbols_read(struct symbols *s, const struct elf_image *img, const struct elf_image *program,
		 const struct dwarf_section_place *code, size_t n_code, struct err *err)
{
	s->arena.hold = s->memory;
	/* The sections of a relocatable program may have other numbers. */
	if (program && (program->h.type == ET_REL || program->h.machine != img->h.machine))
		program = NULL;
	if (tables_read(s, img, program, code, n_code, err) < 0)
		return -1;
	if (program && !has_symbol_table(img) && tables_read(s, program, NULL, code, n_code, err) < 0)
		return -1;
	if (plt_read(s, img, err) < 0 || (program && plt_read(s, program, err) < 0)) {
		err_in(err, "procedure linkage table");
		if (symbols_damage_note(s, err) < 0)
			return -1;
	}
	if (s->n && symbols_sort(s, err) < 0)
		return -1;
	symbols_drop_marks(s);
	return 0;
}

void symbols_done(struct symbols *s)
{
	budget_hold_track(s->memory, &s->held, 0);
	free(s->list);
	arena_done(&s->arena);
	*s = (struct symbols){ 0 };
}
