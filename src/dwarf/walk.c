/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All DIEs of a unit, one after another, without building a tree.
 *
 * The walk keeps a stack of open DIEs, the functions being read with the calls inlined into them, and, if the
 * language has them, the scopes of names. Types of C, which are most of .debug_info, are skipped by their
 * siblings.
 *
 * Every read of the loop may go up to DWARF_PAD bytes past the end. Whether it did is checked only after each
 * attribute of variable size, and once for each DIE.
 */
#include "dwarf/run.h"

#include <stdlib.h>

#define SCOPES_MAX (16u << 20)
#define NO_NODE    UINT32_MAX
#define UNIT_NEAR  KIB(4) /* bytes of a unit of which only the root is needed */

struct dwarf_frame {
	uint32_t node, scope, function; /* the state outside of it */
	bool ends_function;
	uint64_t scope_off; /* the offset of a scope; 0: it is none */
};

struct walk_state {
	uint32_t node;     /* the innermost call or function; NO_NODE: not in code */
	uint32_t function; /* the first of its nodes */
	uint32_t scope;    /* the innermost one noted */
};

typedef int function_fn(void *arg, const struct dwarf_function *f, struct err *err);

/* The offset of the DIE of a reference; *ret_alt: in the supplementary file. UINT64_MAX: it cannot be found. */
static uint64_t ref_resolve(const struct dwarf_reader *r, uint64_t v, uint8_t is, bool *ret_alt)
{
	*ret_alt = is == DWARF_IS_ALT_REF;
	switch (is) {
	case DWARF_IS_UNIT_REF:
		return v < r->cu.end - r->cu.off ? r->cu.off + v : UINT64_MAX;
	case DWARF_IS_REF:
		return r->cu.part.info + v;
	case DWARF_IS_ALT_REF:
		return v;
	}
	return UINT64_MAX;
}

/* The spans of a node, by the low and high pc or the list of its DIE at @die. */
static int node_spans(struct dwarf_reader *r, const struct dwarf_values *vs, uint32_t node, uint64_t die,
		      struct err *err)
{
	uint64_t lo, hi;

	if (vs->has & 1u << DWARF_SLOT_RANGES) {
		if (dwarf_reader_ranges(r, vs->v[DWARF_SLOT_RANGES],
					vs->is[DWARF_SLOT_RANGES] == DWARF_IS_LIST_INDEX, node, err) == 0)
			return 0;
		if (err->kind != ERR_INVALID)
			return -1;
		/* The ranges before the damage hold. */
		dwarf_reader_lose(r, "DIE at %llu: %s", (unsigned long long)die, err->text);
		err->kind = ERR_NONE;
		return 0;
	}
	if (!(vs->has & 1u << DWARF_SLOT_LOW))
		return 0;
	if (!(vs->has & 1u << DWARF_SLOT_HIGH)) {
		if (dwarf_cu_address_of(&r->cu, vs->v[DWARF_SLOT_LOW], vs->is[DWARF_SLOT_LOW], r->p, &lo) &&
		    dwarf_code_end(r->d, lo))
			dwarf_reader_lose(r, "DIE at %llu: its code has no end", (unsigned long long)die);
		return 0;
	}
	if (!dwarf_cu_address_of(&r->cu, vs->v[DWARF_SLOT_LOW], vs->is[DWARF_SLOT_LOW], r->p, &lo) ||
	    !dwarf_cu_address_of(&r->cu, vs->v[DWARF_SLOT_HIGH], vs->is[DWARF_SLOT_HIGH], r->p, &hi)) {
		dwarf_reader_lose(r, "DIE at %llu: .debug_addr lacks its address", (unsigned long long)die);
		return 0;
	}
	if ((vs->is[DWARF_SLOT_HIGH] == DWARF_IS_NUMBER && add_overflows(lo, hi, &hi)) || hi < lo) {
		if (dwarf_code_end(r->d, lo))
			dwarf_reader_lose(r, "DIE at %llu: its code ends before it starts",
					  (unsigned long long)die);
		return 0;
	}
	dwarf_reader_span(r, lo, hi, node);
	return 0;
}

static int function_done(struct dwarf_reader *r, uint32_t first, function_fn *fn, void *arg, struct err *err)
{
	struct dwarf_function f = { .nodes = r->nodes + first, .n_nodes = r->n_nodes - first };
	size_t span = r->n_spans;
	int rc = 0;

	while (span && r->spans[span - 1].node >= first)
		span--;
	for (size_t i = span; i < r->n_spans; i++)
		r->spans[i].node -= first;
	f.n_spans = r->n_spans - span;
	/* All of its code may be dead, and then there may be no list of spans yet. */
	if (f.n_spans) {
		f.spans = r->spans + span;
		rc = fn(arg, &f, err);
	}
	r->n_nodes = first;
	r->n_spans = span;
	return rc;
}

static int frame_push(struct dwarf_reader *r, const struct walk_state *outside, bool ends_function,
		      uint64_t scope_off, struct err *err)
{
	if (r->depth >= DWARF_MAX_DEPTH)
		return err_set(err, ERR_LIMIT, "more than the %u nested DIEs allowed", DWARF_MAX_DEPTH);
	READER_GROW(r, r->stack, r->depth, r->room_stack);
	r->stack[r->depth++] = (struct dwarf_frame){ .node = outside->node,
						     .scope = outside->scope,
						     .function = outside->function,
						     .ends_function = ends_function,
						     .scope_off = scope_off };
	return 0;
}

/* 0: there is none. */
static inline uint32_t slot_number(const struct dwarf_values *vs, unsigned slot, uint32_t most)
{
	return vs->has & 1u << slot ? (uint32_t)MIN(vs->v[slot], (uint64_t)most) : 0;
}

static int node_add(struct dwarf_reader *r, const struct dwarf_values *vs, uint64_t die, uint32_t parent,
		    struct err *err)
{
	struct dwarf_node *n;

	if (r->n_nodes >= DWARF_MAX_NODES)
		return err_set(err, ERR_LIMIT, "more than the %u inlined calls allowed", DWARF_MAX_NODES);
	READER_GROW(r, r->nodes, r->n_nodes, r->room_nodes);
	n = &r->nodes[r->n_nodes++];
	*n = (struct dwarf_node){
		.die = die,
		.parent = parent,
		.has_call_file = vs->has >> DWARF_SLOT_CALL_FILE & 1,
		.call_file = slot_number(vs, DWARF_SLOT_CALL_FILE, UINT32_MAX),
		.call_line = slot_number(vs, DWARF_SLOT_CALL_LINE, UINT32_MAX),
		.call_column = slot_number(vs, DWARF_SLOT_CALL_COLUMN, UINT16_MAX),
		.call_discriminator = slot_number(vs, DWARF_SLOT_CALL_DISCRIMINATOR, UINT32_MAX),
	};
	return 0;
}

/* Enter a subprogram with addresses. They may all be dead, and those of calls inlined into it not: BOLT's are. */
static int function_begin(struct dwarf_reader *r, struct walk_state *st, const struct dwarf_values *vs,
			  uint64_t die, struct err *err)
{
	uint32_t first = (uint32_t)r->n_nodes;

	if (node_add(r, vs, die, 0, err) < 0 || node_spans(r, vs, first, die, err) < 0)
		return -1;
	st->node = first;
	st->function = first;
	return 0;
}

static int inlined_begin(struct dwarf_reader *r, struct walk_state *st, const struct dwarf_values *vs,
			 uint64_t die, struct err *err)
{
	uint32_t node = (uint32_t)r->n_nodes;
	uint64_t origin = UINT64_MAX;
	bool in_alt = false;

	if (vs->has & 1u << DWARF_SLOT_ORIGIN) {
		origin = ref_resolve(r, vs->v[DWARF_SLOT_ORIGIN], vs->is[DWARF_SLOT_ORIGIN], &in_alt);
		if (origin == UINT64_MAX)
			dwarf_reader_lose(r, "DIE at %llu: its function is past the unit",
					  (unsigned long long)die);
	}
	if (node_add(r, vs, origin, st->node - st->function, err) < 0)
		return -1;
	r->nodes[node].in_alt = in_alt;
	if (node_spans(r, vs, node, die, err) < 0)
		return -1;
	st->node = node;
	return 0;
}

/* Count a call that has live code, but no function around it. */
static int inlined_astray(struct dwarf_reader *r, const struct dwarf_values *vs, uint64_t die,
			  struct err *err)
{
	size_t n_spans = r->n_spans;

	if (!(vs->has & (1u << DWARF_SLOT_LOW | 1u << DWARF_SLOT_RANGES)))
		return 0;
	if (node_spans(r, vs, NO_NODE, die, err) < 0)
		return -1;
	if (r->n_spans > n_spans)
		dwarf_reader_lose(r, "DIE at %llu: a call that is inlined into no function",
				  (unsigned long long)die);
	r->n_spans = n_spans;
	return 0;
}

/*
 * Note the open scopes from the frame @*noted on. This is done only for functions: most scopes contain none,
 * and are declarations of functions themselves.
 */
static int scopes_note(struct dwarf_reader *r, struct walk_state *st, size_t *noted, struct err *err)
{
	for (; *noted < r->depth; ++*noted) {
		struct dwarf_frame *f = &r->stack[*noted];

		f->scope = st->scope;
		if (!f->scope_off)
			continue;
		if (r->n_scopes >= SCOPES_MAX)
			return err_set(err, ERR_LIMIT, "more than the %u scopes allowed", SCOPES_MAX);
		READER_GROW(r, r->scopes, r->n_scopes, r->room_scopes);
		r->scopes[r->n_scopes] = (struct dwarf_scope){ f->scope_off, UINT64_MAX, st->scope };
		st->scope = (uint32_t)r->n_scopes++;
	}
	return 0;
}

/* The end of a DIE's children, to skip them. NULL: not known. */
static const uint8_t *sibling_find(const struct dwarf_reader *r, const struct dwarf_text *t,
				   const struct dwarf_values *vs, const uint8_t *p)
{
	uint64_t off;

	if (!(vs->has & 1u << DWARF_SLOT_SIBLING) || vs->is[DWARF_SLOT_SIBLING] != DWARF_IS_UNIT_REF)
		return NULL;
	off = vs->v[DWARF_SLOT_SIBLING];
	return off < (uint64_t)(t->end - t->start) && t->start + off >= p ? t->start + off : NULL;
}

/* The same, for abbreviations that have it at a fixed offset; @p is after the code. */
static inline const uint8_t *sibling_jump(const struct dwarf_text *t, const struct dwarf_decl *decl,
					  const uint8_t *p)
{
	const uint8_t *at = p + decl->jump - 1;
	uint64_t off = dwarf_get(at, 4, t->big);

	return off < (uint64_t)(t->end - t->start) && t->start + off >= at + 4 ? t->start + off : NULL;
}

/* The end of a DIE that is skipped. */
static inline const uint8_t *leaf_pass(const struct dwarf_text *t, const struct dwarf_decl *decl,
				       const uint8_t *p)
{
	uint64_t n;

	p += decl->before;
	if (decl->leaf != DWARF_LEAF_PLAIN) {
		if (p > t->end)
			return p;
		n = leb_u(&p, t->end);
		if (decl->leaf == DWARF_LEAF_BLOCK)
			p = dwarf_run_pass(t, p, n);
	}
	return p + decl->after;
}

static inline uint64_t die_off(const struct dwarf_reader *r, const struct dwarf_text *t, const uint8_t *die)
{
	return r->cu.off + (uint64_t)(die - t->start);
}

static int die_damaged(const struct dwarf_reader *r, const struct dwarf_text *t, const uint8_t *p,
		       const char *why, struct err *err)
{
	return err_set(err, ERR_INVALID, "DIE at %llu: %s",
		       (unsigned long long)(r->cu.off + (uint64_t)(p - t->start)), why);
}

static int unit_walk(struct dwarf_reader *r, const struct dwarf_text *t, function_fn *fn, void *arg,
		     struct err *err)
{
	const uint8_t *p = t->start + (r->cu.die - r->cu.off), *die, *to;
	struct walk_state st = { NO_NODE, 0, UINT32_MAX }, outside;
	const struct dwarf_decl *decl, *decls = r->table->decls;
	size_t n_dense = r->table->dense ? r->table->n_decls : 0, noted = 0;
	bool is_c = r->cu.is_c, begun, scoped;
	struct dwarf_values vs;
	uint64_t code;
	int rc;

	while (p < t->end) {
		die = p;
		code = leb_u(&p, t->end);
		if (!code) {
			struct dwarf_frame *f;

			if (!r->depth)
				continue; /* padding */
			f = &r->stack[--r->depth];
			if (noted > r->depth) {
				noted = r->depth;
				if (f->scope_off)
					r->scopes[st.scope].end = r->cu.off + (uint64_t)(die - t->start);
			}
			if (f->ends_function && (rc = function_done(r, st.function, fn, arg, err)) != 0)
				return rc;
			st = (struct walk_state){ f->node, f->function, f->scope };
			continue;
		}
		decl = code - 1 < n_dense ? &decls[code - 1] : dwarf_table_find(r->table, code);
		if (!decl)
			return die_damaged(r, t, die, "its abbreviation is not in the table", err);
		/* Nine of ten DIEs are of these three kinds. */
		if (decl->leaf) {
			p = leaf_pass(t, decl, p);
			if (p > t->end)
				return die_damaged(r, t, die, "ends past the unit", err);
			continue;
		}
		if (decl->jump && (is_c || decl->kind == DWARF_KIND_TYPE) &&
		    (to = sibling_jump(t, decl, p)) != NULL) {
			p = to;
			continue;
		}
		vs.has = 0;
		if (decl->passes) {
			p += decl->passes;
		} else {
			p = dwarf_run(t, p, r->table->programs.p + decl->program, &vs);
		}
		if (!p) {
			dwarf_unknown_form(r, decl, err);
			return err_in(err, "DIE at %llu", (unsigned long long)die_off(r, t, die));
		}
		if (p > t->end)
			return die_damaged(r, t, die, "ends past the unit", err);
		outside = st;
		begun = scoped = false;
		switch (decl->kind) {
		case DWARF_KIND_FUNCTION:
			if (noted < r->depth && !is_c) {
				if (scopes_note(r, &st, &noted, err) < 0)
					return -1;
				outside = st;
			}
			if (decl->lost || vs.has & DWARF_HAS_LOST)
				dwarf_reader_lose_forms(r, die_off(r, t, die), decl);
			begun = vs.has & (1u << DWARF_SLOT_LOW | 1u << DWARF_SLOT_RANGES);
			if (begun && function_begin(r, &st, &vs, die_off(r, t, die), err) < 0)
				return -1;
			if (!begun) {
				/* Its children are no code of the function that contains it. */
				st.node = NO_NODE;
				/* GCC nests functions, also those of OpenMP, in the abstract one. */
				if (is_c && decl->children && !decl->abstract &&
				    (to = sibling_find(r, t, &vs, p)) != NULL) {
					st = outside;
					p = to;
					continue;
				}
			}
			scoped = !is_c && decl->children;
			break;
		case DWARF_KIND_INLINED:
			if (st.node == NO_NODE) {
				if (inlined_astray(r, &vs, die_off(r, t, die), err) < 0)
					return -1;
				break;
			}
			if (decl->lost || vs.has & DWARF_HAS_LOST)
				dwarf_reader_lose_forms(r, die_off(r, t, die), decl);
			if (inlined_begin(r, &st, &vs, die_off(r, t, die), err) < 0)
				return -1;
			break;
		case DWARF_KIND_SCOPE:
			if (is_c && decl->children && (to = sibling_find(r, t, &vs, p)) != NULL) {
				p = to;
				continue;
			}
			scoped = !is_c && decl->children;
			break;
		case DWARF_KIND_TYPE:
			if (decl->children && (to = sibling_find(r, t, &vs, p)) != NULL) {
				p = to;
				continue;
			}
			break;
		}
		if (!decl->children) {
			if (begun && (rc = function_done(r, st.function, fn, arg, err)) != 0)
				return rc;
			st = outside;
			continue;
		}
		if (frame_push(r, &outside, begun, scoped ? r->cu.off + (uint64_t)(die - t->start) : 0, err) <
		    0)
			return -1;
	}
	/* A unit may end without the end marks of its children. */
	while (r->depth) {
		struct dwarf_frame *f = &r->stack[--r->depth];

		if (f->ends_function && (rc = function_done(r, st.function, fn, arg, err)) != 0)
			return rc;
		st = (struct walk_state){ f->node, f->function, f->scope };
	}
	return 0;
}

int dwarf_reader_walk(struct dwarf_reader *r,
		      int (*fn)(void *arg, const struct dwarf_function *f, struct err *err), void *arg,
		      struct err *err)
{
	struct dwarf_text t = { r->p, r->p + (r->cu.end - r->cu.off), r->d->big, &r->cu.format };

	r->n_nodes = r->n_spans = r->n_scopes = r->depth = 0;
	return unit_walk(r, &t, fn, arg, err) < 0 ? -1 : 0;
}

/* ---- the unit at hand ---- */

struct dwarf_reader *dwarf_reader_new(const struct dwarf *d)
{
	struct dwarf_reader *r = NEW(struct dwarf_reader);

	r->d = d;
	r->budget = UINT64_MAX;
	r->cu.file = d;
	r->lines_cu = &r->cu;
	r->memory = r->names.hold = r->line_arena.hold = d->img->memory;
	return r;
}

void dwarf_reader_account(struct dwarf_reader *r)
{
	uint64_t n = r->room.room + r->line_room.room + r->other_room.room + dwarf_reader_split_room(r);

	n += r->room_rows * sizeof(*r->rows) + r->room_discriminators * sizeof(*r->discriminators);
	n += r->room_sequences * sizeof(*r->sequences) + r->room_files * sizeof(*r->file_offs);
	n += r->room_nodes * sizeof(*r->nodes) + r->room_spans * sizeof(*r->spans);
	n += r->room_scopes * sizeof(*r->scopes) + r->room_stack * sizeof(*r->stack);
	for (unsigned i = 0; i < DWARF_N_TABLES; i++)
		n += r->tables.tables[i].room_decls * sizeof(*r->tables.tables[i].decls) +
		     r->tables.tables[i].programs.room;
	budget_hold_track(r->memory, &r->held, n);
}

void dwarf_reader_budget(struct dwarf_reader *r, uint64_t bytes)
{
	r->budget = bytes;
	dwarf_reader_split_start(r);
}

/* Read header and root. @near: so many bytes of the unit are read. */
static int unit_enter(struct dwarf_reader *r, size_t unit, uint64_t near, struct err *err)
{
	const struct dwarf_cu_place *place = &r->d->units[unit];
	size_t size = (size_t)MIN(place->end - place->off, near);

	r->lines_err.kind = r->split_err.kind = ERR_NONE;
	r->losses.n = 0;
	r->cu = (struct dwarf_cu){ .file = r->d, .index = unit, .off = place->off, .end = place->end };
	r->lines_cu = &r->cu;
	r->table = NULL;
	r->n_scopes = 0;
	if (dwarf_unit_fits(size, err) < 0 ||
	    dwarf_data_chunk(&r->d->info, place->off, size, &r->room, &r->p, err) < 0 ||
	    dwarf_cu_header(&r->cu, r->p, size, err) < 0)
		return -1;
	if (r->cu.type == DW_UT_type || r->cu.type == DW_UT_split_type)
		return DWARF_NO_UNIT;
	if (r->cu.die >= r->cu.off + size)
		return err_set(err, ERR_INVALID, "unit without a DIE");
	/* Padding in place of the root: linkers write zeros over units that they drop. */
	if (!r->p[r->cu.die - r->cu.off])
		return DWARF_NO_UNIT;
	if (dwarf_reader_table(r, &r->cu, &r->table, err) < 0)
		return -1;
	return dwarf_cu_root(r, &r->cu, r->table, r->p + (r->cu.die - r->cu.off),
			     size - (size_t)(r->cu.die - r->cu.off), err);
}

/* Read the line table's offset of the unit before @unit, unless that was read last. */
static void before_probe(struct dwarf_reader *r, size_t unit)
{
	struct err ignored = { 0 };

	if (r->at_hand == unit)
		return;
	r->before_has_lines = false;
	if (!unit || (unit_enter(r, unit - 1, UNIT_NEAR, &ignored) < 0 &&
		      unit_enter(r, unit - 1, UINT64_MAX, &ignored) < 0))
		return;
	/* A unit without code has no table, and then r->cu.has_lines is false. */
	r->before_has_lines = r->cu.has_lines;
	r->before_stmt_list = r->cu.stmt_list;
}

int dwarf_reader_unit(struct dwarf_reader *r, size_t unit, struct err *err)
{
	int rc;

	before_probe(r, unit);
	r->at_hand = unit + 1;
	rc = unit_enter(r, unit, UINT64_MAX, err);
	dwarf_reader_account(r);
	if (rc) {
		r->before_has_lines = false;
		return rc;
	}
	if (dwarf_reader_read_lines(r, err) < 0)
		return -1;
	return r->cu.dwo_name.class == DWARF_NONE ? 0 : dwarf_reader_split(r, err);
}

const struct err *dwarf_reader_lines_err(const struct dwarf_reader *r)
{
	return &r->lines_err;
}

uint64_t dwarf_reader_dies_end(const struct dwarf_reader *r)
{
	return MAX(r->cu.file->info.size, r->d->alt ? r->d->alt->info.size : 0);
}

struct buf dwarf_reader_take_room(struct dwarf_reader *r)
{
	struct buf room = r->room;

	room.size = 0;
	r->room = (struct buf){ 0 };
	dwarf_reader_account(r);
	return room;
}

void dwarf_reader_free(struct dwarf_reader *r)
{
	if (!r)
		return;
	budget_hold_track(r->memory, &r->held, 0);
	dwarf_reader_split_done(r);
	dwarf_tables_free(&r->tables);
	buf_done(&r->room);
	buf_done(&r->line_room);
	buf_done(&r->other_room);
	arena_done(&r->names);
	arena_done(&r->line_arena);
	free(r->file_offs);
	free(r->rows);
	free(r->discriminators);
	free(r->sequences);
	free(r->nodes);
	free(r->spans);
	free(r->scopes);
	free(r->stack);
	free(r);
}
