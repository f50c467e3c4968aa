/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Downloads: pprof, folded stacks, flame graphs; and the description of the API.
 */
#include "profile/output.h"
#include "server/profiles/openapi.h"
#include "server/profiles/profiles.h"

static const struct {
	const char *name, *type, *filename;
	void (*write)(const struct profile_tree *t, const struct profile_output *o,
		      struct buf *out); /* NULL: pprof */
} formats[] = {
	{ "pprof", "application/octet-stream", "profile.pb.gz", NULL },
	{ "folded", "text/plain; charset=utf-8", "profile.folded", profile_write_folded },
	{ "svg", "image/svg+xml", "profile.svg", profile_write_svg },
	{ "html", "text/html; charset=utf-8", "profile.html", profile_write_html },
	{ "speedscope", "application/json", "profile.speedscope.json", profile_write_speedscope },
};

/* Filters apply to trees only: tools for pprof have filters of their own. */
static int download_pprof(struct api *a, struct err *err)
{
	int r = api_merge_pprof(a, true, NULL, err);

	return r ? r : api_add_spool(a, err);
}

static int download_tree(struct api *a, const struct profile_view *view, size_t format, struct err *err)
{
	AUTO(api_merged_done) struct api_merged m = { 0 };
	AUTO(profile_tree_freep) struct profile_tree *t = NULL;
	const struct profile_output o = { .title = api_cstr(a, "query") };
	int r = api_merge_tree(a, &(struct api_tree){ .view = *view }, &m, &t, err);

	if (r == 0)
		formats[format].write(t, &o, &a->out);
	return r;
}

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
	r = formats[i].write ? download_tree(a, &view, i, err) : download_pprof(a, err);
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
