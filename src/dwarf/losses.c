/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The account of the descriptions that cannot be read while what comes after them can: none is dropped silently.
 * Only the first of a unit has a text, since a crafted file may have millions.
 */
#include "dwarf/code.h"

#include <stdio.h>

void dwarf_loss_add(struct dwarf_losses *l, const struct err *why)
{
	if (!l->n++)
		l->first = *why;
}

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

void dwarf_reader_lose_forms(struct dwarf_reader *r, uint64_t die, const struct dwarf_decl *decl)
{
	const struct dwarf_data *s = &r->cu.file->abbrev;
	const uint8_t *p = s->p + r->table->off + decl->spec, *end = s->p + s->size;
	uint8_t read, is;

	while (!r->losses.n) {
		uint64_t attr = leb_u(&p, end), form = leb_u(&p, end);
		uint8_t slot = dwarf_code_slot(attr, decl->kind);

		if (form == FORM_IMPLICIT_CONST)
			leb_s(&p, end);
		if (p > end || (!attr && !form))
			break;
		if (slot == DWARF_NO_SLOT || slot == DWARF_SLOT_SIBLING ||
		    (form != FORM_INDIRECT && dwarf_slot_plan(slot, form, &r->cu.format, &read, &is)))
			continue;
		dwarf_reader_lose(r, "DIE at %llu: attribute 0x%llx in form 0x%llx", (unsigned long long)die,
				  (unsigned long long)attr, (unsigned long long)form);
		return;
	}
	dwarf_reader_lose(r, "DIE at %llu: an attribute in a form that it cannot have",
			  (unsigned long long)die);
}

int dwarf_unknown_form(const struct dwarf_reader *r, const struct dwarf_decl *decl, struct err *err)
{
	const struct dwarf_data *s = &r->cu.file->abbrev;
	const uint8_t *p = s->p + r->table->off + decl->spec, *end = s->p + s->size;

	for (;;) {
		uint64_t attr = leb_u(&p, end), form = leb_u(&p, end);
		struct cursor none = cursor_of((struct bytes){ 0 });
		struct dwarf_value ignored;

		if (form == FORM_IMPLICIT_CONST)
			leb_s(&p, end);
		if (p > end || (!attr && !form))
			return err_set(err, ERR_INVALID, "unknown form after DW_FORM_indirect");
		if (form != FORM_INDIRECT && !dwarf_form_read(&none, form, 0, &r->cu.format, &ignored))
			return err_set(err, ERR_INVALID, "unknown form 0x%llx of attribute 0x%llx",
				       (unsigned long long)form, (unsigned long long)attr);
	}
}

const struct dwarf_losses *dwarf_reader_losses(const struct dwarf_reader *r)
{
	return &r->losses;
}
