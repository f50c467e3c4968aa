/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters of requests for profiles. A refusal names the parameter.
 */
#include "server/profiles/profiles.h"

#include <stdlib.h>
#include <time.h>

#define MAX_TIME_MS INT64_C(253402300799999) /* the end of the year 9999 */

/* ---- collecting ---- */

int api_arg_add(struct api *a, struct str name, struct str value, struct err *err)
{
	struct api_arg *arg;
	char *n = arena_alloc(a->arena, name.size + 1), *v = arena_alloc(a->arena, value.size + 1);

	if (!a->args)
		a->args = ARENA_NEW_N(a->arena, struct api_arg, API_MAX_ARGS);
	if (a->n_args == API_MAX_ARGS)
		return err_set(err, ERR_INVALID, "more than %u parameters", API_MAX_ARGS);
	arg = &a->args[a->n_args];
	arg->name.p = n;
	arg->value.p = v;
	if (!http_unescape(name, n, &arg->name.size) || !http_unescape(value, v, &arg->value.size))
		return err_set(err, ERR_INVALID, "a parameter has a broken %%-escape, or a NUL");
	if (arg->value.size > API_MAX_VALUE || arg->name.size > API_MAX_VALUE)
		return err_set(err, ERR_INVALID, "a parameter has more than %u bytes", API_MAX_VALUE);
	/* Followed by a NUL, for uses as a C string. */
	n[arg->name.size] = v[arg->value.size] = '\0';
	a->n_args++;
	return 0;
}

static bool name_is_among(struct str name, const char *words)
{
	struct str rest = str_of(words);

	while (rest.p)
		if (str_eq(str_cut(&rest, ' '), name))
			return name.size != 0;
	return false;
}

int api_args_check(const struct api *a, struct err *err)
{
	const char *known = a->route->args;

	for (size_t i = 0; known[0] != '*' && i < a->n_args; i++) {
		struct str name = a->args[i].name;

		if (!name_is_among(name, known))
			return err_set(err, ERR_INVALID, "this path has no parameter '" STR_FMT "'%s%s",
				       (int)MIN(name.size, (size_t)64), name.p, *known ? ", but: " : "",
				       known);
		for (size_t k = 0; k < i; k++)
			if (str_eq(a->args[k].name, name))
				return err_set(err, ERR_INVALID, "'" STR_FMT "' occurs twice", STR_ARG(name));
	}
	return 0;
}

struct str api_text(const struct api *a, const char *name)
{
	for (size_t i = 0; i < a->n_args; i++)
		if (str_eq(a->args[i].name, str_of(name)))
			return a->args[i].value;
	return STR("");
}

const char *api_cstr(const struct api *a, const char *name)
{
	struct str s = api_text(a, name);

	return s.size ? s.p : NULL;
}

/* ---- numbers, flags ---- */

int api_number(const struct api *a, const char *name, uint64_t usual, uint64_t max, uint64_t *ret,
	       struct err *err)
{
	struct str s = api_text(a, name);
	uint64_t v = usual;

	if (s.size && (!str_to_u64(s, &v) || v > max))
		return err_set(err, ERR_INVALID, "'%s' must be a number up to %llu", name,
			       (unsigned long long)max);
	*ret = v;
	return 0;
}

int api_flag(const struct api *a, const char *name, bool *ret, struct err *err)
{
	static const char *const words[][2] = { { "0", "1" }, { "false", "true" }, { "no", "yes" } };
	struct str s = api_text(a, name);

	*ret = false;
	if (!s.size)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		for (unsigned yes = 0; yes < 2; yes++)
			if (str_eq(s, str_of(words[i][yes]))) {
				*ret = yes;
				return 0;
			}
	return err_set(err, ERR_INVALID, "'%s' must be 1 or 0", name);
}

/* ---- times ---- */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Cut one number and its unit off the front of @s. */
static bool take_duration(struct str *s, int64_t *ret_ms)
{
	static const struct {
		struct str name;
		int64_t ms;
	} units[] = { { STR("ms"), 1 },      { STR("s"), 1000 },     { STR("m"), 60000 },
		      { STR("h"), 3600000 }, { STR("d"), 86400000 }, { STR("w"), 604800000 } };
	size_t n = 0, at;
	uint64_t v;

	while (n < s->size && is_digit(s->p[n]))
		n++;
	if (!str_to_u64((struct str){ s->p, n }, &v) || v > (uint64_t)MAX_TIME_MS)
		return false;
	at = n;
	while (n < s->size && !is_digit(s->p[n]))
		n++;
	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (str_eq((struct str){ s->p + at, n - at }, units[i].name)) {
			*s = (struct str){ s->p + n, s->size - n };
			return !__builtin_mul_overflow((int64_t)v, units[i].ms, ret_ms) &&
			       *ret_ms <= MAX_TIME_MS;
		}
	return false;
}

bool api_duration_parse(struct str s, int64_t *ret_ms)
{
	int64_t sum = 0, one;

	if (!s.size)
		return false;
	while (s.size) {
		if (!take_duration(&s, &one) || sum + one > MAX_TIME_MS)
			return false;
		sum += one;
	}
	*ret_ms = sum;
	return true;
}

int api_duration(const struct api *a, const char *name, int64_t usual_ms, int64_t max_ms, int64_t *ret,
		 struct err *err)
{
	struct str s = api_text(a, name);
	int64_t v = usual_ms;

	if (s.size && (!api_duration_parse(s, &v) || v > max_ms))
		return err_set(err, ERR_INVALID, "'%s' must be a time such as 500ms, 2s, 1h30m, up to %lld s",
			       name, (long long)(max_ms / 1000));
	*ret = v;
	return 0;
}

/* Exactly @n digits, then one of the characters @after (NULL: none). */
static bool time_field(struct str *s, size_t n, const char *after, int64_t max, int64_t *ret)
{
	int64_t v = 0;

	if (s->size < n + !!after)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (!is_digit(s->p[i]))
			return false;
		v = v * 10 + (s->p[i] - '0');
	}
	if (after && !strchr(after, s->p[n]))
		return false;
	n += !!after;
	*s = (struct str){ s->p + n, s->size - n };
	*ret = v;
	return v <= max;
}

static bool days_fit(int64_t y, int64_t m, int64_t d)
{
	static const uint8_t days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	bool leap = (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;

	return m >= 1 && d >= 1 && d <= days[m - 1] + (m == 2 && leap);
}

/* Seconds from 1970 to the start of a day. */
static int64_t start_of(int64_t y, int64_t m, int64_t d)
{
	struct tm tm = { .tm_year = (int)(y - 1900), .tm_mon = (int)(m - 1), .tm_mday = (int)d };

	return timegm(&tm);
}

/* RFC 3339: 2026-11-21T07:29:00.5+01:00 */
static bool parse_date(struct str s, int64_t *ret)
{
	int64_t y, mo, d, h, mi, sec, ms = 0, off_h = 0, off_mi = 0, scale = 100;
	char sign;

	if (!time_field(&s, 4, "-", 9999, &y) || !time_field(&s, 2, "-", 12, &mo) ||
	    !time_field(&s, 2, "Tt ", 31, &d) || !time_field(&s, 2, ":", 23, &h) ||
	    !time_field(&s, 2, ":", 59, &mi) || !time_field(&s, 2, NULL, 60, &sec) || !days_fit(y, mo, d))
		return false;
	if (s.size > 1 && s.p[0] == '.' && is_digit(s.p[1]))
		for (s.p++, s.size--; s.size && is_digit(*s.p); s.p++, s.size--, scale /= 10)
			ms += (*s.p - '0') * scale;
	if (!s.size)
		return false;
	sign = *s.p;
	s.p++;
	s.size--;
	if (sign == '+' || sign == '-') {
		if (!time_field(&s, 2, ":", 23, &off_h) || !time_field(&s, 2, NULL, 59, &off_mi))
			return false;
	} else if (sign != 'Z' && sign != 'z') {
		return false;
	}
	off_mi += off_h * 60;
	mi += h * 60 - (sign == '-' ? -off_mi : off_mi);
	*ret = start_of(y, mo, d) * 1000 + mi * 60000 + sec * 1000 + ms;
	return !s.size;
}

bool api_time_parse(struct str s, int64_t now_ms, int64_t *ret)
{
	int64_t v = now_ms, by;
	uint64_t n;

	if (str_starts(s, STR("now"))) {
		char sign = s.size > 3 ? s.p[3] : 0;

		s = (struct str){ s.p + 3, s.size - 3 };
		if (s.size) {
			if (!api_duration_parse((struct str){ s.p + 1, s.size - 1 }, &by) ||
			    (sign != '-' && sign != '+'))
				return false;
			v += sign == '-' ? -by : by;
		}
	} else if (str_to_u64(s, &n)) {
		if (n > (uint64_t)MAX_TIME_MS)
			return false;
		v = (int64_t)n;
	} else if (!parse_date(s, &v)) {
		return false;
	}
	/* There are no profiles from before 1970. */
	v = MAX(v, INT64_C(0));
	*ret = v;
	return v <= MAX_TIME_MS;
}

int api_time(const struct api *a, const char *name, int64_t usual_ms, int64_t *ret, struct err *err)
{
	struct str s = api_text(a, name);

	*ret = usual_ms;
	if (s.size && !api_time_parse(s, a->now_ms, ret))
		return err_set(
			err, ERR_INVALID,
			"'%s' must be a time: milliseconds since 1970, 2026-11-21T07:29:00Z, now or now-15m",
			name);
	return 0;
}

/* ---- queries ---- */

static int selector_of(struct api *a, const char *name, struct selector **at, struct err *err)
{
	struct str s = api_text(a, name);

	if (!*at && s.size && selector_parse(s, at, err) < 0)
		return err_in(err, "'%s'", name);
	return 0;
}

bool api_compares(const struct api *a)
{
	if (a->query)
		return a->query->compares;
	return api_text(a, "base").size || api_text(a, "base_from").size || api_text(a, "base_to").size ||
	       api_text(a, "base_profile").size;
}

int api_range(struct api *a, bool base, struct profilestore_range *ret, struct err *err)
{
	const char *profile = base ? "base_profile" : "profile";
	struct profilestore_range r = { 0 };
	uint64_t id;

	if (a->query) {
		*ret = a->query->range[base];
		return 0;
	}
	if (api_time(a, "from", a->now_ms - 3600000, &r.from_ms, err) < 0 ||
	    api_time(a, "to", a->now_ms + 1, &r.to_ms, err) < 0 ||
	    selector_of(a, "query", &a->selectors[0], err) < 0)
		return -1;
	if (base && (api_time(a, "base_from", r.from_ms, &r.from_ms, err) < 0 ||
		     api_time(a, "base_to", r.to_ms, &r.to_ms, err) < 0 ||
		     selector_of(a, "base", &a->selectors[1], err) < 0))
		return -1;
	if (api_number(a, profile, 0, INT64_MAX, &id, err) < 0)
		return -1;
	if (api_text(a, profile).size && !id)
		return err_set(err, ERR_INVALID, "'%s' must be the number of a profile", profile);
	if (r.from_ms > r.to_ms)
		return err_set(err, ERR_INVALID,
			       base ? "'base_from' is later than 'base_to'" : "'from' is later than 'to'");
	r.deadline = &a->deadline;
	r.profile_id = (int64_t)id;
	r.sel = base && a->selectors[1] ? a->selectors[1] : a->selectors[0];
	*ret = r;
	return 0;
}

int api_view(const struct api *a, struct profile_view *ret, struct err *err)
{
	struct str by = api_text(a, "by");
	struct profile_view v = {
		.label = api_cstr(a, "label"),
		.focus = api_cstr(a, "focus"),
		.ignore = api_cstr(a, "ignore"),
		.hide = api_cstr(a, "hide"),
		.show = api_cstr(a, "show"),
	};

	if (by.size && !profile_group_parse(by, &v.by))
		return err_set(err, ERR_INVALID, "'by' must be one of function, file, binary, line, address");
	if (api_flag(a, "invert", &v.invert, err) < 0 || api_flag(a, "no_inlines", &v.no_inlines, err) < 0)
		return -1;
	*ret = v;
	return 0;
}
