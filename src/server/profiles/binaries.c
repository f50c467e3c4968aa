/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The binaries of profiles: how many addresses of each have names, and for the others the reason and the
 * remedy.
 */
#include "server/profiles/profiles.h"

#include <stdlib.h>

#define USUAL_BINARIES 1000u
#define MAX_BINARIES   100000u

#define NOT_NAMED_HERE "addresses are not named here: lode serve was started with --symbolize-interval 0"

static const char *binary_state(const struct profilestore_binary *b, bool naming)
{
	if (b->n_named == b->n_locations)
		return "named";
	if (!naming)
		return b->n_named ? "partly" : "never";
	if (b->look_is_due && b->n_wanted)
		return "pending";
	switch (b->state) {
	case NAMING_NEVER:
		return b->n_named ? "partly" : "never";
	case NAMING_WANTED:
		/* There was no try yet since its addresses were to be looked up. */
		if (!b->n_tries && b->n_wanted)
			return "pending";
		break;
	case NAMING_DONE:
	case NAMING_NONE:
		break;
	}
	return b->n_named ? "partly" : "failed";
}

static struct str text_shown(struct api *a, struct str text)
{
	return a->req->s->opts.hide_archive ? server_hide_paths(a->arena, text) : text;
}

/* Names without an origin came with the profiles: a missing file is missed by nobody. */
static struct str why_of_names(const struct profilestore_binary *b, bool naming)
{
	if (b->n_named == b->n_locations)
		return b->origin.size || !b->n_locations ? b->why : STR("its names came with the profiles");
	return naming ? b->why : STR(NOT_NAMED_HERE);
}

/* By its path and its package, so that it can name what is missing. */
static void put_help(struct api *a, const struct profilestore_binary *b, enum frame_reason reason)
{
	const struct server_case c = { reason, b->file, server_origin_package(b->origin) };
	AUTO(buf_done) struct buf help = { 0 };

	if (reason != FRAME_FOUND)
		server_advice(a->req->s, &c, &help);
	json_put_str(&a->json, "help", buf_str(&help));
}

/* Only a file that is here shows that 16 bytes are the hash of it. */
static enum build_id_kind kind_of(struct resolver *r, const struct build_id *id)
{
	enum build_id_kind kind = build_id_kind_of(id);
	struct build_id key;

	return kind == BUILD_ID_GNU && resolve_alias(r, id, &key) ? BUILD_ID_HASH : kind;
}

/* Its kind, and Go's as the text that Go's tools show. Both empty: it is none, or there is none. */
static void put_kind(struct api *a, struct str build_id)
{
	struct json_writer *w = &a->json;
	struct build_id id;
	bool known = build_id_read(&id, build_id);
	enum build_id_kind kind = known ? kind_of(a->req->s->opts.resolver, &id) : BUILD_ID_GNU;
	bool is_go = known && kind == BUILD_ID_GO;

	json_put_text(w, "build_id_kind", known ? build_id_kind_name(kind) : "");
	json_put_str(w, "go_build_id", is_go ? (struct str){ (const char *)id.b, id.size } : STR(""));
}

static void write_binary(struct api *a, const struct profilestore_binary *b)
{
	/* With all names, some calls may be missing. */
	bool is_reason = b->reason && b->reason < FRAME_N_REASONS &&
			 (b->n_named < b->n_locations || b->reason == FRAME_ALT_MISSING ||
			  b->reason == FRAME_SPLIT_MISSING);
	enum frame_reason reason = is_reason ? (enum frame_reason)b->reason : FRAME_FOUND;
	bool naming = a->req->s->opts.naming != NULL;
	struct str why = why_of_names(b, naming);
	struct json_writer *w = &a->json;

	json_open_object(w, NULL);
	json_put_str(w, "file", b->file);
	json_put_str(w, "build_id", b->build_id);
	put_kind(a, b->build_id);
	json_put_int(w, "value", b->value);
	json_put_int(w, "locations", b->n_locations);
	json_put_int(w, "named", b->n_named);
	json_put_str(w, "state", str_of(binary_state(b, naming)));
	json_put_str(w, "reason", is_reason ? str_of(frame_reason_name(reason)) : STR(""));
	json_put_str(w, "text", is_reason ? str_of(frame_reason_text(reason)) : STR(""));
	json_put_str(w, "why", text_shown(a, why));
	put_help(a, b, reason);
	json_put_str(w, "origin", text_shown(a, b->origin));
	json_put_int(w, "tries", b->n_tries);
	json_put_int(w, "last_try", b->last_try_ms);
	json_put_int(w, "next_try", naming && b->state == NAMING_WANTED ? b->next_try_ms : 0);
	json_close(w);
}

int api_binaries(struct api *a, struct err *err)
{
	bool all = !api_text(a, "query").size && !api_text(a, "profile").size;
	AUTO(mem_freep) struct profilestore_binaries *list = NULL;
	struct json_writer *w = &a->json;
	struct profilestore_range r;
	uint64_t limit;

	if (api_number(a, "limit", USUAL_BINARIES, MAX_BINARIES, &limit, err) < 0 ||
	    (!all && api_range(a, false, &r, err) < 0) ||
	    profilestore_binaries(a->store, all ? NULL : &r, &a->memory, &list, err) < 0)
		return -1;
	json_open_object(w, NULL);
	json_put_int(w, "total", list->total);
	json_open_array(w, "binaries");
	for (size_t i = 0; i < MIN(list->n, (size_t)limit) && !buf_is_over(&a->out); i++)
		write_binary(a, &list->v[i]);
	json_close(w);
	json_put_uint(w, "left_out", list->n - MIN(list->n, (size_t)limit));
	json_close(w);
	buf_add_char(&a->out, '\n');
	return 0;
}

int api_retry(struct api *a, struct err *err)
{
	struct naming *naming = a->req->s->opts.naming;
	struct build_id id;
	unsigned n;

	if (!build_id_read(&id, a->star))
		return err_set(err, ERR_INVALID, "%s", server_bad_build_id(a->star));
	if (a->req->s->opts.upstream)
		resolve_upstream_forget(a->req->s->opts.upstream, &id);
	n = naming ? naming_wake(naming, &id, STR(""), false) : 0;
	if (!n) {
		a->status = 404;
		return err_set(err, ERR_INVALID, "%s",
			       naming ? "no binary with unnamed addresses has this build ID"
				      : NOT_NAMED_HERE);
	}
	a->status = 202;
	json_open_object(&a->json, NULL);
	json_put_uint(&a->json, "binaries", n);
	json_close(&a->json);
	buf_add_char(&a->out, '\n');
	return 0;
}
