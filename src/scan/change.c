/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes of the index, as they are handed to the writer.
 */
#include <stdlib.h>
#include "scan/internal.h"

struct change *change_new(enum change_kind kind)
{
	struct change *c = NEW(struct change);

	c->kind = kind;
	arena_init(&c->arena);
	return c;
}

void change_set_file(struct change *c, const struct index_file *f)
{
	c->file = *f;
	c->file.path = arena_str(&c->arena, f->path);
	c->file.reason = arena_str(&c->arena, f->reason);
}

void change_free(struct change *c)
{
	if (!c)
		return;
	if (c->deep) {
		deep_result_done(c->deep);
		free(c->deep);
	}
	arena_done(&c->arena);
	free(c);
}

int64_t retry_at(int64_t now_s, uint32_t tries)
{
	return now_s + clock_backoff(SCAN_RETRY_FIRST_S, tries, SCAN_RETRY_LAST_S);
}

void scan_points_path(const char *points_dir, const struct index_file *f, struct buf *ret)
{
	buf_printf(ret, "%s/%lld.%016llx", points_dir, (long long)f->id, (unsigned long long)f->generation);
	buf_cstr(ret);
}
