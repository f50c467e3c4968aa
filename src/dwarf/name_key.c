/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys that identify functions' names without reading them.
 *
 * The same functions of headers are in thousands of units. Their names are the same strings of .debug_str, so
 * the strings' offsets identify them. Unusual names (in other units, of other forms, names to be qualified) are
 * left to dwarf_reader_name().
 */
#include "dwarf/run.h"

/* False: not a string of .debug_str. */
static bool key_take_string(const struct dwarf_reader *r, const struct dwarf_values *vs, unsigned slot,
			    uint32_t *ret)
{
	const struct dwarf_data *str = &r->d->str;
	uint64_t off;

	if (!(vs->has & 1u << slot) || *ret != DWARF_NAME_NONE)
		return true;
	off = vs->v[slot];
	if (vs->is[slot] == DWARF_IS_STRING_INDEX && !dwarf_cu_string_off(&r->cu, off, &off))
		return false;
	if (off >= str->size)
		return false;
	/* Most strings have not been read yet. */
	__builtin_prefetch(str->p + off);
	*ret = (uint32_t)off;
	return true;
}

/* The next DIE of the chain; UINT64_MAX: none. False: it is not in this unit. */
static bool key_next_die(const struct dwarf_reader *r, const struct dwarf_values *vs, uint64_t *ret)
{
	unsigned slot = vs->has & 1u << DWARF_SLOT_NAME_ORIGIN ? DWARF_SLOT_NAME_ORIGIN
							       : DWARF_SLOT_SPECIFICATION;

	*ret = UINT64_MAX;
	if (!(vs->has & 1u << slot))
		return true;
	if (vs->is[slot] != DWARF_IS_UNIT_REF || vs->v[slot] >= r->cu.end - r->cu.off)
		return false;
	*ret = r->cu.off + vs->v[slot];
	return true;
}

void dwarf_reader_name_prefetch(const struct dwarf_reader *r, uint64_t die)
{
	if (die - r->cu.off < r->cu.end - r->cu.off)
		__builtin_prefetch(r->p + (die - r->cu.off));
}

bool dwarf_reader_name_key(struct dwarf_reader *r, uint64_t die, bool in_alt, struct dwarf_name_key *ret)
{
	struct dwarf_text t = { r->p, r->p + (r->cu.end - r->cu.off), r->d->big, &r->cu.format };
	bool has_file = false;

	*ret = (struct dwarf_name_key){ .name = DWARF_NAME_NONE, .linkage = DWARF_NAME_NONE };
	if (in_alt || r->cu.file != r->d || r->d->passes || !r->table)
		return false;
	for (unsigned hops = 0; hops < DWARF_MAX_HOPS; hops++) {
		const struct dwarf_decl *decl;
		const uint8_t *p, *program;
		struct dwarf_values vs;

		if (die < r->cu.die || die >= r->cu.end)
			return false;
		p = t.start + (die - r->cu.off);
		decl = dwarf_table_find(r->table, leb_u(&p, t.end));
		program = decl ? dwarf_table_names(r->table, decl) : NULL;
		if (!program)
			return false;
		vs.has = 0;
		p = dwarf_run(&t, p, program, &vs);
		if (!p || p > t.end || !key_take_string(r, &vs, DWARF_SLOT_NAME, &ret->name) ||
		    !key_take_string(r, &vs, DWARF_SLOT_LINKAGE, &ret->linkage))
			return false;
		if (vs.has & 1u << DWARF_SLOT_DECL_LINE && !ret->decl_line)
			ret->decl_line = (uint32_t)MIN(vs.v[DWARF_SLOT_DECL_LINE], (uint64_t)UINT32_MAX);
		if (vs.has & 1u << DWARF_SLOT_DECL_FILE && !has_file) {
			has_file = true;
			ret->decl_file = (uint32_t)MIN(vs.v[DWARF_SLOT_DECL_FILE], UINT32_MAX - 1ull) + 1;
		}
		if (!key_next_die(r, &vs, &die))
			return false;
		/* Names without a linkage name are qualified by scopes, except in C. */
		if (die == UINT64_MAX)
			return ret->linkage != DWARF_NAME_NONE || ret->name == DWARF_NAME_NONE || r->cu.is_c;
	}
	return false;
}

/* False: the string is empty or has no end; another DIE of the chain may have one. */
static bool key_string(const struct dwarf_reader *r, uint32_t off, struct str *ret)
{
	return dwarf_data_str(&r->d->str, off, ret) && ret->size;
}

int dwarf_reader_name_of_key(struct dwarf_reader *r, const struct dwarf_name_key *key, struct dwarf_name *ret,
			     struct err *err)
{
	/* A name's length is known only when it has been read, so do not start with the budget used up. */
	*ret = (struct dwarf_name){ 0 };
	if (dwarf_reader_spend(r, 1, err) < 0)
		return -1;
	*ret = (struct dwarf_name){ .name_stable = true,
				    .linkage_stable = true,
				    .decl_file = key->decl_file,
				    .decl_line = key->decl_line,
				    .language = r->cu.language };
	if ((key->name != DWARF_NAME_NONE && !key_string(r, key->name, &ret->name)) ||
	    (key->linkage != DWARF_NAME_NONE && !key_string(r, key->linkage, &ret->linkage)))
		return DWARF_NAME_LONG;
	return dwarf_reader_spend(r, ret->name.size + ret->linkage.size, err);
}
