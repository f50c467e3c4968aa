/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Units made into code ranges: contiguous code of one function, with the calls inlined into it and its rows, all
 * in ids of the batch.
 *
 * Of code that a line table tells of and no function, code ranges without a function are made.
 */
#include "symtab/batch.h"

#include <stdlib.h>

#define SKIPPED_MAX   1000u
#define NAMES_AT_ONCE 32u

struct batch *batch_new(const struct dwarf *d, uint32_t index, const struct symtab_options *o)
{
	struct batch *b = NEW(struct batch);

	b->dwarf = d;
	b->index = index;
	b->columns = !o->no_columns;
	b->discriminators = b->columns && o->discriminators;
	b->cancel = o->cancel;
	intern_init(&b->in);
	b->known.seed = b->known_files.seed = b->in.seed;
	b->work = NEW(struct unit_work);
	b->reader = d ? dwarf_reader_new(d) : NULL;
	if (b->reader && b->discriminators)
		dwarf_reader_discriminators(b->reader);
	return b;
}

void batch_end(struct batch *b, struct buf *room)
{
	struct unit_work *w = b->work;

	b->work = NULL;
	if (b->reader && room && !room->p)
		*room = dwarf_reader_take_room(b->reader);
	dwarf_reader_free(TAKE(b->reader));
	quad_map_done(&b->known);
	quad_map_done(&b->known_files);
	if (!w)
		return;
	free(w->file_ids);
	id_map_done(&w->refs);
	free(w->names);
	free(w->nodes);
	free(w->entries);
	free(w->own);
	free(w->keys);
	free(w->open);
	buf_done(&w->path);
	free(w);
}

void batch_free(struct batch *b)
{
	if (!b)
		return;
	batch_end(b, NULL);
	intern_done(&b->in);
	free(b->ranges);
	free(b->entries);
	free(b->more);
	buf_done(&b->rows);
	for (size_t i = 0; i < b->n_skipped && i < SKIPPED_MAX; i++)
		free(b->skipped[i].reason);
	free(b->skipped);
	free(b);
}

void batch_skip(struct batch *b, size_t unit, const struct err *why)
{
	b->flags |= SYMTAB_PARTIAL;
	if (b->n_skipped >= SKIPPED_MAX) {
		b->n_skipped++;
		return;
	}
	VEC_GROW(b->skipped, b->n_skipped, b->room_skipped);
	b->skipped[b->n_skipped++] = (struct skipped){
		unit, mem_printf(".debug_info: unit at %llu: %s",
				 (unsigned long long)dwarf_unit_off(b->dwarf, unit), why->text)
	};
}

/* ---- files and names ---- */

static void source_path_join(struct buf *out, struct str part)
{
	if (!part.size)
		return;
	if (path_is_absolute(part))
		out->size = 0;
	else if (out->size && out->p[out->size - 1] != '/')
		buf_add_char(out, '/');
	buf_add_str(out, part);
}

static uint32_t unit_file_look_up(struct batch *b, uint32_t file)
{
	struct unit_work *w = b->work;
	struct dwarf_file_name f;
	uint32_t dir;

	if (!dwarf_reader_file(b->reader, file, &f))
		return 0;
	w->path.size = 0;
	if (f.name.size && !path_is_absolute(f.name)) {
		source_path_join(&w->path, f.comp_dir);
		source_path_join(&w->path, f.dir);
		/* "dir/" and "dir" are the same; "/" stays. */
		while (w->path.size > 1 && w->path.p[w->path.size - 1] == '/')
			w->path.size--;
	}
	dir = intern_str(&b->in, buf_str(&w->path), false);
	return intern_file(&b->in, dir, intern_str(&b->in, f.name, f.stable));
}

/* Most are the same headers that the units before had. */
static uint32_t unit_file_id(struct batch *b, uint32_t file)
{
	struct dwarf_file_key key;
	uint32_t *known;

	if (!dwarf_reader_file_key(b->reader, file, &key))
		return unit_file_look_up(b, file);
	known = quad_map_at(&b->known_files,
			    (struct quad){ { key.name, key.dir, key.comp_dir, key.sections } });
	if (!*known)
		*known = unit_file_look_up(b, file) + 1;
	return *known - 1;
}

/* It has not been looked up yet. */
uint32_t batch_file_new(struct batch *b, uint32_t file)
{
	struct unit_work *w = b->work;
	uint32_t id;

	if (file >= w->n_file_ids) {
		size_t n = (size_t)file + 1;

		if (file > (8u << 20))
			return 0;
		if (n > w->room_file_ids) {
			w->room_file_ids = MAX(n, w->room_file_ids * 2);
			w->file_ids = mem_realloc(w->file_ids, w->room_file_ids, sizeof(*w->file_ids));
		}
		memset(w->file_ids + w->n_file_ids, 0, (n - w->n_file_ids) * sizeof(*w->file_ids));
		w->n_file_ids = n;
	}
	id = unit_file_id(b, file);
	w->file_ids[file] = id ? id : UINT32_MAX;
	return id;
}

/* Functions are noted by their DIEs first; a name may stand behind its use, so they are looked up at the
 * unit's end. */
uint32_t batch_name(struct batch *b, uint64_t die, bool in_alt)
{
	struct unit_work *w = b->work;
	uint32_t name;

	if (die == UINT64_MAX)
		return 0;
	/* Behind all sections there is none, and the look-up says so. */
	die = MIN(die, (uint64_t)DWARF_MAX_SECTION - 1);
	name = id_map_at(&w->refs, (uint32_t)die * 2 + in_alt);
	if (name > w->n_names) {
		VEC_GROW(w->names, w->n_names, w->room_names);
		w->names[w->n_names++] = (struct name_ref){ .die = die, .in_alt = in_alt };
	}
	return name;
}

/* Damage is listed; -1: something else. */
static int batch_note_damage(struct batch *b, const struct err *why, struct err *err)
{
	if (why->kind != ERR_INVALID && why->kind != ERR_LIMIT) {
		*err = *why;
		return -1;
	}
	batch_skip(b, b->work->unit, why);
	return 0;
}

/*
 * A name on its way. Each look-up ends at a slot of a map that is larger than the caches; so many names take
 * each step together, and the slots of the next step are fetched meanwhile.
 */
struct name_step {
	struct dwarf_name_key key;
	struct quad quad;
	bool has_key;
	/* Function + 1, where others may have the same key; it is set when the one that is_new is done. */
	uint32_t *known;
	bool is_new;
	struct dwarf_name name;
	uint32_t name_hash, linkage_hash;
	struct function_id function;
	uint32_t function_hash;
};

static void name_prefetch(struct batch *b, struct name_step *s)
{
	s->name_hash = intern_str_prefetch(&b->in, s->name.name);
	s->linkage_hash = intern_str_prefetch(&b->in, s->name.linkage);
}

static void name_key(struct batch *b, const struct name_ref *n, struct name_step *s)
{
	struct dwarf_name_key *key = &s->key;

	if (!dwarf_reader_name_key(b->reader, n->die, n->in_alt, key))
		return;
	s->has_key = true;
	s->quad = (struct quad){ { key->name, key->linkage,
				   key->decl_file ? batch_file(b, key->decl_file) : 0, key->decl_line } };
	/* The DIEs of one unit are told apart already. */
	if (dwarf_n_units(b->dwarf) <= 1)
		return;
	s->is_new = false;
	quad_map_prefetch(&b->known, &s->quad);
}

/* Half of them are the same functions of headers that the units before had. */
static int name_find(struct batch *b, struct name_step *s, struct err *err)
{
	struct err why = { 0 };
	int r;

	if (!s->has_key)
		return 0;
	if (!s->is_new) {
		s->known = quad_map_at(&b->known, s->quad);
		if (*s->known)
			return 0;
		*s->known = UINT32_MAX;
		s->is_new = true;
	}
	r = dwarf_reader_name_of_key(b->reader, &s->key, &s->name, &why);
	if (r == DWARF_NAME_LONG) {
		if (s->known)
			quad_map_undo(&b->known, s->known);
		s->known = NULL;
		s->has_key = false;
		return 0;
	}
	if (r < 0 && batch_note_damage(b, &why, err) < 0)
		return -1;
	name_prefetch(b, s);
	return 0;
}

static int name_intern(struct batch *b, const struct name_ref *n, struct name_step *s, struct err *err)
{
	struct err why = { 0 };
	const struct dwarf_name *name = &s->name;
	struct function_id *f = &s->function;

	if (!s->is_new)
		return 0;
	f->file = s->quad.v[2];
	if (!s->has_key) {
		if (dwarf_reader_name(b->reader, n->die, n->in_alt, &s->name, &why) < 0 &&
		    batch_note_damage(b, &why, err) < 0)
			return -1;
		f->file = name->decl_file ? batch_file(b, name->decl_file) : 0;
		name_prefetch(b, s);
	}
	if (name->alt_missing)
		b->flags |= SYMTAB_ALT_MISSING;
	f->line = name->decl_line;
	f->name = intern_str_hashed(&b->in, name->name, s->name_hash, name->name_stable);
	f->linkage = intern_str_hashed(&b->in, name->linkage, s->linkage_hash, name->linkage_stable);
	if (f->linkage == f->name)
		f->linkage = 0;
	s->function_hash = intern_function_prefetch(&b->in, f);
	return 0;
}

static void name_done(struct batch *b, struct name_ref *n, const struct name_step *s)
{
	if (!s->is_new) {
		n->function = *s->known - 1;
		return;
	}
	n->function = intern_function_hashed(&b->in, &s->function, s->function_hash);
	if (s->known)
		*s->known = n->function + 1;
}

static int names_step(struct batch *b, struct name_ref *list, size_t n, struct err *err)
{
	struct name_step steps[NAMES_AT_ONCE];

	quad_map_room(&b->known, NAMES_AT_ONCE); /* so that places in it stay */
	for (size_t i = 0; i < n; i++) {
		steps[i] = (struct name_step){ .is_new = true };
		dwarf_reader_name_prefetch(b->reader, list[i].die);
	}
	for (size_t i = 0; i < n; i++)
		name_key(b, &list[i], &steps[i]);
	for (size_t i = 0; i < n; i++)
		if (name_find(b, &steps[i], err) < 0)
			return -1;
	for (size_t i = 0; i < n; i++)
		if (name_intern(b, &list[i], &steps[i], err) < 0)
			return -1;
	for (size_t i = 0; i < n; i++)
		name_done(b, &list[i], &steps[i]);
	return 0;
}

static int names_look_up(struct batch *b, struct err *err)
{
	struct unit_work *w = b->work;

	for (size_t i = 0; i < w->n_names; i += NAMES_AT_ONCE)
		if (names_step(b, w->names + i, MIN(w->n_names - i, (size_t)NAMES_AT_ONCE), err) < 0)
			return -1;
	for (size_t i = w->first_range; i < b->n_ranges; i++)
		if (b->ranges[i].function)
			b->ranges[i].function = w->names[b->ranges[i].function - 1].function;
	for (size_t i = w->first_entry; i < b->n_entries; i++)
		if (b->entries[i].function)
			b->entries[i].function = w->names[b->entries[i].function - 1].function;
	return 0;
}

/* ---- units ---- */

/* What the unit's functions have taken, by its begin: which code range, from the unit's first on. */
static size_t ranges_taken(struct batch *b)
{
	struct unit_work *w = b->work;
	size_t n = 0;

	for (size_t i = w->first_range; i < b->n_ranges; i++) {
		VEC_GROW(w->keys, n, w->room_keys);
		w->keys[n] = (struct sort_key){ b->ranges[i].start, n };
		n++;
	}
	sort_keys(w->keys, n);
	return n;
}

static uint64_t taken_end(const struct batch *b, const struct sort_key *k)
{
	return k->key + b->ranges[b->work->first_range + k->at].size;
}

/* Pieces of what is in the line table and in no function. */
static int lines_alone(struct batch *b, struct err *err)
{
	struct unit_work *w = b->work;
	const struct dwarf_lines *l = dwarf_reader_lines(b->reader);
	const struct sort_key *own;
	struct code_range *last = NULL;
	size_t n, i = 0;
	uint64_t done = 0, begin;
	bool in_row;

	if (l->shared)
		return 0;
	n = ranges_taken(b);
	own = w->keys;
	for (size_t k = 0; k < l->n_sequences; k++) {
		uint64_t at = MAX(l->sequences[k].base, done), end = l->sequences[k].end;

		while (at < end) {
			uint64_t to = end;

			while (i < n && taken_end(b, &own[i]) <= at)
				i++;
			if (i < n && own[i].key <= at) {
				at = taken_end(b, &own[i]);
				last = &b->ranges[w->first_range + own[i].at];
				continue;
			}
			if (i < n)
				to = MIN(to, own[i].key);
			/* Behind a function its last row goes on over the padding: that is no code of its
			 * own. */
			begin = MIN(to, lines_begin(b, at, &in_row));
			if (in_row && last && last->start + last->size == at) {
				last->tail = (uint32_t)MIN(begin - at, (uint64_t)UINT32_MAX);
				/* It may go on over code that has a symbol and no function: C++'s thunks have
				 * the line of what they stand for. */
				if (begin - at >= PADDING_END) {
					if (range_make(b, NULL, at, begin, err) < 0)
						return -1;
					b->ranges[b->n_ranges - 1].from_symbol = true;
				}
			}
			if (begin < to && range_make(b, NULL, begin, to, err) < 0)
				return -1;
			last = NULL; /* the list may have moved */
			at = to;
		}
		done = MAX(done, end);
	}
	return 0;
}

static int unit_function(void *arg, const struct dwarf_function *f, struct err *err)
{
	struct batch *b = arg;

	if (err_if_cancelled(b->cancel, err) < 0)
		return -1;
	b->n_functions++;
	return function_make(b, f, err);
}

static bool batch_is_damage(const struct err *err)
{
	return err->kind == ERR_INVALID || err->kind == ERR_LIMIT;
}

static int unit_run(struct batch *b, size_t unit, struct err *err)
{
	struct unit_work *w = b->work;
	struct err why = { 0 };
	int r = dwarf_reader_unit(b->reader, unit, &why);

	if (r > 0)
		return 0;
	w->unit = unit;
	w->n_file_ids = w->n_names = 0;
	w->first_range = b->n_ranges;
	w->first_entry = b->n_entries;
	id_map_clear(&w->refs);
	if (r == 0) {
		if (dwarf_reader_split_err(b->reader)->kind) {
			b->flags |= SYMTAB_SPLIT_MISSING;
			batch_skip(b, unit, dwarf_reader_split_err(b->reader));
		}
		b->row_budget += dwarf_reader_split_size(b->reader) * 16;
		if (dwarf_reader_lines_err(b->reader)->kind)
			batch_skip(b, unit, dwarf_reader_lines_err(b->reader));
		r = dwarf_reader_walk(b->reader, unit_function, b, &why);
		/* What comes before the damage is good. */
		if (r < 0 && batch_is_damage(&why)) {
			batch_skip(b, unit, &why);
			why = (struct err){ 0 };
			r = 0;
		}
	}
	if (r == 0)
		r = lines_alone(b, &why);
	if (r < 0 && batch_is_damage(&why)) {
		batch_skip(b, unit, &why);
		r = 0;
	}
	if (r < 0) {
		*err = why;
		return -1;
	}
	return names_look_up(b, err);
}

int batch_run(struct batch *b, size_t first, size_t end, struct err *err)
{
	uint64_t bytes = 0, shared = dwarf_shared_size(b->dwarf);

	for (size_t i = first; i < end; i++)
		bytes += dwarf_unit_size(b->dwarf, i);
	/* Ordinary files need a small part of this. */
	dwarf_reader_budget(b->reader, bytes * 16 + shared * 4 + MIB(16));
	b->row_budget = bytes * 16 + shared * 4 + MIB(16);
	for (size_t i = first; i < end; i++)
		if (err_if_cancelled(b->cancel, err) < 0 || unit_run(b, i, err) < 0)
			return -1;
	return 0;
}
