/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pushing, on the server's side: what its files ask of each other.
 *
 *   push.c          PUT and DELETE: sizes, sessions
 *   upload.c   one PUT's body: from its HTTP thread to a worker, with back pressure
 *   session.c  uploads that were cut, and wait for their next part
 *   check.c    is it what it says it is?
 *   reply.c         replies with their headers
 *   want.c     POST /push/want: which of many are wanted
 *
 * An upload has two buffers: the HTTP thread fills one while a worker empties the other into the store. When
 * both are full the connection is suspended, and TCP holds the client back.
 */
#pragma once

#include "server/internal.h"
#include "store/store.h"

#define PUSH_BUFFER            KIB(256) /* each of the two */
#define PUSH_MAX_UPLOADS       64u      /* bodies that come in at once */
#define PUSH_MAX_SIZE          (UINT64_C(16) << 30)
#define PUSH_WANT_MAX          MIB(8) /* of a want list's body */
#define PUSH_WANT_MAX_TOGETHER MIB(256)
#define PUSH_WANT_ENTRIES      20000u
#define PUSH_MAX_FILE          4096u /* of the name that is noted */

struct session;
struct sessions;
struct upload;

struct push {
	struct sessions *sessions;
	atomic_uint n_uploads;
};
struct push *push_new(struct server *s);
void push_free(struct push *p); /* after all uploads; takes NULL */
void push_tick(struct push *p); /* now and then; takes NULL */

/* ---- handlers; the `kind` of the first two: enum store_kind ---- */

extern const struct http_handler push_put, push_remove, push_want;
extern const struct http_body push_want_body;
bool push_exists(const struct server *s); /* there is a store */

/* An upload, or an entry of a want list. */
struct push_request {
	struct store_key key;
	bool has_sha256;
	uint8_t sha256[STORE_SHA256_SIZE];
	uint64_t off, size, total; /* this body is [off, off + size) of total */
	struct store_meta meta;
	char token[TOKEN_MAX_NAME];
	struct upload *upload; /* of a PUT */
};

/* ---- reply.c ---- */

/* Make the reply, unless there is one. @result: X-LODE-RESULT, or NULL. @text without newline. */
void push_reply(struct request *req, unsigned status, const char *result, const char *text);
/* With X-LODE-OFFSET. */
void push_reply_offset(struct request *req, unsigned status, const char *result, uint64_t off,
		       const char *text);

/* ---- upload.c ---- */

struct upload *upload_new(struct request *req, struct session *session);
size_t upload_body(struct upload *up, struct bytes piece);
bool upload_finish(struct upload *up); /* all is in: a worker makes the reply. false: the server stops */
void upload_gone(struct upload *up);   /* takes the request's hold */

/* ---- session.c ---- */

/* Belongs to whoever has checked it out. */
struct session {
	char *name;
	struct store_put *put; /* NULL: nothing yet, or not yet opened */
	uint64_t left;         /* by the last process: so much, until it is opened */
	bool named;            /* can be parked */
	int64_t parked_ms;
	struct session *prev, *next;
};
/*
 * With those that the last process left in @store (NULL: there is none). Those that wait for their next part
 * have @max_bytes together, and no more than a quarter of the store's quota, or are one; none waits for more
 * than an hour.
 */
struct sessions *sessions_new(struct store *store, uint64_t max_bytes);
void sessions_expire(struct sessions *t); /* now and then, also when nobody pushes */
void sessions_free(struct sessions *t);   /* what waits is left for the next process */
/* The session of this upload, to be continued or new; NULL: another connection has it. Without SHA-256:
 * always one of its own. */
struct session *session_take(struct sessions *t, const struct push_request *pr);
uint64_t session_offset(const struct session *s);
/* How far it is; false: it is not known, or somebody is at it. */
bool session_peek(struct sessions *t, const struct push_request *pr, uint64_t *ret_off, bool *ret_busy);
void session_park(struct sessions *t, struct session *s);  /* for its next part */
void session_drop(struct sessions *t, struct session *s);  /* for good */
void session_reset(struct sessions *t, struct session *s); /* from the start again */
/*
 * Before it is written to. What the last process left is read and hashed for that, and of bytes that were
 * damaged by a crash it is as much as is sound: look at session_offset() again. STORE_FULL.
 */
int session_open(struct sessions *t, struct session *s, uint64_t size, struct err *err);

/* ---- check.c ---- */

/* 0 and the quality; else ERR_INVALID with a sentence for who pushed it. */
int push_check(const struct push_request *pr, struct source *src, enum store_quality *ret, struct err *err);
/* By the first bytes alone: can it still become that? */
int push_check_head(const struct push_request *pr, struct bytes head, struct err *err);

/* ---- want.c ---- */

/* For fuzzing: what a want list asks. fn is called for each; ERR_INVALID for what is none. */
int want_parse(struct bytes body,
	       int (*fn)(void *arg, const struct push_request *pr, enum store_quality quality), void *arg,
	       struct err *err);
/* "bytes 5-9/100"; false: not of that form, or impossible. */
bool push_range_parse(struct str s, uint64_t *ret_off, uint64_t *ret_size, uint64_t *ret_total);
