/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second form of an .ipk: a (gzipped) tar that holds debian-binary, control.tar.* and data.tar.*. The
 * members are those of the inner data.tar. It is compressed within a compressed file, so there is no random
 * access.
 */
#include "pkg/internal.h"

#include <stdlib.h>

struct nested_reader {
	struct pkg_reader r;
	struct pkg_info outer_info, inner_info;
	struct pkg_reader *outer, *inner;
	struct stream *data; /* the decoded data.tar */
};

static int nested_open_inner(struct nested_reader *n, struct err *err)
{
	struct pkg_member m;
	enum codec_kind codec;
	int r;

	n->outer_info = *n->r.info;
	n->outer_info.payload.format = PKG_FORMAT_TAR;
	n->inner_info = n->outer_info;
	if (pkg_reader_open(&n->outer_info, n->r.in.s, NULL, &n->outer, err) < 0)
		return -1;
	n->r.in.s = NULL; /* the outer reader uses it from now on */
	while ((r = pkg_reader_next(n->outer, &m, err)) == 0) {
		if (m.type != PKG_FILE)
			continue;
		r = deb_member_codec(m.path, STR("data.tar"), &codec, err);
		if (r < 0)
			return r;
		if (r == DEB_OTHER_NAME)
			continue;
		if (codec_stream_open(codec, stream_of_member(n->outer), &n->data, err) < 0)
			return -1;
		/* data.tar may be compressed where the outer tar is not: then it may not decode to any size. */
		if (n->inner_info.payload.codec == CODEC_NONE)
			n->inner_info.payload.codec = codec;
		return pkg_reader_open(&n->inner_info, n->data, NULL, &n->inner, err);
	}
	return r < 0 ? r : err_set(err, ERR_INVALID, "no data.tar in the package");
}

static int nested_next(struct pkg_reader *r, struct raw_member *ret, struct err *err)
{
	struct nested_reader *n = (struct nested_reader *)r;
	struct pkg_member m;
	int res;

	if (!n->inner && nested_open_inner(n, err) < 0)
		return -1;
	res = pkg_reader_next(n->inner, &m, err);
	if (res < 0)
		return err_in(err, "data.tar");
	if (res == PKG_END) {
		/* Read to the outer archive's proper end, which also ends the stream. */
		while ((res = pkg_reader_next(n->outer, &m, err)) == 0)
			;
		return res;
	}
	*ret = (struct raw_member){
		.name = m.path,
		.link = m.link,
		.type = m.type,
		.mode = m.mode,
		.size = m.size,
		.mtime = m.mtime,
		.off = PKG_NO_OFF,
		.sparse = m.sparse,
		.unsafe = m.unsafe,
	};
	return 0;
}

static int nested_data(struct pkg_reader *r, struct bytes *ret, struct err *err)
{
	return pkg_reader_data(((struct nested_reader *)r)->inner, ret, err);
}

static void nested_close(struct pkg_reader *r)
{
	struct nested_reader *n = (struct nested_reader *)r;

	pkg_reader_close(n->inner);
	stream_close(n->data);
	pkg_reader_close(n->outer);
}

static const struct reader_ops nested_ops = { nested_next, nested_data, nested_close };

struct pkg_reader *nested_reader_new(void)
{
	struct nested_reader *n = NEW(struct nested_reader);

	n->r.ops = &nested_ops;
	return &n->r;
}
