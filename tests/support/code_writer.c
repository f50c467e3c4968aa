/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes files with DWARF of code for tests.
 */
#include "code_writer.h"

#include <stdarg.h>
#include <stdio.h>

static void put(struct code_writer *w, struct buf *b, uint64_t v, unsigned size)
{
	elf_writer_put(&w->elf, b, v, size);
}

static void put_sleb(struct buf *b, int64_t v)
{
	for (;;) {
		uint8_t byte = v & 0x7f;

		v >>= 7;
		if ((v == 0 && !(byte & 0x40)) || (v == -1 && byte & 0x40)) {
			buf_add_char(b, (char)byte);
			return;
		}
		buf_add_char(b, (char)(byte | 0x80));
	}
}

static unsigned offset_size(const struct code_writer *w)
{
	return w->dwarf64 ? 8 : 4;
}

void code_writer_init(struct code_writer *w, enum elf_writer_target target, uint16_t type)
{
	*w = (struct code_writer){ .version = 4,
				   .abbrev_step = 1,
				   .comp_dir = "/src",
				   .min_length = 1,
				   .opcode_base = 13,
				   .max_ops = 1,
				   .section_type = SHT_PROGBITS,
				   .text = 0x1000,
				   .text_size = 0x1000 };
	elf_writer_init(&w->elf, target, type);
	buf_add_char(&w->names, 0);
	buf_add_char(&w->str, 0);
	code_symbol(w, "", 0, 0, 0, 0);
}

void code_writer_done(struct code_writer *w)
{
	struct buf *bufs[] = { &w->info,        &w->abbrev,   &w->line, &w->str,     &w->ranges,
			       &w->str_offsets, &w->rnglists, &w->addr, &w->symbols, &w->names };

	for (size_t i = 0; i < ARRAY_SIZE(bufs); i++)
		buf_done(bufs[i]);
	elf_writer_done(&w->elf);
}

static size_t length_begin(struct code_writer *w, struct buf *b)
{
	if (w->dwarf64)
		put(w, b, 0xffffffff, 4);
	put(w, b, 0, offset_size(w));
	return b->size;
}

static void length_end(struct code_writer *w, struct buf *b, size_t start)
{
	AUTO(buf_done) struct buf length = { 0 };

	put(w, &length, b->size - start, offset_size(w));
	memcpy(b->p + start - length.size, length.p, length.size);
}

/* ---- lines ---- */

uint64_t code_lines_begin(struct code_writer *w, const char *const *files)
{
	/* Opcodes from 13 on are unassigned. */
	static const uint8_t lengths[] = { 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 1, 2, 3, 4 };
	struct buf *b = &w->line;
	uint64_t at = b->size;
	size_t header, n = 0;

	while (files[n])
		n++;
	w->table_start = length_begin(w, b);
	put(w, b, w->version, 2);
	if (w->version >= 5) {
		buf_add_char(b, (char)elf_writer_word(&w->elf));
		buf_add_char(b, 0);
	}
	put(w, b, 0, offset_size(w));
	header = b->size;
	buf_add_char(b, (char)w->min_length);
	if (w->version >= 4)
		buf_add_char(b, (char)w->max_ops);
	buf_add_char(b, 1);
	buf_add_char(b, -5);
	buf_add_char(b, 14);
	buf_add_char(b, (char)w->opcode_base);
	buf_add(b, lengths, w->opcode_base - 1);
	if (w->version >= 5) {
		/* Folders: comp_dir alone; files with a name and the folder's number. */
		buf_add(b, "\x01\x01\x08\x01", 4);
		buf_add(b, w->comp_dir, strlen(w->comp_dir) + 1);
		buf_add(b, "\x02\x01\x08\x02\x0b", 5);
		buf_add_uleb(b, n);
	} else {
		buf_add_char(b, 0);
	}
	for (size_t i = 0; i < n; i++) {
		buf_add(b, files[i], strlen(files[i]) + 1);
		buf_add(b, "\0\0\0", w->version >= 5 ? 1 : 3);
	}
	if (w->version < 5)
		buf_add_char(b, 0);
	length_end(w, b, header);
	w->addr_now = 0;
	w->line_now = 1;
	w->file_now = 1;
	return at;
}

void code_address(struct code_writer *w, uint64_t addr)
{
	unsigned word = elf_writer_word(&w->elf);

	buf_add_char(&w->line, 0);
	buf_add_uleb(&w->line, word + 1);
	buf_add_char(&w->line, 2);
	put(w, &w->line, addr, word);
	w->addr_now = addr;
}

static void advance(struct code_writer *w, uint64_t addr)
{
	if (!w->addr_now || addr < w->addr_now) {
		code_address(w, addr);
	} else if (addr != w->addr_now) {
		buf_add_char(&w->line, 2); /* DW_LNS_advance_pc */
		buf_add_uleb(&w->line, (addr - w->addr_now) / w->min_length);
	}
	w->addr_now = addr;
}

void code_row(struct code_writer *w, uint64_t addr, uint32_t file, uint32_t line)
{
	advance(w, addr);
	if (file != w->file_now) {
		buf_add_char(&w->line, 4);
		buf_add_uleb(&w->line, file);
		w->file_now = file;
	}
	if (line != w->line_now) {
		buf_add_char(&w->line, 3);
		put_sleb(&w->line, (int64_t)line - w->line_now);
		w->line_now = line;
	}
	buf_add_char(&w->line, 1); /* DW_LNS_copy */
}

void code_discriminator(struct code_writer *w, uint32_t discriminator)
{
	AUTO(buf_done) struct buf op = { 0 };

	buf_add_char(&op, 4); /* DW_LNE_set_discriminator */
	buf_add_uleb(&op, discriminator);
	buf_add_char(&w->line, 0);
	buf_add_uleb(&w->line, op.size);
	buf_add(&w->line, op.p, op.size);
}

void code_sequence_end(struct code_writer *w, uint64_t addr)
{
	advance(w, addr);
	buf_add(&w->line, "\0\x01\x01", 3);
	w->addr_now = 0;
	w->line_now = 1;
	w->file_now = 1;
}

void code_lines_end(struct code_writer *w)
{
	length_end(w, &w->line, w->table_start);
}

/* ---- DIEs ---- */

uint64_t code_unit_begin(struct code_writer *w)
{
	struct buf *b = &w->info;

	w->unit = b->size;
	w->table = w->abbrev.size;
	w->n_abbrevs = 0;
	w->unit_start = length_begin(w, b);
	put(w, b, w->version, 2);
	if (w->version >= 5) {
		buf_add_char(b, w->unit_type ? (char)w->unit_type : 1);
		buf_add_char(b, (char)elf_writer_word(&w->elf));
	}
	put(w, b, w->table, offset_size(w));
	if (w->version < 5)
		buf_add_char(b, (char)elf_writer_word(&w->elf));
	if (w->version >= 5 && (w->unit_type == 4 || w->unit_type == 5))
		put(w, b, w->dwo_id, 8);
	if (w->version >= 5 && (w->unit_type == 2 || w->unit_type == 6)) {
		put(w, b, 0x1122334455667788, 8); /* signature, and the offset of the type */
		put(w, b, 0, offset_size(w));
	}
	return w->unit;
}

/* DWARF 5's index of strings has a header, GNU's has none. */
static uint64_t add_indexed(struct code_writer *w, const char *text)
{
	uint64_t header = w->version >= 5 ? 2 * offset_size(w) : 0;

	while (w->str_offsets.size < header)
		buf_add_char(&w->str_offsets, 'h');
	put(w, &w->str_offsets, w->str.size, offset_size(w));
	buf_add(&w->str, text, strlen(text) + 1);
	return (w->str_offsets.size - header) / offset_size(w) - 1;
}

static void put_value(struct code_writer *w, unsigned form, uint64_t v)
{
	const char *text = (const char *)(uintptr_t)v;
	const struct bytes *e;
	struct buf *b = &w->info;

	switch (form) {
	case F_ADDR:
		put(w, b, v, elf_writer_word(&w->elf));
		break;
	case F_DATA1:
		put(w, b, v, 1);
		break;
	case F_DATA2:
		put(w, b, v, 2);
		break;
	case F_DATA4:
		put(w, b, v, 4);
		break;
	case F_DATA8:
		put(w, b, v, 8);
		break;
	case F_REF4:
		put(w, b, v - w->unit, 4);
		break;
	case F_STRING:
		buf_add(b, text, strlen(text) + 1);
		break;
	case F_STRP:
		put(w, b, w->str.size, offset_size(w));
		buf_add(&w->str, text, strlen(text) + 1);
		break;
	case F_STRX:
	case F_GNU_STR_INDEX:
		buf_add_uleb(b, add_indexed(w, text));
		break;
	case F_SDATA:
		put_sleb(b, (int64_t)v);
		break;
	case F_UDATA:
	case F_ADDRX:
	case F_GNU_ADDR_INDEX:
	case F_RNGLISTX:
		buf_add_uleb(b, v);
		break;
	case F_REF_ADDR:
		put(w, b, v, w->version <= 2 ? elf_writer_word(&w->elf) : offset_size(w));
		break;
	case F_SEC_OFFSET:
	case F_GNU_REF_ALT:
		put(w, b, v, offset_size(w));
		break;
	case F_LLVM_ADDRX_OFFSET:
		buf_add_uleb(b, v >> 32);
		put(w, b, (uint32_t)v, 4);
		break;
	case F_EXPRLOC:
		e = (const struct bytes *)(uintptr_t)v;
		buf_add_uleb(b, e->size);
		buf_add(b, e->p, e->size);
		break;
	case F_BLOCK1:
		buf_add_char(b, (char)v);
		for (uint64_t i = 0; i < v; i++)
			buf_add_char(b, 'b');
		break;
	case F_INDIRECT: /* a number, as data4 */
		buf_add_uleb(b, F_DATA4);
		put(w, b, v, 4);
		break;
	}
}

uint64_t code_die(struct code_writer *w, unsigned tag, int children, ...)
{
	uint64_t at = w->info.size, code = ++w->n_abbrevs * w->abbrev_step;
	struct buf *a = &w->abbrev;
	va_list ap;

	buf_add_uleb(a, code);
	buf_add_uleb(a, tag);
	buf_add_char(a, children ? 1 : 0);
	buf_add_uleb(&w->info, code);
	va_start(ap, children);
	for (;;) {
		unsigned name = va_arg(ap, unsigned), form;
		uint64_t v;

		if (!name)
			break;
		form = va_arg(ap, unsigned);
		v = va_arg(ap, uint64_t);
		buf_add_uleb(a, name);
		buf_add_uleb(a, form);
		if (form == F_IMPLICIT)
			put_sleb(a, (int64_t)v);
		else
			put_value(w, form, v);
	}
	va_end(ap);
	buf_add(a, "\0", 2);
	return at;
}

void code_up(struct code_writer *w)
{
	buf_add_char(&w->info, 0);
}

void code_unit_end(struct code_writer *w)
{
	length_end(w, &w->info, w->unit_start);
	if (!w->no_terminator)
		buf_add_char(&w->abbrev, 0);
}

uint64_t code_unit_c(struct code_writer *w, uint64_t lines)
{
	code_unit_begin(w);
	return code_die(w, T_COMPILE, true, A_NAME, F_STRING, (uint64_t)(uintptr_t) "a.c", A_COMP_DIR,
			F_STRING, (uint64_t)(uintptr_t)w->comp_dir, A_LANGUAGE, F_DATA1, (uint64_t)0x1d,
			A_STMT_LIST, w->version >= 4 ? F_SEC_OFFSET : F_DATA4, lines, 0u);
}

/* ---- the file ---- */

void code_symbol(struct code_writer *w, const char *name, unsigned type, unsigned binding, uint64_t value,
		 uint64_t size)
{
	struct buf *b = &w->symbols;
	unsigned section = value ? 1 : 0;

	put(w, b, *name ? w->names.size : 0, 4);
	if (w->elf.is64) {
		put(w, b, binding << 4 | type, 1);
		put(w, b, 0, 1);
		put(w, b, section, 2);
		put(w, b, value, 8);
		put(w, b, size, 8);
	} else {
		put(w, b, value, 4);
		put(w, b, size, 4);
		put(w, b, binding << 4 | type, 1);
		put(w, b, 0, 1);
		put(w, b, section, 2);
	}
	if (*name)
		buf_add(&w->names, name, strlen(name) + 1);
}

void code_writer_finish(struct code_writer *w, struct buf *out)
{
	const struct {
		const char *name;
		struct buf *b;
	} sections[] = {
		{ ".debug_info", &w->info },     { ".debug_abbrev", &w->abbrev },
		{ ".debug_line", &w->line },     { ".debug_str", &w->str },
		{ ".debug_ranges", &w->ranges }, { ".debug_rnglists", &w->rnglists },
		{ ".debug_addr", &w->addr },     { ".debug_str_offsets", &w->str_offsets },
	};
	char name[64];

	if (!w->dwo) {
		unsigned at = elf_writer_nobits(&w->elf, ".text", SHF_ALLOC | SHF_EXECINSTR, w->text_size);

		elf_writer_at(&w->elf, at)->addr = w->text;
	}
	for (size_t i = 0; i < ARRAY_SIZE(sections); i++) {
		snprintf(name, sizeof(name), "%s%s", sections[i].name, w->dwo ? ".dwo" : "");
		if (!sections[i].b->size)
			continue;
		if (w->compress)
			elf_writer_compressed(&w->elf, name, w->compress == UINT32_MAX ? 0 : w->compress,
					      buf_bytes(sections[i].b));
		else
			elf_writer_section(&w->elf, name, w->section_type, 0, buf_bytes(sections[i].b));
	}
	if (w->symbols.size > (w->elf.is64 ? 24u : 16u)) {
		unsigned symtab = elf_writer_section(&w->elf, w->dynamic ? ".dynsym" : ".symtab",
						     w->dynamic ? SHT_DYNSYM : SHT_SYMTAB, 0,
						     buf_bytes(&w->symbols));
		unsigned strtab = elf_writer_section(&w->elf, ".strtab", SHT_STRTAB, 0, buf_bytes(&w->names));

		elf_writer_at(&w->elf, symtab)->link = strtab;
	}
	elf_writer_finish(&w->elf, out);
}

/* ---- .dwp ---- */

/* The columns, in an order other than that of their numbers. */
static struct buf *column(struct code_writer *w, unsigned what)
{
	return what == 6 ? &w->str_offsets : what == 1 ? &w->info : what == 3 ? &w->abbrev : &w->rnglists;
}

static void add_index(struct code_writer *all, struct code_writer *const *units, size_t n, unsigned version,
		      const uint32_t *offs)
{
	static const unsigned what[] = { 6, 1, 3, 8 };
	unsigned n_columns = version == 5 ? 4 : 3, slots = 4;
	AUTO(buf_done) struct buf b = { 0 };
	uint32_t rows[64] = { 0 };
	uint64_t ids[64] = { 0 };

	while (slots < n * 3 / 2)
		slots *= 2;
	for (uint32_t i = 0; i < n; i++) {
		uint64_t id = units[i]->dwo_id;
		unsigned at = id & (slots - 1), by = ((id >> 32) & (slots - 1)) | 1;

		while (rows[at])
			at = (at + by) & (slots - 1);
		rows[at] = i + 1;
		ids[at] = id;
	}
	put(all, &b, version, version == 5 ? 2 : 4);
	if (version == 5)
		put(all, &b, 0, 2);
	put(all, &b, n_columns, 4);
	put(all, &b, n, 4);
	put(all, &b, slots, 4);
	for (unsigned i = 0; i < slots; i++)
		put(all, &b, ids[i], 8);
	for (unsigned i = 0; i < slots; i++)
		put(all, &b, rows[i], 4);
	for (unsigned k = 0; k < n_columns; k++)
		put(all, &b, what[k], 4);
	for (size_t i = 0; i < n; i++)
		for (unsigned k = 0; k < n_columns; k++)
			put(all, &b, offs[i * 4 + k], 4);
	for (size_t i = 0; i < n; i++)
		for (unsigned k = 0; k < n_columns; k++)
			put(all, &b, column(units[i], what[k])->size, 4);
	elf_writer_section(&all->elf, ".debug_cu_index", SHT_PROGBITS, 0, buf_bytes(&b));
}

/* Strings are not shared here: their indexes are moved. */
static void add_str_offsets(struct code_writer *all, const struct code_writer *w)
{
	size_t header = w->version >= 5 ? 8 : 0;

	if (!w->str_offsets.size)
		return;
	buf_add(&all->str_offsets, w->str_offsets.p, header);
	for (size_t i = header; i < w->str_offsets.size; i += 4) {
		uint32_t v;

		memcpy(&v, w->str_offsets.p + i, 4);
		v = w->elf.big ? be32toh(v) : le32toh(v);
		put(all, &all->str_offsets, v + all->str.size, 4);
	}
}

void code_writer_dwp(struct code_writer *const *units, size_t n, unsigned version, struct buf *out)
{
	struct code_writer all = { .dwo = true, .section_type = SHT_PROGBITS };
	uint32_t offs[64 * 4];

	elf_writer_init(&all.elf, ELF_WRITER_X86_64, ET_REL);
	all.elf.big = units[0]->elf.big;
	all.elf.machine = units[0]->elf.machine;
	/* So that no part begins at 0. */
	buf_add(&all.abbrev, "\0\0", 2);
	for (size_t i = 0; i < n; i++) {
		const struct code_writer *w = units[i];

		offs[i * 4] = (uint32_t)all.str_offsets.size;
		offs[i * 4 + 1] = (uint32_t)all.info.size;
		offs[i * 4 + 2] = (uint32_t)all.abbrev.size;
		offs[i * 4 + 3] = (uint32_t)all.rnglists.size;
		add_str_offsets(&all, w);
		buf_add_str(&all.info, buf_str(&w->info));
		buf_add_str(&all.abbrev, buf_str(&w->abbrev));
		buf_add_str(&all.rnglists, buf_str(&w->rnglists));
		buf_add_str(&all.str, buf_str(&w->str));
	}
	add_index(&all, units, n, version, offs);
	code_writer_finish(&all, out);
	code_writer_done(&all);
}
