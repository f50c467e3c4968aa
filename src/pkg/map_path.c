/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths that a package map does not store because they follow from others: those of links to entries, and
 * those of files named by build ID.
 */
#include "pkg/map_format.h"

static size_t shared_dirs(struct str a, struct str b)
{
	size_t n = 0;

	for (size_t i = 0; i < a.size && i < b.size && a.p[i] == b.p[i]; i++)
		if (a.p[i] == '/')
			n = i + 1;
	return n;
}

void map_target_text(enum map_link_form form, struct str path, struct str entry, struct buf *out)
{
	size_t shared;

	if (form == LINK_ABSOLUTE) {
		buf_add_char(out, '/');
		buf_add_str(out, entry);
		return;
	}
	shared = shared_dirs(path, entry);
	for (size_t i = shared; i < path.size; i++)
		if (path.p[i] == '/')
			buf_add_str(out, STR("../"));
	buf_add_str(out, (struct str){ entry.p + shared, entry.size - shared });
}

void map_path_of_id(const struct map_pair *pair, const struct build_id *id, struct buf *out)
{
	char hex[BUILD_ID_HEX_SIZE];

	build_id_hex(id, hex);
	buf_add_str(out, pair->before);
	buf_add(out, hex, 2);
	buf_add_char(out, '/');
	buf_add(out, hex + 2, 2u * id->size - 2);
	buf_add_str(out, pair->after);
}

void map_resolve(struct str path, struct str target, struct buf *out)
{
	AUTO(buf_done) struct buf whole = { 0 };
	bool unsafe;

	if (!str_starts(target, STR("/"))) {
		buf_add_str(&whole, path_dirname(path));
		buf_add_char(&whole, '/');
	}
	buf_add_str(&whole, target);
	/* A path that is too long leads nowhere. */
	if (member_path(buf_str(&whole), out, &unsafe, NULL) < 0)
		out->size = 0;
}
