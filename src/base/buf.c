/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growing byte buffer.
 */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/leb.h"
#include "base/mem.h"

#define ROOM_MIN 64

void buf_meter(struct buf *b, struct budget_hold *hold)
{
	budget_hold_sub(b->hold, b->room);
	b->hold = hold;
	budget_hold_charge(hold, b->room);
}

int buf_check(const struct buf *b, struct err *err)
{
	if (budget_hold_check(b->hold, err) < 0)
		return -1;
	return b->cut ? budget_refusal(b->hold->budget, b->hold->cls, b->room, err) : 0;
}

void buf_done(struct buf *b)
{
	buf_meter(b, NULL);
	free(b->p);
	*b = (struct buf){ 0 };
}

uint8_t *buf_try_reserve(struct buf *b, size_t n)
{
	size_t want, room;
	uint8_t *p;

	if (b->p && n <= b->room - b->size)
		return b->p + b->size;
	if (__builtin_add_overflow(b->size, n, &want))
		return NULL;
	room = b->room + b->room / 2;
	if (room < ROOM_MIN)
		room = ROOM_MIN;
	if (room < want)
		room = want;
	p = realloc(b->p, room);
	if (!p)
		return NULL;
	budget_hold_charge(b->hold, room - b->room);
	b->p = p;
	b->room = room;
	return b->p + b->size;
}

uint8_t *buf_reserve_more(struct buf *b, size_t n)
{
	uint8_t *p = buf_try_reserve(b, n);

	if (!p)
		mem_none(1, n);
	return p;
}

void buf_add(struct buf *b, const void *p, size_t n)
{
	if (!n)
		return;
	memcpy(buf_reserve(b, n), p, n);
	b->size += n;
}

void buf_add_str(struct buf *b, struct str s)
{
	buf_add(b, s.p, s.size);
}

void buf_vprintf(struct buf *b, const char *fmt, va_list ap)
{
	va_list again;
	size_t room;
	int n;

	buf_reserve(b, ROOM_MIN);
	room = b->room - b->size;
	va_copy(again, ap);
	n = vsnprintf((char *)b->p + b->size, room, fmt, ap);
	if (n >= 0 && (size_t)n >= room) {
		buf_reserve(b, (size_t)n + 1);
		vsnprintf((char *)b->p + b->size, (size_t)n + 1, fmt, again);
	}
	va_end(again);
	if (n > 0)
		b->size += (size_t)n;
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(b, fmt, ap);
	va_end(ap);
}

void buf_add_decimal(struct buf *b, uint64_t v)
{
	uint64_t rest = v;
	unsigned n = 1;
	uint8_t *p;

	while (rest >= 10) {
		rest /= 10;
		n++;
	}
	p = buf_reserve(b, n) + n;
	b->size += n;
	do
		*--p = (uint8_t)('0' + v % 10);
	while (v /= 10);
}

static void add_le(struct buf *b, uint64_t v, unsigned n)
{
	uint8_t *p = buf_reserve(b, n);

	for (unsigned i = 0; i < n; i++)
		p[i] = (uint8_t)(v >> 8 * i);
	b->size += n;
}

void buf_add_u16(struct buf *b, uint16_t v)
{
	add_le(b, v, 2);
}

void buf_add_u32(struct buf *b, uint32_t v)
{
	add_le(b, v, 4);
}

void buf_add_u64(struct buf *b, uint64_t v)
{
	add_le(b, v, 8);
}

void buf_add_uleb_long(struct buf *b, uint64_t v)
{
	uint8_t *end = leb_put(buf_reserve(b, LEB_MAX), v);

	b->size = (size_t)(end - b->p);
}

const char *buf_cstr(struct buf *b)
{
	*buf_reserve(b, 1) = '\0';
	return (const char *)b->p;
}
