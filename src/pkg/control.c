/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Debian's control file (deb-control(5)): "Field: value", with continuation lines that begin with a blank.
 * Only the first paragraph speaks of the package. Build-Ids is what a package of detached debug information
 * says it holds.
 */
#include "pkg/internal.h"

#include <strings.h>

static bool name_is(struct str name, const char *want)
{
	return name.size == strlen(want) && strncasecmp(name.p, want, name.size) == 0;
}

static bool next_word(struct str *s, struct str *ret)
{
	size_t i = 0, n = 0;

	while (i < s->size && strchr(" \t\r\n", s->p[i]))
		i++;
	while (i + n < s->size && !strchr(" \t\r\n", s->p[i + n]))
		n++;
	if (!n)
		return false;
	*ret = (struct str){ s->p + i, n };
	*s = (struct str){ s->p + i + n, s->size - i - n };
	return true;
}

/* Words that are no build IDs are passed over: they name nothing that could be asked for. */
static void add_build_ids(struct str value, struct arena *a, struct pkg_info *ret)
{
	struct str rest = value, word;
	struct build_id id;
	size_t n = 0;

	while (next_word(&rest, &word))
		n++;
	if (!n || ret->n_build_ids)
		return;
	ret->build_ids = ARENA_NEW_N(a, struct build_id, n);
	for (rest = value; next_word(&rest, &word);)
		if (build_id_parse(&id, word))
			ret->build_ids[ret->n_build_ids++] = id;
}

static void take_field(struct str name, struct str value, struct arena *a, struct pkg_info *ret)
{
	struct str word;

	if (name_is(name, "Package")) {
		ret->name = arena_str(a, value);
	} else if (name_is(name, "Version")) {
		ret->version = arena_str(a, value);
	} else if (name_is(name, "Architecture")) {
		ret->arch = arena_str(a, value);
	} else if (name_is(name, "Source")) {
		/* "name (version)" where the versions differ */
		if (next_word(&value, &word))
			ret->source_name = arena_str(a, word);
	} else if (name_is(name, "Build-Ids")) {
		add_build_ids(value, a, ret);
	}
}

/* One field from *rest: its line and the continuation lines behind it. false: the paragraph's end. */
static bool next_field(struct str *rest, struct str *ret_name, struct str *ret_value)
{
	struct str line = str_cut(rest, '\n');
	const char *start = line.p, *end = line.p + line.size;

	if (!str_trim(line).size)
		return false;
	while (rest->size && (rest->p[0] == ' ' || rest->p[0] == '\t')) {
		line = str_cut(rest, '\n');
		end = line.p + line.size;
	}
	*ret_value = (struct str){ start, (size_t)(end - start) };
	*ret_name = str_trim(str_cut(ret_value, ':'));
	*ret_value = str_trim(*ret_value);
	return true;
}

void control_parse(struct str text, struct arena *a, struct pkg_info *ret)
{
	struct str name, value;

	/* Empty lines in front are allowed. */
	while (text.size && strchr("\r\n", text.p[0]))
		text = (struct str){ text.p + 1, text.size - 1 };
	while (text.size && next_field(&text, &name, &value))
		take_field(name, value, a, ret);
}
