/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A member without an offset in the decoded payload (another archive, a sparse file, a package within a
 * package), as a source: a pkg_reader reads it from the archive's start; a read at a lower offset starts
 * again.
 */
#include "pkg/internal.h"

#include <stdlib.h>

#define MAX_HARD_LINKS 4

struct slow_source {
	struct source s;
	struct source *pkg; /* owned */
	struct arena arena; /* of info */
	struct pkg_info info;
	uint32_t number;
	struct pkg_reader *reader; /* NULL: not started */
	struct stream *payload;
	struct bytes left; /* unread bytes that the reader lent, at pos */
	uint64_t pos;
};

static void slow_rewind(struct slow_source *s)
{
	pkg_reader_close(TAKE(s->reader));
	stream_close(TAKE(s->payload));
	s->left = (struct bytes){ 0 };
	s->pos = 0;
}

static int slow_begin(struct slow_source *s, struct err *err)
{
	const struct pkg_payload *p = &s->info.payload;

	slow_rewind(s);
	if (p->format != PKG_FORMAT_OTHER &&
	    codec_stream_open(p->codec, stream_of_source(s->pkg, false, p->off, p->size), &s->payload, err) <
		    0)
		return -1;
	return pkg_reader_open(&s->info, s->payload, s->pkg, &s->reader, err);
}

static int slow_next(struct slow_source *s, uint32_t number, struct pkg_member *ret, struct err *err)
{
	int r = pkg_reader_next(s->reader, ret, err);

	return r == PKG_END ? err_set(err, ERR_CHANGED, "the archive no longer has a member %u", number) : r;
}

/* The target of a hard link: the number of the last file with this path before @before. */
static int find_target(struct slow_source *s, struct str path, uint32_t before, uint32_t *ret,
		       struct err *err)
{
	struct pkg_member m;
	bool found = false;

	if (slow_begin(s, err) < 0)
		return -1;
	for (uint32_t i = 0; i < before; i++) {
		if (slow_next(s, i, &m, err) < 0)
			return -1;
		if (!m.unsafe && str_eq(m.path, path) && (m.type == PKG_FILE || m.type == PKG_HARDLINK)) {
			*ret = i;
			found = true;
		}
	}
	return found ? 0 : err_set(err, ERR_INVALID, "the target of a hard link is not before it");
}

/* Read from the archive's start up to the content of the member. */
static int go_to_member(struct slow_source *s, struct err *err)
{
	AUTO(buf_done) struct buf target = { 0 };
	struct pkg_member m = { 0 };

	for (int links = 0; links <= MAX_HARD_LINKS; links++) {
		if (slow_begin(s, err) < 0)
			return -1;
		for (uint32_t i = 0; i <= s->number; i++)
			if (slow_next(s, s->number, &m, err) < 0)
				return -1;
		if (m.type == PKG_FILE) {
			if (m.size != s->s.size)
				return err_set(err, ERR_CHANGED, "the member has %llu bytes, not %llu",
					       (unsigned long long)m.size, (unsigned long long)s->s.size);
			return 0;
		}
		if (m.type != PKG_HARDLINK)
			return err_set(err, ERR_CHANGED, "member %u is not a file", s->number);
		target.size = 0;
		buf_add_str(&target, m.link);
		if (find_target(s, buf_str(&target), s->number, &s->number, err) < 0)
			return -1;
	}
	return err_set(err, ERR_LIMIT, "hard links: more than 4 in a chain");
}

static int slow_read(struct source *src, uint64_t off, void *buf, size_t n, enum source_hint hint,
		     size_t *ret_got, struct err *err)
{
	struct slow_source *s = (struct slow_source *)src;

	if (n == 0) {
		*ret_got = 0;
		return 0;
	}
	if ((!s->reader || off < s->pos) && go_to_member(s, err) < 0) {
		slow_rewind(s);
		return -1;
	}
	for (;;) {
		if (!s->left.size && pkg_reader_data(s->reader, &s->left, err) < 0) {
			slow_rewind(s);
			return -1;
		}
		if (!s->left.size)
			return err_set(err, ERR_INVALID, "the member ends at %llu",
				       (unsigned long long)s->pos);
		if (off - s->pos < s->left.size)
			break;
		s->pos += s->left.size;
		s->left = (struct bytes){ 0 };
	}
	s->left.p += off - s->pos;
	s->left.size -= off - s->pos;
	*ret_got = MIN(n, s->left.size);
	memcpy(buf, s->left.p, *ret_got);
	s->left.p += *ret_got;
	s->left.size -= *ret_got;
	s->pos = off + *ret_got;
	return 0;
}

static void slow_close(struct source *src)
{
	struct slow_source *s = (struct slow_source *)src;

	slow_rewind(s);
	source_close(s->pkg);
	arena_done(&s->arena);
	source_fini(src);
	free(s);
}

static const struct source_ops slow_ops = { .read = slow_read, .close = slow_close };

int pkg_member_open_slow(struct source *src, const struct pkg_info *info, uint32_t number, uint64_t size,
			 struct source **ret, struct err *err)
{
	struct slow_source *s = NEW(struct slow_source);

	source_init(&s->s, &slow_ops, size, src->mtime, src->name);
	arena_init(&s->arena);
	s->pkg = src;
	s->number = number;
	s->info = (struct pkg_info){ .kind = info->kind, .payload = info->payload };
	/* A stripped cpio needs the header's list of files; the caller's list may be freed. */
	if (info->kind == PKG_RPM && rpm_open(src, &s->arena, &s->info, err) < 0) {
		source_close(&s->s);
		return -1;
	}
	*ret = &s->s;
	return 0;
}
