/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pkg: packages and archives: their descriptions, their members, and the package map that finds a member
 * again.
 *
 * Kinds: .deb .ddeb .ipk (ar: debian-binary, control.tar*, data.tar*; an .ipk may be a gzipped tar of the
 * same), .rpm (v3, v4, v6; cpio or, in v6 and large packages, the stripped cpio with file indices "07070X"),
 * .tar and .cpio in any compression (Arch's .pkg.tar.* are tars), and every other archive that libarchive
 * reads (zip, 7z, iso, ...).
 *
 * Reading a package is: pkg_open() reads the outer headers; pkg_reader_*() iterates over the members of the
 * decoded payload, which the caller provides as a stream (so that the same pass can collect resume points,
 * codec.h). No helper programs are run.
 */
#pragma once

#include "codec/codec.h"
#include "elf/elf.h"

enum pkg_kind {
	PKG_DEB = 1,
	PKG_RPM,
	PKG_TAR,
	PKG_CPIO,
	PKG_OTHER, /* through libarchive: no random access */
	PKG_N_KINDS
};
const char *pkg_kind_name(enum pkg_kind kind); /* "deb" */

enum { PKG_NOT_A_PACKAGE = 1, PKG_END = 2 };

/* Limits: more is ERR_LIMIT. */
#define PKG_MAX_HEADER  MIB(256)   /* rpm header, deb control archive decoded */
#define PKG_MAX_MEMBERS (1u << 20) /* each costs some 400 bytes of memory while a package is mapped */
#define PKG_MAX_NAME    KIB(64)
#define PKG_MAX_NAMES   MIB(128)             /* of all members and link targets together */
#define PKG_MAX_POINTS  MIB(1)               /* in a map */
#define PKG_MAX_SPARSE  (UINT64_C(16) << 30) /* expanded size of a sparse member */
/* Bytes that a payload may decode to: so many times its size, and more. A bomb of 50 KB would keep a thread for hours. */
#define PKG_MAX_FACTOR  1024u
#define PKG_MAX_DECODED (UINT64_C(64) << 30)

struct pkg_payload {
	enum codec_kind codec;
	uint64_t off, size; /* of the compressed payload in the package file */
	enum pkg_format {
		PKG_FORMAT_TAR,
		PKG_FORMAT_CPIO,
		PKG_FORMAT_OTHER,
		PKG_FORMAT_NESTED, /* an .ipk's second form: a tar that holds data.tar.*; its members are
				      read without random access */
	} format;
};

/* The description in a package. All strings and arrays are in the arena that was given to pkg_open(). */
struct pkg_info {
	enum pkg_kind kind;
	struct str name, version, arch, source_name; /* empty: unknown */
	struct pkg_payload payload;
	struct bytes payload_sha256; /* of the payload as stored, according to the header (rpm); empty:
				        unknown. Not verified here */
	/* From deb control's Build-Ids, or rpm's .build-id links and provides. May be empty. */
	struct build_id *build_ids;
	size_t n_build_ids;
	bool has_file_list; /* rpm: names, modes, sizes are known from the header (pkg_header_file) */
	struct pkg_header_file *files;
	size_t n_files;
};
struct pkg_header_file {
	struct str path; /* canonical, without leading slash */
	struct str link; /* of a symbolic link, else empty */
	uint64_t size;
	int64_t mtime;
	uint32_t mode;
	uint32_t content; /* index of the file that carries the content in the payload: another one for a
			     hard link */
	uint32_t n_links; /* names of its inode in this list; 0: not in the payload (a "ghost") */
};

/*
 * Read the headers before the payload. PKG_NOT_A_PACKAGE when it is none of these kinds. @name_hint is the
 * file's name (".tar" has no magic in old formats, ".lzma" none at all). Reads little: some KiB of a deb, the
 * header of an rpm.
 */
int pkg_open(struct source *src, struct str name_hint, struct arena *a, struct pkg_info *ret,
	     struct err *err);
/* By the file name's ending alone; 0: no known kind, not worth opening. */
enum pkg_kind pkg_kind_by_name(struct str name);

/* ---- members ---- */

enum pkg_type { PKG_FILE, PKG_DIR, PKG_SYMLINK, PKG_HARDLINK, PKG_SPECIAL };

#define PKG_NO_OFF UINT64_MAX

struct pkg_member {
	struct str path; /* canonical (no leading "./", "/" or ".."; see `unsafe`), any bytes; valid until the
			    next call */
	struct str link; /* target of a symbolic link as written; of a hard link the canonical path */
	enum pkg_type type;
	uint32_t mode;
	uint64_t size;
	int64_t mtime;
	uint64_t off; /* offset of its content in the decoded payload, or PKG_NO_OFF (other archives,
		         sparse members, empty) */
	bool unsafe;  /* the original name contained "..", which `path` no longer does. Never served by
		         that path */
	bool sparse;  /* size is the expanded size; the content is delivered expanded */
};

struct pkg_reader;
/*
 * Read members from @payload, the decoded payload (borrowed until close). For PKG_OTHER @payload is NULL and
 * @src, the package itself, is read through libarchive instead; @src is borrowed and otherwise unused. @info
 * must outlive the reader (rpm's stripped cpio takes names and sizes from the header).
 */
int pkg_reader_open(const struct pkg_info *info, struct stream *payload, struct source *src,
		    struct pkg_reader **ret, struct err *err);
/* The next member; unread content of the last one is skipped. PKG_END at the archive's proper end; a cut
 * archive is an error. */
int pkg_reader_next(struct pkg_reader *r, struct pkg_member *ret, struct err *err);
/*
 * The next chunk of the current member's content, without copying; empty at its end; valid until the next
 * call. After a failure the reader is unusable, with one exception: a member of PKG_OTHER whose compression
 * is not supported; then pkg_reader_next() continues.
 */
int pkg_reader_data(struct pkg_reader *r, struct bytes *ret, struct err *err);
void pkg_reader_close(struct pkg_reader *r); /* takes NULL */

/*
 * The content of member @number of a PKG_OTHER archive (or of a sparse member), as a source. A read before the
 * current position starts again at the archive's start. Takes @src, also on failure.
 */
int pkg_member_open_slow(struct source *src, const struct pkg_info *info, uint32_t number, uint64_t size,
			 struct source **ret, struct err *err);

/* ---- members by name, for commands ---- */

/*
 * Open the member @name of the package or archive @archive (borrowed for the call; its name is part of messages), copied
 * to a file without a name. Links are followed. The name may go on in an archive among the members:
 * "usr/lib/libx.a:y.o". An error lists the members with the names most like it. Of several members of one name it is the
 * first, and a line in the log says so if the archive is one of object files; "y.o[2]" is the second one, unless a member
 * has that whole name.
 */
int pkg_open_member(struct source *archive, struct str name, struct source **ret, struct err *err);
/*
 * Open the file at @path; where there is none, the member that @path names as ARCHIVE:MEMBER or ARCHIVE!MEMBER.
 * Outcome FILE_MISSING: neither is there.
 */
int pkg_open_path(const char *path, struct source **ret, struct err *err);

/* ---- the package map (docs/formats/package-map.md) ---- */

/*
 * One compact blob per package: identity, payload, members with their offsets, ELF facts. A builder makes it
 * during the deep pass, in the order of the payload. Encoded it is compressed and checksummed; decoded it is
 * read-only and can be shared by threads.
 */

/* Identifies a package: if these are the same, it is still the one that was mapped. The digest is of head and
 * tail. */
#define PKG_IDENTITY_PART KIB(64) /* of each */
struct pkg_identity {
	uint64_t size;
	int64_t mtime_ns;
	uint64_t inode;
	uint64_t digest;
};
int pkg_identity_read(struct source *src, const struct stat *st, struct pkg_identity *ret, struct err *err);
/* Whether size and digest are equal (mtime and inode may differ: a copy is accepted). */
bool pkg_identity_same(const struct pkg_identity *a, const struct pkg_identity *b);

struct pkg_entry { /* a regular file (or hard link to one) in the map */
	struct str path;
	uint32_t number; /* position in the archive */
	uint32_t mode;
	uint64_t size, off; /* PKG_NO_OFF as in pkg_member */
	int64_t mtime;
	enum codec_kind inner; /* .ko.xz and the like: the codec of the member itself; `elf` describes the
			          decoded file */
	uint64_t inner_size;   /* decoded size, if there is one */
	bool is_elf;
	struct elf_facts elf;
	/* Of a large ELF file, the ranges of its sections (elf_probe_places()), so that a section can be read
	 * without the tables. */
	const struct elf_place *places;
	uint32_t n_places; /* 0: not stored */
};

struct pkg_map_builder;
struct pkg_map_builder *pkg_map_builder_new(const struct pkg_info *info, const struct pkg_identity *id);
/* @e's strings and places are copied. Symbolic links are added by pkg_map_add_link (.build-id trees name
 * files by them). */
void pkg_map_add(struct pkg_map_builder *b, const struct pkg_entry *e);
void pkg_map_add_link(struct pkg_map_builder *b, struct str path, struct str target);
void pkg_map_set_decoded_size(struct pkg_map_builder *b, uint64_t size);
void pkg_map_encode(const struct pkg_map_builder *b, struct buf *ret);
/* Append resume points to the map in @blob, which pkg_map_encode() made; at most PKG_MAX_POINTS. */
void pkg_map_attach_points(struct buf *blob, struct bytes points);
void pkg_map_builder_free(struct pkg_map_builder *b);

struct pkg_map {
	struct pkg_identity identity;
	enum pkg_kind kind;
	struct str name, version, arch, source_name;
	struct pkg_payload payload;
	uint64_t decoded_size;
	struct pkg_entry *entries; /* sorted by path */
	uint32_t n_entries;
	struct pkg_link {
		struct str path, target;
	} * links; /* sorted by path */
	uint32_t n_links;
	struct bytes points; /* empty: stored elsewhere, or there are none */
	size_t weight;       /* bytes of memory */
};
/* Keeps no reference to @blob. A damaged or newer one is ERR_INVALID: map the package again. */
int pkg_map_decode(struct bytes blob, struct pkg_map **ret, struct err *err);
void pkg_map_free(struct pkg_map *m);
/* By canonical path without leading slash, following the map's links (at most 16). NULL: none. */
const struct pkg_entry *pkg_map_find(const struct pkg_map *m, struct str path);
const struct pkg_entry *pkg_map_by_number(const struct pkg_map *m, uint32_t number);

/*
 * A member's bytes as a source, over the package @src (taken, also on failure): payload part -> codec source
 * -> member part -> inner codec. @opts as for codec_source_open(), borrowed until close; its size is set
 * here, and its read_end is an offset in the member; 0: its end.
 */
int pkg_entry_open(const struct pkg_map *m, const struct pkg_entry *e, struct source *src,
		   const struct codec_source_options *opts, struct source **ret, struct err *err);
