/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode find --section: sections of files on this machine. A section has no path of its own, so it is copied
 * into the cache folder, under the name that it would have from a server.
 */
#include "cmd/find/find.h"

/* Copy the section from a file that may have it. true: the search is over, with or without success. */
static bool cut_local_section(struct finder *f, struct find_want *w, enum local_way way, const char *path,
			      struct source *src, const struct elf_image *img)
{
	const struct client_request want = { .kind = CLIENT_SECTION, .id = w->item->id, .name = w->arg };
	struct client_result r;
	struct stat st;

	client_cut(find_client(f), &want, img, src, stat(path, &st) == 0 ? st.st_mtime : 0, &r);
	if (r.outcome == CLIENT_FOUND) {
		local_trail_add(&w->trail, way, LOCAL_TAKEN, path, "the section is cut out of it: %s",
				r.path);
		find_found(f, w, r.path, arena_printf(&f->a, "cut out of %s", path));
	} else {
		local_trail_add(&w->trail, way, LOCAL_NOTHING, path, "%s", r.err.text);
		if (r.outcome == CLIENT_FAILED) {
			w->failed = true;
			w->why = arena_strdup(&f->a, str_of(r.err.text));
		}
	}
	client_result_done(&r);
	return w->found || w->failed;
}

static bool cut_found(struct finder *f, struct find_want *w, enum local_kind kind,
		      const struct local_found *got)
{
	AUTO(elf_closep) struct elf_image *img = NULL;
	struct err err = { 0 };

	if (elf_open(got->src, &img, &err) != 0) {
		local_trail_add(&w->trail, got->way, LOCAL_UNREADABLE, got->path, "%s", err.text);
		return false;
	}
	if (cut_local_section(f, w, got->way, got->path, got->src, img))
		return true;
	/* A debug file has the header of every section of the executable. */
	if (kind == LOCAL_DEBUGINFO && !elf_section_find(img, w->arg)) {
		w->nowhere = true;
		w->why = arena_printf(&f->a, "%s has no such section", got->path);
	}
	return w->nowhere;
}

/* Sections whose content is in the executable only: .text, .rodata, ... */
static void cut_from_executable(struct finder *f, struct find_want *w)
{
	struct local_found got = { 0 };

	if (local_build_id(f->local, &w->item->id, LOCAL_EXECUTABLE, &w->trail, &got) == 0)
		cut_found(f, w, LOCAL_EXECUTABLE, &got);
	local_found_done(&got);
}

void find_look_section(struct finder *f, struct find_want *w)
{
	const struct find_item *item = w->item;
	AUTO(source_closep) struct source *src = NULL;
	AUTO(elf_closep) struct elf_image *img = NULL;
	struct local_found got = { 0 };
	struct err err = { 0 };
	bool settled;
	int r;

	if (!item->id.size) {
		local_trail_add(&w->trail, LOCAL_BY_ITSELF, LOCAL_NOTHING, NULL,
				"it has no build ID, by which the cache folder names sections");
		return;
	}
	if (item->open_path && find_open_item(item, &src, &img, &err) == 0)
		r = local_debug_file(f->local, img, item->name, item->named ? LOCAL_AS_NAMED : 0, &w->trail,
				     &got);
	else
		r = local_build_id(f->local, &item->id, LOCAL_DEBUGINFO, &w->trail, &got);
	settled = r == 0 && got.src && cut_found(f, w, LOCAL_DEBUGINFO, &got);
	if (!settled && img)
		cut_local_section(f, w, LOCAL_BY_ITSELF, item->open_path, src, img);
	else if (!settled)
		cut_from_executable(f, w);
	local_found_done(&got);
}
