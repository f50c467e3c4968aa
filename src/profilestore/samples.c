/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of stacks and values, as bytes; and sums of many of them.
 *
 * uleb n, uleb unit (the greatest number that all values are a multiple of), then for each the difference to
 * the stack before it (uleb), and the value in units (uleb, zigzag). A value of a typical profile is then one
 * byte, whatever it counts.
 */
#include "profilestore/internal.h"

#include <stdlib.h>
#include "base/budget.h"
#include "base/leb.h"

#define SAMPLE_MAX (2 * LEB_MAX)

static uint64_t samples_size_of(int64_t v)
{
	return v < 0 ? -(uint64_t)v : (uint64_t)v;
}

static uint64_t common_prefix(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t c = a % b;

		a = b;
		b = c;
	}
	return a;
}

static uint8_t *put_sample_entry(uint8_t *p, uint32_t *last, uint32_t stack, int64_t value, uint64_t unit)
{
	p = leb_put(p, stack - *last);
	*last = stack;
	value = (int64_t)(value < 0 ? -(samples_size_of(value) / unit) : (uint64_t)value / unit);
	return leb_put(p, zigzag(value));
}

void samples_write(const struct sample *v, size_t n, struct buf *out)
{
	uint64_t unit = 0;
	uint32_t last = 0;
	uint8_t *p;

	for (size_t i = 0; i < n && unit != 1; i++)
		unit = common_prefix(unit, samples_size_of(v[i].value));
	if (!unit)
		unit = 1;
	buf_add_uleb(out, n);
	buf_add_uleb(out, unit);
	p = buf_reserve(out, n * SAMPLE_MAX);
	for (size_t i = 0; i < n; i++)
		p = put_sample_entry(p, &last, v[i].stack, v[i].value, unit);
	out->size = (size_t)(p - out->p);
}

uint64_t samples_digest(uint32_t series, int64_t time_ms, int64_t duration_ms, struct bytes samples)
{
	uint64_t head[3] = { htole64(series), htole64((uint64_t)time_ms), htole64((uint64_t)duration_ms) };

	return hash64(samples.p, samples.size, hash64(head, sizeof(head), 0));
}

/* ---- sums ---- */

static uint64_t sums_size(uint32_t n)
{
	return (uint64_t)n * sizeof(int64_t) + n / 8 + n / 512;
}

static int samples_room_for(struct sums *x, uint32_t n, struct err *err)
{
	/*
	 * Room for stacks that are added while we read, so as not to copy. Untouched memory takes no pages.
	 */
	uint32_t room = n + n / 8 + 65536;
	uint64_t more = sums_size(room) - sums_size(x->n);
	int64_t *values;
	uint64_t *seen, *words;

	if (budget_hold_add(x->hold, more, err) < 0)
		return -1;
	x->held += more;
	values = calloc(room, sizeof(*values));
	seen = calloc(room / 64 + 1, sizeof(*seen));
	words = calloc(room / 4096 + 1, sizeof(*words));
	if (!values || !seen || !words) {
		free(values);
		free(seen);
		free(words);
		return err_set(err, ERR_LIMIT, "no memory for sums of %u stacks", n);
	}
	if (x->n) {
		memcpy(values, x->values, x->n * sizeof(*values));
		memcpy(seen, x->seen, (x->n / 64 + 1) * sizeof(*seen));
		memcpy(words, x->words, (x->n / 4096 + 1) * sizeof(*words));
	}
	free(x->values);
	free(x->seen);
	free(x->words);
	x->values = values;
	x->seen = seen;
	x->words = words;
	x->n = room;
	return 0;
}

int sums_init(struct sums *x, const struct meta *meta, struct budget_hold *hold, struct err *err)
{
	*x = (struct sums){ .meta = meta, .hold = hold, .first_ms = INT64_MAX };
	if (samples_room_for(x, column_n(&meta->stacks), err) == 0)
		return 0;
	sums_done(x);
	return -1;
}

int sums_grow(struct sums *x, uint32_t n, struct err *err)
{
	return samples_room_for(x, n, err);
}

void sums_done(struct sums *x)
{
	free(x->values);
	free(x->seen);
	free(x->words);
	if (x->hold)
		budget_hold_sub(x->hold, x->held);
	*x = (struct sums){ 0 };
}

void sums_clear(struct sums *x)
{
	sums_each_word(x, w)
	{
		for (uint64_t bits = x->seen[w]; bits; bits &= bits - 1)
			x->values[w * 64 + (size_t)__builtin_ctzll(bits)] = 0;
		x->seen[w] = 0;
	}
	memset(x->words, 0, (x->n / 4096 + 1) * sizeof(*x->words));
	x->n_profiles = x->n_samples = 0;
	x->total = x->duration_ms = x->period = 0;
	x->first_ms = INT64_MAX;
}

static int samples_damaged(struct err *err)
{
	return err_set(err, ERR_DAMAGED, "samples are damaged");
}

/* The stacks that there are; those after them have room, too. */
static uint32_t known_stacks(const struct sums *x)
{
	return MIN(x->n, column_n(&x->meta->stacks));
}

/* Rows may have more stacks than there were at the start, but none more than there are now. */
static int more_stacks(struct sums *x, uint64_t stack, uint32_t *ret_known, struct err *err)
{
	uint32_t n = column_n(&x->meta->stacks);

	if (stack >= n)
		return samples_damaged(err);
	if (stack >= x->n && samples_room_for(x, n, err) < 0)
		return -1;
	*ret_known = known_stacks(x);
	return 0;
}

int sums_add(struct sums *x, struct bytes samples, struct err *err)
{
	const uint8_t *p = samples.p, *end = p + samples.size;
	struct cursor c = cursor_of(samples);
	uint64_t n = cursor_uleb(&c), unit = cursor_uleb(&c), stack = 0;
	uint32_t known = known_stacks(x);

	p = c.p;
	if (!cursor_ok(&c) || n > (uint64_t)(end - p) / 2)
		return samples_damaged(err);
	for (uint64_t i = 0; i < n; i++) {
		uint64_t v;
		int64_t value;

		if (p >= end)
			return samples_damaged(err);
		v = leb_u(&p, end);
		if (p >= end || v > UINT32_MAX)
			return samples_damaged(err);
		stack += v;
		if (stack >= known && more_stacks(x, stack, &known, err) < 0)
			return -1;
		v = leb_u(&p, end);
		if (p > end)
			return samples_damaged(err);
		value = (int64_t)((uint64_t)unzigzag(v) * unit);
		sums_see(x, (uint32_t)stack);
		x->values[stack] = add_saturating(x->values[stack], value);
	}
	return p == end ? 0 : samples_damaged(err);
}

void sums_write(const struct sums *x, struct buf *out)
{
	uint64_t unit = 0;
	uint32_t last = 0;
	size_t n = 0;
	uint8_t *p;

	for (size_t w = 0; w <= x->n / 64; w++)
		for (uint64_t bits = x->seen[w]; bits; bits &= bits - 1) {
			int64_t v = x->values[w * 64 + (size_t)__builtin_ctzll(bits)];

			n += v != 0;
			unit = unit == 1 ? 1 : common_prefix(unit, samples_size_of(v));
		}
	if (!unit)
		unit = 1;
	buf_add_uleb(out, n);
	buf_add_uleb(out, unit);
	for (size_t w = 0; w <= x->n / 64; w++) {
		if (!x->seen[w])
			continue;
		p = buf_reserve(out, 64 * SAMPLE_MAX);
		for (uint64_t bits = x->seen[w]; bits; bits &= bits - 1) {
			uint32_t stack = (uint32_t)(w * 64) + (uint32_t)__builtin_ctzll(bits);

			if (x->values[stack])
				p = put_sample_entry(p, &last, stack, x->values[stack], unit);
		}
		out->size = (size_t)(p - out->p);
	}
}
