/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codec: compressed bytes, as streams and as sources.
 *
 * Three ways to read gzip (RFC 1952), xz and .lzma, zstd (RFC 8878) and bzip2:
 *
 *   codec_stream_open()  from the start to the end, once
 *   codec_scan_open()    the same, and on the way collects *resume points*: places where decoding can start
 * again codec_source_open()  at any offset, by starting at the nearest resume point
 *
 * What is decoded between two resume points is a *span*. Spans of xz are its blocks (its own index names
 * them: their resume points are a list of places). A span of zstd starts with a dictionary that carries the
 * decoder's state and just those bytes of history that the span refers to; of gzip with a bit position and 32
 * KiB of history; of bzip2 with a bit position; of seekable zstd and of files of many frames or members at a
 * frame. docs/formats/resume-points.md has the format. The decoders are unmodified zlib, liblzma, libzstd,
 * libbz2.
 *
 * Concatenated gzip members, xz streams (with padding), zstd frames (skippable ones too) and bzip2 streams
 * are one content. Bytes behind the last one that start none of these are ERR_INVALID, except zeros.
 */
#pragma once

#include "io/io.h"

enum codec_kind {
	CODEC_NONE = 0, /* not compressed, or by nothing we know */
	CODEC_GZIP,
	CODEC_XZ,
	CODEC_LZMA, /* .lzma, "LZMA alone" */
	CODEC_ZSTD,
	CODEC_BZIP2,
	CODEC_N_KINDS
};

/* By the first bytes (16 are enough). .lzma has no magic: it is guessed last, by a plausible header. */
enum codec_kind codec_detect(struct bytes head);
/* By what lies at @off. */
int codec_detect_at(struct source *src, uint64_t off, enum source_hint hint, enum codec_kind *ret,
		    struct err *err);
const char *codec_name(enum codec_kind kind); /* "xz"; "none" */
/* rpm's and dpkg's words: gzip gz xz lzma zstd zst bzip2 bz2; else CODEC_NONE. */
enum codec_kind codec_by_name(struct str name);

/* What one decoder may take: a window or dictionary over this is ERR_LIMIT. */
#define CODEC_MAX_WINDOW MIB(512)

/* ---- sequential ---- */

/* The decoded bytes of @raw. Takes @raw, also on failure. CODEC_NONE passes through. The stream has `next`.
 */
int codec_stream_open(enum codec_kind kind, struct stream *raw, struct stream **ret, struct err *err);

/*
 * A small compressed thing, whole and at once (a section, a control file): more than @max decoded bytes is
 * ERR_LIMIT.
 */
int codec_decode_all(enum codec_kind kind, struct bytes in, size_t max, struct buf *ret, struct err *err);

/* ---- the scanning pass ---- */

struct codec_scan;

struct codec_scan_options {
	uint64_t spacing;  /* decoded bytes between points; 0: the codec's own (zstd max(32 MiB, 4 windows),
			      gzip 16 MiB, bzip2 1 MiB) */
	uint64_t min_size; /* no points within a content decoded to less than this; 0: the codec's own (zstd
			      64 MiB, gzip 16, bzip2 1) */
	unsigned budget_percent; /* zstd: open no more points once they take this part of the compressed size;
				    0: the default, 8 */
	/* Helper threads of its own that it may start (decode ahead, mark); 0: none. They read @raw too, at
	 * the same time. */
	unsigned threads;
};

/*
 * Decode @range of @raw, and collect. @raw is borrowed until close and used by the scan
 * alone. Memory: bounded by a few windows or blocks; named in the implementation.
 */
int codec_scan_open(enum codec_kind kind, struct source *raw, struct byte_range range,
		    const struct codec_scan_options *opts, struct codec_scan **ret, struct err *err);
/* The decoded bytes; the stream belongs to the scan. Has `next`, which does not copy. */
struct stream *codec_scan_stream(struct codec_scan *s);
/*
 * What reads the stream says: something large that will be asked for as a whole starts at this decoded
 * offset, which lies in the chunk that was delivered last, or behind it. A point will be put at or shortly
 * before it, if the codec can.
 */
void codec_scan_landmark(struct codec_scan *s, uint64_t off);
/*
 * Points for what was decoded so far, appended to @ret in the format of resume-points.md; after the stream's
 * clean end it covers all, and *ret_complete is true. Before the end it may be called at any time between
 * reads (a request waits for a member that has just passed). *ret_why, if not NULL, is a static string that
 * says why there is no point but the start (small, or the codec cannot): the points then hold only the sums
 * that reads are checked by. CODEC_NO_POINTS: not even these.
 */
enum { CODEC_NO_POINTS = 1 };
int codec_scan_points(struct codec_scan *s, struct buf *ret, bool *ret_complete, const char **ret_why,
		      struct err *err);
/*
 * What was decoded before this offset has been held against the format's own check sums, as far as it has
 * any. They stand behind a block (xz, bzip2), a frame (zstd) or a member (gzip): what lies behind the last
 * one that went by may still turn out to be damaged.
 */
uint64_t codec_scan_checked(const struct codec_scan *s);
void codec_scan_close(struct codec_scan *s); /* takes NULL */

/* ---- random access ---- */

/*
 * Decoded spans and decoders that stopped half-way, kept for whoever comes next; shared by all sources of a
 * process, safe for many threads, bounded in bytes. A decoder that is parked counts with its window.
 */
struct codec_cache;
struct codec_cache *codec_cache_new(size_t max_bytes);
void codec_cache_free(struct codec_cache *c);

struct codec_source_options {
	uint64_t size;             /* decoded size */
	struct bytes points;       /* from codec_scan_points(), borrowed until close; empty: none */
	struct codec_cache *cache; /* NULL: keep nothing */
	uint64_t cache_id;         /* names this very content in the cache: never the same for two */
	struct pool *helpers; /* NULL: one thread. Else SOURCE_SEQUENTIAL reads decode following spans on it,
				 ahead */
	unsigned max_ahead;   /* how many spans at most; each costs its decoded size */
	uint64_t read_end; /* sequential reads will not go beyond this: nothing behind it is decoded ahead; 0:
			      the end */
};

/*
 * The decoded content of @raw (all of it: pass a part) as a source. Takes @raw, also on failure. Without
 * points, a read starts at the beginning, or where the last one ended. With points every byte is checked
 * against their sums before it is delivered: bytes that do not fit are ERR_CHANGED. Points that end before
 * @size (made while the scan was under way) are ERR_INVALID.
 *
 * @raw is read by this source's thread and, with helpers, by theirs: its read op must then be safe for many
 * threads at once, as a plain file's and its parts' is (pread).
 */
int codec_source_open(enum codec_kind kind, struct source *raw, const struct codec_source_options *opts,
		      struct source **ret, struct err *err);

/* ---- compressing what is whole in memory: appended to @out ---- */

int codec_pack_gzip(struct bytes in, int level, struct buf *out, struct err *err); /* 1 (fast) to 9 */
/* With its size in the frame. */
int codec_pack_zstd(struct bytes in, int level, struct buf *out, struct err *err);

/* ---- zstd in frames, with a seek table ---- */

/*
 * What we write ourselves to be read at random: a file of independent zstd frames of CODEC_FRAME_SIZE decoded
 * bytes each, with check sums, and behind them the seek table of zstd's seekable format. Any zstd unpacks it.
 */
#define CODEC_FRAME_SIZE KIB(256)

struct codec_frames;
/* What is written goes to @out in chunks, in order. @level: of zstd. */
struct codec_frames *codec_frames_new(int level, int (*out)(void *arg, struct bytes b, struct err *err),
				      void *arg);
int codec_frames_write(struct codec_frames *f, struct bytes b, struct err *err);
int codec_frames_end(struct codec_frames *f,
		     struct err *err);          /* the last frame and the table: no more writes */
void codec_frames_free(struct codec_frames *f); /* takes NULL */
/*
 * Before the first write: go on behind what another one has written to @raw, all of it or up to any byte.
 * Whole frames are taken up to the first that is cut or damaged, @fn is told their decoded bytes in order
 * (its failure is handed on). *ret_raw is what they take of @raw: what lies behind is void.
 */
int codec_frames_resume(struct codec_frames *f, struct source *raw,
			int (*fn)(void *arg, struct bytes b, struct err *err), void *arg, uint64_t *ret_raw,
			struct err *err);
/*
 * The decoded bytes of such a file, also of another writer's whose frames decode to CODEC_FRAME_MAX at most.
 * Takes @raw, also on failure. A read decodes the frame that it lies in; its check sum holds before a byte of
 * it is delivered. No table, or one that does not fit: ERR_INVALID.
 */
#define CODEC_FRAME_MAX MIB(8)
int codec_frames_open(struct source *raw, struct source **ret, struct err *err);

/* What points hold, for `lode inspect`. */
struct codec_points_info {
	enum codec_kind kind;
	uint32_t n_spans;
	uint64_t decoded_size, size; /* of the content; of the points themselves */
	uint64_t max_span;           /* longest, decoded bytes */
};
int codec_points_info(struct bytes points, struct codec_points_info *ret, struct err *err);
