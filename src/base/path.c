/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Path text, without access to any disk: these names come from DWARF, packages and requests, and belong to
 * other machines.
 */
#include "base/view.h"

size_t path_canonical(struct str s, char *out)
{
	size_t root = s.size && s.p[0] == '/'; /* ".." must not remove it: 1 for the leading slash */
	size_t n = 0, i = 0;

	if (root)
		out[n++] = '/';
	/* At the start of each segment out[0, n) is empty or ends in a slash. */
	while (i < s.size) {
		struct str seg = { s.p + i, 0 };
		bool closed;

		if (s.p[i] == '/') {
			i++;
			continue;
		}
		while (i < s.size && s.p[i] != '/')
			i++;
		seg.size = (size_t)(s.p + i - seg.p);
		closed = i < s.size;
		if (str_eq(seg, STR(".")))
			continue;
		if (str_eq(seg, STR(".."))) {
			while (n > root && out[n - 1] == '/')
				n--;
			while (n > root && out[n - 1] != '/')
				n--;
			continue;
		}
		memcpy(out + n, seg.p, seg.size);
		n += seg.size;
		if (closed)
			out[n++] = '/';
	}
	out[n] = '\0';
	return n;
}

size_t path_rooted(struct str s, char *out)
{
	if (s.size && s.p[0] == '/')
		return path_canonical(s, out);
	out[0] = '/';
	return 1 + path_canonical(s, out + 1);
}

bool path_is_absolute(struct str s)
{
	if (s.size && (s.p[0] == '/' || s.p[0] == '\\'))
		return true;
	return s.size >= 3 && (s.p[0] | 32) >= 'a' && (s.p[0] | 32) <= 'z' && s.p[1] == ':' &&
	       (s.p[2] == '/' || s.p[2] == '\\');
}

struct str path_basename(struct str s)
{
	const char *slash = s.size ? memrchr(s.p, '/', s.size) : NULL;

	if (!slash)
		return s;
	return (struct str){ slash + 1, s.size - (size_t)(slash + 1 - s.p) };
}

struct str path_dirname(struct str s)
{
	const char *slash = s.size ? memrchr(s.p, '/', s.size) : NULL;

	if (!slash)
		return (struct str){ s.p, 0 };
	s.size = (size_t)(slash - s.p);
	while (s.size && s.p[s.size - 1] == '/')
		s.size--;
	return s.size ? s : (struct str){ s.p, 1 };
}
