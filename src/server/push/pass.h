/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passes: the right to upload one file once, without a token, by a URL that holds a secret; or with the token, by the call
 * Upload. A client that is allowed to
 * push gets one by Parca's InitiateUpload. It is bound to a build ID and a size, and expires.
 *
 * Uploads to the bucket (direct.c) are counted here, too; their right is in a URL that the bucket checks.
 */
#pragma once

#include "http/token.h"
#include "server/internal.h"

#define PASS_SECRET_SIZE 33u /* hexadecimal, with its NUL */
#define PASSES_MAX       4096u
#define PASSES_OF_ONE    3072u            /* of one owner, without those that are finished */
#define PASS_USE_MS      (15 * 60 * 1000) /* until it is used */
#define PASS_KEEP_MS     (60 * 60 * 1000) /* until nobody asks for its end any more */

#define PASS_NUMBER_SIZE 17u /* of its text, with its NUL */

struct pass {
	uint64_t number; /* its name for MarkUploadFinished */
	struct build_id id;
	bool by_sender; /* the build ID is one that the sender has computed of another file */
	uint64_t size;
	char owner[TOKEN_MAX_NAME];
	bool is_admin;
	/*
	 * Of an upload to the bucket: the number is given, there is no secret, and it counts as open for so long. 0: of
	 * another
	 */
	int64_t direct_ms;
};

enum pass_state { PASS_NONE, PASS_OPEN, PASS_USED, PASS_DONE };

struct passes;
/* @max_direct: bytes of uploads to the bucket that are not finished; one may be larger. 0: no limit */
struct passes *passes_new(uint64_t max_direct);
void passes_free(struct passes *t);
/*
 * So many bytes of uploads are in the bucket. They count if they are more than those of the passes: a pass ends before its
 * upload is removed, and those of other nodes are not here.
 */
void passes_sent(struct passes *t, uint64_t bytes);
/* Sets @p->number and @secret. ERR_BUSY: there are too many, or too many of this owner, or of their bytes. */
int pass_give(struct passes *t, struct pass *p, char secret[PASS_SECRET_SIZE], struct err *err);
/* Use one up. false: there is none with this secret. */
bool pass_take(struct passes *t, struct str secret, struct pass *ret);
/* The same by its number, for a client with a token: that of @owner, for this build ID. */
bool pass_take_number(struct passes *t, uint64_t number, const struct build_id *id, const char *owner,
		      struct pass *ret);
void pass_print_number(uint64_t number, char out[PASS_NUMBER_SIZE]);
/* false: it is no text of that function. */
bool pass_read_number(struct str text, uint64_t *ret);
void pass_finish(struct passes *t, uint64_t number); /* its file is stored, or need not be */
void pass_refuse(struct passes *t, uint64_t number); /* its file was refused */
void pass_cancel(struct passes *t, uint64_t number); /* as if it had not been given */
enum pass_state pass_state(struct passes *t, uint64_t number, const struct build_id *id);
/* Has somebody one for this build ID that is not used yet? */
bool pass_is_open(struct passes *t, const struct build_id *id);
