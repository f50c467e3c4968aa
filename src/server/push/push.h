/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uploads: what its files share.
 *
 *   push.c     PUT and DELETE: sizes, sessions
 *   upload.c   the body of a PUT: from its HTTP thread to a worker, with back pressure
 *   commit.c   the end of an upload: check, commit, outcome
 *   session.c  interrupted uploads, which wait for their next part
 *   owner.c    who may replace an object
 *   check.c    is it the kind of file that the path names?
 *   reply.c    replies with their headers
 *   want.c     POST /push/want: which of many files the server wants; want_list.c: the list in JSON
 *   debuginfo_v1.c   Pyroscope's DebuginfoService, calls of Connect
 *   parca_debuginfo.c   Parca's DebuginfoService: calls, and a URL to upload to
 *   pass.c       the right to use such a URL
 *   direct.c     files that clients send to the bucket of the store themselves
 *   offer.c      files that agents offer: is one wanted?
 *
 * An upload has two buffers: the HTTP thread fills one while a worker writes the other to the store. When
 * both are full, the connection is suspended, and TCP makes the client wait.
 */
#pragma once

#include "server/internal.h"
#include "store/store.h"

#define PUSH_BUFFER            KIB(256) /* each of the two */
#define PUSH_MAX_UPLOADS       64u      /* uploads at once */
#define PUSH_SLOW_MS           2000     /* the age from which an upload may be too slow */
#define PUSH_SLOW_RATE         KIB(64)  /* bytes a second below which it makes room for another */
#define PUSH_MAX_SIZE          (UINT64_C(16) << 30)
#define PUSH_DROP_MAX          MIB(16) /* bytes of a refused body in chunks that are read, before it is closed */
#define PUSH_WANT_MAX          MIB(8) /* of the body of a want list */
#define PUSH_WANT_MAX_TOGETHER MIB(256)
#define PUSH_WANT_ENTRIES      20000u
#define PUSH_MAX_FILE          4096u /* of X-LODE-FILE; a longer one is ignored */

struct finishing;
struct pass;
struct session;
struct sessions;
struct upload;

struct push {
	struct sessions *sessions;
	struct passes *passes;
	atomic_uint n_uploads; /* with those whose connection has ended, but not their worker */
	pthread_mutex_t lock;
	struct upload *first;        /* under the lock: those that have a connection */
	struct finishing *finishing; /* under the lock: uploads to the bucket that are being checked */
};
struct push *push_new(struct server *s);
void push_free(struct push *p); /* after all uploads; takes NULL */
void push_tick(struct push *p); /* now and then; takes NULL */

/* ---- handlers; the `kind` of the first two: enum store_kind ---- */

extern const struct http_handler push_put, push_remove, push_want;
extern const struct http_handler push_post;    /* a file of either kind, from clients of Pyroscope */
extern const struct http_handler push_by_pass; /* the same with a pass in the path, from clients of Parca */
extern const struct http_handler push_signed, push_signed_end, push_signed_urls, push_signed_drop;
struct rpc_method;
extern const struct rpc_method debuginfo_should, debuginfo_finished, debuginfo_list, debuginfo_delete;
extern const struct rpc_method parca_should, parca_initiate, parca_finished;
extern const struct http_handler parca_upload_post; /* a call whose client sends many messages */
extern const struct rpc_method parca_upload;        /* for its description */
struct rpc_enum;
extern const struct rpc_enum parca_file_types;
extern const struct http_body push_want_body, push_signed_body;
extern const struct http_body push_call_body; /* of calls about files: not in the room of readers' calls */
bool push_exists(const struct server *s);     /* the server has a store */
struct push_request;
struct str push_peer_address(struct request *req); /* in the request's arena */
/* Of the headers and the connection, into req->own, a struct push_request. */
void push_read_meta(struct request *req);
/*
 * The upload that @p allows, as from the client that it was given to. @pr is zero but for call_id, and the request's own; its
 * sizes are p->size. false: the request was refused.
 */
bool push_with_pass(struct request *req, struct push_request *pr, const struct pass *p);

/* An upload, or an entry of a want list. */
struct push_request {
	struct store_key key;
	bool has_sha256;
	uint8_t sha256[STORE_SHA256_SIZE];
	/* This body is [off, off + size) of total; both STORE_SIZE_UNKNOWN: it comes in chunks, and is the whole. */
	uint64_t off, size, total;
	bool by_content; /* of a POST: the file decides the kind of the object, and success is always 200 */
	bool by_sender;  /* the build ID is one that the sender has computed of another file: see check.c */
	/* With by_sender: the build ID of the program with that hash; size 0: it is not here, or has no other. */
	struct build_id program;
	uint64_t pass;      /* its number; 0: none */
	uint64_t expected;  /* with a pass: the size that a body in chunks must have; else 0 */
	struct str call_id; /* of the call Upload: the build ID as the client has it */
	struct store_meta meta;
	char token[TOKEN_MAX_NAME];
	bool is_admin;         /* may replace objects of other owners */
	struct upload *upload; /* of a PUT */
};

/* ---- reply.c ---- */

/*
 * Make the reply, unless there is one. @result: X-LODE-RESULT, or NULL. @text without newline. Of a call: a message, or a
 * refusal.
 */
void push_reply(struct request *req, unsigned status, const char *result, const char *text);
/* With X-LODE-OFFSET. */
void push_reply_offset(struct request *req, unsigned status, const char *result, uint64_t off,
		       const char *text);

/* ---- owner.c ---- */

/* The name under which this client owns objects: its token, or PUSH_LOCAL. */
#define PUSH_LOCAL "local"
const char *push_owner_name(const struct request *req);
/* May this client replace objects of others? On the request's own thread. */
bool push_is_admin(struct request *req);
/*
 * Would a push of @pr change what another owner's object answers? Then the owner's name, in @a; else empty. A debug file
 * would also take the place of a program of another owner that has the debug information itself. @err (may be NULL) is set
 * if the store could not be asked.
 */
struct str push_other_owner(struct server *s, const struct push_request *pr, struct arena *a,
			    struct err *err);
/* "the object belongs to 'ci': ..."; empty: it is not known to whom */
char *push_owned_text(struct str owner, struct arena *a);

/* ---- upload.c ---- */

/* Is a file with this build ID being received? */
bool upload_is_running(struct push *p, const struct build_id *id);
/*
 * May this token begin another upload? If there are too many, of all tokens or of this one, the slowest of them is
 * closed, if the server waits for its client and has received less than PUSH_SLOW_RATE; its bytes stay for the next
 * try. false: all are fast.
 */
bool upload_admit(struct push *p, const char *token, unsigned max_of_token);
struct upload *upload_new(struct request *req, struct session *session);
size_t upload_body(struct upload *up, struct bytes chunk);
bool upload_finish(
	struct upload *up); /* the whole body is in: a worker makes the reply. false: the server stops */
void upload_gone(struct upload *up); /* takes the request's reference */

/* ---- session.c ---- */

/* One upload. Belongs to the request that has taken it. */
struct session {
	char *name;
	struct store_put *put; /* NULL: nothing was received, or it is not open */
	uint64_t left;         /* bytes that the last process received, until it is open */
	bool named;            /* can be parked */
	int64_t parked_ms;
	struct session *prev, *next;
};
/*
 * Finds the sessions that the last process left in @store (NULL: there is none). Parked sessions have
 * @max_bytes in all, at most a quarter of the store's quota; one is kept even if it is larger. A session is
 * parked for an hour of one process at most.
 */
struct sessions *sessions_new(struct store *store, uint64_t max_bytes);
void sessions_expire(struct sessions *t); /* at intervals, also without uploads */
void sessions_free(struct sessions *t);   /* parked sessions are left for the next process */
/*
 * The session of this upload, to be continued or new; NULL: another connection has it. An upload without
 * SHA-256 always gets a new one.
 */
struct session *session_take(struct sessions *t, const struct push_request *pr);
uint64_t session_offset(const struct session *s);
/* Its offset; false: unknown, or another connection has it. */
bool session_peek(struct sessions *t, const struct push_request *pr, uint64_t *ret_off, bool *ret_busy);
void session_park(struct sessions *t, struct session *s);  /* for its next part */
void session_drop(struct sessions *t, struct session *s);  /* for good */
void session_reset(struct sessions *t, struct session *s); /* from the start again */
/*
 * Open it for writing; @sha256 may be NULL. Bytes that the last process left are read and hashed; of bytes damaged by a crash
 * only the sound ones remain, so session_offset() may be less than before. STORE_FULL.
 */
int session_open(struct sessions *t, struct session *s, uint64_t size, const uint8_t *sha256,
		 struct err *err);
/* Its put was committed in vain, and the store has kept what it could, to be parked; session_offset() is 0 if nothing. */
void session_left(struct sessions *t, struct session *s);

/* ---- check.c ---- */

/*
 * The kind of a file whose path does not tell it: a program if its code is in it, else debug information. PUSH_NOTHING: it
 * has not even dynamic symbols, so nothing can be named by it.
 */
enum { PUSH_NOTHING = 1 };
int push_kind_of(struct source *src, enum store_kind *ret, struct err *err);
/* 0 and the quality; ERR_INVALID with the text for the client. */
int push_check(struct push_request *pr, struct source *src, struct err *err);
/* By the first bytes alone: can it be such a file? */
int push_check_head(const struct push_request *pr, struct bytes head, struct err *err);

/* ---- commit.c ---- */

/* The answer to the client of a push. */
struct push_outcome {
	unsigned status;
	const char *result; /* X-LODE-RESULT; NULL: none */
	const char *text;   /* static, or in the arena */
	bool away;          /* the file is good, and the store is away */
};
/*
 * Check the file of @put, all of which was written, and commit it. Takes @put; if the store is away, its bytes are left to the
 * next put with its name. @pr: its key becomes that of the file. @what: for the log.
 */
void push_commit(struct server *s, struct push_request *pr, struct store_put *put, const char *what,
		 struct arena *a, struct push_outcome *ret);
/* The outcome of a push that has failed with @r: STORE_FULL, or negative. */
void push_failure(const char *what, int r, const struct err *err, struct arena *a, struct push_outcome *ret);

/* ---- want_list.c ---- */

/* Parse a want list; calls fn for each entry. ERR_INVALID, ERR_LIMIT. For fuzzing. */
int want_parse(struct bytes body,
	       int (*fn)(void *arg, const struct push_request *pr, enum store_quality quality), void *arg,
	       struct err *err);
/* push.c: parse "bytes 5-9/100"; false: malformed, or impossible. */
bool push_range_parse(struct str s, uint64_t *ret_off, uint64_t *ret_size, uint64_t *ret_total);
