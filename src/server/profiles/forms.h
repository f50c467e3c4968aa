/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How others send profiles: bodies taken apart, without a request or a store. Safe on any bytes.
 */
#pragma once

#include "profilestore/profilestore.h"

struct form_profile {
	struct bytes raw;
	const struct profilestore_label *labels;
	size_t n_labels;
	bool normalized; /* addresses are those of the ELF files */
};

/* Parca's JSON: @fn is called for each profile; what it is given lasts for the call, labels as long as @a and
 * the call. Its failure is handed on. */
int form_parca(struct bytes body, struct arena *a,
	       int (*fn)(void *arg, const struct form_profile *f, struct err *err), void *arg,
	       struct err *err);
/* RFC 4648, either alphabet, padded or not; appended. false: it is none. */
bool form_base64(struct str s, struct buf *out);

/* Pyroscope's name of what was profiled, "app{a=b,c=d}": the labels, views into @name. */
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

/* "a;b" a line, each seen once, as folded stacks. */
void form_lines(struct bytes in, struct buf *out);
/* Times of 10 digits are seconds, of 13 milliseconds, and so on. */
bool form_unix_ms(struct str s, int64_t *ret);
/* "sample_type_config": types are called as it says, and those that it does not have are zeroed. */
int form_type_config(struct bytes json, struct profile *p, struct err *err);
