/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The split (.dwo, .dwp) files of a program or a debug file. They have no build ID of their own: they go into
 * the tar of its sources, under the paths at which a server that makes a symbol table looks for them.
 *
 * Which files are read is what the debug information says, and that may be anybody's: nothing but split
 * debug information is taken.
 */
#include "cmd/push/push.h"
#include "companion/companion.h"

struct finder {
	struct push_members *to;
	struct companion_place disk; /* where they may be */
	struct str name;             /* that the server is told */
};

bool push_is_split(struct source *src)
{
	AUTO(elf_closep) struct elf_image *img = NULL;
	struct err ignored = { 0 };

	return elf_open(src, &img, &ignored) == 0 && elf_debug_section(img, ".debug_info.dwo");
}

static bool is_whole(struct str path)
{
	return path.size && path.p[0] == '/';
}

/* Where the server looks first; heap. */
static char *place_of(const struct finder *f, struct str comp_dir, struct str name)
{
	struct str dir = path_dirname(f->name);

	if (is_whole(name))
		return mem_strndup(name.p, name.size);
	if (is_whole(comp_dir))
		return mem_printf(STR_FMT "/" STR_FMT, STR_ARG(comp_dir), STR_ARG(name));
	return mem_printf("/" STR_FMT "/" STR_FMT, STR_ARG(dir), STR_ARG(path_basename(name)));
}

/* Called for every unit whose other half is not in the .dwp. */
static int found_name(void *arg, struct str comp_dir, struct str name, uint64_t id, struct source **ret,
		      struct err *err)
{
	const struct finder *f = arg;
	AUTO(source_closep) struct source *src = NULL;
	AUTO(mem_freep) char *place = NULL;

	if (companion_open_dwo(&f->disk, 1, comp_dir, name, &src) != 0 || !push_is_split(src))
		return DWARF_NO_SPLIT;
	place = place_of(f, comp_dir, name);
	push_member_add(f->to, str_of(place), str_of(src->name), UINT64_MAX);
	return DWARF_NO_SPLIT;
}

/* "prog.dwp", of "prog.debug" too. */
static void add_dwp(const struct finder *f, const struct source *src)
{
	struct str name = f->name, debug = STR(".debug");
	AUTO(mem_freep) char *place = NULL;

	if (str_ends(name, debug))
		name.size -= debug.size;
	place = mem_printf("/" STR_FMT ".dwp", STR_ARG(name));
	push_member_add(f->to, str_of(place), str_of(src->name), UINT64_MAX);
}

/* What is damaged has no name to tell, and is no reason not to push the file. */
static bool is_damage(const struct err *err)
{
	return err->kind == ERR_INVALID || err->kind == ERR_LIMIT;
}

static int read_units(const struct dwarf *d, struct err *err)
{
	struct dwarf_reader *r = dwarf_reader_new(d);
	int rc = 0;

	for (size_t i = 0; rc >= 0 && i < dwarf_n_units(d); i++) {
		struct err why = { 0 };

		rc = dwarf_reader_unit(r, i, &why);
		if (rc < 0 && is_damage(&why))
			rc = 0;
		else if (rc < 0)
			*err = why;
	}
	dwarf_reader_free(r);
	return rc < 0 ? -1 : 0;
}

int push_split(const struct elf_image *img, const char *path, const char *name, struct push_members *to,
	       struct err *err)
{
	struct finder f = { .to = to, .disk = companion_disk(NULL, NULL, path), .name = str_of(name) };
	struct dwarf_split split = { .open = found_name, .arg = &f };
	AUTO(source_closep) struct source *dwp_src = NULL;
	AUTO(elf_closep) struct elf_image *dwp = NULL;
	AUTO(dwarf_closep) struct dwarf *d = NULL;
	struct err ignored = { 0 };
	int r;

	/* Units of both generations that have another half have their addresses there. */
	if (!elf_debug_section(img, ".debug_addr"))
		return 0;
	if (companion_open_dwp(&f.disk, 1, &dwp_src) == 0 && push_is_split(dwp_src) &&
	    elf_open(dwp_src, &dwp, &ignored) == 0) {
		add_dwp(&f, dwp_src);
		split.dwp = dwp;
	}
	r = dwarf_open(img, NULL, NULL, &d, err);
	if (r)
		return r < 0 && !is_damage(err) ? -1 : 0;
	/* A .dwp that cannot be read is as none. */
	(void)dwarf_open_split(d, &split, &ignored);
	return read_units(d, err);
}
