/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by tree.c and tree_end.c. Strings, frames and nodes of the tree are entries of a profile that is
 * being built: frames are its functions (the system name is the binary), nodes its stacks.
 */
#pragma once

#include "profile/internal.h"
#include "profile/tree.h"

enum { MATCH_FOCUS, MATCH_IGNORE, MATCH_HIDE, MATCH_SHOW, N_MATCHES };

struct profile_tree {
	struct profile *p;
	struct profile_view view;
	struct deadline *deadline;            /* NULL: none */
	struct pattern *patterns[N_MATCHES];  /* NULL: none */
	PROFILE_TABLE(uint8_t) frame_matches; /* bits, of each frame that was classified */
	PROFILE_TABLE(uint8_t) addresses;     /* of frames: they have only a binary and an address */
	PROFILE_TABLE(uint8_t) outlined;      /* of nodes: also seen as a function that is not inlined */
	struct profile_column {
		PROFILE_TABLE(int64_t) self, total;
	} columns[PROFILE_COLUMNS];
	bool used[PROFILE_COLUMNS];
	bool named; /* type and unit are known */
	uint32_t type, unit;
	uint32_t *first_child,
		*children; /* children of n: children[first_child[n]] to before [first_child[n + 1]] */
};
