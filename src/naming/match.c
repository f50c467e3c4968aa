/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mapping without a build ID has a path. If exactly one build ID is known here for a file of that path, and
 * all its addresses are in code of that file, it is taken to be that file.
 */
#include <stdio.h>
#include "naming/internal.h"

#define MATCH_MAX_MS 2000
#define MATCH_MAX    64u /* rows of one page */

struct match_found {
	struct build_id id;
	bool several;
};

static int take_match(void *arg, const struct index_metadata *m)
{
	struct match_found *f = arg;

	if (f->id.size && !build_id_eq(&f->id, &m->build_id))
		f->several = true;
	f->id = m->build_id;
	return f->several;
}

/* "/usr/bin/x (deleted)" was replaced while it ran: the file that is there now is another. */
static bool mapping_is_gone(struct str path)
{
	return str_ends(path, STR(" (deleted)"));
}

int match_file(struct resolver *r, struct str path, bool was_found, struct build_id *ret, char *why,
	       size_t why_size)
{
	AUTO(buf_done) struct buf cursor = { 0 };
	struct match_found found = { 0 };
	bool complete = true;
	struct index_metadata_query q = { .key = STR("file"),
					  .value = path,
					  .max = MATCH_MAX,
					  .deadline_mono_ms = clock_mono_ms() + MATCH_MAX_MS,
					  .fn = take_match,
					  .arg = &found };
	struct err err = { 0 };

	if (!r || !path.size || path.p[0] != '/' || mapping_is_gone(path)) {
		snprintf(why, why_size, "it came without a build ID");
		return MATCH_NONE;
	}
	do {
		struct index_metadata_page page = { 0 };
		int n;

		q.cursor = buf_str(&cursor);
		n = resolve_metadata(r, &q, &page, &err);
		if (n < 0) {
			buf_done(&page.next);
			snprintf(why, why_size,
				 "it came without a build ID, and its path cannot be looked up: %s",
				 err.text);
			return MATCH_LATER;
		}
		buf_done(&cursor);
		cursor = page.next;
		complete = complete && page.complete;
	} while (cursor.size && !found.several && clock_mono_ms() < q.deadline_mono_ms);
	if (cursor.size && !found.several) {
		snprintf(why, why_size,
			 "it came without a build ID, and its path could not be looked up within %d s",
			 MATCH_MAX_MS / 1000);
		return MATCH_LATER;
	}
	/*
	 * Files that are met when the store is listed wake nobody; and the only one may turn out to be one of several. One that
	 * has given names stays the file of that path until another is known.
	 */
	if (!found.several && !complete && !(was_found && found.id.size)) {
		snprintf(
			why, why_size,
			"it came without a build ID, and %s of that path is known here yet: not all packages "
			"and objects of the store were read",
			found.id.size ? "only one file" : "no file");
		return MATCH_LATER;
	}
	if (found.id.size && !found.several) {
		*ret = found.id;
		return 0;
	}
	snprintf(why, why_size,
		 found.several ? "it came without a build ID, and several files of that path are known"
			       : "it came without a build ID, and no file of that path is known here");
	return MATCH_NONE;
}

bool match_holds(const struct frame_layout *l, const struct profilestore_unnamed *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t vaddr = list[i].addr;

		if (list[i].kind == FRAME_OFFSET &&
		    frame_translate(l, FRAME_OFFSET, NULL, 0, list[i].addr, &vaddr) != FRAME_FOUND)
			return false;
		if ((list[i].kind == FRAME_OFFSET || list[i].kind == FRAME_VADDR) &&
		    !frame_layout_has_code(l, vaddr))
			return false;
	}
	return true;
}
