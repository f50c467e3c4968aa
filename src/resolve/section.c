/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One section of an ELF file, as stored: a compressed one with its header. For a member of a package only the
 * header, the section table and the section itself are decoded; for a large member, whose map has the places
 * of its sections, only the section.
 */
#include "resolve/internal.h"

#define MAX_NAME 4096
/* The section table and the section names are mostly next to each other at the end: one block has both. */
#define TAIL_BLOCK    KIB(64)
#define N_TAIL_BLOCKS 4

static int section_in_image(struct work *w, const struct elf_image *img, struct str place, uint64_t *ret_off,
			    uint64_t *ret_size)
{
	const char *name = arena_strdup(w->a, w->req->arg);
	const struct elf_section *sec;
	struct err why = { 0 };
	int r;

	if (img->sections_err.kind != ERR_NONE)
		return work_failed(w, place, &img->sections_err);
	r = candidate_check_image(w, &w->req->id, img, place);
	if (r)
		return r;
	sec = elf_section_find(img, name);
	if (!sec) {
		work_note(w, place, "has no such section");
		return NOT_THIS;
	}
	r = elf_section_range(img, sec, ret_off, ret_size, &why);
	if (r < 0)
		return work_failed(w, place, &why);
	if (r) {
		work_note(w, place, "has that section, but it is empty or has no bytes in the file");
		return NOT_THIS;
	}
	return 0;
}

static int section_in_places(struct work *w, struct str place, uint64_t *ret_off, uint64_t *ret_size)
{
	const struct elf_place *p = package_section(w->entry, w->req->arg);

	if (!p) {
		work_note(w, place, "has no such section");
		return NOT_THIS;
	}
	if (!p->size) {
		work_note(w, place, "has that section, but it is empty or has no bytes in the file");
		return NOT_THIS;
	}
	*ret_off = p->off;
	*ret_size = p->size;
	return 0;
}

static int section_in_file(struct work *w, struct resolve_answer *ans, struct str place, uint64_t *ret_off,
			   uint64_t *ret_size)
{
	struct elf_image *img = NULL;
	struct source *tables;
	struct bytes head;
	struct err why = { 0 };
	int r;

	/* Cached from now on: header and notes are read again after the tables. */
	if (pinned_source_head(ans->source, &head, &why) < 0)
		return work_failed(w, place, &why);
	tables = source_cached(ans->source, false, TAIL_BLOCK, N_TAIL_BLOCKS);
	r = elf_open(tables, &img, &why);
	if (r < 0) {
		r = work_failed(w, place, &why);
	} else if (r) {
		work_note(w, place, "does not match the index: not an ELF file");
		r = NOT_THIS;
	} else {
		r = section_in_image(w, img, place, ret_off, ret_size);
	}
	elf_close(img);
	source_close(tables);
	return r;
}

static int section_visit(void *arg, struct work *w, struct resolve_answer *ans, struct err *err)
{
	struct str place = answer_place(w, ans), name = w->req->arg;
	struct resolve_answer *ret = arg;
	uint64_t off = 0, size = 0;
	struct source *part;
	char *part_name;
	int r;

	r = w->entry ? section_in_places(w, place, &off, &size) : section_in_file(w, ans, place, &off, &size);
	if (r)
		return r;
	part_name = arena_printf(w->a, "%s: " STR_FMT, ans->source->name, STR_ARG(name));
	r = source_open_part(TAKE(ans->source), true, range_of(off, size), part_name, &part, err);
	if (r)
		return r;
	part->mtime = ans->mtime;
	*ret = *ans;
	ret->source = part;
	ret->tag = hash64(name.p, name.size, ans->tag);
	return 0;
}

int section_find(struct work *w, struct resolve_answer *ret, struct err *err)
{
	struct str name = w->req->arg;

	if (!name.size || name.size > MAX_NAME || memchr(name.p, '\0', name.size)) {
		work_note(w, STR("request"), "not a section name");
		return RESOLVE_MISSING;
	}
	return elf_find(w, &w->req->id, WHICH_BOTH, (struct elf_visitor){ section_visit, ret }, err);
}
