/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interfaces inside codec's zstd half. Terms:
 *
 * boundary  between two blocks of a frame, where decoding could continue if the decoder's state were known
 * entropy   the part of that state that blocks hand on: the Huffman tree of literals and three FSE tables
 * repcodes  the three last offsets, which sequences may reference by number
 * point     a boundary of which entropy, repcodes and the referenced part of the window are kept
 *
 * Sections in comments are those of RFC 8878. These parsers read bytes that libzstd has decoded before, but
 * they do not trust them: a construct that they do not understand is a *doubt*, returned as a static string.
 * A doubt costs resume points, never the scan.
 */
#pragma once

#include "codec/internal.h"

#define ZSTD_FRAME_HEADER_MAX 18
#define ZSTD_BLOCK_HEADER     3
#define ZSTD_BLOCK_MAX        KIB(128)
#define ZSTD_MAX_WINDOW_LOG   29 /* CODEC_MAX_WINDOW */

/* ---- zstd_frames_write.c, zstd_frames_resume.c, zstd_frames_read.c: the seekable format ---- */

#define ZSTD_SEEK_SKIPPABLE  0x184d2a5eu
#define ZSTD_SEEK_MAGIC      0x8f92eab1u
#define ZSTD_SEEK_FOOTER     9
#define ZSTD_SEEK_MAX_FRAMES (1u << 22) /* the format itself allows 2^27: 1 GiB of table */

/* Record a frame that another writer has written. */
int zstd_frames_add(struct codec_frames *f, size_t raw_size, size_t size, struct err *err);

/* ---- zstd_frame.c: frames ---- */

#define ZSTD_SIZE_UNKNOWN UINT64_MAX

struct zstd_frame {
	uint64_t window;       /* of a single-segment frame: the content's size */
	uint64_t content_size; /* or ZSTD_SIZE_UNKNOWN */
	uint32_t dict_id;      /* 0: none */
	unsigned header_size;
	bool checksum;
};

enum zstd_block_type { ZSTD_BLOCK_RAW, ZSTD_BLOCK_RLE, ZSTD_BLOCK_COMPRESSED, ZSTD_BLOCK_RESERVED };

struct zstd_block_header {
	enum zstd_block_type type;
	bool last;
	uint32_t size;    /* as in the header: for RLE, the decoded size */
	uint32_t content; /* bytes after the header */
};

/* The kind of bytes that starts here, by the first four bytes (fewer at the end of the input). */
enum zstd_what {
	ZSTD_WHAT_FRAME,
	ZSTD_WHAT_SKIPPABLE,
	ZSTD_WHAT_LEGACY, /* a frame of a format before RFC 8878 */
	ZSTD_WHAT_ZEROS,  /* padding */
	ZSTD_WHAT_END,
	ZSTD_WHAT_OTHER,
};
enum zstd_what zstd_what(struct bytes head);

/* Outcome: @head ends within the header (at most ZSTD_FRAME_HEADER_MAX bytes are needed). */
enum { ZSTD_FRAME_SHORT = 1 };
/* @at: the offset of @head, for messages. A window over CODEC_MAX_WINDOW is ERR_LIMIT; the caller refuses
 * frames with a dictionary. */
int zstd_frame_parse(struct bytes head, uint64_t at, struct zstd_frame *ret, struct err *err);
struct zstd_block_header zstd_block_header(const uint8_t p[ZSTD_BLOCK_HEADER]);
/* The descriptor of the smallest window of at least @window bytes. */
uint8_t zstd_window_byte(uint64_t window);
uint64_t zstd_window_size(uint8_t byte);

/* ---- zstd_util.c: errors and memory ---- */

/* @code is an error code of libzstd: ERR_LIMIT for memory and window, else ERR_INVALID. Returns -1. */
int zstd_err(struct err *err, size_t code);
/* Zeroed memory whose pages become real when they are touched; NULL when there is none. */
void *zstd_map(size_t size);
void zstd_unmap(void *p, size_t size); /* takes NULL */

/* ---- zstd_fse.c: FSE tables (4.1) ---- */

/* In the order of the sequences' header, which is not that of a dictionary. */
enum zstd_table_id { ZSTD_LL, ZSTD_OF, ZSTD_ML, ZSTD_N_TABLES };
enum zstd_table_kind { ZSTD_TABLE_NONE, ZSTD_TABLE_PREDEFINED, ZSTD_TABLE_RLE, ZSTD_TABLE_FSE };

/* 53 symbols of at most 10 bits and 2 more for a zero are 80 bytes. */
#define ZSTD_TABLE_DESC_MAX 88
#define ZSTD_SYMBOLS_MAX    53
#define ZSTD_TREE_DESC_MAX  129

/* A table by its description, which is a few bytes and therefore kept instead of the table. */
struct zstd_table {
	uint8_t kind;                      /* enum zstd_table_kind */
	uint8_t size;                      /* of desc */
	uint32_t serial;                   /* equal numbers mean equal tables */
	uint8_t desc[ZSTD_TABLE_DESC_MAX]; /* FSE: verbatim; RLE: the symbol */
};

struct zstd_counts {
	unsigned log, n_symbols;
	int16_t count[ZSTD_SYMBOLS_MAX]; /* -1: "less than one" */
};

/* Read a description (4.1.1) of @table at the start of @in; *ret_size is its length. NULL, or the doubt. */
const char *zstd_counts_read(enum zstd_table_id table, struct bytes in, struct zstd_counts *ret,
			     size_t *ret_size);
/* The description of a predefined table (3.1.1.3.2.2). */
struct bytes zstd_predefined(enum zstd_table_id table);

/* One state of a decoding table, with the meaning of its symbol. */
struct zstd_state {
	uint16_t next;
	uint8_t bits;  /* to read and add to next */
	uint8_t extra; /* to read and add to base */
	uint32_t base;
};

#define ZSTD_STATES_MAX 512

struct zstd_states {
	uint32_t serial; /* of the table that it was built from; 0: none */
	unsigned log;
	struct zstd_state s[ZSTD_STATES_MAX];
};
/* Does nothing when @states already are those of @table. NULL, or the doubt. */
const char *zstd_states_build(struct zstd_states *states, enum zstd_table_id id,
			      const struct zstd_table *table);

/* ---- zstd_block.c: a compressed block up to its sequences ---- */

struct zstd_entropy {
	uint8_t tree_size; /* 0: no tree so far */
	uint8_t tree[ZSTD_TREE_DESC_MAX];
	struct zstd_table table[ZSTD_N_TABLES];
	uint32_t last_serial; /* of the tables described so far */
};
void zstd_entropy_init(struct zstd_entropy *e); /* as at the start of a frame; serials go on */

struct zstd_block {
	uint32_t lit_size; /* decoded literals */
	uint32_t n_seq;
	uint8_t mode[ZSTD_N_TABLES]; /* enum zstd_mode, when n_seq > 0 */
	struct bytes bits;           /* the bitstream of the sequences, when n_seq > 0 */
};
enum zstd_mode { ZSTD_MODE_PREDEFINED, ZSTD_MODE_RLE, ZSTD_MODE_FSE, ZSTD_MODE_REPEAT };

/* Parse the content of a compressed block, and update @e. NULL, or the doubt: @e is then undefined. */
const char *zstd_block_parse(struct bytes content, struct zstd_entropy *e, struct zstd_block *ret);

/* ---- zstd_seq.c: sequences ---- */

/* The sequence decoder may read this many bytes before and after its input. They must be readable; their
 * values do not matter. */
#define ZSTD_SEQ_PAD 32

struct zstd_seq {
	struct zstd_states table[ZSTD_N_TABLES];
};
const char *zstd_seq_prepare(struct zstd_seq *d, const struct zstd_table table[ZSTD_N_TABLES]);

/*
 * The effect of a block on the repcodes, independent of their values before. A value below ZSTD_REP_IN is an
 * offset; others mean "the incoming repcode n minus a little" and are resolved by zstd_rep_chain().
 */
#define ZSTD_REP_IN 0x80000000u
struct zstd_rep {
	uint32_t r[3];
};
extern const struct zstd_rep zstd_rep_any;   /* three unknown ones */
extern const struct zstd_rep zstd_rep_start; /* at a frame's start: 1, 4, 8 */
bool zstd_rep_known(const struct zstd_rep *r);
/* Apply @then after @first. False: an offset would be 0. */
bool zstd_rep_chain(const struct zstd_rep *first, const struct zstd_rep *then, struct zstd_rep *ret);

/* Decode the sequences of @b; @rep holds the repcodes before and after. NULL, or the doubt. The tables are
 * those of zstd_seq_prepare(). */
const char *zstd_seq_reps(const struct zstd_seq *d, const struct zstd_block *b, struct zstd_rep *rep);

/*
 * Marks of the bytes before a point that later sequences refer to. Bit i stands for the byte at hist - i
 * before it, so that all comparisons of the hot loop are unsigned 64 bit.
 */
struct zstd_marks {
	uint64_t hist;  /* how far back a reference may go: the window, or less near a frame's start */
	uint64_t dist;  /* decoded bytes since the point, at the start of the next sequence */
	uint64_t *bits; /* (hist + 63) / 64 + 2 words */
};
/* The same, and mark. marks->dist grows by the number of decoded bytes. The repcodes must be known. */
const char *zstd_seq_mark(const struct zstd_seq *d, const struct zstd_block *b, struct zstd_rep *rep,
			  struct zstd_marks *marks);

/* ---- zstd_payload.c: the stored state of a point; docs/formats/resume-points.md has the format ---- */

/* History, in at most two parts (a ring that wraps): its last byte is the one before the point. */
struct zstd_history {
	struct bytes part[2];
};

/* The decoder's state at a point, all borrowed. @history has marks->hist bytes. */
struct zstd_point_state {
	const struct zstd_entropy *entropy;
	const struct zstd_rep *rep;
	uint64_t window;
	const struct zstd_marks *marks;
	struct zstd_history history;
};

struct zstd_payload_maker; /* reuses its compressor and its buffers */
struct zstd_payload_maker *zstd_payload_maker_new(void);
void zstd_payload_maker_free(struct zstd_payload_maker *m); /* takes NULL */
/*
 * Append the payload of point @p to @ret. A point that refers to more than a payload may hold is ERR_LIMIT.
 */
int zstd_payload_make(struct zstd_payload_maker *m, const struct zstd_point_state *p, struct buf *ret,
		      struct err *err);

struct zstd_payload {
	uint64_t window;
	uint8_t *dict; /* a dictionary in libzstd's format, then its history; mapped */
	size_t dict_size;
	size_t history; /* bytes of it that are history */
	size_t touched; /* bytes of it that are real memory, approximately */
};
/* @fill: the value of unreferenced history bytes; 0 costs nothing, tests pass others. */
int zstd_payload_open(struct bytes payload, uint8_t fill, struct zstd_payload *ret, struct err *err);
void zstd_payload_done(struct zstd_payload *p); /* takes a zeroed one */

/* ---- zstd_mark.c: the positions and the needs of points ---- */

/* One item that the scan has found, in the order of the content. Compressed and decoded bytes stay in the
 * scan's rings. */
struct zstd_item {
	enum {
		ZSTD_ITEM_FRAME,
		ZSTD_ITEM_BLOCK,
		ZSTD_ITEM_FRAME_END,
		ZSTD_ITEM_PLAIN,
		ZSTD_ITEM_GAP, /* a skippable frame, or zeros, before in_pos */
	} kind;
	uint64_t in, out; /* where it starts, in the content */
	bool landmark;    /* FRAME, BLOCK: a landmark is in it */
	/* FRAME */
	uint64_t window;
	const char *refused; /* the reason why there can be no points within it, or NULL */
	/* BLOCK; of PLAIN, whose structure is unknown, only n_out */
	uint8_t type;
	uint32_t n_out;
	struct bytes content;
	uint64_t in_pos; /* position of the content in the ring of compressed bytes */
};

struct zstd_marker;
struct zstd_marker *zstd_marker_new(const struct codec_scan_options *opts, uint64_t in_size);
void zstd_marker_free(struct zstd_marker *m); /* takes NULL */
/* The ring of decoded bytes: the byte at offset o is at (o - base) % size. To be set before the first item
 * and at frame starts. */
void zstd_marker_set_ring(struct zstd_marker *m, const uint8_t *ring, size_t size, uint64_t base);
void zstd_marker_feed(struct zstd_marker *m, const struct zstd_item *it);
/* The oldest bytes of the rings that the marker still needs, compressed and decoded. */
void zstd_marker_needs(const struct zstd_marker *m, uint64_t *ret_in_pos, uint64_t *ret_out);
/* The spans of the items so far; @in_end and @out_end are where they end. Allocated in @a. */
int zstd_marker_spans(struct zstd_marker *m, uint64_t in_end, uint64_t out_end, struct arena *a,
		      struct codec_spans *ret, struct err *err);

/* ---- zstd_lane.c: the marker, in its own thread or inline ---- */

struct zstd_lane;
/* With opts->threads a helper thread starts once there is enough to do. */
struct zstd_lane *zstd_lane_new(const struct codec_scan_options *opts, uint64_t in_size);
void zstd_lane_free(struct zstd_lane *l); /* takes NULL */
void zstd_lane_feed(struct zstd_lane *l, const struct zstd_item *it);
/* As codec_scan_renice(). */
void zstd_lane_renice(struct zstd_lane *l, int nice);
/* Wait until bytes of the rings before these positions are no longer needed. */
void zstd_lane_wait_in(struct zstd_lane *l, uint64_t in_pos);
void zstd_lane_wait_out(struct zstd_lane *l, uint64_t out);
/* Wait until everything is marked; the caller may use the marker until the next feed. */
struct zstd_marker *zstd_lane_settle(struct zstd_lane *l);

/* ---- zstd_input.c: compressed bytes, in a ring ---- */

struct zstd_input {
	struct source *raw; /* borrowed */
	uint64_t off, size; /* the content in it */
	uint64_t at;        /* of the content: the next byte to consume */
	uint64_t pos;       /* of the ring: the same; it grows for ever, and skips the end of the ring where a
		          block does not fit */
	size_t have;        /* bytes after it that were read */
	uint8_t *ring;      /* mapped, with ZSTD_SEQ_PAD on both sides */
	struct zstd_lane *lane; /* borrowed: its marker may still need older bytes */
};
int zstd_input_init(struct zstd_input *in, struct source *raw, struct byte_range range,
		    struct zstd_lane *lane, struct err *err);
void zstd_input_done(struct zstd_input *in);
/* A view into the ring of the next bytes, at least @n <= ZSTD_INPUT_MAX of them unless the content ends. */
int zstd_input_peek(struct zstd_input *in, size_t n, struct bytes *ret, struct err *err);
void zstd_input_take(struct zstd_input *in, size_t n);   /* consume peeked bytes */
void zstd_input_skip(struct zstd_input *in, uint64_t n); /* up to the content's end, without reading */
#define ZSTD_INPUT_MAX (ZSTD_BLOCK_HEADER + ZSTD_BLOCK_MAX)

/* ---- zstd_scan.c, zstd_span.c, zstd_stream.c: the rows of the table ---- */

int zstd_scan_open(struct source *raw, struct byte_range range, const struct codec_scan_options *opts,
		   struct codec_scan **ret, struct err *err);
void zstd_scan_landmark(struct codec_scan *s, uint64_t off);
int zstd_scan_spans(struct codec_scan *s, struct arena *a, struct codec_spans *ret, struct err *err);
void zstd_scan_renice(struct codec_scan *s, int nice);
void zstd_scan_close(struct codec_scan *s);

struct zstd_span_options {
	uint8_t fill;      /* as zstd_payload_open() */
	bool only_history; /* give libzstd the history alone: a test wants to see that its result is then
			      often wrong */
};
int zstd_span_open_with(struct source *raw, const struct codec_span *span,
			const struct zstd_span_options *opts, struct span_decoder **ret, struct err *err);
int zstd_span_open(struct source *raw, const struct codec_span *span, struct span_decoder **ret,
		   struct err *err);
int zstd_span_read(struct span_decoder *d, void *buf, size_t n, size_t *ret_got, struct err *err);
void zstd_span_close(struct span_decoder *d);

int zstd_stream_open(struct stream *raw, struct stream **ret, struct err *err);
