/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a build ID to an ELF file. Scanned candidates come first, newest first; those that would have to be
 * decoded first come last: the same build ID names the same content, so the cheap one is as good.
 */
#include "resolve/internal.h"

/* How often rows read from the index may be out of date by the time they are used. */
#define MAX_ROUNDS 3

static bool hit_has_kind(const struct index_artifact *art, uint32_t flag)
{
	/* When only the header pass is done, the kind of the file is not known. */
	return art->member == INDEX_NO_MEMBER && !art->flags ? true : (art->flags & flag) != 0;
}

static bool hit_is_later(const struct index_hit *h)
{
	return h->file.kind == INDEX_PACKAGE && h->file.state != INDEX_FAILED &&
	       (h->file.state != INDEX_SCANNED || h->artifact.member == INDEX_NO_MEMBER);
}

/* The hits of a build ID, and the visitor that accepts one of them. */
struct hit_search {
	struct work *w;
	const struct index_hit *hits;
	size_t n;
	struct elf_visitor visitor;
};

static int visit_one(struct hit_search *s, struct resolve_answer *ans, struct err *err)
{
	int r = s->visitor.visit(s->visitor.arg, s->w, ans, err);

	if (r)
		answer_drop(ans);
	return r;
}

/* The hits of scanned files. NOT_THIS: none was accepted. */
static int ready_hits(struct hit_search *s, uint32_t flag, uint32_t without, struct err *err)
{
	for (size_t i = 0; i < s->n; i++) {
		const struct index_hit *h = &s->hits[i];
		struct resolve_answer ans = { 0 };
		int r;

		if (hit_is_later(h) || !hit_has_kind(&h->artifact, flag) || (h->artifact.flags & without))
			continue;
		r = candidate_open(s->w, h, &ans);
		if (r == 0)
			r = visit_one(s, &ans, err);
		if (r != NOT_THIS)
			return r;
	}
	return NOT_THIS;
}

/* @h is still the row of the index. A pass that has ended since @h was read has changed its row. */
static bool hit_is_current(struct work *w, const struct index_hit *h)
{
	struct index_file now;

	return index_file_by_id(w->ix, h->file.id, w->a, &now, NULL) == 0 && now.state == h->file.state &&
	       now.generation == h->file.generation;
}

/*
 * Queue the package for its deep pass. The pass may be done with it, or with the file in question, just
 * before this request is registered as a waiter; so check once more after registering. 0: the answer was
 * there after all. LATER: read the index again.
 */
static int wait_for_package(struct work *w, const struct index_hit *h, uint32_t flags,
			    struct resolve_answer *ret, struct err *err)
{
	struct ticket *t = ticket_new(w->wake);
	const struct scan_wanted what = { h->file.id, &h->artifact.build_id, flags };
	int r = w->r->want(w->r->scan, &what, ticket_fire, t);

	if (r) {
		ticket_unused(t);
		if (r < 0)
			return r;
		work_note(w, h->file.path,
			  "must be scanned first, and too many requests wait for scans already");
		return RESOLVE_BUSY;
	}
	if (!hit_is_current(w, h)) {
		r = LATER;
	} else {
		r = candidate_open_partial(w, &h->file, &h->artifact.build_id, flags, ret);
		if (r == LATER) {
			work_note(w, h->file.path, "is being scanned");
			ticket_leave(t);
			return RESOLVE_WAIT;
		}
	}
	if (ticket_cancel(t))
		return r;
	/* The wake has come already: it must be honoured whatever was found. */
	if (r == 0)
		answer_drop(ret);
	return RESOLVE_WAIT;
}

static int later_hit(struct work *w, const struct index_hit *h, uint32_t flags, struct resolve_answer *ret,
		     struct err *err)
{
	int r;

	if (!w->r->scan) {
		work_note(w, h->file.path, "only its header was read so far");
		return NOT_THIS;
	}
	r = candidate_open_partial(w, &h->file, &h->artifact.build_id, flags, ret);
	return r == LATER ? wait_for_package(w, h, flags, ret, err) : r;
}

/* The hits whose packages must be scanned first. NOT_THIS: none was accepted; LATER: the index has
 * changed. */
static int later_hits(struct hit_search *s, uint32_t flags, struct err *err)
{
	for (size_t i = 0; i < s->n; i++) {
		struct resolve_answer ans = { 0 };
		int r;

		if (!hit_is_later(&s->hits[i]))
			continue;
		r = later_hit(s->w, &s->hits[i], flags, &ans, err);
		if (r == 0)
			r = visit_one(s, &ans, err);
		if (r != NOT_THIS)
			return r;
	}
	return NOT_THIS;
}

/* Add a step for each hit that has the build ID but another kind. */
static void note_other_kinds(const struct hit_search *s, uint32_t flags)
{
	for (size_t i = 0; i < s->n; i++)
		if (!hit_has_kind(&s->hits[i].artifact, flags))
			work_note(s->w, s->hits[i].file.path, "has that build ID, but not as %s",
				  flags == ELF_IS_DEBUG        ? "debuginfo"
				  : flags == ELF_IS_EXECUTABLE ? "executable"
							       : "either");
}

static size_t keep_plain_files(struct index_hit *hits, size_t n)
{
	size_t n_plain = 0;

	for (size_t i = 0; i < n; i++)
		if (hits[i].file.kind == INDEX_PLAIN)
			hits[n_plain++] = hits[i];
	return n_plain;
}

/* A running deep pass may have found a file that a request waits for before the index has it. */
static int sought_hit(struct hit_search *s, const struct build_id *id, uint32_t flags, struct err *err)
{
	struct resolve_answer ans = { 0 };

	if (!s->w->r->scan || candidate_open_partial(s->w, NULL, id, flags, &ans))
		return NOT_THIS;
	return visit_one(s, &ans, err);
}

static int find_round(struct work *w, const struct build_id *id, enum which which, struct elf_visitor visitor,
		      struct err *err)
{
	static const uint32_t flags[] = {
		[WHICH_DEBUG] = ELF_IS_DEBUG,
		[WHICH_EXECUTABLE] = ELF_IS_EXECUTABLE,
		[WHICH_BOTH] = ELF_IS_DEBUG | ELF_IS_EXECUTABLE,
		[WHICH_DEBUG_ON_DISK] = ELF_IS_DEBUG,
	};
	struct index_hit *hits;
	struct hit_search s;
	size_t n;
	int r = index_find(w->ix, id, w->a, &hits, &n, err);

	if (r < 0)
		return r;
	if (r) {
		s = (struct hit_search){ .w = w, .visitor = visitor };
		r = which == WHICH_DEBUG_ON_DISK ? NOT_THIS : sought_hit(&s, id, flags[which], err);
		if (r == NOT_THIS)
			work_note_absent(w, id);
		return r;
	}
	if (which == WHICH_DEBUG_ON_DISK)
		n = keep_plain_files(hits, n);
	s = (struct hit_search){ w, hits, n, visitor };
	if (which == WHICH_BOTH) {
		r = ready_hits(&s, ELF_IS_DEBUG, 0, err);
		if (r == NOT_THIS)
			r = ready_hits(&s, ELF_IS_EXECUTABLE, ELF_IS_DEBUG, err);
	} else {
		r = ready_hits(&s, flags[which], 0, err);
	}
	/*
	 * Of both kinds the debug file goes first here too: a program that the pass meets earlier must not be
	 * the answer in its place. If there is no debug file, the end of the pass shows that, and the program
	 * is found then.
	 */
	if (r == NOT_THIS)
		r = later_hits(&s, flags[which == WHICH_BOTH ? WHICH_DEBUG : which], err);
	if (r == NOT_THIS && which != WHICH_DEBUG_ON_DISK)
		r = sought_hit(&s, id, flags[which], err);
	if (r == NOT_THIS)
		note_other_kinds(&s, flags[which]);
	return r;
}

int elf_find(struct work *w, const struct build_id *id, enum which which, struct elf_visitor visitor,
	     struct err *err)
{
	int r = LATER;

	for (int i = 0; r == LATER && i < MAX_ROUNDS; i++)
		r = find_round(w, id, which, visitor, err);
	if (r == LATER) {
		work_note(w, STR("index"), "changes faster than it can be read");
		return RESOLVE_BUSY;
	}
	if (r != NOT_THIS)
		return r;
	return work_missing(w, err);
}
