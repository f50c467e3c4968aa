/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interfaces inside codec: what the shared files (stream.c, scan.c, source.c, points.c, cache.c) require
 * of each codec (gzip.c, xz.c, zstd*.c, bzip2.c). codec_table has one row per codec; one more codec is a file
 * and a row.
 */
#pragma once

#include "codec/codec.h"

/*
 * Decoded content is verified and cached in *chunks*: each CODEC_CHUNK decoded bytes from the start of a span
 * are one; the last one of a span is shorter. The points hold a sum of each, so that a read from the middle
 * is verified as strictly as a read of the whole.
 */
#define CODEC_CHUNK KIB(128)

/*
 * A span: decoded bytes [out, out_end) come from the compressed bytes [in, in_end) of the content, decodable
 * without anything before them. `payload` is the additional state that its codec needs (a dictionary, a bit
 * position with a window); empty where the position alone is enough (the start of the content, of a frame, of
 * a member).
 */
struct codec_span {
	uint64_t in, in_end;
	uint64_t out, out_end;
	struct bytes payload; /* borrowed from the points, or from the scan */
	uint32_t payload_sum; /* set by points.c; codec_span_start() verifies the payload by it; 0: no
			         check */
	struct bytes sums;    /* 4 bytes a chunk, from struct codec_sums; empty: none; borrowed as the
			         payload is */
};

/* The spans of a scan, in order. */
struct codec_spans {
	struct codec_span *v;
	size_t n;
	const char *why; /* the reason why there is only one, or none; static */
};

/*
 * The sums of the chunks, in the order of the content. A scan feeds all its decoded bytes and cuts between
 * two spans. Zeroed is empty.
 */
struct codec_sums {
	struct buf done;           /* 4 bytes a chunk, little endian */
	struct hash64_state state; /* of the unfinished chunk */
	size_t fill;               /* bytes in the unfinished chunk */
};
void codec_sums_feed(struct codec_sums *s, const void *p, size_t n);
void codec_sums_cut(struct codec_sums *s);
/* Call right after a cut: the position of the first sum of the span that starts here. */
size_t codec_sums_mark(const struct codec_sums *s);
/* The sums from @mark to @end (another mark), or from @mark to now, including the unfinished chunk. The view
 * is valid until the next call. */
struct bytes codec_sums_between(struct codec_sums *s, size_t mark, size_t end);
struct bytes codec_sums_since(struct codec_sums *s, size_t mark);
void codec_sums_done(struct codec_sums *s);
/* True also when there are no sums. */
bool codec_sums_match(struct bytes sums, size_t chunk, const void *p, size_t n);

/*
 * The decoding step that filter.c needs for one member (gzip), stream (xz, bzip2) or frame after the other;
 * it does no input or output itself.
 */
struct coder;
enum { CODER_END = 1 };
struct coder_ops {
	/*
	 * Decode from *@in, which is advanced, to @out, up to @room > 0 bytes. CODER_END: the member's clean
	 * end was reached; the rest of *@in is after it. Neither input consumed nor output produced: it needs
	 * more input.
	 */
	int (*step)(struct coder *c, struct bytes *in, uint8_t *out, size_t room, size_t *ret_got,
		    struct err *err);
	int (*restart)(struct coder *c, struct err *err); /* for the next member; NULL: only one is allowed */
	void (*close)(struct coder *c);
};
struct coder {
	const struct coder_ops *ops;
};
/* The bytes of all members in @raw. Takes both. */
struct stream *filter_new(struct stream *raw, struct coder *c);

/* Decodes one span from its start. It belongs to one thread at a time; it can be parked and continue in
 * another thread. */
struct span_decoder {
	const struct codec_ops *ops;
	/*
	 * Borrowed. A parked decoder outlives the source that opened it: its next user sets this to a source
	 * with the same bytes. So always read through this field, and keep no other pointer to the source.
	 */
	struct source *raw;
	size_t weight; /* memory in use, approximately */
};

/* A scan: collects points while the content streams by. */
struct codec_scan {
	/* First: codec_scan_stream() returns it. It has `next`; its close op does nothing. */
	struct stream stream;
	const struct codec_ops *ops;
	enum codec_kind kind;
	struct codec_scan_options opts; /* defaults filled in */
	struct source *raw;             /* borrowed */
	struct byte_range range;        /* the content in it */
	uint64_t out;                   /* decoded and delivered so far */
	uint64_t checked;               /* codec_scan_checked(); may be larger than out */
	bool ended;                     /* the clean end was seen */
};
/* Ops for a scan's stream: read by means of next; a close that does nothing, since the stream is a part of
 * the scan. */
int codec_scan_read(struct stream *s, void *buf, size_t n, size_t *ret_got, struct err *err);
void codec_scan_stays(struct stream *s);

struct codec_ops {
	enum codec_kind kind;
	const char *name;
	uint64_t default_spacing, default_min_size;
	/* Decoding is so slow that bytes decoded on the way to an offset are worth caching. */
	bool slow;

	/* Sequential decoding. Takes @raw. */
	int (*stream_open)(struct stream *raw, struct stream **ret, struct err *err);

	/*
	 * The scan. scan_open allocates the codec's own struct, which begins with a struct codec_scan; scan.c
	 * sets the common fields after the call; the stream's ops are the codec's. @opts has the defaults
	 * filled in. NULL, or CODEC_NO_POINTS: this codec, or this content, gives no points; scan.c then
	 * wraps stream_open.
	 */
	int (*scan_open)(struct source *raw, struct byte_range range, const struct codec_scan_options *opts,
			 struct codec_scan **ret, struct err *err);
	void (*scan_landmark)(struct codec_scan *s, uint64_t off); /* NULL: ignored */
	/*
	 * The spans so far, in order, without a gap, into @a: at least the delivered bytes; after the end of
	 * the pass all. A content too small for points is one span from its start, for the sake of its sums;
	 * ret->why is then the reason why there is only one. CODEC_NO_POINTS with ret->why: no spans at all.
	 * Payloads and sums stay valid until the next read or close.
	 */
	int (*scan_spans)(struct codec_scan *s, struct arena *a, struct codec_spans *ret, struct err *err);
	void (*scan_renice)(struct codec_scan *s, int nice); /* NULL: no helpers, or short work */
	void (*scan_close)(struct codec_scan *s);

	/*
	 * Start decoding @span of the content @raw (a source whose byte 0 is the content's first). The span
	 * and its payload are borrowed for the call only. The thread that uses the decoder calls raw's read.
	 */
	int (*span_open)(struct source *raw, const struct codec_span *span, struct span_decoder **ret,
			 struct err *err);
	/* The next decoded bytes: up to @n > 0, at least 1 before out_end; never beyond out_end. @buf NULL:
	 * discard them. */
	int (*span_read)(struct span_decoder *d, void *buf, size_t n, size_t *ret_got, struct err *err);
	void (*span_close)(struct span_decoder *d);
};

/* A buffered reader of a span's compressed bytes. */
#define SPAN_INPUT_SIZE KIB(64)
struct span_input {
	uint64_t at, end; /* not yet fetched */
	struct bytes b;   /* read and not yet consumed: the consumer advances it */
	uint8_t buf[SPAN_INPUT_SIZE];
};
/* Have at least @n bytes (<= SPAN_INPUT_SIZE) in b, or as many as the buffer takes when @n is 0. An early end
 * is ERR_INVALID. */
int span_input_fetch(struct span_input *in, struct source *raw, size_t n, struct err *err);
/* Consume @n bytes of b. */
static inline void span_input_use(struct span_input *in, size_t n)
{
	in->b.p += n;
	in->b.size -= n;
}
/* The offset of the first byte of b. */
static inline uint64_t span_input_pos(const struct span_input *in)
{
	return in->at - in->b.size;
}

/* Verify the payload's sum, then call ops->span_open(). A payload that does not match is ERR_INVALID. */
int codec_span_start(const struct codec_ops *ops, struct source *raw, const struct codec_span *span,
		     struct span_decoder **ret, struct err *err);
/*
 * A decoder for a span that starts where the content does, over the codec's stream_open(): for span_open() of
 * codecs without a better way.
 */
int codec_span_from_start(const struct codec_ops *ops, struct source *raw, const struct codec_span *span,
			  struct span_decoder **ret, struct err *err);

/* Points in their stored form: docs/formats/resume-points.md. */
struct codec_points {
	enum codec_kind kind;
	bool complete;
	uint64_t decoded_size;
	struct codec_span *spans; /* owned; their payloads and sums point into the bytes that were read */
	size_t n_spans;
};
/*
 * The most spans of an xz file of this decoded size: each reader of one of its members has a table of them. Blocks that cannot
 * be joined since others, or empty ones, are between them are few in honest files.
 */
#define CODEC_XZ_SPAN_MIN    MIB(1)
#define CODEC_XZ_SPANS_SPARE 4096u
static inline uint64_t codec_xz_spans_max(uint64_t decoded_size)
{
	return decoded_size / CODEC_XZ_SPAN_MIN + CODEC_XZ_SPANS_SPARE;
}
void codec_points_write(const struct codec_points *p, struct buf *ret);
int codec_points_read(struct bytes b, struct codec_points *ret, struct err *err);
void codec_points_done(struct codec_points *p);

extern const struct codec_ops codec_gzip, codec_xz, codec_lzma, codec_zstd, codec_bzip2;
const struct codec_ops *codec_ops_of(enum codec_kind kind); /* NULL for CODEC_NONE */
