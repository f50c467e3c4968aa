/* SPDX-License-Identifier: Apache-2.0 */
/*
 * liblode, over `lookup`: it finds files and builds tables as `lode symbolize` does.
 */
#include "lode/lode.h"

#include <errno.h>
#include <stdlib.h>
#include "client/client.h"
#include "frame/frame.h"
#include "lookup/lookup.h"

#define MAX_MAPS 65536u

struct lode {
	struct lookup_options options;
	char *urls;
	struct err err;
};

struct lode_table {
	struct lookup_file file;
	struct frame_layout layout;
	char build_id[BUILD_ID_HEX_SIZE];
};

struct lode_finder {
	const struct lode_table *table;
	struct symtab_finder *finder;
	struct arena arena;
	/* of the last answer, in the arena */
	unsigned *discriminators;
	size_t n;
};

static int file_failed(struct lode *l)
{
	return l->err.kind ? -1 : err_set(&l->err, ERR_INTERNAL, "failed");
}

struct lode *lode_new(const struct lode_options *o)
{
	struct lode *l = NEW(struct lode);
	struct lode_options known = { 0 };

	if (o)
		memcpy(&known, o, MIN(o->size, sizeof(known)));
	l->urls = known.urls ? mem_strdup(known.urls) : NULL;
	l->options = (struct lookup_options){ .urls = l->urls,
					      .local_only = known.local_only,
					      .threads = known.threads,
					      .discriminators = known.discriminators };
	return l;
}

void lode_free(struct lode *l)
{
	if (!l)
		return;
	free(l->urls);
	free(l);
}

const char *lode_error(const struct lode *l)
{
	return l->err.text;
}

static int read_id(struct lode *l, const char *text, struct build_id *ret)
{
	if (build_id_read(ret, str_of(text)))
		return 0;
	return err_set(&l->err, ERR_INVALID,
		       "\"%s\" is not a build ID: an even number of digits 0-9 a-f is expected", text);
}

/* ---- finding ---- */

int lode_find(struct lode *l, enum lode_kind kind, const char *build_id, char **ret_path)
{
	AUTO(local_freep) struct local *local = local_new(NULL);
	bool debug = kind == LODE_DEBUGINFO;
	struct local_found found = { 0 };
	struct build_id id;
	char *path;

	l->err = (struct err){ 0 };
	if (read_id(l, build_id, &id) < 0)
		return -1;
	if (local_build_id(local, &id, debug ? LOCAL_DEBUGINFO : LOCAL_EXECUTABLE, NULL, &found) == 0) {
		*ret_path = strdup(found.path);
		local_found_done(&found);
		return 0;
	}
	if (l->options.local_only)
		return LODE_NONE;
	path = lookup_fetch(&l->options, debug ? CLIENT_DEBUGINFO : CLIENT_EXECUTABLE, &id, NULL, &l->err);
	if (path) {
		*ret_path = path;
		return 0;
	}
	return l->err.os == ENOENT || l->err.os == ENOSYS ? LODE_NONE : file_failed(l);
}

/* ---- tables ---- */

int lode_open(struct lode *l, const char *path, const char *build_id, struct lode_table **ret)
{
	struct lode_table *t = NEW(struct lode_table);
	struct build_id id = { 0 };

	l->err = (struct err){ 0 };
	if (!path && !build_id) {
		free(t);
		return err_set(&l->err, ERR_INVALID, "neither a path nor a build ID is given");
	}
	if ((build_id && read_id(l, build_id, &id) < 0) ||
	    lookup_open_module(&t->file, &l->options, path, &id, &l->err) < 0) {
		lode_close(t);
		return file_failed(l);
	}
	frame_layout_of(t->file.img, &t->layout);
	build_id_hex(&symtab_info(t->file.table)->build_id, t->build_id);
	*ret = t;
	return 0;
}

void lode_close(struct lode_table *t)
{
	if (!t)
		return;
	lookup_file_done(&t->file);
	free(t);
}

const char *lode_build_id(const struct lode_table *t)
{
	return t->build_id;
}

int lode_is_incomplete(const struct lode_table *t)
{
	return (symtab_info(t->file.table)->flags & (SYMTAB_ALT_MISSING | SYMTAB_SPLIT_MISSING)) != 0;
}

/* ---- addresses ---- */

int lode_translate(const struct lode_table *t, const struct lode_mapping *maps, size_t n, uint64_t addr,
		   uint64_t *ret)
{
	AUTO(mem_freep) struct frame_mapping *list = NULL;

	n = MIN(n, (size_t)MAX_MAPS);
	list = NEW_N(struct frame_mapping, n + 1);
	for (size_t i = 0; i < n; i++)
		list[i] = (struct frame_mapping){ .start = maps[i].start,
						  .limit = maps[i].end,
						  .offset = maps[i].offset };
	return frame_translate(&t->layout, FRAME_RUNTIME, list, n, addr, ret) == FRAME_FOUND ? 0 : LODE_NONE;
}

struct lode_finder *lode_finder_new(struct lode_table *t)
{
	struct lode_finder *f = NEW(struct lode_finder);

	f->table = t;
	f->finder = symtab_finder_new(t->file.table);
	arena_init(&f->arena);
	return f;
}

void lode_finder_free(struct lode_finder *f)
{
	if (!f)
		return;
	symtab_finder_free(f->finder);
	arena_done(&f->arena);
	free(f);
}

static enum frame_demangling demangling_of(unsigned flags)
{
	return flags & LODE_MANGLED     ? FRAME_DEMANGLE_NONE
	       : flags & LODE_SIMPLE    ? FRAME_DEMANGLE_SIMPLE
	       : flags & LODE_TEMPLATES ? FRAME_DEMANGLE_TEMPLATES
					: FRAME_DEMANGLE_FULL;
}

static const char *text_or_null(struct lode_finder *f, struct buf *b)
{
	const char *text = arena_strdup(&f->arena, buf_str(b));

	b->size = 0;
	return text;
}

int lode_frames(struct lode_finder *f, uint64_t addr, unsigned flags, const struct lode_frame **ret,
		size_t *ret_n)
{
	AUTO(buf_done) struct buf b = { 0 };
	struct symtab_frames frames;
	struct lode_frame *list;
	struct err err = { 0 };
	int r = lookup_frames_by(&f->table->file, f->finder,
				 flags & LODE_RETURN_ADDRESS && addr ? addr - 1 : addr, &frames, &err);

	arena_reset(&f->arena);
	f->n = 0;
	if (r)
		return r < 0 ? -1 : LODE_NONE;
	f->discriminators = ARENA_NEW_N(&f->arena, unsigned, frames.n);
	f->n = frames.n;
	list = ARENA_NEW_N(&f->arena, struct lode_frame, frames.n);
	for (size_t i = 0; i < frames.n; i++) {
		const struct symtab_frame *s = &frames.list[i];

		frame_name(s, demangling_of(flags), &b);
		list[i].function = text_or_null(f, &b);
		list[i].linkage = arena_strdup(&f->arena, s->linkage);
		if (s->file.size)
			symtab_path(s->dir, s->file, &b);
		list[i].file = text_or_null(f, &b);
		list[i].line = s->line;
		list[i].column = s->column;
		list[i].start_line = s->start_line;
		list[i].inlined = s->inlined;
		f->discriminators[i] = s->discriminator;
	}
	*ret = list;
	*ret_n = frames.n;
	return 0;
}

unsigned lode_discriminator(const struct lode_finder *f, size_t i)
{
	return i < f->n ? f->discriminators[i] : 0;
}
