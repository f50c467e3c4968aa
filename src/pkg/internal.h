/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interfaces inside pkg.
 *
 * A payload comes as a stream; a `buffered_reader` reads headers and content from the chunks that the stream
 * lends. Each archive format is a `reader_ops` with a struct that begins with struct pkg_reader; reader.c has
 * the common part: canonical paths, limits, the end.
 */
#pragma once

#include "pkg/pkg.h"

/* ---- buffered.c: a buffered reader over a stream's lent chunks ---- */

#define BUFFERED_BLOCK 512

struct buffered_reader {
	struct stream *s;  /* borrowed */
	struct bytes left; /* unread bytes: of the lent chunk, or of peeked[] */
	struct bytes lent; /* the rest of the lent chunk, while left is peeked[]; else empty */
	uint64_t off;      /* offset of left in the stream, counted from the reader's start */
	uint64_t limit;    /* more bytes than this are ERR_LIMIT; 0: none */
	uint8_t block[BUFFERED_BLOCK], peeked[BUFFERED_BLOCK];
	uint8_t *small; /* small-read buffer, see buffered_small_steps(); owned */
};

enum { BUFFERED_END = 1 };

void buffered_init(struct buffered_reader *f, struct stream *s);
void buffered_done(struct buffered_reader *f);
/* Read in small steps, since only the beginning is needed: a decoding stream would lend, and decode, 100 KiB
 * at a time. */
void buffered_small_steps(struct buffered_reader *f);
/*
 * The next @n <= BUFFERED_BLOCK bytes, as a view of the lent chunk if it holds them all. BUFFERED_END when the
 * stream has ended and nothing is left; a part of @n is ERR_INVALID. @what is for the message.
 */
int buffered_block(struct buffered_reader *f, size_t n, const char *what, const uint8_t **ret,
		   struct err *err);
/* As buffered_block(), without consuming the bytes; fewer only at the end of the stream. */
int buffered_peek(struct buffered_reader *f, size_t n, struct bytes *ret, struct err *err);
/* Exactly @n bytes into @buf; an early end is ERR_INVALID. */
int buffered_read(struct buffered_reader *f, void *buf, size_t n, const char *what, struct err *err);
/* Up to @max bytes without copying them; empty only at the end of the stream. */
int buffered_chunk(struct buffered_reader *f, uint64_t max, struct bytes *ret, struct err *err);
int buffered_skip(struct buffered_reader *f, uint64_t n, const char *what, struct err *err);
/* Read the rest, so that the stream makes the checks at its end. */
int buffered_drain(struct buffered_reader *f, struct err *err);

/* ---- path.c ---- */

/*
 * @raw as a member's canonical path, into @out (emptied first): no leading "/" or "./", no "." or "..", no
 * "//", no trailing slash. *ret_unsafe: there was a "..". Over PKG_MAX_NAME: ERR_LIMIT.
 */
int member_path(struct str raw, struct buf *out, bool *ret_unsafe, struct err *err);
/* Up to the first NUL: for names in fixed fields and damaged names. */
struct str str_until_nul(struct str s);

/* ---- readers ---- */

/* A member in its format's terms; views are valid until the next call. */
struct raw_member {
	struct str name, link; /* as written */
	enum pkg_type type;
	uint32_t mode; /* the type bits count only for PKG_SPECIAL */
	uint64_t size;
	uint64_t stored; /* of an archive that libarchive reads: bytes of content, of any type of member */
	int64_t mtime;
	uint64_t off;
	bool sparse;
	bool unsafe; /* unsafe for another reason than a ".." in the name */
};

struct reader_ops {
	int (*next)(struct pkg_reader *r, struct raw_member *ret, struct err *err); /* PKG_END */
	int (*data)(struct pkg_reader *r, struct bytes *ret, struct err *err);
	void (*close)(struct pkg_reader *r); /* frees its own fields; not the struct */
};

struct pkg_reader {
	const struct reader_ops *ops;
	const struct pkg_info *info;
	struct buffered_reader in;
	struct buf path, link; /* of the current member */
	uint32_t n_members;
	uint64_t names_size;
	bool is_file; /* the current member */
	bool ended;
	bool only_member_failed; /* set by ops->data with its failure: the next member may still be
				    readable */
	struct err failed;       /* the first failure, returned again by later calls */
};

/* Each allocates the reader; reader.c sets the common part afterwards. */
struct pkg_reader *tar_reader_new(void);
struct pkg_reader *cpio_reader_new(void);
struct pkg_reader *nested_reader_new(void);
/* PKG_NOT_A_PACKAGE: libarchive does not recognise it. */
int other_reader_new(struct source *src, struct pkg_reader **ret, struct err *err);

/* Read the content of the current member, whose header states @size bytes: over @max is ERR_LIMIT. */
int reader_read_all(struct pkg_reader *r, uint64_t size, size_t max, struct buf *ret, struct err *err);
/* The content of @r's current member as a stream; @r is borrowed, and stays at this member until the stream
 * has been read. */
struct stream *stream_of_member(struct pkg_reader *r);

/* Whether a payload begins like this. @head: 512 bytes, or all there are. */
bool tar_detect(struct bytes head);
bool cpio_detect(struct bytes head);

/* ---- tar_pax.c ---- */

struct sparse;

/* The values of extended headers; an empty text value cancels the key. */
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
	size_t i;                   /* reading: the part at or after pos */
	uint64_t pos;
};
void sparse_reset(struct sparse *m);
void sparse_done(struct sparse *m);
int sparse_add(struct sparse *m, uint64_t off, uint64_t size, struct err *err);
int sparse_parse_list(struct sparse *m, struct str list, struct err *err); /* 0.1: "off,size,off,size" */
/* The map is complete: check that it fits a file of @real_size of which @stored bytes are stored, and start
 * reading at 0. */
int sparse_begin(struct sparse *m, uint64_t real_size, uint64_t stored, struct err *err);
/* The bytes at pos: *ret_n bytes of hole, or of stored content. *ret_n 0: the end. The caller advances
 * pos. */
void sparse_at(struct sparse *m, bool *ret_hole, uint64_t *ret_n);

/* ---- ar.c ---- */

struct ar {
	struct source *src; /* borrowed */
	struct arena *a;    /* borrowed: holds the names */
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

/* Whether @name is "data.tar.xz" for @stem "data.tar", and its codec. An unknown ending: ERR_INVALID. */
enum { DEB_OTHER_NAME = 1 };
int deb_member_codec(struct str name, struct str stem, enum codec_kind *ret, struct err *err);
/* PKG_NOT_A_PACKAGE: an ar that is no Debian package. */
int deb_open(struct source *src, struct arena *a, struct pkg_info *ret, struct err *err);
/* The second form of an .ipk: @outer is after the member debian-binary of the outer tar. Sets the fields of
 * the control file. */
int deb_read_nested(struct pkg_reader *outer, struct arena *a, struct pkg_info *ret, struct err *err);
/* The first paragraph of a control file into @ret; strings are copied into @a. */
void control_parse(struct str text, struct arena *a, struct pkg_info *ret);

/* Arch's .PKGINFO: "key = value" lines. */
void arch_parse(struct str text, struct arena *a, struct pkg_info *ret);

/* ---- rpm_header.c: the tag store; an rpm has two of them ---- */

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
	uint32_t n; /* number left */
};
/* The header at @off; @max: limit of its size. Its bytes are in @a. */
int rpm_header_read(struct source *src, uint64_t off, size_t max, struct arena *a, struct rpm_header *ret,
		    struct err *err);
/* A tag of another type, or past the data: ERR_INVALID. */
int rpm_header_ints(const struct rpm_header *h, uint32_t tag, struct rpm_ints *ret, struct err *err);
uint64_t rpm_int(const struct rpm_ints *v, uint32_t i);
int rpm_header_texts(const struct rpm_header *h, uint32_t tag, struct rpm_texts *ret, struct err *err);
int rpm_text_next(struct rpm_texts *t, struct str *ret, struct err *err); /* requires n > 0 */
/* The first text; empty: none. */
int rpm_header_text(const struct rpm_header *h, uint32_t tag, struct str *ret, struct err *err);

/* rpm_files.c: the list of files, and the build IDs in it, into @ret. */
int rpm_files_read(const struct rpm_header *h, struct arena *a, struct pkg_info *ret, struct err *err);
/* The build ID in a path: "usr/lib/.build-id/ab/cdef", "usr/lib/debug/.build-id/ab/cdef.debug"; @path as in
 * pkg_member. */
bool build_id_of_path(struct str path, struct build_id *ret);

bool rpm_detect(struct bytes head);
int rpm_open(struct source *src, struct arena *a, struct pkg_info *ret, struct err *err);

/* ---- other.c ---- */

/* PKG_NOT_A_PACKAGE: libarchive does not recognise it; PKG_END: it has no members. */
int other_open(struct source *src, struct pkg_info *ret, struct err *err);
