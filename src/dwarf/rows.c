/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Line programs (section 6.2.5) of DWARF 2 to 5 to rows.
 *
 * A program consists of sequences, each a run of rising addresses up to its end mark. Some linkers and
 * compilers write sequences with falling addresses, or without an end. Where an address falls another sequence
 * starts; where there is no end the last row is dropped, since its end is not known. Such rows, and opcodes of
 * unknown meaning, count as losses. Sequences of code that a linker dropped are left out. The last of several rows
 * at one address counts. The mark of a statement's start is ignored: it does not change the line of an address.
 */
#include "dwarf/code.h"

#include <stdlib.h>
#include "base/sort.h"

#define ROWS_MAX (64u << 20) /* of one table */

enum {
	DW_LNS_copy = 1,
	DW_LNS_advance_pc,
	DW_LNS_advance_line,
	DW_LNS_set_file,
	DW_LNS_set_column,
	DW_LNS_negate_stmt,
	DW_LNS_set_basic_block,
	DW_LNS_const_add_pc,
	DW_LNS_fixed_advance_pc,
	DW_LNS_set_prologue_end,
	DW_LNS_set_epilogue_begin,
	DW_LNS_set_isa,
};
/* Zig fills room for later rows with opcodes 0 of any length. */
enum {
	DW_LNE_padding,
	DW_LNE_end_sequence,
	DW_LNE_set_address,
	DW_LNE_define_file,
	DW_LNE_set_discriminator
};

/* The sequence being made, and the registers while line_program_run() does not hold them. */
struct line_machine {
	struct dwarf_reader *r;
	uint64_t addr, base;
	uint32_t file, line;
	uint16_t column;        /* larger ones are cut to the maximum */
	uint16_t columns;       /* not 0: a column was not 0, or a discriminator if these are read */
	uint32_t discriminator; /* of the next row alone */
	unsigned op_index;
	size_t first; /* row of the sequence */
	bool live, open;
};

/* Count a part of the table that is left out. */
static void line_lose(struct line_machine *m, const char *what, uint64_t number)
{
	struct dwarf_losses *l = &m->r->table_losses;

	if (l->n++)
		return;
	(void)err_set(&l->first, ERR_INVALID, "line table at %llu: %s %llu",
		      (unsigned long long)m->r->cu.stmt_list, what, (unsigned long long)number);
}

static void machine_start(struct line_machine *m)
{
	m->addr = 0;
	m->file = 1;
	m->line = 1;
	m->column = 0;
	m->discriminator = 0;
	m->op_index = 0;
	m->open = false;
}

static void machine_row_add(struct line_machine *m, const struct dwarf_row *one)
{
	struct dwarf_reader *r = m->r;

	READER_GROW(r, r->rows, r->n_rows, r->room_rows);
	if (r->with_discriminators) {
		READER_GROW(r, r->discriminators, r->n_rows, r->room_discriminators);
		r->discriminators[r->n_rows] = m->discriminator;
	}
	r->rows[r->n_rows++] = *one;
}

static void sequence_end(struct line_machine *m, uint64_t end)
{
	struct dwarf_reader *r = m->r;
	uint64_t limit;

	if (!m->open)
		return;
	m->open = false;
	if (r->n_rows == m->first)
		return;
	limit = dwarf_code_end(r->d, m->base);
	end = MIN(end, limit);
	if (end <= m->base || end - m->base > UINT32_MAX) {
		if (end > m->base)
			line_lose(m, "a sequence of bytes:", end - m->base);
		r->n_rows = m->first;
		return;
	}
	while (r->n_rows > m->first && r->rows[r->n_rows - 1].off >= end - m->base)
		r->n_rows--;
	machine_row_add(m, &(struct dwarf_row){ .off = (uint32_t)(end - m->base), .end = 1 });
	READER_GROW(r, r->sequences, r->n_sequences, r->room_sequences);
	r->sequences[r->n_sequences++] = (struct dwarf_sequence){ m->base - r->d->moved, end - r->d->moved,
								  m->first, r->n_rows - m->first, 0 };
}

static void sequence_begin(struct line_machine *m)
{
	m->base = m->addr;
	m->first = m->r->n_rows;
	m->open = true;
	m->live = dwarf_code_end(m->r->d, m->addr) != 0;
}

static inline bool rows_equal(const struct dwarf_row *a, const struct dwarf_row *b)
{
	return a->line == b->line && a->file == b->file && a->column == b->column;
}

static bool row_repeats(const struct line_machine *m, const struct dwarf_row *last,
			const struct dwarf_row *one)
{
	const struct dwarf_reader *r = m->r;

	return rows_equal(last, one) &&
	       (!r->with_discriminators || r->discriminators[last - r->rows] == m->discriminator);
}

static void row_place(struct line_machine *m)
{
	struct dwarf_reader *r = m->r;
	struct dwarf_row *last, one;

	if (!m->open)
		sequence_begin(m);
	if (!m->live)
		return;
	if (m->addr - m->base > UINT32_MAX) {
		/* The address fell, or rose by more than code is long: the end of the row before is not
		 * known. */
		uint64_t end = r->n_rows > m->first ? m->base + r->rows[r->n_rows - 1].off : m->base;

		line_lose(m, "the end of a row is not known, the next one is at", m->addr - r->d->moved);
		sequence_end(m, end);
		sequence_begin(m);
		if (!m->live)
			return;
	}
	one = (struct dwarf_row){
		.off = (uint32_t)(m->addr - m->base), .line = m->line, .file = m->file, .column = m->column
	};
	if (r->n_rows > m->first) {
		last = &r->rows[r->n_rows - 1];
		if (one.off < last->off) {
			line_lose(m, "the end of a row is not known, the next one is at",
				  m->addr - r->d->moved);
			sequence_end(m, m->base + last->off);
			sequence_begin(m);
			one.off = 0;
		} else if (one.off == last->off) {
			/* Replace it. If the row before it now equals this one, none is needed. */
			r->n_rows--;
			if (r->n_rows > m->first) {
				last = &r->rows[r->n_rows - 1];
				if (row_repeats(m, last, &one))
					return;
			}
		} else if (row_repeats(m, last, &one)) {
			return;
		}
	}
	machine_row_add(m, &one);
}

static void row_emit(struct line_machine *m)
{
	row_place(m);
	m->discriminator = 0;
}

/* An operation advance where an instruction has several operations (section 6.2.5.1). */
static uint64_t advance_ops(struct line_machine *m, const struct dwarf_line_header *h, uint64_t n)
{
	uint64_t ops = m->op_index + n;

	m->op_index = (unsigned)(ops % h->max_ops);
	return ops / h->max_ops * h->min_length;
}

/* Run an extended opcode; @p is after its 0. */
static const uint8_t *extended_run(struct line_machine *m, const uint8_t *p, const uint8_t *end, bool big)
{
	uint64_t len = leb_u(&p, end);
	const uint8_t *next;

	if (p >= end || !len || len > (uint64_t)(end - p)) {
		/* Between sequences it is padding. */
		if (!len && p < end && m->open)
			line_lose(m, "an extended opcode of bytes:", 0);
		return len || p > end ? end + 1 : p;
	}
	next = p + len;
	switch (*p++) {
	case DW_LNE_padding:
		break;
	case DW_LNE_end_sequence:
		if (m->live)
			sequence_end(m, m->addr);
		machine_start(m);
		break;
	case DW_LNE_set_address:
		len--;
		if (len == 1 || len == 2 || len == 4 || len == 8)
			m->addr = dwarf_get(p, (unsigned)len, big);
		else
			line_lose(m, "an address of bytes:", len);
		m->op_index = 0;
		break;
	case DW_LNE_define_file:
		/* An entry as in the header, of versions before 5. */
		if (m->r->line_header.format.version >= 5 || m->r->n_files >= DWARF_MAX_FILES) {
			line_lose(m, "no file can be defined after", m->r->n_files);
			break;
		}
		READER_GROW(m->r, m->r->file_offs, m->r->n_files, m->r->room_files);
		m->r->file_offs[m->r->n_files++] = (uint32_t)(p - m->r->files.p);
		break;
	case DW_LNE_set_discriminator:
		m->discriminator = (uint32_t)MIN(leb_u(&p, next), (uint64_t)UINT32_MAX);
		m->columns |= m->r->with_discriminators && m->discriminator;
		break;
	default:
		line_lose(m, "unknown extended opcode", p[-1]);
	}
	return next;
}

/* Compute the effect of each special opcode, unless the header before had the same parameters. */
static void specials_make(struct dwarf_reader *r, const struct dwarf_line_header *h)
{
	struct dwarf_specials *s = &r->specials;

	if (s->line_range == h->line_range && s->line_base == h->line_base &&
	    s->opcode_base == h->opcode_base && s->min_length == h->min_length)
		return;
	s->min_length = h->min_length;
	s->line_range = h->line_range;
	s->line_base = h->line_base;
	s->opcode_base = h->opcode_base;
	for (unsigned op = h->opcode_base; op < 256; op++) {
		s->ops[op] = (uint8_t)((op - h->opcode_base) / h->line_range);
		s->steps[op].addr = (uint16_t)(s->ops[op] * h->min_length);
		s->steps[op].line = (int16_t)(h->line_base + (int)((op - h->opcode_base) % h->line_range));
	}
}

/* The last row of the sequence at hand, if another may be added to it; NULL: use row_emit(). */
static struct dwarf_row *row_last(const struct line_machine *m)
{
	struct dwarf_reader *r = m->r;

	return m->open && m->live && !r->with_discriminators && r->n_rows > m->first &&
			       r->n_rows < r->room_rows
		       ? &r->rows[r->n_rows - 1]
		       : NULL;
}

/*
 * There are millions of rows. Nearly all come after the row before, or at its address, in a sequence of live
 * code: these are made here, with the registers in local variables. row_emit() makes all others, and every row
 * if discriminators are read.
 */
static int line_program_run(struct line_machine *m, const uint8_t *p, const uint8_t *end,
			    const struct dwarf_line_header *h, struct err *err)
{
	struct dwarf_reader *r = m->r;
	const struct dwarf_special *steps = r->specials.steps;
	const unsigned opcode_base = h->opcode_base;
	/* Special opcodes add to address and line, nothing else. */
	const bool plain = h->max_ops <= 1 && h->line_range;
	struct dwarf_row *last = NULL;
	struct dwarf_row one;
	uint64_t addr, off;
	uint32_t line, file;
	uint16_t column;

	machine_start(m);
	/* An opcode over opcode_base divides by line_range. */
	if (!h->line_range && opcode_base < 255)
		return err_set(err, ERR_INVALID, "line_range is 0");
	if (h->line_range)
		specials_make(r, h);
#define REGISTERS_TAKE() \
	(addr = m->addr, line = m->line, file = m->file, column = m->column, last = row_last(m))
#define REGISTERS_GIVE() (m->addr = addr, m->line = line, m->file = file, m->column = column)
	REGISTERS_TAKE();
	while (p < end) {
		uint8_t op = *p++;

		if (op >= opcode_base) {
			if (plain)
				addr += steps[op].addr;
			else if (!h->line_range)
				return err_set(err, ERR_INVALID, "line_range is 0");
			else
				addr += advance_ops(m, h, r->specials.ops[op]);
			line += (uint32_t)steps[op].line;
		} else if (op == DW_LNS_set_column) {
			/* This and the next are the most frequent opcodes: the CPU predicts a branch of their
			 * own, but not the switch. */
			column = (uint16_t)MIN(leb_u(&p, end), (uint64_t)UINT16_MAX);
			m->columns |= column;
			continue;
		} else if (op == DW_LNS_negate_stmt) {
			continue;
		} else {
			switch (op) {
			case 0:
				REGISTERS_GIVE();
				p = extended_run(m, p, end, r->d->big);
				REGISTERS_TAKE();
				continue;
			case DW_LNS_copy:
				break;
			case DW_LNS_advance_pc: {
				uint64_t n = leb_u(&p, end);

				addr += h->max_ops <= 1 ? n * h->min_length : advance_ops(m, h, n);
				continue;
			}
			case DW_LNS_advance_line:
				line += (uint32_t)leb_s(&p, end);
				continue;
			case DW_LNS_set_file:
				file = (uint32_t)MIN(leb_u(&p, end), (uint64_t)UINT32_MAX);
				continue;
			case DW_LNS_set_basic_block:
			case DW_LNS_set_prologue_end:
			case DW_LNS_set_epilogue_begin:
				continue;
			case DW_LNS_const_add_pc:
				if (!h->line_range)
					return err_set(err, ERR_INVALID, "line_range is 0");
				addr += plain ? steps[255].addr : advance_ops(m, h, r->specials.ops[255]);
				continue;
			case DW_LNS_fixed_advance_pc:
				addr += dwarf_get(p, 2, r->d->big);
				m->op_index = 0;
				p += 2;
				continue;
			default: /* set_isa and unknown opcodes: so many LEB128 */
				if (op > DW_LNS_set_isa)
					line_lose(m, "unknown opcode", op);
				for (unsigned i = h->opcode_lengths[op - 1]; i && p <= end; i--)
					leb_u(&p, end);
				continue;
			}
		}
		off = addr - m->base;
		one = (struct dwarf_row){
			.off = (uint32_t)off, .line = line, .file = file, .column = column
		};
		if (last && off > last->off && off <= UINT32_MAX) {
			if (rows_equal(last, &one))
				continue;
			*++last = one;
			if (++r->n_rows == r->room_rows)
				last = NULL;
			continue;
		}
		if (last && off == last->off) {
			if (r->n_rows - 1 > m->first && rows_equal(last - 1, &one)) {
				r->n_rows--;
				last--;
			} else {
				*last = one;
			}
			continue;
		}
		REGISTERS_GIVE();
		row_emit(m);
		last = row_last(m);
		if (r->n_rows > ROWS_MAX)
			return err_set(err, ERR_LIMIT, "more than the %u rows allowed", ROWS_MAX);
		if (budget_hold_check(r->memory, err) < 0)
			return -1;
	}
#undef REGISTERS_TAKE
#undef REGISTERS_GIVE
	if (p > end)
		return err_set(err, ERR_INVALID, "the program ends within an opcode");
	return 0;
}

/* The last sequence has no end: keep its rows up to the last one. @damaged: that is reported already. */
static void program_end(struct line_machine *m, bool damaged)
{
	const struct dwarf_reader *r = m->r;

	if (!m->open || !m->live || r->n_rows == m->first)
		return;
	if (!damaged)
		line_lose(m, "the last row has no end, after rows:", r->n_rows - m->first);
	sequence_end(m, m->base + r->rows[r->n_rows - 1].off);
}

static int sequence_by_base(const void *a, const void *b)
{
	const struct dwarf_sequence *x = a, *y = b;

	if (x->base != y->base)
		return x->base < y->base ? -1 : 1;
	if (x->end != y->end)
		return x->end > y->end ? -1 : 1;
	return x->row < y->row ? -1 : x->row > y->row;
}

/* Sequences may lie in one another: set which one an address after the end of each may be in. */
static void sequences_nest(struct dwarf_sequence *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t at = i;

		while (at && list[at - 1].end <= list[i].end)
			at = list[at - 1].outer;
		list[i].outer = at;
	}
}

static int line_table_read(struct dwarf_reader *r, struct err *err)
{
	const struct dwarf_data *line = &r->d->line;
	struct dwarf_line_place place = { 0 };
	struct line_machine m = { .r = r };
	const uint8_t *p;
	uint64_t off = r->cu.stmt_list, length;
	struct cursor c;
	int rc;

	if (line->damaged)
		return err_set(err, ERR_INVALID, ".debug_line cannot be read");
	if (off >= line->size)
		return err_set(err, ERR_INVALID, "no line table at %llu", (unsigned long long)off);
	if (dwarf_data_chunk(line, off, (size_t)MIN(line->size - off, (uint64_t)12), &r->line_room, &p, err) <
	    0)
		return -1;
	c = cursor_at(bytes_of(p, (size_t)MIN(line->size - off, (uint64_t)12)), r->d->big, off);
	if (!dwarf_length_read(&c, &length, &place.offset_size))
		return err_set(err, ERR_INVALID, "its length is damaged");
	place.header_off = cursor_off(&c);
	/* A table that ends past the section may be good up to there. */
	place.end = place.header_off + MIN(length, line->size - place.header_off);
	if (dwarf_reader_spend(r, place.end - off, err) < 0 || dwarf_unit_fits(place.end - off, err) < 0 ||
	    dwarf_data_chunk(line, place.header_off, (size_t)(place.end - place.header_off), &r->line_room,
			     &p, err) < 0)
		return -1;
	dwarf_reader_account(r);
	if (dwarf_line_header_of(bytes_of(p, (size_t)(place.end - place.header_off)), &place, r->d->big,
				 &r->line_arena, &r->line_header, err) < 0 ||
	    dwarf_reader_index_files(r, err) < 0)
		return -1;
	r->lines_end = p + (place.end - place.header_off);
	rc = line_program_run(&m, p + (r->line_header.program_off - place.header_off),
			      p + (place.end - place.header_off), &r->line_header, err);
	program_end(&m, rc < 0);
	r->lines.columns = m.columns;
	return rc;
}

static int lines_load(struct dwarf_reader *r, struct err *err)
{
	if (r->cu.has_lines && r->lines_file == r->d && r->lines.table == r->cu.stmt_list)
		return 0;
	r->table_err.kind = ERR_NONE;
	r->table_losses.n = 0;
	r->n_rows = r->n_sequences = r->n_files = 0;
	r->lines_file = NULL;
	r->lines = (struct dwarf_lines){ .table = UINT64_MAX };
	arena_reset(&r->line_arena);
	if (!r->cu.has_lines)
		return 0;
	r->lines.table = r->cu.stmt_list;
	r->lines_file = r->d;
	if (line_table_read(r, &r->table_err) < 0) {
		err_in(&r->table_err, "line table at %llu", (unsigned long long)r->cu.stmt_list);
		if (!err_is_input(&r->table_err)) {
			*err = r->table_err;
			r->lines_file = NULL;
			return -1;
		}
	}
	SORT(r->sequences, r->n_sequences, sequence_by_base);
	sequences_nest(r->sequences, r->n_sequences);
	r->lines.rows = r->rows;
	r->lines.discriminators = r->with_discriminators ? r->discriminators : NULL;
	r->lines.sequences = r->sequences;
	r->lines.n_sequences = r->n_sequences;
	return 0;
}

/*
 * Whether the unit before has the same table must not depend on which units this reader has read: another
 * thread may have read that unit.
 */
int dwarf_reader_read_lines(struct dwarf_reader *r, struct err *err)
{
	bool shared = r->cu.has_lines && r->before_has_lines && r->before_stmt_list == r->cu.stmt_list;

	r->before_has_lines = r->cu.has_lines;
	r->before_stmt_list = r->cu.stmt_list;
	if (lines_load(r, err) < 0)
		return -1;
	r->lines.shared = shared;
	if (shared)
		return 0;
	r->lines_err = r->table_err;
	if (r->table_losses.n)
		r->losses = r->table_losses;
	return 0;
}

void dwarf_reader_discriminators(struct dwarf_reader *r)
{
	r->with_discriminators = true;
}

const struct dwarf_lines *dwarf_reader_lines(const struct dwarf_reader *r)
{
	return &r->lines;
}
