/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of profile types.
 */
#include "profilestore/type.h"

#include <string.h>

#define DELTA   STR(":delta")
#define N_PARTS 5u

static bool type_text_has(struct str s, struct str part)
{
	return s.size && memmem(s.p, s.size, part.p, part.size);
}

/* NAME by one sample type; empty: it does not say. */
static struct str name_of_sample_type(struct str type)
{
	if (type_text_has(type, STR("cpu")))
		return STR("process_cpu");
	if (type_text_has(type, STR("alloc_")) || type_text_has(type, STR("inuse_")) ||
	    str_eq(type, STR("space")) || str_eq(type, STR("objects")))
		return STR("memory");
	if (type_text_has(type, STR("mutex_")))
		return STR("mutex");
	if (type_text_has(type, STR("block_")))
		return STR("block");
	if (type_text_has(type, STR("goroutine")))
		return STR("goroutines");
	return STR("");
}

struct str type_name_of(const struct str *sample_types, size_t n, struct str period_type)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq(sample_types[i], STR("wall")))
			return sample_types[i];
	for (size_t i = 0; i < n; i++) {
		struct str name = name_of_sample_type(sample_types[i]);

		if (name.size)
			return name;
	}
	/* "samples" by CPU time. */
	if (str_eq(period_type, STR("cpu")))
		return STR("process_cpu");
	return n && sample_types[n - 1].size ? sample_types[n - 1] : TYPE_NAME_UNKNOWN;
}

/* NAME as in the ID, and the rest of the ID after NAME, with its colon. */
static void split_type(struct str type, struct str *ret_name, struct str *ret_rest)
{
	struct str rest = type, parts[N_PARTS];
	size_t n = 0;

	while (n < N_PARTS && rest.p)
		parts[n++] = str_cut(&rest, ':');
	*ret_name = parts[0];
	*ret_rest = (struct str){ type.p + parts[0].size, type.size - parts[0].size };
	if (rest.p && str_ends(type, DELTA))
		ret_rest->size -= DELTA.size;
	if (n == N_PARTS && str_eq(parts[0], TYPE_NAME_UNKNOWN))
		*ret_name = type_name_of(&parts[1], 1, parts[3]);
}

void type_id_of(struct str type, struct buf *out)
{
	struct str name, rest;

	split_type(type, &name, &rest);
	buf_add_str(out, name);
	buf_add_str(out, rest);
}

bool type_has_id(struct str type, struct str id)
{
	struct str name, rest;

	split_type(type, &name, &rest);
	return id.size == name.size + rest.size && str_starts(id, name) && str_ends(id, rest);
}
