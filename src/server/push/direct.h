/* SPDX-License-Identifier: Apache-2.0 */
/* Uploads to the bucket by signed URLs: what lode push and Parca's clients share. */
#pragma once

#include "server/push/push.h"
#include "store/incoming.h"

/* lode push is offered it from this size on: for smaller files two more requests take longer than the bytes. */
#define DIRECT_MIN MIB(1)

/* May such a client, one of DIRECT_FOR_..., send a file of this size to the bucket? */
bool direct_offers(const struct server *s, unsigned who, uint64_t size);
/*
 * Before an upload is announced: is there a store beside which its objects may be put? A damaged record of @key is no failure,
 * since a push takes its place.
 */
int direct_ask_store(struct store *st, const struct store_key *key, struct arena *a, struct err *err);
/*
 * Announce @u, whose key, meta and flags are set. ERR_BUSY: there are too many, of all or of this owner. Else as
 * incoming_begin().
 */
int direct_begin(struct server *s, struct incoming_upload *u, bool in_parts, struct err *err);
void direct_give_up(struct server *s, const struct incoming_upload *u);
uint64_t direct_number(struct str id); /* of its pass */

struct direct_end {
	struct str id;
	const struct build_id *build_id; /* that it was announced for; NULL: any */
	const char *owner;               /* of the request: only the owner that announced it finishes it */
	bool is_admin;
	const char *what; /* for the log */
};
/*
 * All was sent: check and commit the file. 404: no such upload; 409 busy: another thread is finishing it; 412: not all of it
 * is in the bucket. Other outcomes are those of any push; from 500 on it may be finished again later.
 */
void direct_finish(struct server *s, const struct direct_end *e, struct arena *a, struct push_outcome *ret);
