/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Downloads: pprof, folded stacks, flame graphs; and the description of the API.
 */
#include "profile/output.h"
#include "server/profiles/openapi.h"
#include "server/profiles/profiles.h"

struct download_format {
	const char *name, *type, *filename;
	int (*run)(struct api *a, const struct download_format *f, struct profile_view *view,
		   struct err *err);
	void (*write)(const struct profile_tree *t, const struct profile_output *o, struct buf *out);
};

/* Filters apply to trees only: tools for pprof have filters of their own. */
static int download_pprof(struct api *a, const struct download_format *f, struct profile_view *view,
			  struct err *err)
{
	int r = api_merge_pprof(a, true, NULL, err);

	return r ? r : api_add_spool(a, err);
}

static int download_tree(struct api *a, const struct download_format *f, struct profile_view *view,
			 struct err *err)
{
	AUTO(api_merged_done) struct api_merged m = { 0 };
	AUTO(profile_tree_freep) struct profile_tree *t = NULL;
	const struct profile_output o = { .title = api_cstr(a, "query") };
	int r = api_merge_tree(a, &(struct api_tree){ .view = *view }, &m, &t, err);

	if (r == 0)
		f->write(t, &o, &a->out);
	return r;
}

/* Nodes that it would not draw are left out of the tree. In a comparison an image measures them by one side. */
static int download_drawing(struct api *a, const struct download_format *f, struct profile_view *view,
			    struct err *err)
{
	if (!api_compares(a))
		view->min_share = PROFILE_OUTPUT_MIN_SHARE;
	return download_tree(a, f, view, err);
}

/* ---- folded stacks: written as they come if they are many ---- */

struct folded_lender {
	struct api_lender lender; /* first */
	const struct profile_view *view;
	bool written; /* to the spool */
};

static void folded_forget(struct api_lender *lender)
{
	((struct folded_lender *)lender)->written = false;
	spool_done(&lender->a->spool);
}

static int folded_of_lent(struct api_lender *lender, const struct profilestore_merged *m,
			  struct profile_trie *in, struct err *err)
{
	struct folded_lender *x = (struct folded_lender *)lender;
	const struct profile_limits limits = api_limits(lender->a);
	const struct profile_writer to = { api_write_spool, &lender->a->spool };

	x->written = true;
	return profile_write_folded_trie(x->view, &limits, m->profile, in, &to, err);
}

static int download_folded(struct api *a, const struct download_format *f, struct profile_view *view,
			   struct err *err)
{
	AUTO(api_merged_done) struct api_merged m = { 0 };
	AUTO(profile_tree_freep) struct profile_tree *t = NULL;
	struct folded_lender x = {
		.lender = { .stacks = folded_of_lent, .begin = folded_forget, .from = API_LEND_FROM },
		.view = view
	};
	int r = api_merge(a, api_detail(view), view->label ? NULL : &x.lender, &m, err);

	if (r)
		return r;
	if (x.written)
		return api_add_spool(a, err);
	if (api_tree_of(a, view, &m, &t, err) < 0)
		return -1;
	f->write(t, &(struct profile_output){ 0 }, &a->out);
	return 0;
}

/* ---- the route ---- */

static const struct download_format formats[] = {
	{ "pprof", "application/octet-stream", "profile.pb.gz", download_pprof, NULL },
	{ "folded", "text/plain; charset=utf-8", "profile.folded", download_folded, profile_write_folded },
	{ "svg", "image/svg+xml", "profile.svg", download_drawing, profile_write_svg },
	{ "html", "text/html; charset=utf-8", "profile.html", download_drawing, profile_write_html },
	{ "speedscope", "application/json", "profile.speedscope.json", download_tree,
	  profile_write_speedscope },
};

int api_download(struct api *a, struct err *err)
{
	struct str format = api_text(a, "format");
	struct profile_view view;
	size_t i = 0;
	int r;

	while (format.size && i < ARRAY_SIZE(formats) && !str_eq(format, str_of(formats[i].name)))
		i++;
	if (i == ARRAY_SIZE(formats))
		return err_set(err, ERR_INVALID,
			       "'format' must be one of pprof, folded, svg, html, speedscope");
	if (api_view(a, &view, err) < 0)
		return -1;
	r = formats[i].run(a, &formats[i], &view, err);
	if (r)
		return r;
	a->type = formats[i].type;
	a->filename = formats[i].filename;
	return 0;
}

int api_openapi(struct api *a, struct err *err)
{
	struct bytes text = embedded_get(openapi_files, "openapi.json");

	buf_add(&a->out, text.p, text.size);
	return 0;
}
