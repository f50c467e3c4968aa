/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditional and range requests, compared with a slow model of RFC 9110, sections 13 and 14, that decides
 * for every single byte. The input is the size of the content (1 byte; up to 255) and flags (1 byte), then
 * the headers, one per line: Range, If-Range, If-None-Match, If-Modified-Since, X-DEBUGINFOD-MAXSIZE.
 */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>
#include "http/cond.h"

enum { HEAD = 1, NO_MTIME = 2 };
enum { RANGE, IF_RANGE, IF_NONE_MATCH, IF_MODIFIED_SINCE, MAX_SIZE, N_HEADERS };

static const char blanks[] = " \t\r\n";

/* A copy without leading and trailing blanks. */
static char *trimmed(const char *s, size_t n)
{
	while (n && strchr(blanks, s[n - 1]))
		n--;
	while (n && strchr(blanks, *s)) {
		s++;
		n--;
	}
	return mem_strndup(s, n);
}

static bool is_digits(const char *s)
{
	return *s && strspn(s, "0123456789") == strlen(s);
}

/* Numbers of any length, as text: below 0, 0, above 0. */
static int compare(const char *a, const char *b)
{
	a += strspn(a, "0");
	b += strspn(b, "0");
	if (strlen(a) != strlen(b))
		return strlen(a) < strlen(b) ? -1 : 1;
	return strcmp(a, b);
}

static bool fits_u64(const char *s)
{
	return compare(s, "18446744073709551615") <= 0;
}

static bool wanted(const char *first, const char *last, unsigned i, unsigned size)
{
	char at[16], left[16];

	snprintf(at, sizeof(at), "%u", i);
	snprintf(left, sizeof(left), "%u", size - i);
	if (!*first)
		return compare(left, last) <= 0;
	return compare(at, first) >= 0 && (!*last || compare(at, last) <= 0);
}

/* 200: as if there was no Range. */
static struct verdict model_range(const char *range, unsigned size)
{
	struct verdict v = { 200, 0, size };
	AUTO(mem_freep) char *all = trimmed(range, strlen(range)), *first = NULL, *last = NULL;
	const char *dash;

	if (strncmp(all, "bytes=", 6) != 0 || strchr(all, ','))
		return v;
	dash = strchr(all + 6, '-');
	if (!dash)
		return v;
	first = trimmed(all + 6, (size_t)(dash - all - 6));
	last = trimmed(dash + 1, strlen(dash + 1));
	if ((*first && !is_digits(first)) || (*last && !is_digits(last)) || (!*first && !*last))
		return v;
	if (!fits_u64(first) || !fits_u64(last) || (*first && *last && compare(last, first) < 0))
		return v;
	v = (struct verdict){ 416, 0, 0 };
	for (unsigned i = 0; i < size; i++) {
		if (!wanted(first, last, i, size))
			continue;
		if (!v.size++)
			v.off = i;
		v.status = 206;
	}
	return v;
}

static bool model_has_tag(const char *list, const char *etag)
{
	AUTO(mem_freep) char *copy = mem_strdup(list);
	char *rest = copy, *one;
	bool has = false;

	while ((one = strsep(&rest, ","))) {
		AUTO(mem_freep) char *tag = trimmed(one, strlen(one));

		has |= strcmp(tag, "*") == 0 || strcmp(strncmp(tag, "W/", 2) == 0 ? tag + 2 : tag, etag) == 0;
	}
	return has;
}

static bool model_if_range(const char *if_range, const struct content *c)
{
	AUTO(mem_freep) char *s = trimmed(if_range, strlen(if_range));

	return strcmp(s, c->etag) == 0 || (c->modified[0] && strcmp(s, c->modified) == 0);
}

/* Every date has one form only, but for the name of the day. */
static bool model_not_since(const char *since, const struct content *c)
{
	AUTO(mem_freep) char *s = trimmed(since, strlen(since));
	char again[HTTP_DATE_SIZE];
	int64_t at = 0;
	bool is_date = http_date_parse(str_of(s), &at);

	if (is_date) {
		http_date(at, again);
		FUZZ_CHECK(strcmp(again + 3, s + 3) == 0);
	}
	return is_date && c->modified[0] && c->mtime <= at;
}

static struct verdict model(const struct conditions *c, const struct content *content)
{
	struct verdict whole = { 200, 0, content->size };

	if (c->max_size) {
		AUTO(mem_freep) char *max = trimmed(c->max_size, strlen(c->max_size));
		char size[16];

		snprintf(size, sizeof(size), "%u", (unsigned)content->size);
		if (is_digits(max) && fits_u64(max) && compare(max, "0") != 0 && compare(size, max) > 0)
			return (struct verdict){ 406, 0, 0 };
	}
	if (c->if_none_match ? model_has_tag(c->if_none_match, content->etag)
			     : c->if_modified_since && model_not_since(c->if_modified_since, content))
		return (struct verdict){ 304, 0, 0 };
	if (c->head || !c->range || (c->if_range && !model_if_range(c->if_range, content)))
		return whole;
	return model_range(c->range, (unsigned)content->size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct content content = { .etag = "\"00112233445566ff\"" };
	struct conditions c = { 0 };
	const char **headers[N_HEADERS] = { &c.range, &c.if_range, &c.if_none_match, &c.if_modified_since,
					    &c.max_size };
	AUTO(mem_freep) char *text = NULL;
	struct verdict got, want;
	char *rest;

	if (size < 2)
		return 0;
	content.size = data[0];
	c.head = data[1] & HEAD;
	if (!(data[1] & NO_MTIME)) {
		content.mtime = 1700000000;
		http_date(content.mtime, content.modified);
	}
	rest = text = mem_strndup((const char *)data + 2, size - 2);
	for (size_t i = 0; i < N_HEADERS && rest; i++) {
		const char *line = strsep(&rest, "\n");

		/* An empty line: the request has no such header; one blank: an empty one. */
		*headers[i] = *line ? line : NULL;
	}
	got = cond_judge(&c, &content);
	want = model(&c, &content);
	FUZZ_CHECK(got.status == want.status && got.off == want.off && got.size == want.size);
	if (got.status == 200 || got.status == 206)
		FUZZ_CHECK(got.off <= content.size && got.size <= content.size - got.off);
	return 0;
}
