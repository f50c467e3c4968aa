/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts of answers, made and put together.
 *
 * Rows of one piece of a function have their outer frames in common, and a function's name is in many rows.
 * A page of memory that is touched for the first time costs as much as several look-ups, so what is the same
 * is not held again: frames are a tree, whose leaves are the answers.
 */
#include "cmd/symbolize_write.h"

void symbolize_writer_init(struct symbolize_writer *w, const struct settings *s,
			   const struct symbolize_style *style)
{
	*w = (struct symbolize_writer){ .s = s, .style = style, .piece = 1 };
}

void symbolize_writer_done(struct symbolize_writer *w)
{
	arena_done(&w->texts);
	arena_done(&w->names_texts);
	map_done(&w->names);
	buf_done(&w->name);
	buf_done(&w->room);
}

void symbolize_writer_forget(struct symbolize_writer *w, size_t max)
{
	arena_done(&w->texts);
	w->piece++;
	if (w->names_texts.size > max) {
		map_done(&w->names);
		arena_done(&w->names_texts);
	}
}

size_t symbolize_writer_size(const struct symbolize_writer *w)
{
	return w->texts.size + w->names_texts.size;
}

static struct str copy(struct arena *a, struct str s)
{
	char *p;

	if (!s.size)
		return (struct str){ 0 };
	p = arena_alloc(a, s.size);
	memcpy(p, s.p, s.size);
	return (struct str){ p, s.size };
}

/* ---- names ---- */

/* Neither addr2line nor llvm-symbolizer undoes Go's escapes. */
static struct str name_made(struct symbolize_writer *w, const struct symtab_frame *f, struct str name)
{
	enum symbolize_demangling how = w->s->symbols.demangling;

	w->name.size = 0;
	if (w->style->ours || how == SYMBOLIZE_SIMPLE)
		symbolize_name(f, how, &w->name);
	else
		symtab_demangle(name, how == SYMBOLIZE_FULL ? SYMTAB_FULL : SYMTAB_SIMPLE, &w->name);
	return buf_str(&w->name);
}

/* A template's name takes some 3 us to be demangled, and the same few come again and again. */
static struct str name_demangled(struct symbolize_writer *w, const struct symtab_frame *f, struct str name)
{
	struct bytes key = bytes_of(name.p, name.size);
	struct str *known = map_get(&w->names, key);

	if (!known) {
		known = ARENA_NEW(&w->names_texts, struct str);
		*known = copy(&w->names_texts, name_made(w, f, name));
		w->names_texts.size += name.size; /* which the map has a copy of */
		map_put(&w->names, key, known);
	}
	return *known;
}

static size_t slot_of(const void *p, uint64_t more)
{
	return (((uintptr_t)p ^ more << 20) * 0x9e3779b97f4a7c15) >> 58;
}
_Static_assert(RECENT == 1 << (64 - 58), "as many as slot_of() tells apart");

struct str symbolize_writer_name(struct symbolize_writer *w, const struct symtab_frame *f)
{
	struct str name = f->linkage.size ? f->linkage : f->name;
	struct recent_name *at = &w->recent_names[slot_of(name.p, name.size)];

	if (!w->s->symbols.functions || !name.size)
		return (struct str){ 0 };
	if (at->piece == w->piece && at->mangled.p == name.p && at->mangled.size == name.size)
		return at->text;
	at->piece = w->piece;
	at->mangled = name;
	at->text = w->s->symbols.demangling == SYMBOLIZE_NONE ? copy(&w->texts, name)
		   : name.p[0] == '_'                         ? name_demangled(w, f, name)
							      : copy(&w->texts, name_made(w, f, name));
	return at->text;
}

/* ---- frames ---- */

static bool same_place(struct str a, struct str b)
{
	return a.p == b.p && a.size == b.size;
}

static bool same_frame(const struct symtab_frame *a, const struct symtab_frame *b)
{
	return a->line == b->line && a->column == b->column && a->discriminator == b->discriminator &&
	       a->inlined == b->inlined && a->origin == b->origin && same_place(a->linkage, b->linkage) &&
	       same_place(a->name, b->name) && same_place(a->dir, b->dir) && same_place(a->file, b->file);
}

static const struct frame_text *frame_made(struct symbolize_writer *w, const struct symtab_frame *f,
					   const struct frame_text *outer)
{
	struct recent_frame *at = &w->recent_frames[slot_of(outer ? (const void *)outer : f->linkage.p,
							    f->line * 31u + f->column)];
	struct frame_text *text;
	struct str name;

	if (at->piece == w->piece && at->text->outer == outer && same_frame(&at->f, f))
		return at->text;
	name = symbolize_writer_name(w, f);
	w->room.size = 0;
	w->style->place(w->s, f, &w->room);
	text = arena_alloc(&w->texts, sizeof(*text) + w->room.size);
	text->name = name.size || !w->s->symbols.functions ? name : STR("??");
	text->outer = outer;
	text->size = w->room.size;
	memcpy(text->place, w->room.p, w->room.size);
	*at = (struct recent_frame){ w->piece, *f, text };
	return text;
}

struct answer_text symbolize_writer_make(struct symbolize_writer *w, uint64_t addr,
					 const struct symtab_frames *frames)
{
	static const struct symtab_frame nothing;
	const struct symtab_frame *list = frames ? frames->list : &nothing;
	struct answer_text ret = { 0 };
	size_t n = frames ? frames->n : w->style->unknown.size ? 0 : 1;

	if (!w->shares || !frames || frames->start != w->start)
		w->piece++;
	w->start = frames ? frames->start : 0;
	w->room.size = 0;
	w->style->head(w, addr, frames, &w->room);
	if (!frames)
		buf_add_str(&w->room, w->style->unknown);
	ret.head = copy(&w->texts, buf_str(&w->room));
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
	buf_add_str(&w->room, text);
	buf_add_char(&w->room, '\n');
	return (struct answer_text){ .head = copy(&w->texts, buf_str(&w->room)) };
}

/* ---- put together ---- */

/* Most are short, and there are several in each frame. */
static inline void add(struct buf *out, struct str s)
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

	add(out, a->head);
	for (const struct frame_text *f = a->frames; f; f = f->outer) {
		add(out, before);
		add(out, f->name);
		add(out, (struct str){ f->place, f->size });
		if (s->symbols.pretty)
			before = STR(" (inlined by) ");
	}
	if (a->frames)
		add(out, style->end);
}
