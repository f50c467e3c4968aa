/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pyroscope's /ingest: pprof, a form with pprof and the names of its types, a recording of Java (a form with the
 * labels of its contexts, or bare), or stacks as text. Without a format the
 * content decides, as for POST /profiles. Types get Pyroscope's names (profilestore/type.h).
 */
#include "profile/input.h"
#include "profilestore/type.h"
#include "server/intake/forms.h"
#include "server/intake/intake.h"

#define NO_FORMAT                                                                                            \
	"the format '" STR_FMT "' is not supported: no current client sends it; update the client, or send " \
	"pprof, folded (stack and count), groups or lines"
#define OLD_CLIENT                                                                                        \
	"the form has a part 'prev_profile', of a client that has been replaced: update pyroscope-go to " \
	"1.0 or later"
/* Some clients write the time of a profile in microseconds, which is a date in 1970. */
#define YEAR_NS (INT64_C(365) * 86400 * 1000000000)

/* An /ingest that is being read. */
struct ingest {
	struct api *a;
	struct str app, content_type, format;
	struct str braces; /* the labels in the name */
	bool is_text;
	struct str name;   /* NAME of the type; empty: by the sample types */
	struct profile *p; /* NULL: it was a recording, whose profiles are in the store's hands */
	struct profilestore_label labels[PROFILESTORE_MAX_LABELS];
	size_t n_labels;
};

static const struct form_part *form_part_named(const struct form_part *parts, size_t n, struct str name)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq(parts[i].name, name))
			return &parts[i];
	return NULL;
}

/* NAME from the names that the form has for its sample types. */
static int name_by_config(struct ingest *in, struct bytes config, struct err *err)
{
	struct str *names = ARENA_NEW_N(in->a->arena, struct str, in->p->types.n + 1);

	if (form_type_names(config, in->p, in->a->arena, names, err) < 0)
		return -1;
	in->name = type_name_of(names, in->p->types.n, profile_str(in->p, in->p->period_type.type));
	return 0;
}

static bool ingest_time(const struct ingest *in, struct str s, int64_t *ret_ms)
{
	return form_unix_ms(s, ret_ms) || api_time_parse(s, in->a->now_ms, ret_ms);
}

/* Text has no time of its own; pprof usually has one. */
static int ingest_set_times(struct ingest *in, struct err *err)
{
	struct str from = api_text(in->a, "from"), until = api_text(in->a, "until");
	int64_t from_ms = 0, until_ms = 0;
	struct profile *p = in->p;

	if ((from.size && !ingest_time(in, from, &from_ms)) ||
	    (until.size && !ingest_time(in, until, &until_ms)))
		return err_set(
			err, ERR_INVALID,
			"'from' and 'until' must be times: seconds since 1970, 2026-11-21T07:29:00Z, now or "
			"now-10s");
	if (from.size && until.size && from_ms > until_ms)
		return err_set(err, ERR_INVALID, "'from' is later than 'until'");
	if ((!p->time_ns || (from.size && p->time_ns > 0 && p->time_ns < YEAR_NS)) &&
	    from_ms < INT64_MAX / 1000000)
		p->time_ns = from_ms * 1000000;
	if (!p->duration_ns && from.size && until.size && until_ms - from_ms < INT64_MAX / 1000000)
		p->duration_ns = (until_ms - from_ms) * 1000000;
	return 0;
}

/* Pass the profile to the store. */
static int ingest_give(struct ingest *in, struct err *err)
{
	if (ingest_set_times(in, err) < 0 ||
	    form_app_labels(in->app, in->braces, in->labels, &in->n_labels, err) < 0)
		return -1;
	return take_foreign(in->a, TAKE(in->p), in->labels, in->n_labels,
			    (struct take_how){ .pyroscope = true, .name = in->name }, err);
}

/* One profile of a recording, or the only one of another format. */
static int ingest_take_one(void *arg, struct profile *p, struct str name, struct err *err)
{
	struct ingest *in = arg;

	in->p = p;
	if (!name.size)
		return 0;
	in->name = name;
	return ingest_give(in, err);
}

/* Labels may be NULL. */
static int ingest_read_recording(struct ingest *in, struct bytes recording, struct str format,
				 const struct form_part *labels, struct err *err)
{
	struct jfr_options jfr = { .labels = labels ? labels->data : bytes_of("", 0) };
	struct str rate = api_text(in->a, "sampleRate");

	/* Only a recording without its own interval needs it; of text it is checked later. */
	if (rate.size)
		(void)form_sample_rate(rate, &jfr.sample_rate, NULL);
	return take_read_each(in->a, recording, format, &jfr, (struct profile_sink){ ingest_take_one, in },
			      err);
}

static int ingest_read_form(struct ingest *in, struct err *err)
{
	struct form_part parts[FORM_MAX_PARTS];
	const struct form_part *profile, *config, *recording;
	size_t n;

	if (form_multipart(in->content_type, in->a->body, parts, &n, err) < 0)
		return -1;
	recording = form_part_named(parts, n, STR("jfr"));
	if (recording)
		return ingest_read_recording(in, recording->data, STR("jfr"),
					     form_part_named(parts, n, STR("labels")), err);
	if (form_part_named(parts, n, STR("prev_profile")))
		return err_set(err, ERR_INVALID, OLD_CLIENT);
	profile = form_part_named(parts, n, STR("profile"));
	config = form_part_named(parts, n, STR("sample_type_config"));
	if (!profile)
		return err_set(err, ERR_INVALID, "the form has neither a part 'profile' nor 'jfr'");
	if (take_read(in->a, profile->data, STR("pprof"), &in->p, err) < 0)
		return -1;
	return config ? name_by_config(in, config->data, err) : 0;
}

/* "samples" in "count", without a period: stacks and counts. */
static bool is_plain_text(const struct profile *p)
{
	return p->types.n == 1 && str_eq(profile_str(p, p->types.p[0].type), STR("samples")) &&
	       str_eq(profile_str(p, p->types.p[0].unit), STR("count")) && !p->period && !p->period_type.type;
}

static int ingest_read(struct ingest *in, struct err *err)
{
	static const struct str others[] = { STR("tree"), STR("trie"), STR("speedscope") };
	struct api *a = in->a;
	AUTO(buf_done) struct buf folded = { .hold = &a->memory };
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (str_eq(in->format, others[i]) ||
		    (str_starts(in->content_type, STR("binary/octet-stream+")) &&
		     str_ends(in->content_type, others[i])))
			return err_set(err, ERR_INVALID, NO_FORMAT, STR_ARG(others[i]));
	if (form_is_multipart(in->content_type))
		return ingest_read_form(in, err);
	if (str_eq(in->format, STR("pprof")))
		return take_read(a, a->body, STR("pprof"), &in->p, err);
	if (!in->format.size || str_eq(in->format, STR("jfr"))) {
		r = ingest_read_recording(in, a->body, in->format, NULL, err);
	} else if (str_eq(in->format, STR("folded")) || str_eq(in->format, STR("groups"))) {
		r = take_read(a, a->body, STR("folded"), &in->p, err);
	} else if (str_eq(in->format, STR("lines"))) {
		form_lines(a->body, &folded);
		r = buf_check(&folded, err) < 0
			    ? -1
			    : take_read(a, buf_bytes(&folded), STR("folded"), &in->p, err);
	} else {
		return err_set(err, ERR_INVALID, "'format' must be one of pprof, jfr, folded, groups, lines");
	}
	in->is_text = r == 0 && in->p && is_plain_text(in->p);
	return r;
}

/* The type of stacks as text. */
static int ingest_type_text(struct ingest *in, struct err *err)
{
	const struct form_kind *kind = form_kind_of_app(&in->app);
	uint32_t rate;

	if (!kind)
		kind = form_kind_of_units(api_text(in->a, "units"), api_text(in->a, "aggregationType"), err);
	if (!kind || form_sample_rate(api_text(in->a, "sampleRate"), &rate, err) < 0)
		return -1;
	in->name = form_kind_name(kind);
	return form_set_kind(in->p, kind, rate, err);
}

static int ingest_take(struct ingest *in, struct err *err)
{
	if (form_app_split(api_text(in->a, "name"), &in->app, &in->braces, err) < 0 ||
	    ingest_read(in, err) < 0 || (in->is_text && ingest_type_text(in, err) < 0))
		return -1;
	return in->p ? ingest_give(in, err) : 0;
}

static void ingest_answer(struct api *a, const struct profilestore_receipt *r)
{
	buf_add_str(&a->out, STR("{}\n"));
}

int api_post_pyroscope(struct api *a, struct err *err)
{
	const char *type = http_header(a->req->conn, "Content-Type");
	struct ingest *in = ARENA_NEW(a->arena, struct ingest);
	int r;

	in->a = a;
	in->content_type = str_of(type ? type : "");
	in->format = api_text(a, "format");
	r = ingest_take(in, err);
	profile_free(TAKE(in->p));
	return take_end(a, r, ingest_answer, err);
}
