/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pyroscope's /ingest: pprof, a form with pprof and the names of its types, or stacks as text. Without a format the
 * content decides, as for POST /profiles.
 */
#include "profile/input.h"
#include "server/intake/intake.h"
#include "server/intake/forms.h"

static const struct form_part *form_part_named(const struct form_part *parts, size_t n, struct str name)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq(parts[i].name, name))
			return &parts[i];
	return NULL;
}

static int pyroscope_read_form(struct api *a, struct str type, struct profile **ret, struct err *err)
{
	AUTO(profile_freep) struct profile *p = NULL;
	struct form_part parts[FORM_MAX_PARTS];
	const struct form_part *profile, *config;
	size_t n;

	if (form_multipart(type, a->body, parts, &n, err) < 0)
		return -1;
	profile = form_part_named(parts, n, STR("profile"));
	config = form_part_named(parts, n, STR("sample_type_config"));
	if (!profile)
		return err_set(err, ERR_INVALID, "the form has no part 'profile'");
	if (form_part_named(parts, n, STR("jfr")))
		return err_set(err, ERR_INVALID, "Java flight recordings are not supported");
	if (take_read(a, profile->data, STR("pprof"), &p, err) < 0 ||
	    (config && form_type_config(config->data, p, err) < 0))
		return -1;
	*ret = TAKE(p);
	return 0;
}

static int pyroscope_read(struct api *a, struct profile **ret, struct err *err)
{
	const char *header = http_header(a->req->conn, "Content-Type");
	struct str format = api_text(a, "format"), type = str_of(header ? header : "");
	AUTO(buf_done) struct buf folded = { 0 };

	if (form_is_multipart(type))
		return pyroscope_read_form(a, type, ret, err);
	if (str_eq(format, STR("pprof")))
		return take_read(a, a->body, STR("pprof"), ret, err);
	if (!format.size)
		return take_read(a, a->body, STR(""), ret, err);
	if (str_eq(format, STR("folded")) || str_eq(format, STR("groups")))
		return take_read(a, a->body, STR("folded"), ret, err);
	if (!str_eq(format, STR("lines")))
		return err_set(err, ERR_INVALID, "'format' must be one of pprof, folded, groups, lines");
	form_lines(a->body, &folded);
	return take_read(a, buf_bytes(&folded), STR("folded"), ret, err);
}

/* Text has no time of its own; pprof usually has one. */
static int set_times(struct api *a, struct profile *p, struct err *err)
{
	struct str from = api_text(a, "from"), until = api_text(a, "until");
	int64_t from_ms = 0, until_ms = 0;

	if ((from.size && !form_unix_ms(from, &from_ms)) || (until.size && !form_unix_ms(until, &until_ms)))
		return err_set(err, ERR_INVALID, "'from' and 'until' must be seconds since 1970");
	if (from.size && until.size && from_ms > until_ms)
		return err_set(err, ERR_INVALID, "'from' is later than 'until'");
	if (!p->time_ns && from_ms < INT64_MAX / 1000000)
		p->time_ns = from_ms * 1000000;
	if (!p->duration_ns && from.size && until.size && until_ms - from_ms < INT64_MAX / 1000000)
		p->duration_ns = (until_ms - from_ms) * 1000000;
	return 0;
}

static int pyroscope_take(struct api *a, struct err *err)
{
	struct profilestore_label labels[PROFILESTORE_MAX_LABELS];
	AUTO(profile_freep) struct profile *p = NULL;
	size_t n;

	if (form_app(api_text(a, "name"), labels, &n, err) < 0 || pyroscope_read(a, &p, err) < 0 ||
	    set_times(a, p, err) < 0)
		return -1;
	return take_profile(a, TAKE(p), labels, n, err);
}

static void pyroscope_answer(struct api *a, const struct profilestore_receipt *r)
{
	buf_add_str(&a->out, STR("{}\n"));
}

int api_post_pyroscope(struct api *a, struct err *err)
{
	int r = pyroscope_take(a, err);

	return take_end(a, r, pyroscope_answer, err);
}
