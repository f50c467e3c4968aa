/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codec's own: what the shared parts (stream.c, scan.c, source.c, points.c, cache.c) ask of each codec (gzip.c, xz.c, zstd*.c,
 * bzip2.c). One row per codec in codec_table; one more codec is a file and a row.
 */
#pragma once

#include "codec/codec.h"

/*
 * A span: decoded bytes [out, out_end) come from the compressed bytes [in, in_end) of the content, decodable without anything
 * before them. `payload` is what its codec needs beside that (a dictionary, a bit position with a window); empty where the
 * place alone is enough (xz blocks, frame starts).
 */
struct codec_span {
	uint64_t in, in_end;
	uint64_t out, out_end;
	uint64_t hash;        /* hash64() of the decoded bytes with seed 0; 0: the codec checks them itself */
	struct bytes payload; /* borrowed from the points, or from the scan */
};

/* Decodes one span from its start. Belongs to one thread at a time; can be parked and go on in another. */
struct span_decoder {
	const struct codec_ops *ops;
	size_t weight; /* memory it holds, about */
};

/* Collects while the content streams by. */
struct codec_scan {
	struct stream stream; /* first: codec_scan_stream() returns it. Its close op must do nothing. */
	const struct codec_ops *ops;
	struct codec_scan_options opts; /* defaults filled in */
	struct source *raw;             /* borrowed; the content is its [off, off + size) */
	uint64_t off, size;
	uint64_t out;                   /* decoded and delivered so far */
	bool ended;                     /* the clean end was seen */
};

struct codec_ops {
	enum codec_kind kind;
	const char *name;
	uint64_t default_spacing, default_min_size;

	/* Sequential. Takes @raw. */
	int (*stream_open)(struct stream *raw, struct stream **ret, struct err *err);

	/*
	 * The scan. scan_open allocates its own struct, which begins with a struct codec_scan, whose common fields scan.c
	 * fills in behind the call; the stream's ops are the codec's. NULL: no points for this codec; scan.c then
	 * wraps stream_open.
	 */
	int (*scan_open)(struct source *raw, uint64_t off, uint64_t size, const struct codec_scan_options *opts,
			 struct codec_scan **ret, struct err *err);
	void (*scan_landmark)(struct codec_scan *s, uint64_t off); /* NULL: of no use */
	/*
	 * The spans so far, in order, without a gap, into @a; those after the end of the pass cover everything. CODEC_NO_POINTS with
	 * *ret_why. Payloads stay valid until the next read or close.
	 */
	int (*scan_spans)(struct codec_scan *s, struct arena *a, struct codec_span **ret, size_t *ret_n, const char **ret_why,
			  struct err *err);
	void (*scan_close)(struct codec_scan *s);

	/*
	 * Start decoding @span of the content @raw (a source whose byte 0 is the content's first). @raw and the span's payload are
	 * borrowed until close; raw's read may be called by whichever thread uses the decoder.
	 */
	int (*span_open)(struct source *raw, const struct codec_span *span, struct span_decoder **ret, struct err *err);
	/* The next decoded bytes: up to @n > 0, at least 1 before out_end; never beyond out_end. @buf NULL: throw them away. */
	int (*span_read)(struct span_decoder *d, void *buf, size_t n, size_t *ret_got, struct err *err);
	void (*span_close)(struct span_decoder *d);
};

extern const struct codec_ops codec_gzip, codec_xz, codec_lzma, codec_zstd, codec_bzip2;
const struct codec_ops *codec_ops_of(enum codec_kind kind); /* NULL for CODEC_NONE */
