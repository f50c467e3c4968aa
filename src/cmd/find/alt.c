/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode find: supplementary files (dwz). A debug file may have a part of its DWARF in another file, which
 * several share. Debuggers fetch it by themselves, so it is found with --all only, after the other files, and
 * named with --why.
 */
#include "cmd/find/find.h"

/* The supplementary file of a debug file. false: it names none, which is usual, or cannot be read. */
static bool read_alt_link(struct finder *f, const struct find_want *w, const char **ret_path,
			  struct build_id *ret_id)
{
	AUTO(source_closep) struct source *src = NULL;
	AUTO(elf_closep) struct elf_image *img = NULL;
	struct err err = { 0 };
	struct str path;

	if (source_open_file(w->path, &src, &err) != 0 || elf_open(src, &img, &err) != 0 ||
	    elf_alt_link(img, &f->a, &path, ret_id, &err) != 0 || !path.size)
		return false;
	*ret_path = arena_strdup(&f->a, path);
	return true;
}

static void note_alt(struct finder *f, struct find_want *w, const char *path, const struct build_id *id)
{
	struct local_found got = { 0 };
	char hex[BUILD_ID_HEX_SIZE];

	local_trail_add(&w->after, LOCAL_BY_ALT_LINK, LOCAL_NOTHING, NULL,
			"a part of its debug information is in a supplementary file, build ID %s; --all "
			"finds it, too",
			build_id_hex(id, hex));
	(void)!local_alt_file(f->local, w->path, path, id, &w->after, &got);
	local_found_done(&got);
}

static void add_alt(struct finder *f, const struct find_want *w, const char *path, const struct build_id *id)
{
	struct find_item *item = ARENA_NEW(&f->a, struct find_item);

	item->name = path;
	item->id = *id;
	f->wants[f->n_wants++] = (struct find_want){ .item = item,
						     .kind = CLIENT_DEBUGINFO,
						     .alt_of = w->path };
}

void find_alts(struct finder *f)
{
	AUTO(map_done) struct map seen = { 0 };
	size_t n = f->n_wants;

	for (size_t i = 0; i < n; i++) {
		struct find_want *w = &f->wants[i];
		struct build_id id = { 0 };
		const char *path;

		if (!w->found || w->kind != CLIENT_DEBUGINFO || !read_alt_link(f, w, &path, &id))
			continue;
		if (!f->s->find.all)
			note_alt(f, w, path, &id);
		else if (!map_put(&seen, build_id_bytes(&id), w))
			add_alt(f, w, path, &id);
	}
}

void find_look_alt(struct finder *f, struct find_want *w)
{
	struct local_found got = { 0 };

	if (local_alt_file(f->local, w->alt_of, w->item->name, &w->item->id, &w->trail, &got) == 0)
		find_found(f, w, got.path, local_way_name(got.way));
	local_found_done(&got);
}
