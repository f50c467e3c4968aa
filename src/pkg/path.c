/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members' paths: from the name in an archive to the canonical path.
 */
#include "pkg/internal.h"

struct str str_until_nul(struct str s)
{
	const char *nul = s.size ? memchr(s.p, 0, s.size) : NULL;

	return nul ? (struct str){ s.p, (size_t)(nul - s.p) } : s;
}

int member_path(struct str raw, struct buf *out, bool *ret_unsafe, struct err *err)
{
	struct str rest, part;

	out->size = 0;
	*ret_unsafe = false;
	raw = str_until_nul(raw);
	if (raw.size > PKG_MAX_NAME)
		return err_set(err, ERR_LIMIT, "a name of %zu bytes", raw.size);
	buf_reserve(out, raw.size + 1);
	for (rest = raw; rest.size;) {
		part = str_cut(&rest, '/');
		if (!part.size || str_eq(part, STR(".")))
			continue;
		if (str_eq(part, STR(".."))) {
			/* Up one directory, but never above the start. */
			*ret_unsafe = true;
			while (out->size && out->p[out->size - 1] != '/')
				out->size--;
			if (out->size)
				out->size--;
			continue;
		}
		if (out->size)
			buf_add_char(out, '/');
		buf_add_str(out, part);
	}
	return 0;
}
