/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Debian's control file (deb-control(5)): "Field: value", with continuation lines that begin with a blank.
 * Only the first paragraph describes the package. Build-Ids lists the files in a package of detached debug
 * information.
 */
#include "pkg/internal.h"

#include <strings.h>

static bool field_name_is(struct str name, const char *want)
{
	return name.size == strlen(want) && strncasecmp(name.p, want, name.size) == 0;
}

static bool control_next_word(struct str *s, struct str *ret)
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

/* Words that are no build IDs are skipped. */
static void add_build_ids(struct str value, struct arena *a, struct pkg_info *ret)
{
	struct str rest = value, word;
	struct build_id id;
	size_t n = 0;

	while (control_next_word(&rest, &word))
		n++;
	if (!n || ret->n_build_ids)
		return;
	ret->build_ids = ARENA_NEW_N(a, struct build_id, n);
	for (rest = value; control_next_word(&rest, &word);)
		if (build_id_parse(&id, word))
			ret->build_ids[ret->n_build_ids++] = id;
}

static void control_take_field(struct str name, struct str value, struct arena *a, struct pkg_info *ret)
{
	struct str word;

	if (field_name_is(name, "Package")) {
		ret->name = arena_str(a, value);
	} else if (field_name_is(name, "Version")) {
		ret->version = arena_str(a, value);
	} else if (field_name_is(name, "Architecture")) {
		ret->arch = arena_str(a, value);
	} else if (field_name_is(name, "Source")) {
		/* "name (version)" where the versions differ */
		if (control_next_word(&value, &word))
			ret->source_name = arena_str(a, word);
	} else if (field_name_is(name, "Build-Ids")) {
		add_build_ids(value, a, ret);
	}
}

/* Take one field from *rest: its line and the continuation lines after it. false: the paragraph's end. */
static bool control_next_field(struct str *rest, struct str *ret_name, struct str *ret_value)
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

	/* Empty lines at the start are allowed. */
	while (text.size && strchr("\r\n", text.p[0]))
		text = (struct str){ text.p + 1, text.size - 1 };
	while (text.size && control_next_field(&text, &name, &value))
		control_take_field(name, value, a, ret);
}
