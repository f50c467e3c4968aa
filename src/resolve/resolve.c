/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seam: the functions common to all resolvers, and the list of steps that explains a miss.
 */
#include "resolve/internal.h"

#include <errno.h>
#include <stdio.h>

static const char *const kind_names[RESOLVE_N_KINDS] = {
	[RESOLVE_DEBUGINFO] = "debuginfo",
	[RESOLVE_EXECUTABLE] = "executable",
	[RESOLVE_SOURCE] = "source",
	[RESOLVE_SECTION] = "section",
};

const char *resolve_kind_name(enum resolve_kind kind)
{
	return kind_names[kind];
}

int resolve_by_key(struct resolver *r, const struct resolve_request *req, struct resolve_wake wake,
		   struct resolve_answer *ret, struct resolve_why *why, struct err *err)
{
	struct err failed = { 0 };
	int res;

	why->reason = RESOLVE_NOT_HERE;
	res = r->ops->resolve(r, req, wake, ret, why, &failed);
	if (res < 0) {
		why->reason = resolve_reason_of(&failed);
		if (err)
			*err = failed;
	}
	return res;
}

int resolve(struct resolver *r, const struct resolve_request *req, struct resolve_wake wake,
	    struct resolve_answer *ret, struct resolve_why *why, struct err *err)
{
	struct resolve_request known = *req;

	if (resolve_alias(r, &req->id, &known.id))
		req = &known;
	return resolve_by_key(r, req, wake, ret, why, err);
}

enum resolve_reason resolve_reason_of(const struct err *err)
{
	if (err->kind == ERR_CANCELLED)
		return RESOLVE_UPSTREAM_TIMED_OUT;
	if (err->kind != ERR_UPSTREAM)
		return RESOLVE_DAMAGED;
	switch (err->os) {
	case ETIMEDOUT:
	case ETIME:
		return RESOLVE_UPSTREAM_TIMED_OUT;
	case EBADMSG: /* the checks of remote_check.c set these two */
		return RESOLVE_UPSTREAM_UNUSABLE;
	case ENOEXEC:
		return RESOLVE_UPSTREAM_NOT_ELF;
	default:
		return RESOLVE_UPSTREAM_FAILED;
	}
}

void resolve_name_hint(struct resolver *r, const struct build_id *id, struct str file, enum resolve_hint by)
{
	if (r->ops->name_hint && id->size && file.size)
		r->ops->name_hint(r, id, file, by);
}

bool resolve_unknown(struct resolver *r, const struct resolve_request *req)
{
	return r->ops->unknown && r->ops->unknown(r, req);
}

bool resolve_alias(struct resolver *r, const struct build_id *alias, struct build_id *ret)
{
	return build_id_may_be_alias(alias) && r->ops->alias && r->ops->alias(r, alias, ret);
}

uint32_t resolve_flags(struct resolver *r, const struct build_id *id)
{
	return r->ops->flags ? r->ops->flags(r, id) : 0;
}

int resolve_metadata(struct resolver *r, const struct index_metadata_query *q,
		     struct index_metadata_page *ret, struct err *err)
{
	if (r->ops->metadata)
		return r->ops->metadata(r, q, ret, err);
	ret->next.size = 0;
	ret->complete = true;
	return 0;
}

uint64_t resolve_epoch(struct resolver *r)
{
	return r->ops->epoch ? r->ops->epoch(r) : 0;
}

bool resolve_unfinished(struct resolver *r)
{
	return r->ops->unfinished && r->ops->unfinished(r);
}

int resolve_await(struct resolver *r, const struct resolve_request *req, const struct resolve_patience *p,
		  struct resolve_wake wake, struct err *err)
{
	return r->ops->await ? r->ops->await(r, req, p, wake, err) : RESOLVE_MISSING;
}

struct str resolve_reading(struct resolver *r, const struct resolve_request *req, struct arena *a)
{
	return r->ops->reading ? r->ops->reading(r, req, a) : (struct str){ 0 };
}

void resolve_close(struct resolver *r)
{
	if (r)
		r->ops->close(r);
}

void resolve_why_init(struct resolve_why *w, struct arena *a)
{
	w->arena = a;
	w->first = NULL;
	w->last = &w->first;
	w->disk = false;
	w->reason = RESOLVE_NOT_HERE;
}

void resolve_why_add(struct resolve_why *w, struct str place, const char *fmt, ...)
{
	struct resolve_step *step = ARENA_NEW(w->arena, struct resolve_step);
	char text[ERR_TEXT_SIZE];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	step->place = arena_str(w->arena, place);
	step->text = arena_str(w->arena, str_of(text));
	step->disk = w->disk;
	*w->last = step;
	w->last = &step->next;
}
