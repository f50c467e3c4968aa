/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shared files of AWS's tools: sections "[name]", lines "key = value", and below a key without a value, indented lines of
 * the same form. A line that begins with '#' or ';' is a comment.
 */
#include "s3/internal.h"

static struct str next_line(struct str *text)
{
	return str_cut(text, '\n');
}

/* "[ profile  x ]" without brackets, and with one blank. */
static bool section_is(struct str line, const char *section)
{
	struct str inner, word, want = str_of(section);

	if (line.size < 2 || line.p[0] != '[')
		return false;
	inner = (struct str){ line.p + 1, line.size - 1 };
	inner = str_trim(str_cut(&inner, ']'));
	while (inner.size && want.size) {
		word = str_word(&inner);
		if (!str_eq(word, str_word(&want)))
			return false;
		inner = str_trim(inner);
	}
	return !inner.size && !want.size;
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

	while (text.size) {
		struct str line = next_line(&text), trimmed = str_trim(line), name;
		bool indented = line.size && (line.p[0] == ' ' || line.p[0] == '\t');

		if (line_is_comment(trimmed))
			continue;
		if (trimmed.p[0] == '[') {
			inside = section_is(trimmed, section);
			below = false;
			continue;
		}
		if (!inside)
			continue;
		name = str_trim(str_cut(&trimmed, '='));
		trimmed = str_trim(trimmed);
		if (!indented)
			below = sub && str_eq(name, str_of(key)) && !trimmed.size;
		if (sub ? !(indented && below && str_eq(name, str_of(sub)))
			: indented || !str_eq(name, str_of(key)))
			continue;
		*ret = trimmed;
		found = true;
	}
	return found && ret->size;
}
