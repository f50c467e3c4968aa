/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The batch's ids of a unit's files and functions.
 *
 * Functions are noted by their DIEs first. A name may come after its use in the unit, so names are looked up
 * when the unit is read.
 */
#include "symtab/batch.h"

#define NAMES_AT_ONCE 32u

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

/*
 * Most files are headers that earlier units had, too. One without a name (0) is looked up in each unit: that lists the loss of
 * each, whichever thread reads them.
 */
static uint32_t unit_file_id(struct batch *b, uint32_t file)
{
	struct dwarf_file_key key;
	uint32_t *known;

	if (!dwarf_reader_file_key(b->reader, file, &key))
		return unit_file_look_up(b, file);
	known = quad_map_at(&b->known_files,
			    (struct quad){ { key.name, key.dir, key.comp_dir, key.sections } });
	if (!*known)
		*known = unit_file_look_up(b, file);
	return *known;
}

uint32_t batch_file_new(struct batch *b, uint32_t file)
{
	struct unit_work *w = b->work;
	uint32_t id;

	if (file >= w->n_files) {
		size_t n = (size_t)file + 1;

		if (file > DWARF_MAX_FILES)
			return 0;
		VEC_RESERVE(w->files, w->n_files, w->room_files, n - w->n_files);
		memset(w->files + w->n_files, 0, (n - w->n_files) * sizeof(*w->files));
		w->n_files = n;
	}
	id = unit_file_id(b, file);
	w->files[file] = (struct unit_file){ w->file_stamp, id };
	return id;
}

/* Offsets of 31 bits have a smaller map than those of larger sections. */
#define REFS_END ((uint64_t)1 << 31)

void names_begin(struct batch *b)
{
	struct unit_work *w = b->work;

	w->file_stamp++;
	w->n_names = 0;
	w->is_far = dwarf_reader_dies_end(b->reader) > REFS_END;
	id_map_clear(&w->refs);
	quad_map_done(&w->far_refs);
}

static uint32_t name_far(struct batch *b, uint64_t die, bool in_alt)
{
	struct unit_work *w = b->work;
	uint32_t *at;

	w->far_refs.seed = b->in.seed; /* of a map that was cleared */
	at = quad_map_at(&w->far_refs, (struct quad){ { (uint32_t)die, (uint32_t)(die >> 32), in_alt } });
	if (!*at)
		*at = (uint32_t)w->n_names + 1;
	return *at;
}

uint32_t batch_name(struct batch *b, uint64_t die, bool in_alt)
{
	struct unit_work *w = b->work;
	uint32_t name;

	if (die == UINT64_MAX)
		return 0;
	/* In a smaller section there is no such DIE, and the look-up reports it. */
	name = w->is_far ? name_far(b, die, in_alt)
			 : id_map_at(&w->refs, (uint32_t)MIN(die, REFS_END - 1) * 2 + in_alt);
	if (name > w->n_names) {
		VEC_PUSH(w->names, w->n_names, w->room_names) = (struct name_ref){ .die = die,
										   .in_alt = in_alt };
	}
	return name;
}

/*
 * A name being looked up. Each look-up ends at a slot of a map that is larger than the CPU's caches. So many
 * names take each step together, and the slots of the next step are prefetched meanwhile.
 */
struct name_step {
	struct dwarf_name_key key;
	struct quad quad;
	bool has_key;
	/* Function + 1, where other DIEs may have the same key. The step with is_new sets it at its end. */
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
				   key->decl_file ? batch_file(b, key->decl_file - 1) : 0, key->decl_line } };
	/* Within one unit, each DIE has its own number already. */
	if (dwarf_n_units(b->dwarf) <= 1)
		return;
	s->is_new = false;
	quad_map_prefetch(&b->known, &s->quad);
}

/* Half of the functions are of headers that earlier units had, too. */
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
	if (r < 0 && batch_damage(b, &why, err) < 0)
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
		    batch_damage(b, &why, err) < 0)
			return -1;
		f->file = name->decl_file ? batch_file(b, name->decl_file - 1) : 0;
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

	quad_map_room(&b->known, NAMES_AT_ONCE); /* pointers into it stay valid */
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

int names_look_up(struct batch *b, struct err *err)
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
