/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON, written straight into a buffer: an answer may have a million numbers.
 */
#include "server/json.h"
#include "server/profiles/profiles.h"

void api_add_int(struct buf *b, int64_t v)
{
	uint64_t n = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
	char digits[24], *p = digits + sizeof(digits);

	do
		*--p = (char)('0' + n % 10);
	while (n /= 10);
	if (v < 0)
		*--p = '-';
	buf_add(b, p, (size_t)(digits + sizeof(digits) - p));
}

void api_add_key(struct buf *b, const char *name)
{
	char before = b->size ? (char)b->p[b->size - 1] : '{';

	if (before != '{')
		buf_add_char(b, ',');
	buf_add_char(b, '"');
	buf_add_str(b, str_of(name));
	buf_add_str(b, STR("\":"));
}

void api_add_int_of(struct buf *b, const char *name, int64_t v)
{
	api_add_key(b, name);
	api_add_int(b, v);
}

void api_add_str_of(struct buf *b, const char *name, struct str s)
{
	api_add_key(b, name);
	json_add_string(b, s);
}

void api_add_labels(struct buf *b, const struct profilestore_label *labels, size_t n)
{
	api_add_key(b, "labels");
	buf_add_char(b, '{');
	for (size_t i = 0; i < n; i++) {
		if (i)
			buf_add_char(b, ',');
		json_add_string(b, labels[i].name);
		buf_add_char(b, ':');
		json_add_string(b, labels[i].value);
	}
	buf_add_char(b, '}');
}
