/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order in which places are searched for supplementary and split files.
 */
#include "companion/companion.h"

#include <stdlib.h>

/* ---- ELF ---- */

int companion_open_elf(struct source *src, struct elf_image **ret, struct err *err)
{
	struct elf_image *img;
	int r = elf_open(src, &img, err);

	if (r > 0)
		return elf_foreign_source_err(src, err);
	if (r)
		return r;
	if (img->sections_err.kind) {
		*err = img->sections_err;
		elf_close(img);
		return -1;
	}
	*ret = img;
	return 0;
}

void companion_close(struct elf_image *img)
{
	struct source *src = img ? img->src : NULL;

	elf_close(img);
	source_close(src);
}

/* ---- this machine ---- */

static int disk_open_path(const struct companion_place *p, const char *path, struct source **ret)
{
	struct err ignored = { 0 };

	return source_open_file(path, ret, &ignored) == 0 ? 0 : COMPANION_NONE;
}

static int disk_open_alt(const struct companion_place *p, const char *link, const struct build_id *id,
			 struct source **ret)
{
	struct local_found found = { 0 };
	int r = local_alt_file(p->arg, p->paths[0] ? p->paths[0] : p->paths[1], link, id, NULL, &found);

	if (r == 0)
		*ret = TAKE(found.src);
	local_found_done(&found);
	return r == 0 ? 0 : COMPANION_NONE;
}

struct companion_place companion_disk(struct local *l, const char *debug_path, const char *path)
{
	return (struct companion_place){ .paths = { debug_path, path },
					 .open_path = disk_open_path,
					 .open_alt = l ? disk_open_alt : NULL,
					 .arg = l };
}

/* ---- supplementary files ---- */

int companion_open_alt(const struct elf_image *debug, const struct companion_place *places, size_t n,
		       struct elf_image **ret)
{
	AUTO(arena_done) struct arena a = { 0 };
	struct build_id id = { 0 };
	struct err ignored = { 0 };
	const char *path;
	struct str link;

	if (elf_alt_link(debug, &a, &link, &id, &ignored) != 0)
		return COMPANION_NONE;
	path = arena_strdup(&a, link);
	for (size_t i = 0; i < n; i++) {
		const struct companion_place *p = &places[i];
		struct source *src;
		int r = p->open_alt ? p->open_alt(p, path, &id, &src) : COMPANION_NONE;

		if (r == COMPANION_WAITS)
			return r;
		if (r)
			continue;
		if (companion_open_elf(src, ret, &ignored) == 0)
			return 0;
		source_close(src);
	}
	return COMPANION_NONE;
}

/* ---- split files ---- */

/* "@dir/@name", or @name where @dir is empty. */
static int open_in_dir(const struct companion_place *p, struct str dir, struct str name, struct source **ret)
{
	AUTO(mem_freep)
	char *path = mem_printf(STR_FMT "%s" STR_FMT, STR_ARG(dir), dir.size ? "/" : "", STR_ARG(name));

	return p->open_path(p, path, ret);
}

static int open_dwp_of(const struct companion_place *p, struct str path, struct source **ret)
{
	static const struct str debug = STR(".debug");
	AUTO(mem_freep) char *dwp = mem_printf(STR_FMT ".dwp", STR_ARG(path));

	if (p->open_path(p, dwp, ret) == 0)
		return 0;
	if (!str_ends(path, debug))
		return COMPANION_NONE;
	memcpy(dwp + path.size - debug.size, ".dwp", sizeof(".dwp"));
	return p->open_path(p, dwp, ret);
}

int companion_open_dwp(const struct companion_place *places, size_t n, struct source **ret)
{
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < COMPANION_PATHS; k++)
			if (places[i].paths[k] &&
			    open_dwp_of(&places[i], str_of(places[i].paths[k]), ret) == 0)
				return 0;
	return COMPANION_NONE;
}

static int open_dwo_beside(const struct companion_place *p, const char *path, struct str name,
			   struct source **ret)
{
	struct str dir = path_dirname(str_of(path)), last = path_basename(name);

	if (name.p[0] != '/' && open_in_dir(p, dir, name, ret) == 0)
		return 0;
	return last.size < name.size ? open_in_dir(p, dir, last, ret) : COMPANION_NONE;
}

static int open_dwo_in_place(const struct companion_place *p, struct str comp_dir, struct str name,
			     struct source **ret)
{
	if (name.p[0] == '/')
		comp_dir = (struct str){ 0 };
	if ((name.p[0] == '/' || comp_dir.size) && open_in_dir(p, comp_dir, name, ret) == 0)
		return 0;
	for (size_t k = 0; k < COMPANION_PATHS; k++)
		if (p->paths[k] && open_dwo_beside(p, p->paths[k], name, ret) == 0)
			return 0;
	return COMPANION_NONE;
}

int companion_open_dwo(const struct companion_place *places, size_t n, struct str comp_dir, struct str name,
		       struct source **ret)
{
	if (!name.size || memchr(name.p, 0, name.size))
		return COMPANION_NONE;
	for (size_t i = 0; i < n; i++)
		if (open_dwo_in_place(&places[i], comp_dir, name, ret) == 0)
			return 0;
	return COMPANION_NONE;
}

void companion_describe_dwo(struct str comp_dir, struct str name, uint64_t id, struct buf *out)
{
	buf_add_str(out, name);
	if (comp_dir.size && name.size && name.p[0] != '/')
		buf_printf(out, ", compiled in " STR_FMT, STR_ARG(comp_dir));
	if (id)
		buf_printf(out, ", DWO ID %016llx", (unsigned long long)id);
}
