/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One function's code to code ranges.
 *
 * A code range is swept once from its start to its end. The innermost call changes at the starts and ends of
 * spans, file and line at the rows. Where spans overlap, the later DIE is visible, whatever its parent's spans
 * say. Rows become byte code at once: there are millions, and none is kept.
 */
#include "symtab/batch.h"

#include <stdlib.h>
#include "base/sort.h"

#define CHAIN_MAX 32u /* other files of one call that are searched before another entry is added */
#define NESTED_MAX \
	64u /* sequences of lines within one another that are searched for one that has an address */
#define OPEN_FREE 16u /* calls that may be moved for one step of the row budget */

/*
 * A look-up of one address reads its code range from the start. So a code range with more than this after its
 * first row is cut. A part starts with all calls that contain its first row, and must be worth them.
 */
#define PART_ROWS    512u /* bytes */
#define PART_ENTRIES 64u
/*
 * Lines without a function are hidden by functions of other units, and visible between them: in many pieces, each with
 * all rows of its part.
 */
#define LINES_ROWS    64u /* bytes */
#define LINES_ENTRIES 8u

static struct range_entry *entry_at(struct sweep *s, uint32_t i)
{
	return &s->b->entries[s->b->ranges[s->range].first_entry + i];
}

static uint32_t entry_add(struct sweep *s, const struct range_entry *e, struct range_entry_more more)
{
	struct batch *b = s->b;
	struct unit_work *w = b->work;
	uint32_t i = b->ranges[s->range].n_entries++;

	VEC_GROW(b->entries, b->n_entries, b->room_entries);
	if (b->discriminators) {
		VEC_GROW(b->more, b->n_entries, b->room_more);
		b->more[b->n_entries] = more;
	}
	b->entries[b->n_entries++] = *e;
	VEC_GROW(w->entries, i, w->room_entries);
	w->entries[i] = (struct entry_state){ 0, e->line };
	return i;
}

/* The entry of a call. Adds it and the calls that contain it if they have none yet. */
static uint32_t node_entry(struct sweep *s, uint32_t node)
{
	struct unit_work *w = s->b->work;
	uint32_t n = node, down = 0;

	/* Go up to the first node with an entry, and note the way back in the others. */
	while (w->nodes[n].stamp != w->stamp) {
		w->nodes[n].stamp = w->stamp;
		w->nodes[n].entry = down;
		down = n;
		n = s->f->nodes[n].parent;
	}
	while (down) {
		const struct dwarf_node *d = &s->f->nodes[down];
		uint32_t next = w->nodes[down].entry;
		struct range_entry e = { .parent = w->nodes[n].entry,
					 .function = s->ids ? (uint32_t)d->die
							    : batch_name(s->b, d->die, d->in_alt),
					 .call_line = d->call_line,
					 .call_column = s->b->columns ? (uint16_t)d->call_column : 0,
					 .passive = 1 };

		if (d->has_call_file)
			e.call_file = s->ids ? d->call_file : batch_file(s->b, d->call_file);
		w->nodes[down].entry = entry_add(
			s, &e, (struct range_entry_more){ .call_discriminator = d->call_discriminator });
		n = down;
		down = next;
	}
	return w->nodes[node].entry;
}

/* The entry for rows of a call in @file, of which @row is the next. *ret_new: it has just been added. */
static uint32_t row_entry(struct sweep *s, uint32_t node, uint32_t file, const struct row_place *row,
			  bool *ret_new)
{
	struct unit_work *w = s->b->work;
	uint32_t before = s->b->ranges[s->range].n_entries, k;
	uint32_t i = w->nodes[node].stamp == w->stamp ? w->nodes[node].entry : node_entry(s, node);
	struct entry_state *states = w->entries;
	struct range_entry *e = entry_at(s, i);
	unsigned tries = 0;

	*ret_new = i >= before;
	if (e->passive == 1) {
		e->passive = *ret_new ? 0 : PASSIVE_USED;
		e->file = file;
		e->line = states[i].last = row->line;
		e->column = (uint16_t)row->column;
		if (s->b->discriminators)
			s->b->more[e - s->b->entries].discriminator = (uint32_t)(row->column >> 16);
		return i;
	}
	if (e->file == file)
		return i;
	for (k = states[i].next; k && tries < CHAIN_MAX; k = states[k].next, tries++)
		if (entry_at(s, k)->file == file)
			return k;
	k = entry_add(s,
		      &(struct range_entry){ .parent = i,
					     .file = file,
					     .line = row->line,
					     .column = (uint16_t)row->column,
					     .other_file = 1 },
		      (struct range_entry_more){ .discriminator = (uint32_t)(row->column >> 16) });
	states = s->b->work->entries; /* it may have moved */
	states[k].next = states[i].next;
	states[i].next = k;
	*ret_new = true;
	return k;
}

/* Write the step as a prefix if the op has no room for it. *ret: the low bits of the op. */
static uint8_t *step_write(uint8_t *p, uint32_t step, uint32_t most, uint8_t *ret)
{
	uint32_t over = (step - 1) / ROW_STEPS, low = (step - 1) % ROW_STEPS;

	*ret = 0;
	if (!step || over > 3 || low >= most) {
		*p++ = ROW_STEP;
		return leb_put(p, step);
	}
	if (over)
		*p++ = (uint8_t)(ROW_FAR + over - 1);
	*ret = (uint8_t)low;
	return p;
}

/* Write the row that starts at @addr. @is_new: its entry has just been added. @last_line is the entry's last
 * line, @parent the parent of the entry in force so far. */
static inline void row_write(struct row_writer *w, uint32_t addr, const struct row_place *to, bool is_new,
			     uint32_t last_line, uint32_t parent)
{
	struct row_state *st = &w->st;
	int64_t line_step = (int64_t)to->line - (int64_t)last_line;
	uint8_t *p = buf_reserve(w->out, 48), low;
	unsigned k = is_new ? ROW_PLACES : row_state_find(st, to), op = ROW_ENTRY;

	if (is_new)
		op = ROW_NEW;
	else if (k < ROW_PLACES)
		op = ROW_BACK + k;
	else if (to->entry == st->at.entry)
		op = line_step >= ROW_NEAR_FIRST && line_step < ROW_NEAR_FIRST + ROW_LINE - ROW_NEAR
			     ? (unsigned)(ROW_NEAR + line_step - ROW_NEAR_FIRST)
			     : ROW_LINE;
	else if (to->entry == parent)
		op = ROW_PARENT;
	else if (to->entry == st->before)
		op = ROW_BEFORE;
	p = step_write(p, addr - st->addr, op == ROW_ENTRY ? ROW_FAR % ROW_STEPS : ROW_STEPS, &low);
	*p++ = (uint8_t)(op * ROW_STEPS + low);
	if (op == ROW_ENTRY)
		p = leb_put(p, to->entry);
	if (op >= ROW_LINE)
		p = leb_put(p, zigzag(line_step));
	if (w->columns && op >= ROW_NEAR)
		p = leb_put(p, to->column);
	w->out->size = (size_t)(p - w->out->p);
	st->addr = addr;
	row_state_go(st, *to, k);
}

static uint32_t entry_parent(struct sweep *s, uint32_t i)
{
	const struct range_entry *e;

	if (i == UINT32_MAX)
		return 0;
	e = entry_at(s, i);
	return e->other_file ? entry_at(s, e->parent)->parent : e->parent;
}

static inline void sweep_row(struct sweep *s, uint32_t addr, uint32_t node, uint32_t file, uint32_t line,
			     uint64_t column)
{
	struct row_place to = { .line = line, .column = s->rows.columns ? column : 0 };
	bool is_new = false, first = !s->any, same = !first && node == s->node && file == s->file;
	uint32_t *last, parent = 0;

	if (same && line == s->line && to.column == s->column)
		return;
	s->node = node;
	s->file = file;
	s->line = line;
	s->column = to.column;
	s->any = true;
	to.entry = same ? s->rows.st.at.entry : row_entry(s, node, file, &to, &is_new);
	if (first) {
		struct range_entry *e = entry_at(s, 0);
		size_t n = s->b->ranges[s->range].n_entries;

		if (s->f) {
			s->rows_full = s->b->rows.size + MAX((size_t)PART_ROWS, n * 16);
			s->entries_full = s->b->n_entries + MAX((size_t)PART_ENTRIES, n);
		} else {
			s->rows_full = s->b->rows.size + LINES_ROWS;
			s->entries_full = s->b->n_entries + LINES_ENTRIES;
		}

		/* The code range starts with it: nothing to write. */
		if (!to.entry) {
			e->passive = 0;
			s->rows.st.at = to;
			return;
		}
	}
	last = &s->b->work->entries[to.entry].last;
	if (!same && !is_new)
		parent = entry_parent(s, s->rows.st.at.entry);
	row_write(&s->rows, addr, &to, is_new, *last, parent);
	*last = line;
	s->b->n_rows++;
}

void range_row(struct sweep *s, uint32_t addr, uint32_t node, uint32_t file, uint32_t line, uint64_t column)
{
	sweep_row(s, addr, node, file, line, column);
}

/* ---- rows of the line table ---- */

struct line_position {
	const struct dwarf_sequence *seq;
	const struct dwarf_row *row; /* NULL: no row here */
	uint64_t next;               /* where the next sequence begins, which may be within this one */
	uint64_t until;              /* the end of the row, or of the gap; at most @next */
};

/* The row in force at @addr. */
static void lines_find(struct batch *b, uint64_t addr, struct line_position *ret)
{
	const struct dwarf_lines *l = dwarf_reader_lines(b->reader);
	size_t lo = SEARCH(0, l->n_sequences, i, l->sequences[i].base <= addr), at = lo;
	const struct dwarf_row *rows;

	ret->row = NULL;
	ret->until = ret->next = lo < l->n_sequences ? l->sequences[lo].base : UINT64_MAX;
	/* Sequences may overlap: short ones may start within a longer one and end before @addr. */
	for (unsigned n = 0; at && n < NESTED_MAX && l->sequences[at - 1].end <= addr; n++)
		at = l->sequences[at - 1].outer;
	if (!at || l->sequences[at - 1].end <= addr)
		return;
	ret->seq = &l->sequences[at - 1];
	rows = l->rows + ret->seq->row;
	lo = SEARCH(0, ret->seq->n_rows, i, rows[i].off <= addr - ret->seq->base);
	/* The last row of a sequence marks its end, so there is always a next one. */
	if (lo)
		ret->row = &rows[lo - 1];
	ret->until = MIN(ret->next, ret->seq->base + rows[lo].off);
}

uint64_t lines_begin(struct batch *b, uint64_t addr, bool *ret_in_row)
{
	struct line_position at;
	bool within;

	lines_find(b, addr, &at);
	within = at.row && at.seq->base + at.row->off < addr;
	*ret_in_row = within && at.row->line;
	return at.row && !within ? addr : at.until;
}

static void lines_next(struct batch *b, uint64_t addr, struct line_position *l)
{
	if (l->row && !l->row[1].end && addr < l->next) {
		l->row++;
		l->until = MIN(l->next, l->seq->base + l->row[1].off);
	} else {
		lines_find(b, addr, l);
	}
}

/* ---- open calls ---- */

/*
 * Add a call to the open ones. They are sorted by node; the last one, of the greatest node, is visible. Calls
 * are nested, so a new one is nearly always the last. A call that has ended is removed when it becomes the
 * last. *ret_moved: how many calls were moved.
 */
static void open_add(struct unit_work *w, const struct dwarf_span *call, size_t *ret_moved)
{
	size_t at;

	VEC_GROW(w->open, w->n_open, w->room_open);
	for (at = w->n_open++; at && w->open[at - 1].node > call->node; at--)
		w->open[at] = w->open[at - 1];
	w->open[at] = (struct open_call){ call->hi, call->node };
	*ret_moved = w->n_open - 1 - at;
}

static int rows_over_budget(struct err *err)
{
	return err_set(err, ERR_LIMIT, "overlapping functions have more rows than allowed");
}

static bool part_is_full(const struct sweep *s)
{
	return s->b->rows.size >= s->rows_full || s->b->n_entries >= s->entries_full;
}

/* Start another part at @at. */
static void part_begin(struct sweep *s, uint64_t at, uint64_t hi)
{
	struct code_range *p = &s->b->ranges[s->range];

	range_end(s);
	batch_account(s->b);
	p->size = (uint32_t)(at - p->start);
	range_begin(s, at, hi, p->origin, p->columns);
	s->b->ranges[s->range].part = s->f != NULL;
}

static uint64_t calls_next(const struct function_calls *c)
{
	return c->next < c->n ? c->keys[c->next].key : UINT64_MAX;
}

/* Open the calls that start up to @addr. */
static void calls_begin(struct batch *b, struct function_calls *c, uint64_t addr)
{
	size_t moved;

	/* Without a budget no more rows are made, so calls may be missing. */
	for (; calls_next(c) <= addr && b->row_budget; c->next++) {
		const struct dwarf_span *call = &c->spans[c->keys[c->next].at];

		if (call->hi <= addr)
			continue;
		open_add(b->work, call, &moved);
		/* A crafted file may have any number of them. */
		b->row_budget -= MIN(b->row_budget, (uint64_t)moved / OPEN_FREE);
	}
}

static int sweep_run(struct sweep *s, uint64_t lo, uint64_t hi, struct function_calls *calls, struct err *err)
{
	struct batch *b = s->b;
	struct unit_work *w = b->work;
	const struct dwarf_lines *all = dwarf_reader_lines(b->reader);
	const uint32_t *discriminators = all->discriminators;
	struct line_position lines;
	uint64_t at = lo, next_call = calls_next(calls);
	uint32_t file = 0, file_id = batch_file(b, 0); /* of the row before: mostly the same */

	lines_find(b, at, &lines);
	while (at < hi) {
		uint64_t to = MIN(hi, lines.until), column = 0;
		uint32_t node = 0, line = 0;

		if (!b->row_budget--) {
			b->row_budget = 0;
			return rows_over_budget(err);
		}
		if (next_call <= at) {
			calls_begin(b, calls, at);
			next_call = calls_next(calls);
		}
		while (w->n_open && w->open[w->n_open - 1].hi <= at)
			w->n_open--;
		if (w->n_open) {
			node = w->open[w->n_open - 1].node;
			to = MIN(to, w->open[w->n_open - 1].hi);
		}
		to = MIN(to, next_call);
		if (part_is_full(s)) {
			part_begin(s, at, hi);
			lo = at;
			if (budget_hold_check(b->memory, err) < 0)
				return -1;
		}
		if (lines.row) {
			if (lines.row->file != file) {
				file = lines.row->file;
				file_id = batch_file(b, file);
			}
			line = lines.row->line;
			column = column_with(lines.row->column,
					     discriminators ? discriminators[lines.row - all->rows] : 0);
		}
		sweep_row(s, (uint32_t)(at - lo), node, lines.row ? file_id : 0, line, column);
		at = to;
		if (at >= lines.until)
			lines_next(b, at, &lines);
	}
	return 0;
}

void range_nodes(struct batch *b, size_t n)
{
	struct unit_work *w = b->work;

	if (n <= w->room_nodes)
		return;
	free(w->nodes);
	w->room_nodes = MAX(n * 2, (size_t)64);
	w->nodes = mem_zalloc(w->room_nodes * sizeof(*w->nodes));
}

void range_begin(struct sweep *s, uint64_t lo, uint64_t hi, uint8_t origin, bool columns)
{
	struct batch *b = s->b;
	struct unit_work *w = b->work;

	VEC_GROW(b->ranges, b->n_ranges, b->room_ranges);
	s->range = b->n_ranges;
	/* No place yet: if the first row is not of entry 0, no later row may go back to the start of that. */
	s->rows = (struct row_writer){ .st = { .n_new = 1, .before = UINT32_MAX, .at.entry = UINT32_MAX },
				       .out = &b->rows,
				       .columns = b->columns && columns };
	for (unsigned k = 0; k < ROW_PLACES; k++)
		s->rows.st.back[k].entry = UINT32_MAX;
	s->any = false;
	s->rows_full = s->entries_full = SIZE_MAX;
	b->ranges[b->n_ranges++] = (struct code_range){ .start = lo,
							.size = (uint32_t)(hi - lo),
							.batch = b->index,
							.first_entry = (uint32_t)b->n_entries,
							.rows_off = b->rows.size,
							.unit = (uint32_t)w->unit,
							.origin = origin,
							.columns = s->rows.columns };
	w->stamp++;
	range_nodes(b, 1);
	w->nodes[0] = (struct node_state){ .stamp = w->stamp };
	entry_add(s, &(struct range_entry){ .passive = 1 }, (struct range_entry_more){ 0 });
}

void range_end(struct sweep *s)
{
	struct code_range *p = &s->b->ranges[s->range];
	const struct range_entry *e = s->b->entries + p->first_entry;

	p->rows_size = (uint32_t)(s->b->rows.size - p->rows_off);
	p->has_lines = e[0].file || p->n_entries > 1;
	for (uint32_t i = 1; i < p->n_entries && !p->has_calls; i++)
		p->has_calls = !e[i].other_file;
}

int lines_make(struct batch *b, uint64_t lo, uint64_t hi, struct err *err)
{
	struct sweep s = { .b = b };
	struct function_calls none = { 0 };
	int r;

	b->work->n_open = 0;
	hi = lo + MIN(hi - lo, (uint64_t)UINT32_MAX);
	range_begin(&s, lo, hi, SYMTAB_LINES, dwarf_reader_lines(b->reader)->columns);
	r = sweep_run(&s, lo, hi, &none, err);
	range_end(&s);
	return r;
}

/* Each code range begins with all calls that contain its first row, which may be thousands. */
static int function_check(struct batch *b, struct err *err)
{
	if (err_if_cancelled(b->cancel, err) < 0)
		return -1;
	batch_account(b);
	return budget_hold_check(b->memory, err);
}

int function_make(struct batch *b, const struct dwarf_function *f, struct err *err)
{
	struct unit_work *w = b->work;
	struct function_calls calls = function_calls(w, f);
	size_t n_code = function_code(w, f, &calls);
	uint64_t done = 0;
	uint32_t function = batch_name(b, f->nodes[0].die, f->nodes[0].in_alt);

	range_nodes(b, f->n_nodes);
	w->n_open = 0;
	b->n_inlined += f->n_nodes - 1;
	for (size_t i = 0; i < n_code; i++) {
		struct sweep s = { .b = b, .f = f };
		uint64_t lo = MAX(w->code[i].lo, done), hi = w->code[i].hi;
		bool of_calls = w->code[i].of_calls;
		size_t first = b->n_ranges;
		int r;

		if (lo >= hi)
			continue;
		hi = lo + MIN(hi - lo, (uint64_t)UINT32_MAX);
		done = hi;
		range_begin(&s, lo, hi, SYMTAB_DWARF, dwarf_reader_lines(b->reader)->columns);
		r = sweep_run(&s, lo, hi, &calls, err);
		range_end(&s);
		for (size_t k = first; k < b->n_ranges; k++) {
			b->ranges[k].function = function;
			b->ranges[k].of_calls = of_calls;
		}
		if (r < 0 || (i % ACCOUNT_FUNCTIONS == ACCOUNT_FUNCTIONS - 1 && function_check(b, err) < 0))
			return -1;
	}
	return 0;
}
