/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uploads that clients send to the bucket of a store themselves, by URLs that this process signs.
 *
 * Below PREFIX/incoming/ an upload has two objects: its *facts* (what was announced, and by whom), which are put before a
 * URL is given away, and its *data*, which the client puts. A service that is told of the end reads the data once, and puts
 * them into the store as it puts any other file; nothing else reads them. As the facts are in the bucket, any process with
 * the store can do that, also after the one that signed has been killed. What is never finished is removed after a day.
 *
 * docs/formats/store.md has the form, docs/decisions/0076-uploads-to-the-bucket.md the reasons.
 */
#pragma once

#include "store/store.h"

/* A larger file is uploaded in parts of this size, if its client can do that. */
#define INCOMING_PART      MIB(16)
#define INCOMING_WHOLE_MAX MIB(64)
#define INCOMING_PUT_MAX   (UINT64_C(5) << 30) /* of an object that is put by one request, by the API */
#define INCOMING_MAX       (10000 * INCOMING_PART)
#define INCOMING_WHOLE_S   900         /* a URL is good for so long; it has to be used, not to end, by then */
#define INCOMING_PARTS_S   3600        /* ... of parts */
#define INCOMING_FINISH_S  (12 * 3600) /* an upload can be finished until then */
#define INCOMING_KEEP_S    (24 * 3600) /* its objects are removed after that */

#define INCOMING_ID_SIZE     33u /* hexadecimal, with its NUL */
#define INCOMING_UPLOAD_SIZE 1024u

enum { INCOMING_MISSING = 1 };

struct incoming_upload {
	char id[INCOMING_ID_SIZE]; /* random; of its own no right to anything */
	struct store_key key;
	/*
	 * As for a push. size: as announced; sha256: only if has_sha256; created: when it was announced, by the bucket's
	 * clock as far as it was known; 0: not at all
	 */
	struct store_meta meta;
	bool has_sha256;
	bool by_content, by_sender; /* the caller's own: see struct push_request */
	char in_parts
		[INCOMING_UPLOAD_SIZE]; /* the id that the bucket has given to the upload in parts; "": it is put whole */
};

struct incoming;
/*
 * Of the store at @url, "s3://BUCKET/PREFIX". @endpoint: by which clients reach the bucket; NULL: as we do. Nothing is asked of
 * the bucket yet.
 */
int incoming_open(const char *url, const char *endpoint, struct incoming **ret, struct err *err);
struct bucket;
struct incoming *incoming_open_bucket(struct bucket *bucket,
				      const char *endpoint); /* takes @bucket; for tests */
void incoming_close(struct incoming *in);                    /* takes NULL */

void incoming_name_new(struct incoming_upload *u); /* set its id */
/*
 * Announce @u, whose id, key, meta and flags are set; the rest is filled in. @in_parts: the client can send parts, so it
 * does if the file is large. All failures are blob_is_away(), as with a store: ERR_IO with os ENOTCONN.
 */
int incoming_begin(struct incoming *in, struct incoming_upload *u, bool in_parts, struct err *err);
unsigned incoming_n_parts(const struct incoming_upload *u); /* 0: it is put whole */
/* Append the URL by which the client PUTs part @part (from 1; 0: the whole). It is good for that size only. Secret. */
int incoming_url(struct incoming *in, const struct incoming_upload *u, unsigned part, struct buf *ret,
		 struct err *err);

/*
 * One that was announced, by any process; strings in @a. INCOMING_MISSING: there is none, it was dropped, or it is too old.
 */
int incoming_find(struct incoming *in, struct str id, struct arena *a, struct incoming_upload *ret,
		  struct err *err);
/*
 * All bytes were sent, says the client: join the parts, and open the data. INCOMING_MISSING: they are not all there.
 * ERR_INVALID: they have another size than was announced. The source reads each byte once, in order.
 */
int incoming_read(struct incoming *in, const struct incoming_upload *u, struct source **ret, struct err *err);
/* Read the facts of an upload, but its id; for fuzzing. ERR_INVALID, ERR_LIMIT. */
int incoming_facts_read(struct bytes b, struct arena *a, struct incoming_upload *ret, struct err *err);
/* Remove its objects. A failure leaves them to the sweep. */
void incoming_drop(struct incoming *in, const struct incoming_upload *u);
/*
 * The bytes in the bucket that clients have sent and that are not read yet, by all nodes and of all times, as of the last
 * sweep. Sweeps if the last one is as long ago as a URL is good: so the right to one PUT fills the bucket for no longer
 * than that.
 */
uint64_t incoming_left(struct incoming *in);
