/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profiles of a query as pprof, or the difference of two sides: written of the store's own stacks as they come. Only the
 * texts and functions that they refer to take memory.
 */
#include "server/profiles/profiles.h"

struct pprof_lender {
	struct api_lender lender; /* first */
	bool gzip;
	const struct api_filter *filter;
	struct profile_pprof *w; /* NULL: not begun */
};

static int merged_pprof_begin(struct pprof_lender *x, struct err *err)
{
	struct api *a = x->lender.a;
	const struct profile_writer to = { api_write_spool, &a->spool };

	return x->w ? 0 : profile_pprof_new(&to, x->gzip, &a->deadline, &x->w, err);
}

static void pprof_forget(struct api_lender *lender)
{
	struct pprof_lender *x = (struct pprof_lender *)lender;

	profile_pprof_free(TAKE(x->w));
	spool_done(&lender->a->spool);
}

static int pprof_of_lent(struct api_lender *lender, const struct profilestore_merged *m,
			 struct profile_trie *in, struct err *err)
{
	struct pprof_lender *x = (struct pprof_lender *)lender;

	if (api_normalise_lent(lender->a, in, err) < 0)
		return -1;
	if (x->filter && x->filter->lent(x->filter->arg, m->profile, in, err) < 0)
		return -1;
	return merged_pprof_begin(x, err) < 0 ? -1 : profile_pprof_add_trie(x->w, m->profile, in, err);
}

static int pprof_end(struct api_lender *lender, const struct profilestore_merged *m,
		     const struct profile_lent_locations *l, struct err *err)
{
	struct pprof_lender *x = (struct pprof_lender *)lender;

	return merged_pprof_begin(x, err) < 0 ? -1 : profile_pprof_end(x->w, m->profile, l, err);
}

static int merge_pprof(struct api *a, struct pprof_lender *x, struct api_merged *m, struct err *err)
{
	int r = api_merge(a, PROFILESTORE_ADDRESSES, &x->lender, m, err);

	if (r)
		return r;
	return x->lender.locations ? 0 : pprof_end(&x->lender, &m->side[0], NULL, err);
}

int api_merge_pprof(struct api *a, bool gzip, const struct api_filter *filter, struct err *err)
{
	AUTO(api_merged_done) struct api_merged m = { 0 };
	/* A filter looks at the names of locations, so they are copied for it. */
	struct pprof_lender x = { .lender = { .stacks = pprof_of_lent,
					      .locations = filter ? NULL : pprof_end,
					      .begin = pprof_forget,
					      .compares = true },
				  .gzip = gzip,
				  .filter = filter };
	int r = merge_pprof(a, &x, &m, err);

	profile_pprof_free(x.w);
	return r;
}
