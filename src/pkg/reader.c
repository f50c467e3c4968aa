/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pkg_reader: the part common to all archive formats: canonical paths of members, limits on their number and
 * names, a persistent failure, and an end that is reported only after the whole payload was read.
 */
#include "pkg/internal.h"

#include <assert.h>
#include <stdlib.h>

/* Of a payload that is not compressed: no limit. */
static uint64_t decoded_max(const struct pkg_info *info)
{
	uint64_t max;

	if (info->payload.codec == CODEC_NONE && info->payload.format != PKG_FORMAT_OTHER)
		return UINT64_MAX;
	return mul_overflows(info->payload.size, PKG_MAX_FACTOR, &max) ||
			       add_overflows(max, PKG_MAX_DECODED, &max)
		       ? UINT64_MAX
		       : max;
}

int pkg_reader_open(const struct pkg_info *info, struct stream *payload, struct source *src,
		    struct pkg_reader **ret, struct err *err)
{
	struct pkg_reader *r = NULL;
	int res;

	switch (info->payload.format) {
	case PKG_FORMAT_TAR:
		r = tar_reader_new();
		break;
	case PKG_FORMAT_CPIO:
		r = cpio_reader_new();
		break;
	case PKG_FORMAT_NESTED:
		r = nested_reader_new();
		break;
	case PKG_FORMAT_OTHER:
		res = other_reader_new(src, &r, err);
		if (res == PKG_NOT_A_PACKAGE)
			return err_set(err, ERR_CHANGED, "the file is no longer an archive");
		if (res < 0)
			return res;
		break;
	}
	assert(r);
	r->info = info;
	buffered_init(&r->in, payload);
	r->in.limit = decoded_max(info);
	*ret = r;
	return 0;
}

static mode_t type_bits(const struct raw_member *raw)
{
	switch (raw->type) {
	case PKG_DIR:
		return S_IFDIR;
	case PKG_SYMLINK:
		return S_IFLNK;
	case PKG_FILE:
	case PKG_HARDLINK:
		return S_IFREG;
	case PKG_SPECIAL:
		break;
	}
	return raw->mode & S_IFMT;
}

static int take_names(struct pkg_reader *r, const struct raw_member *raw, struct pkg_member *m,
		      struct err *err)
{
	bool link_unsafe;

	if (member_path(raw->name, &r->path, &m->unsafe, err) < 0)
		return -1;
	m->unsafe |= raw->unsafe;
	m->path = buf_str(&r->path);
	/* Only the root directory has no name. */
	if (!m->path.size && raw->type != PKG_DIR)
		m->unsafe = true;
	if (raw->type == PKG_HARDLINK) {
		if (member_path(raw->link, &r->link, &link_unsafe, err) < 0)
			return err_in(err, "hard link");
		m->unsafe |= link_unsafe;
		m->link = buf_str(&r->link);
	} else if (raw->type == PKG_SYMLINK) {
		if (raw->link.size > PKG_MAX_NAME)
			return err_set(err, ERR_LIMIT, "a link of %zu bytes", raw->link.size);
		m->link = raw->link;
	}
	r->names_size += m->path.size + m->link.size;
	if (r->names_size > PKG_MAX_NAMES)
		return err_set(err, ERR_LIMIT, "names of more than %zu bytes in all", PKG_MAX_NAMES);
	return 0;
}

static int reader_next_member(struct pkg_reader *r, struct pkg_member *ret, struct err *err)
{
	struct raw_member raw = { 0 };
	int res;

	res = r->ops->next(r, &raw, err);
	if (res < 0)
		return res;
	if (res == PKG_END) {
		/* Read the padding after the archive's end too: a compressed payload has its checks there. */
		if (r->in.s && buffered_drain(&r->in, err) < 0)
			return err_in(err, "after the end of the archive");
		r->ended = true;
		return PKG_END;
	}
	/* libarchive unpacks by itself, also files that are packed several times. */
	if (!r->in.s && r->info->payload.format == PKG_FORMAT_OTHER &&
	    (add_overflows(r->in.off, raw.stored, &r->in.off) || r->in.off > r->in.limit))
		return err_set(err, ERR_LIMIT, "members of more than %llu bytes in all",
			       (unsigned long long)r->in.limit);
	if (++r->n_members > PKG_MAX_MEMBERS)
		return err_set(err, ERR_LIMIT, "more than %u members", PKG_MAX_MEMBERS);
	r->is_file = raw.type == PKG_FILE;
	*ret = (struct pkg_member){
		.type = raw.type,
		.mode = (raw.mode & 07777) | type_bits(&raw),
		.size = raw.size,
		.mtime = raw.mtime,
		.off = raw.off,
		.sparse = raw.sparse,
	};
	return take_names(r, &raw, ret, err);
}

/* A reader that has failed is at no member: it returns the same failure again. */
static int reader_failed(struct pkg_reader *r, struct err *why, struct err *err)
{
	if (why)
		r->failed = *why;
	if (err)
		*err = r->failed;
	return -1;
}

int pkg_reader_next(struct pkg_reader *r, struct pkg_member *ret, struct err *err)
{
	struct err why = { 0 };
	int res;

	if (r->failed.kind)
		return reader_failed(r, NULL, err);
	if (r->ended)
		return PKG_END;
	res = reader_next_member(r, ret, &why);
	return res < 0 ? reader_failed(r, &why, err) : res;
}

int pkg_reader_data(struct pkg_reader *r, struct bytes *ret, struct err *err)
{
	struct err why = { 0 };

	if (r->failed.kind)
		return reader_failed(r, NULL, err);
	/* Bytes after a directory's or a device's header are no content. */
	if (!r->is_file) {
		*ret = (struct bytes){ 0 };
		return 0;
	}
	if (r->ops->data(r, ret, &why) == 0)
		return 0;
	if (!r->only_member_failed)
		return reader_failed(r, &why, err);
	r->only_member_failed = false;
	if (err)
		*err = why;
	return -1;
}

int reader_read_all(struct pkg_reader *r, uint64_t size, size_t max, struct buf *ret, struct err *err)
{
	struct bytes chunk;

	if (size > max)
		return err_set(err, ERR_LIMIT, "%llu bytes", (unsigned long long)size);
	for (;;) {
		if (pkg_reader_data(r, &chunk, err) < 0)
			return -1;
		if (!chunk.size)
			return 0;
		buf_add(ret, chunk.p, chunk.size);
	}
}

void pkg_reader_close(struct pkg_reader *r)
{
	if (!r)
		return;
	r->ops->close(r);
	buffered_done(&r->in);
	buf_done(&r->path);
	buf_done(&r->link);
	free(r);
}

/* ---- a member's content as a stream ---- */

struct member_stream {
	struct stream s;
	struct pkg_reader *r;
	struct bytes left; /* unread part of the chunk that the reader lent */
};

static int member_stream_next(struct stream *s, size_t max, struct bytes *ret, struct err *err)
{
	struct member_stream *m = (struct member_stream *)s;

	if (!m->left.size && pkg_reader_data(m->r, &m->left, err) < 0)
		return -1;
	*ret = bytes_of(m->left.p, MIN(max, m->left.size));
	if (!ret->size)
		return 0;
	m->left.p += ret->size;
	m->left.size -= ret->size;
	return 0;
}

static int member_stream_read(struct stream *s, void *buf, size_t n, size_t *ret_got, struct err *err)
{
	struct bytes chunk;

	if (member_stream_next(s, n, &chunk, err) < 0)
		return -1;
	if (chunk.size)
		memcpy(buf, chunk.p, chunk.size);
	*ret_got = chunk.size;
	return 0;
}

static void member_stream_close(struct stream *s)
{
	free(s);
}

static const struct stream_ops member_stream_ops = {
	.read = member_stream_read,
	.next = member_stream_next,
	.close = member_stream_close,
};

struct stream *stream_of_member(struct pkg_reader *r)
{
	struct member_stream *m = NEW(struct member_stream);

	m->s.ops = &member_stream_ops;
	m->r = r;
	return &m->s;
}
