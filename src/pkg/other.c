/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every other archive (zip, 7z, iso, cab, rar, xar, lha, warc, ar; a tar in lz4, lzip or compress), through
 * libarchive over a source.
 *
 * Its filters that run helper programs (lrzip, lzop, grzip) are left out, as is mtree, which names files
 * outside of the archive. Names come as UTF-8 if the archive knows Unicode, else as the stored bytes:
 * libarchive converts to the thread's locale.
 */
#include "pkg/internal.h"

#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include "pkg/archive_lazy.h"

#define CHUNK_SIZE KIB(64)

struct other_reader {
	struct pkg_reader r;
	struct archive *archive;
	struct source *src;
	uint64_t src_off;
	struct err src_err; /* failure of the source during a call of libarchive */
	locale_t utf8;
	struct buf link;
	uint64_t size, pos; /* of the current member's content */
	struct bytes block; /* lent by libarchive, not delivered yet */
	uint64_t block_off; /* in the content */
	bool content_ended;
	uint8_t chunk[CHUNK_SIZE];
};

static const uint8_t zeros[KIB(64)];

static la_ssize_t on_read(struct archive *a, void *arg, const void **ret)
{
	struct other_reader *o = arg;
	size_t got;

	if (o->src_off >= o->src->size)
		return 0;
	if (source_read(o->src, o->src_off, o->chunk, sizeof(o->chunk), SOURCE_SEQUENTIAL, &got,
			&o->src_err) < 0) {
		archive_set_error(a, EIO, "%s", o->src_err.text);
		return ARCHIVE_FATAL;
	}
	o->src_off += got;
	*ret = o->chunk;
	return (la_ssize_t)got;
}

static la_int64_t on_skip(struct archive *a, void *arg, la_int64_t n)
{
	struct other_reader *o = arg;
	uint64_t left = o->src->size - MIN(o->src_off, o->src->size);

	n = MIN(n, (la_int64_t)MIN(left, (uint64_t)INT64_MAX));
	o->src_off += (uint64_t)n;
	return n;
}

static la_int64_t on_seek(struct archive *a, void *arg, la_int64_t off, int whence)
{
	struct other_reader *o = arg;
	int64_t base = whence == SEEK_SET ? 0 : (int64_t)(whence == SEEK_CUR ? o->src_off : o->src->size);
	int64_t to;

	if (__builtin_add_overflow(base, off, &to) || to < 0) {
		archive_set_error(a, EINVAL, "seek to before the start");
		return ARCHIVE_FATAL;
	}
	o->src_off = (uint64_t)to;
	return to;
}

/* Returns libarchive's failure; if the source failed, that failure. */
static int archive_failure(struct other_reader *o, struct err *err)
{
	const char *text = archive_error_string(o->archive);

	if (o->src_err.kind) {
		if (err)
			*err = o->src_err;
		return -1;
	}
	if (archive_errno(o->archive) == ENOMEM)
		return err_set(err, ERR_LIMIT, "%s", text ? text : "no memory");
	return err_set(err, ERR_INVALID, "%s", text ? text : "damaged archive");
}

/* Outcome PKG_NOT_A_PACKAGE. */
static int open_archive(struct other_reader *o, struct err *err)
{
	struct archive *a = o->archive = archive_read_new();

	if (!a)
		return err_set(err, ERR_LIMIT, "no memory for an archive reader");
	archive_read_support_filter_gzip(a);
	archive_read_support_filter_bzip2(a);
	archive_read_support_filter_compress(a);
	archive_read_support_filter_lzma(a);
	archive_read_support_filter_xz(a);
	archive_read_support_filter_lzip(a);
	archive_read_support_filter_lz4(a);
	archive_read_support_filter_zstd(a);
	archive_read_support_format_ar(a);
	archive_read_support_format_cpio(a);
	archive_read_support_format_tar(a);
	archive_read_support_format_zip(a);
	archive_read_support_format_7zip(a);
	archive_read_support_format_iso9660(a);
	archive_read_support_format_cab(a);
	archive_read_support_format_rar(a);
	archive_read_support_format_rar5(a);
	archive_read_support_format_xar(a);
	archive_read_support_format_lha(a);
	archive_read_support_format_warc(a);
	archive_read_set_callback_data(a, o);
	archive_read_set_read_callback(a, on_read);
	archive_read_set_skip_callback(a, on_skip);
	archive_read_set_seek_callback(a, on_seek);
	/* libarchive reads the first bytes here, and fails if it does not recognise them. */
	if (archive_read_open1(a) < ARCHIVE_WARN && !o->src_err.kind && archive_errno(a) != ENOMEM)
		return PKG_NOT_A_PACKAGE;
	return o->src_err.kind || archive_errno(a) == ENOMEM ? archive_failure(o, err) : 0;
}

static int next_header(struct other_reader *o, struct archive_entry **ret, struct err *err)
{
	int r;

	do
		r = archive_read_next_header(o->archive, ret);
	while (r == ARCHIVE_RETRY);
	/* libarchive may take a failed read for an end, or for another format. */
	if (o->src_err.kind)
		return archive_failure(o, err);
	if (r == ARCHIVE_EOF)
		return PKG_END;
	/* A warning is about a name or an attribute: the member is usable. */
	return r < ARCHIVE_WARN ? archive_failure(o, err) : 0;
}

static enum pkg_type entry_type(struct archive_entry *e)
{
	if (archive_entry_hardlink(e))
		return PKG_HARDLINK;
	switch (archive_entry_filetype(e)) {
	case AE_IFREG:
	case 0:
		/* Without a size it cannot be a source; if it is encrypted, it cannot be read at all. */
		return archive_entry_size_is_set(e) && archive_entry_size(e) >= 0 &&
				       !archive_entry_is_data_encrypted(e)
			       ? PKG_FILE
			       : PKG_SPECIAL;
	case AE_IFDIR:
		return PKG_DIR;
	case AE_IFLNK:
		return PKG_SYMLINK;
	default:
		return PKG_SPECIAL;
	}
}

static int other_next_member(struct other_reader *o, struct raw_member *ret, struct err *err)
{
	struct archive_entry *e;
	const char *link;
	int r;

	r = next_header(o, &e, err);
	if (r != 0)
		return r;
	*ret = (struct raw_member){
		.name = str_of(archive_entry_pathname(e)),
		.type = entry_type(e),
		.mode = archive_entry_mode(e),
		.mtime = archive_entry_mtime(e),
		.off = PKG_NO_OFF,
	};
	ret->stored = archive_entry_size_is_set(e) ? (uint64_t)MAX(archive_entry_size(e), (la_int64_t)0) : 0;
	link = ret->type == PKG_HARDLINK ? archive_entry_hardlink(e) : archive_entry_symlink(e);
	if (link && (ret->type == PKG_HARDLINK || ret->type == PKG_SYMLINK))
		ret->link = str_of(link);
	if (ret->type == PKG_FILE)
		ret->size = (uint64_t)archive_entry_size(e);
	o->size = ret->size;
	o->pos = o->block_off = 0;
	o->block = (struct bytes){ 0 };
	o->content_ended = ret->type != PKG_FILE;
	return 0;
}

static int other_next(struct pkg_reader *r, struct raw_member *ret, struct err *err)
{
	struct other_reader *o = (struct other_reader *)r;
	locale_t old = uselocale(o->utf8);
	int res = other_next_member(o, ret, err);

	uselocale(old);
	return res;
}

static int fetch_block(struct other_reader *o, struct err *err)
{
	const void *p = NULL;
	size_t n = 0;
	la_int64_t off = 0;
	int r;

	do
		r = archive_read_data_block(o->archive, &p, &n, &off);
	while (r == ARCHIVE_RETRY || (r >= ARCHIVE_WARN && r != ARCHIVE_EOF && n == 0));
	if (o->src_err.kind)
		return archive_failure(o, err);
	if (r < ARCHIVE_WARN) {
		/* The content of one member is not readable (an unsupported method); that of others may
		 * be. */
		o->r.only_member_failed = r == ARCHIVE_FAILED;
		return archive_failure(o, err);
	}
	if (r == ARCHIVE_EOF) {
		o->content_ended = true;
		return 0;
	}
	if (off < 0 || (uint64_t)off < o->pos || (uint64_t)off > o->size || n > o->size - (uint64_t)off)
		return err_set(err, ERR_INVALID, "a member's content does not fit its size of %llu bytes",
			       (unsigned long long)o->size);
	o->block = bytes_of(p, n);
	o->block_off = (uint64_t)off;
	return 0;
}

static int other_data(struct pkg_reader *r, struct bytes *ret, struct err *err)
{
	struct other_reader *o = (struct other_reader *)r;
	uint64_t hole;

	if (!o->block.size && !o->content_ended && fetch_block(o, err) < 0)
		return -1;
	/* Bytes between blocks, or after the last one, are a hole. */
	hole = (o->content_ended ? o->size : o->block_off) - o->pos;
	if (hole) {
		if (o->size > PKG_MAX_SPARSE)
			return err_set(err, ERR_LIMIT, "sparse member of %llu bytes",
				       (unsigned long long)o->size);
		*ret = bytes_of(zeros, (size_t)MIN(hole, (uint64_t)sizeof(zeros)));
	} else {
		*ret = o->block;
		o->block = (struct bytes){ 0 };
	}
	o->pos += ret->size;
	return 0;
}

static void other_close(struct pkg_reader *r)
{
	struct other_reader *o = (struct other_reader *)r;

	archive_read_free(o->archive);
	if (o->utf8)
		freelocale(o->utf8);
	buf_done(&o->link);
}

static const struct reader_ops other_ops = { other_next, other_data, other_close };

int other_reader_new(struct source *src, struct pkg_reader **ret, struct err *err)
{
	struct other_reader *o;
	locale_t old;
	int r;

	if (archive_load(err) < 0)
		return -1;
	o = NEW(struct other_reader);
	o->r.ops = &other_ops;
	o->src = src;
	/* If it is 0, the thread's own locale stays. */
	o->utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
	old = uselocale(o->utf8);
	r = open_archive(o, err);
	uselocale(old);
	if (r != 0) {
		pkg_reader_close(&o->r);
		return r;
	}
	*ret = &o->r;
	return 0;
}

int other_open(struct source *src, struct pkg_info *ret, struct err *err)
{
	struct pkg_info info = {
		.kind = PKG_OTHER,
		.payload = { CODEC_NONE, 0, src->size, PKG_FORMAT_OTHER },
	};
	struct raw_member m;
	struct pkg_reader *r;
	struct err why = { 0 };
	int res;

	res = other_reader_new(src, &r, err);
	if (res != 0)
		return res;
	res = other_next(r, &m, &why);
	if (res < 0 && why.kind == ERR_INVALID && !archive_format(((struct other_reader *)r)->archive))
		res = PKG_NOT_A_PACKAGE;
	pkg_reader_close(r);
	if (res < 0) {
		if (err)
			*err = why;
		return -1;
	}
	if (res != PKG_NOT_A_PACKAGE)
		*ret = info;
	return res;
}
