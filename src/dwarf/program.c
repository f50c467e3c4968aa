/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Abbreviations (section 7.5.3) compiled to byte programs.
 *
 * A unit has millions of DIEs and a few hundred abbreviations. Each abbreviation becomes a program that reads
 * the few attributes that say where code is, and skips all others, runs of fixed size in one step. Units with
 * the same table share it; the tables used last are kept. Compiling is charged to the reader's budget:
 * thousands of small units can each name the same large table, each by another offset.
 */
#include "dwarf/code.h"

#include <stdlib.h>

#define DECLS_MAX (1u << 20) /* abbreviations of one table */
#define ATTRS_MAX 4096u      /* attributes of one abbreviation */

static const uint8_t kinds[] = {
	[DW_TAG_class] = DWARF_KIND_SCOPE,
	[DW_TAG_enumeration] = DWARF_KIND_TYPE,
	[DW_TAG_structure] = DWARF_KIND_SCOPE,
	[DW_TAG_union] = DWARF_KIND_SCOPE,
	[DW_TAG_inlined] = DWARF_KIND_INLINED,
	[DW_TAG_module] = DWARF_KIND_SCOPE,
	[DW_TAG_subprogram] = DWARF_KIND_FUNCTION,
	[DW_TAG_interface] = DWARF_KIND_SCOPE,
	[DW_TAG_namespace] = DWARF_KIND_SCOPE,
	[0x01] = DWARF_KIND_TYPE, /* array */
	[0x15] = DWARF_KIND_TYPE, /* subroutine type */
	[DW_TAG_call_site] = DWARF_KIND_TYPE,
};

/*
 * A program being written. Bytes to skip are added up until another instruction comes. ROOM is enough for one
 * attribute: a value with a number of 8 bytes, and the skip before it, which is at most SKIP_MAX bytes.
 */
#define ROOM     64u
#define SKIP_MAX 4096u

struct program_writer {
	uint8_t *p;
	unsigned skip;
};

static inline void skip_flush(struct program_writer *w)
{
	while (w->skip) {
		unsigned n = MIN(w->skip, 255u - DWARF_OP_SKIP);

		*w->p++ = (uint8_t)(DWARF_OP_SKIP + n);
		w->skip -= n;
	}
}

static inline void op_emit(struct program_writer *w, uint8_t op)
{
	skip_flush(w);
	*w->p++ = op;
}

/* Write the instruction that skips an attribute. False: an unknown form. */
static bool compile_skip(struct program_writer *w, uint64_t form, const struct dwarf_format *f)
{
	uint8_t read, is;

	if (dwarf_form_plan(form, f, &read, &is)) {
		if (read == DWARF_READ_ULEB || read == DWARF_READ_SLEB)
			op_emit(w, DWARF_OP_ULEB);
		else if (read != DWARF_READ_IMPLICIT)
			w->skip += read;
		return true;
	}
	switch (form) {
	case FORM_STRP:
	case FORM_LINE_STRP:
	case FORM_STRP_SUP:
	case FORM_GNU_STRP_ALT:
		w->skip += f->offset_size;
		return true;
	case FORM_STRX1:
	case FORM_STRX2:
	case FORM_STRX3:
	case FORM_STRX4:
		w->skip += (unsigned)(form - FORM_STRX1 + 1);
		return true;
	case FORM_DATA16:
		w->skip += 16;
		return true;
	case FORM_STRX:
	case FORM_GNU_STR_INDEX:
	case FORM_LOCLISTX:
		op_emit(w, DWARF_OP_ULEB);
		return true;
	case FORM_LLVM_ADDRX_OFFSET:
		op_emit(w, DWARF_OP_ULEB);
		w->skip += 4;
		return true;
	case FORM_STRING:
		op_emit(w, DWARF_OP_STRING);
		return true;
	case FORM_BLOCK1:
		op_emit(w, DWARF_OP_BLOCK1);
		return true;
	case FORM_BLOCK2:
		op_emit(w, DWARF_OP_BLOCK2);
		return true;
	case FORM_BLOCK4:
		op_emit(w, DWARF_OP_BLOCK4);
		return true;
	case FORM_BLOCK:
	case FORM_EXPRLOC:
		op_emit(w, DWARF_OP_BLOCK);
		return true;
	}
	return false;
}

/* Keep the result of compile_skip() for each form with a small number: a size, or one op. */
static void skips_make(struct dwarf_skips *s, const struct dwarf_format *f)
{
	uint8_t room[ROOM];

	if (s->format.version == f->version && s->format.addr_size == f->addr_size &&
	    s->format.offset_size == f->offset_size)
		return;
	s->format = *f;
	for (unsigned form = 0; form < DWARF_FORMS; form++) {
		struct program_writer w = { .p = room };

		bool known = form != FORM_INDIRECT && compile_skip(&w, form, f) && w.p - room <= 1 &&
			     !(w.skip && w.p != room);

		s->op[form] = known && w.p != room ? room[0] : DWARF_OP_END;
		s->size[form] = known && w.p == room ? (uint8_t)w.skip : DWARF_NOT_SIZED;
	}
	/* Its value is in the abbreviation, not in the DIE. */
	s->size[FORM_IMPLICIT_CONST] = DWARF_NOT_SIZED;
}

/* Attributes with small numbers that the walk needs of any DIE. */
#define ATTRS 0x80
static const bool needed[ATTRS] = {
	[0] = true, /* the end mark */
	[DW_AT_sibling] = true,
	[DW_AT_low_pc] = true,
	[DW_AT_high_pc] = true,
	[DW_AT_ranges] = true,
	[DW_AT_inline] = true,
	[DW_AT_abstract_origin] = true,
	[DW_AT_call_file] = true,
	[DW_AT_call_line] = true,
	[DW_AT_call_column] = true,
};

/*
 * Skip the attributes at @p that the walk needs of no DIE and that have a fixed size, which are most. Returns the
 * first other one; *n counts them.
 */
static inline const uint8_t *plain_pass(const uint8_t *p, const uint8_t *end, const struct dwarf_skips *skips,
					unsigned *n, unsigned *skip)
{
	const uint8_t *start = p, *last = p + 2 * MIN((size_t)(end - p) / 2, (size_t)(ATTRS_MAX - *n));
	unsigned sum = *skip;

	for (; p < last && p[0] < ATTRS && !needed[p[0]] && p[1] < DWARF_FORMS && sum <= SKIP_MAX; p += 2) {
		if (skips->size[p[1]] == DWARF_NOT_SIZED)
			break;
		sum += skips->size[p[1]];
	}
	*n += (unsigned)(p - start) / 2;
	*skip = sum;
	return p;
}

static void compile_value(struct program_writer *w, uint8_t slot, uint8_t read, uint8_t is, int64_t implicit)
{
	static const uint8_t ops[] = {
		[1] = DWARF_OP_VALUE1,
		[2] = DWARF_OP_VALUE2,
		[4] = DWARF_OP_VALUE4,
		[8] = DWARF_OP_VALUE8,
		[DWARF_READ_ULEB] = DWARF_OP_VALUE_ULEB,
	};
	bool near = read < ARRAY_SIZE(ops) && ops[read];

	op_emit(w, near ? ops[read] : DWARF_OP_VALUE);
	if (!near)
		*w->p++ = read;
	*w->p++ = slot;
	*w->p++ = is;
	if (read == DWARF_READ_IMPLICIT) {
		uint64_t v = htole64((uint64_t)implicit);

		memcpy(w->p, &v, 8);
		w->p += 8;
	}
}

/* False: an unknown form. *lost is set if the form is known, but not one that the slot can have. */
static bool compile_attr(struct program_writer *w, uint8_t slot, uint64_t form, int64_t implicit,
			 const struct dwarf_format *f, bool *lost)
{
	uint8_t read, is;

	if (form == FORM_INDIRECT) {
		op_emit(w, DWARF_OP_INDIRECT);
		*w->p++ = slot;
		return true;
	}
	if (slot != DWARF_NO_SLOT && dwarf_slot_plan(slot, form, f, &read, &is)) {
		compile_value(w, slot, read, is, implicit);
		return true;
	}
	*lost |= slot != DWARF_NO_SLOT && slot != DWARF_SLOT_SIBLING;
	return compile_skip(w, form, f);
}

/* Nine of ten DIEs without children have at most one attribute of variable size. */
static uint8_t decl_leaf(const struct dwarf_decl *decl, unsigned n_ops, uint8_t op, unsigned before,
			 unsigned after)
{
	if (decl->kind != DWARF_KIND_OTHER || decl->children || before > UINT8_MAX || after > UINT8_MAX)
		return DWARF_LEAF_NOT;
	if (!n_ops)
		return DWARF_LEAF_PLAIN;
	return n_ops > 1              ? DWARF_LEAF_NOT
	       : op == DWARF_OP_ULEB  ? DWARF_LEAF_ULEB
	       : op == DWARF_OP_BLOCK ? DWARF_LEAF_BLOCK
				      : DWARF_LEAF_NOT;
}

/* A table being compiled: the bytes of .debug_abbrev from its start on. */
struct table_text {
	const uint8_t *start, *p, *end;
	const struct dwarf_skips *skips;
};

/* Compile the abbreviation @code, from after its code on. With an unknown form its program ends there. */
static int compile_decl(struct dwarf_table *t, struct table_text *text, uint64_t code, struct err *err)
{
	const uint8_t *p = text->p, *end = text->end;
	const struct dwarf_skips *skips = text->skips;
	struct program_writer w = { 0 };
	uint64_t tag = leb_u(&p, end);
	struct dwarf_decl decl = { .code = code, .program = (uint32_t)t->programs.size };
	unsigned n = 0, jump = 0, n_ops = 0, before = 0;
	bool has_code = false, unknown = false;
	uint8_t slot, op = DWARF_OP_END;

	decl.tag = (uint16_t)MIN(tag, (uint64_t)UINT16_MAX);
	decl.children = *p++;
	decl.kind = decl.tag < sizeof(kinds)           ? kinds[decl.tag]
		    : decl.tag == DW_TAG_GNU_call_site ? DWARF_KIND_TYPE
						       : DWARF_KIND_OTHER;
	decl.spec = (uint32_t)(p - text->start);
	for (;;) {
		uint64_t attr, form;
		int64_t implicit;

		if (!unknown && p < end)
			p = plain_pass(p, end, skips, &n, &w.skip);
		attr = leb_u(&p, end);
		form = leb_u(&p, end);
		implicit = form == FORM_IMPLICIT_CONST ? leb_s(&p, end) : 0;
		if (p > end)
			return err_set(err, ERR_INVALID, ".debug_abbrev ends within abbreviation %llu",
				       (unsigned long long)code);
		if (!attr && !form)
			break;
		if (++n > ATTRS_MAX)
			return err_set(err, ERR_LIMIT,
				       "abbreviation %llu has more than the %u attributes allowed",
				       (unsigned long long)code, ATTRS_MAX);
		decl.abstract |= attr == DW_AT_inline ||
				 (attr == DW_AT_abstract_origin && decl.kind == DWARF_KIND_FUNCTION);
		if (unknown)
			continue;
		slot = attr < ATTRS && !needed[attr] ? DWARF_NO_SLOT : dwarf_code_slot(attr, decl.kind);
		if (slot == DWARF_NO_SLOT && form == FORM_IMPLICIT_CONST)
			continue;
		if (slot == DWARF_NO_SLOT && form < DWARF_FORMS && skips->size[form] != DWARF_NOT_SIZED &&
		    w.skip <= SKIP_MAX) {
			w.skip += skips->size[form];
			continue;
		}
		has_code |= slot == DWARF_SLOT_LOW || slot == DWARF_SLOT_RANGES;
		if (slot == DWARF_SLOT_SIBLING && form == FORM_REF4 && t->programs.size == decl.program &&
		    w.skip < DWARF_PAD - 4)
			jump = w.skip + 1;
		w.p = buf_reserve(&t->programs, ROOM);
		if (!n_ops++)
			before = w.skip;
		if (w.skip > SKIP_MAX)
			skip_flush(&w);
		if (slot == DWARF_NO_SLOT && form < DWARF_FORMS && skips->op[form] != DWARF_OP_END)
			op_emit(&w, op = skips->op[form]);
		else if (!compile_attr(&w, slot, form, implicit, &t->format, &decl.lost)) {
			op_emit(&w, DWARF_OP_UNKNOWN);
			unknown = true;
		}
		t->programs.size = (size_t)(w.p - t->programs.p);
	}
	/* The program only skips bytes. */
	if (t->programs.size == decl.program && w.skip <= UINT8_MAX)
		decl.passes = (uint8_t)w.skip;
	if (decl.children && !has_code && !decl.abstract)
		decl.jump = (uint8_t)jump;
	decl.leaf = decl_leaf(&decl, n_ops, op, before, w.skip);
	decl.before = (uint8_t)before;
	decl.after = (uint8_t)w.skip;
	w.p = buf_reserve(&t->programs, ROOM);
	op_emit(&w, DWARF_OP_END);
	t->programs.size = (size_t)(w.p - t->programs.p);
	decl.size = (uint32_t)(p - text->start) - decl.spec;
	text->p = p;
	if (code != t->n_decls + 1)
		t->dense = false;
	VEC_PUSH(t->decls, t->n_decls, t->room_decls) = decl;
	return 0;
}

static int decl_by_code(const void *a, const void *b)
{
	const struct dwarf_decl *x = a, *y = b;

	if (x->code != y->code)
		return x->code < y->code ? -1 : 1;
	return x->spec < y->spec ? -1 : x->spec > y->spec; /* the first of two counts */
}

static void decls_sort(struct dwarf_table *t)
{
	size_t n = 0;

	qsort(t->decls, t->n_decls, sizeof(*t->decls), decl_by_code);
	for (size_t i = 0; i < t->n_decls; i++)
		if (!n || t->decls[i].code != t->decls[n - 1].code)
			t->decls[n++] = t->decls[i];
	t->n_decls = n;
}

static int table_compile(struct dwarf_reader *r, struct dwarf_table *t, const struct dwarf_cu *cu,
			 struct err *err)
{
	const struct dwarf_data *s = &cu->file->abbrev;
	struct table_text text;
	int rc = 0;

	skips_make(&r->tables.skips, &t->format);
	text.skips = &r->tables.skips;
	if (s->damaged)
		return err_set(err, ERR_INVALID, "abbreviations at %llu: .debug_abbrev cannot be read",
			       (unsigned long long)cu->abbrev_off);
	if (cu->abbrev_off >= s->size)
		return err_set(err, ERR_INVALID, "no abbreviations at %llu: the section has %llu bytes",
			       (unsigned long long)cu->abbrev_off, (unsigned long long)s->size);
	text.start = text.p = s->p + cu->abbrev_off;
	text.end = s->p + s->size;
	t->dense = true;
	while (rc == 0 && text.p < text.end) {
		uint64_t code = leb_u(&text.p, text.end);

		/* A table without an end mark ends with the section. */
		if (!code || text.p > text.end)
			break;
		if (t->n_decls >= DECLS_MAX)
			rc = err_set(err, ERR_LIMIT, "more than the %u abbreviations allowed", DECLS_MAX);
		else
			rc = compile_decl(t, &text, code, err);
		if (rc == 0 && (size_t)(text.p - text.start) > r->budget)
			break;
	}
	if (!t->dense)
		decls_sort(t);
	if (rc == 0)
		rc = dwarf_reader_spend(r, (uint64_t)(text.p - text.start), err);
	return rc;
}

/* The slots of programs that read names. */
static uint8_t name_attr_slot(uint64_t attr)
{
	switch (attr) {
	case DW_AT_name:
		return DWARF_SLOT_NAME;
	case DW_AT_linkage_name:
	case DW_AT_MIPS_linkage_name:
		return DWARF_SLOT_LINKAGE;
	case DW_AT_decl_file:
		return DWARF_SLOT_DECL_FILE;
	case DW_AT_decl_line:
		return DWARF_SLOT_DECL_LINE;
	case DW_AT_abstract_origin:
		return DWARF_SLOT_NAME_ORIGIN;
	case DW_AT_specification:
		return DWARF_SLOT_SPECIFICATION;
	}
	return DWARF_NO_SLOT;
}

/* dwarf_form_plan() for a slot of names: a string by offset or by index, a number, a reference. False: another form. */
static bool name_slot_plan(uint8_t slot, uint64_t form, const struct dwarf_format *f, uint8_t *ret_read,
			   uint8_t *ret_is)
{
	if (slot == DWARF_SLOT_DECL_FILE || slot == DWARF_SLOT_DECL_LINE)
		return dwarf_form_plan(form, f, ret_read, ret_is) && *ret_is == DWARF_IS_NUMBER;
	if (slot == DWARF_SLOT_NAME_ORIGIN || slot == DWARF_SLOT_SPECIFICATION)
		return dwarf_form_plan(form, f, ret_read, ret_is) && *ret_is != DWARF_IS_NUMBER;
	*ret_is = DWARF_IS_STRING_INDEX;
	switch (form) {
	case FORM_STRP:
		*ret_read = f->offset_size;
		*ret_is = DWARF_IS_NUMBER;
		return true;
	case FORM_STRX:
	case FORM_GNU_STR_INDEX:
		*ret_read = DWARF_READ_ULEB;
		return true;
	case FORM_STRX1:
	case FORM_STRX2:
	case FORM_STRX3:
	case FORM_STRX4:
		*ret_read = (uint8_t)(form - FORM_STRX1 + 1);
		return true;
	}
	return false;
}

/* False: an attribute has a form that programs cannot read. */
static bool compile_names(struct dwarf_table *t, const uint8_t *p, const uint8_t *end)
{
	struct program_writer w = { 0 };
	uint8_t read, is;
	unsigned seen = 0;

	for (;;) {
		uint64_t attr = leb_u(&p, end), form = leb_u(&p, end);
		int64_t implicit = form == FORM_IMPLICIT_CONST ? leb_s(&p, end) : 0;
		uint8_t slot = name_attr_slot(attr);

		w.p = buf_reserve(&t->programs, ROOM);
		if (w.skip > SKIP_MAX)
			skip_flush(&w);
		if ((!attr && !form) || p > end)
			break;
		if (slot != DWARF_NO_SLOT) {
			/* The first of two equal attributes counts, but a program would take the last. */
			if (seen & 1u << slot || form == FORM_INDIRECT)
				return false;
			seen |= 1u << slot;
			if (!name_slot_plan(slot, form, &t->format, &read, &is))
				return false;
			compile_value(&w, slot, read, is, implicit);
		} else if (form == FORM_INDIRECT) {
			op_emit(&w, DWARF_OP_INDIRECT);
			*w.p++ = slot;
		} else if (!compile_skip(&w, form, &t->format)) {
			return false;
		}
		t->programs.size = (size_t)(w.p - t->programs.p);
	}
	op_emit(&w, DWARF_OP_END);
	t->programs.size = (size_t)(w.p - t->programs.p);
	return true;
}

const uint8_t *dwarf_table_names(struct dwarf_table *t, const struct dwarf_decl *of)
{
	const struct dwarf_data *s = &t->file->abbrev;
	struct dwarf_decl *decl = &t->decls[of - t->decls];

	if (!decl->names) {
		size_t start = t->programs.size;

		decl->names = (uint32_t)start + 1;
		if (!compile_names(t, s->p + t->off + decl->spec, s->p + s->size)) {
			t->programs.size = start;
			decl->names = UINT32_MAX;
		}
	}
	return decl->names == UINT32_MAX ? NULL : t->programs.p + decl->names - 1;
}

static bool table_is_of(const struct dwarf_table *t, const struct dwarf_cu *cu)
{
	/* A program depends on the file only by the sizes of its forms, but the same offset in another file is
	 * another table. */
	return t->used && t->off == cu->abbrev_off && t->format.version == cu->format.version &&
	       t->format.addr_size == cu->format.addr_size &&
	       t->format.offset_size == cu->format.offset_size && t->file == cu->file;
}

int dwarf_reader_table(struct dwarf_reader *r, const struct dwarf_cu *cu, struct dwarf_table **ret,
		       struct err *err)
{
	struct dwarf_tables *ts = &r->tables;
	struct dwarf_table *t = NULL;

	for (unsigned i = 0; i < DWARF_N_TABLES; i++) {
		struct dwarf_table *one = &ts->tables[i];

		if (table_is_of(one, cu)) {
			one->used = ++ts->clock;
			*ret = one;
			return 0;
		}
		/* Never replace the table of the unit at hand. */
		if (one != r->table && (!t || one->used < t->used))
			t = one;
	}
	t->used = 0;
	t->off = cu->abbrev_off;
	t->format = cu->format;
	t->file = cu->file;
	t->n_decls = 0;
	t->programs.size = 0;
	if (table_compile(r, t, cu, err) < 0)
		return -1;
	dwarf_reader_account(r);
	t->used = ++ts->clock;
	*ret = t;
	return 0;
}

void dwarf_tables_forget(struct dwarf_tables *ts, const struct dwarf *file)
{
	for (unsigned i = 0; i < DWARF_N_TABLES; i++)
		if (ts->tables[i].file == file)
			ts->tables[i].used = 0;
}

void dwarf_tables_free(struct dwarf_tables *ts)
{
	for (unsigned i = 0; i < DWARF_N_TABLES; i++) {
		free(ts->tables[i].decls);
		buf_done(&ts->tables[i].programs);
	}
}
