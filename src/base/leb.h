/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LEB128 (DWARF, section 7.6), inline, for loops in which a call for each number would cost too much. Others
 * read with cursor_uleb() and write with buf_add_uleb().
 *
 * At least one byte after the end of the input must be readable. A number that ends too early leaves a
 * pointer past the end, so a caller can check once after many numbers.
 */
#pragma once

#include <stdint.h>

#define LEB_MAX 10 /* bytes of a number of 64 bits */

/* Signed numbers as small unsigned ones: 0, -1, 1, -2 become 0, 1, 2, 3. */
static inline uint64_t zigzag(int64_t v)
{
	return ((uint64_t)v << 1) ^ (uint64_t)(v >> 63);
}
static inline int64_t unzigzag(uint64_t v)
{
	return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

/* Bits over 64 are dropped. If the number does not end before @end, *p is past @end and the result means
 * nothing. */
static inline uint64_t leb_u(const uint8_t **p, const uint8_t *end)
{
	const uint8_t *q = *p;
	uint64_t v = *q & 0x7f;

	if (*q++ < 0x80) {
		*p = q;
		return v;
	}
	for (unsigned shift = 7; q < end; q++, shift += 7) {
		if (shift < 64)
			v |= (uint64_t)(*q & 0x7f) << shift;
		if (*q < 0x80) {
			*p = q + 1;
			return v;
		}
	}
	*p = end + 1;
	return 0;
}

static inline int64_t leb_s(const uint8_t **p, const uint8_t *end)
{
	const uint8_t *q = *p;
	uint64_t v = 0;
	unsigned shift = 0;

	for (; q < end; q++) {
		if (shift < 64)
			v |= (uint64_t)(*q & 0x7f) << shift;
		shift += 7;
		if (*q < 0x80) {
			if (shift < 64 && *q & 0x40)
				v |= ~(uint64_t)0 << shift;
			*p = q + 1;
			return (int64_t)v;
		}
	}
	*p = end + 1;
	return 0;
}

/* @p has room for LEB_MAX bytes. Returns the place after the number. */
static inline uint8_t *leb_put(uint8_t *p, uint64_t v)
{
	while (v >= 0x80) {
		*p++ = (uint8_t)(v | 0x80);
		v >>= 7;
	}
	*p++ = (uint8_t)v;
	return p;
}
