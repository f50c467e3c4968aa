/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Base64.
 */
#include "base/buf.h"

/* Both alphabets of RFC 4648; -1: in neither. */
static int base64_sextet(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' || c == '-' ? 62 : c == '/' || c == '_' ? 63 : -1;
}

bool base64_decode(struct str s, struct buf *out)
{
	uint32_t bits = 0;
	unsigned n = 0;

	while (s.size && s.p[s.size - 1] == '=')
		s.size--;
	if (s.size % 4 == 1)
		return false;
	for (size_t i = 0; i < s.size; i++) {
		int v = base64_sextet(s.p[i]);

		if (v < 0)
			return false;
		bits = bits << 6 | (uint32_t)v;
		n += 6;
		if (n >= 8) {
			n -= 8;
			buf_add_char(out, (char)(bits >> n));
		}
	}
	return true;
}

void base64_encode(struct bytes b, struct buf *out)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t i = 0; i < b.size; i += 3) {
		size_t n = b.size - i < 3 ? b.size - i : 3;
		uint32_t bits = (uint32_t)b.p[i] << 16 | (n > 1 ? (uint32_t)b.p[i + 1] << 8 : 0) |
				(n > 2 ? b.p[i + 2] : 0);

		buf_add_char(out, digits[bits >> 18]);
		buf_add_char(out, digits[bits >> 12 & 63]);
		buf_add_char(out, n > 1 ? digits[bits >> 6 & 63] : '=');
		buf_add_char(out, n > 2 ? digits[bits & 63] : '=');
	}
}
