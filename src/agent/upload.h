/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uploading one file to a server, in parts, at a limited rate (docs/protocol.md, "Pushing").
 */
#pragma once

#include "net/net.h"
#include "store/store.h"

struct upload_file {
	int fd;
	uint64_t size;
	struct store_key key;
	enum store_quality quality;
	const char *name; /* the path that the server shows; NULL: none */
};

struct upload_way {
	struct net *net; /* of the calling thread */
	const char *url, *token;
	uint64_t rate; /* bytes a second */
	/* Called during waits; true breaks off with ERR_CANCELLED. */
	bool (*stopped)(void *arg);
	void (*sent)(void *arg, uint64_t bytes); /* so many more */
	void *arg;
};

enum {
	UPLOAD_HERE = 1,    /* the server has it, or a better one */
	UPLOAD_REFUSED = 2, /* it does not accept it, for good; err says why */
	UPLOAD_DENIED = 3, /* no file can be uploaded now, by the token, the proxy or the URL; err says why */
};
/*
 * 0: the server has stored it. After a failure that may pass (503, no connection) the upload goes on where the server wants it
 * to: five tries in all. The pause before each grows, and is as long as the server asks for (Retry-After), up to
 * SENDER_LAST_MS. After a negative result a later call may succeed.
 */
int agent_upload(const struct upload_way *w, const struct upload_file *f, struct err *err);
