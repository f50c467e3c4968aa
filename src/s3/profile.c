/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shared files of AWS's tools: sections "[name]", lines "key = value", and below a key without a value, indented lines of
 * the same form. A line that begins with '#' or ';' is a comment. Keys are the same in upper and lower case.
 */
#include "s3/internal.h"

#include <strings.h>

static struct str next_line(struct str *text)
{
	return str_cut(text, '\n');
}

static bool is_key(struct str name, const char *key)
{
	return name.size == strlen(key) && strncasecmp(name.p, key, name.size) == 0;
}

static size_t blanks_of(struct str line)
{
	size_t n = 0;

	while (n < line.size && (line.p[n] == ' ' || line.p[n] == '\t'))
		n++;
	return n;
}

static struct str without_quotes(struct str s)
{
	return s.size >= 2 && (*s.p == '"' || *s.p == '\'') && s.p[s.size - 1] == *s.p
		       ? (struct str){ s.p + 1, s.size - 2 }
		       : s;
}

/* "[ profile  x ]" or "[profile "x"]", for "profile x". */
static bool section_is(struct str line, const char *section)
{
	static const struct str kinds[] = { STR("profile"), STR("services") };
	struct str inner, want = str_of(section);

	if (line.size < 2 || line.p[0] != '[')
		return false;
	inner = (struct str){ line.p + 1, line.size - 1 };
	inner = str_trim(str_cut(&inner, ']'));
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		size_t n = kinds[i].size;

		if (!str_starts(want, kinds[i]) || want.size <= n || want.p[n] != ' ')
			continue;
		if (!str_starts(inner, kinds[i]) || !blanks_of((struct str){ inner.p + n, inner.size - n }))
			return false;
		inner = without_quotes(str_trim((struct str){ inner.p + n, inner.size - n }));
		want = (struct str){ want.p + n + 1, want.size - n - 1 };
		break;
	}
	return str_eq(inner, want);
}

static bool line_is_comment(struct str line)
{
	return !line.size || line.p[0] == '#' || line.p[0] == ';';
}

bool profile_has(struct str text, const char *section)
{
	while (text.size)
		if (section_is(str_trim(next_line(&text)), section))
			return true;
	return false;
}

bool profile_get(struct str text, const char *section, const char *key, const char *sub, struct str *ret)
{
	bool inside = false, below = false, found = false;
	size_t indent = SIZE_MAX; /* of the section's keys: all may be indented */

	while (text.size) {
		struct str line = next_line(&text), trimmed = str_trim(line), name;
		bool indented = blanks_of(line) > indent;

		if (line_is_comment(trimmed))
			continue;
		if (trimmed.p[0] == '[') {
			inside = section_is(trimmed, section);
			below = false;
			indent = SIZE_MAX;
			continue;
		}
		if (!inside)
			continue;
		if (!indented)
			indent = blanks_of(line);
		name = str_trim(str_cut(&trimmed, '='));
		trimmed = str_trim(trimmed);
		if (!indented)
			below = sub && is_key(name, key) && !trimmed.size;
		if (sub ? !(indented && below && is_key(name, sub)) : indented || !is_key(name, key))
			continue;
		*ret = trimmed;
		found = true;
	}
	return found && ret->size;
}
