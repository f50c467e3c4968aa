/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folded stacks: one line for each stack, the outermost frame first, and its count. As written by
 * stackcollapse-*.pl and many other programs.
 */
#include "profile/input.h"

#include "profile/internal.h"
#include "profile/words.h"

/* Cut off the last word. */
static struct str cut_last(struct str *line)
{
	const char *blank = memrchr(line->p, ' ', line->size);
	struct str last = *line;

	if (!blank)
		return (struct str){ 0 };
	last.p = blank + 1;
	last.size = (size_t)(line->p + line->size - last.p);
	line->size = (size_t)(blank - line->p);
	return last;
}

static uint32_t named_location(struct profile *p, struct str name)
{
	const struct profile_location l = { .mapping = PROFILE_NONE };
	struct profile_function f = { .name = profile_add_string(p, name) };
	struct profile_line line = { 0 };

	f.system_name = f.name;
	line.function = profile_add_function(p, &f);
	return profile_add_location(p, &l, &line, 1);
}

static int folded_read_line(struct profile *p, struct str line, struct err *err)
{
	struct str count = cut_last(&line);
	uint32_t stack = 0;
	unsigned depth = 0;
	int64_t v;

	if (!words_int(count, &v))
		return err_set(err, ERR_INVALID, "is not a stack followed by a count");
	for (struct str rest = line; rest.p && rest.size; depth++) {
		if (depth == PROFILE_MAX_DEPTH)
			return err_set(err, ERR_LIMIT, "the stack is deeper than %u", PROFILE_MAX_DEPTH);
		stack = profile_add_stack(p, stack, named_location(p, str_cut(&rest, ';')));
	}
	profile_add_sample(p, stack, 0, &v);
	return profile_build_end(p, err);
}

int profile_read_folded(struct str text, const struct profile_limits *limits, struct profile **ret,
			struct err *err)
{
	AUTO(profile_freep) struct profile *p = profile_new(limits);
	uint64_t n = 0;

	profile_add_type(p, STR("samples"), STR("count"));
	while (text.p && text.size) {
		struct str line = str_trim(str_cut(&text, '\n'));

		n++;
		if (!line.size || line.p[0] == '#')
			continue;
		if (folded_read_line(p, line, err) < 0)
			return err_in(err, "line %llu", (unsigned long long)n);
	}
	if (!p->n_samples)
		return err_set(err, ERR_INVALID, "has no samples");
	*ret = TAKE(p);
	return 0;
}
