/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading JSON that clients send. It is written by base/json.h.
 */
#pragma once

#include <jansson.h>
#include "base/base.h"

/* The memory that the tree of a body may need, by the number of its values. Of a body that is no JSON, too. */
uint64_t json_tree_size(struct bytes body);
/* Numbers beyond int64_t, or beyond a double, become strings of their digits. NULL: err says why. */
json_t *json_load_any(struct bytes body, struct err *err);
/* A body that would take much more memory than it has bytes is ERR_LIMIT. NULL: err says why. */
json_t *json_load_bytes(struct bytes body, size_t max_lists, size_t max_values, struct err *err);
