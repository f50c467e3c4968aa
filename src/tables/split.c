/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The split (.dwo, .dwp) files of a debug file. Where that lies on disk they are beside it or beside the
 * program, or where the compiler wrote them; else they are what the resolver has at these paths among the
 * sources of the build ID: in its package, or pushed with its sources.
 *
 * Nothing waits here, and no other server is asked: what is not to be had now is noted, and the table that
 * lacks it is made again when it has turned up.
 */
#include <stdlib.h>
#include "local/local.h"
#include "tables/internal.h"

struct splits {
	struct tables *s;
	struct build_id id;
	char *paths[2]; /* of the debug file, of the program; NULL: not known */
	bool on_disk[2];
	struct dwarf_split split;
	struct source *dwp_src;
	struct elf_image *dwp;
	struct split_state state;
};

/* The resolver tells of what it did not have at once; nobody waits for it. */
static void woken(void *arg)
{
}

/* DWARF_NO_SPLIT also where it cannot be read: then it is as if it were not there. */
static int ask_resolver(const struct splits *t, enum resolve_kind kind, struct str path, struct arena *a,
			struct resolve_answer *ret)
{
	const struct resolve_request req = { .kind = kind,
					     .id = t->id,
					     .arg = path,
					     .not_further = "split files are not asked for elsewhere" };
	struct resolve_why why;
	struct err ignored = { 0 };

	resolve_why_init(&why, a);
	return resolve(t->s->opts.resolver, &req, (struct resolve_wake){ woken, NULL }, ret, &why,
		       &ignored) == 0
		       ? 0
		       : DWARF_NO_SPLIT;
}

/* The bytes of a path, in a file that can be read at random. */
static int open_stored(const struct splits *t, struct str path, struct source **ret)
{
	AUTO(arena_done) struct arena a = { 0 };
	struct resolve_answer ans = { 0 };
	struct err ignored = { 0 };
	uint64_t off;
	int fd, r;

	if (ask_resolver(t, RESOLVE_SOURCE, path, &a, &ans) != 0)
		return DWARF_NO_SPLIT;
	if (source_raw_fd(ans.source, &fd, &off)) {
		*ret = ans.source;
		return 0;
	}
	r = tables_copy(ans.source, NULL, t->s->temp_dir, &t->s->cancel, ret, &ignored);
	source_close(ans.source);
	return r < 0 ? DWARF_NO_SPLIT : 0;
}

static int open_stored_in(const struct splits *t, struct str dir, struct str name, struct source **ret)
{
	AUTO(mem_freep)
	char *path = dir.size && name.p[0] != '/'
			     ? mem_printf(STR_FMT "/" STR_FMT, STR_ARG(dir), STR_ARG(name))
			     : mem_strndup(name.p, name.size);

	return path[0] == '/' ? open_stored(t, str_of(path), ret) : DWARF_NO_SPLIT;
}

static int look_for(const struct splits *t, struct str comp_dir, struct str name, struct source **ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(t->paths); i++)
		if (t->on_disk[i] && local_dwo_file(t->paths[i], comp_dir, name, ret) == 0)
			return 0;
	if (!name.size || memchr(name.p, 0, name.size))
		return DWARF_NO_SPLIT;
	if (open_stored_in(t, comp_dir, name, ret) == 0)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(t->paths); i++)
		if (t->paths[i] && !t->on_disk[i] &&
		    open_stored_in(t, path_dirname(str_of(t->paths[i])), path_basename(name), ret) == 0)
			return 0;
	return DWARF_NO_SPLIT;
}

/* Of the one thread that makes the table. */
static int open_dwo(void *arg, struct str comp_dir, struct str name, uint64_t id, struct source **ret,
		    struct err *err)
{
	struct splits *t = arg;

	if (look_for(t, comp_dir, name, ret) == 0)
		return 0;
	if (!t->state.name) {
		t->state.comp_dir = mem_strndup(comp_dir.p, comp_dir.size);
		t->state.name = mem_strndup(name.p, name.size);
	}
	return DWARF_NO_SPLIT;
}

static int open_dwp(struct splits *t)
{
	for (size_t i = 0; i < ARRAY_SIZE(t->paths); i++) {
		AUTO(mem_freep) char *path = NULL;
		struct str debug = STR(".debug"), p = str_of(t->paths[i]);

		if (!t->paths[i])
			continue;
		if (t->on_disk[i]) {
			if (local_dwp_file(t->paths[i], &t->dwp_src) == 0)
				return 0;
			continue;
		}
		path = mem_printf("%s.dwp", t->paths[i]);
		if (open_stored(t, str_of(path), &t->dwp_src) == 0)
			return 0;
		if (!str_ends(p, debug))
			continue;
		memcpy(path + p.size - debug.size, ".dwp", sizeof(".dwp"));
		if (open_stored(t, str_of(path), &t->dwp_src) == 0)
			return 0;
	}
	return DWARF_NO_SPLIT;
}

static void set_path(struct splits *t, size_t i, const struct resolve_answer *a)
{
	bool absolute = a->file.size && a->file.p[0] == '/';

	if (!a->file.size)
		return;
	/* What was pushed by its name alone is at the top, and so are its split files. */
	t->paths[i] = mem_printf("%s" STR_FMT, absolute ? "" : "/", STR_ARG(a->file));
	t->on_disk[i] = absolute && a->origin == RESOLVE_HERE && !a->archive.size;
}

/* The program may be another file than the debug file, and have them beside it. */
static void find_program(struct splits *t)
{
	AUTO(arena_done) struct arena a = { 0 };
	struct resolve_answer ans = { 0 };

	if (ask_resolver(t, RESOLVE_EXECUTABLE, (struct str){ 0 }, &a, &ans) != 0)
		return;
	set_path(t, 1, &ans);
	source_close(ans.source);
}

struct splits *splits_new(struct tables *s, const struct build_id *id, const struct elf_image *img,
			  const struct resolve_answer *debug)
{
	struct splits *t;
	struct err ignored = { 0 };

	/* Units of both generations that have another half have their addresses there. */
	if (!elf_debug_section(img, ".debug_addr") || !elf_debug_section(img, ".debug_info"))
		return NULL;
	t = NEW(struct splits);
	t->s = s;
	t->id = *id;
	t->split = (struct dwarf_split){ .open = open_dwo, .arg = t };
	t->state.known = true;
	set_path(t, 0, debug);
	find_program(t);
	if (open_dwp(t) == 0 && elf_open(t->dwp_src, &t->dwp, &ignored) == 0 && !t->dwp->sections_err.kind)
		t->split.dwp = t->dwp;
	t->state.has_dwp = t->split.dwp;
	return t;
}

void splits_free(struct splits *t)
{
	if (!t)
		return;
	elf_close(t->dwp);
	source_close(t->dwp_src);
	split_state_done(&t->state);
	for (size_t i = 0; i < ARRAY_SIZE(t->paths); i++)
		free(t->paths[i]);
	free(t);
}

const struct dwarf_split *splits_finder(const struct splits *t)
{
	return t ? &t->split : NULL;
}

struct split_state splits_take_state(struct splits *t)
{
	struct split_state st = { .known = true };

	if (!t)
		return st;
	st = t->state;
	t->state.comp_dir = t->state.name = NULL;
	return st;
}

bool splits_are_better(struct splits *t, const struct split_state *before)
{
	struct source *src;

	if (!before->known || (t && t->state.has_dwp && !before->has_dwp))
		return true;
	if (!t || !before->name || look_for(t, str_of(before->comp_dir), str_of(before->name), &src) != 0)
		return false;
	source_close(src);
	return true;
}

void split_state_done(struct split_state *st)
{
	free(st->comp_dir);
	free(st->name);
	*st = (struct split_state){ 0 };
}
