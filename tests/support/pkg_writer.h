/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packages made in memory: tar and cpio of every dialect, deb, ipk and rpm, with any compression. The upper
 * functions make valid packages; the lower ones are for the rest (wrong headers, sparse files). Everything is
 * appended to @out.
 */
#pragma once

#include <sys/stat.h>
#include "codec/codec.h"

struct pw_file {
	const char *path;
	mode_t mode; /* with type bits; 0: a regular file, 0644 */
	int64_t mtime;
	struct bytes content; /* of a regular file */
	const char *link;     /* target of a symbolic link; in a tar, with a regular mode, of a hard link */
	uint32_t inode;       /* cpio, rpm: equal for hard links; 0: its own. The last of them carries the
			   content */
};

/* ---- compression: gzip, xz, lzma, zstd, bzip2 and none; @level 0: the usual one ---- */
void pw_compress(struct buf *out, enum codec_kind kind, int level, struct bytes in);

/* ---- tar ---- */
enum pw_tar { PW_V7, PW_USTAR, PW_GNU, PW_PAX };
void pw_tar(struct buf *out, enum pw_tar dialect, const struct pw_file *files,
	    size_t n_files); /* with its end */
/* One header: @name is cut to fit; call pw_tar_sum() after a change of its bytes. Returns its offset in
 * @out. */
size_t pw_tar_header(struct buf *out, enum pw_tar dialect, const char *name, char type, uint64_t size);
void pw_tar_sum(struct buf *out, size_t header);
void pw_tar_body(struct buf *out, struct bytes content);           /* padded */
void pw_tar_pax(struct buf *out, char type, struct bytes records); /* 'x' or 'g', with its header */
void pw_pax_record(struct buf *out, const char *key, const char *value);
void pw_tar_end(struct buf *out);

/* ---- cpio ---- */
enum pw_cpio { PW_NEWC, PW_CRC, PW_ODC, PW_BIN_LITTLE, PW_BIN_BIG, PW_STRIPPED };
void pw_cpio(struct buf *out, enum pw_cpio format, const struct pw_file *files,
	     size_t n_files); /* with its trailer */

/* ---- Debian ---- */
void pw_ar_begin(struct buf *out);
void pw_ar_member(struct buf *out, const char *name, struct bytes content);

struct pw_deb {
	const char *name, *version, *arch; /* NULL: "sample", "1.0-1", "amd64" */
	const char *more;                  /* further lines of the control file, each with its newline */
	enum codec_kind control, data;
	int level;
	const struct pw_file *files;
	size_t n_files;
	struct bytes data_tar; /* not empty: instead of files */
	bool nested;           /* a gzipped tar of the members (.ipk) */
};
void pw_deb(struct buf *out, const struct pw_deb *d);

/* ---- rpm ---- */
struct pw_rpm {
	const char *name, *version, *release, *arch; /* NULL: "sample", "1.0", "1", "x86_64" */
	int format;    /* 3 (whole names), 4, 6 (stripped cpio, 64-bit sizes); 0: 4 */
	bool stripped; /* also in 4 */
	enum codec_kind codec;
	int level;
	const struct pw_file *files;
	size_t n_files;
	const char *const *build_ids; /* hex, for the provides "debuginfo(build-id)" */
	size_t n_build_ids;
	struct bytes payload;       /* not empty: the cpio, instead of one of files */
	const char *payload_digest; /* hex, of the bytes that pw_rpm() puts after the header; NULL: none */
	uint32_t digest_kind;       /* 8: SHA-256; 0: not named, as in v6 */
};
void pw_rpm(struct buf *out, const struct pw_rpm *r);

/* A tag store, for wrong headers. */
struct pw_tags {
	struct buf index, data;
	uint32_t n;
};
void pw_tag_u16(struct pw_tags *t, uint32_t tag, const uint16_t *v, size_t n);
void pw_tag_u32(struct pw_tags *t, uint32_t tag, const uint32_t *v, size_t n);
void pw_tag_u64(struct pw_tags *t, uint32_t tag, const uint64_t *v, size_t n);
void pw_tag_text(struct pw_tags *t, uint32_t tag, const char *s);
void pw_tag_texts(struct pw_tags *t, uint32_t tag, const char *const *s, size_t n);
void pw_tag_raw(struct pw_tags *t, uint32_t tag, uint32_t type, uint32_t off,
		uint32_t count); /* the index entry alone */
void pw_rpm_lead(struct buf *out, const char *name);
void pw_rpm_header(struct buf *out, struct pw_tags *t); /* frees @t */
