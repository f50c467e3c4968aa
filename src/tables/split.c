/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The split (.dwo, .dwp) files of a debug file. If that is on disk, so are they: beside it, beside the
 * program, or where the compiler wrote them. Else the resolver may have them at these paths among the sources
 * of the build ID: in its package, or pushed with its sources.
 *
 * Nothing waits here, and no other server is asked. A file that is missing now is noted, and the table that
 * lacks it is built again when the file has turned up.
 */
#include <stdlib.h>
#include "tables/internal.h"

struct splits {
	struct tables *tables;
	struct build_id id;
	char *paths[COMPANION_PATHS]; /* of the debug file, of the program; NULL: not known */
	struct companion_place places[2];
	size_t n_places;
	struct dwarf_split split;
	struct elf_image *dwp;
	struct split_state state;
	struct budget_hold copies; /* the disk space of the last file that was copied */
};

/* The resolver reports a file later that it did not have at once; nothing waits for it. */
static void ignore_resolver_wake(void *arg)
{
}

/* DWARF_NO_SPLIT, also for a file that cannot be read: it is treated as missing. */
static int ask_resolver(const struct splits *x, enum resolve_kind kind, struct str path, struct arena *a,
			struct resolve_answer *ret)
{
	const struct resolve_request req = { .kind = kind,
					     .id = x->id,
					     .arg = path,
					     .not_further = "split files are not asked for elsewhere" };
	struct resolve_why why;
	struct err ignored = { 0 };

	resolve_why_init(&why, a);
	return resolve(x->tables->opts.resolver, &req, (struct resolve_wake){ ignore_resolver_wake, NULL },
		       ret, &why, &ignored) == 0
		       ? 0
		       : DWARF_NO_SPLIT;
}

/* A source of the build ID, in a file that can be read at random. */
static int open_stored_path(const struct companion_place *p, const char *path, struct source **ret)
{
	struct splits *x = p->arg;
	AUTO(arena_done) struct arena a = { 0 };
	struct resolve_answer ans = { 0 };
	struct err ignored = { 0 };
	uint64_t off;
	int fd, r;

	if (path[0] != '/' || ask_resolver(x, RESOLVE_SOURCE, str_of(path), &a, &ans) != 0)
		return COMPANION_NONE;
	if (source_raw_fd(ans.source, &fd, &off)) {
		*ret = ans.source;
		return 0;
	}
	/* The one before is closed: a reader has one at a time. */
	budget_hold_done(&x->copies);
	budget_hold_init(&x->copies, x->tables->disk, BUDGET_TABLE);
	r = tables_copy(ans.source, NULL,
			&(struct copy_options){ x->tables->temp_dir, &x->copies, &x->tables->cancel,
						x->tables->opts.room },
			ret, &ignored);
	source_close(ans.source);
	return r < 0 ? COMPANION_NONE : 0;
}

/* Of the one thread that builds the table. */
static int open_dwo_noted(void *arg, struct str comp_dir, struct str name, uint64_t id, struct source **ret,
			  struct err *err)
{
	struct splits *x = arg;

	if (companion_open_dwo(x->places, x->n_places, comp_dir, name, ret) == 0)
		return 0;
	if (!x->state.name) {
		x->state.comp_dir = mem_strndup(comp_dir.p, comp_dir.size);
		x->state.name = mem_strndup(name.p, name.size);
		x->state.id = id;
	}
	return DWARF_NO_SPLIT;
}

/* ---- places ---- */

/* true: the path of an answer, which is on disk. */
static bool set_path(struct splits *x, size_t i, const struct resolve_answer *a)
{
	bool absolute = a->file.size && a->file.p[0] == '/';

	if (!a->file.size)
		return false;
	/* A file that was pushed by its name alone is at the top, and so are its split files. */
	x->paths[i] = mem_printf("%s" STR_FMT, absolute ? "" : "/", STR_ARG(a->file));
	return absolute && a->origin == RESOLVE_HERE && !a->archive.size;
}

/* The program may be another file than the debug file, with split files beside it. */
static bool set_program_path(struct splits *x)
{
	AUTO(arena_done) struct arena a = { 0 };
	struct resolve_answer ans = { 0 };
	bool on_disk;

	if (ask_resolver(x, RESOLVE_EXECUTABLE, (struct str){ 0 }, &a, &ans) != 0)
		return false;
	on_disk = set_path(x, 1, &ans);
	source_close(ans.source);
	return on_disk;
}

/*
 * A file that is not on disk was made by a stranger: the paths that it names are not opened on this machine's
 * disk, but only among the sources of its build ID.
 */
static void set_places(struct splits *x, const struct resolve_answer *debug)
{
	bool on_disk[COMPANION_PATHS] = { set_path(x, 0, debug), set_program_path(x) };

	if (on_disk[0] || on_disk[1])
		x->places[x->n_places++] = companion_disk(NULL, on_disk[0] ? x->paths[0] : NULL,
							  on_disk[1] ? x->paths[1] : NULL);
	x->places[x->n_places++] = (struct companion_place){ .paths = { on_disk[0] ? NULL : x->paths[0],
									on_disk[1] ? NULL : x->paths[1] },
							     .open_path = open_stored_path,
							     .arg = x };
}

/* ---- beginning, end ---- */

struct splits *splits_new(struct tables *t, const struct build_id *id, const struct elf_image *img,
			  const struct resolve_answer *debug)
{
	struct err ignored = { 0 };
	struct source *src;
	struct splits *x;

	/* Skeleton units of both generations have their addresses there. */
	if (!elf_debug_section(img, ".debug_addr") || !elf_debug_section(img, ".debug_info"))
		return NULL;
	x = NEW(struct splits);
	x->tables = t;
	x->id = *id;
	x->split = (struct dwarf_split){ .open = open_dwo_noted, .arg = x };
	x->state.known = true;
	set_places(x, debug);
	if (companion_open_dwp(x->places, x->n_places, &src) == 0 &&
	    companion_open_elf(src, &x->dwp, &ignored) != 0)
		source_close(src);
	x->split.dwp = x->dwp;
	x->state.has_dwp = x->dwp != NULL;
	return x;
}

void splits_free(struct splits *x)
{
	if (!x)
		return;
	companion_close(x->dwp);
	budget_hold_done(&x->copies);
	split_state_done(&x->state);
	for (size_t i = 0; i < ARRAY_SIZE(x->paths); i++)
		free(x->paths[i]);
	free(x);
}

const struct dwarf_split *splits_finder(const struct splits *x)
{
	return x ? &x->split : NULL;
}

struct split_state splits_take_state(struct splits *x)
{
	struct split_state st = { .known = true };

	if (!x)
		return st;
	st = x->state;
	x->state.comp_dir = x->state.name = NULL;
	return st;
}

bool splits_are_better(struct splits *x, const struct split_state *before)
{
	struct source *src;

	if (!before->known || (x && x->state.has_dwp && !before->has_dwp))
		return true;
	if (!x || !before->name ||
	    companion_open_dwo(x->places, x->n_places, str_of(before->comp_dir), str_of(before->name),
			       &src) != 0)
		return false;
	source_close(src);
	return true;
}
