/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owners: an object belongs to the token that pushed it first. Only that token, and clients with the scope admin, may
 * replace it. The rules are the store's (store/owner.c).
 */
#include "server/push/push.h"

const char *push_owner_name(const struct request *req)
{
	return strcmp(req->token, HTTP_LOCAL_NAME) == 0 ? PUSH_LOCAL : req->token;
}

bool push_is_admin(struct request *req)
{
	char name[TOKEN_MAX_NAME];
	const char *text;

	return http_authorize(req->service, req->conn, TOKEN_ADMIN, name, &text) == 0;
}

struct str push_other_owner(struct server *s, const struct push_request *pr, struct arena *a, struct err *err)
{
	return pr->is_admin ? STR("")
			    : store_other_owner(s->opts.store, &pr->key, pr->meta.owner,
						pr->has_sha256 ? pr->sha256 : NULL, a, err);
}

char *push_owned_text(struct str owner, struct arena *a)
{
	if (!owner.size)
		return arena_printf(
			a, "the object, or the program that it belongs to, has another owner: only that "
			   "owner's token, or one with the scope admin, may replace it");
	return arena_printf(a,
			    "the object belongs to '" STR_FMT "': only that owner's token, or one with the "
			    "scope admin, may replace it",
			    STR_ARG(owner));
}
