/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source file: a member of a package with this path, or a file on disk.
 *
 * A file on disk is served only if debug information of the build ID, itself a file on disk, names it:
 * otherwise anyone who can add a package could request every file of the machine. And only if it is below a
 * folder that is served, after all links are resolved: otherwise anyone who can write a program into one could
 * request every file that the service can read. A member of an indexed
 * package is as public as the package, so its path is enough, and no debug information needs to be decoded
 * for it. Where the debug information is in a package, its sources mostly are too, so packages are searched
 * first; where it is a file on disk, the disk.
 *
 * A path has no leading slash where the debug information has a relative one, or where the client has removed
 * it: both forms are tried.
 */
#include "resolve/internal.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#define MAX_PATH   KIB(16)
#define MAX_OPENED 64 /* packages opened for one request; those with the nearest path */

struct source_paths {
	struct str absolute, relative; /* canonical; relative is the same without the slash */
	struct str list[4];            /* the forms that the debug information may have */
	size_t n;
};

static bool source_paths_of(struct work *w, struct str arg, struct source_paths *ret)
{
	char *p;
	size_t n;

	if (!arg.size || arg.size > MAX_PATH || memchr(arg.p, '\0', arg.size))
		return false;
	p = arena_alloc(w->a, arg.size + 2);
	n = path_rooted(arg, p);
	if (n == 1)
		return false;
	ret->absolute = (struct str){ p, n };
	ret->relative = (struct str){ p + 1, n - 1 };
	ret->list[0] = ret->absolute;
	ret->list[1] = ret->relative;
	ret->list[2] = arg;
	ret->n = 3;
	return true;
}

/* ---- packages ---- */

struct near_package {
	const struct index_file *file;
	size_t shared; /* length of the common prefix with the path of the debug information */
};

static size_t shared_prefix(struct str a, struct str b)
{
	size_t n = 0;

	while (n < a.size && n < b.size && a.p[n] == b.p[n])
		n++;
	return n;
}

static int cmp_near_package(const void *a, const void *b)
{
	const struct near_package *x = a, *y = b;

	if (x->shared != y->shared)
		return x->shared > y->shared ? -1 : 1;
	return (x->file->mtime_ns < y->file->mtime_ns) - (x->file->mtime_ns > y->file->mtime_ns);
}

static int source_try_package(struct work *w, const struct index_file *f, struct str path,
			      struct resolve_answer *ret)
{
	const struct pkg_entry *e;
	struct pin pin;
	struct mapped *m;
	int r = mapped_get(w, f, &m, &pin);

	if (r == LATER) {
		work_note(w, f->path, "is being scanned again");
		return NOT_THIS;
	}
	if (r)
		return r;
	e = pkg_map_find(m->map, path);
	if (!e) {
		/* Its directory has a hash with the same low bits, or it has other files in that
		 * directory. */
		pin_release(&pin);
		return NOT_THIS;
	}
	return package_open(w, f, m, &pin, e, ret);
}

static int source_in_packages(struct work *w, const struct source_paths *p, struct str home,
			      struct resolve_answer *ret, struct err *err)
{
	struct index_file *files;
	struct near_package *list;
	size_t n, n_opened = 0, n_found = 0;

	if (index_find_dir(w->ix, index_dir_hash(path_dirname(p->relative)), w->a, &files, &n, err) < 0)
		return -1;
	list = ARENA_NEW_N(w->a, struct near_package, n + 1);
	for (size_t i = 0; i < n; i++)
		if (files[i].state == INDEX_SCANNED)
			list[n_found++] = (struct near_package){ &files[i],
								 shared_prefix(files[i].path, home) };
	qsort(list, n_found, sizeof(*list), cmp_near_package);
	for (; n_opened < n_found && n_opened < MAX_OPENED; n_opened++) {
		int r = source_try_package(w, list[n_opened].file, p->relative, ret);

		if (r != NOT_THIS)
			return r;
	}
	work_note(w, STR("packages"),
		  "%zu of %zu packages with files in that directory were searched: none has it", n_opened,
		  n_found);
	return NOT_THIS;
}

/* ---- disk ---- */

static int open_disk_file(struct work *w, struct str path, struct resolve_answer *ret)
{
	struct resolve_answer ans = { .file = path, .plain = true };
	struct {
		uint64_t path, size, inode;
		int64_t mtime_s, mtime_ns;
	} tag;
	struct err why = { 0 };
	struct stat st;
	const struct resolver_index *x = w->r;
	char real[PATH_MAX];
	int fd, r = x->source_any
			    ? file_open(path.p, &fd, &st, &why)
			    : file_open_below(path.p, x->source_roots, x->n_source_roots, &fd, &st, &why);

	if (r == FILE_OUTSIDE) {
		work_note(w, path, "is not below a folder whose sources are served");
		return NOT_THIS;
	}
	if (r == 0 && !x->source_any && x->scan && fd_path(fd, real) && x->excludes(x->scan, real)) {
		close(fd);
		work_note(w, path, "is excluded");
		return NOT_THIS;
	}
	if (r == FILE_MISSING) {
		work_note(w, path, "does not exist");
		return NOT_THIS;
	}
	if (r < 0) {
		/* Not a regular file, or not readable for us: treated as missing. */
		work_note(w, path, "%s", why.text);
		return NOT_THIS;
	}
	tag.path = hash64(path.p, path.size, 0);
	tag.size = (uint64_t)st.st_size;
	tag.inode = st.st_ino;
	tag.mtime_s = st.st_mtim.tv_sec;
	tag.mtime_ns = st.st_mtim.tv_nsec;
	ans.source = source_of_fd(fd, (uint64_t)st.st_size, st.st_mtime, path.p);
	ans.mtime = st.st_mtime;
	ans.tag = hash64(&tag, sizeof(tag), 0);
	*ret = ans;
	return 0;
}

/* Checks for the file first: that costs nothing, while the names may cost the decoding of a debug file. */
static int source_probe_disk(struct work *w, const struct source_paths *p, struct resolve_answer *ret,
			     struct err *err)
{
	/* A relative name is relative to the build directory, or to our working directory. */
	struct str forms[] = { p->absolute, p->relative };
	struct resolve_answer ans;
	bool named = false;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		r = open_disk_file(w, forms[i], &ans);
		if (r)
			continue;
		if (w->r->source_any) {
			*ret = ans;
			return 0;
		}
		/* The file at the absolute path may be served for either name; the file at the relative path
		 * for the relative name only. */
		r = i == 0 ? names_have(w, p->list, p->n, &named, err)
			   : names_have(w, &p->relative, 1, &named, err);
		if (r == 0 && named) {
			*ret = ans;
			return 0;
		}
		answer_drop(&ans);
		/* A debug file that cannot be read was noted; a package may have the source all the same. */
		if (r > 0 ? r != RESOLVE_MISSING : w->failed.kind == ERR_NONE)
			return r;
	}
	return NOT_THIS;
}

static int source_on_disk(struct work *w, const struct source_paths *p, struct resolve_answer *ret,
			  struct err *err)
{
	int r;

	w->why->disk = true;
	r = source_probe_disk(w, p, ret, err);
	w->why->disk = false;
	return r;
}

/* ---- */

/* The file with the debug information, to prefer packages near it. */
static const struct index_file *debug_home_of(const struct index_hit *hits, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (hits[i].artifact.flags & ELF_IS_DEBUG)
			return &hits[i].file;
	return &hits[0].file;
}

int source_find(struct work *w, struct resolve_answer *ret, struct err *err)
{
	const struct index_file *home;
	struct index_hit *hits;
	struct source_paths p;
	size_t n;
	int r;

	if (!source_paths_of(w, w->req->arg, &p)) {
		work_note(w, STR("request"), "not a path");
		return RESOLVE_MISSING;
	}
	r = index_find(w->ix, &w->req->id, w->a, &hits, &n, err);
	if (r < 0)
		return r;
	if (r) {
		work_note_absent(w, &w->req->id);
		return RESOLVE_MISSING;
	}
	home = debug_home_of(hits, n);
	if (home->kind == INDEX_PACKAGE) {
		r = source_in_packages(w, &p, home->path, ret, err);
		if (r == NOT_THIS)
			r = source_on_disk(w, &p, ret, err);
	} else {
		r = source_on_disk(w, &p, ret, err);
		if (r == NOT_THIS)
			r = source_in_packages(w, &p, home->path, ret, err);
	}
	if (r != NOT_THIS)
		return r;
	return work_missing(w, err);
}
