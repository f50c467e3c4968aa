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
	enum profile_stream_format stream; /* of download_rows() */
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

/* Nodes that it would not draw are left out of the tree. An image measures them by one side, a page by the larger one. */
static int download_drawing(struct api *a, const struct download_format *f, struct profile_view *view,
			    struct err *err)
{
	view->min_share = PROFILE_OUTPUT_MIN_SHARE;
	view->first_side = f->write == profile_write_svg;
	return download_tree(a, f, view, err);
}

/* ---- rows of stacks: written as they come if they are many ---- */

struct stream_lender {
	struct api_lender lender; /* first */
	struct profile_stream_options o;
	struct profile_stream *s; /* NULL: not begun */
	struct spool aside;
};

static void stream_forget(struct api_lender *lender)
{
	struct stream_lender *x = (struct stream_lender *)lender;

	profile_stream_free(TAKE(x->s));
	spool_done(&x->aside);
	spool_done(&lender->a->spool);
}

static int stream_of_lent(struct api_lender *lender, const struct profilestore_merged *m,
			  struct profile_trie *in, struct err *err)
{
	struct stream_lender *x = (struct stream_lender *)lender;

	if (api_normalise_lent(lender->a, in, err) < 0)
		return -1;
	if (!x->s && profile_stream_new(&x->o, &x->s, err) < 0)
		return -1;
	return profile_stream_add(x->s, m->profile, in, err);
}

static int merge_rows(struct api *a, const struct download_format *f, struct stream_lender *x,
		      struct err *err)
{
	AUTO(api_merged_done) struct api_merged m = { 0 };
	AUTO(profile_tree_freep) struct profile_tree *t = NULL;
	int r = api_merge(a, api_detail(&x->o.view), &x->lender, &m, err);

	if (r)
		return r;
	if (x->s)
		return profile_stream_end(x->s, err) < 0 ? -1 : api_add_spool(a, err);
	if (api_tree_of(a, &x->o.view, &m, &t, err) < 0)
		return -1;
	f->write(t, &(struct profile_output){ .title = x->o.title }, &a->out);
	return 0;
}

static int download_rows(struct api *a, const struct download_format *f, struct profile_view *view,
			 struct err *err)
{
	struct stream_lender x = { .lender = { .stacks = stream_of_lent,
					       .begin = stream_forget,
					       .from = API_LEND_FROM,
					       .compares = true,
					       .values = view->label,
					       .alone = f->stream == PROFILE_STREAM_SPEEDSCOPE },
				   .o = { .format = f->stream,
					  .view = *view,
					  .limits = api_limits(a),
					  .title = api_cstr(a, "query"),
					  .to = { api_write_spool, &a->spool },
					  .aside = &x.aside },
				   .aside = { .dir = a->spool.dir, .room = a->spool.room } };
	int r;

	buf_meter(&x.aside.mem, &a->memory);
	r = merge_rows(a, f, &x, err);

	profile_stream_free(x.s);
	spool_done(&x.aside);
	return r;
}

/* ---- the route ---- */

static const struct download_format formats[] = {
	{ .name = "pprof",
	  .type = "application/octet-stream",
	  .filename = "profile.pb.gz",
	  .run = download_pprof },
	{ "folded", "text/plain; charset=utf-8", "profile.folded", download_rows, profile_write_folded,
	  PROFILE_STREAM_FOLDED },
	{ .name = "svg",
	  .type = "image/svg+xml",
	  .filename = "profile.svg",
	  .run = download_drawing,
	  .write = profile_write_svg },
	{ .name = "html",
	  .type = "text/html; charset=utf-8",
	  .filename = "profile.html",
	  .run = download_drawing,
	  .write = profile_write_html },
	{ "speedscope", "application/json", "profile.speedscope.json", download_rows,
	  profile_write_speedscope, PROFILE_STREAM_SPEEDSCOPE },
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
