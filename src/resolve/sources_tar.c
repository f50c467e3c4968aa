/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pushed tars of source files: the place of each file. A tar is read through at the first request, and the
 * places are cached.
 */
#include "resolve/internal.h"

#include <stdlib.h>

struct member_place {
	uint64_t off, size;
	int64_t mtime;
};

struct sources_tar {
	struct map by_path; /* struct member_place, in the arena */
	struct arena arena;
	size_t weight;
};

static void sources_tar_free(void *value)
{
	struct sources_tar *t = value;

	map_done(&t->by_path);
	arena_done(&t->arena);
	free(t);
}

struct lru *sources_tar_lru(size_t max_weight)
{
	return lru_new(max_weight, sources_tar_free);
}

static struct bytes tar_path_key(struct str path)
{
	return bytes_of(path.p, path.size);
}

static void tar_add_member(struct sources_tar *t, const struct pkg_member *m)
{
	struct member_place *place;

	if (m->unsafe || m->sparse)
		return;
	if (m->type == PKG_HARDLINK) {
		place = map_get(&t->by_path, tar_path_key(m->link));
		if (!place)
			return;
	} else if (m->type == PKG_FILE && (m->off != PKG_NO_OFF || !m->size)) {
		place = ARENA_NEW(&t->arena, struct member_place);
		*place = (struct member_place){ m->size ? m->off : 0, m->size, m->mtime };
	} else {
		return;
	}
	map_put(&t->by_path, tar_path_key(m->path), place);
	t->weight += m->path.size + 128;
}

static int tar_read_members(struct sources_tar *t, struct stream *payload, struct err *err)
{
	const struct pkg_info info = { .kind = PKG_TAR, .payload.format = PKG_FORMAT_TAR };
	struct pkg_reader *reader = NULL;
	struct pkg_member m;
	int r = pkg_reader_open(&info, payload, NULL, &reader, err);

	while (r == 0) {
		r = pkg_reader_next(reader, &m, err);
		if (r == 0)
			tar_add_member(t, &m);
	}
	pkg_reader_close(reader);
	return r == PKG_END ? 0 : r;
}

int sources_tar_get(struct lru *l, struct bytes key, struct source *tar, struct lru_ref **ret,
		    struct err *err)
{
	struct sources_tar *t;
	struct stream *payload;
	int r;

	*ret = lru_get(l, key);
	if (*ret)
		return 0;
	t = NEW(struct sources_tar);
	arena_init(&t->arena);
	payload = stream_of_source(tar, false, 0, tar->size);
	r = tar_read_members(t, payload, err);
	stream_close(payload);
	if (r < 0) {
		sources_tar_free(t);
		return err_in(err, "tar of sources");
	}
	/* The largest one stays as well, alone: otherwise each request for one of its files would read all of the tar. */
	*ret = lru_put(l, key, t, MIN(t->weight + sizeof(*t), lru_max_weight(l)));
	return 0;
}

bool sources_tar_find(struct lru_ref *held, struct str path, uint64_t *ret_off, uint64_t *ret_size,
		      int64_t *ret_mtime)
{
	const struct sources_tar *t = lru_value(held);
	const struct member_place *place = map_get(&t->by_path, tar_path_key(path));

	if (!place)
		return false;
	*ret_off = place->off;
	*ret_size = place->size;
	*ret_mtime = place->mtime;
	return true;
}
