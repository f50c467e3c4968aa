/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server that a command sends files to: its URL, the token, and requests one after another.
 */
#pragma once

#include "client/answer.h"
#include "cmd/internal.h"
#include "net/net.h"

/* Rows of options; both set push.*. */
#define TARGET_ROWS                                                                                         \
	{ 0, "to", "URL", "the server, as http://host:8002 or unix:/PATH", OPT_TEXT(push.to) },             \
	{                                                                                                   \
		0, "token-file", "FILE", "a file with the token that lode token add printed [$LODE_TOKEN]", \
			OPT_TEXT(push.token_file)                                                           \
	}

/* Check the URL of --to. *ret is in the arena, without a slash at the end. A failure is a mistake of the
 * user's. */
int target_url(const char *text, struct arena *a, const char **ret, struct err *err);
/* A browser can open it: it is no Unix socket. */
bool target_has_page(const char *url);
/* Read the token from the file @path (NULL: $LODE_TOKEN). *ret NULL: there is none. */
int target_token(const char *path, struct arena *a, const char **ret, struct err *err);

/* Belongs to one thread. */
struct target {
	const char *url, *token; /* borrowed */
	struct net *net;
	bool reached;          /* it has answered a request */
	bool (*stopped)(void); /* NULL, or called during waits; true ends them with ERR_CANCELLED */
};
int target_open(struct target *t, struct err *err); /* url, token, stopped are set */
void target_close(struct target *t);                /* zeroed is fine */
struct target_request {
	const char *method, *path; /* the path begins with a slash */
	const char *type;          /* of the body; NULL: no body */
	struct bytes body;
};
/*
 * Send a request and wait for the answer. A failure that may pass is retried after pauses, if the server has
 * answered before. 0: any status, and *ret is the caller's (client/answer.h: whether the server gave the answer).
 * ERR_UPSTREAM: there is no answer, and *ret is empty.
 */
int target_ask(struct target *t, const struct target_request *req, struct net_answer *ret, struct err *err);
