/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON replies: the few things that metadata.c, status.c and failures.c have in common.
 */
#pragma once

#include <jansson.h>
#include "server/internal.h"

json_t *json_number(uint64_t n);
/* JSON is UTF-8, file names are bytes: those that are not text become U+FFFD. */
json_t *json_lossy(struct str s);
/* A string with its quotes, likewise, for JSON that is written without making objects of it. */
void json_add_string(struct buf *b, struct str s);
/* What would take much more memory than it has bytes is ERR_LIMIT. NULL: err says why. */
json_t *json_load_bytes(struct bytes body, size_t max_lists, size_t max_values, struct err *err);
/* The reply to a job's request; takes @all. */
void json_reply(struct request *req, json_t *all);

/* The reply is a line of text that says why not; @text ends in a newline. */
void json_refuse(struct request *req, unsigned status, const char *text);
/* A parameter of the query, decoded, in the request's arena; empty when it is not there. -1: it was refused.
 */
int json_arg(struct request *req, const char *name, struct str *ret);
