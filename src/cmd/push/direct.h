/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uploads to the bucket of the server's store: the server announces the file and gives URLs, the client sends the file to
 * these, and the server reports the outcome. A file that cannot be sent so goes through the server, as all others do.
 */
#pragma once

#include "cmd/push/push.h"

/* Begin with an item that the server wants in this way. Under the lock, as all of these. */
void direct_start(struct push *p, struct push_item *item);
/* Begin the due steps of an item that is being sent so. Returns the time of the next call at the latest. */
int64_t direct_step(struct push *p, struct push_item *item, int64_t now_ms);
void direct_free(struct push_direct *d); /* takes NULL */

/* ---- upload.c ---- */

/* Open the item's file in item->sending_fd. The file may have been replaced since it was hashed. */
int push_open_part(struct push_item *item, struct err *err);
void push_close_part(struct push_item *item);
/* Up to @n bytes of the open file at @off, of which @left are to be sent. They count as sent. */
int push_read(struct push_item *item, uint64_t off, uint64_t left, void *buf, size_t n, size_t *ret_got,
	      struct err *err);
/* The server's answer to an upload, or to its end. */
void push_answered(struct push_item *item, const struct net_call_answer *a);
void push_fail_item(struct push_item *item, char *why); /* takes @why */
/* Add the token to the headers; *auth is to be freed. */
void push_add_token(struct push *p, char **auth, const char **list, size_t *n);
/* X-LODE-FILE and X-LODE-MTIME. */
void push_add_names(struct push_item *item, struct buf *file, char **mtime, const char **list, size_t *n);
#define PUSH_SILENT_MS 300000 /* a server checks and syncs a large file before it answers */
