/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file on disk as a source, if it still matches its row of the index.
 */
#include "resolve/internal.h"

#include <stdlib.h>

static void release_mapping(void *arg, void *thing)
{
	struct mapping *m = thing;

	mapping_done(m);
	free(m);
}

/* The file has changed since the scan. It is still the one requested if its build ID is the same. */
static int check_changed(struct work *w, const struct index_hit *h, struct source *src)
{
	struct elf_facts facts;
	struct elf_aliases aliases;
	enum build_id_kind kind;
	struct err why = { 0 };
	int r;

	if (h->file.inner != CODEC_NONE) {
		work_note(w, h->file.path, "has changed since it was scanned");
		return NOT_THIS;
	}
	r = elf_identify(src, &facts, &kind, &aliases, &why);
	if (r < 0)
		return work_failed(w, h->file.path, &why);
	if (r || !build_id_eq(&facts.build_id, &h->artifact.build_id)) {
		work_note(w, h->file.path, "has changed since it was scanned: has another build ID, or none");
		return NOT_THIS;
	}
	return 0;
}

/* Takes @raw. */
static int plain_open_inner(struct work *w, const struct index_file *f, struct source *raw,
			    struct resolve_answer *ret)
{
	struct codec_source_options opts = { .size = f->inner_size, .cache = w->r->spans };
	struct pin pin = { 0 };
	struct source *decoded;
	struct err why = { 0 };

	opts.cache_id = content_tag(f, INDEX_NO_MEMBER);
	if (f->points_size) {
		struct mapping points;

		if (mapped_points(w, f, &points)) {
			struct mapping *m = NEW(struct mapping);

			*m = points;
			pin = (struct pin){ release_mapping, NULL, m };
			opts.points = m->bytes;
		}
	}
	ret->sequential_only = !opts.points.size;
	if (codec_source_open(f->inner, raw, &opts, &decoded, &why) < 0) {
		pin_release(&pin);
		return work_failed(w, f->path, &why);
	}
	ret->source = pinned_source_new(decoded, &pin);
	ret->source->mtime = ret->mtime;
	return 0;
}

int plain_open(struct work *w, const struct index_hit *h, struct resolve_answer *ret)
{
	const struct index_file *f = &h->file;
	struct resolve_answer ans = { .file = f->path };
	struct pin nothing = { 0 };
	struct source *src;
	struct index_file now = *f;
	struct stat st;
	uint64_t off;
	int r, fd;

	w->entry = NULL;
	r = work_open(w, f, &src, &st);
	if (r)
		return r;
	now.size = (uint64_t)st.st_size;
	now.mtime_ns = file_mtime_ns(&st);
	if (now.size != f->size || now.mtime_ns != f->mtime_ns || (f->inode && f->inode != st.st_ino)) {
		r = check_changed(w, h, src);
		if (r) {
			source_close(src);
			return r;
		}
		/* Other bytes under the same build ID are another content. */
		now.generation = hash64(&now.mtime_ns, sizeof(now.mtime_ns), now.generation ^ now.size);
	}
	ans.mtime = st.st_mtime;
	ans.tag = content_tag(&now, INDEX_NO_MEMBER);
	if (f->inner != CODEC_NONE) {
		r = plain_open_inner(w, f, src, &ans);
		if (r)
			return r;
	} else {
		ans.plain = source_raw_fd(src, &fd, &off);
		ans.source = pinned_source_new(src, &nothing);
	}
	*ret = ans;
	return 0;
}
