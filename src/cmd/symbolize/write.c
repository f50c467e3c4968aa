/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The texts of answers: made, kept, joined.
 *
 * Rows of a function share their outer frames, and a function's name is in many rows. Touching a page of
 * memory for the first time costs as much as several look-ups, so equal parts are kept once: frames are a
 * tree, whose leaves are the answers.
 */
#include "cmd/symbolize/write.h"

#include <stdlib.h>
#include <sys/random.h>

#define NAME_SLOTS_MIN 1024u

void symbolize_writer_init(struct symbolize_writer *w, const struct settings *s,
			   const struct symbolize_style *style)
{
	*w = (struct symbolize_writer){ .s = s, .style = style };
}

static void names_forget(struct symbolize_writer *w)
{
	arena_done(&w->names_texts);
	free(w->names);
	w->names = NULL;
	w->n_names = w->n_name_slots = 0;
}

void symbolize_writer_done(struct symbolize_writer *w)
{
	arena_done(&w->texts);
	names_forget(w);
	buf_done(&w->name);
	buf_done(&w->room);
}

void symbolize_writer_forget(struct symbolize_writer *w, size_t max)
{
	arena_done(&w->texts);
	memset(w->recent_names, 0, sizeof(w->recent_names));
	memset(w->recent_paths, 0, sizeof(w->recent_paths));
	memset(w->recent_frames, 0, sizeof(w->recent_frames));
	if (w->names_texts.size > max)
		names_forget(w);
}

size_t symbolize_writer_size(const struct symbolize_writer *w)
{
	return w->texts.size + w->names_texts.size;
}

static struct str text_copy(struct arena *a, struct str s)
{
	char *p;

	if (!s.size)
		return (struct str){ 0 };
	p = arena_alloc(a, s.size);
	memcpy(p, s.p, s.size);
	return (struct str){ p, s.size };
}

static inline size_t recent_slot(const void *a, const void *b, uint64_t more, size_t n_slots)
{
	uint64_t h = ((uintptr_t)a ^ (uintptr_t)b << 16 ^ more << 40) * 0x9e3779b97f4a7c15;

	return h >> 32 & (n_slots - 1);
}

/* ---- names ---- */

/* addr2line and llvm-symbolizer do not decode Go's escapes. */
static struct str name_demangle(struct symbolize_writer *w, const struct symtab_frame *f, struct str name)
{
	enum frame_demangling how = w->s->symbols.demangling;

	w->name.size = 0;
	if (w->style->ours || how == FRAME_DEMANGLE_SIMPLE)
		frame_name(f, how, &w->name);
	else
		symtab_demangle(name, how == FRAME_DEMANGLE_FULL ? SYMTAB_FULL : SYMTAB_SIMPLE, &w->name);
	return buf_str(&w->name);
}

static const struct known_name *name_keep(struct symbolize_writer *w, struct arena *a,
					  const struct symtab_frame *f, struct str name)
{
	struct known_name *known = ARENA_NEW(a, struct known_name);
	struct str text = w->s->symbols.demangling == FRAME_DEMANGLE_NONE ? name : name_demangle(w, f, name);

	known->from = text_copy(a, name);
	known->text = str_eq(name, text) ? known->from : text_copy(a, text);
	return known;
}

static struct name_slot *name_slot(const struct symbolize_writer *w, uint64_t hash, struct str name)
{
	size_t mask = w->n_name_slots - 1, i = hash & mask;

	while (w->names[i].name && (w->names[i].hash != hash || !str_eq(w->names[i].name->from, name)))
		i = (i + 1) & mask;
	return &w->names[i];
}

static void names_grow(struct symbolize_writer *w)
{
	struct name_slot *old = w->names;
	size_t n_old = w->n_name_slots;

	if (!old && getrandom(&w->seed, sizeof(w->seed), 0) != (ssize_t)sizeof(w->seed))
		w->seed = (uint64_t)clock_mono_ns();
	w->n_name_slots = old ? 2 * n_old : NAME_SLOTS_MIN;
	w->names = mem_zalloc(w->n_name_slots * sizeof(*w->names));
	for (size_t i = 0; i < n_old; i++)
		if (old[i].name)
			*name_slot(w, old[i].hash, old[i].name->from) = old[i];
	free(old);
}

/*
 * Demangling a template's name takes about 3 us, and the same few come again and again. The key is @name
 * alone: frame_name() must read nothing of @f but its linkage name, or else its name.
 */
static const struct known_name *name_demangled(struct symbolize_writer *w, const struct symtab_frame *f,
					       struct str name)
{
	struct name_slot *slot;
	uint64_t hash;

	if (w->n_names >= w->n_name_slots / 2)
		names_grow(w);
	hash = hash64(name.p, name.size, w->seed);
	slot = name_slot(w, hash, name);
	if (!slot->name) {
		*slot = (struct name_slot){ hash, name_keep(w, &w->names_texts, f, name) };
		w->n_names++;
	}
	return slot->name;
}

/* NULL: not known, or names are not written. */
static const struct known_name *frame_known_name(struct symbolize_writer *w, const struct symtab_frame *f)
{
	struct str name = f->linkage.size ? f->linkage : f->name;
	const struct known_name **at =
		&w->recent_names[recent_slot(name.p, NULL, 0, ARRAY_SIZE(w->recent_names))];

	if (!w->s->symbols.functions || !name.size)
		return NULL;
	if (!*at || !str_eq((*at)->from, name))
		*at = name.p[0] == '_' && w->s->symbols.demangling != FRAME_DEMANGLE_NONE
			      ? name_demangled(w, f, name)
			      : name_keep(w, &w->texts, f, name);
	return *at;
}

struct str symbolize_writer_name(struct symbolize_writer *w, const struct symtab_frame *f)
{
	const struct known_name *name = frame_known_name(w, f);

	return name ? name->text : (struct str){ 0 };
}

/* ---- frames ---- */

static const struct known_path *frame_known_path(struct symbolize_writer *w, const struct symtab_frame *f)
{
	const struct known_path **at =
		&w->recent_paths[recent_slot(f->file.p, f->dir.p, 0, ARRAY_SIZE(w->recent_paths))];

	if (!*at || !str_eq((*at)->file, f->file) || !str_eq((*at)->dir, f->dir)) {
		struct known_path *path = ARENA_NEW(&w->texts, struct known_path);

		path->dir = text_copy(&w->texts, f->dir);
		path->file = text_copy(&w->texts, f->file);
		*at = path;
	}
	return *at;
}

static const struct frame_text *frame_made(struct symbolize_writer *w, const struct symtab_frame *f,
					   const struct frame_text *outer)
{
	const struct known_name *name = frame_known_name(w, f);
	const struct known_path *path = frame_known_path(w, f);
	struct recent_frame *at = &w->recent_frames[recent_slot(name, outer, f->line * 31u + f->column,
								ARRAY_SIZE(w->recent_frames))];
	bool named = f->name.size || f->linkage.size;
	struct frame_text *text;

	if (at->text && at->named == named && at->name == name && at->path == path && at->outer == outer &&
	    at->line == f->line && at->column == f->column && at->discriminator == f->discriminator &&
	    at->inlined == f->inlined && at->origin == f->origin)
		return at->text;
	w->room.size = 0;
	w->style->place(w->s, f, &w->room);
	text = arena_alloc(&w->texts, sizeof(*text) + w->room.size);
	text->name = name && name->text.size   ? name->text
		     : w->s->symbols.functions ? STR("??")
					       : (struct str){ 0 };
	text->outer = outer;
	text->size = w->room.size;
	memcpy(text->place, w->room.p, w->room.size);
	*at = (struct recent_frame){ .name = name,
				     .path = path,
				     .outer = outer,
				     .text = text,
				     .line = f->line,
				     .column = f->column,
				     .discriminator = f->discriminator,
				     .inlined = f->inlined,
				     .named = named,
				     .origin = f->origin };
	return text;
}

struct answer_text symbolize_writer_make(struct symbolize_writer *w, uint64_t addr,
					 const struct symtab_frames *frames)
{
	static const struct symtab_frame nothing;
	const struct symtab_frame *list = frames ? frames->list : &nothing;
	struct answer_text ret = { 0 };
	size_t n = frames ? frames->n : w->style->unknown.size ? 0 : 1;

	w->room.size = 0;
	w->style->head(w, addr, frames, &w->room);
	if (!frames)
		buf_add_str(&w->room, w->style->unknown);
	ret.head = text_copy(&w->texts, buf_str(&w->room));
	if (!w->style->place)
		return ret;
	if (n && !w->s->symbols.inlines)
		n = 1;
	for (size_t i = n; i--;)
		ret.frames = frame_made(w, &list[i], ret.frames);
	return ret;
}

struct answer_text symbolize_writer_echo(struct symbolize_writer *w, struct str text)
{
	w->room.size = 0;
	w->style->echo(w, text, &w->room);
	return (struct answer_text){ .head = text_copy(&w->texts, buf_str(&w->room)) };
}

/* ---- joined ---- */

/* For short texts, several a frame. */
static inline void add_short(struct buf *out, struct str s)
{
	if (!s.size)
		return;
	memcpy(buf_reserve(out, s.size), s.p, s.size);
	out->size += s.size;
}

void answer_text_add(const struct settings *s, const struct symbolize_style *style,
		     const struct answer_text *a, struct buf *out)
{
	struct str before = style->before;

	add_short(out, a->head);
	for (const struct frame_text *f = a->frames; f; f = f->outer) {
		add_short(out, before);
		add_short(out, f->name);
		add_short(out, (struct str){ f->place, f->size });
		if (s->symbols.pretty)
			before = STR(" (inlined by) ");
	}
	if (a->frames)
		add_short(out, style->end);
}
