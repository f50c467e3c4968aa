/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The marker: reads every block of a scan once, after libzstd, and decides where points are and which bytes
 * each needs.
 *
 * It reads the headers of every compressed block and so knows the entropy at each boundary. It decodes
 * sequences only where they are needed: from a point on for a window's length, to learn which bytes before
 * the point they refer to (nothing later can); and just before a point, to learn the repcodes. These follow
 * from the last blocks in most cases, so the marker keeps the blocks since the *anchor*, where the repcodes
 * were known last, and walks them backwards until all three are known. When too many are kept, the same walk
 * sets a new anchor.
 *
 * A table of type RLE reads no bits, which no table of a dictionary can do. So a point cannot be where a
 * later block repeats such a table. Whether one does is known only at the next block with sequences: until
 * then the point is a *candidate*. Blocks without sequences refer to nothing and leave tables and repcodes
 * alone, so a candidate can become a point in hindsight.
 *
 * A doubt (see zstd.h) ends the points of the frame; an open point is taken back.
 */
#include "base/vec.h"
#include "codec/zstd.h"

#include <assert.h>
#include <stdlib.h>

/* Limits of the blocks kept since the anchor: their number, and the distance of the first in the ring of
 * compressed bytes. */
#define KEPT_BLOCKS 64
#define KEPT_SPAN   MIB(1)

/* The largest distance of a candidate; its bytes are summed anew when it becomes a point. */
#define CANDIDATE_MAX KIB(512)

/* Landmarks may bring points closer together, within limits: a fraction of the spacing, and a per mille of
 * the compressed size. */
#define LANDMARK_SPACING  8
#define LANDMARK_PERMILLE 35

struct zstd_point {
	uint64_t in, out;
	size_t sums;   /* codec_sums_mark() of its span */
	bool at_frame; /* needs nothing */
	bool whole;    /* all marks that it can ever have were made: the span may be longer than the distance
		       to the next point */
	struct buf payload;
};

struct kept_block {
	struct zstd_block block;
	uint64_t in_pos;
	struct zstd_table table[ZSTD_N_TABLES];
};

/* The state needed to take the sums back to a boundary; the bytes summed since must still be in the ring. */
struct sums_state {
	uint64_t out;
	size_t done;
	struct hash64_state state;
	size_t fill;
};

struct candidate {
	bool is;
	uint64_t in;
	struct sums_state sums;
	struct zstd_entropy entropy;
};

struct zstd_marker {
	struct codec_scan_options opts;
	uint64_t in_size; /* of the whole content */
	const uint8_t *ring;
	size_t ring_size;
	uint64_t ring_base;
	uint64_t in_pos, out; /* after the last item */

	/* the current frame */
	bool live; /* points are possible */
	uint64_t frame_out, window, spacing;
	struct zstd_entropy entropy;
	struct zstd_seq seq;
	bool wanted; /* a landmark is in the current block */

	/* repcodes between points: known at the anchor; the blocks since then */
	struct zstd_rep anchor;
	struct kept_block kept[KEPT_BLOCKS];
	size_t n_kept;

	/* the open point, whose bytes are being marked; the last one of the list */
	bool open;
	struct zstd_marks marks;
	size_t marks_room;   /* words */
	struct zstd_rep rep; /* after the marked blocks */
	struct zstd_entropy open_entropy;
	struct zstd_rep open_rep;
	struct sums_state open_sums; /* before its cut */

	struct candidate candidate;

	struct zstd_point *points;
	size_t n_points, room_points;
	uint64_t payloads, last_payload; /* bytes */
	struct codec_sums sums;
	struct zstd_payload_maker *maker;
	const char *why; /* the last doubt */
	bool lost;       /* a doubt made the spans unusable */
};

struct zstd_marker *zstd_marker_new(const struct codec_scan_options *opts, uint64_t in_size)
{
	struct zstd_marker *m = NEW(struct zstd_marker);

	m->opts = *opts;
	m->in_size = in_size;
	m->maker = zstd_payload_maker_new();
	return m;
}

void zstd_marker_free(struct zstd_marker *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->n_points; i++)
		buf_done(&m->points[i].payload);
	free(m->points);
	free(m->marks.bits);
	codec_sums_done(&m->sums);
	zstd_payload_maker_free(m->maker);
	free(m);
}

void zstd_marker_set_ring(struct zstd_marker *m, const uint8_t *ring, size_t size, uint64_t base)
{
	m->ring = ring;
	m->ring_size = size;
	m->ring_base = base;
}

/* Decoded bytes [from, to), which are in the ring. */
static struct zstd_history ring_view(const struct zstd_marker *m, uint64_t from, uint64_t to)
{
	size_t at = (from - m->ring_base) % m->ring_size, n = to - from, first = MIN(n, m->ring_size - at);

	return (struct zstd_history){ { bytes_of(m->ring + at, first), bytes_of(m->ring, n - first) } };
}

/* ---- sums ---- */

static void sum_range(struct zstd_marker *m, uint64_t from, uint64_t to)
{
	struct zstd_history h;

	if (from == to)
		return;
	h = ring_view(m, from, to);
	codec_sums_feed(&m->sums, h.part[0].p, h.part[0].size);
	codec_sums_feed(&m->sums, h.part[1].p, h.part[1].size);
}

static struct sums_state sums_save(const struct zstd_marker *m, uint64_t out)
{
	return (struct sums_state){ out, m->sums.done.size, m->sums.state, m->sums.fill };
}

static void sums_restore(struct zstd_marker *m, const struct sums_state *s)
{
	m->sums.done.size = s->done;
	m->sums.state = s->state;
	m->sums.fill = s->fill;
}

/* ---- the list ---- */

static struct zstd_point *last_point(struct zstd_marker *m)
{
	return m->n_points ? &m->points[m->n_points - 1] : NULL;
}

static void point_pop(struct zstd_marker *m)
{
	struct zstd_point *p = last_point(m);

	m->payloads -= p->payload.size;
	buf_done(&p->payload);
	m->n_points--;
}

static struct zstd_point *point_push(struct zstd_marker *m, uint64_t in, uint64_t out)
{
	struct zstd_point *last = last_point(m);

	/* An empty span, before an empty last block, is replaced. */
	if (last && last->out == out)
		point_pop(m);
	codec_sums_cut(&m->sums);
	last = &VEC_PUSH(m->points, m->n_points, m->room_points);
	*last = (struct zstd_point){ .in = in, .out = out, .sums = codec_sums_mark(&m->sums) };
	return last;
}

/* ---- doubts ---- */

static void give_up(struct zstd_marker *m, const char *why);

/*
 * Remove the open point and extend the span before it. That is possible if its own marks are complete, and if
 * the bytes summed since can be summed once more.
 */
static void take_back(struct zstd_marker *m)
{
	m->open = false;
	point_pop(m);
	assert(m->n_points);
	if (!last_point(m)->whole) {
		m->lost = true;
		return;
	}
	sums_restore(m, &m->open_sums);
	sum_range(m, m->open_sums.out, m->out);
}

static void give_up(struct zstd_marker *m, const char *why)
{
	m->why = why;
	m->live = false;
	m->candidate.is = false;
	m->n_kept = 0;
	if (m->open)
		take_back(m);
}

/* ---- repcodes ---- */

/* Compute the repcodes here from the kept blocks, backwards. They become the new anchor. */
static const char *resolve_reps(struct zstd_marker *m)
{
	struct zstd_rep sum_rep = zstd_rep_any;
	size_t i = m->n_kept;

	while (i > 0 && !zstd_rep_known(&sum_rep)) {
		const struct kept_block *k = &m->kept[--i];
		struct zstd_rep rep = zstd_rep_any;
		const char *doubt = zstd_seq_prepare(&m->seq, k->table);

		if (!doubt)
			doubt = zstd_seq_reps(&m->seq, &k->block, &rep);
		if (!doubt && !zstd_rep_chain(&rep, &sum_rep, &sum_rep))
			doubt = "an offset is 0";
		if (doubt)
			return doubt;
	}
	if (!zstd_rep_known(&sum_rep) && !zstd_rep_chain(&m->anchor, &sum_rep, &sum_rep))
		return "an offset is 0";
	m->anchor = sum_rep;
	m->n_kept = 0;
	return NULL;
}

static void block_keep(struct zstd_marker *m, const struct zstd_block *b, uint64_t in_pos)
{
	struct kept_block *k = &m->kept[m->n_kept++];

	k->block = *b;
	k->in_pos = in_pos;
	memcpy(k->table, m->entropy.table, sizeof(k->table));
}

/* ---- the open point ---- */

static int make_payload(struct zstd_marker *m, struct buf *ret, struct err *err)
{
	const struct zstd_point *p = last_point(m);
	struct zstd_point_state state = {
		.entropy = &m->open_entropy, .rep = &m->open_rep, .window = m->window, .marks = &m->marks
	};

	if (m->marks.hist)
		state.history = ring_view(m, p->out - m->marks.hist, p->out);
	return zstd_payload_make(m->maker, &state, ret, err);
}

/* @whole: nothing later can refer to the bytes before the point. */
static void point_close(struct zstd_marker *m, bool whole)
{
	struct zstd_point *p = last_point(m);

	if (make_payload(m, &p->payload, NULL) < 0) {
		give_up(m, "a point refers to too many bytes");
		return;
	}
	p->whole = whole;
	m->payloads += p->payload.size;
	m->last_payload = p->payload.size;
	m->open = false;
	m->anchor = m->rep;
	m->n_kept = 0;
}

/* Open a point at the boundary [@in, @sums->out) with @e; nothing was marked since. */
static void point_open(struct zstd_marker *m, uint64_t in, const struct sums_state *sums,
		       const struct zstd_entropy *e)
{
	const char *doubt = NULL;
	uint32_t rep_max = 0;
	size_t words;

	if (m->open)
		point_close(m, false);
	else
		doubt = resolve_reps(m);
	if (!m->live)
		return;
	for (unsigned i = 0; i < 3; i++)
		rep_max = MAX(rep_max, m->anchor.r[i]);
	if (!doubt && rep_max > MAX(m->window, 8u))
		doubt = "an offset reaches beyond the window";
	if (doubt) {
		give_up(m, doubt);
		return;
	}

	sums_restore(m, sums);
	m->open_sums = *sums;
	point_push(m, in, sums->out);
	sum_range(m, sums->out, m->out);

	m->marks.hist = MIN(m->window, sums->out - m->frame_out);
	m->marks.dist = m->out - sums->out;
	words = (m->marks.hist + 63) / 64 + 2;
	if (words > m->marks_room) {
		free(m->marks.bits);
		m->marks.bits = NEW_N(uint64_t, words);
		m->marks_room = words;
	}
	memset(m->marks.bits, 0, words * 8);
	m->rep = m->open_rep = m->anchor;
	m->open_entropy = *e;
	m->open = true;
}

/* ---- where points are ---- */

static bool point_is_affordable(const struct zstd_marker *m, uint64_t in, uint64_t permille)
{
	return (m->payloads + m->last_payload) * 1000 <= in * permille;
}

/* Not within a window of the last point, whose marks would not be complete. */
static uint64_t landmark_distance(const struct zstd_marker *m)
{
	return MAX(m->spacing / LANDMARK_SPACING, m->window);
}

/* Whether the content will be large enough for points, extrapolated from its ratio so far. */
static bool worth_it(const struct zstd_marker *m, uint64_t in, uint64_t out)
{
	return out >= m->opts.min_size ||
	       (double)out * (double)m->in_size >= (double)m->opts.min_size * (double)in;
}

static bool point_is_due(struct zstd_marker *m, uint64_t in, uint64_t out)
{
	uint64_t budget = m->opts.budget_percent * 10ull, distance = out - last_point(m)->out;

	if (!distance || out == m->frame_out || !worth_it(m, in, out))
		return false;
	if (distance >= m->spacing)
		return point_is_affordable(m, in, budget);
	return m->wanted && distance >= landmark_distance(m) &&
	       point_is_affordable(m, in, MIN(budget, LANDMARK_PERMILLE));
}

static bool has_rle(const struct zstd_entropy *e)
{
	for (unsigned id = 0; id < ZSTD_N_TABLES; id++)
		if (e->table[id].kind == ZSTD_TABLE_RLE)
			return true;
	return false;
}

static bool repeats_rle(const struct zstd_entropy *before, const struct zstd_block *b)
{
	for (unsigned id = 0; id < ZSTD_N_TABLES; id++)
		if (before->table[id].kind == ZSTD_TABLE_RLE && b->mode[id] == ZSTD_MODE_REPEAT)
			return true;
	return false;
}

/* At the boundary before the block @it, which has the sequences @b (n_seq may be 0). @before: the entropy
 * there. */
static void mark_boundary(struct zstd_marker *m, const struct zstd_item *it,
			  const struct zstd_entropy *before, const struct zstd_block *b)
{
	struct candidate *c = &m->candidate;

	if (c->is && b->n_seq) {
		c->is = false;
		if (!repeats_rle(before, b))
			point_open(m, c->in, &c->sums, &c->entropy);
	} else if (c->is && it->out - c->sums.out > CANDIDATE_MAX) {
		c->is = false;
	}
	if (!m->live || c->is || !point_is_due(m, it->in, it->out))
		return;
	if (!has_rle(before) || (b->n_seq && !repeats_rle(before, b))) {
		struct sums_state sums = sums_save(m, it->out);

		point_open(m, it->in, &sums, before);
	} else if (!b->n_seq) {
		c->is = true;
		c->in = it->in;
		c->sums = sums_save(m, it->out);
		c->entropy = *before;
	}
}

static const char *mark_sequences(struct zstd_marker *m, const struct zstd_item *it,
				  const struct zstd_block *b)
{
	uint64_t dist = m->marks.dist;
	const char *doubt;

	if (!m->open) {
		block_keep(m, b, it->in_pos);
		return NULL;
	}
	doubt = zstd_seq_prepare(&m->seq, m->entropy.table);
	if (!doubt)
		doubt = zstd_seq_mark(&m->seq, b, &m->rep, &m->marks);
	if (!doubt && m->marks.dist - dist != it->n_out)
		doubt = "a block decodes to another size than its sequences say";
	return doubt;
}

static void feed_block(struct zstd_marker *m, const struct zstd_item *it)
{
	struct zstd_block b = { 0 };
	const char *doubt = NULL;

	m->wanted = it->landmark;
	if (m->live && it->type == ZSTD_BLOCK_COMPRESSED) {
		struct zstd_entropy before = m->entropy;

		doubt = zstd_block_parse(it->content, &m->entropy, &b);
		if (!doubt)
			mark_boundary(m, it, &before, &b);
	} else if (m->live) {
		mark_boundary(m, it, &m->entropy, &b);
	}
	/* Doubts about the block itself are handled after its bytes are summed, so that taking a point back
	 * sums them all. */
	sum_range(m, it->out, it->out + it->n_out);
	m->out = it->out + it->n_out;
	if (m->live && !doubt && b.n_seq)
		doubt = mark_sequences(m, it, &b);
	else if (m->open)
		m->marks.dist += it->n_out;
	if (!doubt && m->n_kept && (m->n_kept == KEPT_BLOCKS || it->in_pos - m->kept[0].in_pos > KEPT_SPAN))
		doubt = resolve_reps(m);
	if (doubt)
		give_up(m, doubt);
	if (m->open && m->marks.dist >= m->window)
		point_close(m, true);
}

static void feed_frame(struct zstd_marker *m, const struct zstd_item *it)
{
	struct zstd_point *last = last_point(m);

	m->frame_out = it->out;
	m->window = it->window;
	m->spacing = m->opts.spacing ? m->opts.spacing : MAX(MIB(32), 4 * it->window);
	m->live = !it->refused;
	if (it->refused)
		m->why = it->refused;
	m->wanted = it->landmark;
	zstd_entropy_init(&m->entropy);
	m->anchor = zstd_rep_start;
	m->n_kept = 0;
	/* A span with a dictionary ends with its frame; others may cover many frames. */
	if (!last || !last->at_frame || it->out - last->out >= m->spacing ||
	    (m->wanted && it->out - last->out >= landmark_distance(m))) {
		struct zstd_point *p = point_push(m, it->in, it->out);

		p->at_frame = p->whole = true;
	}
}

static void feed_frame_end(struct zstd_marker *m)
{
	m->candidate.is = false;
	if (m->open)
		point_close(m, true);
	m->live = false;
	/* The next frame has repcodes of its own, so nothing needs these blocks any more. */
	m->n_kept = 0;
}

void zstd_marker_feed(struct zstd_marker *m, const struct zstd_item *it)
{
	m->out = it->out;
	m->in_pos = it->in_pos + it->content.size;
	switch (it->kind) {
	case ZSTD_ITEM_FRAME:
		feed_frame(m, it);
		break;
	case ZSTD_ITEM_BLOCK:
		feed_block(m, it);
		break;
	case ZSTD_ITEM_FRAME_END:
		feed_frame_end(m);
		break;
	case ZSTD_ITEM_PLAIN:
		sum_range(m, it->out, it->out + it->n_out);
		m->out = it->out + it->n_out;
		break;
	case ZSTD_ITEM_GAP:
		break;
	}
}

void zstd_marker_needs(const struct zstd_marker *m, uint64_t *ret_in_pos, uint64_t *ret_out)
{
	uint64_t out = m->out;

	if (m->candidate.is)
		out = m->candidate.sums.out;
	if (m->open)
		out = m->open_sums.out;
	if (m->live)
		out -= MIN(m->window, out - m->frame_out);
	*ret_in_pos = m->n_kept ? m->kept[0].in_pos : m->in_pos;
	*ret_out = out;
}

/* ---- the result ---- */

int zstd_marker_spans(struct zstd_marker *m, uint64_t in_end, uint64_t out_end, struct arena *a,
		      struct codec_spans *ret, struct err *err)
{
	struct codec_span *spans;
	size_t n = m->n_points;

	if (m->lost || !n) {
		ret->why = m->why ? m->why : "nothing was decoded";
		return CODEC_NO_POINTS;
	}
	spans = ARENA_NEW_N(a, struct codec_span, n);
	for (size_t i = 0; i < n; i++) {
		struct zstd_point *p = &m->points[i];
		bool is_last = i + 1 == n;
		AUTO(buf_done) struct buf payload = { 0 };

		spans[i] = (struct codec_span){ .in = p->in,
						.in_end = is_last ? in_end : p[1].in,
						.out = p->out,
						.out_end = is_last ? out_end : p[1].out,
						.payload = buf_bytes(&p->payload) };
		spans[i].sums = is_last ? codec_sums_since(&m->sums, p->sums)
					: codec_sums_between(&m->sums, p->sums, p[1].sums);
		spans[i].sums = arena_bytes(a, spans[i].sums);
		if (is_last && m->open) {
			if (make_payload(m, &payload, err) < 0) {
				ret->why = "a point refers to too many bytes";
				return CODEC_NO_POINTS;
			}
			spans[i].payload = arena_bytes(a, buf_bytes(&payload));
		}
	}
	/* The last point may be followed only by an empty last block. */
	if (n > 1 && spans[n - 1].out == out_end) {
		n--;
		spans[n - 1].in_end = in_end;
	}
	*ret = (struct codec_spans){ .v = spans, .n = n };
	if (n == 1)
		ret->why = m->why ? m->why : "the content is shorter than the spacing of points";
	return 0;
}
