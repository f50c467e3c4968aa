/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree's own. Its strings, frames and nodes are kept in a profile that is built: frames are its functions
 * (the system name being the binary), nodes its stacks.
 */
#pragma once

#include "profile/internal.h"
#include "profile/tree.h"

enum { MATCH_FOCUS, MATCH_IGNORE, MATCH_HIDE, MATCH_SHOW, N_MATCHES };

struct profile_tree {
	struct profile *p;
	struct profile_view view;
	struct pattern *patterns[N_MATCHES];  /* NULL: none */
	PROFILE_TABLE(uint8_t) frame_matches; /* bits, of each frame that was looked at */
	PROFILE_TABLE(uint8_t) addresses; /* of frames: they are no more than a binary and an address in it */
	PROFILE_TABLE(uint8_t) outlined;  /* of nodes: seen as a function by itself */
	struct profile_column {
		PROFILE_TABLE(int64_t) self, total;
	} columns[PROFILE_COLUMNS];
	bool used[PROFILE_COLUMNS];
	bool named; /* type and unit are known */
	uint32_t type, unit;
	uint32_t *first_child,
		*children; /* children of n: children[first_child[n]] to before [first_child[n + 1]] */
};
