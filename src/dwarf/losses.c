/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The account of descriptions that cannot be read though the ones after them can: none is dropped silently. Only the
 * first of a unit has a text, since a crafted file may have millions.
 */
#include "dwarf/code.h"

#include <stdio.h>

void dwarf_reader_lose(struct dwarf_reader *r, const char *fmt, ...)
{
	struct dwarf_losses *l = &r->losses;
	char text[ERR_TEXT_SIZE];
	va_list args;

	if (l->n++)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	(void)err_set(&l->first, ERR_INVALID, "%s", text);
}

/* The attributes of an abbreviation, one after the other. */
struct decl_attrs {
	const uint8_t *p, *end;
	uint64_t attr, form;
};

static struct decl_attrs decl_attrs_of(const struct dwarf_reader *r, const struct dwarf_decl *decl)
{
	const struct dwarf_data *s = &r->cu.file->abbrev;

	return (struct decl_attrs){ .p = s->p + r->table->off + decl->spec, .end = s->p + s->size };
}

/* False: there are no more. */
static bool decl_attrs_next(struct decl_attrs *a)
{
	a->attr = leb_u(&a->p, a->end);
	a->form = leb_u(&a->p, a->end);
	if (a->form == FORM_IMPLICIT_CONST)
		leb_s(&a->p, a->end);
	return a->p <= a->end && (a->attr || a->form);
}

void dwarf_reader_lose_forms(struct dwarf_reader *r, uint64_t die, const struct dwarf_decl *decl)
{
	struct decl_attrs a = decl_attrs_of(r, decl);
	struct err ignored = { 0 };
	uint8_t read, is;
	/* Any number of units may have the same long abbreviation. */
	bool paid = dwarf_reader_spend(r, r->losses.n ? 0 : decl->size, &ignored) == 0;

	while (paid && !r->losses.n && decl_attrs_next(&a)) {
		uint8_t slot = dwarf_code_slot(a.attr, decl->kind);

		if (slot == DWARF_NO_SLOT || slot == DWARF_SLOT_SIBLING ||
		    (a.form != FORM_INDIRECT && dwarf_slot_plan(slot, a.form, &r->cu.format, &read, &is)))
			continue;
		dwarf_reader_lose(r, "DIE at %llu: attribute 0x%llx in form 0x%llx", (unsigned long long)die,
				  (unsigned long long)a.attr, (unsigned long long)a.form);
		return;
	}
	dwarf_reader_lose(r, "DIE at %llu: an attribute in a form that it cannot have",
			  (unsigned long long)die);
}

int dwarf_unknown_form(struct dwarf_reader *r, const struct dwarf_decl *decl, struct err *err)
{
	struct decl_attrs a = decl_attrs_of(r, decl);

	if (dwarf_reader_spend(r, decl->size, err) < 0)
		return -1;

	while (decl_attrs_next(&a)) {
		struct cursor none = cursor_of((struct bytes){ 0 });
		struct dwarf_value ignored;

		if (a.form != FORM_INDIRECT && !dwarf_form_read(&none, a.form, 0, &r->cu.format, &ignored))
			return err_set(err, ERR_INVALID, "unknown form 0x%llx of attribute 0x%llx",
				       (unsigned long long)a.form, (unsigned long long)a.attr);
	}
	return err_set(err, ERR_INVALID, "unknown form after DW_FORM_indirect");
}

const struct dwarf_losses *dwarf_reader_losses(const struct dwarf_reader *r)
{
	return &r->losses;
}
