/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profiles of a query as a tree of calls: made of the store's own stacks if it can be, else of a profile with copies of
 * them.
 */
#include "server/profiles/profiles.h"

#define RETRY_MS 1000 /* after this time a client may ask again for pending names */
#define LATER_MS 5000 /* ... for names that wait for a debug file */

enum profilestore_detail api_detail(const struct profile_view *view)
{
	unsigned needs = profile_filter_needs(view->focus) | profile_filter_needs(view->ignore);

	if (view->by == PROFILE_BY_ADDRESS || needs & PROFILE_FILTERS_ADDRESSES)
		return PROFILESTORE_ADDRESSES;
	if (view->by == PROFILE_BY_LINE || needs & PROFILE_FILTERS_LINES)
		return PROFILESTORE_LINES;
	return PROFILESTORE_FUNCTIONS;
}

struct tree_lender {
	struct api_lender lender; /* first */
	const struct api_tree *of;
	struct profile_tree *tree;
	struct profile_trie_groups *groups; /* with a label, until all are there; NULL: none so far */
};

static void tree_forget(struct api_lender *lender)
{
	struct tree_lender *x = (struct tree_lender *)lender;

	profile_tree_free(TAKE(x->tree));
	profile_trie_groups_free(TAKE(x->groups));
}

int api_normalise_lent(const struct api *a, struct profile_trie *in, struct err *err)
{
	bool normalise;

	if (api_flag(a, "normalise", &normalise, err) < 0)
		return -1;
	if (in->base && normalise && in->base_total)
		in->scale = (double)in->total / (double)in->base_total;
	return 0;
}

/* The stacks of one value of the label. */
static int add_lent_group(struct tree_lender *x, const struct profilestore_merged *m, struct profile_trie *in,
			  struct err *err)
{
	const struct profile_limits limits = api_limits(x->lender.a);

	if (!x->groups && profile_trie_groups_new(&x->of->view, &limits, &x->groups, err) < 0)
		return -1;
	return profile_trie_groups_add(x->groups, m->profile, in, err);
}

static int tree_of_lent(struct api_lender *lender, const struct profilestore_merged *m,
			struct profile_trie *in, struct err *err)
{
	struct tree_lender *x = (struct tree_lender *)lender;
	const struct profile_limits limits = api_limits(lender->a);
	const struct api_tree *of = x->of;
	int r;

	if (api_normalise_lent(lender->a, in, err) < 0)
		return -1;
	if (of->filter && of->filter->lent(of->filter->arg, m->profile, in, err) < 0)
		return -1;
	in->top = of->top;
	in->function = of->function;
	in->binary = of->binary;
	in->file = of->file;
	if (of->view.label)
		r = add_lent_group(x, m, in, err);
	else
		r = profile_tree_of_trie(&of->view, &limits, m->profile, in, &x->tree, err);
	return r == TREE_NEEDS_NODES ? API_NEEDS_PROFILE : r;
}

/* All values of the label are there. */
static int tree_of_groups(struct api_lender *lender, struct err *err)
{
	struct tree_lender *x = (struct tree_lender *)lender;
	int r = x->groups ? profile_trie_groups_end(x->groups, &x->tree, err) : 0;

	return r == TREE_NEEDS_NODES ? API_NEEDS_PROFILE : r;
}

int api_tree_of(struct api *a, const struct profile_view *view, struct api_merged *m,
		struct profile_tree **ret, struct err *err)
{
	AUTO(profile_tree_freep) struct profile_tree *t = NULL;
	const struct profile_limits limits = api_limits(a);

	if (profile_tree_new(view, &limits, &t, err) < 0 ||
	    profile_tree_add(t, m->side[0].profile, 0, 0, 1, err) < 0)
		return -1;
	if (m->compares && profile_tree_add(t, m->side[1].profile, 0, 1, m->scale, err) < 0)
		return err_in(err, "'base'");
	/* Nothing but numbers is needed of them from here on. */
	for (unsigned i = 0; i < PROFILE_COLUMNS; i++)
		profile_free(TAKE(m->side[i].profile));
	if (profile_tree_end(t, err) < 0)
		return -1;
	*ret = TAKE(t);
	return 0;
}

static int merge_tree(struct api *a, struct tree_lender *x, struct api_merged *m, struct profile_tree **ret,
		      struct err *err)
{
	const struct api_tree *of = x->of;
	bool lends = profile_tree_takes_trie(&of->view, of->top);
	int r = api_merge(a, api_detail(&of->view), lends ? &x->lender : NULL, m, err);

	if (r)
		return r;
	if (x->tree) {
		*ret = TAKE(x->tree);
		return 0;
	}
	for (unsigned i = 0; of->filter && i < PROFILE_COLUMNS; i++)
		if (m->side[i].profile && of->filter->copied(of->filter->arg, i, m->side[i].profile, err) < 0)
			return -1;
	return api_tree_of(a, &of->view, m, ret, err);
}

int api_merge_tree(struct api *a, const struct api_tree *tree, struct api_merged *ret,
		   struct profile_tree **ret_tree, struct err *err)
{
	struct tree_lender x = { .lender = { .stacks = tree_of_lent,
					     .end = tree_of_groups,
					     .begin = tree_forget,
					     .from = API_LEND_FROM,
					     .compares = !tree->filter || tree->filter->compares,
					     .values = tree->view.label },
				 .of = tree };
	int r = merge_tree(a, &x, ret, ret_tree, err);

	tree_forget(&x.lender);
	return r;
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
