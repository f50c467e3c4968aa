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
};

/* Parca's JSON. A failure of the sink is returned. */
int form_parca(struct bytes body, struct arena *a, struct form_sink sink, struct err *err);
/* RFC 4648, either alphabet, padded or not; appends. false: malformed. */
bool form_base64(struct str s, struct buf *out);

/* Pyroscope's name of a profiled program, "app{a=b,c=d}": the labels, views into @name. */
#define FORM_APP_LABEL STR("service_name")
int form_app(struct str name, struct profilestore_label labels[PROFILESTORE_MAX_LABELS], size_t *ret_n,
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

/* Lines of "a;b", one sample each, to folded stacks. */
void form_lines(struct bytes in, struct buf *out);
/* Times of 10 digits are seconds, of 13 milliseconds, and so on. */
bool form_unix_ms(struct str s, int64_t *ret);
/* "sample_type_config": it renames types; the values of types that it does not have become 0. */
int form_type_config(struct bytes json, struct profile *p, struct err *err);
