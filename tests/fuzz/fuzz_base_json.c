/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON writer under any sequence of calls that nests well, with any bytes as keys and text. jansson, which
 * checks UTF-8, must read the result, and find the strings that are valid as they were.
 *
 * The first byte holds the writer's options and the length of the program; each byte of that is one call, whose
 * text is cut from the bytes after the program.
 */
#include "fuzz.h"

#include <jansson.h>
#include "base/base.h"
#include "base/json.h"

static bool is_utf8(struct str s)
{
	while (s.size) {
		size_t n = str_utf8(s, NULL);

		if (!n)
			return false;
		s = (struct str){ s.p + n, s.size - n };
	}
	return true;
}

static void check_string(const struct json_writer *options, struct str s)
{
	AUTO(buf_done) struct buf b = { 0 };
	struct json_writer w = *options;
	json_t *j;

	w.out = &b;
	json_put_str(&w, NULL, s);
	j = json_loadb((const char *)b.p, b.size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
	FUZZ_CHECK(json_is_string(j) && is_utf8(buf_str(&b)));
	if (is_utf8(s))
		FUZZ_CHECK(str_eq(s, (struct str){ json_string_value(j), json_string_length(j) }));
	for (size_t i = 0; options->for_html && i < b.size; i++)
		FUZZ_CHECK(!memchr("<>&", b.p[i], 3));
	json_decref(j);
}

static void step(struct json_writer *w, uint8_t op, struct str text)
{
	if (json_in_object(w) && !w->has_key && (op & 15) != 2)
		json_key(w, text);
	switch (op & 15) {
	case 0:
	case 1:
		if (w->depth < 20)
			(op & 1 ? json_open_object : json_open_array)(w, NULL);
		else
			json_put_null(w, NULL);
		break;
	case 2:
		if (w->depth > 1)
			json_close(w);
		break;
	case 3:
		json_put_int(w, NULL, INT64_MIN + op);
		break;
	case 4:
		json_put_double(w, NULL, op / 7.0);
		break;
	case 5:
		json_put_bool(w, NULL, op & 16);
		break;
	case 6:
		json_put_printf(w, NULL, "%.*s", (int)text.size, text.size ? text.p : "");
		break;
	default:
		json_put_str(w, NULL, text);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(buf_done) struct buf b = { 0 };
	struct json_writer w = { .out = &b };
	struct str text;
	json_error_t why;
	size_t n_ops;
	json_t *j;

	if (size < 2)
		return 0;
	n_ops = MIN((size_t)(data[0] & 31), size - 1);
	w.indent = data[0] & 32 ? 2 : 0;
	w.for_html = data[0] & 64;
	w.escape_slash = data[0] & 128;
	text = (struct str){ (const char *)data + 1 + n_ops, size - 1 - n_ops };
	check_string(&w, text);
	json_open_array(&w, NULL);
	for (size_t i = 0; i < n_ops; i++) {
		size_t n = MIN(text.size, (size_t)data[1 + i] >> 4);

		step(&w, data[1 + i], (struct str){ text.p, n });
		text = (struct str){ text.p + n, text.size - n };
	}
	while (w.depth)
		json_close(&w);
	FUZZ_CHECK(is_utf8(buf_str(&b)));
	/* jansson has no keys with a NUL. */
	j = json_loadb((const char *)b.p, b.size, JSON_ALLOW_NUL, &why);
	FUZZ_CHECK(j || json_error_code(&why) == json_error_null_byte_in_key);
	json_decref(j);
	return 0;
}
