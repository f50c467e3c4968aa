/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests whose body is taken whole, up to a limit, before a worker has them: what asks for frames, what
 * brings profiles.
 *
 * All that can be refused by the headers is refused before the body is wanted. A body that is too long is not
 * kept any further, so that what is in memory is bounded for each and for all.
 */
#pragma once

#include "server/internal.h"

struct post_kind {
	size_t max;           /* bytes of one body */
	size_t max_together;  /* of all that are under way */
	const char *too_long; /* what to say of it, a sentence */
	void (*refuse)(struct request *req, unsigned status,
		       const char *text); /* makes the reply. @text has no newline */
	void (*job)(struct request *req); /* all is in: on a worker */
};

struct post {
	const struct post_kind *kind;
	atomic_size_t *together;
	size_t counted; /* of the body, in that sum */
	struct buf body;
	unsigned refused; /* the status: what comes of it is passed over */
};

/* The request's post, in its arena. Nothing but refusals is made here: look at req->reply. */
void post_begin(struct request *req, const struct post_kind *kind, atomic_size_t *together);
size_t post_body(struct request *req, struct bytes piece);
enum http_result post_request(struct request *req); /* all is in, or it was refused */
/* The body has been read: its memory goes, and counts no more. */
void post_drop_body(struct request *req);
void post_done(struct request *req);
