/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A module whose file is named, or of which only the build ID is known: found on this machine by gdb's rules,
 * else in the cache folder of debug files and on servers, as `lode find` does it.
 */
#include <stdlib.h>
#include <unistd.h>
#include "lookup/internal.h"

/* Heap; NULL: nobody has it, and err says so. */
char *lookup_fetch(const struct lookup_options *o, enum client_kind kind, const struct build_id *id,
		   struct err *err)
{
	const struct client_options opts = { .urls = o->urls };
	const struct client_request want = { .kind = kind, .id = *id };
	struct client_result result = { .fd = -1 };
	struct client *c;
	char *path = NULL;

	if (o->local_only) {
		(void)err_set(err, ERR_IO, "not on this machine, and --local asks nobody else");
		return NULL;
	}
	c = client_new(&opts);
	client_find(c, &want, 1, NULL, &result);
	if (result.outcome == CLIENT_FOUND)
		path = mem_strdup(result.path);
	else
		*err = result.err;
	client_result_done(&result);
	client_free(c);
	return path;
}

static int open_at(struct lookup_file *f, struct source *src, const char *path, struct err *err)
{
	int r;

	f->src = src;
	f->named = mem_strdup(path);
	r = lookup_open_image(src, &f->img, err);
	f->debug = f->img;
	return r;
}

/* The debug file of this build ID, or the program. */
static int open_by_id(struct lookup_file *f, const struct lookup_options *o, struct local *local,
		      const struct build_id *id, struct err *err)
{
	struct local_found found = { 0 };
	AUTO(mem_freep) char *path = NULL;
	struct err why = { 0 };
	int r;

	if (local_build_id(local, id, LOCAL_DEBUGINFO, NULL, &found) == 0) {
		r = open_at(f, TAKE(found.src), found.path, err);
		local_found_done(&found);
		return r;
	}
	path = lookup_fetch(o, CLIENT_DEBUGINFO, id, err);
	if (!path && local_build_id(local, id, LOCAL_EXECUTABLE, NULL, &found) == 0) {
		r = open_at(f, TAKE(found.src), found.path, err);
		local_found_done(&found);
		return r;
	}
	if (!path)
		path = lookup_fetch(o, CLIENT_EXECUTABLE, id, &why);
	if (!path)
		return -1;
	r = source_open_file(path, &f->src, err);
	if (r)
		return r < 0 ? -1 : err_set(err, ERR_IO, "%s has gone", path);
	return open_at(f, f->src, path, err);
}

/* Nothing but what the file itself has: is its debug file elsewhere? */
static void look_elsewhere(struct lookup_file *f, const struct lookup_options *o)
{
	struct err ignored = { 0 };
	struct build_id id;
	AUTO(mem_freep) char *path = NULL;
	struct source *src;

	if (f->debug != f->img || elf_debug_section(f->img, ".debug_info") ||
	    elf_build_id(f->img, &id, &ignored) != 0)
		return;
	path = lookup_fetch(o, CLIENT_DEBUGINFO, &id, &ignored);
	if (!path || source_open_file(path, &src, &ignored) != 0)
		return;
	f->found.src = src;
	f->found.path = TAKE(path);
	if (lookup_open_image(src, &f->debug, &ignored) < 0)
		f->debug = f->img;
}

static void look_for_alt(struct lookup_file *f, const struct lookup_options *o)
{
	AUTO(arena_done) struct arena a = { 0 };
	struct build_id id = { 0 };
	struct err ignored = { 0 };
	AUTO(mem_freep) char *path = NULL;
	struct str link;

	if (f->alt || elf_alt_link(f->debug, &a, &link, &id, &ignored) != 0 || !id.size)
		return;
	path = lookup_fetch(o, CLIENT_DEBUGINFO, &id, &ignored);
	if (!path || source_open_file(path, &f->found_alt.src, &ignored) != 0)
		return;
	f->found_alt.path = TAKE(path);
	if (lookup_open_image(f->found_alt.src, &f->alt, &ignored) < 0)
		f->alt = NULL;
}

int lookup_open_module(struct lookup_file *f, const struct lookup_options *o, const char *path,
		       const struct build_id *id, struct err *err)
{
	AUTO(local_freep) struct local *local = local_new(NULL);
	struct build_id found = { 0 };
	int r = -1;

	if (path) {
		r = lookup_find_files(f, o, path, err);
		/* What is there now may be another one. */
		if (r == 0 && id && id->size &&
		    (elf_build_id(f->img, &found, err) != 0 || !build_id_eq(&found, id))) {
			lookup_file_done(f);
			r = -1;
		}
	}
	if (r < 0 && id && id->size) {
		r = open_by_id(f, o, local, id, err);
		if (r == 0)
			r = lookup_find_more(f, o, local, f->named, err);
	}
	if (r < 0)
		return -1;
	look_elsewhere(f, o);
	look_for_alt(f, o);
	return lookup_table(f, o, err);
}
