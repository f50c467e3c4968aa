/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers to uploads: whether the intended server gave the answer, and which answer it is.
 *
 * A status does not prove that a server has received a file or a profile. Proxies answer with status 200 and a page to log in,
 * captive portals redirect to such a page, firewalls refuse a body by a page with status 200, and at a mistyped URL another
 * program answers. A sender that took these for success would drop the only copy. So an answer of success counts only if it
 * has a sign that no such program sends:
 *
 *   request                   success      sign
 *   PUT /buildid/ID/KIND,     200, 201     the header X-LODE-RESULT, with any value
 *   POST /push/signed/UPLOAD  202          X-LODE-RESULT: held, or X-LODE-OFFSET with less than the file's size
 *   POST /push/want           200          JSON: "objects" has one object for each file, in each a boolean "want"
 *   POST /profiles            200 to 299   JSON: "samples" is an integer
 *   OTLP                      200 to 299   an empty body, a whole message of protobuf, or "{" as the first byte: receivers
 *                                          are of all makes, and some answer in JSON of their own
 *
 * Lode servers of all versions send these signs. An answer of success without one is negative, ERR_UPSTREAM: it may pass, and
 * nothing counts as received. All other statuses are CLIENT_REFUSED (of the first two requests, 409 has outcomes of its own):
 * refusals have no sign, and a proxy's counts as the server's. The caller decides by the status which of them are final
 * (net_answer_is_final()).
 *
 * Not here: files and metadata of debuginfod servers, which are checked by their content (check.c, metadata.c), and PUTs to a
 * bucket, whose outcome the lode server reports.
 */
#pragma once

#include "base/base.h"

enum { CLIENT_REFUSED = 1 };

/* ---- files ---- */

/* The answer to a file, a part of one, or the end of an upload to the bucket. */
enum client_upload {
	CLIENT_UPLOAD_STORED = 0,
	CLIENT_UPLOAD_REFUSED = CLIENT_REFUSED,
	CLIENT_UPLOAD_HELD,    /* all of it is on the server's disk, since its bucket is away */
	CLIENT_UPLOAD_SAME,    /* the server has the same bytes */
	CLIENT_UPLOAD_BETTER,  /* the server has a better file, and keeps that */
	CLIENT_UPLOAD_PARTIAL, /* go on at *ret_off */
	CLIENT_UPLOAD_OFFSET,  /* the part began at the wrong byte: the server expected *ret_off */
	CLIENT_UPLOAD_BUSY,    /* another connection sends this file, or waits for the same answer */
	CLIENT_UPLOAD_OWNED,   /* the object belongs to another token: final */
};
/* Returns an enum client_upload, or negative. @headers: all lines, as in struct net_call_answer. @size: of the whole file. */
int client_answer_upload(unsigned status, struct str headers, uint64_t size, uint64_t *ret_off,
			 struct err *err);

/* ---- /push/want ---- */

/* The answer about one file. Texts are the server's, as they came, and valid during the call. */
struct client_want {
	enum client_want_kind {
		CLIENT_WANT_YES,
		CLIENT_WANT_BUSY, /* another connection sends it: ask again */
		CLIENT_WANT_SAME,
		CLIENT_WANT_BETTER,
		CLIENT_WANT_HELD,
		CLIENT_WANT_OWNED,
		CLIENT_WANT_TOO_LARGE,
		CLIENT_WANT_NO, /* for another reason: a failure */
	} kind;
	uint64_t off;      /* YES: the byte to start at, whatever the file's size is */
	bool is_signed;    /* YES: the client may send it to the bucket */
	const char *why;   /* not wanted: the reason in the protocol's words; "?": there is none */
	const char *owner; /* OWNED: the name of the token; "?": there is none */
};
/*
 * Calls @each for each of the @n files that were asked about, in their order, after all of the answer has been checked.
 * Returns 0, CLIENT_REFUSED, or negative; @each is called with 0 only.
 */
int client_answer_want(unsigned status, struct bytes body, size_t n,
		       void (*each)(void *arg, size_t i, const struct client_want *w), void *arg,
		       struct err *err);

/* ---- profiles ---- */

struct client_receipt {
	uint64_t n_profiles, n_samples; /* as the server counts them */
	int64_t id;                     /* of the first profile; 0: none */
	bool duplicate;                 /* the server had them already */
};
#define CLIENT_WANTED_MAX 1000u /* build IDs of one receipt; others are ignored */
/*
 * Returns 0 and the receipt, CLIENT_REFUSED, or negative. @wanted, unless it is NULL, is called with each build ID whose debug
 * information the server wants.
 */
int client_answer_profiles(unsigned status, struct bytes body,
			   void (*wanted)(void *arg, const struct build_id *id), void *arg,
			   struct client_receipt *ret, struct err *err);

/* Returns 0, also if the receiver rejected some of the profiles, CLIENT_REFUSED, or negative. */
int client_answer_otlp(unsigned status, struct bytes body, struct err *err);

/* ---- refusals ---- */

/*
 * The message in the body of a refusal, for people: the "error" of a JSON object, else the first line; a page of HTML is
 * said to be one, since its first line is a tag. At most 400 bytes, without control characters. Heap.
 */
char *client_message(struct bytes body);
