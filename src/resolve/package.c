/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A member of a package as a source, if the package is still the one that was mapped.
 */
#include "resolve/internal.h"

#include "s3/s3.h"

/*
 * The same size, time and inode as at the scan: it is the same package. With another time or inode it may be a copy or another
 * package; the digest of its head and tail decides, if there are no bytes between them, or if these are compared with check
 * sums of the scan.
 */
static int package_check_identity(struct work *w, const struct index_file *f, const struct mapped *m,
				  struct source *src, const struct stat *st)
{
	const struct pkg_identity *want = &m->map->identity;
	bool decides = want->size <= 2 * PKG_IDENTITY_PART ||
		       (m->map->payload.codec != CODEC_NONE && m->points.size);
	int64_t mtime_ns = file_mtime_ns(st);
	struct pkg_identity now;
	struct err why = { 0 };

	if (src->size == want->size && ((mtime_ns == want->mtime_ns && st->st_ino == want->inode) ||
					(mtime_ns == f->mtime_ns && st->st_ino == f->inode)))
		return 0;
	if (src->size == want->size && decides) {
		if (pkg_identity_read(src, st, &now, &why) < 0)
			return work_failed(w, f->path, &why);
		if (pkg_identity_same(&now, want))
			return 0;
	}
	work_note(w, f->path, "was replaced since it was scanned");
	return NOT_THIS;
}

static int open_package(struct work *w, const struct index_file *f, const struct mapped *m,
			struct source **ret)
{
	struct source *src;
	struct stat st;
	int r = work_open(w, f, &src, &st);

	if (r)
		return r;
	r = package_check_identity(w, f, m, src, &st);
	if (r)
		source_close(src);
	else
		*ret = src;
	return r;
}

const struct elf_place *package_section(const struct pkg_entry *e, struct str name)
{
	for (uint32_t i = 0; i < e->n_places; i++)
		if (str_eq(e->places[i].name, name))
			return &e->places[i];
	return NULL;
}

/* The places of sections are used where the bytes are compared with check sums from the scan. Uncompressed
 * bytes are not compared, so their own section table is read instead. */
static bool has_places(const struct mapped *m, const struct pkg_entry *e)
{
	return e->n_places && m->map->payload.codec != CODEC_NONE && m->points.size;
}

/* Where the requested bytes end in the member; 0: at its end. */
static uint64_t read_end(struct work *w)
{
	const struct elf_place *p = NULL;

	if (w->entry && w->req->kind == RESOLVE_SECTION)
		p = package_section(w->entry, w->req->arg);
	return p ? p->off + p->size : 0;
}

int package_open(struct work *w, const struct index_file *f, const struct mapped *m, struct pin *pin,
		 const struct pkg_entry *e, struct resolve_answer *ret)
{
	struct codec_source_options opts = {
		.points = m->points,
		.cache = w->r->spans,
		.cache_id = m->cache_id,
		.helpers = w->r->helpers,
	};
	struct resolve_answer ans = { .archive = f->path };
	struct source *src = NULL, *member;
	struct err why = { 0 };
	int r, fd;
	uint64_t off;

	w->entry = has_places(m, e) ? e : NULL;
	opts.read_end = read_end(w);
	if (opts.helpers)
		opts.max_ahead = pool_threads(opts.helpers);
	/* Decoded bytes of before may be those that are doubted. */
	if (w->again)
		opts.cache = NULL;
	r = open_package(w, f, m, &src);
	if (r == 0 && pkg_entry_open(m->map, e, src, &opts, &member, &why) < 0)
		r = work_failed(w, f->path, &why);
	if (r) {
		pin_release(pin);
		return r;
	}
	if (s3_is_url(f->path) && !w->again)
		member = again_source_new(member, src, &(struct again_member){ f, m->map, e, &opts });
	ans.file = str_of(arena_printf(w->a, "/" STR_FMT, STR_ARG(e->path)));
	ans.mtime = e->mtime;
	ans.tag = content_tag(f, e->number);
	ans.plain = source_raw_fd(member, &fd, &off);
	ans.sequential_only = e->off == PKG_NO_OFF ||
			      (m->map->payload.codec != CODEC_NONE && !m->points.size);
	/* After the last use of the map, since closing the source may free it. */
	ans.source = pinned_source_new(member, pin);
	*ret = ans;
	return 0;
}
