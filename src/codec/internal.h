/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codec's own: what the shared parts (stream.c, scan.c, source.c, points.c, cache.c) ask of each codec
 * (gzip.c, xz.c, zstd*.c, bzip2.c). One row per codec in codec_table; one more codec is a file and a row.
 */
#pragma once

#include "codec/codec.h"

/*
 * Decoded content is checked and kept by *chunks*: from the start of its span on, each CODEC_CHUNK decoded
 * bytes are one; the last one of a span is shorter. Each has a sum in the points, so that a read from the
 * middle is as sure as one of the whole.
 */
#define CODEC_CHUNK KIB(128)

/*
 * A span: decoded bytes [out, out_end) come from the compressed bytes [in, in_end) of the content, decodable
 * without anything before them. `payload` is what its codec needs beside that (a dictionary, a bit position
 * with a window); empty where the place alone is enough (the start of the content, of a frame, of a member).
 */
struct codec_span {
	uint64_t in, in_end;
	uint64_t out, out_end;
	struct bytes payload; /* borrowed from the points, or from the scan */
	uint32_t payload_sum; /* points.c's: what codec_span_start() checks the payload against; 0: nothing */
	struct bytes sums;    /* 4 bytes a chunk, from struct codec_sums; empty: none; borrowed likewise */
};

/*
 * The sums of the chunks, in the order of the content. A scan feeds everything that it decodes, and cuts
 * where a span ends and the next one starts. Zeroed is empty.
 */
struct codec_sums {
	struct buf done;           /* 4 bytes a chunk, little endian */
	struct hash64_state state; /* of the chunk at hand */
	size_t fill;               /* bytes in it */
};
void codec_sums_feed(struct codec_sums *s, const void *p, size_t n);
void codec_sums_cut(struct codec_sums *s);
/* Right behind a cut: where the sums of the span that starts here begin. */
size_t codec_sums_mark(const struct codec_sums *s);
/* The sums from @mark to @end (another mark), or to now with that of the unfinished chunk; good until the
 * next call. */
struct bytes codec_sums_between(struct codec_sums *s, size_t mark, size_t end);
struct bytes codec_sums_since(struct codec_sums *s, size_t mark);
void codec_sums_done(struct codec_sums *s);
/* Also true when there are none. */
bool codec_sums_match(struct bytes sums, size_t chunk, const void *p, size_t n);

/*
 * One member (gzip), stream (xz, bzip2) or frame after the other, as filter.c wants it: the decoding itself,
 * without any input or output of its own.
 */
struct coder;
enum { CODER_END = 1 };
struct coder_ops {
	/*
	 * Decode from *@in, which is moved on, to @out, up to @room > 0 bytes. CODER_END: the member's clean
	 * end was reached; what is left in *@in lies behind it. Neither input taken nor output given: it
	 * wants more input.
	 */
	int (*step)(struct coder *c, struct bytes *in, uint8_t *out, size_t room, size_t *ret_got,
		    struct err *err);
	int (*restart)(struct coder *c, struct err *err); /* for one more member; NULL: there can be none */
	void (*close)(struct coder *c);
};
struct coder {
	const struct coder_ops *ops;
};
/* The bytes of all members in @raw. Takes both. */
struct stream *filter_new(struct stream *raw, struct coder *c);

/* Decodes one span from its start. Belongs to one thread at a time; can be parked and go on in another. */
struct span_decoder {
	const struct codec_ops *ops;
	/*
	 * Borrowed. A decoder that was parked outlives the source that opened it: whoever takes it sets this
	 * to his own, which has the same bytes. So always read through here, and keep no other pointer to it.
	 */
	struct source *raw;
	size_t weight; /* memory it holds, about */
};

/* Collects while the content streams by. */
struct codec_scan {
	/* first: codec_scan_stream() returns it. Has `next`; its close op does nothing. */
	struct stream stream;
	const struct codec_ops *ops;
	enum codec_kind kind;
	struct codec_scan_options opts; /* defaults filled in */
	struct source *raw;             /* borrowed */
	struct byte_range range;        /* the content in it */
	uint64_t out;                   /* decoded and delivered so far */
	uint64_t checked;               /* codec_scan_checked(); may be ahead of out */
	bool ended;                     /* the clean end was seen */
};
/* For the ops of a scan's stream: read by next; and close, which is nothing, as the stream is a part of the
 * scan and goes with it. */
int codec_scan_read(struct stream *s, void *buf, size_t n, size_t *ret_got, struct err *err);
void codec_scan_stays(struct stream *s);

struct codec_ops {
	enum codec_kind kind;
	const char *name;
	uint64_t default_spacing, default_min_size;
	/* Decoding is so slow that what was decoded only to get to the right place is worth keeping. */
	bool slow;

	/* Sequential. Takes @raw. */
	int (*stream_open)(struct stream *raw, struct stream **ret, struct err *err);

	/*
	 * The scan. scan_open allocates its own struct, which begins with a struct codec_scan, whose common
	 * fields scan.c fills in behind the call; the stream's ops are the codec's. @opts has the defaults
	 * filled in. NULL, or CODEC_NO_POINTS: this codec, or this content, gives no points; scan.c then
	 * wraps stream_open.
	 */
	int (*scan_open)(struct source *raw, struct byte_range range, const struct codec_scan_options *opts,
			 struct codec_scan **ret, struct err *err);
	void (*scan_landmark)(struct codec_scan *s, uint64_t off); /* NULL: of no use */
	/*
	 * The spans so far, in order, without a gap, into @a: at least what was delivered; after the end of
	 * the pass all. What is too small for points is one span from its start, for the sake of its sums;
	 * *ret_why then says why there is only one. CODEC_NO_POINTS with *ret_why: not even that. Payloads
	 * and sums stay valid until the next read or close.
	 */
	int (*scan_spans)(struct codec_scan *s, struct arena *a, struct codec_span **ret, size_t *ret_n,
			  const char **ret_why, struct err *err);
	void (*scan_close)(struct codec_scan *s);

	/*
	 * Start decoding @span of the content @raw (a source whose byte 0 is the content's first). The span
	 * and its payload are borrowed for the call only. raw's read may be called by whichever thread uses
	 * the decoder.
	 */
	int (*span_open)(struct source *raw, const struct codec_span *span, struct span_decoder **ret,
			 struct err *err);
	/* The next decoded bytes: up to @n > 0, at least 1 before out_end; never beyond out_end. @buf NULL:
	 * throw them away. */
	int (*span_read)(struct span_decoder *d, void *buf, size_t n, size_t *ret_got, struct err *err);
	void (*span_close)(struct span_decoder *d);
};

/* The compressed bytes of a span, fetched as they are needed. */
#define SPAN_INPUT_SIZE KIB(64)
struct span_input {
	uint64_t at, end; /* not yet fetched */
	struct bytes b;   /* fetched and not yet used: whoever uses some moves it on */
	uint8_t buf[SPAN_INPUT_SIZE];
};
/* Have at least @n bytes (<= SPAN_INPUT_SIZE) in b, or all that are left when @n is 0. An early end is
 * ERR_INVALID. */
int span_input_fetch(struct span_input *in, struct source *raw, size_t n, struct err *err);
/* Where b starts. */
static inline uint64_t span_input_pos(const struct span_input *in)
{
	return in->at - in->b.size;
}

/* ops->span_open(), after a look at the payload's sum. A payload that does not fit is ERR_INVALID. */
int codec_span_start(const struct codec_ops *ops, struct source *raw, const struct codec_span *span,
		     struct span_decoder **ret, struct err *err);
/*
 * The decoder of a span that starts where the content does, over the codec's stream_open(): for span_open()
 * of those that have nothing better for it.
 */
int codec_span_from_start(const struct codec_ops *ops, struct source *raw, const struct codec_span *span,
			  struct span_decoder **ret, struct err *err);

/* The points as they lie in a file: docs/formats/resume-points.md. */
struct codec_points {
	enum codec_kind kind;
	bool complete;
	uint64_t decoded_size;
	struct codec_span *spans; /* owned; what they point to lies in the bytes that were read */
	size_t n_spans;
};
void codec_points_write(const struct codec_points *p, struct buf *ret);
int codec_points_read(struct bytes b, struct codec_points *ret, struct err *err);
void codec_points_done(struct codec_points *p);

extern const struct codec_ops codec_gzip, codec_xz, codec_lzma, codec_zstd, codec_bzip2;
const struct codec_ops *codec_ops_of(enum codec_kind kind); /* NULL for CODEC_NONE */
