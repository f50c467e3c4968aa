/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /push/want: which of many are wanted, and from where on? One request for thousands of files.
 *
 *   {"objects": [{"id": "...", "kind": "debuginfo", "size": 5, "sha256": "...", "quality": "dwarf"}, ...]}
 *   {"objects": [{"want": true, "offset": 0}, {"want": false, "why": "same"}, ...]}, in the same order
 */
#include "server/json.h"
#include "server/push/push.h"

#include <stdio.h>

static struct str text_of(const json_t *one, const char *name)
{
	const json_t *j = json_object_get(one, name);

	return json_is_string(j) ? (struct str){ json_string_value(j), json_string_length(j) } : STR("");
}

static bool quality_parse(struct str s, enum store_quality *ret)
{
	*ret = STORE_DWARF;
	if (!s.size)
		return true;
	for (unsigned i = 0; i < STORE_N_QUALITIES; i++) {
		if (str_eq(s, str_of(store_quality_name((enum store_quality)i)))) {
			*ret = (enum store_quality)i;
			return true;
		}
	}
	return false;
}

static int entry_parse(const json_t *one, struct push_request *ret, enum store_quality *ret_quality,
		       struct err *err)
{
	const json_t *size = json_object_get(one, "size");
	struct str sha256 = text_of(one, "sha256");
	struct push_request pr = { 0 };
	size_t n;

	if (!build_id_parse(&pr.key.id, text_of(one, "id")))
		return err_set(err, ERR_INVALID, "'id' is no build ID");
	if (!store_kind_parse(text_of(one, "kind"), &pr.key.kind))
		return err_set(err, ERR_INVALID, "'kind' is none of debuginfo, executable, sources");
	if (!json_is_integer(size) || json_integer_value(size) < 0)
		return err_set(err, ERR_INVALID, "'size' is no number");
	if (!hex_decode(sha256, false, pr.sha256, sizeof(pr.sha256), &n) || n != sizeof(pr.sha256))
		return err_set(err, ERR_INVALID, "'sha256' is no SHA-256");
	if (!quality_parse(text_of(one, "quality"), ret_quality))
		return err_set(err, ERR_INVALID, "'quality' is none of dwarf, symtab, stripped");
	pr.has_sha256 = true;
	pr.total = (uint64_t)json_integer_value(size);
	*ret = pr;
	return 0;
}

int want_parse(struct bytes body,
	       int (*fn)(void *arg, const struct push_request *pr, enum store_quality quality), void *arg,
	       struct err *err)
{
	json_error_t why;
	json_t *all = json_loadb((const char *)body.p, body.size, JSON_REJECT_DUPLICATES, &why), *list, *one;
	int r = 0;
	size_t i;

	if (!all)
		return err_set(err, ERR_INVALID, "no JSON: line %d: %s", why.line, why.text);
	list = json_object_get(all, "objects");
	if (!json_is_array(list))
		r = err_set(err, ERR_INVALID, "no list 'objects'");
	else if (json_array_size(list) > PUSH_WANT_ENTRIES)
		r = err_set(err, ERR_LIMIT, "more than %u objects: ask in several", PUSH_WANT_ENTRIES);
	json_array_foreach(list, i, one)
	{
		enum store_quality quality;
		struct push_request pr;

		if (r)
			break;
		r = entry_parse(one, &pr, &quality, err);
		if (r < 0)
			(void)err_in(err, "object %zu", i);
		else
			r = fn(arg, &pr, quality);
	}
	json_decref(all);
	return r;
}

struct wanted {
	struct request *req;
	struct arena arena;
	json_t *list;
};

static json_t *not_wanted(const char *why)
{
	json_t *j = json_object();

	json_object_set_new(j, "want", json_false());
	json_object_set_new(j, "why", json_string(why));
	return j;
}

static json_t *wanted(uint64_t off, bool busy)
{
	json_t *j = json_object();

	json_object_set_new(j, "want", json_true());
	json_object_set_new(j, "offset", json_number(off));
	if (busy)
		json_object_set_new(j, "busy", json_true());
	return j;
}

static int look(void *arg, const struct push_request *asked, enum store_quality quality)
{
	struct wanted *w = arg;
	struct server *s = w->req->s;
	struct push_request pr = *asked;
	struct store_meta there = { 0 };
	uint64_t off = 0;
	bool busy = false;
	struct err err;
	json_t *j;

	memcpy(pr.token, w->req->push->token, sizeof(pr.token));
	arena_reset(&w->arena);
	if (pr.total > s->opts.max_push) {
		j = not_wanted("too large");
	} else if (store_find(s->opts.store, &pr.key, &w->arena, &there, &err) == 0 &&
		   memcmp(there.sha256, pr.sha256, sizeof(pr.sha256)) == 0 && there.origin == STORE_PUSHED) {
		j = not_wanted("same");
	} else if (there.created && there.quality > quality) {
		j = not_wanted("better");
	} else {
		session_peek(s->push->sessions, &pr, &off, &busy);
		j = wanted(off, busy);
	}
	json_array_append_new(w->list, j);
	return 0;
}

void want_job(struct request *req)
{
	struct wanted w = { .req = req, .list = json_array() };
	struct err err = { 0 };
	int r;

	arena_init(&w.arena);
	r = want_parse(buf_bytes(&req->push->body), look, &w, &err);
	arena_done(&w.arena);
	if (r < 0) {
		char text[ERR_TEXT_SIZE + 32];

		snprintf(text, sizeof(text), "the want list: %s", err.text);
		push_reply(req, err.kind == ERR_LIMIT ? 413 : 400, NULL, text);
		json_decref(w.list);
		return;
	}
	json_reply(req, json_pack("{s:o}", "objects", w.list));
}
