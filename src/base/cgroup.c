/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of a cgroup (v2): each group between ours and the root may have one, and the smallest holds.
 */
#include "base/internal.h"

#include "base/file.h"
#include "base/mem.h"

#define LIMIT_TEXT_MAX 256

void cgroup_each_limit(struct str membership, const char *root, const char *file,
		       void (*fn)(void *arg, struct str text), void *arg)
{
	struct str group = { 0 };

	/* The line of v2 begins with "0::"; the other lines are of v1. */
	while (membership.size) {
		struct str line = str_cut(&membership, '\n');

		if (str_starts(line, STR("0::/")))
			group = (struct str){ line.p + 3, line.size - 3 };
	}
	while (group.size) {
		AUTO(mem_freep) char *path = mem_printf("%s" STR_FMT "/%s", root, STR_ARG(group), file);
		AUTO(buf_done) struct buf text = { 0 };

		if (file_read(path, LIMIT_TEXT_MAX, &text, NULL) == 0)
			fn(arg, buf_str(&text));
		group = str_eq(group, STR("/")) ? (struct str){ 0 } : path_dirname(group);
	}
}
