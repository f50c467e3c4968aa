/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compare a table with the DWARF that it was built from.
 *
 * This is done in the plainest way, so that it does not share the mistakes of the builder: for each start of a
 * row, of a call and of a function, the innermost call is searched among all spans of its function and the row
 * among all rows of its sequence, and the resulting frames must be the table's. DWARF does not say which of
 * two overlapping functions an address belongs to, so a difference there counts as shadowed; nor the file of a call
 * without DW_AT_call_file, for which the table has the best that it knows of its caller. A function also has the
 * code that only its calls have, unless that is another function's.
 */
#include "symtab/symtab.h"

#include <stdlib.h>

struct verifier {
	struct symtab_finder *finder;
	struct dwarf_reader *r;
	struct symtab_check *check;
	bool columns, discriminators;
	/* The spans of all functions, and of calls outside of them; `node` is the function's number. */
	struct dwarf_span *all;
	size_t n_all, room_all;
	uint32_t n_seen;
	/* The unit's functions. */
	struct dwarf_node *nodes;
	struct dwarf_span *spans;
	size_t n_nodes, room_nodes, n_spans, room_spans;
	struct verified_function {
		size_t node, n_nodes, span, n_spans;
	} * functions;
	size_t n_functions, room_functions;
	struct buf expected, got; /* frames as text: DWARF's, the table's */
	struct buf unsaid;        /* for each frame: 1 if DWARF does not say its file */
};

/* Whether one of the @n spans of a function is its own and has @addr. */
static bool own_spans_have(const struct dwarf_span *spans, size_t n, uint64_t addr)
{
	for (size_t i = 0; i < n && !spans[i].node; i++)
		if (spans[i].lo <= addr && addr < spans[i].hi)
			return true;
	return false;
}

/* Whether a call starts or ends outside of its function. */
static bool call_is_outside(const struct dwarf_span *spans, size_t n, const struct dwarf_span *call)
{
	return call->node && (!own_spans_have(spans, n, call->lo) || !own_spans_have(spans, n, call->hi - 1));
}

static int verify_keep_all(void *arg, const struct dwarf_function *f, struct err *err)
{
	struct verifier *v = arg;

	for (size_t i = 0; i < f->n_spans; i++)
		if (!f->spans[i].node || call_is_outside(f->spans, f->n_spans, &f->spans[i])) {
			VEC_PUSH(v->all, v->n_all, v->room_all) = (struct dwarf_span){ f->spans[i].lo,
										       f->spans[i].hi,
										       v->n_seen };
		}
	v->n_seen++;
	return 0;
}

static int verify_keep(void *arg, const struct dwarf_function *f, struct err *err)
{
	struct verifier *v = arg;

	VEC_GROW(v->functions, v->n_functions, v->room_functions);
	v->functions[v->n_functions++] = (struct verified_function){ v->n_nodes, f->n_nodes, v->n_spans,
								     f->n_spans };
	for (size_t i = 0; i < f->n_nodes; i++) {
		VEC_PUSH(v->nodes, v->n_nodes, v->room_nodes) = f->nodes[i];
	}
	for (size_t i = 0; i < f->n_spans; i++) {
		VEC_PUSH(v->spans, v->n_spans, v->room_spans) = f->spans[i];
	}
	return 0;
}

static int span_by_place(const void *a, const void *b)
{
	const struct dwarf_span *x = a, *y = b;

	if (x->lo != y->lo)
		return x->lo < y->lo ? -1 : 1;
	return x->hi < y->hi ? -1 : x->hi > y->hi;
}

/* Whether several functions have @addr, among the spans that start shortly before it. */
static bool is_shadowed(const struct verifier *v, uint64_t addr)
{
	size_t lo = SEARCH(0, v->n_all, i, v->all[i].lo <= addr);
	const struct dwarf_span *first = NULL;

	for (size_t back = 0; back < lo && back < 1000; back++) {
		const struct dwarf_span *s = &v->all[lo - 1 - back];

		if (s->hi <= addr)
			continue;
		if (first && first->node != s->node)
			return true;
		first = s;
	}
	return false;
}

static const struct dwarf_row *verify_row(const struct verifier *v, uint64_t addr)
{
	const struct dwarf_lines *l = dwarf_reader_lines(v->r);
	const struct dwarf_sequence *in = NULL;
	const struct dwarf_row *row = NULL;

	/* Of overlapping sequences the one that starts last, as in the table. */
	for (size_t i = 0; i < l->n_sequences && l->sequences[i].base <= addr; i++)
		if (l->sequences[i].end > addr)
			in = &l->sequences[i];
	for (size_t i = 0; in && i < in->n_rows && in->base + l->rows[in->row + i].off <= addr; i++)
		row = &l->rows[in->row + i];
	return row;
}

/* Add those of these numbers that the table has. */
static void text_add_numbers(const struct verifier *v, struct buf *out, uint32_t line, uint32_t column,
			     uint32_t discriminator)
{
	buf_printf(out, ":%u", line);
	if (v->columns)
		buf_printf(out, ":%u", column);
	if (v->discriminators)
		buf_printf(out, " (discriminator %u)", discriminator);
}

/* @said: DWARF says the file, and @known, that there is one. */
static void expect_location(struct verifier *v, bool said, bool known, uint64_t file)
{
	struct dwarf_file_name f = { 0 };
	AUTO(buf_done) struct buf path = { 0 };
	struct str parts[] = { { 0 }, { 0 }, { 0 } };
	char *clean;

	buf_add_char(&v->unsaid, said ? 0 : 1);
	if (!said) {
		buf_add_str(&v->expected, STR(" at any file"));
		return;
	}
	if (known && dwarf_reader_file(v->r, file, &f)) {
		parts[0] = f.comp_dir;
		parts[1] = f.dir;
		parts[2] = f.name;
	}
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		if (!parts[i].size)
			continue;
		if (path_is_absolute(parts[i]))
			path.size = 0;
		else if (path.size)
			buf_add_char(&path, '/');
		buf_add_str(&path, parts[i]);
	}
	clean = mem_alloc(path.size + 2);
	buf_printf(&v->expected, " at %.*s", (int)path_canonical(buf_str(&path), clean), clean);
	free(clean);
}

static int expect_function(struct verifier *v, const struct dwarf_node *n, struct err *err)
{
	struct dwarf_name name = { 0 };

	if (n->die != UINT64_MAX && dwarf_reader_name(v->r, n->die, n->in_alt, &name, err) < 0) {
		/* Damage: the table has no name either. */
		if (!err_is_input(err))
			return -1;
		name = (struct dwarf_name){ 0 };
	}
	buf_printf(&v->expected, "%s" STR_FMT, v->expected.size ? " in " : "", STR_ARG(name.name));
	return 0;
}

/* Write DWARF's frames of @addr, which is in this function, to v->expected. */
static int expect_frames(struct verifier *v, const struct verified_function *f, uint64_t addr,
			 struct err *err)
{
	const struct dwarf_node *nodes = v->nodes + f->node;
	const struct dwarf_row *row = verify_row(v, addr);
	uint64_t file = row ? row->file : 0;
	const uint32_t *of_rows = dwarf_reader_lines(v->r)->discriminators;
	uint32_t line = row ? row->line : 0, column = row ? row->column : 0, at = 0;
	uint32_t discriminator = row && of_rows ? of_rows[row - dwarf_reader_lines(v->r)->rows] : 0;
	struct dwarf_file_name ignored;
	bool known = row, said = true;

	v->expected.size = v->unsaid.size = 0;
	for (size_t i = 0; i < f->n_spans; i++) {
		const struct dwarf_span *s = &v->spans[f->span + i];

		if (s->lo <= addr && addr < s->hi)
			at = MAX(at, s->node);
	}
	for (;; at = nodes[at].parent) {
		if (expect_function(v, &nodes[at], err) < 0)
			return -1;
		expect_location(v, said, known, file);
		text_add_numbers(v, &v->expected, line, column, discriminator);
		if (!at)
			return 0;
		file = nodes[at].call_file;
		said = known = nodes[at].has_call_file && dwarf_reader_file(v->r, file, &ignored);
		line = nodes[at].call_line;
		column = nodes[at].call_column;
		discriminator = nodes[at].call_discriminator;
	}
}

static void table_text(struct verifier *v, const struct symtab_frames *frames)
{
	v->got.size = 0;
	for (size_t i = 0; i < frames->n; i++) {
		const struct symtab_frame *f = &frames->list[i];
		AUTO(buf_done) struct buf path = { 0 };
		char *clean;

		symtab_path(f->dir, f->file, &path);
		clean = mem_alloc(path.size + 2);
		if (i < v->unsaid.size && v->unsaid.p[i])
			buf_printf(&v->got, " in " STR_FMT " at any file", STR_ARG(f->name));
		else
			buf_printf(&v->got, "%s" STR_FMT " at %.*s", i ? " in " : "", STR_ARG(f->name),
				   (int)path_canonical(buf_str(&path), clean), clean);
		text_add_numbers(v, &v->got, f->line, f->column, f->discriminator);
		free(clean);
	}
}

static int check_addr(struct verifier *v, const struct verified_function *f, uint64_t addr, struct err *err)
{
	struct symtab_frames frames = { 0 };
	int r;

	if (expect_frames(v, f, addr, err) < 0)
		return -1;
	r = symtab_find(v->finder, addr, &frames, err);
	if (r < 0)
		return -1;
	v->check->n_rows++;
	table_text(v, &frames);
	if (r == 0 && str_eq(buf_str(&v->got), buf_str(&v->expected))) {
		v->check->n_equal++;
	} else if (is_shadowed(v, addr)) {
		v->check->n_shadowed++;
	} else {
		v->check->n_different++;
		if (v->check->fn) {
			AUTO(mem_freep)
			char *text = mem_printf("DWARF: " STR_FMT "; table: " STR_FMT,
						STR_ARG(buf_str(&v->expected)), STR_ARG(buf_str(&v->got)));

			v->check->fn(v->check->arg, addr, text);
		}
	}
	return 0;
}

/* Check the start of the span, and of the rows within it. */
static int check_span(struct verifier *v, const struct verified_function *f, const struct dwarf_span *s,
		      struct err *err)
{
	const struct dwarf_lines *l = dwarf_reader_lines(v->r);
	/* The rows of other calls are rows of the function. */
	bool rows = !s->node || call_is_outside(v->spans + f->span, f->n_spans, s);

	if (check_addr(v, f, s->lo, err) < 0)
		return -1;
	for (size_t i = 0; rows && i < l->n_sequences && l->sequences[i].base < s->hi; i++) {
		const struct dwarf_sequence *q = &l->sequences[i];

		if (q->end <= s->lo)
			continue;
		for (size_t k = 0; k + 1 < q->n_rows; k++) {
			uint64_t addr = q->base + l->rows[q->row + k].off;

			if (addr > s->lo && addr < s->hi && check_addr(v, f, addr, err) < 0)
				return -1;
		}
	}
	return 0;
}

static int verify_unit(struct verifier *v, size_t unit, struct err *err)
{
	struct err why = { 0 };
	int r = dwarf_reader_unit(v->r, unit, &why);

	v->n_nodes = v->n_spans = v->n_functions = 0;
	if (r == 0)
		r = dwarf_reader_walk(v->r, verify_keep, v, &why);
	if (r < 0 && !err_is_input(&why)) {
		*err = why;
		return -1;
	}
	for (size_t i = 0; i < v->n_functions; i++) {
		const struct verified_function *f = &v->functions[i];

		for (size_t k = 0; k < f->n_spans; k++)
			if (check_span(v, f, &v->spans[f->span + k], err) < 0)
				return -1;
	}
	return 0;
}

static int verify_units(struct verifier *v, const struct dwarf *d, struct err *err)
{
	struct err ignored = { 0 };

	for (size_t i = 0; i < dwarf_n_units(d); i++)
		if (dwarf_reader_unit(v->r, i, &ignored) == 0)
			dwarf_reader_walk(v->r, verify_keep_all, v, &ignored);
	if (v->n_all)
		qsort(v->all, v->n_all, sizeof(*v->all), span_by_place);
	for (size_t i = 0; i < dwarf_n_units(d); i++)
		if (verify_unit(v, i, err) < 0)
			return -1;
	return 0;
}

static int verify_id(const struct symtab *t, const struct elf_image *img, struct err *err)
{
	struct build_id id = { 0 };
	struct err ignored = { 0 };

	if (elf_build_id(img, &id, &ignored) < 0)
		return 0;
	if (id.size != symtab_info(t)->build_id.size ||
	    memcmp(id.b, symtab_info(t)->build_id.b, id.size) != 0)
		return err_set(err, ERR_INVALID, "the table has another build ID than the file");
	return 0;
}

int symtab_verify(struct symtab *t, const struct elf_image *img, const struct symtab_options *o,
		  struct symtab_check *check, struct err *err)
{
	AUTO(dwarf_closep) struct dwarf *d = NULL;
	struct verifier v = { .check = check,
			      .columns = symtab_info(t)->flags & SYMTAB_HAS_COLUMNS,
			      .discriminators = symtab_info(t)->flags & SYMTAB_HAS_DISCRIMINATORS };
	struct err ignored = { 0 };
	int r;

	*check = (struct symtab_check){ .fn = check->fn, .arg = check->arg };
	if (verify_id(t, img, err) < 0)
		return -1;
	r = dwarf_open(img, o->alt, o->temp_dir, &d, err);
	if (r)
		return r < 0 ? -1 : 0;
	/* The builder ignores a damaged .dwp, too. */
	if (o->split)
		(void)dwarf_open_split(d, o->split, &ignored);
	v.r = dwarf_reader_new(d);
	if (v.discriminators)
		dwarf_reader_discriminators(v.r);
	v.finder = symtab_finder_new(t);
	r = verify_units(&v, d, err);
	symtab_finder_free(v.finder);
	dwarf_reader_free(v.r);
	buf_done(&v.expected);
	buf_done(&v.got);
	buf_done(&v.unsaid);
	free(v.all);
	free(v.nodes);
	free(v.spans);
	free(v.functions);
	return r;
}
