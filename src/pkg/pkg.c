/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pkg_open(): the kind of a package, by its bytes; by its name only where the bytes prove nothing.
 */
#include "pkg/internal.h"

/* Limits of decoding a tar in search of its description; Arch's .MTREE may precede .PKGINFO. */
#define SELF_MAX         MIB(16)
#define SELF_MAX_MEMBERS 8
#define PKGINFO_MAX      MIB(1)

#define HEAD_SIZE 512

static const struct {
	const char *suffix;
	enum pkg_kind kind;
} suffixes[] = {
	{ ".deb", PKG_DEB },       { ".ddeb", PKG_DEB },      { ".udeb", PKG_DEB },
	{ ".ipk", PKG_DEB },       { ".rpm", PKG_RPM },       { ".tar", PKG_TAR },
	{ ".tgz", PKG_TAR },       { ".tbz", PKG_TAR },       { ".tbz2", PKG_TAR },
	{ ".txz", PKG_TAR },       { ".tlz", PKG_TAR },       { ".tzst", PKG_TAR },
	{ ".tar.gz", PKG_TAR },    { ".tar.xz", PKG_TAR },    { ".tar.bz2", PKG_TAR },
	{ ".tar.zst", PKG_TAR },   { ".tar.lzma", PKG_TAR },  { ".apk", PKG_TAR },
	{ ".crate", PKG_TAR },     { ".xbps", PKG_TAR },      { ".gem", PKG_TAR },
	{ ".cpio", PKG_CPIO },     { ".cpio.gz", PKG_CPIO },  { ".cpio.xz", PKG_CPIO },
	{ ".cpio.bz2", PKG_CPIO }, { ".cpio.zst", PKG_CPIO }, { ".cpio.lzma", PKG_CPIO },
	{ ".zip", PKG_OTHER },     { ".jar", PKG_OTHER },     { ".whl", PKG_OTHER },
	{ ".7z", PKG_OTHER },      { ".iso", PKG_OTHER },     { ".cab", PKG_OTHER },
	{ ".xar", PKG_OTHER },     { ".rar", PKG_OTHER },     { ".lha", PKG_OTHER },
	{ ".lzh", PKG_OTHER },     { ".tar.lz4", PKG_OTHER }, { ".tar.lz", PKG_OTHER },
	{ ".tar.Z", PKG_OTHER },
};

const char *pkg_kind_name(enum pkg_kind kind)
{
	switch (kind) {
	case PKG_DEB:
		return "deb";
	case PKG_RPM:
		return "rpm";
	case PKG_TAR:
		return "tar";
	case PKG_CPIO:
		return "cpio";
	case PKG_OTHER:
		return "other";
	case PKG_N_KINDS:
		break;
	}
	return "?";
}

enum pkg_kind pkg_kind_by_name(struct str name)
{
	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++)
		if (str_ends(name, str_of(suffixes[i].suffix)))
			return suffixes[i].kind;
	return 0;
}

/*
 * Read the description in a tar's first members. Damage after the first header is not reported here but by
 * the reader of the whole tar.
 */
static int read_self(struct pkg_reader *r, struct arena *a, struct pkg_info *ret, struct err *err)
{
	AUTO(buf_done) struct buf text = { 0 };
	struct pkg_member m;

	r->in.limit = SELF_MAX;
	for (int i = 0; i < SELF_MAX_MEMBERS; i++) {
		if (pkg_reader_next(r, &m, NULL) != 0)
			return 0;
		if (m.type == PKG_FILE && str_eq(m.path, STR("debian-binary"))) {
			ret->kind = PKG_DEB;
			ret->payload.format = PKG_FORMAT_NESTED;
			return deb_read_nested(r, a, ret, err);
		}
		if (m.type == PKG_FILE && str_eq(m.path, STR(".PKGINFO"))) {
			if (reader_read_all(r, m.size, PKGINFO_MAX, &text, NULL) == 0)
				arch_parse(buf_str(&text), a, ret);
			return 0;
		}
		/* Arch puts files about the package first, with names that start with a dot. */
		if (m.path.size && m.path.p[0] != '.')
			return 0;
	}
	return 0;
}

static bool all_zero(struct bytes b)
{
	for (size_t i = 0; i < b.size; i++)
		if (b.p[i])
			return false;
	return true;
}

/* The payload is the whole file, perhaps compressed: check whether it is a tar or a cpio. */
static int open_whole(struct source *src, enum codec_kind codec, struct str name_hint, struct arena *a,
		      struct pkg_info *ret, struct err *err)
{
	struct pkg_info info = { .payload = { codec, 0, src->size, PKG_FORMAT_TAR } };
	AUTO(stream_closep) struct stream *payload = NULL;
	struct pkg_reader *r;
	struct bytes head;
	int res;

	if (codec_stream_open(codec, stream_of_source(src, false, 0, src->size), &payload, err) < 0)
		return -1;
	if (pkg_reader_open(&info, payload, NULL, &r, err) < 0)
		return -1;
	buffered_small_steps(&r->in);
	res = buffered_peek(&r->in, HEAD_SIZE, &head, err);
	if (res == 0) {
		res = PKG_NOT_A_PACKAGE;
		if (cpio_detect(head)) {
			info.kind = PKG_CPIO;
			info.payload.format = PKG_FORMAT_CPIO;
			res = 0;
		} else if (tar_detect(head)) {
			info.kind = PKG_TAR;
			res = read_self(r, a, &info, err);
		} else if (head.size == HEAD_SIZE && all_zero(head) &&
			   pkg_kind_by_name(name_hint) == PKG_TAR) {
			/* An empty tar consists of its end only. */
			info.kind = PKG_TAR;
			res = 0;
		}
	}
	pkg_reader_close(r);
	if (res == 0)
		*ret = info;
	return res;
}

int pkg_open(struct source *src, struct str name_hint, struct arena *a, struct pkg_info *ret, struct err *err)
{
	enum pkg_kind by_name = pkg_kind_by_name(name_hint);
	uint8_t buf[HEAD_SIZE];
	struct bytes head = { buf, (size_t)MIN(src->size, (uint64_t)sizeof(buf)) };
	enum codec_kind codec;
	struct err why = { 0 };
	int r = PKG_NOT_A_PACKAGE;

	*ret = (struct pkg_info){ 0 };
	if (source_read_full(src, 0, buf, head.size, SOURCE_RANDOM, err) < 0)
		return -1;
	if (rpm_detect(head))
		return rpm_open(src, a, ret, err);
	if (ar_detect(head))
		r = deb_open(src, a, ret, err);
	if (r != PKG_NOT_A_PACKAGE)
		return r;
	codec = codec_detect(head);
	r = open_whole(src, codec, name_hint, a, ret, &why);
	/* Damage is an error if the name claims a package; else the file is no package (.lzma is only
	 * guessed). */
	if (r < 0 && (why.kind != ERR_INVALID || by_name)) {
		if (err)
			*err = why;
		return r;
	}
	if (r == 0)
		return 0;
	r = other_open(src, ret, err);
	/* An archive without members is little proof: zeros alone are an empty tar. */
	return r == PKG_END ? (by_name == PKG_OTHER ? 0 : PKG_NOT_A_PACKAGE) : r;
}
