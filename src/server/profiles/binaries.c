/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The binaries that profiles were seen in: how much of each has names, and of what has none, why and what
 * would help.
 */
#include "server/json.h"
#include "server/profiles/profiles.h"

#include <stdlib.h>

#define USUAL_BINARIES 1000u
#define MAX_BINARIES   100000u

static const char *state_of(const struct profilestore_binary *b)
{
	if (b->n_named == b->n_locations)
		return "named";
	switch (b->state) {
	case NAMING_NEVER:
		return b->n_named ? "partly" : "never";
	case NAMING_WANTED:
		/* Nothing has failed since there was something to be looked up. */
		if (!b->n_tries && b->n_wanted)
			return "pending";
		break;
	case NAMING_DONE:
	case NAMING_NONE:
		break;
	}
	return b->n_named ? "partly" : "failed";
}

static struct str shown(struct api *a, struct str text)
{
	return a->req->s->opts.hide_archive ? reply_hide_paths(a->arena, text) : text;
}

static void write_binary(struct api *a, const struct profilestore_binary *b)
{
	bool is_reason = b->reason && b->reason < FRAME_N_REASONS && b->n_named < b->n_locations;
	enum frame_reason reason = is_reason ? (enum frame_reason)b->reason : FRAME_FOUND;
	struct buf *out = &a->out;

	buf_add_char(out, '{');
	api_add_str_of(out, "file", b->file);
	api_add_str_of(out, "build_id", b->build_id);
	api_add_int_of(out, "value", b->value);
	api_add_int_of(out, "locations", b->n_locations);
	api_add_int_of(out, "named", b->n_named);
	api_add_str_of(out, "state", str_of(state_of(b)));
	api_add_str_of(out, "reason", is_reason ? str_of(frame_reason_name(reason)) : STR(""));
	api_add_str_of(out, "text", is_reason ? str_of(frame_reason_text(reason)) : STR(""));
	api_add_str_of(out, "why", shown(a, b->why));
	api_add_str_of(out, "help", is_reason ? str_of(frame_reason_help(reason)) : STR(""));
	api_add_str_of(out, "origin", shown(a, b->origin));
	api_add_int_of(out, "tries", b->n_tries);
	api_add_int_of(out, "last_try", b->last_try_ms);
	api_add_int_of(out, "next_try", b->state == NAMING_WANTED ? b->next_try_ms : 0);
	buf_add_char(out, '}');
}

int api_binaries(struct api *a, struct err *err)
{
	bool all = !api_text(a, "query").size && !api_text(a, "profile").size;
	AUTO(mem_freep) struct profilestore_binaries *list = NULL;
	struct buf *out = &a->out;
	struct profilestore_range r;
	uint64_t limit;

	if (api_number(a, "limit", USUAL_BINARIES, MAX_BINARIES, &limit, err) < 0 ||
	    (!all && api_range(a, false, &r, err) < 0) ||
	    profilestore_binaries(a->store, all ? NULL : &r, &list, err) < 0)
		return -1;
	buf_add_char(out, '{');
	api_add_int_of(out, "total", list->total);
	api_add_key(out, "binaries");
	buf_add_char(out, '[');
	for (size_t i = 0; i < MIN(list->n, (size_t)limit); i++) {
		if (i)
			buf_add_char(out, ',');
		write_binary(a, &list->v[i]);
	}
	buf_add_char(out, ']');
	api_add_int_of(out, "left_out", (int64_t)(list->n - MIN(list->n, (size_t)limit)));
	buf_add_str(out, STR("}\n"));
	return 0;
}

int api_retry(struct api *a, struct err *err)
{
	struct naming *naming = a->req->s->opts.naming;
	struct build_id id;
	unsigned n;

	if (!build_id_parse(&id, a->star))
		return err_set(err, ERR_INVALID,
			       "bad build ID: wanted is an even number of the digits 0-9 a-f");
	if (a->req->s->opts.upstream)
		resolve_upstream_forget(a->req->s->opts.upstream, &id);
	n = naming ? naming_wake(naming, &id, STR(""), false) : 0;
	if (!n) {
		a->status = 404;
		return err_set(err, ERR_INVALID, "%s",
			       naming ? "nothing that wants names has this build ID"
				      : "addresses are not named here: lode serve was started with "
					"--symbolize-interval 0");
	}
	a->status = 202;
	buf_add_str(&a->out, STR("{\"binaries\":"));
	api_add_int(&a->out, n);
	buf_add_str(&a->out, STR("}\n"));
	return 0;
}
