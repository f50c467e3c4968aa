/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owners: an object belongs to the token that pushed it first. Only that token, and clients with the scope admin, may
 * replace it.
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
	struct store_key key = pr->key;
	struct store_meta there = { 0 };
	bool same, is_there;
	int r;

	if (pr->is_admin)
		return STR("");
	r = store_find(s->opts.store, &key, a, &there, err);
	is_there = r == 0;
	if (r && key.kind == STORE_DEBUGINFO) {
		key.kind = STORE_EXECUTABLE;
		is_there = store_find(s->opts.store, &key, a, &there, err) == 0 &&
			   there.quality == STORE_DWARF;
	}
	/* Without a SHA-256 the bytes have to come before they can be compared. */
	same = key.kind == pr->key.kind &&
	       (!pr->has_sha256 || memcmp(there.sha256, pr->sha256, sizeof(pr->sha256)) == 0);
	/* A better file may replace one with dynamic symbols alone; the commit knows if it is. */
	if (!is_there || same || there.quality == STORE_DYNSYM || str_eq(store_owner(&there), pr->meta.owner))
		return STR("");
	return store_owner(&there);
}

char *push_owned_text(struct str owner, struct arena *a)
{
	return arena_printf(a,
			    "the object belongs to '" STR_FMT "': only that owner's token, or one with the "
			    "scope admin, may replace it",
			    STR_ARG(owner));
}
