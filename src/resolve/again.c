/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A member of a package in object storage whose bytes are read once more when they are damaged: the damage may be of their
 * way here, or of ranges that are kept on this machine, and not of the object. Then these are forgotten, the member is
 * opened anew, without its decoded bytes, and the read is repeated: once in the life of the source, which is a request's.
 */
#include "resolve/internal.h"

#include <stdlib.h>
#include "s3/s3.h"

struct again_source {
	struct source base;
	/* the caller's thread; helpers read below @inner, and have left it when it is closed */
	struct source *inner;
	struct source *raw; /* the object below @inner, which owns it */
	bool repeated;
	/* fixed */
	char *url;
	struct stat st;
	const struct pkg_map *map; /* pinned by the source above */
	const struct pkg_entry *entry;
	struct codec_source_options opts;
};

static struct again_source *again_of(struct source *base)
{
	return CONTAINER_OF(base, struct again_source, base);
}

bool work_is_damage(const struct err *why)
{
	return why->kind == ERR_INVALID || (why->kind == ERR_CHANGED && !why->os);
}

/* Bytes in the cache may be decoded of the damaged ones, so none are taken from it. */
static int again_open(struct again_source *s, struct err *err)
{
	struct codec_source_options opts = s->opts;
	struct source *src, *member;
	struct s3 *s3;

	if (s3_shared(&s3, err) < 0 || s3_open(s3, s->url, &s->st, &src, NULL, err) < 0)
		return -1;
	source_distrust(src);
	opts.cache = NULL;
	if (pkg_entry_open(s->map, s->entry, src, &opts, &member, err) < 0)
		return -1;
	source_close(s->inner);
	s->inner = member;
	s->raw = src;
	return 0;
}

static int again_read(struct source *base, uint64_t off, void *buf, size_t n, enum source_hint hint,
		      size_t *ret_got, struct err *err)
{
	struct again_source *s = again_of(base);
	struct err why = { 0 };
	int r = source_read(s->inner, off, buf, n, hint, ret_got, &why);

	if (r < 0 && !s->repeated && work_is_damage(&why)) {
		s->repeated = true;
		log_info("resolve", "%s; its ranges are read again", why.text);
		if (again_open(s, &why) == 0)
			r = source_read(s->inner, off, buf, n, hint, ret_got, &why);
	}
	if (r < 0 && err)
		*err = why;
	return r;
}

static void again_expect(struct source *base, struct byte_range range)
{
	source_expect(again_of(base)->inner, range);
}

static void again_distrust(struct source *base)
{
	source_distrust(again_of(base)->raw);
}

static void again_close(struct source *base)
{
	struct again_source *s = again_of(base);

	source_close(s->inner);
	source_fini(base);
	free(s->url);
	free(s);
}

static const struct source_ops again_ops = {
	.read = again_read,
	.close = again_close,
	.expect = again_expect,
	.distrust = again_distrust,
};

struct source *again_source_new(struct source *member, struct source *raw, const struct again_member *m)
{
	struct again_source *s = NEW(struct again_source);

	source_init(&s->base, &again_ops, member->size, member->mtime, member->name);
	s->inner = member;
	s->raw = raw;
	s->url = mem_strndup(m->file->path.p, m->file->path.size);
	s->map = m->map;
	s->entry = m->entry;
	s->opts = *m->opts;
	index_file_stat(m->file, &s->st);
	return &s->base;
}
