/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cache of the source names in debug files. They decide which files of this machine may be served, so only
 * debug files that are plain files on its disk are trusted: anybody may have written "/etc/shadow" into a
 * debug file in a package. A supplementary (dwz) file is found by its build ID in the index, also on disk
 * only; while it is missing, the names known without it answer, and they are dropped when it has come.
 */
#include "resolve/internal.h"

#include <stdlib.h>

/* A supplementary file that exists but cannot be read is not tried at every request. */
#define ALT_AGAIN_MS 5000

struct source_names {
	struct dwarf_sources *sources;
	struct build_id alt; /* of the supplementary file that is missing; size 0: none is */
	int64_t made_ms;
};

static void source_names_free(void *value)
{
	struct source_names *n = value;

	dwarf_sources_free(n->sources);
	free(n);
}

struct lru *names_lru(size_t max_weight)
{
	return lru_new(max_weight, source_names_free);
}

static int take_alt(void *arg, struct work *w, struct resolve_answer *ans, struct err *err)
{
	*(struct resolve_answer *)arg = *ans;
	return 0;
}

/* @alt NULL: there is none, or it is missing. */
static int names_build(struct work *w, const struct elf_image *img, const struct elf_image *alt,
		       struct str place, struct dwarf_sources **ret)
{
	struct err why = { 0 };

	return dwarf_sources_build(img, alt, ret, &why) < 0 ? work_failed(w, place, &why) : 0;
}

/* Read with the supplementary file *@alt_id; sets its size to 0 when it was read. RESOLVE_WAIT and
 * RESOLVE_BUSY as resolve(). */
static int names_build_with_alt(struct work *w, const struct elf_image *img, struct build_id *alt_id,
				struct str place, struct budget_hold *memory, struct dwarf_sources **ret)
{
	struct resolve_answer ans;
	struct elf_image *alt = NULL;
	struct err why = { 0 };
	int r = elf_find(w, alt_id, WHICH_DEBUG_ON_DISK, (struct elf_visitor){ take_alt, &ans }, &why);

	if (r == RESOLVE_WAIT || r == RESOLVE_BUSY)
		return r;
	if (r) {
		work_note(w, place, "its supplementary file is missing: source names in it are not known");
		/* The supplementary file was not requested itself: the main file answers without it. */
		w->failed.kind = ERR_NONE;
		return names_build(w, img, NULL, place, ret);
	}
	r = elf_open(ans.source, &alt, &why);
	if (r == 0) {
		elf_hold_in(alt, memory, NULL);
		alt_id->size = 0;
	} else {
		if (r > 0)
			(void)!elf_foreign_source_err(ans.source, &why);
		work_note(w, answer_place(w, &ans), "%s", why.text);
	}
	r = names_build(w, img, alt, place, ret);
	elf_close(alt);
	answer_drop(&ans);
	return r;
}

/* Damaged parts are left out of the names, but those that memory was refused for must not be. */
static int names_check_memory(struct work *w, const struct budget_hold *memory, struct str place,
			      struct dwarf_sources **sources)
{
	struct err why = { 0 };

	if (!atomic_load(&memory->n_busy) && !atomic_load(&memory->n_limit))
		return 0;
	dwarf_sources_free(TAKE(*sources));
	(void)budget_refusal(memory->budget, memory->cls, atomic_load(&memory->n_limit) ? UINT64_MAX : 0,
			     &why);
	return work_failed(w, place, &why);
}

static int source_names_read(struct work *w, struct resolve_answer *ans, struct source_names **ret,
			     struct err *err)
{
	struct str place = answer_place(w, ans), alt_path;
	struct dwarf_sources *sources = NULL;
	struct build_id alt = { 0 };
	struct budget_hold memory;
	struct elf_image *img;
	struct err why = { 0 };
	int r = elf_open(ans->source, &img, &why);

	if (r < 0)
		return work_failed(w, place, &why);
	if (r) {
		work_note(w, place, "does not match the index: not an ELF file");
		return NOT_THIS;
	}
	budget_hold_init(&memory, w->r->memory, BUDGET_FILE);
	elf_hold_in(img, &memory, NULL);
	r = candidate_check_image(w, &w->req->id, img, place);
	if (r == 0) {
		if (elf_alt_link(img, w->a, &alt_path, &alt, &why) != 0)
			alt.size = 0;
		r = alt.size ? names_build_with_alt(w, img, &alt, place, &memory, &sources)
			     : names_build(w, img, NULL, place, &sources);
	}
	elf_close(img);
	if (r == 0)
		r = names_check_memory(w, &memory, place, &sources);
	budget_hold_done(&memory);
	if (r)
		return r;
	*ret = NEW(struct source_names);
	(*ret)->sources = sources;
	(*ret)->alt = alt;
	(*ret)->made_ms = clock_mono_ms();
	return 0;
}

struct names_question {
	const struct str *paths;
	size_t n_paths;
	bool has;
};

static bool names_are_stale(struct work *w, const struct source_names *n)
{
	return n->alt.size && clock_mono_ms() - n->made_ms >= ALT_AGAIN_MS && index_has(w->ix, &n->alt);
}

static int names_visit(void *arg, struct work *w, struct resolve_answer *ans, struct err *err)
{
	struct names_question *q = arg;
	struct bytes key = bytes_of(&ans->tag, sizeof(ans->tag));
	struct lru_ref *hold = lru_get(w->r->names, key);
	struct source_names *n;

	if (hold && names_are_stale(w, lru_value(hold))) {
		lru_del(w->r->names, key);
		lru_unref(w->r->names, TAKE(hold));
	}
	if (!hold) {
		int r = source_names_read(w, ans, &n, err);

		if (r)
			return r;
		hold = lru_put(w->r->names, key, n, dwarf_sources_weight(n->sources) + sizeof(*n));
	}
	n = lru_value(hold);
	for (size_t i = 0; i < q->n_paths; i++)
		q->has = q->has || dwarf_sources_has(n->sources, q->paths[i]);
	if (!q->has)
		work_note(w, answer_place(w, ans), "names %zu source files, but not this one%s",
			  dwarf_sources_n(n->sources),
			  n->alt.size ? " (its supplementary file is missing)" : "");
	lru_unref(w->r->names, hold);
	/* Another debug file of the same build ID, such as one with its lines, may name more. */
	if (!q->has)
		return NOT_THIS;
	answer_drop(ans);
	return 0;
}

int names_have(struct work *w, const struct str *paths, size_t n_paths, bool *ret, struct err *err)
{
	struct names_question q = { paths, n_paths, false };
	int r = elf_find(w, &w->req->id, WHICH_DEBUG_ON_DISK, (struct elf_visitor){ names_visit, &q }, err);

	if (r == 0)
		*ret = q.has;
	return r;
}
