/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The split (.dwo, .dwp) files of a program or a debug file. They have no build ID: they go into the tar of
 * its sources, under the paths at which a server that makes a symbol table looks for them.
 *
 * The debug information, which may be hostile, names the files to read: only files of split debug information
 * are pushed.
 */
#include "cmd/push/push.h"

#include <errno.h>
#include "companion/companion.h"

struct split_finder {
	struct push_members *to;
	struct companion_place disk; /* the folders to search */
	struct str name;             /* on the server */
	struct err failed; /* of a file that may be one, but cannot be opened or read; kind 0: none */
};

int push_check_split(struct source *src, struct err *err)
{
	AUTO(elf_closep) struct elf_image *img = NULL;
	int r = elf_open(src, &img, err);

	if (r < 0)
		return err->kind == ERR_INVALID ? 1 : -1;
	return r == 0 && elf_debug_section(img, ".debug_info.dwo") ? 0 : 1;
}

bool push_is_split(struct source *src)
{
	struct err ignored = { 0 };

	return push_check_split(src, &ignored) == 0;
}

/*
 * A file that this user may not open counts as missing: debug information names paths of other machines. But a disk with
 * errors, and a lack of descriptors or memory, say nothing about the file.
 */
static void note_failure(struct split_finder *f, const struct err *why)
{
	bool is_ours = why->os == EIO || why->os == ESTALE || err_is_scarce(why->os);

	if (is_ours && !f->failed.kind)
		f->failed = *why;
}

static int open_split_path(const struct companion_place *p, const char *path, struct source **ret)
{
	struct err err = { 0 };
	int r = source_open_file(path, ret, &err);

	if (r < 0)
		note_failure(p->arg, &err);
	return r == 0 ? 0 : COMPANION_NONE;
}

static bool is_split_noted(struct split_finder *f, struct source *src)
{
	struct err err = { 0 };
	int r = push_check_split(src, &err);

	if (r < 0 && err_in(&err, "%s", src->name) < 0)
		note_failure(f, &err);
	return r == 0;
}

static bool is_absolute(struct str path)
{
	return path.size && path.p[0] == '/';
}

/* The path at which the server looks first. Heap. */
static char *split_place(const struct split_finder *f, struct str comp_dir, struct str name)
{
	struct str dir = path_dirname(f->name);

	if (is_absolute(name))
		return mem_strndup(name.p, name.size);
	if (is_absolute(comp_dir))
		return mem_printf(STR_FMT "/" STR_FMT, STR_ARG(comp_dir), STR_ARG(name));
	return mem_printf("/" STR_FMT "/" STR_FMT, STR_ARG(dir), STR_ARG(path_basename(name)));
}

/* Called for every unit whose split part is not in the .dwp. */
static int on_split_unit(void *arg, struct str comp_dir, struct str name, uint64_t id, struct source **ret,
			 struct err *err)
{
	struct split_finder *f = arg;
	AUTO(source_closep) struct source *src = NULL;
	AUTO(mem_freep) char *place = NULL;

	if (companion_open_dwo(&f->disk, 1, comp_dir, name, &src) != 0 || !is_split_noted(f, src))
		return DWARF_NO_SPLIT;
	place = split_place(f, comp_dir, name);
	push_split_add(f->to, str_of(place), str_of(src->name));
	return DWARF_NO_SPLIT;
}

/* "prog.dwp", also for "prog.debug". */
static void add_dwp(const struct split_finder *f, const struct source *src)
{
	struct str name = f->name, debug = STR(".debug");
	AUTO(mem_freep) char *place = NULL;

	if (str_ends(name, debug))
		name.size -= debug.size;
	place = mem_printf("/" STR_FMT ".dwp", STR_ARG(name));
	push_split_add(f->to, str_of(place), str_of(src->name));
}

static int read_split_units(const struct dwarf *d, struct err *err)
{
	struct dwarf_reader *r = dwarf_reader_new(d);
	int rc = 0;

	for (size_t i = 0; rc >= 0 && i < dwarf_n_units(d); i++) {
		struct err why = { 0 };

		rc = dwarf_reader_unit(r, i, &why);
		/* A damaged unit names no split file; the file is pushed all the same. */
		if (rc < 0 && err_is_input(&why))
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
	struct split_finder f = { .to = to, .disk = companion_disk(NULL, NULL, path), .name = str_of(name) };
	struct dwarf_split split = { .open = on_split_unit, .arg = &f };
	AUTO(source_closep) struct source *dwp_src = NULL;
	AUTO(elf_closep) struct elf_image *dwp = NULL;
	AUTO(dwarf_closep) struct dwarf *d = NULL;
	struct err ignored = { 0 };
	int r;

	f.disk.open_path = open_split_path;
	f.disk.arg = &f;
	/* Split units of both generations have their addresses there. */
	if (!elf_debug_section(img, ".debug_addr"))
		return 0;
	if (companion_open_dwp(&f.disk, 1, &dwp_src) == 0 && is_split_noted(&f, dwp_src) &&
	    elf_open(dwp_src, &dwp, &ignored) == 0) {
		add_dwp(&f, dwp_src);
		split.dwp = dwp;
	}
	r = dwarf_open(img, NULL, NULL, &d, err);
	if (r)
		return r < 0 && !err_is_input(err) ? -1 : 0;
	/* A .dwp that cannot be read counts as missing. */
	(void)dwarf_open_split(d, &split, &ignored);
	if (read_split_units(d, err) < 0)
		return -1;
	if (f.failed.kind)
		*err = f.failed;
	return f.failed.kind ? -1 : 0;
}
