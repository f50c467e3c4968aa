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
