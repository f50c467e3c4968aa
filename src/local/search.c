/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of the places. Paths are composed as gdb does it, including "//", since the result is compared
 * with the path of the file that the search is for.
 */
#include "local/internal.h"

#include <elf.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

/* The real path, in @a; a copy of @path if it cannot be resolved. */
static const char *real_path(const struct local *l, const char *path, struct arena *a)
{
	char real[PATH_MAX];

	return arena_strdup(a, str_of(local_realpath(l, path, real) ? real : path));
}

/* With the slash at its end; "" if there is none. */
static const char *search_dir_of(const char *path, struct arena *a)
{
	const char *slash = strrchr(path, '/');

	return slash ? arena_strdup(a, (struct str){ path, (size_t)(slash + 1 - path) }) : "";
}

/* ---- by build ID ---- */

/* "/.build-id/ab/cdef.debug" */
static const char *build_id_name(const struct build_id *id, enum local_kind kind, struct arena *a)
{
	char hex[BUILD_ID_HEX_SIZE];

	build_id_hex(id, hex);
	return arena_printf(a, "/.build-id/%.2s/%s%s", hex, hex + 2, kind == LOCAL_DEBUGINFO ? ".debug" : "");
}

static int search_build_id(struct local_search *s, const struct build_id *id, enum local_kind kind,
			   const char *self, struct local_found *ret)
{
	AUTO(arena_done) struct arena a = { 0 };
	const char *name = build_id_name(id, kind, &a);
	int r = LOCAL_MISSING;

	s->way = LOCAL_BY_BUILD_ID;
	for (size_t i = 0; i < s->l->n_dirs && r == LOCAL_MISSING; i++) {
		const char *path = arena_printf(&a, "%s%s", s->l->dirs[i], name);

		r = local_take_id_real(s, path, id, self, ret);
		if (r == LOCAL_MISSING && s->l->sysroot && s->l->sysroot[0])
			r = local_take_id_real(s, arena_printf(&a, "%s%s", s->l->sysroot, path), id, self,
					       ret);
	}
	return r == 0 ? 0 : LOCAL_MISSING;
}

/* ---- by debug link ---- */

/* The part of @path below @root, without a leading slash: "usr/bin" for "/sysroot/usr/bin" in "/sysroot".
 * NULL when it is not below. Every absolute path is below the root "". */
static const char *path_below(const char *root, const char *path)
{
	size_t n = strlen(root);

	if (strncmp(root, path, n) != 0)
		return NULL;
	if (!n || root[n - 1] != '/') {
		if (path[n] != '/')
			return NULL;
		n++;
	}
	path += n;
	while (*path == '/')
		path++;
	return *path ? path : NULL;
}

/* In one global debug directory: @dir as named, then the path within the sysroot. */
static int search_link_global(struct local_search *s, const struct local_linked *link, const char *debug_dir,
			      const char *dir, const char *base, struct local_found *ret)
{
	AUTO(arena_done) struct arena a = { 0 };
	const char *path = arena_printf(&a, "%s/%s%s", debug_dir, dir, link->name);
	int r = local_take_linked(s, path, link, ret);

	if (r == 0 || !base)
		return r;
	path = arena_printf(&a, "%s/%s/%s", debug_dir, base, link->name);
	r = local_take_linked(s, path, link, ret);
	if (r == 0)
		return 0;
	return local_take_linked(s, arena_printf(&a, "%s%s", s->l->sysroot, path), link, ret);
}

static int search_link_from(struct local_search *s, const struct local_linked *link, const char *dir,
			    const char *real_dir, struct local_found *ret)
{
	AUTO(arena_done) struct arena a = { 0 };
	const char *base = s->l->sysroot ? path_below(s->l->real_sysroot, real_dir) : NULL;
	int r = local_take_linked(s, arena_printf(&a, "%s%s", dir, link->name), link, ret);

	if (r)
		r = local_take_linked(s, arena_printf(&a, "%s.debug/%s", dir, link->name), link, ret);
	for (size_t i = 0; r && i < s->l->n_dirs; i++)
		r = search_link_global(s, link, s->l->dirs[i], dir, base, ret);
	return r;
}

static int search_link(struct local_search *s, const struct local_linked *link, struct local_found *ret)
{
	AUTO(arena_done) struct arena a = { 0 };
	const char *dir = search_dir_of(link->self, &a), *real;
	int r;

	s->way = LOCAL_BY_LINK;
	r = search_link_from(s, link, dir, real_path(s->l, dir, &a), ret);
	if (r == 0 || !local_is_link(s->l, link->self))
		return r;
	/* The name of the file is a symbolic link: search once more from the directory of its target. */
	real = search_dir_of(real_path(s->l, link->self, &a), &a);
	return strcmp(real, dir) == 0 ? r : search_link_from(s, link, real, real, ret);
}

/* ---- of a file ---- */

/* gdb's condition: both sections exist and have contents in the file. */
static bool has_dwarf(const struct elf_image *img)
{
	const struct elf_section *info = elf_debug_section(img, ".debug_info");
	const struct elf_section *abbrev = elf_debug_section(img, ".debug_abbrev");

	return info && info->type != SHT_NOBITS && abbrev && abbrev->type != SHT_NOBITS;
}

/* By the build ID and the debug link in the file; one that cannot be read counts as absent. */
static int search_for(struct local_search *s, const struct elf_image *img, const char *self, struct arena *a,
		      struct local_found *ret)
{
	struct local_linked link = { .self = self };
	struct err err = { 0 };
	struct build_id id;
	struct str name;
	uint64_t off;
	int fd, r;

	r = elf_build_id(img, &id, &err);
	if (r == 0) {
		if (search_build_id(s, &id, LOCAL_DEBUGINFO, self, ret) == 0)
			return 0;
	} else {
		local_trail_add(s->trail, LOCAL_BY_BUILD_ID, LOCAL_NOTHING, NULL, "%s",
				r < 0 ? err.text : "it has no build ID");
	}
	r = elf_debug_link(img, a, &name, &link.crc, &err);
	if (r) {
		local_trail_add(s->trail, LOCAL_BY_LINK, LOCAL_NOTHING, NULL, "%s",
				r < 0 ? err.text : "it has no debug link");
		return LOCAL_MISSING;
	}
	link.name = arena_strdup(a, name);
	if (!source_raw_fd(img->src, &fd, &off) || fstat(fd, &link.self_st) < 0)
		link.self_st = (struct stat){ 0 };
	return search_link(s, &link, ret);
}

int local_debug_file(struct local *l, const struct elf_image *img, const char *path, unsigned flags,
		     struct local_trail *trail, struct local_found *ret)
{
	struct local_search s = { .l = l, .trail = trail };
	AUTO(arena_done) struct arena a = { 0 };

	if (!(flags & LOCAL_AS_NAMED))
		path = real_path(l, path, &a);
	if (has_dwarf(img)) {
		local_trail_add(trail, LOCAL_BY_ITSELF, LOCAL_TAKEN, path, "it has its own DWARF");
		*ret = (struct local_found){ .path = mem_strdup(path), .way = LOCAL_BY_ITSELF };
		return 0;
	}
	return search_for(&s, img, path, &a, ret);
}

int local_build_id(struct local *l, const struct build_id *id, enum local_kind kind,
		   struct local_trail *trail, struct local_found *ret)
{
	struct local_search s = { .l = l, .trail = trail };

	return search_build_id(&s, id, kind, NULL, ret);
}

/* ---- supplementary files ---- */

/* The path that distributions use, "<debug directory>/.dwz/...", under the other directories. gdb reports no
 * places that do not exist; we do. */
static int search_other_dwz(struct local_search *s, const char *path, const struct build_id *id,
			    struct local_found *ret)
{
	AUTO(arena_done) struct arena a = { 0 };
	const char *dwz = strstr(path, "/.dwz/");

	for (size_t i = 0; dwz && i < s->l->n_dirs; i++) {
		const char *dir = s->l->dirs[i];
		size_t n = strlen(dir);

		if (!n)
			continue;
		if (dir[n - 1] != '/')
			dir = arena_printf(&a, "%s/", dir);
		n = strlen(dir);
		if (strlen(path) > n && strncmp(path, dir, n) == 0) /* tried already */
			continue;
		if (local_take_id(s, arena_printf(&a, "%s%s", dir, dwz + 1), id, ret) == 0)
			return 0;
	}
	return LOCAL_MISSING;
}

int local_alt_file(struct local *l, const char *debug_path, const char *alt_path, const struct build_id *id,
		   struct local_trail *trail, struct local_found *ret)
{
	struct local_search s = { .l = l, .trail = trail, .way = LOCAL_BY_ALT_LINK };
	AUTO(arena_done) struct arena a = { 0 };

	if (alt_path[0] != '/')
		alt_path = arena_printf(&a, "%s%s", search_dir_of(real_path(l, debug_path, &a), &a),
					alt_path);
	if (local_take_id(&s, alt_path, id, ret) == 0)
		return 0;
	if (search_build_id(&s, id, LOCAL_DEBUGINFO, NULL, ret) == 0)
		return 0;
	s.way = LOCAL_BY_ALT_LINK;
	return search_other_dwz(&s, alt_path, id, ret);
}
