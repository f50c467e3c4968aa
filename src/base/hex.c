/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes and build IDs as hexadecimal.
 */
#include "base/hash.h"

#include "base/mem.h"

char *hex_encode(struct bytes b, char *out)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < b.size; i++) {
		out[2 * i] = digits[b.p[i] >> 4];
		out[2 * i + 1] = digits[b.p[i] & 15];
	}
	out[2 * b.size] = '\0';
	return out;
}

/* Values of digits, plus one. Those of capital letters have UPPER besides. */
#define UPPER 0x20
static const uint8_t digit_values[256] = {
	['0'] = 1,          ['1'] = 2,          ['2'] = 3,          ['3'] = 4,          ['4'] = 5,
	['5'] = 6,          ['6'] = 7,          ['7'] = 8,          ['8'] = 9,          ['9'] = 10,
	['a'] = 11,         ['b'] = 12,         ['c'] = 13,         ['d'] = 14,         ['e'] = 15,
	['f'] = 16,         ['A'] = UPPER | 11, ['B'] = UPPER | 12, ['C'] = UPPER | 13, ['D'] = UPPER | 14,
	['E'] = UPPER | 15, ['F'] = UPPER | 16,
};

/* Build IDs are read more than once for each request. */
static inline int digit_value(char c, bool any_case)
{
	uint8_t d = digit_values[(uint8_t)c];

	return any_case || d < UPPER ? (d & (UPPER - 1)) - 1 : -1;
}

int hex_digit(char c, bool any_case)
{
	return digit_value(c, any_case);
}

bool hex_decode(struct str s, bool any_case, uint8_t *out, size_t room, size_t *ret_size)
{
	if (s.size % 2 || s.size / 2 > room)
		return false;
	for (size_t i = 0; i < s.size / 2; i++) {
		int hi = digit_value(s.p[2 * i], any_case);
		int lo = digit_value(s.p[2 * i + 1], any_case);

		if ((hi | lo) < 0)
			return false;
		out[i] = (uint8_t)(hi << 4 | lo);
	}
	*ret_size = s.size / 2;
	return true;
}

bool hex_unescape(struct str s, bool any_case, char *out, size_t *ret_size)
{
	size_t n = 0;

	for (size_t i = 0; i < s.size; i++) {
		char c = s.p[i];

		if (c == '%') {
			int hi = s.size - i > 2 ? hex_digit(s.p[i + 1], any_case) : -1;
			int lo = hi >= 0 ? hex_digit(s.p[i + 2], any_case) : -1;

			if (lo < 0)
				return false;
			c = (char)(hi << 4 | lo);
			i += 2;
		}
		out[n++] = c;
	}
	*ret_size = n;
	return true;
}

bool build_id_eq(const struct build_id *a, const struct build_id *b)
{
	return bytes_eq(build_id_bytes(a), build_id_bytes(b));
}

char *build_id_hex(const struct build_id *id, char out[BUILD_ID_HEX_SIZE])
{
	return hex_encode(build_id_bytes(id), out);
}

bool build_id_set(struct build_id *id, struct bytes b)
{
	if (!b.size || b.size > BUILD_ID_MAX)
		return false;
	id->size = (uint8_t)b.size;
	memcpy(id->b, b.p, b.size);
	/* The rest is cleared, so that equal IDs are equal structs: callers may hash or store them whole. */
	memset(id->b + b.size, 0, BUILD_ID_MAX - b.size);
	return true;
}

bool build_id_parse(struct build_id *id, struct str hex)
{
	uint8_t b[BUILD_ID_MAX];
	size_t size;

	return hex_decode(hex, false, b, sizeof(b), &size) && build_id_set(id, bytes_of(b, size));
}
