/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON replies: making them out of names that may be any bytes, and reading the queries that ask for them.
 */
#include "server/json.h"

#include <stdlib.h>

#define MAX_VALUE 4096u

void json_add_string(struct buf *b, struct str s)
{
	const uint8_t *p = (const uint8_t *)s.p, *end = p + s.size;

	buf_add_char(b, '"');
	while (p < end) {
		const uint8_t *from = p;
		size_t n;

		while (p < end && *p >= ' ' && *p < 0x7f && *p != '"' && *p != '\\')
			p++;
		buf_add(b, from, (size_t)(p - from));
		if (p == end)
			break;
		if (*p == '"' || *p == '\\') {
			buf_add_char(b, '\\');
			buf_add_char(b, (char)*p++);
		} else if (*p < ' ' || *p == 0x7f) {
			buf_printf(b, "\\u%04x", *p++);
		} else if ((n = str_utf8((struct str){ (const char *)p, (size_t)(end - p) }, NULL))) {
			buf_add(b, p, n);
			p += n;
		} else {
			buf_add_str(b, STR("\\ufffd"));
			p++;
		}
	}
	buf_add_char(b, '"');
}

json_t *json_number(uint64_t n)
{
	return json_integer((json_int_t)n);
}

json_t *json_lossy(struct str s)
{
	json_t *j = json_stringn(s.p, s.size);
	AUTO(buf_done) struct buf clean = { 0 };

	if (j)
		return j;
	for (size_t i = 0; i < s.size;) {
		size_t n = 1;

		/* The longest valid character from here on. */
		for (size_t len = 4; len >= 1; len--) {
			json_t *one = len <= s.size - i ? json_stringn(s.p + i, len) : NULL;

			if (one && json_string_length(one) == len &&
			    ((unsigned char)s.p[i] >= 0x80 || len == 1)) {
				buf_add(&clean, s.p + i, len);
				n = len;
				json_decref(one);
				goto next;
			}
			json_decref(one);
		}
		buf_add_str(&clean, STR("\xef\xbf\xbd"));
	next:
		i += n;
	}
	return json_stringn((const char *)clean.p, clean.size);
}

/* Two bytes, "[]", make a list of a hundred: they are counted before any is made. */
json_t *json_load_bytes(struct bytes body, size_t max_lists, size_t max_values, struct err *err)
{
	size_t n_lists = 0, n_values = 0;
	json_error_t why;
	json_t *all;

	for (size_t i = 0; i < body.size; i++) {
		n_lists += body.p[i] == '[' || body.p[i] == '{';
		n_values += body.p[i] == ',';
	}
	if (n_lists > max_lists || n_values > max_values) {
		(void)err_set(err, ERR_LIMIT,
			      "more than %zu lists and objects, or %zu values: ask in several", max_lists,
			      max_values);
		return NULL;
	}
	all = json_loadb((const char *)body.p, body.size, JSON_REJECT_DUPLICATES, &why);
	if (!all)
		(void)err_set(err, ERR_INVALID, "no JSON: line %d: %s", why.line, why.text);
	return all;
}

void json_reply(struct request *req, json_t *all)
{
	char *text = json_dumps(all, JSON_COMPACT | JSON_ESCAPE_SLASH);
	struct buf body = { .p = (uint8_t *)text, .size = strlen(text), .room = strlen(text) };

	json_decref(all);
	req->bytes = body.size;
	req->status = 200;
	req->result = "made";
	req->reply = reply_body(req->s, &body, "application/json", true);
}

void json_refuse(struct request *req, unsigned status, const char *text)
{
	req->status = status;
	req->bytes = strlen(text);
	req->result = "error";
	req->reply = reply_text(req->s, status, str_of(text));
}

int json_arg(struct request *req, const char *name, struct str *ret)
{
	const char *raw = http_arg(req->conn, name);
	char *room;

	*ret = (struct str){ "", 0 };
	if (!raw)
		return 0;
	room = arena_alloc(&req->arena, strlen(raw) + 1);
	ret->p = room;
	if (strlen(raw) <= MAX_VALUE * 3 && route_unescape(str_of(raw), room, &ret->size) &&
	    ret->size <= MAX_VALUE)
		return 0;
	json_refuse(req, 400, "a broken %-escape, or too long\n");
	return -1;
}
