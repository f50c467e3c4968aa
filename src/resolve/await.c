/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for packages that are not read yet. A package whose header lists its build IDs has no others, so only the
 * packages that list none are waited for, and anything at all until the first walk is over.
 */
#include "resolve/internal.h"

#define UNLISTED_MAX 2000u /* packages that are compared with the request */
#define FITS_KIND    64u
#define HINT_MIN     4u /* names may have fewer bytes in common by chance */
#define WAITS_MAX    4u

/* ---- the package that is most likely ---- */

static bool str_has(struct str s, struct str part)
{
	return part.size && s.size >= part.size && memmem(s.p, s.size, part.p, part.size);
}

static bool is_debug_name(struct str name)
{
	return str_has(name, STR("-dbg")) || str_has(name, STR("-debug"));
}

static size_t names_in_common(struct str a, struct str b)
{
	size_t n = 0;

	while (n < a.size && n < b.size && a.p[n] == b.p[n])
		n++;
	return n;
}

unsigned await_score(struct str package, enum resolve_kind kind, struct str hint)
{
	bool wants_debug = kind != RESOLVE_EXECUTABLE;
	unsigned score = is_debug_name(package) == wants_debug ? FITS_KIND : 0;
	size_t best = 0;

	/* Of a module's path the kernel's version, of a library's or a package's the start of its name. */
	while (hint.size) {
		struct str part = str_cut(&hint, '/');
		size_t n = part.size >= HINT_MIN && str_has(package, part) ? part.size
									   : names_in_common(part, package);

		best = MAX(best, n);
	}
	return score + (best >= HINT_MIN ? 4 * (unsigned)MIN(best, (size_t)256) : 0);
}

/* The path of another file of the build ID, or of its package. */
static struct str await_hint(struct work *w, struct index_hit *hits, size_t n)
{
	if (w->req->name.size)
		return w->req->name;
	return n ? hits[0].file.path : (struct str){ 0 };
}

static int64_t likeliest(struct work *w, const struct index_file *files, size_t n, struct str hint)
{
	unsigned best_score = 0;
	size_t best = 0;

	for (size_t i = 0; i < n; i++) {
		unsigned score = await_score(path_basename(files[i].path), w->req->kind, hint);

		if (score > best_score) {
			best_score = score;
			best = i;
		}
	}
	/* The newest come first: of equals, that one. */
	return n ? files[best].id : 0;
}

/* ---- waiting ---- */

/* Whether, at the speed so far, the unread packages are read by @until_ms. */
static bool read_in_time(const struct scan_progress *p, int64_t until_ms)
{
	int64_t now_ms = clock_mono_ms();
	double rest, took;

	if (!p->ready || !p->bytes_done || now_ms <= p->started_mono_ms)
		return true;
	took = (double)(now_ms - p->started_mono_ms);
	rest = (double)(p->bytes_total - MIN(p->bytes_done, p->bytes_total));
	return took * rest / (double)p->bytes_done <= (double)(until_ms - now_ms);
}

static const uint32_t flags_of[RESOLVE_N_KINDS] = {
	[RESOLVE_DEBUGINFO] = ELF_IS_DEBUG,
	[RESOLVE_EXECUTABLE] = ELF_IS_EXECUTABLE,
	[RESOLVE_SOURCE] = ELF_IS_DEBUG,
	[RESOLVE_SECTION] = ELF_IS_DEBUG | ELF_IS_EXECUTABLE,
};

/* Whether the index has such a file: it has come since resolve() looked, unless that cannot open it. */
static bool is_here_now(struct work *w)
{
	struct index_hit *hits;
	size_t n = 0;

	if (index_find(w->ix, &w->req->id, w->a, &hits, &n, NULL) != 0)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!hits[i].artifact.flags || (hits[i].artifact.flags & flags_of[w->req->kind]))
			return true;
	return false;
}

static int seek_unread(struct work *w, const struct resolve_patience *p, const struct scan_progress *now,
		       int64_t likely)
{
	const struct scan_sought what = { &w->req->id, flags_of[w->req->kind], likely, p->until_ms,
					  p->max,      ticket_wanted };
	struct ticket *t = ticket_new(w->wake);
	int r;

	if (likely && !read_in_time(now, p->until_ms))
		r = p->n_waits ? SCAN_BUSY
			       : w->r->want(w->r->scan, &(struct scan_wanted){ likely, what.id, what.flags },
					    ticket_fire, t);
	else
		r = w->r->seek(w->r->scan, &what, ticket_fire, t);
	if (r) {
		ticket_unused(t);
		return r == SCAN_READ ? RESOLVE_MISSING : RESOLVE_BUSY;
	}
	/* A file that cannot be opened stays: the request must not go round for ever. */
	if (p->n_waits < WAITS_MAX && is_here_now(w)) {
		if (ticket_cancel(t))
			w->wake.fn(w->wake.arg);
		return RESOLVE_WAIT;
	}
	ticket_leave(t);
	return RESOLVE_WAIT;
}

int await_unread(struct work *w, const struct resolve_patience *p, struct err *err)
{
	struct index_file *files = NULL;
	struct index_hit *hits = NULL;
	size_t n_files = 0, n_hits = 0;
	struct scan_progress now;
	bool all;

	if (index_find(w->ix, &w->req->id, w->a, &hits, &n_hits, err) < 0 ||
	    index_unlisted(w->ix, UNLISTED_MAX, w->a, &files, &n_files, &all, err) < 0)
		return -1;
	w->r->progress(w->r->scan, &now);
	if (now.settled && all && !n_files)
		return RESOLVE_MISSING;
	/* Its debug file is here: a section that this one lacks is in no other. Sources may come; clients ask for many. */
	for (size_t i = 0; i < n_hits; i++)
		if ((hits[i].artifact.flags & ELF_IS_DEBUG) &&
		    (w->req->kind == RESOLVE_SECTION || w->req->kind == RESOLVE_SOURCE))
			return w->req->kind == RESOLVE_SECTION ? RESOLVE_MISSING : RESOLVE_BUSY;
	if (clock_mono_ms() >= p->until_ms)
		return RESOLVE_BUSY;
	return seek_unread(w, p, &now, likeliest(w, files, n_files, await_hint(w, hits, n_hits)));
}
