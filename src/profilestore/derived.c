/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels that clients of Pyroscope expect of every series, derived from its type and its other labels; see
 * profilestore_range.derived.
 */
#include "profilestore/internal.h"
#include "profilestore/type.h"

#define UNKNOWN_SERVICE STR("unknown_service")

struct str series_profile_type(const struct series *x)
{
	struct buf b = { 0 };

	type_id_of(x->type, &b);
	return buf_str(&b);
}

static struct str derived_name(const struct series *x)
{
	struct str rest = x->profile_type;

	return str_cut(&rest, ':');
}

static struct str derived_service(const struct series *x)
{
	struct str s = series_label(x, STR("service_name"));

	if (!s.size)
		s = series_label(x, STR("service"));
	return s.size ? s : UNKNOWN_SERVICE;
}

static struct str derived_profile_type(const struct series *x)
{
	return x->profile_type;
}

static struct str derived_type(const struct series *x)
{
	return x->texts[SERIES_TYPE];
}

static struct str derived_unit(const struct series *x)
{
	return x->texts[SERIES_UNIT];
}

static struct str derived_period_type(const struct series *x)
{
	return x->texts[SERIES_PERIOD_TYPE];
}

static struct str derived_period_unit(const struct series *x)
{
	return x->texts[SERIES_PERIOD_UNIT];
}

/* By name. */
static const struct {
	struct str name;
	struct str (*value)(const struct series *x);
} derived_labels[] = {
	{ STR("__name__"), derived_name },
	{ STR("__period_type__"), derived_period_type },
	{ STR("__period_unit__"), derived_period_unit },
	{ STR("__profile_type__"), derived_profile_type },
	{ STR("__type__"), derived_type },
	{ STR("__unit__"), derived_unit },
	{ STR("service_name"), derived_service },
};

struct str series_value(const struct series *x, bool derived, struct str name)
{
	for (size_t i = 0; derived && i < ARRAY_SIZE(derived_labels); i++)
		if (str_eq(name, derived_labels[i].name))
			return derived_labels[i].value(x);
	return series_label(x, name);
}

static struct str derived_value(const void *arg, struct str name)
{
	return series_value(arg, true, name);
}

static struct str stored_value(const void *arg, struct str name)
{
	return series_label(arg, name);
}

bool series_matches(const struct series *x, const struct profilestore_range *r)
{
	return !r->sel ||
	       selector_holds(r->sel, x->type, r->derived ? derived_value : stored_value, x, r->deadline);
}

size_t series_labels(const struct series *x, bool derived, struct profilestore_label *ret)
{
	size_t n = 0, k = 0;

	for (size_t i = 0; derived && i < ARRAY_SIZE(derived_labels); i++) {
		const struct str name = derived_labels[i].name, value = derived_labels[i].value(x);

		for (; k < x->n_labels && str_cmp(x->labels[k].name, name) < 0; k++)
			ret[n++] = x->labels[k];
		k += k < x->n_labels && str_eq(x->labels[k].name, name);
		if (value.size)
			ret[n++] = (struct profilestore_label){ name, value };
	}
	for (; k < x->n_labels; k++)
		ret[n++] = x->labels[k];
	return n;
}
