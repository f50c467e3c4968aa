/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The head of a reply, line by line. Any server may send anything: a value that is not valid counts as
 * absent.
 */
#include "net/internal.h"

#include <strings.h>
#include <time.h>

#define MAX_RETRY_S 86400
#define MAX_TYPE    200u
#define MAX_ETAG    200u
#define MAX_READING 200u

void head_init(struct head *h)
{
	*h = (struct head){ .retry_after_s = -1 };
}

void head_done(struct head *h)
{
	buf_done(&h->type);
	buf_done(&h->etag);
	buf_done(&h->lines);
	buf_done(&h->reading);
}

static bool head_digits(struct str s, size_t at, size_t n, unsigned *ret)
{
	unsigned v = 0;

	for (size_t i = at; i < at + n; i++) {
		if (s.p[i] < '0' || s.p[i] > '9')
			return false;
		v = v * 10 + (unsigned)(s.p[i] - '0');
	}
	*ret = v;
	return true;
}

/* Not strptime(), which depends on the locale. Of the three forms in RFC 9110 only the one that may be sent:
 * "Sun, 06 Nov 1994 08:49:37 GMT". */
bool net_date(struct str s, int64_t *ret)
{
	static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	struct tm tm = { 0 };
	unsigned day, year, hour, minute, second;

	if (s.size != 29 || memcmp(s.p + 3, ", ", 2) != 0 || memcmp(s.p + 25, " GMT", 4) != 0 ||
	    !head_digits(s, 5, 2, &day) || !head_digits(s, 12, 4, &year) || !head_digits(s, 17, 2, &hour) ||
	    !head_digits(s, 20, 2, &minute) || !head_digits(s, 23, 2, &second))
		return false;
	if (day < 1 || day > 31 || year < 1970 || hour > 23 || minute > 59 || second > 60)
		return false;
	for (tm.tm_mon = 0; tm.tm_mon < 12; tm.tm_mon++)
		if (memcmp(s.p + 8, months + (size_t)tm.tm_mon * 3, 3) == 0)
			break;
	if (tm.tm_mon == 12)
		return false;
	tm.tm_mday = (int)day;
	tm.tm_year = (int)year - 1900;
	tm.tm_hour = (int)hour;
	tm.tm_min = (int)minute;
	tm.tm_sec = (int)second;
	*ret = timegm(&tm);
	return true;
}

static void status_line(struct head *h, struct str line)
{
	struct head fresh = { .keep_all = h->keep_all, .n_read = h->n_read, .retry_after_s = -1 };
	unsigned status;

	head_done(h);
	*h = fresh;
	str_cut(&line, ' ');
	line = str_trim(line);
	if (line.size >= 3 && head_digits(line, 0, 3, &status))
		h->status = status;
}

static void retry_after(struct head *h, struct str value, int64_t now_wall_s)
{
	uint64_t seconds;
	int64_t at;

	if (str_to_u64(value, &seconds))
		h->retry_after_s = (int64_t)MIN(seconds, (uint64_t)MAX_RETRY_S);
	else if (net_date(value, &at))
		h->retry_after_s = MIN(MAX(at - now_wall_s, (int64_t)0), (int64_t)MAX_RETRY_S);
}

/* "bytes 5-9/10", "bytes 5-9/(star)" */
static void content_range(struct head *h, struct str value)
{
	struct str from, to;
	uint64_t first, last;

	if (!str_starts(value, STR("bytes ")))
		return;
	str_cut(&value, ' ');
	from = str_cut(&value, '-');
	to = str_cut(&value, '/');
	if (!str_to_u64(str_trim(from), &first) || !str_to_u64(str_trim(to), &last) || last < first)
		return;
	h->has_range = true;
	h->from = first;
	h->has_total = str_to_u64(str_trim(value), &h->total) && h->total > last;
}

static void head_keep(struct buf *to, struct str value, size_t max)
{
	to->size = 0;
	if (value.size <= max)
		buf_add_str(to, value);
}

/* Printable and one line each, so that they can be written into a file or a reply safely. */
static void keep_line(struct head *h, struct str name, struct str value)
{
	size_t from = h->lines.size;

	if (h->lines.size + name.size + value.size + 3 > NET_MAX_KEPT_HEAD)
		return;
	buf_add_str(&h->lines, name);
	buf_add_str(&h->lines, STR(": "));
	buf_add_str(&h->lines, value);
	for (size_t i = from; i < h->lines.size; i++)
		if (h->lines.p[i] < 0x20 || h->lines.p[i] == 0x7f)
			h->lines.p[i] = '?';
	buf_add_char(&h->lines, '\n');
}

static bool line_name_is(struct str name, const char *wanted)
{
	return name.size == strlen(wanted) && strncasecmp(name.p, wanted, name.size) == 0;
}

struct str net_header(struct str lines, const char *name)
{
	while (lines.size) {
		struct str value = str_cut(&lines, '\n'), key = str_cut(&value, ':');

		if (line_name_is(key, name))
			return str_trim(value);
	}
	return (struct str){ 0 };
}

static void unread_field(struct head *h, struct str value)
{
	h->unread = true;
	h->waits = str_eq(value, STR("waiting"));
}

/* It is shown on terminals, and passed on. */
static void reading_field(struct head *h, struct str value)
{
	head_keep(&h->reading, value, MAX_READING);
	for (size_t i = 0; i < h->reading.size; i++)
		if (h->reading.p[i] < ' ' || h->reading.p[i] >= 0x7f)
			h->reading.p[i] = '?';
}

static void head_field(struct head *h, struct str name, struct str value, int64_t now_wall_s)
{
	static const char ours[] = "X-DEBUGINFOD-";
	int64_t at;

	if (line_name_is(name, "Content-Length"))
		h->has_length = str_to_u64(value, &h->length);
	else if (line_name_is(name, "Content-Range"))
		content_range(h, value);
	else if (line_name_is(name, "Content-Type"))
		head_keep(&h->type, value, MAX_TYPE);
	else if (line_name_is(name, "Content-Encoding"))
		h->encoded = value.size && !line_name_is(value, "identity");
	else if (line_name_is(name, "ETag"))
		head_keep(&h->etag, value, MAX_ETAG);
	else if (line_name_is(name, "Last-Modified"))
		h->mtime = net_date(value, &at) ? at : 0;
	else if (line_name_is(name, "Retry-After"))
		retry_after(h, value, now_wall_s);
	else if (line_name_is(name, "X-LODE-UNREAD"))
		unread_field(h, value);
	else if (line_name_is(name, "X-LODE-READING"))
		reading_field(h, value);
	else if (line_name_is(name, "X-LODE-UNREADABLE"))
		h->unreadable = true;
	else if (line_name_is(name, "X-DEBUGINFOD-SIZE"))
		h->has_file_size = str_to_u64(value, &h->file_size);
	if (h->keep_all || (name.size > strlen(ours) && strncasecmp(name.p, ours, strlen(ours)) == 0))
		keep_line(h, name, value);
}

int head_line(struct head *h, struct str line, int64_t now_wall_s, struct err *err)
{
	struct str name;

	h->n_read += line.size;
	if (h->n_read > NET_MAX_REPLY_HEAD)
		return err_set(err, ERR_LIMIT, "its headers are longer than %zu KiB",
			       NET_MAX_REPLY_HEAD / 1024);
	if (str_starts(line, STR("HTTP/"))) {
		status_line(h, line);
		return 0;
	}
	if (!memchr(line.p, ':', line.size))
		return 0;
	name = str_cut(&line, ':');
	head_field(h, name, str_trim(line), now_wall_s);
	return 0;
}
