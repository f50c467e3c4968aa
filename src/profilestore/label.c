/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names and values that labels may have, and the nearest right ones to those of programs that do not know that.
 */
#include "profilestore/internal.h"

size_t label_char_size(struct str s)
{
	uint32_t c;
	size_t n = str_utf8(s, &c);

	return n && c >= 0x20 && !(c >= 0x7f && c < 0xa0) ? n : 0;
}

/* After the first character. */
static bool is_label_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= '0' && c <= '9') ||
	       c == '.';
}

/* ---- checks ---- */

int label_name_check(struct str name, struct err *err)
{
	if (!name.size || name.size > PROFILESTORE_MAX_LABEL_NAME)
		return err_set(err, ERR_INVALID, "the name of a label has 1 to %u characters, not %zu",
			       PROFILESTORE_MAX_LABEL_NAME, name.size);
	for (size_t i = 0; i < name.size; i++)
		if (!is_label_name_char(name.p[i]) || (!i && (name.p[i] == '.' || name.p[i] <= '9')))
			return err_set(err, ERR_INVALID,
				       "'%.*s' is not a label name, which has letters, digits, '_' and '.', "
				       "and does not begin with a digit",
				       (int)MIN(name.size, (size_t)80), name.p);
	return 0;
}

int label_check(struct profilestore_label l, struct err *err)
{
	if (label_name_check(l.name, err) < 0)
		return -1;
	if (l.value.size > PROFILESTORE_MAX_LABEL_VALUE)
		return err_set(err, ERR_LIMIT,
			       "the value of the label " STR_FMT " has %zu bytes, the limit is %u",
			       STR_ARG(l.name), l.value.size, PROFILESTORE_MAX_LABEL_VALUE);
	for (size_t i = 0, n; i < l.value.size; i += n) {
		n = label_char_size((struct str){ l.value.p + i, l.value.size - i });
		if (!n)
			return err_set(err, ERR_INVALID,
				       "the value of the label " STR_FMT
				       " is not UTF-8 text, or has control characters (byte %zu)",
				       STR_ARG(l.name), i);
	}
	return 0;
}

/* ---- made to fit ---- */

struct str label_fit_name(struct arena *a, struct str s, struct str before)
{
	size_t size = MIN(s.size, (size_t)PROFILESTORE_MAX_LABEL_NAME - before.size - 1);
	char *t = arena_alloc(a, size + before.size + 1), *name = t + before.size;
	struct str ret = { name, 0 };

	memcpy(t, before.p, before.size);
	if (!size || (s.p[0] >= '0' && s.p[0] <= '9') || s.p[0] == '.')
		name[ret.size++] = '_';
	for (size_t i = 0; i < size; i++)
		name[ret.size++] = is_label_name_char(s.p[i]) ? s.p[i] : '_';
	return ret;
}

struct str label_fit_value(struct arena *a, struct str s)
{
	size_t size = MIN(s.size, (size_t)PROFILESTORE_MAX_LABEL_VALUE);
	char *t = arena_alloc(a, size + 1);
	struct str ret = { t, 0 };

	for (size_t i = 0, n; i < size; i += n) {
		n = label_char_size((struct str){ s.p + i, s.size - i });
		if (i + n > size)
			break;
		if (n)
			memcpy(t + ret.size, s.p + i, n);
		else
			t[ret.size] = '?';
		n = MAX(n, (size_t)1);
		ret.size += n;
	}
	return ret;
}
