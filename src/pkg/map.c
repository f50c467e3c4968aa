/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing a package map. The facts of all members are stored column by column, each as the difference from a
 * prediction, and the columns are compressed together. Build IDs are stored as they are: they do not
 * compress.
 */
#include "base/vec.h"
#include "pkg/map_format.h"

#include <assert.h>
#include <endian.h>
#include <stdlib.h>

struct map_link {
	struct str path, target;
};

struct pkg_map_builder {
	struct arena arena;
	struct pkg_info info; /* only its names and payload; in the arena */
	struct pkg_identity identity;
	uint64_t decoded_size;
	struct pkg_entry *entries; /* in the order of pkg_map_add() */
	size_t n_entries, room_entries, n_sections;
	struct map_link *links;
	size_t n_links, room_links;
};

/* A combination of ELF facts; most packages have few. */
struct elf_kind {
	uint32_t flags;
	uint16_t type, machine;
	uint8_t id_size;
};
#define MAX_ELF_KINDS 255

struct map_writer {
	const struct pkg_map_builder *b;
	struct buf cols[N_COLUMNS];
	const struct pkg_entry **by_path, **by_number;
	struct map_link *links;   /* by path */
	struct map entry_of_path; /* value: the rank in by_path + 1 */
	struct map_pair pairs[MAP_MAX_PAIRS];
	size_t n_pairs;
	struct buf ids;
	struct buf last_path; /* the last path that was stored as text */
	uint64_t strings_size;
};

struct pkg_map_builder *pkg_map_builder_new(const struct pkg_info *info, const struct pkg_identity *id)
{
	struct pkg_map_builder *b = NEW(struct pkg_map_builder);

	arena_init(&b->arena);
	b->info = (struct pkg_info){
		.kind = info->kind,
		.name = arena_str(&b->arena, info->name),
		.version = arena_str(&b->arena, info->version),
		.arch = arena_str(&b->arena, info->arch),
		.source_name = arena_str(&b->arena, info->source_name),
		.payload = info->payload,
	};
	b->identity = *id;
	return b;
}

static void add_places(struct pkg_map_builder *b, struct pkg_entry *e)
{
	struct elf_place *v;

	if (e->n_places > MAP_MAX_SECTIONS - b->n_sections)
		e->n_places = 0;
	if (!e->n_places)
		return;
	b->n_sections += e->n_places;
	v = ARENA_NEW_N(&b->arena, struct elf_place, e->n_places);
	for (uint32_t i = 0; i < e->n_places; i++) {
		v[i] = e->places[i];
		v[i].name = arena_str(&b->arena, e->places[i].name);
	}
	e->places = v;
}

void pkg_map_add(struct pkg_map_builder *b, const struct pkg_entry *e)
{
	struct pkg_entry *copy = &VEC_PUSH(b->entries, b->n_entries, b->room_entries);

	*copy = *e;
	copy->path = arena_str(&b->arena, e->path);
	add_places(b, copy);
}

void pkg_map_add_link(struct pkg_map_builder *b, struct str path, struct str target)
{
	VEC_PUSH(b->links, b->n_links, b->room_links) = (struct map_link){ arena_str(&b->arena, path),
									   arena_str(&b->arena, target) };
}

void pkg_map_set_decoded_size(struct pkg_map_builder *b, uint64_t size)
{
	b->decoded_size = size;
}

void pkg_map_builder_free(struct pkg_map_builder *b)
{
	if (!b)
		return;
	free(b->entries);
	free(b->links);
	arena_done(&b->arena);
	free(b);
}

/* ---- order ---- */

/* Of two members with the same path the later one counts; it comes last. */
static int by_path_cmp(const void *a, const void *b)
{
	const struct pkg_entry *x = *(const struct pkg_entry *const *)a,
			       *y = *(const struct pkg_entry *const *)b;
	int r = str_cmp(x->path, y->path);

	return r ? r : x->number < y->number ? -1 : x->number > y->number;
}

static int by_number_cmp(const void *a, const void *b)
{
	const struct pkg_entry *x = *(const struct pkg_entry *const *)a,
			       *y = *(const struct pkg_entry *const *)b;

	return x->number != y->number ? (x->number < y->number ? -1 : 1) : str_cmp(x->path, y->path);
}

static int link_cmp(const void *a, const void *b)
{
	return str_cmp(((const struct map_link *)a)->path, ((const struct map_link *)b)->path);
}

static void put_in_order(struct map_writer *w)
{
	const struct pkg_map_builder *b = w->b;

	w->by_path = NEW_N(const struct pkg_entry *, b->n_entries);
	w->by_number = NEW_N(const struct pkg_entry *, b->n_entries);
	for (size_t i = 0; i < b->n_entries; i++)
		w->by_path[i] = w->by_number[i] = &b->entries[i];
	qsort(w->by_path, b->n_entries, sizeof(*w->by_path), by_path_cmp);
	qsort(w->by_number, b->n_entries, sizeof(*w->by_number), by_number_cmp);
	for (size_t i = 0; i < b->n_entries; i++)
		map_put(&w->entry_of_path, bytes_of(w->by_path[i]->path.p, w->by_path[i]->path.size),
			(void *)(uintptr_t)(i + 1));
	w->links = NEW_N(struct map_link, b->n_links);
	for (size_t i = 0; i < b->n_links; i++)
		w->links[i] = b->links[i];
	qsort(w->links, b->n_links, sizeof(*w->links), link_cmp);
}

/* ---- paths ---- */

/* The pair that makes @path from @id, added if new; 0: none. */
static size_t pair_of(struct map_writer *w, struct str path, const struct build_id *id)
{
	static const struct str dir = { ".build-id/", 10 };
	AUTO(buf_done) struct buf text = { 0 };
	struct map_pair p;
	const char *at;
	size_t before, hex = 2u * id->size + 1;

	if (id->size < 2)
		return 0;
	at = memmem(path.p, path.size, dir.p, dir.size);
	if (!at)
		return 0;
	before = (size_t)(at - path.p) + dir.size;
	if (path.size < before + hex)
		return 0;
	p.before = (struct str){ path.p, before };
	p.after = (struct str){ path.p + before + hex, path.size - before - hex };
	map_path_of_id(&p, id, &text);
	if (!str_eq(buf_str(&text), path))
		return 0;
	for (size_t i = 0; i < w->n_pairs; i++)
		if (str_eq(w->pairs[i].before, p.before) && str_eq(w->pairs[i].after, p.after))
			return i + 1;
	if (w->n_pairs == MAP_MAX_PAIRS)
		return 0;
	w->pairs[w->n_pairs++] = p;
	return w->n_pairs;
}

static void map_put_path(struct map_writer *w, struct str path, const struct build_id *id)
{
	size_t pair = id ? pair_of(w, path, id) : 0, shared = 0;
	struct str last = buf_str(&w->last_path);

	w->strings_size += path.size;
	buf_add_uleb(&w->cols[COL_PATH_CODES], pair);
	if (pair)
		return;
	while (shared < path.size && shared < last.size && path.p[shared] == last.p[shared])
		shared++;
	buf_add_uleb(&w->cols[COL_PATH_SHARED], shared);
	buf_add_uleb(&w->cols[COL_PATH_SIZES], path.size - shared);
	buf_add_str(&w->cols[COL_PATH_BYTES], (struct str){ path.p + shared, path.size - shared });
	w->last_path.size = 0;
	buf_add_str(&w->last_path, path);
}

static void put_link(struct map_writer *w, const struct map_link *l, uint64_t *last_entry)
{
	AUTO(buf_done) struct buf resolved = { 0 }, text = { 0 };
	enum map_link_form form = str_starts(l->target, STR("/")) ? LINK_ABSOLUTE : LINK_RELATIVE;
	const struct pkg_entry *e;
	uint64_t rank;

	map_resolve(l->path, l->target, &resolved);
	rank = (uintptr_t)map_get(&w->entry_of_path, buf_bytes(&resolved));
	if (rank) {
		e = w->by_path[rank - 1];
		map_target_text(form, l->path, e->path, &text);
	}
	w->strings_size += l->target.size;
	if (rank && str_eq(buf_str(&text), l->target)) {
		buf_add_uleb(&w->cols[COL_LINK_FORMS], form);
		buf_add_uleb(&w->cols[COL_LINK_ENTRIES], zigzag((int64_t)(rank - 1 - *last_entry)));
		*last_entry = rank - 1;
		map_put_path(w, l->path, e->is_elf ? &e->elf.build_id : NULL);
		return;
	}
	buf_add_uleb(&w->cols[COL_LINK_FORMS], LINK_TEXT);
	buf_add_uleb(&w->cols[COL_LINK_SIZES], l->target.size);
	buf_add_str(&w->cols[COL_LINK_BYTES], l->target);
	map_put_path(w, l->path, NULL);
}

/* ---- entries, in the order of the archive ---- */

static void put_sections(struct map_writer *w, const struct pkg_entry *e)
{
	struct buf *col = &w->cols[COL_SECTIONS];
	uint64_t expected = 0;

	buf_add_uleb(col, e->n_places);
	for (uint32_t i = 0; i < e->n_places; i++) {
		const struct elf_place *p = &e->places[i];

		buf_add_uleb(col, p->name.size);
		buf_add_str(&w->cols[COL_SECTION_NAMES], p->name);
		w->strings_size += p->name.size;
		buf_add_uleb(col, p->size);
		if (!p->size)
			continue;
		buf_add_uleb(col, zigzag((int64_t)(p->off - expected)));
		expected = p->off + p->size;
	}
}

static void put_elf(struct map_writer *w, struct elf_kind *kinds, size_t *n_kinds, const struct pkg_entry *e)
{
	struct elf_kind k = { e->elf.flags, e->elf.type, e->elf.machine, e->elf.build_id.size };
	struct buf *col = &w->cols[COL_ELF];
	size_t i = 0;

	if (!e->is_elf) {
		buf_add_uleb(col, 0);
		return;
	}
	while (i < *n_kinds && (kinds[i].flags != k.flags || kinds[i].type != k.type ||
				kinds[i].machine != k.machine || kinds[i].id_size != k.id_size))
		i++;
	buf_add_uleb(col, i + 1);
	if (i == *n_kinds) {
		/* The first use of an index is followed by its meaning; when there are too many kinds, so is
		 * each use of the last index. */
		if (*n_kinds < MAX_ELF_KINDS)
			kinds[(*n_kinds)++] = k;
		buf_add_uleb(col, k.flags);
		buf_add_uleb(col, k.type);
		buf_add_uleb(col, k.machine);
		buf_add_uleb(col, k.id_size);
	}
	buf_add(&w->ids, e->elf.build_id.b, e->elf.build_id.size);
	put_sections(w, e);
}

static void put_place(struct map_writer *w, const struct pkg_entry *e, uint64_t *expected)
{
	struct buf *col = &w->cols[COL_PLACES];

	if (e->off == PKG_NO_OFF) {
		buf_add_uleb(col, 0);
		return;
	}
	buf_add_uleb(col, 1 + zigzag((int64_t)(e->off - *expected)));
	*expected = map_place_behind(w->b->info.payload.format, e->off, e->size);
}

static void put_entries(struct map_writer *w)
{
	struct elf_kind kinds[MAX_ELF_KINDS];
	size_t n_kinds = 0;
	uint64_t number = 0, mode = 0, mtime = 0, expected = 0;

	for (size_t i = 0; i < w->b->n_entries; i++) {
		const struct pkg_entry *e = w->by_number[i];

		buf_add_uleb(&w->cols[COL_NUMBERS], e->number - number);
		buf_add_uleb(&w->cols[COL_MODES], zigzag((int64_t)(e->mode - mode)));
		buf_add_uleb(&w->cols[COL_MTIMES], zigzag((int64_t)((uint64_t)e->mtime - mtime)));
		buf_add_uleb(&w->cols[COL_SIZES], e->size);
		put_place(w, e, &expected);
		buf_add_uleb(&w->cols[COL_INNER], e->inner);
		if (e->inner != CODEC_NONE)
			buf_add_uleb(&w->cols[COL_INNER], e->inner_size);
		put_elf(w, kinds, &n_kinds, e);
		number = e->number;
		mode = e->mode;
		mtime = (uint64_t)e->mtime;
	}
}

/* The rank in the archive's order of each entry, in the order of paths. */
static void put_ranks(struct map_writer *w)
{
	uint32_t *rank_of = NEW_N(uint32_t, w->b->n_entries);
	uint64_t expected = 0;

	for (size_t i = 0; i < w->b->n_entries; i++)
		rank_of[w->by_number[i] - w->b->entries] = (uint32_t)i;
	for (size_t i = 0; i < w->b->n_entries; i++) {
		uint64_t rank = rank_of[w->by_path[i] - w->b->entries];

		buf_add_uleb(&w->cols[COL_RANKS], zigzag((int64_t)(rank - expected)));
		expected = rank + 1;
	}
	free(rank_of);
}

/* ---- the whole ---- */

static void meta_put_text(struct map_writer *w, struct str s)
{
	buf_add_uleb(&w->cols[COL_META], s.size);
	buf_add_str(&w->cols[COL_META], s);
	w->strings_size += s.size;
}

static void put_meta(struct map_writer *w)
{
	const struct pkg_map_builder *b = w->b;
	struct buf *col = &w->cols[COL_META];

	buf_add_uleb(col, b->identity.size);
	buf_add_uleb(col, zigzag(b->identity.mtime_ns));
	buf_add_uleb(col, b->identity.inode);
	buf_add_u64(col, b->identity.digest);
	buf_add_uleb(col, b->info.kind);
	buf_add_uleb(col, b->info.payload.codec);
	buf_add_uleb(col, b->info.payload.format);
	buf_add_uleb(col, b->info.payload.off);
	buf_add_uleb(col, b->info.payload.size);
	buf_add_uleb(col, b->decoded_size);
	meta_put_text(w, b->info.name);
	meta_put_text(w, b->info.version);
	meta_put_text(w, b->info.arch);
	meta_put_text(w, b->info.source_name);
	buf_add_uleb(col, b->n_entries);
	buf_add_uleb(col, b->n_links);
	buf_add_uleb(col, b->n_sections);
	buf_add_uleb(col, w->n_pairs);
	for (size_t i = 0; i < w->n_pairs; i++) {
		buf_add_uleb(col, w->pairs[i].before.size);
		buf_add_str(col, w->pairs[i].before);
		buf_add_uleb(col, w->pairs[i].after.size);
		buf_add_str(col, w->pairs[i].after);
	}
	buf_add_uleb(col, w->strings_size);
}

static void map_put_whole(struct map_writer *w, struct buf *ret)
{
	AUTO(buf_done) struct buf all = { 0 }, packed = { 0 }, hashed = { 0 };

	for (int i = 0; i < N_COLUMNS; i++)
		buf_add_uleb(&all, w->cols[i].size);
	for (int i = 0; i < N_COLUMNS; i++)
		buf_add(&all, w->cols[i].p, w->cols[i].size);
	map_pack(buf_bytes(&all), &packed);
	buf_add_u32(&hashed, (uint32_t)all.size);
	buf_add_u32(&hashed, (uint32_t)packed.size);
	buf_add_u32(&hashed, 0); /* no resume points */
	buf_add(&hashed, packed.p, packed.size);
	buf_add(&hashed, w->ids.p, w->ids.size);
	buf_add_u32(ret, MAP_MAGIC);
	buf_add_u32(ret, MAP_VERSION);
	buf_add_u64(ret, hash64(hashed.p, hashed.size, 0));
	buf_add(ret, hashed.p, hashed.size);
}

void pkg_map_encode(const struct pkg_map_builder *b, struct buf *ret)
{
	struct map_writer w = { .b = b };
	uint64_t last_entry = 0;

	put_in_order(&w);
	for (size_t i = 0; i < b->n_entries; i++)
		map_put_path(&w, w.by_path[i]->path,
			     w.by_path[i]->is_elf ? &w.by_path[i]->elf.build_id : NULL);
	for (size_t i = 0; i < b->n_links; i++)
		put_link(&w, &w.links[i], &last_entry);
	put_entries(&w);
	put_ranks(&w);
	put_meta(&w);
	map_put_whole(&w, ret);
	for (int i = 0; i < N_COLUMNS; i++)
		buf_done(&w.cols[i]);
	buf_done(&w.ids);
	buf_done(&w.last_path);
	map_done(&w.entry_of_path);
	free(w.by_path);
	free(w.by_number);
	free(w.links);
}

void pkg_map_attach_points(struct buf *blob, struct bytes points)
{
	uint32_t size = htole32((uint32_t)points.size);
	uint64_t hash;

	assert(blob->size >= MAP_HEADER_SIZE && points.size <= PKG_MAX_POINTS);
	buf_add(blob, points.p, points.size);
	memcpy(blob->p + MAP_POINTS_AT, &size, sizeof(size));
	hash = htole64(hash64(blob->p + MAP_HASH_FROM, blob->size - MAP_HASH_FROM, 0));
	memcpy(blob->p + MAP_HASH_AT, &hash, sizeof(hash));
}
