/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /push/want: which of many files the server wants, and from which offset. One request for thousands
 * of files.
 *
 *   {"objects": [{"id": "...", "kind": "debuginfo", "size": 5, "sha256": "...", "quality": "dwarf"}, ...]}
 *   {"objects": [{"want": true, "offset": 0}, {"want": false, "why": "same"}, ...]}, in the same order
 */
#include <stdio.h>
#include <stdlib.h>
#include "base/json.h"
#include "server/json.h"
#include "server/push/direct.h"

/* Contents that were not read since the start are read before they are "same", for so long; then the background
 * check has to find damage. */
#define CHECK_MS 1000

struct want_entry {
	struct store_key key;
	uint8_t sha256[STORE_SHA256_SIZE];
	uint64_t total;
	enum store_quality quality;
};

struct want_reply {
	struct request *req;
	struct arena arena;
	int64_t check_until_ms;
	const char *owner;
	bool is_admin;
	struct want_entry *entries;
	size_t n_entries, room_entries;
	struct buf out;
	struct json_writer json;
};

static void reply_unwanted(struct want_reply *r, const char *why)
{
	json_open_object(&r->json, NULL);
	json_put_bool(&r->json, "want", false);
	json_put_text(&r->json, "why", why);
	json_close(&r->json);
}

static void reply_owned(struct want_reply *r, struct str owner)
{
	json_open_object(&r->json, NULL);
	json_put_bool(&r->json, "want", false);
	json_put_text(&r->json, "why", "owned");
	json_put_str(&r->json, "owner", owner);
	json_close(&r->json);
}

static void reply_wanted(struct want_reply *r, uint64_t off, bool busy, uint64_t size)
{
	json_open_object(&r->json, NULL);
	json_put_bool(&r->json, "want", true);
	json_put_uint(&r->json, "offset", off);
	if (busy)
		json_put_bool(&r->json, "busy", true);
	/* A file of which a part is here goes on in the way in which it began. */
	else if (!off && size >= DIRECT_MIN && direct_offers(r->req->s, DIRECT_FOR_PUSH, size))
		json_put_bool(&r->json, "signed", true);
	json_close(&r->json);
}

static int entry_collect(void *arg, const struct push_request *asked, enum store_quality quality)
{
	struct want_reply *w = arg;
	struct want_entry e = { .key = asked->key, .total = asked->total, .quality = quality };

	memcpy(e.sha256, asked->sha256, sizeof(e.sha256));
	VEC_PUSH(w->entries, w->n_entries, w->room_entries) = e;
	return 0;
}

/* A failed sync: each entry then finds out for itself. */
static void entries_settle(struct want_reply *w)
{
	AUTO(mem_freep) struct store_key *keys = NEW_N(struct store_key, w->n_entries + 1);

	for (size_t i = 0; i < w->n_entries; i++)
		keys[i] = w->entries[i].key;
	if (store_settle(w->req->s->opts.store, keys, w->n_entries, NULL) < 0)
		log_warn("http", "/push/want: the store could not be synced");
}

/* 0: the object is on disk, and as far as is known whole: so it may be a reason not to want the bytes. */
static int entry_find(struct want_reply *w, const struct push_request *pr, struct store_meta *ret)
{
	enum store_sureness how = clock_mono_ms() < w->check_until_ms ? STORE_WHOLE : STORE_ON_DISK;
	struct err err = { 0 };

	return store_find_sure(w->req->s->opts.store, &pr->key, how, &w->arena, ret, &err);
}

static void entry_look_up(struct want_reply *w, const struct want_entry *e)
{
	struct server *s = w->req->s;
	struct push_request pr = {
		.key = e->key, .has_sha256 = true, .total = e->total, .is_admin = w->is_admin
	};
	struct store_meta there = { 0 };
	uint64_t off = 0;
	bool busy = false, is_here, is_held;
	struct str owner;
	int r;

	snprintf(pr.token, sizeof(pr.token), "%s", w->owner);
	pr.meta.owner = str_of(pr.token);
	memcpy(pr.sha256, e->sha256, sizeof(pr.sha256));
	arena_reset(&w->arena);
	r = entry_find(w, &pr, &there);
	is_here = r == 0;
	is_held = r == STORE_HELD && str_eq(store_owner(&there), pr.meta.owner);
	if (pr.total > s->opts.max_push) {
		reply_unwanted(w, "too large");
	} else if (is_here && memcmp(there.sha256, pr.sha256, sizeof(pr.sha256)) == 0 &&
		   there.origin == STORE_PUSHED) {
		reply_unwanted(w, "same");
	} else if (is_held && memcmp(there.sha256, pr.sha256, sizeof(pr.sha256)) == 0) {
		reply_unwanted(w, "held");
	} else if (is_here && there.quality > e->quality) {
		reply_unwanted(w, "better");
	} else if ((owner = push_other_owner(s, &pr, &w->arena, NULL)).size) {
		reply_owned(w, owner);
	} else {
		session_peek(s->push->sessions, &pr, &off, &busy);
		reply_wanted(w, off, busy, e->total);
	}
}

/* So many entries are looked at together. */
#define LOOK_ENTRIES (STORE_LOOK_MAX / 2)

static void entries_look_up(struct want_reply *w, const struct want_entry *e, size_t n)
{
	struct store *st = w->req->s->opts.store;
	struct store_key keys[2 * LOOK_ENTRIES];
	size_t n_keys = 0;

	/* Also the programs, to which a debug file may belong: push_other_owner(). */
	for (size_t i = 0; i < n; i++) {
		keys[n_keys++] = e[i].key;
		if (e[i].key.kind == STORE_DEBUGINFO)
			keys[n_keys++] = (struct store_key){ e[i].key.id, STORE_EXECUTABLE, { 0 } };
	}
	store_look(st, keys, n_keys, NULL);
	for (size_t i = 0; i < n; i++)
		entry_look_up(w, &e[i]);
	store_look_end(st);
}

static void entries_answer(struct want_reply *w)
{
	w->json = (struct json_writer){ .out = &w->out, .escape_slash = true };
	w->check_until_ms = clock_mono_ms() + CHECK_MS;
	arena_init(&w->arena);
	json_open_object(&w->json, NULL);
	json_open_array(&w->json, "objects");
	for (size_t i = 0; i < w->n_entries; i += LOOK_ENTRIES)
		entries_look_up(w, w->entries + i, MIN(w->n_entries - i, (size_t)LOOK_ENTRIES));
	json_close(&w->json);
	json_close(&w->json);
	arena_done(&w->arena);
}

#define TREE_FACTOR 2u /* its values are objects with their keys */

static enum http_next want_run(struct request *req)
{
	struct want_reply w = { .req = req, .owner = push_owner_name(req), .is_admin = push_is_admin(req) };
	struct budget_hold memory;
	struct err err = { 0 };
	int r;

	/* The body is parsed once, before the disk is read: its tree takes many times its size. Entries take less. */
	budget_hold_init(&memory, req->s->opts.memory, BUDGET_BODY);
	r = budget_hold_add(&memory, TREE_FACTOR * json_tree_size(buf_bytes(&req->body)), &err);
	if (r < 0) {
		push_reply(req, err.kind == ERR_LIMIT ? 413 : 503, NULL, err.text);
	} else if (want_parse(buf_bytes(&req->body), entry_collect, &w, &err) == 0) {
		entries_settle(&w);
		entries_answer(&w);
		request_reply_body(req, 200, &w.out, "application/json", true);
	} else {
		char text[ERR_TEXT_SIZE + 32];

		snprintf(text, sizeof(text), "the want list: %s", err.text);
		push_reply(req, err.kind == ERR_LIMIT ? 413 : 400, NULL, text);
	}
	free(w.entries);
	budget_hold_done(&memory);
	return HTTP_REPLY;
}

const struct http_handler push_want = { .exists = push_exists, .run = want_run };
const struct http_body push_want_body = {
	.slot = BODY_WANT,
	.max = PUSH_WANT_MAX,
	.max_together = PUSH_WANT_MAX_TOGETHER,
	.too_long = "the want list is longer than 8 MiB: send several",
	.needs_length = true,
};
