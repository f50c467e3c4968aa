/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Debian packages (deb(5)): an ar of debian-binary, control.tar.* and data.tar.*, in this order; and .ipk,
 * which is that or a tar of the same members.
 */
#include "pkg/internal.h"

/* A control file has some KiB; that of a package of many build IDs some hundred. */
#define CONTROL_MAX MIB(16)
/* Limit of the bytes of an .ipk's outer tar before its control archive. */
#define NESTED_MAX MIB(64)

int deb_member_codec(struct str name, struct str stem, enum codec_kind *ret, struct err *err)
{
	struct str suffix;
	enum codec_kind kind = CODEC_NONE;

	if (!str_starts(name, stem))
		return DEB_OTHER_NAME;
	suffix = (struct str){ name.p + stem.size, name.size - stem.size };
	if (suffix.size) {
		if (suffix.p[0] != '.')
			return DEB_OTHER_NAME;
		kind = codec_by_name((struct str){ suffix.p + 1, suffix.size - 1 });
		if (kind == CODEC_NONE)
			return err_set(err, ERR_INVALID, "unknown compression: \"" STR_FMT "\"",
				       STR_ARG(name));
	}
	*ret = kind;
	return 0;
}

/* Read the decoded control.tar up to the control file, which is near its start. */
static int read_control_tar(struct stream *tar, struct arena *a, struct pkg_info *ret, struct err *err)
{
	static const struct pkg_info info = { .payload.format = PKG_FORMAT_TAR };
	AUTO(buf_done) struct buf text = { 0 };
	struct pkg_reader *r;
	struct pkg_member m;
	int res;

	if (pkg_reader_open(&info, tar, NULL, &r, err) < 0)
		return -1;
	r->in.limit = PKG_MAX_HEADER;
	buffered_small_steps(&r->in);
	while ((res = pkg_reader_next(r, &m, err)) == 0) {
		if (m.type != PKG_FILE || !str_eq(m.path, STR("control")))
			continue;
		res = reader_read_all(r, m.size, CONTROL_MAX, &text, err);
		if (res < 0)
			err_in(err, "control file");
		break;
	}
	pkg_reader_close(r);
	if (res == PKG_END)
		return err_set(err, ERR_INVALID, "no control file in control.tar");
	if (res < 0)
		return res;
	control_parse(buf_str(&text), a, ret);
	return 0;
}

/* Takes @raw. */
static int read_control(struct stream *raw, enum codec_kind codec, struct arena *a, struct pkg_info *ret,
			struct err *err)
{
	AUTO(stream_closep) struct stream *tar = NULL;

	if (codec_stream_open(codec, raw, &tar, err) < 0)
		return -1;
	return read_control_tar(tar, a, ret, err);
}

/* deb(5): "2.0"; readers accept any minor version, and refuse another major one. */
static int check_version(struct bytes text, struct err *err)
{
	struct str s = { (const char *)text.p, text.size }, line = str_cut(&s, '\n');

	if (!str_starts(line, STR("2.")))
		return err_set(err, ERR_INVALID, "debian-binary: format \"%.*s\" is not supported",
			       (int)MIN(line.size, (size_t)16), line.p);
	return 0;
}

int deb_open(struct source *src, struct arena *a, struct pkg_info *ret, struct err *err)
{
	struct pkg_info info = { .kind = PKG_DEB };
	bool has_control = false;
	enum codec_kind codec;
	struct ar_member m;
	struct bytes version;
	struct ar ar;
	int r;

	ar_init(&ar, src, a);
	r = ar_next(&ar, &m, err);
	if (r < 0)
		return r;
	if (r == AR_END || !str_eq(m.name, STR("debian-binary")))
		return PKG_NOT_A_PACKAGE;
	if (source_read_arena(src, range_of(m.off, m.size), 64, a, &version, err) < 0 ||
	    check_version(version, err) < 0)
		return -1;
	while ((r = ar_next(&ar, &m, err)) == 0) {
		/* Members with unknown names are skipped, as those that begin with "_" must be. */
		r = deb_member_codec(m.name, STR("control.tar"), &codec, err);
		if (r == 0 && !has_control) {
			if (read_control(stream_of_source(src, false, m.off, m.size), codec, a, &info, err) <
			    0)
				return err_in(err, STR_FMT, STR_ARG(m.name));
			has_control = true;
		}
		if (r == DEB_OTHER_NAME)
			r = deb_member_codec(m.name, STR("data.tar"), &codec, err);
		else if (r == 0)
			continue;
		if (r < 0)
			return r;
		if (r == 0) {
			if (!has_control)
				return err_set(err, ERR_INVALID, "no control.tar before data.tar");
			info.payload = (struct pkg_payload){ codec, m.off, m.size, PKG_FORMAT_TAR };
			*ret = info;
			return 0;
		}
	}
	return r < 0 ? r : err_set(err, ERR_INVALID, "no data.tar in the package");
}

int deb_read_nested(struct pkg_reader *outer, struct arena *a, struct pkg_info *ret, struct err *err)
{
	enum codec_kind codec;
	struct pkg_member m;
	int res;

	outer->in.limit = NESTED_MAX;
	while ((res = pkg_reader_next(outer, &m, err)) == 0) {
		if (m.type != PKG_FILE)
			continue;
		res = deb_member_codec(m.path, STR("control.tar"), &codec, err);
		if (res == DEB_OTHER_NAME)
			continue;
		if (res == 0)
			res = read_control(stream_of_member(outer), codec, a, ret, err);
		break;
	}
	if (res == PKG_END)
		return err_set(err, ERR_INVALID, "no control.tar in the package");
	return res < 0 ? err_in(err, "control.tar") : 0;
}
