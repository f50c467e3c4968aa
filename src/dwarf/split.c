/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a skeleton unit to its split unit (section 3.1.3): in the skeleton's own file or in the .dwp if these have
 * it, otherwise in the .dwo file that the skeleton names.
 *
 * A reader has one .dwo open at a time. Most skeletons have one of their own; those of a program that was
 * compiled as a whole name the same one, in the order of its units. Each file and each unit adds to the
 * reader's budget once only: otherwise a small file of many skeletons that name the same large unit could cost
 * any time.
 */
#include "dwarf/code.h"

#include <stdlib.h>

#define ROOT_NEAR KIB(4) /* bytes of a unit that are read for its root */

struct dwarf_dwo {
	/* The file opened last. */
	struct source *src;
	struct elf_image *img;
	struct dwarf *d;
	uint64_t key;
	struct err err;  /* why the file of this key could not be opened */
	size_t next;     /* the unit after the one found last */
	size_t own_next; /* the same, in the main file */
	struct buf room;
	struct dwarf_hashes seen; /* files and units that have added to the budget */
	uint64_t seed;            /* of all hashes here: they are compared with earlier ones */
};

static void dwo_close(struct dwarf_reader *r)
{
	struct dwarf_dwo *o = r->dwo;

	if (o->d) {
		dwarf_tables_forget(&r->tables, o->d);
		if (r->other.file == o->d)
			r->other.file = NULL;
	}
	dwarf_close(o->d);
	elf_close(o->img);
	source_close(o->src);
	o->d = NULL;
	o->img = NULL;
	o->src = NULL;
	o->key = 0;
	o->next = 0;
	o->err = (struct err){ 0 };
}

size_t dwarf_reader_split_room(const struct dwarf_reader *r)
{
	return r->dwo ? r->dwo->room.room : 0;
}

void dwarf_reader_split_start(struct dwarf_reader *r)
{
	if (r->dwo)
		dwarf_hashes_clear(&r->dwo->seen);
}

void dwarf_reader_split_done(struct dwarf_reader *r)
{
	if (!r->dwo)
		return;
	dwo_close(r);
	buf_done(&r->dwo->room);
	dwarf_hashes_done(&r->dwo->seen);
	free(r->dwo);
	r->dwo = NULL;
}

/* True the first time since the budget was set. @seed differs for files and units. */
static bool seen_first(struct dwarf_dwo *o, const void *p, size_t size, uint64_t seed)
{
	return dwarf_hashes_add(&o->seen, hash64(p, size, o->seed + seed));
}

/* ---- the unit in its file ---- */

/* Offsets in a file's .debug_info that may have the unit, and the unit to try first. */
struct unit_search {
	struct dwarf *file;
	uint64_t lo, hi;
	size_t expected;
};

/* Find the unit with the skeleton's id. */
static int split_unit_find(struct dwarf_reader *r, const struct unit_search *in, struct dwarf_cu *ret,
			   struct err *err)
{
	struct dwarf *file = in->file;
	size_t first = dwarf_unit_at(file, in->lo), end = first, expected = in->expected, n;

	if (first == SIZE_MAX)
		return err_set(err, ERR_INVALID, "has no unit at %llu", (unsigned long long)in->lo);
	while (end < file->n_units && file->units[end].off < in->hi)
		end++;
	n = end - first;
	for (size_t i = 0; i < n; i++) {
		size_t unit = expected > first && expected < end ? first + (expected - first + i) % n
								 : first + i;
		struct dwarf_cu cu = { .file = file, .index = unit, .skeleton = &r->skeleton };
		struct dwarf_table *table;
		struct err why = { 0 };
		const uint8_t *p;
		size_t size;

		cu.off = file->units[unit].off;
		cu.end = file->units[unit].end;
		size = (size_t)MIN(cu.end - cu.off, (uint64_t)ROOT_NEAR);
		if (dwarf_reader_spend(r, 64, err) < 0 ||
		    dwarf_data_chunk(&file->info, cu.off, size, &r->dwo->room, &p, err) < 0)
			return -1;
		if (dwarf_cu_header(&cu, p, size, &why) < 0 || cu.type == DW_UT_split_type ||
		    cu.type == DW_UT_type || cu.die - cu.off >= size)
			continue;
		if (cu.format.version < 5 && (dwarf_reader_table(r, &cu, &table, &why) < 0 ||
					      dwarf_cu_root(r, &cu, table, p + (cu.die - cu.off),
							    size - (size_t)(cu.die - cu.off), &why) < 0))
			continue;
		if (cu.dwo_id != r->skeleton.dwo_id)
			continue;
		*ret = cu;
		return 0;
	}
	return err_set(err, ERR_INVALID, "has no unit with the id %016llx: it is of another build",
		       (unsigned long long)r->skeleton.dwo_id);
}

/* Make @cu the unit at hand. */
static int split_unit_enter(struct dwarf_reader *r, struct dwarf_cu *cu, struct err *err)
{
	size_t size = (size_t)(cu->end - cu->off);
	struct dwarf_table *table;
	const uint8_t *p;

	if (dwarf_unit_fits(cu->end - cu->off, err) < 0)
		return -1;
	if (!seen_first(r->dwo, &cu->dwo_id, sizeof(cu->dwo_id), 1)) {
		if (dwarf_reader_spend(r, size, err) < 0)
			return -1;
	} else if (add_overflows(r->budget, (uint64_t)size * 16, &r->budget)) {
		r->budget = UINT64_MAX;
	}
	if (dwarf_data_chunk(&cu->file->info, cu->off, size, &r->dwo->room, &p, err) < 0 ||
	    dwarf_reader_table(r, cu, &table, err) < 0 ||
	    dwarf_cu_root(r, cu, table, p + (cu->die - cu->off), size - (size_t)(cu->die - cu->off), err) < 0)
		return -1;
	r->cu = *cu;
	r->p = p;
	r->table = table;
	r->lines_cu = &r->skeleton;
	return 0;
}

/* ---- the file ---- */

static int dwo_open(struct dwarf_reader *r, struct str name, struct err *err)
{
	const struct dwarf_split *finder = r->d->finder;
	struct dwarf_dwo *o = r->dwo;
	struct str comp_dir = { 0 };
	bool stable, missing;
	int rc;

	if (!finder || !finder->open)
		return err_set(err, ERR_INVALID, "was not found");
	dwarf_cu_string(&r->skeleton, &r->skeleton.comp_dir, &comp_dir, &stable, &missing);
	rc = finder->open(finder->arg, comp_dir, name, r->skeleton.dwo_id, &o->src, err);
	if (rc > 0)
		return err_set(err, ERR_INVALID, "was not found");
	if (rc < 0)
		return -1;
	rc = elf_open(o->src, &o->img, err);
	if (rc == 0 && o->img->sections_err.kind) {
		*err = o->img->sections_err;
		rc = -1;
	}
	if (rc > 0)
		return elf_foreign_source_err(o->src, err);
	if (rc < 0)
		return -1;
	if (o->img->h.big != r->d->big)
		return err_set(err, ERR_INVALID, "has the other byte order");
	elf_hold_in(o->img, r->d->img->memory->outer, r->d->img->disk->outer);
	if (dwarf_open_one_split(o->img, r->d->temp_dir, &o->d, err) < 0)
		return -1;
	o->d->passes = true;
	return 0;
}

/* Open the .dwo that the skeleton names, as o->d, unless it is open already. */
static int dwo_load(struct dwarf_reader *r, struct str name, struct err *err)
{
	struct dwarf_dwo *o = r->dwo;
	struct str comp_dir = { 0 };
	bool stable, missing;
	uint64_t key, shared;

	dwarf_cu_string(&r->skeleton, &r->skeleton.comp_dir, &comp_dir, &stable, &missing);
	key = hash64(name.p, name.size, hash64(comp_dir.p, comp_dir.size, o->seed)) | 1;
	if (o->key != key) {
		dwo_close(r);
		if (dwo_open(r, name, &o->err) < 0) {
			struct err why = o->err;

			dwo_close(r);
			o->err = why;
		}
		o->key = key;
		shared = o->d ? dwarf_shared_size(o->d) + o->d->info.size / 64 : 0;
		if (!seen_first(o, &key, sizeof(key), 0)) {
			if (dwarf_reader_spend(r, shared, err) < 0)
				return -1;
		} else if (add_overflows(r->budget, shared * 4, &r->budget)) {
			r->budget = UINT64_MAX;
		}
	}
	if (!o->err.kind)
		return 0;
	*err = o->err;
	return -1;
}

/* Find the skeleton's unit by the index of @file. 1: it is not in there. */
static int indexed_find(struct dwarf_reader *r, struct dwarf *file, struct dwarf_cu *ret, struct err *err)
{
	struct dwarf_part part;
	uint32_t steps;
	bool found = dwarf_index_find(&file->index, r->skeleton.dwo_id, &part, &steps);

	if (dwarf_reader_spend(r, (uint64_t)steps * 4, err) < 0)
		return -1;
	return found ? split_unit_find(r, &(struct unit_search){ file, part.info, part.info_end, 0 }, ret,
				       err)
		     : 1;
}

static int dwo_find(struct dwarf_reader *r, struct str name, struct dwarf_cu *ret, struct err *err)
{
	struct dwarf_dwo *o = r->dwo;
	struct dwarf *own = r->d->own;
	int rc;

	if (own && own->index.n_slots) {
		rc = indexed_find(r, own, ret, err);
		if (rc <= 0)
			return rc;
	} else if (own) {
		/* A unit that was not in it may still be in a file. */
		if (split_unit_find(r, &(struct unit_search){ own, 0, own->info.size, o->own_next }, ret,
				    err) == 0) {
			o->own_next = ret->index + 1;
			return 0;
		}
		if (err->kind != ERR_INVALID)
			return -1;
	}
	if (r->d->dwp && r->d->dwp->index.n_slots) {
		rc = indexed_find(r, r->d->dwp, ret, err);
		if (rc <= 0)
			return rc;
	}
	if (r->d->own_err.kind) {
		*err = r->d->own_err;
		return -1;
	}
	if (dwo_load(r, name, err) < 0 ||
	    split_unit_find(r, &(struct unit_search){ o->d, 0, o->d->info.size, o->next }, ret, err) < 0)
		return -1;
	o->next = ret->index + 1;
	return 0;
}

int dwarf_reader_split(struct dwarf_reader *r, struct err *err)
{
	struct str name = { 0 };
	struct err why = { 0 };
	bool stable, missing;
	struct dwarf_cu cu;

	/* In a .dwo that is read as the main file, a unit names its own file. */
	if (r->cu.type == DW_UT_split_compile || str_eq(r->d->info.sec->name, STR(".debug_info.dwo")))
		return 0;
	/*
	 * Without addresses it has no functions elsewhere, either: a unit of types alone, or of a clang module, whose file
	 * (-gmodules writes the name of a .pcm) is no .dwo.
	 */
	if (!r->cu.has_addresses)
		return 0;
	r->skeleton = r->cu;
	if (!r->dwo) {
		r->dwo = NEW(struct dwarf_dwo);
		r->dwo->seed = dwarf_secret();
	}
	dwarf_cu_string(&r->cu, &r->cu.dwo_name, &name, &stable, &missing);
	if (dwo_find(r, name, &cu, &why) == 0 && split_unit_enter(r, &cu, &why) == 0)
		return 0;
	r->lines_cu = &r->cu;
	if (why.kind == ERR_CANCELLED || why.kind == ERR_INTERNAL || why.kind == ERR_BUSY) {
		*err = why;
		return -1;
	}
	r->split_err = why;
	err_in(&r->split_err, "its functions are in " STR_FMT, STR_ARG(name));
	return 0;
}

const struct err *dwarf_reader_split_err(const struct dwarf_reader *r)
{
	return &r->split_err;
}

uint64_t dwarf_reader_split_size(const struct dwarf_reader *r)
{
	return r->cu.skeleton ? r->cu.end - r->cu.off : 0;
}
