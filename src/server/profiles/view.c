/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profiles of a query as one profile, or two that are compared, and as a tree of calls; waiting for
 * names that will come soon.
 */
#include "server/profiles/profiles.h"

#define POLL_MS 150
/*
 * Stacks of a range. With fewer, a profile and a tree with all nodes take less time, and less than 100 MB.
 */
#define LEND_FROM 1500000u
#define REST      3    /* a merge is repeated after so many times its own time at the earliest */
#define RETRY_MS  1000 /* after this time a client may ask again for pending names */
#define LATER_MS  5000 /* ... for names that wait for a debug file */

static struct profile_limits view_limits(struct api *a)
{
	return (struct profile_limits){ .max_memory = API_MAX_MEMORY,
					.memory = &a->memory,
					.deadline = &a->deadline };
}

void api_merged_done(struct api_merged *m)
{
	for (unsigned i = 0; i < PROFILE_COLUMNS; i++)
		profile_free(m->side[i].profile);
	profile_tree_free(m->tree);
}

/* A tree that is made while the store lends its stacks. */
struct lent_tree {
	struct api *a;
	bool may_sleep; /* no tree is needed if names are pending: the request will sleep */
	bool sleeps, needs_nodes;
	struct profile_tree *tree;
};

static bool names_are_awaited(const struct api *a, uint64_t n_pending)
{
	return n_pending && clock_mono_ms() < a->wait_until_ms;
}

static int tree_of_lent(void *arg, const struct profilestore_merged *m, struct profile_trie *in,
			struct err *err)
{
	struct lent_tree *x = arg;
	const struct profile_limits limits = view_limits(x->a);
	int r;

	profile_tree_free(TAKE(x->tree));
	x->needs_nodes = false;
	x->sleeps = x->may_sleep && names_are_awaited(x->a, m->n_pending);
	if (x->sleeps)
		return 0;
	in->top = x->a->tree_top;
	r = profile_tree_of_trie(x->a->tree_view, &limits, m->profile, in, &x->tree, err);
	x->needs_nodes = r == TREE_NEEDS_NODES;
	return MIN(r, 0);
}

static bool lends_stacks(const struct api *a, const struct api_merged *m)
{
	return a->tree_view && !m->compares && profile_tree_takes_trie(a->tree_view, a->tree_top);
}

static int merge_side(struct api *a, enum profilestore_detail detail, bool base, struct api_merged *m,
		      struct lent_tree *lent, struct err *err)
{
	const struct profilestore_shape shape = { api_text(a, "label"), detail, lent ? tree_of_lent : NULL,
						  lent, LEND_FROM };
	const struct profile_limits limits = view_limits(a);
	struct profilestore_range r;

	if (api_range(a, base, &r, err) < 0)
		return -1;
	if (profilestore_merge(a->store, &r, &shape, &limits, &m->side[base], err) < 0)
		return base ? err_in(err, "'base'") : -1;
	m->n_pending += m->side[base].n_pending;
	m->n_waiting += m->side[base].n_waiting;
	return 0;
}

static void set_scale(struct api_merged *m, bool normalise)
{
	const struct profile *p = m->side[0].profile, *base = m->side[1].profile;
	int64_t total;

	m->scale = 1;
	if (!normalise || !p->types.n || !base->types.n)
		return;
	total = profile_total(base, 0);
	if (total)
		m->scale = (double)profile_total(p, 0) / (double)total;
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

static bool falls_asleep(struct api *a, const struct api_merged *m, int64_t merge_ms)
{
	if (!names_are_awaited(a, m->n_pending))
		return false;
	a->looked = true;
	a->merge_again_ms = clock_mono_ms() + REST * merge_ms;
	a->req->sleep_ms = POLL_MS;
	return true;
}

static void forget_side(struct api_merged *m)
{
	profile_free(TAKE(m->side[0].profile));
	m->n_pending = m->n_waiting = 0;
}

/* The merge of the query, with its tree if the store's stacks can be used in place. */
static int merge_sides(struct api *a, enum profilestore_detail detail, bool waits, struct api_merged *m,
		       struct err *err)
{
	struct lent_tree lent = { .a = a, .may_sleep = waits };
	bool lends = lends_stacks(a, m);
	int r;

	for (;;) {
		forget_side(m);
		r = merge_side(a, detail, false, m, lends ? &lent : NULL, err);
		if (r < 0 || !lends)
			break;
		if (lent.needs_nodes)
			/* A value is negative, or sums are cut off at 64 bits. */
			lends = false;
		else if (lent.sleeps && !names_are_awaited(a, m->n_pending))
			lent.may_sleep = false;
		else
			break;
	}
	m->tree = lent.tree;
	if (r == 0 && m->compares)
		r = merge_side(a, detail, true, m, NULL, err);
	return r;
}

int api_merge(struct api *a, enum profilestore_detail detail, struct api_merged *ret, struct err *err)
{
	AUTO(api_merged_done) struct api_merged m = { .compares = api_compares(a) };
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
	if (merge_sides(a, detail, wait_ms, &m, err) < 0)
		return -1;
	if (wait_ms && falls_asleep(a, &m, clock_mono_ms() - began_ms))
		return API_SLEEPS;
	if (m.compares)
		set_scale(&m, normalise);
	*ret = m;
	m = (struct api_merged){ 0 };
	return 0;
}

enum profilestore_detail api_detail(const struct profile_view *view)
{
	switch (view->by) {
	case PROFILE_BY_ADDRESS:
		return PROFILESTORE_ADDRESSES;
	case PROFILE_BY_LINE:
		return PROFILESTORE_LINES;
	default:
		return PROFILESTORE_FUNCTIONS;
	}
}

int api_tree(struct api *a, const struct profile_view *view, struct api_merged *m, struct profile_tree **ret,
	     struct err *err)
{
	AUTO(profile_tree_freep) struct profile_tree *t = NULL;
	const struct profile_limits limits = view_limits(a);

	if (m->tree) {
		*ret = TAKE(m->tree);
		return 0;
	}
	if (profile_tree_new(view, &limits, &t, err) < 0 ||
	    profile_tree_add(t, m->side[0].profile, 0, 0, 1, err) < 0)
		return -1;
	if (m->compares && profile_tree_add(t, m->side[1].profile, 0, 1, m->scale, err) < 0)
		return err_in(err, "'base'");
	/* Nothing but numbers is needed of them from here on. */
	for (unsigned i = 0; i < PROFILE_COLUMNS; i++) {
		profile_free(m->side[i].profile);
		m->side[i].profile = NULL;
	}
	if (profile_tree_end(t, err) < 0)
		return -1;
	*ret = TAKE(t);
	return 0;
}

int api_merge_tree(struct api *a, const struct profile_view *view, struct api_merged *ret,
		   struct profile_tree **ret_tree, struct err *err)
{
	int r;

	a->tree_view = view;
	r = api_merge(a, api_detail(view), ret, err);
	a->tree_view = NULL;
	return r ? r : api_tree(a, view, ret, ret_tree, err);
}

void api_put_head(struct api *a, const struct api_merged *m, const struct profile_tree *t)
{
	struct json_writer *w = &a->json;
	struct profile_node root;

	profile_tree_node(t, 0, &root);
	json_put_str(w, "type", profile_tree_type(t));
	json_put_str(w, "unit", profile_tree_unit(t));
	json_put_int(w, "total", root.total[0]);
	if (m->compares)
		json_put_int(w, "base_total", root.total[1]);
	else
		json_put_null(w, "base_total");
	json_put_uint(w, "profiles", m->side[0].n_profiles + m->side[1].n_profiles);
	json_put_uint(w, "samples", m->side[0].n_samples + m->side[1].n_samples);
	api_put_damaged(a, m->side[0].n_damaged + m->side[1].n_damaged);
	json_open_object(w, "pending");
	json_put_uint(w, "locations", m->n_pending);
	json_put_int(w, "retry_ms", m->n_pending ? RETRY_MS : m->n_waiting ? LATER_MS : 0);
	json_close(w);
}
