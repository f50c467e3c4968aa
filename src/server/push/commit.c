/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A complete file: checked against its announcement, then put into the store. The same for all ways by which files come;
 * the outcome has the answer to the client.
 */
#include "server/push/push.h"

#include <errno.h>
#include "server/artifact/artifact.h"

/* The store is in a bucket that cannot be reached. */
static bool store_is_away(const struct err *err)
{
	return err->kind == ERR_IO && err->os == ENOTCONN;
}

static void outcome_set(struct push_outcome *ret, unsigned status, const char *result, const char *text)
{
	*ret = (struct push_outcome){ .status = status, .result = result, .text = text };
}

void push_failure(const char *what, int r, const struct err *err, struct arena *a, struct push_outcome *ret)
{
	if (r == STORE_FULL) {
		outcome_set(ret, 507, NULL,
			    "the store has used up its quota; ask the administrator of the server to raise "
			    "--store-quota");
		return;
	}
	if (err->kind == ERR_INVALID) {
		outcome_set(ret, 422, NULL, arena_printf(a, "the file was refused: %s", err->text));
		return;
	}
	log_warn("http", "%s: %s", what, err->text);
	if (err->os == ENOSPC || err->os == EDQUOT || err->os == EFBIG)
		outcome_set(ret, 507, NULL,
			    "the server's disk is full; nothing was stored; push again when it has room");
	else if (store_is_away(err))
		outcome_set(ret, 503, NULL,
			    arena_printf(a, "the file was not stored; push again later: %s", err->text));
	else
		outcome_set(ret, reply_status_of(err), NULL,
			    "the server could not store the file; its log has the reason; push again later");
}

/* A client of Pyroscope takes 200 alone for success. */
static void end_done(const struct push_request *pr, struct push_outcome *ret, const char *result,
		     const char *text)
{
	unsigned status = strcmp(result, "stored") == 0 ? 201 : strcmp(result, "held") == 0 ? 202 : 200;

	outcome_set(ret, pr->by_content ? 200 : status, result, text);
}

static const char *owned_by_text(struct server *s, const struct push_request *pr, struct arena *a)
{
	struct store_meta there = { 0 };
	struct str owner;

	(void)store_find(s->opts.store, &pr->key, a, &there, NULL);
	owner = store_owner(&there);
	/* A program's, then, of which the bucket cannot be asked. */
	return push_owned_text(str_eq(owner, pr->meta.owner) ? STR("") : owner, a);
}

/* Judge its kind and content. Positive: it is not stored. */
static int file_judge(struct push_request *pr, struct source *src, struct err *err)
{
	int r = pr->by_content ? push_kind_of(src, &pr->key.kind, err) : 0;

	if (r == 0)
		r = push_check(pr, src, err);
	/* The file exceeds a limit, so pushing it again does not help. With an errno the server lacks memory or descriptors. */
	if (r < 0 && err->kind == ERR_LIMIT && !err->os)
		err->kind = ERR_INVALID;
	return r;
}

/*
 * The other owner whose object would answer no more. Only now the file's own build ID is known (check.c), and a program may
 * have come since the headers. The commit compares the owner of the same object alone, so in a folder the question is about
 * the program whose place a debug file would take. Of a bucket nothing was asked before.
 */
static struct str file_other_owner(struct server *s, const struct push_request *pr, struct arena *a,
				   struct err *err)
{
	if (!store_takes_place(&pr->key, &pr->meta))
		return STR("");
	return pr->key.kind == STORE_DEBUGINFO || store_is_remote(s->opts.store)
		       ? push_other_owner(s, pr, a, err)
		       : STR("");
}

/*
 * Takes @put. What a store in a bucket was not asked before the file came is asked here, together with what the commit asks.
 */
static void file_store(struct server *s, struct push_request *pr, struct store_put *put, const char *what,
		       struct arena *a, struct push_outcome *ret)
{
	struct store *st = s->opts.store;
	const struct store_key keys[] = { pr->key, { pr->key.id, STORE_EXECUTABLE, { 0 } } };
	bool holds = store_holds_now(st);
	struct str owner = STR("");
	struct err err = { 0 };
	int r = 0;

	if (!holds)
		store_look(st, keys, pr->key.kind == STORE_DEBUGINFO ? 2 : 1, put);
	if (!holds)
		owner = file_other_owner(s, pr, a, &err);
	if (owner.size) {
		store_put_abort(put);
		r = STORE_OWNED;
	} else if (store_is_away(&err) && !store_may_hold(st, true)) {
		store_put_leave(put);
		r = -1;
	} else {
		r = store_put_commit(put, &pr->key, &pr->meta,
				     pr->is_admin ? STORE_IF_BETTER : STORE_IF_OWNED, &err);
	}
	if (!holds)
		store_look_end(st);
	if (r < 0 || r == STORE_FULL) {
		/* The pushed file was found good: the fault is the store's. */
		if (r < 0 && err.kind == ERR_INVALID)
			err.kind = ERR_DAMAGED;
		push_failure(what, r, &err, a, ret);
		ret->away = r < 0 && store_is_away(&err);
	} else if (r == STORE_OWNED) {
		outcome_set(ret, 409, "owned",
			    owner.size ? push_owned_text(owner, a) : owned_by_text(s, pr, a));
	} else if (r == STORE_SAME) {
		end_done(pr, ret, "same", "the server has the same bytes already");
	} else if (r == STORE_KEPT) {
		end_done(pr, ret, "kept", "the server has a better file already, and kept it");
	} else if (r == STORE_HELD) {
		end_done(pr, ret, "held",
			 "the store's bucket is away: the file is kept on this node, and put into the bucket "
			 "when that is back");
	} else {
		end_done(pr, ret, "stored", "stored");
	}
}

void push_commit(struct server *s, struct push_request *pr, struct store_put *put, const char *what,
		 struct arena *a, struct push_outcome *ret)
{
	uint8_t sha256[STORE_SHA256_SIZE];
	struct source *src = NULL;
	struct err err = { 0 };
	int r = store_put_end(put, &src, sha256, &err);

	if (r == 0) {
		if (pr->has_sha256 && memcmp(sha256, pr->sha256, sizeof(sha256)) != 0)
			r = err_set(&err, ERR_INVALID,
				    "the received bytes have another SHA-256 than X-LODE-SHA256: "
				    "if the file has changed, push it again");
		else
			r = file_judge(pr, src, &err);
		source_close(src);
	}
	if (r == 0) {
		file_store(s, pr, put, what, a, ret);
		return;
	}
	store_put_abort(put);
	if (r < 0)
		push_failure(what, r, &err, a, ret);
	else
		end_done(pr, ret, "kept", "it has neither debug information nor symbols: not stored");
}
