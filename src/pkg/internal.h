/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pkg's own: what its files share.
 *
 * A payload comes as a stream; `feed` looks into the chunks that the stream lends. Each archive format is a
 * `reader_ops` with a struct that begins with struct pkg_reader; reader.c does what all have in common:
 * canonical paths, limits, the end.
 */
#pragma once

#include "pkg/pkg.h"

/* ---- feed.c: a stream's lent chunks as headers and content ---- */

#define FEED_BLOCK 512

struct feed {
	struct stream *s;  /* borrowed */
	struct bytes left; /* not used yet: of what the stream lent, or of peeked[] */
	struct bytes lent; /* what the stream lent, while left is peeked[]; else empty */
	uint64_t off;      /* where left begins in the stream, counted from where the feed began */
	uint64_t limit;    /* more bytes than this are ERR_LIMIT; 0: none */
	uint8_t block[FEED_BLOCK], peeked[FEED_BLOCK];
	uint8_t *sip; /* see feed_sip(); owned */
};

enum { FEED_END = 1 };

void feed_init(struct feed *f, struct stream *s);
void feed_done(struct feed *f);
/* Take little at a time, as only the beginning is wanted: a stream that decodes would lend, and decode, 100
 * KiB. */
void feed_sip(struct feed *f);
/*
 * The next @n <= FEED_BLOCK bytes, in the lent chunk if they lie there together. FEED_END when the stream has
 * ended and nothing is left; a part of @n is ERR_INVALID. @what is for the message.
 */
int feed_block(struct feed *f, size_t n, const char *what, const uint8_t **ret, struct err *err);
/* As feed_block(), and the bytes are still to come; fewer only at the end of the stream. */
int feed_peek(struct feed *f, size_t n, struct bytes *ret, struct err *err);
/* Exactly @n bytes into @buf; an early end is ERR_INVALID. */
int feed_read(struct feed *f, void *buf, size_t n, const char *what, struct err *err);
/* Up to @max bytes without copying them; empty only at the end of the stream. */
int feed_chunk(struct feed *f, uint64_t max, struct bytes *ret, struct err *err);
int feed_skip(struct feed *f, uint64_t n, const char *what, struct err *err);
/* All that is left: so that the stream's own checks at its end are made. */
int feed_drain(struct feed *f, struct err *err);

/* ---- path.c ---- */

/*
 * @raw as a member's canonical path, into @out (emptied first): no leading "/" or "./", no "." or "..", no
 * "//", no trailing slash. *ret_unsafe: there was a "..". Over PKG_MAX_NAME: ERR_LIMIT.
 */
int member_path(struct str raw, struct buf *out, bool *ret_unsafe, struct err *err);
/* Up to the first NUL: names in fixed fields and those that lie. */
struct str str_until_nul(struct str s);

/* ---- readers ---- */

/* A member as its format tells it; views are valid until the next call. */
struct raw_member {
	struct str name, link; /* as written */
	enum pkg_type type;
	uint32_t mode; /* the type bits count only for PKG_SPECIAL */
	uint64_t size;
	int64_t mtime;
	uint64_t off;
	bool sparse;
	bool unsafe; /* also without a ".." in the name */
};

struct reader_ops {
	int (*next)(struct pkg_reader *r, struct raw_member *ret, struct err *err); /* PKG_END */
	int (*data)(struct pkg_reader *r, struct bytes *ret, struct err *err);
	void (*close)(struct pkg_reader *r); /* its own things; not the struct */
};

struct pkg_reader {
	const struct reader_ops *ops;
	const struct pkg_info *info;
	struct feed feed;
	struct buf path, link; /* of the current member */
	uint32_t n_members;
	uint64_t names_size;
	bool is_file; /* the current member */
	bool ended;
	bool only_member_failed; /* set by ops->data beside its failure: the next member may still be had */
	struct err failed;       /* the first failure: a reader that has failed says it again */
};

/* Each allocates the reader; reader.c fills in the common part behind it. */
struct pkg_reader *tar_reader_new(void);
struct pkg_reader *cpio_reader_new(void);
struct pkg_reader *nested_reader_new(void);
/* PKG_NOT_A_PACKAGE: nothing that libarchive knows. */
int other_reader_new(struct source *src, struct pkg_reader **ret, struct err *err);

/* The content of the current member, which says that it has @size bytes: over @max is ERR_LIMIT. */
int reader_read_all(struct pkg_reader *r, uint64_t size, size_t max, struct buf *ret, struct err *err);
/* The content of @r's current member as a stream; @r is borrowed, and stays at this member until the stream
 * has been read. */
struct stream *stream_of_member(struct pkg_reader *r);

/* Does a payload begin like this? @head: 512 bytes, or all there are. */
bool tar_detect(struct bytes head);
bool cpio_detect(struct bytes head);

/* ---- tar_pax.c ---- */

struct sparse;

/* What extended headers say; an empty text value takes the key back. */
struct pax {
	bool has_path, has_link, has_size, has_mtime;
	struct buf path, link;
	uint64_t size;
	int64_t mtime;
	/* GNU sparse 0.0, 0.1, 1.0 */
	bool has_sparse_name, has_sparse_size, has_sparse_map;
	uint64_t sparse_major, sparse_minor;
	struct buf sparse_name;
	uint64_t sparse_size;
	uint64_t sparse_off; /* 0.0: the last GNU.sparse.offset */
};
void pax_reset(struct pax *p);
void pax_done(struct pax *p);
/* Adds the records of one extended header; the parts of a sparse map go into @map. */
int pax_parse(struct pax *p, struct sparse *map, struct bytes body, struct err *err);

/* ---- tar_sparse.c ---- */

/* More parts than this are ERR_LIMIT: 16 MiB of memory. */
#define SPARSE_MAX_PARTS (1u << 20)

struct sparse {
	struct sparse_part {
		uint64_t off, size;
	} * parts; /* rising, apart */
	size_t n, room;
	uint64_t real_size, stored; /* stored: sum of the parts' sizes */
	size_t i;                   /* reading: the part at or behind pos */
	uint64_t pos;
};
void sparse_reset(struct sparse *m);
void sparse_done(struct sparse *m);
int sparse_add(struct sparse *m, uint64_t off, uint64_t size, struct err *err);
int sparse_parse_list(struct sparse *m, struct str list, struct err *err); /* 0.1: "off,size,off,size" */
/* The map is complete: does it fit a file of @real_size of which @stored bytes are there? Then reading starts
 * at 0. */
int sparse_begin(struct sparse *m, uint64_t real_size, uint64_t stored, struct err *err);
/* What is at pos: *ret_n bytes of hole, or of stored content. *ret_n 0: the end. The caller moves pos. */
void sparse_at(struct sparse *m, bool *ret_hole, uint64_t *ret_n);

/* ---- ar.c ---- */

struct ar {
	struct source *src; /* borrowed */
	struct arena *a;    /* borrowed: names live in it */
	uint64_t pos;
	struct str long_names;
};
struct ar_member {
	struct str name;
	uint64_t off, size; /* of the content; within the file */
};
enum { AR_END = 1 };
bool ar_detect(struct bytes head);
void ar_init(struct ar *ar, struct source *src, struct arena *a);
int ar_next(struct ar *ar, struct ar_member *ret, struct err *err);

/* ---- deb.c, control.c, rpm.c, arch.c ---- */

/* "data.tar.xz" with @stem "data.tar": is it, and what compresses it? An ending that is not known:
 * ERR_INVALID. */
enum { DEB_OTHER_NAME = 1 };
int deb_member_codec(struct str name, struct str stem, enum codec_kind *ret, struct err *err);
/* PKG_NOT_A_PACKAGE: an ar that is no Debian package. */
int deb_open(struct source *src, struct arena *a, struct pkg_info *ret, struct err *err);
/* The second form of an .ipk: @outer stands behind the member debian-binary of the outer tar. Fills in what
 * the control file says. */
int deb_read_nested(struct pkg_reader *outer, struct arena *a, struct pkg_info *ret, struct err *err);
/* The first paragraph of a control file into @ret; strings are copied into @a. */
void control_parse(struct str text, struct arena *a, struct pkg_info *ret);

/* Arch's .PKGINFO: "key = value" lines. */
void arch_parse(struct str text, struct arena *a, struct pkg_info *ret);

/* ---- rpm_header.c: the tag store of which an rpm has two ---- */

struct rpm_header {
	uint64_t off, end; /* in the file */
	struct bytes index, data;
	uint32_t n_tags;
};
struct rpm_ints {
	const uint8_t *p;
	unsigned width;
	uint32_t n; /* 0: the tag is not there */
};
struct rpm_texts {
	struct cursor c;
	uint32_t n; /* still to come */
};
/* The header at @off; @max: bytes in all. Its bytes live in @a. */
int rpm_header_read(struct source *src, uint64_t off, size_t max, struct arena *a, struct rpm_header *ret,
		    struct err *err);
/* A tag that is there but of another type, or past the data: ERR_INVALID. */
int rpm_header_ints(const struct rpm_header *h, uint32_t tag, struct rpm_ints *ret, struct err *err);
uint64_t rpm_int(const struct rpm_ints *v, uint32_t i);
int rpm_header_texts(const struct rpm_header *h, uint32_t tag, struct rpm_texts *ret, struct err *err);
int rpm_text_next(struct rpm_texts *t, struct str *ret, struct err *err); /* of one that has more (n > 0) */
/* The first; empty: none. */
int rpm_header_text(const struct rpm_header *h, uint32_t tag, struct str *ret, struct err *err);

/* rpm_files.c: the list of files, and the build IDs that it names, into @ret. */
int rpm_files_read(const struct rpm_header *h, struct arena *a, struct pkg_info *ret, struct err *err);
/* The build ID that a path names: "usr/lib/.build-id/ab/cdef", "usr/lib/debug/.build-id/ab/cdef.debug"; @path
 * as in pkg_member. */
bool build_id_of_path(struct str path, struct build_id *ret);

bool rpm_detect(struct bytes head);
int rpm_open(struct source *src, struct arena *a, struct pkg_info *ret, struct err *err);

/* ---- other.c ---- */

/* PKG_NOT_A_PACKAGE: libarchive does not know it either; PKG_END: it has no members. */
int other_open(struct source *src, struct pkg_info *ret, struct err *err);
