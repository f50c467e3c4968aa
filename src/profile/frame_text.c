/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of symtab in the texts of profiles: the function's name demangled, a whole path. Many addresses are
 * in few functions, so each text is made once.
 */
#include <stdlib.h>
#include "profile/name.h"

struct name {
	struct str demangled, system;
};

struct profile_frame_texts {
	enum frame_demangling how;
	struct arena arena;
	struct map names, paths; /* to struct name and struct str, in the arena */
	struct buf key, text;
};

struct profile_frame_texts *profile_frame_texts_new(enum frame_demangling how)
{
	struct profile_frame_texts *x = NEW(struct profile_frame_texts);

	x->how = how;
	arena_init(&x->arena);
	return x;
}

void profile_frame_texts_free(struct profile_frame_texts *x)
{
	if (!x)
		return;
	map_done(&x->names);
	map_done(&x->paths);
	arena_done(&x->arena);
	buf_done(&x->key);
	buf_done(&x->text);
	free(x);
}

/* Texts of the table are valid only for the moment, so they are copied. */
static const struct name *frame_name_of(struct profile_frame_texts *x, const struct symtab_frame *f)
{
	struct str system = f->linkage.size ? f->linkage : f->name;
	struct bytes key = bytes_of(system.p, system.size);
	struct name *n = map_get(&x->names, key);

	if (n)
		return n;
	x->text.size = 0;
	frame_name(f, x->how, &x->text);
	n = ARENA_NEW(&x->arena, struct name);
	n->demangled = arena_str(&x->arena, buf_str(&x->text));
	n->system = str_eq(n->demangled, system) ? n->demangled : arena_str(&x->arena, system);
	map_put(&x->names, key, n);
	return n;
}

static struct str frame_path_of(struct profile_frame_texts *x, struct str dir, struct str file)
{
	struct str *s;

	x->key.size = 0;
	buf_add_str(&x->key, dir);
	buf_add_char(&x->key, 0);
	buf_add_str(&x->key, file);
	s = map_get(&x->paths, buf_bytes(&x->key));
	if (s)
		return *s;
	x->text.size = 0;
	symtab_path(dir, file, &x->text);
	s = ARENA_NEW(&x->arena, struct str);
	*s = arena_str(&x->arena, buf_str(&x->text));
	map_put(&x->paths, buf_bytes(&x->key), s);
	return *s;
}

void profile_frame_text_of(struct profile_frame_texts *x, const struct symtab_frame *f,
			   struct profile_frame_text *ret)
{
	const struct name *n = frame_name_of(x, f);

	*ret = (struct profile_frame_text){ .name = n->demangled,
					    .system_name = n->system,
					    .line = f->line,
					    .column = f->column,
					    .start_line = f->start_line };
	/*
	 * pprof's file belongs to the function, but is shown with the line: where a function has parts of
	 * several files, it is the file of the line.
	 */
	ret->file = frame_path_of(x, f->dir, f->file);
}

size_t profile_frame_texts_size(const struct profile_frame_texts *x)
{
	return x->arena.size;
}
