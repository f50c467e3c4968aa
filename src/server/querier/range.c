/* SPDX-License-Identifier: Apache-2.0 */
/* The types, selectors and times of a request as a range of the profile store. */
#include "server/querier/querier.h"

#include "profilestore/type.h"

#define MAX_TIME_MS INT64_C(253402300799999) /* the end of the year 9999 */
#define ID_PARTS    5u

int querier_unimplemented(struct api *a, const char *what, struct err *err)
{
	a->status = 501;
	return err_set(err, ERR_INVALID, "not supported: %s", what);
}

/* Times from clients include the end. */
static int querier_times(const struct querier_request *q, struct profilestore_range *r, struct err *err)
{
	if (q->start_ms > q->end_ms)
		return err_set(err, ERR_INVALID, "'start' is later than 'end'");
	r->from_ms = MIN(MAX(q->start_ms, INT64_C(0)), MAX_TIME_MS);
	r->to_ms = MIN(MAX(q->end_ms, INT64_C(-1)), MAX_TIME_MS) + 1;
	return 0;
}

/* All selectors of the request as one, which the request owns. */
static int querier_selector(struct api *a, const struct querier_request *q, unsigned side, struct err *err)
{
	struct selector **s = &a->selectors[side];

	/* From a run before this one, which slept. */
	selector_free(*s);
	*s = NULL;
	if (selector_parse(STR(""), s, err) < 0)
		return -1;
	for (size_t i = 0; i < q->matchers.n; i++)
		if (selector_add_promql(*s, q->matchers.v[i], err) < 0)
			return -1;
	if (selector_type(*s).size)
		return err_set(err, ERR_INVALID,
			       "the selector: '" STR_FMT
			       "' before the braces; use __name__ or __profile_type__",
			       STR_ARG(selector_type(*s)));
	return 0;
}

int querier_list_range(struct api *a, const struct querier_request *q, struct profilestore_range *ret,
		       struct err *err)
{
	struct profilestore_range r = { .derived = true, .to_ms = INT64_MAX, .deadline = &a->deadline };

	if ((q->start_ms || q->end_ms) && querier_times(q, &r, err) < 0)
		return -1;
	if (querier_selector(a, q, 0, err) < 0)
		return -1;
	r.sel = a->selectors[0];
	*ret = r;
	return 0;
}

static int querier_type(struct str id, struct selector *s, struct err *err)
{
	AUTO(buf_done) struct buf b = { 0 };
	struct str rest = id;
	size_t n = 0;

	for (; rest.p; n++)
		str_cut(&rest, ':');
	if (!id.size || n < ID_PARTS)
		return err_set(err, ERR_INVALID,
			       "the profile type must be "
			       "<name>:<sample-type>:<sample-unit>:<period-type>:<period-unit>");
	/* Stored types serve as well. */
	type_id_of(id, &b);
	selector_set_type_id(s, buf_str(&b));
	return 0;
}

/* lode's numbers of profiles are no UUIDs, but a UUID has room for one. */
static int querier_profile_id(const struct querier_texts *ids, int64_t *ret, struct err *err)
{
	uint64_t id = 0;

	if (!ids->n)
		return 0;
	if (ids->n > 1)
		return err_set(err, ERR_INVALID, "more than one ID in 'profile_id_selector'");
	if (!str_to_u64(ids->v[0], &id) || !id || id > INT64_MAX)
		return err_set(
			err, ERR_INVALID,
			"'profile_id_selector' must have the number of a profile, as /api/profiles has it");
	*ret = (int64_t)id;
	return 0;
}

int querier_type_range(struct api *a, const struct querier_request *q, unsigned side,
		       struct profilestore_range *ret, struct err *err)
{
	struct profilestore_range r = { .derived = true, .deadline = &a->deadline };

	if (!q->start_ms && !q->end_ms)
		return err_set(err, ERR_INVALID, "'start' and 'end' are missing");
	if (q->spans.n)
		return querier_unimplemented(a, "profiles of spans or traces, which are not kept apart", err);
	if (querier_times(q, &r, err) < 0 || querier_selector(a, q, side, err) < 0 ||
	    querier_type(q->type_id, a->selectors[side], err) < 0 ||
	    querier_profile_id(&q->profile_ids, &r.profile_id, err) < 0)
		return -1;
	r.sel = a->selectors[side];
	*ret = r;
	return 0;
}
