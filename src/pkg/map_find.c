/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding a member by its path, through the package's symbolic links, as in a file system that holds only
 * this package.
 */
#include "pkg/map_format.h"

#define MAX_LINKS 16

static const struct pkg_entry *find_entry(const struct pkg_map *m, struct str path)
{
	/* The last one that is not greater: among equal paths the last in the archive. */
	uint32_t low = (uint32_t)SEARCH(0, m->n_entries, i, str_cmp(m->entries[i].path, path) <= 0);
	return low && str_eq(m->entries[low - 1].path, path) ? &m->entries[low - 1] : NULL;
}

static const struct pkg_link *find_link(const struct pkg_map *m, struct str path)
{
	uint32_t low = (uint32_t)SEARCH(0, m->n_links, i, str_cmp(m->links[i].path, path) <= 0);
	return low && str_eq(m->links[low - 1].path, path) ? &m->links[low - 1] : NULL;
}

/* The first component of @path that is a link. No component before it is a link, so ".." in its target is its
 * parent. */
static const struct pkg_link *first_link(const struct pkg_map *m, struct str path)
{
	const struct pkg_link *l;

	if (!m->n_links)
		return NULL;
	for (size_t i = 1; i <= path.size; i++)
		if (i == path.size || path.p[i] == '/') {
			l = find_link(m, (struct str){ path.p, i });
			if (l)
				return l;
		}
	return NULL;
}

const struct pkg_entry *pkg_map_find(const struct pkg_map *m, struct str path)
{
	AUTO(buf_done) struct buf now = { 0 }, target = { 0 }, rest = { 0 };
	const struct pkg_entry *e = find_entry(m, path);

	if (path.size > PKG_MAX_NAME)
		return NULL;
	for (int i = 0; !e && i < MAX_LINKS; i++) {
		const struct pkg_link *l = first_link(m, path);

		if (!l)
			return NULL;
		rest.size = 0;
		buf_add_str(&rest, (struct str){ path.p + l->path.size, path.size - l->path.size });
		map_resolve(l->path, l->target, &target);
		now.size = 0;
		buf_add_str(&now, buf_str(&target));
		buf_add_str(&now, buf_str(&rest));
		if (now.size > PKG_MAX_NAME)
			return NULL;
		/* A link to the root leaves a leading slash. */
		path = buf_str(&now);
		while (path.size && path.p[0] == '/')
			path = (struct str){ path.p + 1, path.size - 1 };
		e = find_entry(m, path);
	}
	return e;
}
