/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a package map. A blob comes from the database, which may be damaged, so nothing in it is trusted:
 * each column has its own cursor, and numbers are checked against limits before memory is allocated by them.
 */
#include "pkg/map_format.h"

#include <stdlib.h>

struct map_own {
	struct pkg_map m;    /* first */
	uint32_t *by_number; /* indexes of entries, in the archive's order */
	char *strings;
	struct elf_place *places; /* of all entries */
	uint8_t *points;
};

struct map_elf_kind {
	uint32_t flags;
	uint16_t type, machine;
	uint8_t id_size;
};
#define MAX_KINDS 255

struct map_reader {
	struct map_own *o;
	uint8_t *columns;
	struct cursor cols[N_COLUMNS];
	struct cursor ids;
	struct map_pair pairs[MAP_MAX_PAIRS];
	size_t n_pairs;
	struct pkg_entry
		*in_order; /* entries in the archive's order, before they are put in the order of paths */
	size_t strings_size, strings_used, n_places, places_used;
	struct str last_path;
	struct map_elf_kind kinds[MAX_KINDS];
	size_t n_kinds;
};

static int map_damaged(const char *what, struct err *err)
{
	return err_set(err, ERR_INVALID, "package map: %s", what);
}

/* ---- strings: one block of memory for all, of the size in the map ---- */

static bool strings_add(struct map_reader *r, const void *p, size_t n)
{
	if (n > r->strings_size - r->strings_used)
		return false;
	if (n)
		memcpy(r->o->strings + r->strings_used, p, n);
	r->strings_used += n;
	return true;
}

static bool strings_take(struct map_reader *r, struct cursor *c, uint64_t size, struct str *ret)
{
	struct bytes b = cursor_bytes(c, size);

	*ret = (struct str){ r->o->strings + r->strings_used, b.size };
	return cursor_ok(c) && strings_add(r, b.p, b.size);
}

/* Copy a path that was made in a buffer. */
static bool strings_take_buf(struct map_reader *r, const struct buf *b, struct str *ret)
{
	*ret = (struct str){ r->o->strings + r->strings_used, b->size };
	return strings_add(r, b->p, b->size);
}

/* ---- the blob and its columns ---- */

/* The points are at the end of the blob, after the build IDs. */
static int take_points(struct map_reader *r, size_t size, struct err *err)
{
	struct bytes ids = bytes_of(r->ids.p, cursor_left(&r->ids));

	if (size > MIN(PKG_MAX_POINTS, ids.size))
		return map_damaged("resume points are missing", err);
	ids.size -= size;
	r->ids = cursor_of(ids);
	r->o->points = mem_alloc(MAX(size, (size_t)1));
	if (size)
		memcpy(r->o->points, ids.p + ids.size, size);
	r->o->m.points = bytes_of(r->o->points, size);
	return 0;
}

static int open_columns(struct map_reader *r, struct bytes blob, struct err *err)
{
	struct cursor c = cursor_of(blob);
	uint32_t magic = cursor_u32(&c), version = cursor_u32(&c), columns_size, packed_size, points_size;
	uint64_t hash = cursor_u64(&c), sizes[N_COLUMNS];
	struct bytes packed;

	columns_size = cursor_u32(&c);
	packed_size = cursor_u32(&c);
	points_size = cursor_u32(&c);
	if (!cursor_ok(&c) || magic != MAP_MAGIC)
		return map_damaged("not a package map", err);
	if (version != MAP_VERSION)
		return err_set(err, ERR_INVALID, "package map: version %u is not supported", version);
	if (hash != hash64(blob.p + MAP_HASH_FROM, blob.size - MAP_HASH_FROM, 0))
		return map_damaged("wrong hash", err);
	packed = cursor_bytes(&c, packed_size);
	if (!cursor_ok(&c))
		return map_damaged("it ends early", err);
	r->ids = cursor_of(bytes_of(c.p, cursor_left(&c)));
	if (take_points(r, points_size, err) < 0)
		return -1;
	if (columns_size > MAP_MAX_COLUMNS)
		return err_set(err, ERR_LIMIT, "package map: columns of %u bytes", columns_size);
	r->columns = mem_try(MAX(columns_size, 1u));
	if (!r->columns)
		return err_set(err, ERR_LIMIT, "package map: no memory for columns of %u bytes",
			       columns_size);
	if (map_unpack(packed, r->columns, columns_size, err) < 0)
		return err_in(err, "package map: columns");
	c = cursor_of(bytes_of(r->columns, columns_size));
	for (int i = 0; i < N_COLUMNS; i++)
		sizes[i] = cursor_uleb(&c);
	for (int i = 0; i < N_COLUMNS; i++)
		r->cols[i] = cursor_sub(&c, sizes[i]);
	return cursor_ok(&c) ? 0 : map_damaged("the columns end early", err);
}

/* ---- meta ---- */

static int map_read_pairs(struct map_reader *r, struct err *err)
{
	struct cursor *c = &r->cols[COL_META];
	uint64_t n = cursor_uleb(c);

	if (n > MAP_MAX_PAIRS)
		return map_damaged("too many pairs", err);
	for (r->n_pairs = 0; r->n_pairs < n; r->n_pairs++) {
		struct map_pair *p = &r->pairs[r->n_pairs];
		struct bytes before = cursor_bytes(c, cursor_uleb(c)),
			     after = cursor_bytes(c, cursor_uleb(c));

		p->before = (struct str){ (const char *)before.p, before.size };
		p->after = (struct str){ (const char *)after.p, after.size };
	}
	return 0;
}

static int map_read_meta(struct map_reader *r, struct err *err)
{
	struct cursor *c = &r->cols[COL_META];
	struct pkg_map *m = &r->o->m;
	struct bytes names[4];
	struct str *const texts[4] = { &m->name, &m->version, &m->arch, &m->source_name };
	uint64_t kind, codec, format, n_entries, n_links, n_places, strings_size, end;

	m->identity.size = cursor_uleb(c);
	m->identity.mtime_ns = unzigzag(cursor_uleb(c));
	m->identity.inode = cursor_uleb(c);
	m->identity.digest = cursor_u64(c);
	kind = cursor_uleb(c);
	codec = cursor_uleb(c);
	format = cursor_uleb(c);
	m->payload.off = cursor_uleb(c);
	m->payload.size = cursor_uleb(c);
	m->decoded_size = cursor_uleb(c);
	for (int i = 0; i < 4; i++)
		names[i] = cursor_bytes(c, cursor_uleb(c));
	n_entries = cursor_uleb(c);
	n_links = cursor_uleb(c);
	n_places = cursor_uleb(c);
	if (map_read_pairs(r, err) < 0)
		return -1;
	strings_size = cursor_uleb(c);
	if (!cursor_ok(c))
		return map_damaged("the first column ends early", err);
	if (kind == 0 || kind >= PKG_N_KINDS || codec >= CODEC_N_KINDS || format > PKG_FORMAT_NESTED)
		return map_damaged("unknown kind", err);
	if (add_overflows(m->payload.off, m->payload.size, &end) || end > m->identity.size)
		return map_damaged("the payload is past the package's end", err);
	/* Each path takes at least a byte of its column. */
	if (n_entries > PKG_MAX_MEMBERS || n_links > PKG_MAX_MEMBERS ||
	    n_entries + n_links > cursor_left(&r->cols[COL_PATH_CODES]) || n_places > MAP_MAX_SECTIONS ||
	    strings_size > MAP_MAX_STRINGS)
		return map_damaged("more members than the columns hold", err);
	m->kind = (enum pkg_kind)kind;
	m->payload.codec = (enum codec_kind)codec;
	m->payload.format = (enum pkg_format)format;
	m->n_entries = (uint32_t)n_entries;
	m->n_links = (uint32_t)n_links;
	r->n_places = (size_t)n_places;
	r->strings_size = (size_t)strings_size;
	r->o->strings = mem_try(MAX(r->strings_size, (size_t)1));
	m->entries = mem_try(MAX(n_entries, 1u) * sizeof(*m->entries));
	r->in_order = mem_try(MAX(n_entries, 1u) * sizeof(*r->in_order));
	m->links = mem_try(MAX(n_links, 1u) * sizeof(*m->links));
	r->o->by_number = mem_try(MAX(n_entries, 1u) * sizeof(*r->o->by_number));
	r->o->places = mem_try(MAX(n_places, 1u) * sizeof(*r->o->places));
	if (!r->o->places || !r->o->strings || !m->entries || !r->in_order || !m->links || !r->o->by_number)
		return err_set(err, ERR_LIMIT, "package map: no memory for %llu members",
			       (unsigned long long)n_entries);
	m->weight = sizeof(*r->o) + r->strings_size + n_entries * (sizeof(*m->entries) + sizeof(uint32_t)) +
		    n_links * sizeof(*m->links) + n_places * sizeof(*r->o->places) + m->points.size;
	for (int i = 0; i < 4; i++) {
		*texts[i] = (struct str){ r->o->strings + r->strings_used, names[i].size };
		if (!strings_add(r, names[i].p, names[i].size))
			return map_damaged("strings are longer than stated", err);
	}
	return 0;
}

/* ---- entries ---- */

static int map_read_sections(struct map_reader *r, struct pkg_entry *e, struct err *err)
{
	struct cursor *c = &r->cols[COL_SECTIONS];
	uint64_t n = cursor_uleb(c), expected = 0;
	struct elf_place *v = r->o->places + r->places_used;

	if (n > r->n_places - r->places_used)
		return map_damaged("more sections than stated", err);
	for (uint64_t i = 0; i < n; i++) {
		if (!strings_take(r, &r->cols[COL_SECTION_NAMES], cursor_uleb(c), &v[i].name))
			return map_damaged("a section's name ends early", err);
		v[i].off = 0;
		v[i].size = cursor_uleb(c);
		if (!v[i].size)
			continue;
		v[i].off = expected + (uint64_t)unzigzag(cursor_uleb(c));
		if (v[i].off > e->size || v[i].size > e->size - v[i].off)
			return map_damaged("a section is past its member's end", err);
		expected = v[i].off + v[i].size;
	}
	r->places_used += (size_t)n;
	e->places = n ? v : NULL;
	e->n_places = (uint32_t)n;
	return 0;
}

static int map_read_elf(struct map_reader *r, struct pkg_entry *e, struct err *err)
{
	struct cursor *c = &r->cols[COL_ELF];
	uint64_t i = cursor_uleb(c);
	struct map_elf_kind k;
	struct bytes id;

	if (i == 0)
		return 0;
	if (--i > r->n_kinds)
		return map_damaged("unknown combination of ELF facts", err);
	if (i < r->n_kinds) {
		k = r->kinds[i];
	} else {
		k.flags = (uint32_t)cursor_uleb(c);
		k.type = (uint16_t)cursor_uleb(c);
		k.machine = (uint16_t)cursor_uleb(c);
		k.id_size = (uint8_t)cursor_uleb(c);
		if (r->n_kinds < MAX_KINDS)
			r->kinds[r->n_kinds++] = k;
	}
	e->is_elf = true;
	e->elf.flags = k.flags;
	e->elf.type = k.type;
	e->elf.machine = k.machine;
	if (k.id_size) {
		id = cursor_bytes(&r->ids, k.id_size);
		if (!cursor_ok(&r->ids) || !build_id_set(&e->elf.build_id, id))
			return map_damaged("a build ID is missing", err);
	}
	return map_read_sections(r, e, err);
}

static int map_read_entries(struct map_reader *r, struct err *err)
{
	struct pkg_map *m = &r->o->m;
	struct cursor *cols = r->cols;
	uint64_t number = 0, mode = 0, mtime = 0, expected = 0, place, inner;

	for (uint32_t i = 0; i < m->n_entries; i++) {
		struct pkg_entry e = { 0 };

		number += cursor_uleb(&cols[COL_NUMBERS]);
		mode += (uint64_t)unzigzag(cursor_uleb(&cols[COL_MODES]));
		mtime += (uint64_t)unzigzag(cursor_uleb(&cols[COL_MTIMES]));
		e.size = cursor_uleb(&cols[COL_SIZES]);
		place = cursor_uleb(&cols[COL_PLACES]);
		inner = cursor_uleb(&cols[COL_INNER]);
		if (number >= UINT32_MAX || e.size > INT64_MAX || inner >= CODEC_N_KINDS)
			return map_damaged("a number is too large", err);
		e.number = (uint32_t)number;
		e.mode = (uint32_t)mode;
		e.mtime = (int64_t)mtime;
		e.inner = (enum codec_kind)inner;
		if (inner != CODEC_NONE)
			e.inner_size = cursor_uleb(&cols[COL_INNER]);
		e.off = PKG_NO_OFF;
		if (place) {
			e.off = expected + (uint64_t)unzigzag(place - 1);
			if (e.off > m->decoded_size || e.size > m->decoded_size - e.off)
				return map_damaged("a member is past the payload's end", err);
			expected = map_place_behind(m->payload.format, e.off, e.size);
		}
		if (map_read_elf(r, &e, err) < 0)
			return -1;
		r->in_order[i] = e;
	}
	for (int i = COL_NUMBERS; i <= COL_SECTION_NAMES; i++)
		if (!cursor_ok(&cols[i]))
			return map_damaged("a column of members ends early", err);
	return 0;
}

/* ---- paths ---- */

static int map_read_path(struct map_reader *r, const struct build_id *id, struct str *ret, struct err *err)
{
	uint64_t code = cursor_uleb(&r->cols[COL_PATH_CODES]), shared, size;
	AUTO(buf_done) struct buf made = { 0 };
	struct str rest;

	if (code) {
		if (code > r->n_pairs || !id || id->size < 2)
			return map_damaged("invalid path by build ID", err);
		map_path_of_id(&r->pairs[code - 1], id, &made);
		if (made.size > PKG_MAX_NAME)
			return map_damaged("invalid path", err);
		return strings_take_buf(r, &made, ret) ? 0
						       : map_damaged("strings are longer than stated", err);
	}
	shared = cursor_uleb(&r->cols[COL_PATH_SHARED]);
	size = cursor_uleb(&r->cols[COL_PATH_SIZES]);
	if (shared > r->last_path.size || size > PKG_MAX_NAME || shared + size > PKG_MAX_NAME)
		return map_damaged("invalid path", err);
	*ret = (struct str){ r->o->strings + r->strings_used, (size_t)(shared + size) };
	if (!strings_add(r, r->last_path.p, (size_t)shared) ||
	    !strings_take(r, &r->cols[COL_PATH_BYTES], size, &rest))
		return map_damaged("strings are longer than stated", err);
	r->last_path = *ret;
	return 0;
}

/* Move the entries from the archive's order to that of their paths, by rank; each rank occurs once. */
static int map_read_entry_paths(struct map_reader *r, struct err *err)
{
	struct pkg_map *m = &r->o->m;
	uint64_t rank = 0;

	memset(r->o->by_number, 0xff, m->n_entries * sizeof(*r->o->by_number));
	for (uint32_t i = 0; i < m->n_entries; i++) {
		rank += (uint64_t)unzigzag(cursor_uleb(&r->cols[COL_RANKS]));
		if (!cursor_ok(&r->cols[COL_RANKS]) || rank >= m->n_entries ||
		    r->o->by_number[rank] != UINT32_MAX)
			return map_damaged("invalid order of entries", err);
		r->o->by_number[rank] = i;
		m->entries[i] = r->in_order[rank];
		rank++;
		if (map_read_path(r, &m->entries[i].elf.build_id, &m->entries[i].path, err) < 0)
			return -1;
		if (i && str_cmp(m->entries[i - 1].path, m->entries[i].path) > 0)
			return map_damaged("the paths are out of order", err);
	}
	return 0;
}

static int map_read_links(struct map_reader *r, struct err *err)
{
	struct pkg_map *m = &r->o->m;
	AUTO(buf_done) struct buf text = { 0 };
	uint64_t entry = 0, size, form;

	for (uint32_t i = 0; i < m->n_links; i++) {
		struct pkg_link *l = &m->links[i];
		const struct pkg_entry *e = NULL;

		form = cursor_uleb(&r->cols[COL_LINK_FORMS]);
		if (form > LINK_ABSOLUTE)
			return map_damaged("invalid link", err);
		if (form != LINK_TEXT) {
			entry += (uint64_t)unzigzag(cursor_uleb(&r->cols[COL_LINK_ENTRIES]));
			if (entry >= m->n_entries)
				return map_damaged("a link to a missing member", err);
			e = &m->entries[entry];
		}
		if (map_read_path(r, e ? &e->elf.build_id : NULL, &l->path, err) < 0)
			return -1;
		if (i && str_cmp(m->links[i - 1].path, l->path) > 0)
			return map_damaged("the links are out of order", err);
		if (e) {
			text.size = 0;
			map_target_text((enum map_link_form)form, l->path, e->path, &text);
			if (!strings_take_buf(r, &text, &l->target))
				return map_damaged("strings are longer than stated", err);
			continue;
		}
		size = cursor_uleb(&r->cols[COL_LINK_SIZES]);
		if (size > PKG_MAX_NAME || !strings_take(r, &r->cols[COL_LINK_BYTES], size, &l->target))
			return map_damaged("a link's target ends early", err);
	}
	return 0;
}

int pkg_map_decode(struct bytes blob, struct pkg_map **ret, struct err *err)
{
	struct map_reader *r = NEW(struct map_reader);
	int res = -1;

	r->o = NEW(struct map_own);
	if (open_columns(r, blob, err) == 0 && map_read_meta(r, err) == 0 && map_read_entries(r, err) == 0 &&
	    map_read_entry_paths(r, err) == 0 && map_read_links(r, err) == 0)
		res = r->strings_used == r->strings_size
			      ? 0
			      : map_damaged("strings are shorter than stated", err);
	if (res == 0)
		*ret = &TAKE(r->o)->m;
	if (r->o)
		pkg_map_free(&r->o->m);
	free(r->columns);
	free(r->in_order);
	free(r);
	return res;
}

void pkg_map_free(struct pkg_map *m)
{
	struct map_own *o = (struct map_own *)m;

	if (!m)
		return;
	free(m->entries);
	free(m->links);
	free(o->by_number);
	free(o->strings);
	free(o->places);
	free(o->points);
	free(o);
}

/* Of several entries with that number, the first. */
const struct pkg_entry *pkg_map_by_number(const struct pkg_map *m, uint32_t number)
{
	const struct map_own *o = (const struct map_own *)m;
	uint32_t low = (uint32_t)SEARCH(0, m->n_entries, i, m->entries[o->by_number[i]].number < number);
	if (low == m->n_entries || m->entries[o->by_number[low]].number != number)
		return NULL;
	return &m->entries[o->by_number[low]];
}
