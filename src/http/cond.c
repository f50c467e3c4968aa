/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditional and range requests. A malformed header is ignored, as RFC 9110 requires.
 */
#include "http/cond.h"

#include <stdio.h>
#include <time.h>

static const char days[7][4] = { "Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat" };
static const char months[12][4] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun",
				    "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };

/* Not strftime(): its names depend on the locale. */
char *http_date(int64_t wall_s, char out[HTTP_DATE_SIZE])
{
	time_t t = (time_t)wall_s;
	struct tm tm;

	if (!gmtime_r(&t, &tm) || tm.tm_year < -1900 || tm.tm_year > 8099) {
		out[0] = '\0';
		return out;
	}
	snprintf(out, HTTP_DATE_SIZE, "%s, %02u %s %04u %02u:%02u:%02u GMT", days[tm.tm_wday % 7],
		 (unsigned)tm.tm_mday % 100, months[tm.tm_mon % 12], (unsigned)(tm.tm_year + 1900) % 10000,
		 (unsigned)tm.tm_hour % 100, (unsigned)tm.tm_min % 100, (unsigned)tm.tm_sec % 100);
	return out;
}

/* @n digits at @p. */
static bool date_digits(const char *p, unsigned n, int *ret)
{
	int v = 0;

	for (unsigned i = 0; i < n; i++) {
		if (p[i] < '0' || p[i] > '9')
			return false;
		v = v * 10 + (p[i] - '0');
	}
	*ret = v;
	return true;
}

bool http_date_parse(struct str s, int64_t *ret)
{
	static const char form[] = "Day, 00 Mon 0000 00:00:00 GMT";
	struct tm tm = { 0 }, read;
	unsigned month;
	time_t t;

	if (s.size != sizeof(form) - 1 || memcmp(s.p + 3, ", ", 2) != 0 || s.p[7] != ' ' || s.p[11] != ' ' ||
	    s.p[16] != ' ' || s.p[19] != ':' || s.p[22] != ':' || memcmp(s.p + 25, " GMT", 4) != 0)
		return false;
	for (month = 0; month < 12; month++)
		if (memcmp(s.p + 8, months[month], 3) == 0)
			break;
	if (month == 12 || !date_digits(s.p + 5, 2, &tm.tm_mday) || !date_digits(s.p + 12, 4, &tm.tm_year) ||
	    !date_digits(s.p + 17, 2, &tm.tm_hour) || !date_digits(s.p + 20, 2, &tm.tm_min) ||
	    !date_digits(s.p + 23, 2, &tm.tm_sec))
		return false;
	tm.tm_year -= 1900;
	tm.tm_mon = (int)month;
	read = tm;
	t = timegm(&tm);
	/* timegm() accepts a 30th of February and minute 61, and moves the date on. */
	if (tm.tm_mday != read.tm_mday || tm.tm_hour != read.tm_hour || tm.tm_min != read.tm_min ||
	    tm.tm_sec != read.tm_sec)
		return false;
	*ret = t;
	return true;
}

/* Without the "W/" of a weak tag. */
static struct str etag_opaque(struct str etag)
{
	return str_starts(etag, STR("W/")) ? (struct str){ etag.p + 2, etag.size - 2 } : etag;
}

bool cond_etag_in_list(struct str list, struct str etag)
{
	while (list.p) {
		struct str one = str_trim(str_cut(&list, ','));

		if (str_eq(one, STR("*")) || str_eq(etag_opaque(one), etag_opaque(etag)))
			return true;
	}
	return false;
}

static bool not_modified(const struct conditions *c, const struct content *content)
{
	int64_t since;

	if (c->if_none_match)
		return cond_etag_in_list(str_of(c->if_none_match), str_of(content->etag));
	return c->if_modified_since && content->modified[0] &&
	       http_date_parse(str_trim(str_of(c->if_modified_since)), &since) && content->mtime <= since;
}

/* The range applies only to the same content; strong comparison. */
static bool if_range_holds(const char *if_range, const struct content *content)
{
	struct str s = str_trim(str_of(if_range));

	return str_eq(s, str_of(content->etag)) ||
	       (content->modified[0] && str_eq(s, str_of(content->modified)));
}

enum range { RANGE_NONE, RANGE_ONE, RANGE_OUTSIDE };

/*
 * Several ranges at once are answered with the whole content, which RFC 9110 allows; no debugger sends
 * them.
 */
static enum range range_parse(struct str s, uint64_t size, uint64_t *ret_off, uint64_t *ret_size)
{
	uint64_t first = 0, last = 0;
	struct str head;

	s = str_trim(s);
	if (!str_starts(s, STR("bytes=")))
		return RANGE_NONE;
	s = (struct str){ s.p + 6, s.size - 6 };
	if (memchr(s.p, ',', s.size) || !memchr(s.p, '-', s.size))
		return RANGE_NONE;
	head = str_trim(str_cut(&s, '-'));
	s = str_trim(s);
	if (!head.size && !s.size)
		return RANGE_NONE;
	if ((head.size && !str_to_u64(head, &first)) || (s.size && !str_to_u64(s, &last)))
		return RANGE_NONE;
	if (!head.size) {
		if (!last || !size)
			return RANGE_OUTSIDE;
		*ret_size = MIN(last, size);
		*ret_off = size - *ret_size;
		return RANGE_ONE;
	}
	if (s.size && last < first)
		return RANGE_NONE;
	if (first >= size)
		return RANGE_OUTSIDE;
	*ret_off = first;
	*ret_size = s.size && last < size ? last - first + 1 : size - first;
	return RANGE_ONE;
}

struct verdict cond_judge(const struct conditions *c, const struct content *content)
{
	struct verdict v = { 200, 0, content->size };
	uint64_t max;

	/* elfutils' client sends no header for no limit; 0 means the same. */
	if (c->max_size && str_to_u64(str_trim(str_of(c->max_size)), &max) && max && content->size > max)
		return (struct verdict){ 406, 0, 0 };
	if (not_modified(c, content))
		return (struct verdict){ 304, 0, 0 };
	if (c->head || !c->range || (c->if_range && !if_range_holds(c->if_range, content)))
		return v;
	switch (range_parse(str_of(c->range), content->size, &v.off, &v.size)) {
	case RANGE_ONE:
		v.status = 206;
		return v;
	case RANGE_OUTSIDE:
		return (struct verdict){ 416, 0, 0 };
	case RANGE_NONE:
		break;
	}
	return v;
}
