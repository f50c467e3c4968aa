/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A member of a mapped package as a source: package -> payload -> decoded payload -> member -> content of a
 * .ko.xz. Each step takes the source of the step before.
 */
#include "pkg/internal.h"

/* A source without bytes, for an empty member. Takes @src. */
static struct source *empty_source(struct source *src)
{
	struct source *ret = source_of_mem((struct bytes){ 0 }, src->name);

	source_close(src);
	return ret;
}

/* Takes @src. */
static int entry_open_decoded(const struct pkg_map *m, const struct pkg_entry *e, struct source *src,
			      const struct codec_source_options *opts, struct source **ret, struct err *err)
{
	const struct pkg_payload *p = &m->payload;
	struct codec_source_options o = *opts;
	struct source *payload;

	if (source_open_part(src, true, range_of(p->off, p->size), NULL, &payload, err) < 0)
		return -1;
	if (p->codec == CODEC_NONE) {
		/* The bytes are not compressed: return the range itself, so that it can be sent from the
		 * file. */
		*ret = payload;
		return 0;
	}
	o.size = m->decoded_size;
	o.read_end = e->off + MIN(opts->read_end ? opts->read_end : UINT64_MAX, e->size);
	return codec_source_open(p->codec, payload, &o, ret, err);
}

/* Takes @member. */
static int entry_open_inner(const struct pkg_entry *e, struct source *member,
			    const struct codec_source_options *opts, struct source **ret, struct err *err)
{
	struct codec_source_options o = { .size = e->inner_size, .cache = opts->cache };
	uint64_t id[2] = { opts->cache_id, e->number };

	/* Another content than the payload's needs another ID in the cache. */
	o.cache_id = hash64(id, sizeof(id), 0);
	return codec_source_open(e->inner, member, &o, ret, err);
}

/* Takes @src. */
static int entry_open_member(const struct pkg_map *m, const struct pkg_entry *e, struct source *src,
			     const struct codec_source_options *opts, struct source **ret, struct err *err)
{
	struct pkg_info info = { .kind = m->kind, .payload = m->payload };
	struct source *decoded;

	if (e->size == 0) {
		*ret = empty_source(src);
		return 0;
	}
	if (e->off == PKG_NO_OFF)
		return pkg_member_open_slow(src, &info, e->number, e->size, ret, err);
	if (entry_open_decoded(m, e, src, opts, &decoded, err) < 0)
		return -1;
	return source_open_part(decoded, true, range_of(e->off, e->size), NULL, ret, err);
}

int pkg_entry_open(const struct pkg_map *m, const struct pkg_entry *e, struct source *src,
		   const struct codec_source_options *opts, struct source **ret, struct err *err)
{
	struct source *member;
	char *name = mem_printf("%s: " STR_FMT, src->name ? src->name : "", STR_ARG(e->path));
	int r = entry_open_member(m, e, src, opts, &member, err);

	if (r == 0) {
		mem_freep(&member->name);
		member->name = name;
		if (e->inner == CODEC_NONE)
			*ret = member;
		else
			r = entry_open_inner(e, member, opts, ret, err);
		if (r == 0)
			(*ret)->mtime = e->mtime;
		return r < 0 ? err_in(err, STR_FMT, STR_ARG(e->path)) : 0;
	}
	mem_freep(&name);
	return err_in(err, STR_FMT, STR_ARG(e->path));
}
