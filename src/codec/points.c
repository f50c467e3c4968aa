/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resume points in their stored form: a header, the table of spans, the sums, then the payloads. Header,
 * table and sums are small and verified as a whole when they are read; the payloads may be megabytes, so each
 * is verified when its span is started. docs/formats/resume-points.md describes every field.
 */
#include "codec/internal.h"

#include <assert.h>
#include <endian.h>
#include <stdlib.h>

#define MAGIC          0x50526f4cu /* "LoRP" */
#define VERSION        1
#define FLAG_COMPLETE  1
#define HEADER_SIZE    48
#define CHECK_OFF      40 /* of the checksum, the last field of the header */
#define CHUNK_LOG2     17
#define SUM_SIZE       4
#define INLINE_MAX     16 /* a payload up to this size is stored in the table */
#define ENTRY_SIZE_MIN 4

static_assert(CODEC_CHUNK == 1 << CHUNK_LOG2, "the chunks are part of the format");

/* ---- writing ---- */

static void put_uint(struct buf *b, uint64_t v, size_t size)
{
	v = htole64(v);
	buf_add(b, &v, size);
}

static void put_sleb(struct buf *b, int64_t v)
{
	for (;;) {
		uint8_t low = v & 0x7f;

		v >>= 7;
		if ((v == 0 && !(low & 0x40)) || (v == -1 && (low & 0x40))) {
			buf_add_char(b, (char)low);
			return;
		}
		buf_add_char(b, (char)(low | 0x80));
	}
}

/* Never 0, which means "not checked". */
static uint32_t payload_sum(struct bytes payload)
{
	uint32_t sum = (uint32_t)hash64(payload.p, payload.size, 0);

	return sum ? sum : 1;
}

static void put_span(struct buf *table, const struct codec_span *s, uint64_t in_before)
{
	put_sleb(table, (int64_t)(s->in - in_before));
	buf_add_uleb(table, s->in_end - s->in);
	buf_add_uleb(table, s->out_end - s->out);
	buf_add_uleb(table, s->payload.size);
	if (s->payload.size > INLINE_MAX)
		put_uint(table, payload_sum(s->payload), 4);
	else
		buf_add(table, s->payload.p, s->payload.size);
}

static uint64_t points_check(struct bytes b, size_t checked_size)
{
	struct hash64_state h;

	hash64_init(&h, 0);
	hash64_feed(&h, b.p, CHECK_OFF);
	hash64_feed(&h, b.p + HEADER_SIZE, checked_size - HEADER_SIZE);
	return hash64_end(&h);
}

void codec_points_write(const struct codec_points *p, struct buf *ret)
{
	AUTO(buf_done) struct buf table = { 0 };
	uint64_t in_before = 0, check;
	size_t start = ret->size, sums_size = 0, payloads_size = 0, table_end;

	for (size_t i = 0; i < p->n_spans; i++) {
		const struct codec_span *s = &p->spans[i];

		put_span(&table, s, in_before);
		in_before = s->in_end;
		sums_size += s->sums.size;
		if (s->payload.size > INLINE_MAX)
			payloads_size += s->payload.size;
	}
	table_end = HEADER_SIZE + table.size + sums_size;
	buf_reserve(ret, table_end + payloads_size);
	put_uint(ret, MAGIC, 4);
	put_uint(ret, VERSION, 1);
	put_uint(ret, p->kind, 1);
	put_uint(ret, CHUNK_LOG2, 1);
	put_uint(ret, p->complete ? FLAG_COMPLETE : 0, 1);
	put_uint(ret, p->n_spans, 4);
	put_uint(ret, table.size, 4);
	put_uint(ret, p->decoded_size, 8);
	put_uint(ret, sums_size / SUM_SIZE, 4);
	put_uint(ret, 0, 4);
	put_uint(ret, table_end + payloads_size, 8);
	put_uint(ret, 0, 8);
	buf_add(ret, table.p, table.size);
	for (size_t i = 0; i < p->n_spans; i++)
		buf_add(ret, p->spans[i].sums.p, p->spans[i].sums.size);
	for (size_t i = 0; i < p->n_spans; i++)
		if (p->spans[i].payload.size > INLINE_MAX)
			buf_add(ret, p->spans[i].payload.p, p->spans[i].payload.size);
	check = htole64(points_check(bytes_of(ret->p + start, ret->size - start), table_end));
	memcpy(ret->p + start + CHECK_OFF, &check, sizeof(check));
}

/* ---- reading ---- */

struct points_header {
	uint32_t n_spans, table_size, n_sums;
	uint64_t size;
};

static int points_read_header(struct cursor *c, struct bytes b, struct codec_points *p,
			      struct points_header *h, struct err *err)
{
	uint32_t magic = cursor_u32(c);
	uint8_t version = cursor_u8(c), kind = cursor_u8(c), chunk_log2 = cursor_u8(c), flags = cursor_u8(c);
	uint64_t table_end, check;

	h->n_spans = cursor_u32(c);
	h->table_size = cursor_u32(c);
	p->decoded_size = cursor_u64(c);
	h->n_sums = cursor_u32(c);
	cursor_u32(c);
	h->size = cursor_u64(c);
	check = cursor_u64(c);
	if (!cursor_ok(c))
		return cursor_err(c, "header", err);
	if (magic != MAGIC)
		return err_set(err, ERR_INVALID, "not resume points");
	if (version != VERSION || chunk_log2 != CHUNK_LOG2)
		return err_set(err, ERR_INVALID, "version %u with chunks of 2^%u is not supported", version,
			       chunk_log2);
	table_end = HEADER_SIZE + (uint64_t)h->table_size + (uint64_t)h->n_sums * SUM_SIZE;
	if (h->size != b.size || table_end > h->size || h->n_spans > h->table_size / ENTRY_SIZE_MIN)
		return err_set(err, ERR_INVALID, "cut or damaged: %zu bytes where %llu should be", b.size,
			       (unsigned long long)h->size);
	if (points_check(b, (size_t)table_end) != check)
		return err_set(err, ERR_INVALID, "damaged: the checksum differs");
	p->kind = kind;
	p->complete = flags & FLAG_COMPLETE;
	/* Points of a part may have more: the other spans may be large. They are not stored in a file. */
	if (kind == CODEC_XZ && p->complete && h->n_spans > codec_xz_spans_max(p->decoded_size))
		return err_set(err, ERR_INVALID,
			       "of an older version: %u spans where %llu are the most of an xz file of %llu "
			       "bytes",
			       h->n_spans, (unsigned long long)codec_xz_spans_max(p->decoded_size),
			       (unsigned long long)p->decoded_size);
	return 0;
}

static int points_read_span(struct cursor *table, struct cursor *sums, struct cursor *payloads,
			    const struct codec_span *before, struct codec_span *s, struct err *err)
{
	int64_t gap = cursor_sleb(table);
	uint64_t in_size = cursor_uleb(table), out_size = cursor_uleb(table);
	uint64_t payload_size = cursor_uleb(table);

	if (payload_size > INLINE_MAX) {
		s->payload_sum = cursor_u32(table);
		s->payload = cursor_bytes(payloads, payload_size);
	} else {
		s->payload = cursor_bytes(table, payload_size);
	}
	s->out = before ? before->out_end : 0;
	if (__builtin_add_overflow(before ? before->in_end : 0, gap, &s->in) ||
	    add_overflows(s->in, in_size, &s->in_end) || add_overflows(s->out, out_size, &s->out_end) ||
	    !out_size || (before && s->in < before->in))
		return err_set(err, ERR_INVALID, "offsets overflow or go backwards");
	/* Either all spans have sums or none has: sums that are left over or missing at the end contradict
	 * the header. */
	if (cursor_left(sums))
		s->sums = cursor_bytes(sums, ((out_size - 1) / CODEC_CHUNK + 1) * SUM_SIZE);
	if (!cursor_ok(table) || !cursor_ok(sums) || !cursor_ok(payloads))
		return err_set(err, ERR_INVALID, "ends early");
	return 0;
}

void codec_points_done(struct codec_points *p)
{
	free(p->spans);
	*p = (struct codec_points){ 0 };
}

int codec_points_read(struct bytes b, struct codec_points *ret, struct err *err)
{
	AUTO(codec_points_done) struct codec_points p = { 0 };
	struct cursor c = cursor_of(b), table, sums, payloads;
	struct points_header h = { 0 };

	if (points_read_header(&c, b, &p, &h, err) < 0)
		return err_in(err, "resume points");
	table = cursor_sub(&c, h.table_size);
	sums = cursor_sub(&c, (uint64_t)h.n_sums * SUM_SIZE);
	payloads = cursor_sub(&c, cursor_left(&c));
	p.n_spans = h.n_spans;
	p.spans = mem_zalloc(p.n_spans * sizeof(*p.spans));
	for (size_t i = 0; i < p.n_spans; i++)
		if (points_read_span(&table, &sums, &payloads, i ? &p.spans[i - 1] : NULL, &p.spans[i], err) <
		    0)
			return err_in(err, "resume points: span %zu", i);
	if (!p.n_spans || p.spans[p.n_spans - 1].out_end != p.decoded_size || cursor_left(&table) ||
	    cursor_left(&sums) || cursor_left(&payloads))
		return err_set(err, ERR_INVALID, "resume points: table does not fit the header");
	*ret = p;
	p = (struct codec_points){ 0 };
	return 0;
}

static int span_check(const struct codec_span *span, struct err *err)
{
	if (!span->payload_sum || payload_sum(span->payload) == span->payload_sum)
		return 0;
	return err_set(err, ERR_INVALID, "resume point at %llu is damaged", (unsigned long long)span->out);
}

int codec_span_start(const struct codec_ops *ops, struct source *raw, const struct codec_span *span,
		     struct span_decoder **ret, struct err *err)
{
	if (span_check(span, err) < 0)
		return -1;
	return ops->span_open(raw, span, ret, err);
}

int codec_points_check(struct bytes points, struct err *err)
{
	AUTO(codec_points_done) struct codec_points p = { 0 };
	int r = codec_points_read(points, &p, err);

	for (size_t i = 0; r == 0 && i < p.n_spans; i++)
		r = span_check(&p.spans[i], err);
	return r;
}

int codec_points_info(struct bytes points, struct codec_points_info *ret, struct err *err)
{
	AUTO(codec_points_done) struct codec_points p = { 0 };

	if (codec_points_read(points, &p, err) < 0)
		return -1;
	*ret = (struct codec_points_info){
		.kind = p.kind,
		.n_spans = (uint32_t)p.n_spans,
		.decoded_size = p.decoded_size,
		.size = points.size,
	};
	for (size_t i = 0; i < p.n_spans; i++)
		ret->max_span = MAX(ret->max_span, p.spans[i].out_end - p.spans[i].out);
	return 0;
}
