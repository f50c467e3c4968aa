/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cursor under any sequence of reads, seeks and parts. The first byte holds the byte order and the length
 * of the program; each byte of that is one operation on the bytes after it. After every step the cursor must
 * be within its view and agree with a second implementation.
 */
#include "fuzz.h"

#include "base/base.h"

#define DEPTH_MAX 8

/* LEB128 again, in the slowest and plainest way: bit by bit. */
static bool leb_plain(const uint8_t *p, size_t size, bool is_signed, uint64_t *ret_value, size_t *ret_size)
{
	uint64_t v = 0;
	size_t n = 0;
	bool sign;

	while (n < size && p[n] & 0x80)
		n++;
	if (n == size)
		return false;
	n++;
	sign = is_signed && (p[n - 1] & 0x40);
	for (size_t bit = 0; bit < MAX(n * 7, 64); bit++) {
		bool set = bit < n * 7 ? p[bit / 7] >> bit % 7 & 1 : sign;

		if (bit < 64)
			v |= (uint64_t)set << bit;
		else if (set != (is_signed ? v >> 63 : 0))
			return false;
	}
	*ret_value = v;
	*ret_size = n;
	return true;
}

static void check_leb(struct cursor *c, bool is_signed)
{
	const uint8_t *p = c->p;
	size_t left = cursor_left(c), size = 0;
	bool was_ok = cursor_ok(c);
	uint64_t want = 0, got;
	bool good = leb_plain(p, left, is_signed, &want, &size);

	got = is_signed ? (uint64_t)cursor_sleb(c) : cursor_uleb(c);
	FUZZ_CHECK(cursor_ok(c) == (was_ok && good));
	FUZZ_CHECK(got == (good ? want : 0));
	if (good)
		FUZZ_CHECK(c->p == p + size);
}

static void check_cstr(struct cursor *c)
{
	const uint8_t *p = c->p;
	bool was_ok = cursor_ok(c);
	struct str s = cursor_cstr(c);

	FUZZ_CHECK(!s.size || !memchr(s.p, 0, s.size));
	if (cursor_ok(c))
		FUZZ_CHECK(was_ok && (const uint8_t *)s.p == p && c->p == p + s.size + 1 && c->p[-1] == 0);
}

static void check_uint(struct cursor *c, unsigned size)
{
	const uint8_t *p = c->p;
	bool good = cursor_left(c) >= size && (size == 1 || size == 2 || size == 3 || size == 4 || size == 8);
	uint64_t want = 0, got = cursor_uint(c, size);

	for (unsigned i = 0; good && i < size; i++)
		want |= (uint64_t)p[i] << 8 * (c->big ? size - 1 - i : i);
	FUZZ_CHECK(got == want);
	FUZZ_CHECK(!good || c->p == p + size);
}

static void step(struct cursor *stack, size_t *depth, uint8_t op, uint64_t arg)
{
	struct cursor *c = &stack[*depth];
	size_t left = cursor_left(c);

	switch (op & 15) {
	case 0:
		check_leb(c, false);
		break;
	case 1:
		check_leb(c, true);
		break;
	case 2:
		check_cstr(c);
		break;
	case 3:
		check_uint(c, op >> 4);
		break;
	case 4:
		FUZZ_CHECK(cursor_bytes(c, arg).size == (arg <= left && cursor_ok(c) ? arg : 0));
		break;
	case 5:
		cursor_skip(c, arg);
		break;
	case 6:
		cursor_align(c, op >> 4);
		break;
	case 7:
		FUZZ_CHECK(cursor_seek(c, arg) == cursor_ok(c));
		break;
	case 8:
		if (*depth + 1 < DEPTH_MAX) {
			stack[*depth + 1] = cursor_sub(c, arg);
			++*depth;
			FUZZ_CHECK(cursor_ok(&stack[*depth]) == cursor_ok(c));
		}
		break;
	case 9:
		*depth -= *depth > 0;
		break;
	case 10:
		cursor_u16(c);
		cursor_u32(c);
		break;
	case 11:
		cursor_skip(c, UINT64_MAX - arg);
		break;
	default:
		cursor_u8(c);
		break;
	}
	c = &stack[*depth];
	FUZZ_CHECK(c->p >= c->start && c->p <= c->end);
	FUZZ_CHECK(cursor_ok(c) || cursor_left(c) == 0);
	FUZZ_CHECK(cursor_off(c) == c->base_off + (uint64_t)(c->p - c->start));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cursor stack[DEPTH_MAX];
	size_t depth = 0, n_ops;

	if (size < 2)
		return 0;
	n_ops = MIN((size_t)(data[0] & 0x7f), size - 1);
	stack[0] = cursor_at(bytes_of(data + 1 + n_ops, size - 1 - n_ops), data[0] >> 7, 1000);
	for (size_t i = 0; i < n_ops; i++)
		step(stack, &depth, data[1 + i], data[1 + i] >> 4);
	return 0;
}
