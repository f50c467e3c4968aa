/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON out of what files hold: names are bytes, JSON strings are UTF-8.
 */
#include <jansson.h>
#include "cmd/internal.h"

json_t *json_text(struct str s)
{
	json_t *j = json_stringn(s.p ? s.p : "", s.size);
	AUTO(buf_done) struct buf b = { 0 };

	if (j)
		return j;
	for (size_t i = 0; i < s.size; i++) {
		if ((unsigned char)s.p[i] < 0x80)
			buf_add_char(&b, s.p[i]);
		else
			buf_printf(&b, "\\x%02x", (unsigned char)s.p[i]);
	}
	return json_string(buf_cstr(&b));
}
