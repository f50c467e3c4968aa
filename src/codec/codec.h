/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codec: compressed bytes as streams and as sources.
 *
 * There are three ways to read gzip (RFC 1952), xz and .lzma, zstd (RFC 8878) and bzip2:
 *
 *   codec_stream_open()  from start to end, once
 *   codec_scan_open()    the same, and collects *resume points*: places where decoding can start again
 *   codec_source_open()  at any offset, by starting at the nearest resume point
 *
 * The decoded bytes between two resume points are a *span*. The spans of xz are its blocks (its own index
 * names them: their resume points are a list of offsets). A span of zstd starts with a dictionary that
 * carries the decoder's state and only those bytes of history that the span refers to; of gzip with a bit
 * position and 32 KiB of history; of bzip2 with a bit position; of seekable zstd and of files of many frames
 * or members at a frame. docs/formats/resume-points.md has the format. The decoders are unmodified zlib,
 * liblzma, libzstd, libbz2.
 *
 * Concatenated gzip members, xz streams (with padding), zstd frames (skippable ones too) and bzip2 streams
 * are one content. Bytes after the last one that start none of these are ERR_INVALID, except zeros.
 */
#pragma once

#include "io/io.h"

enum codec_kind {
	CODEC_NONE = 0, /* not compressed, or in an unknown format */
	CODEC_GZIP,
	CODEC_XZ,
	CODEC_LZMA, /* .lzma, "LZMA alone" */
	CODEC_ZSTD,
	CODEC_BZIP2,
	CODEC_N_KINDS
};

/* Detect by the first bytes (16 are enough). .lzma has no magic: it is tried last, by a plausible header. */
enum codec_kind codec_detect(struct bytes head);
/* The same without .lzma, whose header may be a message of protobuf or any other data. */
enum codec_kind codec_detect_magic(struct bytes head);
/* Detect by the bytes at @off. */
int codec_detect_at(struct source *src, uint64_t off, enum source_hint hint, enum codec_kind *ret,
		    struct err *err);
const char *codec_name(enum codec_kind kind); /* "xz"; "none" */
/* The names that rpm and dpkg use: gzip gz xz lzma zstd zst bzip2 bz2; else CODEC_NONE. */
enum codec_kind codec_by_name(struct str name);

/* The memory limit of one decoder: a larger window or dictionary is ERR_LIMIT. */
#define CODEC_MAX_WINDOW MIB(512)

/* ---- sequential ---- */

/* The decoded bytes of @raw. Takes @raw, also on failure. CODEC_NONE returns @raw itself. The stream has
 * `next`. */
int codec_stream_open(enum codec_kind kind, struct stream *raw, struct stream **ret, struct err *err);

/* Decode a small input (a section, a control file) at once: more than @max decoded bytes is ERR_LIMIT. */
int codec_decode_all(enum codec_kind kind, struct bytes in, size_t max, struct buf *ret, struct err *err);
/* The same; @hold grants the memory of @ret, which is empty, as it grows. The caller subtracts ret->room when it
 * frees it. */
struct budget_hold;
int codec_decode_held(enum codec_kind kind, struct bytes in, size_t max, struct budget_hold *hold,
		      struct buf *ret, struct err *err);

/* ---- the scanning pass ---- */

struct codec_scan;

struct codec_scan_options {
	uint64_t spacing;  /* decoded bytes between points; 0: the codec's default (zstd max(32 MiB, 4
			      windows), gzip 16 MiB, bzip2 1 MiB) */
	uint64_t min_size; /* a content of fewer decoded bytes gets no points; 0: the codec's default (zstd
			      64 MiB, gzip 16, bzip2 1) */
	unsigned budget_percent; /* zstd: open no more points once they take this percentage of the
				    compressed size; 0: the default, 8 */
	/* Helper threads that the scan may start (to decode ahead, to mark); 0: none. They read @raw too,
	 * concurrently. */
	unsigned threads;
};

/*
 * Decode @range of @raw and collect points. @raw is borrowed until close; until then only the scan uses it.
 * Memory is bounded by a few windows or blocks; the implementations name their bounds.
 */
int codec_scan_open(enum codec_kind kind, struct source *raw, struct byte_range range,
		    const struct codec_scan_options *opts, struct codec_scan **ret, struct err *err);
/* The decoded bytes. The stream belongs to the scan; its `next` does not copy. */
struct stream *codec_scan_stream(struct codec_scan *s);
/*
 * Report a landmark: something large that will be requested as a whole starts at the decoded offset @off,
 * which is in the last delivered chunk or after it. If the codec can, it puts a point at the landmark or
 * shortly before it.
 */
void codec_scan_landmark(struct codec_scan *s, uint64_t off);
/*
 * Append points for all bytes decoded so far to @ret, in the format of resume-points.md. After the stream's
 * clean end they cover everything and *ret_complete is true; before it, the call is allowed at any time
 * between reads (a request waits for a member that has just passed). *ret_why, if not NULL, is a static
 * string: the reason why there is no point but the start (content too small, or not possible with this
 * codec); the points then hold only the sums that reads are checked by. CODEC_NO_POINTS: not even these.
 */
enum { CODEC_NO_POINTS = 1 };
int codec_scan_points(struct codec_scan *s, struct buf *ret, bool *ret_complete, const char **ret_why,
		      struct err *err);
/*
 * All bytes before this decoded offset have been verified by the format's own checksums, as far as it has
 * any. A checksum is stored after its block (xz, bzip2), frame (zstd) or member (gzip): bytes after the last
 * verified one may still turn out to be damaged.
 */
uint64_t codec_scan_checked(const struct codec_scan *s);
/* Give helper threads this nice value, as pool_renice(). The thread that reads is the caller's. */
void codec_scan_renice(struct codec_scan *s, int nice);
void codec_scan_close(struct codec_scan *s); /* takes NULL */

/* ---- random access ---- */

/*
 * A cache of decoded chunks and of decoders that stopped half-way, shared by all sources of a process. Safe
 * for many threads, bounded in bytes. A parked decoder counts with its window.
 */
struct codec_cache;
struct codec_cache *codec_cache_new(size_t max_bytes);
void codec_cache_free(struct codec_cache *c);

struct codec_source_options {
	uint64_t size;             /* decoded size */
	struct bytes points;       /* from codec_scan_points(), borrowed until close; empty: none */
	struct codec_cache *cache; /* NULL: no cache */
	uint64_t cache_id;         /* identifies this content in the cache: never the same for two contents */
	struct pool *helpers;      /* NULL: one thread. Else SOURCE_SEQUENTIAL reads make this pool decode the
			         following spans ahead */
	unsigned max_ahead;        /* spans decoded ahead at most; each costs its decoded size */
	uint64_t read_end; /* sequential reads stop here: nothing after it is decoded ahead; 0: the end */
};

/*
 * The decoded content of @raw (all of it: pass a part) as a source. Takes @raw, also on failure. Without
 * points, a read starts at the beginning, or where the last one ended. With points every byte is checked
 * against their sums before it is delivered: a mismatch is ERR_CHANGED. Points that end before @size (made
 * during the scan) are ERR_INVALID.
 *
 * @raw is read by this source's thread and, with helpers, by theirs: its read op must then be safe for
 * concurrent calls, as that of a plain file and of its parts is (pread).
 */
int codec_source_open(enum codec_kind kind, struct source *raw, const struct codec_source_options *opts,
		      struct source **ret, struct err *err);

/* ---- compressing a buffer; the result is appended to @out ---- */

int codec_pack_gzip(struct bytes in, int level, struct buf *out, struct err *err); /* 1 (fast) to 9 */
/* The same for bytes as they come; the file goes to @out in chunks, in order. */
struct codec_gzip;
struct codec_gzip *codec_gzip_new(int level, int (*out)(void *arg, struct bytes b, struct err *err),
				  void *arg, struct err *err); /* NULL: no memory */
int codec_gzip_write(struct codec_gzip *g, struct bytes b, struct err *err);
int codec_gzip_end(struct codec_gzip *g, struct err *err); /* no more writes */
void codec_gzip_free(struct codec_gzip *g);                /* takes NULL */
/* The frame header holds the decoded size. */
int codec_pack_zstd(struct bytes in, int level, struct buf *out, struct err *err);

/* ---- zstd in frames, with a seek table ---- */

/*
 * The format for files that lode writes and reads at random: independent zstd frames of CODEC_FRAME_SIZE
 * decoded bytes each, with checksums, followed by the seek table of zstd's seekable format. Any zstd unpacks
 * it.
 */
#define CODEC_FRAME_SIZE KIB(256)

struct codec_frames;
/* The file goes to @out in chunks, in order. @level: of zstd. */
struct codec_frames *codec_frames_new(int level, int (*out)(void *arg, struct bytes b, struct err *err),
				      void *arg);
int codec_frames_write(struct codec_frames *f, struct bytes b, struct err *err);
int codec_frames_end(struct codec_frames *f,
		     struct err *err);          /* the last frame and the table: no more writes */
void codec_frames_free(struct codec_frames *f); /* takes NULL */
/*
 * Call before the first write: continue a file that another writer began. @raw holds its bytes, complete or
 * cut anywhere. Whole frames are accepted up to the first that is cut or damaged; their decoded bytes go to
 * @sink in order (its failure is returned). *ret_raw is the length of the valid prefix; bytes after it are
 * ignored.
 */
int codec_frames_resume(struct codec_frames *f, struct source *raw,
			int (*fn)(void *arg, struct bytes b, struct err *err), void *arg, uint64_t *ret_raw,
			struct err *err);
/*
 * The decoded bytes of such a file, also of another writer's if its frames decode to at most CODEC_FRAME_MAX.
 * Takes @raw, also on failure. A read decodes a whole frame and verifies its checksum before it delivers a
 * byte of it. A missing or inconsistent table is ERR_INVALID.
 */
#define CODEC_FRAME_MAX MIB(8)
int codec_frames_open(struct source *raw, struct source **ret, struct err *err);

/* Facts about points, for `lode inspect`. */
struct codec_points_info {
	enum codec_kind kind;
	uint32_t n_spans;
	uint64_t decoded_size, size; /* of the content; of the points themselves */
	uint64_t max_span;           /* of the longest span, in decoded bytes */
};
/* Are they whole, with all payloads? ERR_INVALID. Reads all of them. */
int codec_points_check(struct bytes points, struct err *err);
int codec_points_info(struct bytes points, struct codec_points_info *ret, struct err *err);
