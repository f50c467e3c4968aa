/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profiles of a query as one profile, or two that are compared, or as stacks that the store lends; waiting for names
 * that will come soon.
 */
#include "server/profiles/profiles.h"

#define POLL_MS 150
#define REST    3 /* a merge is repeated after so many times its own time at the earliest */

struct profile_limits api_limits(struct api *a)
{
	return (struct profile_limits){ .max_memory = API_MAX_MEMORY,
					.memory = &a->memory,
					.deadline = &a->deadline };
}

void api_merged_done(struct api_merged *m)
{
	for (unsigned i = 0; i < PROFILE_COLUMNS; i++)
		profile_free(m->side[i].profile);
}

/* ---- lenders ---- */

static bool names_are_awaited(const struct api *a, uint64_t n_pending)
{
	return n_pending && clock_mono_ms() < a->wait_until_ms;
}

static void lend_begin(void *arg)
{
	struct api_lender *x = arg;

	x->sleeps = x->needs_profile = false;
	x->begin(x);
}

/* Nothing is made if names are pending: the request will sleep. */
static int lend_to(void *arg, const struct profilestore_merged *m, struct profile_trie *in, struct err *err)
{
	struct api_lender *x = arg;
	int r;

	/* Once for all values of a label: the wait may end between two of them, and those before have not been taken. */
	x->sleeps |= x->may_sleep && names_are_awaited(x->a, m->n_pending);
	if (x->sleeps || x->needs_profile)
		return 0;
	r = x->stacks(x, m, in, err);
	x->needs_profile = r == API_NEEDS_PROFILE;
	return MIN(r, 0);
}

static int lend_end(void *arg, struct err *err)
{
	struct api_lender *x = arg;
	int r = x->sleeps || x->needs_profile ? 0 : x->end(x, err);

	x->needs_profile |= r == API_NEEDS_PROFILE;
	return MIN(r, 0);
}

static int lend_locations_to(void *arg, const struct profilestore_merged *m,
			     const struct profile_lent_locations *l, struct err *err)
{
	struct api_lender *x = arg;

	return x->sleeps || x->needs_profile ? 0 : x->locations(x, m, l, err);
}

/* @lender NULL: the stacks are copied. */
static struct profilestore_shape merge_shape_of(const struct api *a, enum profilestore_detail detail,
						struct api_lender *lender)
{
	struct profilestore_shape s = { .label = api_text(a, "label"), .detail = detail };

	if (!lender)
		return s;
	if (!lender->locations && !lender->values)
		s.label = STR("");
	s.stacks = lend_to;
	s.locations = lender->locations ? lend_locations_to : NULL;
	s.end = lender->end ? lend_end : NULL;
	s.begin = lend_begin;
	s.arg = lender;
	s.lend_from = lender->from;
	return s;
}

/* ---- merging ---- */

static int merge_side(struct api *a, enum profilestore_detail detail, bool base, struct api_merged *m,
		      struct api_lender *lender, struct err *err)
{
	const struct profilestore_shape shape = merge_shape_of(a, detail, lender);
	const struct profile_limits limits = api_limits(a);
	struct profilestore_range r;

	if (api_range(a, base, &r, err) < 0)
		return -1;
	if (profilestore_merge(a->store, &r, &shape, &limits, &m->side[base], err) < 0)
		return base ? err_in(err, "'base'") : -1;
	m->n_pending += m->side[base].n_pending;
	m->n_waiting += m->side[base].n_waiting;
	return 0;
}

/* Both sides of a comparison at once. */
static int merge_pair(struct api *a, enum profilestore_detail detail, struct api_merged *m,
		      struct api_lender *lender, struct err *err)
{
	struct profilestore_shape shape = merge_shape_of(a, detail, lender);
	const struct profile_limits limits = api_limits(a);
	struct profilestore_range r, base;

	if (api_range(a, false, &r, err) < 0 || api_range(a, true, &base, err) < 0)
		return -1;
	shape.base = &base;
	if (profilestore_merge(a->store, &r, &shape, &limits, m->side, err) < 0)
		return -1;
	for (unsigned i = 0; i < PROFILE_COLUMNS; i++) {
		m->n_pending += m->side[i].n_pending;
		m->n_waiting += m->side[i].n_waiting;
	}
	return 0;
}

static void set_scale(struct api_merged *m, bool normalise)
{
	const struct profile *p = m->side[0].profile, *base = m->side[1].profile;
	int64_t total = normalise && base->types.n ? profile_total(base, 0) : 0;

	m->scale = 1;
	/* A side without any series has no type; its sum is 0, as for stacks that are lent. */
	if (total)
		m->scale = (double)(p->types.n ? profile_total(p, 0) : 0) / (double)total;
}

/*
 * No one reports new names: poll, and merge again only if some came, or if naming gave up on some: then none may be
 * pending any more.
 */
static bool sleeps_on(struct api *a)
{
	int64_t now_ms = clock_mono_ms();

	if (!a->looked || now_ms >= a->wait_until_ms)
		return false;
	if (profilestore_n_namings(a->store) != a->n_namings && now_ms >= a->merge_again_ms)
		return false;
	a->req->sleep_ms = POLL_MS;
	return true;
}

/* @lender: of the merge, or NULL. If it took nothing, the request sleeps even if its wait has ended since. */
static bool falls_asleep(struct api *a, const struct api_lender *lender, const struct api_merged *m,
			 int64_t merge_ms)
{
	bool took_nothing = lender && lender->sleeps && !lender->needs_profile;

	if (!took_nothing && !names_are_awaited(a, m->n_pending))
		return false;
	a->looked = true;
	a->merge_again_ms = clock_mono_ms() + REST * merge_ms;
	a->req->sleep_ms = POLL_MS;
	return true;
}

static void forget_sides(struct api_merged *m)
{
	for (unsigned i = 0; i < PROFILE_COLUMNS; i++)
		profile_free(TAKE(m->side[i].profile));
	m->n_pending = m->n_waiting = 0;
}

static int merge_sides(struct api *a, enum profilestore_detail detail, struct api_lender *lender,
		       struct api_merged *m, struct err *err)
{
	int r;

	for (;;) {
		forget_sides(m);
		r = m->compares && lender ? merge_pair(a, detail, m, lender, err)
					  : merge_side(a, detail, false, m, lender, err);
		if (r < 0 || !lender)
			break;
		if (lender->needs_profile) {
			/* What it made so far would be in memory beside the copies. */
			lender->begin(lender);
			lender = NULL;
		} else if (lender->sleeps && !names_are_awaited(a, m->n_pending)) {
			lender->may_sleep = false;
		} else {
			break;
		}
	}
	if (r == 0 && m->compares && !lender)
		r = merge_side(a, detail, true, m, NULL, err);
	return r;
}

int api_merge(struct api *a, enum profilestore_detail detail, struct api_lender *lender,
	      struct api_merged *ret, struct err *err)
{
	AUTO(api_merged_done)
	struct api_merged m = { .compares = api_compares(a) && !(lender && lender->alone) };
	bool normalise;
	int64_t wait_ms, began_ms = clock_mono_ms();

	if (api_duration(a, "wait", 0, API_MAX_WAIT_MS, &wait_ms, err) < 0 ||
	    api_flag(a, "normalise", &normalise, err) < 0)
		return -1;
	if (a->query)
		wait_ms = a->query->wait_ms;
	if (!a->wait_until_ms)
		a->wait_until_ms = clock_mono_ms() + wait_ms;
	if (wait_ms && sleeps_on(a))
		return API_SLEEPS;
	/* Before the merge, so that names that come meanwhile are seen next time. */
	if (wait_ms)
		a->n_namings = profilestore_n_namings(a->store);
	if (lender) {
		lender->a = a;
		lender->may_sleep = wait_ms != 0;
	}
	if (m.compares && lender && !lender->compares)
		lender = NULL;
	if (merge_sides(a, detail, lender, &m, err) < 0)
		return -1;
	if (wait_ms && falls_asleep(a, lender, &m, clock_mono_ms() - began_ms))
		return API_SLEEPS;
	if (m.compares)
		set_scale(&m, normalise);
	*ret = m;
	m = (struct api_merged){ 0 };
	return 0;
}
