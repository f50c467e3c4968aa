/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server that a command sends things to: its URL, the token, and requests one after another.
 */
#pragma once

#include "cmd/internal.h"
#include "net/net.h"

/* Rows of options; both set push.*. */
#define TARGET_ROWS                                                                                        \
	{ 0, "to", "URL", "the server, as http://host:8002", OPT_TEXT(push.to) },                          \
	{                                                                                                  \
		0, "token-file", "FILE", "a file that holds the token, from lode token add [$LODE_TOKEN]", \
			OPT_TEXT(push.token_file)                                                          \
	}

/* Of --to, without the slash at the end; in the arena. A failure is a mistake of the user's. */
int target_url(const char *text, struct arena *a, const char **ret, struct err *err);
/* Out of the file (NULL: $LODE_TOKEN); NULL: there is none. */
int target_token(const char *path, struct arena *a, const char **ret, struct err *err);

/* What an answer says to people: its first line, or the "error" of a JSON object; without what a terminal
 * would obey. Heap. */
char *target_said(struct bytes body);
/* This status comes again however often one asks. */
bool target_is_final(unsigned status);

/* Belongs to one thread. */
struct target {
	const char *url, *token; /* borrowed */
	struct net *net;
	bool reached;          /* it has answered before */
	bool (*stopped)(void); /* NULL, or: asked while it waits; true ends that with ERR_CANCELLED */
};
int target_open(struct target *t, struct err *err); /* url, token, stopped are set */
void target_close(struct target *t);                /* zeroed is fine */
/*
 * One request; @path begins with a slash, @type is the body's (NULL: no body). What may pass is tried again
 * with pauses, if the server has answered before. 0: *ret_status, and the body is appended to @ret_body.
 * ERR_UPSTREAM: there is no answer.
 */
int target_ask(struct target *t, const char *method, const char *path, const char *type, struct bytes body,
	       unsigned *ret_status, struct buf *ret_body, struct err *err);
