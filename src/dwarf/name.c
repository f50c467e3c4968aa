/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of functions: from a DIE along its abstract origins and specifications, through other units and the
 * supplementary file, to the end of the chain. The first value of each attribute counts.
 */
#include "dwarf/code.h"

#define NEAR       512     /* bytes of a DIE in another unit that are read at first */
#define SCOPES_UP  64u     /* scopes of a qualified name */
#define JOINED_MAX KIB(16) /* bytes of a qualified name */

struct name_search {
	struct dwarf_reader *r;
	const struct dwarf_cu *cu;
	struct dwarf_name *name;
	uint64_t next; /* the next DIE of the chain; UINT64_MAX: none */
	bool next_alt, by_origin, has_file;
	bool alt_missing, lost;
	struct str plain; /* the name of a scope */
};

/* Read the header and root of the unit of @file that has @off, as r->other. */
static int other_unit_enter(struct dwarf_reader *r, const struct dwarf *file, uint64_t off,
			    struct dwarf_table **ret, struct err *err)
{
	size_t unit = dwarf_unit_at(file, off), size;
	struct dwarf_cu *cu = &r->other;
	const uint8_t *p;

	if (unit == SIZE_MAX)
		return err_set(err, ERR_INVALID, "no unit with a DIE at %llu", (unsigned long long)off);
	if (cu->file == file && cu->index == unit)
		return dwarf_reader_table(r, cu, ret, err);
	*cu = (struct dwarf_cu){
		.file = file, .index = unit, .off = file->units[unit].off, .end = file->units[unit].end
	};
	size = (size_t)MIN(cu->end - cu->off, (uint64_t)KIB(4));
	if (dwarf_reader_spend(r, size, err) < 0 ||
	    dwarf_data_chunk(&file->info, cu->off, size, &r->other_room, &p, err) < 0 ||
	    dwarf_cu_header(cu, p, size, err) < 0)
		goto fail;
	if (cu->die - cu->off >= size) {
		err_set(err, ERR_INVALID, "unit without a DIE");
		goto fail;
	}
	if (dwarf_reader_table(r, cu, ret, err) < 0 ||
	    dwarf_cu_root(r, cu, *ret, p + (cu->die - cu->off), size - (size_t)(cu->die - cu->off), err) < 0)
		goto fail;
	return 0;
fail:
	cu->file = NULL;
	return -1;
}

static int die_locate(struct dwarf_reader *r, const struct dwarf *file, uint64_t off, size_t near,
		      struct dwarf_die *ret, struct err *err)
{
	struct dwarf_table *t;

	if (file == r->cu.file && off >= r->cu.die && off < r->cu.end && r->table) {
		*ret = (struct dwarf_die){ &r->cu, r->table, r->p + (off - r->cu.off),
					   (size_t)(r->cu.end - off) };
		return 0;
	}
	if (other_unit_enter(r, file, off, &t, err) < 0)
		return -1;
	if (off < r->other.die)
		return err_set(err, ERR_INVALID, "no DIE at %llu", (unsigned long long)off);
	*ret = (struct dwarf_die){ .cu = &r->other, .table = t };
	ret->size = (size_t)MIN(r->other.end - off, (uint64_t)near);
	if (dwarf_reader_spend(r, ret->size, err) < 0)
		return -1;
	return dwarf_data_chunk(&file->info, off, ret->size, &r->other_room, &ret->p, err);
}

/* Take a string; it is copied if its bytes may be overwritten by the next read. */
static void name_take_string(struct name_search *f, const struct dwarf_attr *a, struct str *ret,
			     bool *ret_stable)
{
	bool missing = false;
	struct str s;

	if (ret->size)
		return;
	if (!dwarf_cu_string(f->cu, &a->value, &s, ret_stable, &missing)) {
		f->alt_missing |= missing;
		f->lost |= !missing;
		return;
	}
	*ret = *ret_stable ? s : arena_str(&f->r->names, s);
}

static void name_follow(struct name_search *f, const struct dwarf_attr *a, bool origin)
{
	uint8_t read, is;

	if (f->by_origin)
		return;
	if (!dwarf_form_plan(a->form, &f->cu->format, &read, &is)) {
		f->lost = true;
		return;
	}
	f->next_alt = false;
	f->by_origin = origin;
	switch (is) {
	case DWARF_IS_UNIT_REF:
		f->next = f->cu->off + a->value.number;
		f->next_alt = f->r->d->alt && f->cu->file == f->r->d->alt;
		break;
	case DWARF_IS_REF:
		f->next = f->cu->part.info + a->value.number;
		f->next_alt = f->r->d->alt && f->cu->file == f->r->d->alt;
		break;
	case DWARF_IS_ALT_REF:
		f->next = a->value.number;
		f->next_alt = true;
		break;
	default: /* by signature: of a type unit, which has no functions of its own */
		f->lost = true;
	}
}

static void name_attr(void *arg, const struct dwarf_attr *a)
{
	struct name_search *f = arg;

	switch (a->name) {
	case DW_AT_name:
		name_take_string(f, a, &f->name->name, &f->name->name_stable);
		break;
	case DW_AT_linkage_name:
	case DW_AT_MIPS_linkage_name:
		name_take_string(f, a, &f->name->linkage, &f->name->linkage_stable);
		break;
	case DW_AT_decl_line:
		if (!f->name->decl_line && a->value.class == DWARF_NUMBER)
			f->name->decl_line = (uint32_t)MIN(a->value.number, (uint64_t)UINT32_MAX);
		break;
	case DW_AT_decl_file:
		if (!f->has_file && a->value.class == DWARF_NUMBER) {
			f->has_file = true;
			if (f->cu == &f->r->cu)
				f->name->decl_file = (uint32_t)MIN(a->value.number, UINT32_MAX - 1ull) + 1;
		}
		break;
	case DW_AT_abstract_origin:
		name_follow(f, a, true);
		break;
	case DW_AT_specification:
		name_follow(f, a, false);
		break;
	}
}

static void scope_attr(void *arg, const struct dwarf_attr *a)
{
	struct name_search *f = arg;
	bool stable, missing = false;

	if (a->name != DW_AT_name || f->plain.size)
		return;
	f->lost |= !dwarf_cu_string(f->cu, &a->value, &f->plain, &stable, &missing) && !missing;
	f->alt_missing |= missing;
}

/* The innermost scope of the unit at hand that contains the DIE at @off. */
static uint32_t scope_at(const struct dwarf_reader *r, uint64_t off)
{
	size_t lo = SEARCH(0, r->n_scopes, i, r->scopes[i].off < off);
	uint32_t s;

	s = lo ? (uint32_t)lo - 1 : UINT32_MAX;
	while (s != UINT32_MAX && r->scopes[s].end <= off)
		s = r->scopes[s].parent;
	return s;
}

/* Qualify a name by its scopes: "ns::type::name". */
static int name_qualify(struct dwarf_reader *r, uint64_t off, struct dwarf_name *name, struct err *err)
{
	struct str parts[SCOPES_UP + 1];
	size_t n = 0, size = name->name.size;
	char *p;

	parts[n++] = name->name;
	for (uint32_t s = scope_at(r, off); s != UINT32_MAX && n <= SCOPES_UP; s = r->scopes[s].parent) {
		struct name_search f = { .r = r, .cu = &r->cu };
		const struct dwarf_decl *decl;
		uint64_t at = r->scopes[s].off;
		struct dwarf_die die = { &r->cu, r->table, r->p + (at - r->cu.off),
					 (size_t)(r->cu.end - at) };

		if (dwarf_die_each(r, &die, scope_attr, &f, &decl, err) < 0 ||
		    dwarf_reader_spend(r, f.lost ? DWARF_MAX_NAME : f.plain.size, err) < 0)
			return -1;
		if (f.lost)
			dwarf_reader_lose(r, "DIE at %llu: the name of a scope cannot be read",
					  (unsigned long long)at);
		if (decl->tag == DW_TAG_namespace && !f.plain.size)
			f.plain = STR("(anonymous namespace)");
		if (!f.plain.size)
			continue;
		if (size + f.plain.size + 2 > JOINED_MAX)
			break;
		size += f.plain.size + 2;
		parts[n++] = f.plain;
	}
	if (n == 1)
		return 0;
	if (dwarf_reader_spend(r, size, err) < 0)
		return -1;
	p = arena_alloc(&r->names, size);
	name->name = (struct str){ p, size };
	name->name_stable = false;
	while (n--) {
		memcpy(p, parts[n].p, parts[n].size);
		p += parts[n].size;
		if (n) {
			memcpy(p, "::", 2);
			p += 2;
		}
	}
	return 0;
}

static int die_read(struct dwarf_reader *r, const struct dwarf *file, uint64_t off, struct name_search *f,
		    struct err *err)
{
	const struct dwarf_decl *decl;

	for (size_t near = NEAR;; near *= 16) {
		struct dwarf_die at;
		struct dwarf_name before = *f->name;

		if (die_locate(r, file, off, near, &at, err) < 0)
			return -1;
		f->cu = at.cu;
		if (dwarf_die_each(r, &at, name_attr, f, &decl, err) == 0)
			return 0;
		/* It may have failed only because not all bytes were read: read more. */
		if (err->kind == ERR_LIMIT || at.cu == &r->cu || at.size == at.cu->end - off)
			return -1;
		*f->name = before;
	}
}

int dwarf_reader_name(struct dwarf_reader *r, uint64_t die, bool in_alt, struct dwarf_name *ret,
		      struct err *err)
{
	struct name_search f = { .r = r, .name = ret };
	uint64_t first = die;
	unsigned hops;

	*ret = (struct dwarf_name){ .name_stable = true, .linkage_stable = true };
	arena_reset(&r->names);
	for (hops = 0; die != UINT64_MAX && hops < DWARF_MAX_HOPS; hops++) {
		if (in_alt && !r->d->alt) {
			ret->alt_missing = true;
			return 0;
		}
		f.next = UINT64_MAX;
		f.by_origin = false;
		if (die_read(r, in_alt ? r->d->alt : r->cu.file, die, &f, err) < 0)
			return err_in(err, "name of the DIE at %llu", (unsigned long long)die);
		ret->language = f.cu->language;
		ret->alt_missing = f.alt_missing && !ret->name.size;
		if (f.next == UINT64_MAX) {
			if (!ret->linkage.size && ret->name.size && f.cu == &r->cu && !f.cu->is_c &&
			    name_qualify(r, die, ret, err) < 0)
				return -1;
			break;
		}
		die = f.next;
		in_alt = f.next_alt;
	}
	if (hops == DWARF_MAX_HOPS && die != UINT64_MAX)
		f.lost = true;
	/* Also if another one of its names was read: a linkage name says more. */
	if (f.lost)
		dwarf_reader_lose(r, "DIE at %llu: its name cannot be read", (unsigned long long)first);
	return dwarf_reader_spend(r, ret->name.size + ret->linkage.size, err);
}
