/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles in the forms of other clients: bodies are parsed, without a request or a store. Safe on any bytes.
 */
#pragma once

#include "profilestore/profilestore.h"

struct form_profile {
	struct bytes raw;
	const struct profilestore_label *labels;
	size_t n_labels;
	bool normalized; /* its addresses are those of the ELF files */
};

/* Called for each profile, which lasts for the call, but for its labels, which last as long as the arena. */
struct form_sink {
	int (*fn)(void *arg, const struct form_profile *f, struct err *err);
	void *arg;
	struct budget_hold *memory; /* borrowed: grants what the body is made into; NULL: not counted */
};

/* Parca's JSON. A failure of the sink is returned. */
int form_parca(struct bytes body, struct arena *a, struct form_sink sink, struct err *err);

/*
 * Pyroscope's name of a profiled program, "app{a=b,c=d}": the part before the braces, and that in them (p NULL: none).
 * Views into @name.
 */
int form_app_split(struct str name, struct str *ret_app, struct str *ret_labels, struct err *err);
/*
 * The labels: those in the braces, and service_name=@app. If the braces have a service_name, that one counts, and @app,
 * if it is another name, is the label app_name.
 */
#define FORM_APP_LABEL STR("service_name")
int form_app_labels(struct str app, struct str in_braces,
		    struct profilestore_label labels[PROFILESTORE_MAX_LABELS], size_t *ret_n,
		    struct err *err);

/* multipart/form-data (RFC 7578): the parts in order. */
struct form_part {
	struct str name;
	struct bytes data;
};
#define FORM_MAX_PARTS 16u
bool form_is_multipart(struct str content_type);
int form_multipart(struct str content_type, struct bytes body, struct form_part parts[FORM_MAX_PARTS],
		   size_t *ret_n, struct err *err);

/* Lines of "a;b", one sample each, to folded stacks; cut, if there is no memory for more (buf_check()). */
void form_lines(struct bytes in, struct buf *out);
/* Times of 10 digits are seconds, of 13 milliseconds, and so on. */
bool form_unix_ms(struct str s, int64_t *ret);
/*
 * "sample_type_config": the names that it has for the sample types of @p, or their own, in @a. Types are not renamed:
 * the names only tell what kind of profile it is.
 */
int form_type_names(struct bytes json, const struct profile *p, struct arena *a, struct str *ret,
		    struct err *err);

/* ---- text.c: what stacks as text count ---- */

struct form_kind;
#define FORM_USUAL_RATE 100u /* samples per second, without `sampleRate` */
/* By the end of the name, "app.alloc_space", which is cut off. NULL: it does not say. */
const struct form_kind *form_kind_of_app(struct str *app);
/* By `units` and `aggregationType`; both may be empty. NULL: @err. */
const struct form_kind *form_kind_of_units(struct str units, struct str aggregation, struct err *err);
int form_sample_rate(struct str s, uint32_t *ret, struct err *err);
/* Give @p, of one type, this kind. Samples of a clock become nanoseconds. */
int form_set_kind(struct profile *p, const struct form_kind *kind, uint32_t rate, struct err *err);
struct str form_kind_name(const struct form_kind *kind); /* NAME of the type (profilestore/type.h) */
