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

/* Values of digits, with DIGIT. Those of capital letters have UPPER besides. */
#define DIGIT       0x10u
#define UPPER       0x20u
#define LOW(value)  (DIGIT | (value))
#define HIGH(value) (DIGIT | UPPER | (value))
static const uint8_t digit_values[256] = {
	['0'] = LOW(0),   ['1'] = LOW(1),   ['2'] = LOW(2),   ['3'] = LOW(3),   ['4'] = LOW(4),
	['5'] = LOW(5),   ['6'] = LOW(6),   ['7'] = LOW(7),   ['8'] = LOW(8),   ['9'] = LOW(9),
	['a'] = LOW(10),  ['b'] = LOW(11),  ['c'] = LOW(12),  ['d'] = LOW(13),  ['e'] = LOW(14),
	['f'] = LOW(15),  ['A'] = HIGH(10), ['B'] = HIGH(11), ['C'] = HIGH(12), ['D'] = HIGH(13),
	['E'] = HIGH(14), ['F'] = HIGH(15),
};

int hex_digit(char c, bool any_case)
{
	unsigned d = digit_values[(uint8_t)c];

	return d && (any_case || !(d & UPPER)) ? (int)(d & 15) : -1;
}

bool hex_is_lower(struct str s)
{
	for (size_t i = 0; i < s.size; i++)
		if (hex_digit(s.p[i], false) < 0)
			return false;
	return true;
}

/* Build IDs are read more than once for each request. */
bool hex_decode(struct str s, bool any_case, uint8_t *out, size_t room, size_t *ret_size)
{
	const uint8_t *p = (const uint8_t *)s.p;
	unsigned refused = any_case ? 0 : UPPER;

	if (s.size % 2 || s.size / 2 > room)
		return false;
	for (size_t i = 0; i < s.size / 2; i++) {
		unsigned hi = digit_values[p[2 * i]], lo = digit_values[p[2 * i + 1]];

		if (!(hi & lo & DIGIT) || ((hi | lo) & refused))
			return false;
		out[i] = (uint8_t)(hi << 4 | (lo & 15));
	}
	*ret_size = s.size / 2;
	return true;
}

bool hex_unescape(struct str s, bool any_case, char *out, size_t *ret_size)
{
	/* Most texts have no escape. */
	const char *first = s.size ? memchr(s.p, '%', s.size) : NULL;
	size_t n = first ? (size_t)(first - s.p) : s.size;

	memmove(out, s.size ? s.p : out, n);
	for (size_t i = n; i < s.size; i++) {
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
