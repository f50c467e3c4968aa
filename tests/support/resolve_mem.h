/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A resolver that finds content put in by hand, under its kind, build ID and argument.
 */
#pragma once

#include "resolve/resolve.h"

/* Takes nothing; @content is copied. */
struct resolver *resolve_mem_new(void);
void resolve_mem_put(struct resolver *r, enum resolve_kind kind, const struct build_id *id, struct str arg,
		     struct bytes content, struct str file, struct str archive, int64_t mtime);
void resolve_mem_put_waiting(
	struct resolver *r, enum resolve_kind kind, const struct build_id *id,
	struct str arg); /* RESOLVE_WAIT until put, as another server; missing if no other is asked */
/* More may turn up; answers on metadata are incomplete. */
void resolve_mem_set_unfinished(struct resolver *r, bool unfinished);
void resolve_mem_fail(struct resolver *r, enum resolve_kind kind, const struct build_id *id, struct str arg,
		      const struct err *why);
