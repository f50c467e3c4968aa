/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decode sequences (RFC 8878, 3.1.1.3.2.2 and 4.1) without executing them: their effect on the repcodes, and
 * the bytes before a point that they refer to. This is the hot loop of scanning.
 *
 * The bitstream is read backwards by unaligned loads of 8 bytes that end where the unread bits end, so up to
 * 57 - 1 bits are at hand after each. Nearly all sequences need no more in total; the others load again in
 * between. A load may start up to ZSTD_SEQ_PAD bytes before the stream; those bits are discarded, since a
 * stream that was read past its start is a doubt.
 */
#include "codec/zstd.h"

#include <endian.h>

/* The bits at hand after a load, and how many of them three state updates may take. */
#define LOAD_BITS  56
#define STATE_BITS (9 + 9 + 8)

const struct zstd_rep zstd_rep_start = { { 1, 4, 8 } };

/* Unknown n is REP_UNKNOWN(n), minus the number subtracted from it ("repcode 1 minus 1"), at most once a
 * sequence. */
#define REP_STEP       0x20000000u
#define REP_UNKNOWN(n) (ZSTD_REP_IN + (n)*REP_STEP + REP_STEP - 1)
const struct zstd_rep zstd_rep_any = { { REP_UNKNOWN(0), REP_UNKNOWN(1), REP_UNKNOWN(2) } };

bool zstd_rep_known(const struct zstd_rep *r)
{
	return r->r[0] < ZSTD_REP_IN && r->r[1] < ZSTD_REP_IN && r->r[2] < ZSTD_REP_IN;
}

bool zstd_rep_chain(const struct zstd_rep *first, const struct zstd_rep *then, struct zstd_rep *ret)
{
	struct zstd_rep out;

	for (unsigned i = 0; i < 3; i++) {
		uint32_t v = then->r[i];

		if (v >= ZSTD_REP_IN) {
			unsigned n = (v - ZSTD_REP_IN) / REP_STEP;
			uint32_t less = REP_UNKNOWN(n) - v, in = first->r[n];

			if (in < ZSTD_REP_IN ? in <= less : (in - ZSTD_REP_IN) % REP_STEP < less)
				return false;
			v = in - less;
		}
		out.r[i] = v;
	}
	*ret = out;
	return true;
}

const char *zstd_seq_prepare(struct zstd_seq *d, const struct zstd_table table[ZSTD_N_TABLES])
{
	for (unsigned id = 0; id < ZSTD_N_TABLES; id++) {
		const char *doubt = zstd_states_build(&d->table[id], id, &table[id]);

		if (doubt)
			return doubt;
	}
	return NULL;
}

/* The unread bits of the stream, top aligned. @left is their number; it may be negative down to -8 *
 * ZSTD_SEQ_PAD + 64. */
static inline uint64_t bits_load(const uint8_t *start, int64_t left)
{
	uint64_t v;

	memcpy(&v, start + (left >> 3) - 7, 8);
	return le64toh(v) << (8 - (left & 7));
}

/* The next @n < 64 bits. */
static inline uint64_t bits_top(uint64_t *v, unsigned n)
{
	uint64_t bits = *v >> 1 >> (63 - n);

	*v <<= n;
	return bits;
}

static inline void mark_far(uint64_t *bits, uint64_t at, uint64_t n)
{
	for (; n >= 64; n -= 64, at += 64) {
		unsigned shift = at & 63;

		bits[at >> 6] |= ~0ull << shift;
		bits[(at >> 6) + 1] |= ~0ull >> 1 >> (63 - shift);
	}
	if (n) {
		uint64_t mask = (1ull << n) - 1;
		unsigned shift = at & 63;

		bits[at >> 6] |= mask << shift;
		bits[(at >> 6) + 1] |= mask >> 1 >> (63 - shift);
	}
}

/*
 * The loop, instantiated twice: with @marks and without. @d is read through locals, since the compiler cannot
 * know that stores into the bits of @marks do not change it.
 */
static inline __attribute__((always_inline)) const char *sequences_run(const struct zstd_seq *d,
								       const struct zstd_block *b,
								       struct zstd_rep *rep,
								       struct zstd_marks *marks)
{
	const struct zstd_state *ll_states = d->table[ZSTD_LL].s, *of_states = d->table[ZSTD_OF].s,
				*ml_states = d->table[ZSTD_ML].s;
	unsigned ll_log = d->table[ZSTD_LL].log, of_log = d->table[ZSTD_OF].log,
		 ml_log = d->table[ZSTD_ML].log;
	const struct bytes stream = b->bits;
	const uint8_t *start = stream.p;
	uint32_t r0 = rep->r[0], r1 = rep->r[1], r2 = rep->r[2];
	uint64_t hist = 0, dist = 0, lits = 0, seen = 0;
	uint64_t *bits = NULL;
	uint64_t ll, of, ml, v;
	int64_t left;

	if (!stream.size || !stream.p[stream.size - 1])
		return "a bitstream of sequences has no end mark";
	if (marks) {
		hist = marks->hist;
		dist = marks->dist;
		bits = marks->bits;
	}
	/* The highest set bit is the end mark. */
	left = (int64_t)(stream.size - 1) * 8 + 31 - __builtin_clz(stream.p[stream.size - 1]);
	v = bits_load(start, left);
	ll = bits_top(&v, ll_log);
	of = bits_top(&v, of_log);
	ml = bits_top(&v, ml_log);
	left -= ll_log + of_log + ml_log;

	for (uint32_t i = b->n_seq; i > 0; i--) {
		struct zstd_state l, o, m;
		unsigned extra;
		uint64_t value, lit, len;

		if (left < 0)
			return "a bitstream of sequences ends early";
		l = ll_states[ll];
		o = of_states[of];
		m = ml_states[ml];
		extra = l.extra + m.extra + o.extra;
		v = bits_load(start, left);
		value = o.base + bits_top(&v, o.extra);
		if (__builtin_expect(extra > LOAD_BITS - STATE_BITS, 0)) {
			v = bits_load(start, left - o.extra);
			len = m.base + bits_top(&v, m.extra);
			lit = l.base + bits_top(&v, l.extra);
			v = bits_load(start, left - extra);
		} else {
			len = m.base + bits_top(&v, m.extra);
			lit = l.base + bits_top(&v, l.extra);
		}
		left -= extra;
		if (i > 1) {
			ll = l.next + bits_top(&v, l.bits);
			ml = m.next + bits_top(&v, m.bits);
			of = o.next + bits_top(&v, o.bits);
			left -= l.bits + m.bits + o.bits;
		}

		/* 3.1.1.5 */
		if (o.extra > 1) {
			value -= 3;
			seen |= value;
			r2 = r1;
			r1 = r0;
			r0 = (uint32_t)value;
		} else {
			unsigned n = (unsigned)value - 1 + (lit == 0);

			if (n == 1) {
				uint32_t t = r1;

				r1 = r0;
				r0 = t;
			} else if (n > 1) {
				uint32_t t = n == 2 ? r2 : r0 - 1;

				if (!t)
					return "an offset is 0";
				r2 = r1;
				r1 = r0;
				r0 = t;
			}
		}

		if (marks) {
			lits += lit;
			dist += lit;
			if (r0 > dist) {
				uint64_t back = r0 - dist, n = MIN(len, back), at = hist - back;

				if (back > hist)
					return "an offset reaches beyond the window";
				mark_far(bits, at, n);
			}
			dist += len;
		}
	}
	if (left != 0)
		return "a bitstream of sequences does not end at its first bit";
	if (seen >= ZSTD_REP_IN)
		return "an offset is out of range";
	if (marks) {
		if (lits > b->lit_size)
			return "the sequences of a block use more literals than it has";
		dist += b->lit_size - lits;
		marks->dist = dist;
	}
	*rep = (struct zstd_rep){ { r0, r1, r2 } };
	return NULL;
}

const char *zstd_seq_reps(const struct zstd_seq *d, const struct zstd_block *b, struct zstd_rep *rep)
{
	return sequences_run(d, b, rep, NULL);
}

const char *zstd_seq_mark(const struct zstd_seq *d, const struct zstd_block *b, struct zstd_rep *rep,
			  struct zstd_marks *marks)
{
	return sequences_run(d, b, rep, marks);
}
