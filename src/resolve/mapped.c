/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cache of decoded package maps, with their resume points mapped into memory: the next request is mostly for
 * a package that was just used.
 */
#include "resolve/internal.h"

#include <stdlib.h>

static void mapped_free(void *value)
{
	struct mapped *m = value;

	pkg_map_free(m->map);
	mapping_done(&m->file);
	buf_done(&m->heap);
	free(m);
}

struct lru *mapped_lru(size_t max_weight)
{
	return lru_new(max_weight, mapped_free);
}

/* Identifies one scan of one content: a second pass over the same bytes may place its points differently. */
struct mapped_key {
	int64_t id, scanned_s;
	uint64_t generation, points_size;
};

static struct mapped_key mapped_key(const struct index_file *f)
{
	return (struct mapped_key){ f->id, f->scanned_s, f->generation, f->points_size };
}

static void release_hold(void *arg, void *thing)
{
	lru_unref(arg, thing);
}

static void release_own(void *arg, void *thing)
{
	mapped_free(thing);
}

bool mapped_points(struct work *w, const struct index_file *f, struct mapping *ret)
{
	AUTO(buf_done) struct buf path = { 0 };
	struct mapping file;

	if (!w->r->points_dir)
		return false;
	scan_points_path(w->r->points_dir, f, &path);
	if (mapping_open(buf_cstr(&path), &file, NULL) != 0 &&
	    (!w->r->fetch_points || !w->r->fetch_points(w->r->fetch_points_arg, f) ||
	     mapping_open(buf_cstr(&path), &file, NULL) != 0))
		return false;
	if (file.bytes.size != f->points_size) {
		mapping_done(&file);
		return false;
	}
	*ret = file;
	return true;
}

/* ---- damage ---- */

#define FACTS_MAX 100000u

/* true: the key was not in the map; it is now. */
static bool fact_add(struct facts *f, struct map *m, struct bytes key)
{
	bool is_new;

	pthread_mutex_lock(&f->lock);
	if (m->n >= FACTS_MAX)
		map_done(m);
	is_new = !map_put(m, key, f);
	pthread_mutex_unlock(&f->lock);
	return is_new;
}

static bool fact_known(struct facts *f, const struct map *m, struct bytes key)
{
	bool known;

	pthread_mutex_lock(&f->lock);
	known = map_get(m, key) != NULL;
	pthread_mutex_unlock(&f->lock);
	return known;
}

/*
 * The map or the points of this package are damaged in our own files: have it scanned again, once in this process.
 * false: that was done already, or there is no scan.
 */
static bool mapped_again(struct work *w, const struct index_file *f, const struct err *why)
{
	if (!w->r->scan || !fact_add(&w->r->facts, &w->r->facts.again, bytes_of(&f->id, sizeof(f->id))))
		return false;
	log_warn("index", STR_FMT ": %s: the package is scanned again", STR_ARG(f->path), why->text);
	w->r->again(w->r->scan, f);
	return true;
}

/* Reads all points: once in this process, since they are mapped so that a request reads few of them. */
static int mapped_points_check(struct work *w, struct bytes key, const struct mapped *m, struct err *err)
{
	struct facts *facts = &w->r->facts;

	if (m->points_lost)
		return err_set(err, ERR_INVALID, "its resume points are missing");
	if (!m->points.size || fact_known(facts, &facts->whole, key))
		return 0;
	if (codec_points_check(m->points, err) < 0)
		return -1;
	(void)fact_add(facts, &facts->whole, key);
	return 0;
}

int mapped_get(struct work *w, const struct index_file *f, struct mapped **ret, struct pin *ret_pin)
{
	struct mapped_key key = mapped_key(f);
	struct bytes k = bytes_of(&key, sizeof(key));
	struct lru_ref *hold = lru_get(w->r->maps, k);
	struct err why = { 0 };
	struct mapped *m;
	int r;

	if (!hold) {
		m = NEW(struct mapped);
		r = index_map(w->ix, f->id, &m->map, &why);
		if (r) {
			free(m);
			if (r < 0 && why.kind == ERR_INVALID && mapped_again(w, f, &why))
				return LATER;
			if (r < 0)
				return work_failed(w, f->path, &why);
			work_note(w, f->path, "was removed from the index just now");
			return NOT_THIS;
		}
		if (!f->points_size)
			m->points = m->map->points;
		else if (mapped_points(w, f, &m->file))
			m->points = m->file.bytes;
		m->points_lost = f->points_size && !m->points.size;
		m->cache_id = hash64(&key, sizeof(key), 0);
		if (mapped_points_check(w, k, m, &why) < 0) {
			if (mapped_again(w, f, &why)) {
				mapped_free(m);
				return LATER;
			}
			mapping_done(&m->file);
			m->points = (struct bytes){ 0 };
			m->points_lost = true;
		}
		hold = lru_put(w->r->maps, k, m, m->map->weight + sizeof(*m));
	}
	m = lru_value(hold);
	if (m->points_lost)
		work_note(w, f->path, "its resume points are missing: decoded from the start");
	*ret = m;
	*ret_pin = (struct pin){ release_hold, w->r->maps, hold };
	return 0;
}

struct mapped *mapped_of(const struct index_file *f, struct pkg_map *map, struct buf *points,
			 struct pin *ret_pin)
{
	struct mapped_key key = mapped_key(f);
	struct mapped *m = NEW(struct mapped);

	m->map = map;
	m->heap = *points;
	*points = (struct buf){ 0 };
	m->points = buf_bytes(&m->heap);
	/* Spans of an unfinished pass may end where those of the finished one do not, so they have their own
	 * cache ID. */
	m->cache_id = hash64(&key, sizeof(key), 1 + hash64(m->points.p, m->points.size, map->decoded_size));
	*ret_pin = (struct pin){ release_own, NULL, m };
	return m;
}
