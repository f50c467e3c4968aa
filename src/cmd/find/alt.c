/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode find: supplementary files (dwz). A debug file may have a part of its DWARF in another file, which
 * several share. Debuggers ask for it on their own when they come upon it, so it is told with --why, and is
 * wanted with --all only: one more line for each of them, behind the others.
 */
#include "cmd/find/find.h"

/* That of a debug file that was found. false: it names none, which is usual, or is no ELF file of ours to
 * complain about. */
static bool read_link(struct finder *f, const struct find_want *w, const char **ret_path,
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

static void tell(struct finder *f, struct find_want *w, const char *path, const struct build_id *id)
{
	struct local_found got = { 0 };
	char hex[BUILD_ID_HEX_SIZE];

	local_trail_add(
		&w->after, LOCAL_BY_ALT_LINK, LOCAL_NOTHING, NULL,
		"a part of its debug information is in another file, of build ID %s, which --all finds too",
		build_id_hex(id, hex));
	(void)!local_alt_file(f->local, w->path, path, id, &w->after, &got);
	local_found_done(&got);
}

static void add(struct finder *f, const struct find_want *w, const char *path, const struct build_id *id)
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

		if (!w->found || w->kind != CLIENT_DEBUGINFO || !read_link(f, w, &path, &id))
			continue;
		if (!f->s->find.all)
			tell(f, w, path, &id);
		else if (!map_put(&seen, build_id_bytes(&id), w))
			add(f, w, path, &id);
	}
}

void find_look_alt(struct finder *f, struct find_want *w)
{
	struct local_found got = { 0 };

	if (local_alt_file(f->local, w->alt_of, w->item->name, &w->item->id, &w->trail, &got) == 0)
		find_found(f, w, got.path, local_way_name(got.way));
	local_found_done(&got);
}
