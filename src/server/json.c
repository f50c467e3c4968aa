/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading JSON within limits.
 */
#include "server/json.h"

#include <limits.h>
#include <string.h>

#define VALUE_SIZE 48u /* of a value, in the library's tree */

/*
 * Copy @body, with quotes around numbers that may be beyond 64-bit signed integers and doubles. jansson would refuse the
 * whole text for one of them; an address of a kernel is one.
 */
static void quote_long_numbers(struct bytes body, struct buf *out)
{
	bool in_string = false;

	for (size_t i = 0; i < body.size;) {
		const char *at = (const char *)body.p + i;
		size_t n = 0;

		while (!in_string && i + n < body.size && at[n] && strchr("+-.0123456789eE", at[n]))
			n++;
		/* true and false have an e, but begin with another letter. */
		if (n > 18 || (n > 2 && (memchr(at, 'e', n) || memchr(at, 'E', n)))) {
			buf_printf(out, "\"%.*s\"", (int)MIN(n, (size_t)INT_MAX), at);
			i += n;
			continue;
		}
		n = n ? n : 1;
		if (in_string && *at == '\\' && i + 1 < body.size)
			n = 2;
		else if (*at == '"')
			in_string = !in_string;
		buf_add(out, at, n);
		i += n;
	}
}

static json_t *load_quoted(struct bytes body, json_error_t *ret_why)
{
	AUTO(buf_done) struct buf quoted = { 0 };

	quote_long_numbers(body, &quoted);
	return json_loadb((const char *)quoted.p, quoted.size, JSON_REJECT_DUPLICATES, ret_why);
}

uint64_t json_tree_size(struct bytes body)
{
	uint64_t n = 1;

	for (size_t i = 0; i < body.size; i++)
		n += body.p[i] == ',' || body.p[i] == '[' || body.p[i] == '{';
	return body.size + n * VALUE_SIZE;
}

json_t *json_load_any(struct bytes body, struct err *err)
{
	json_error_t why;
	json_t *all;

	if (!body.size) {
		(void)err_set(err, ERR_INVALID, "not JSON: the body is empty");
		return NULL;
	}
	all = json_loadb((const char *)body.p, body.size, JSON_REJECT_DUPLICATES, &why);
	if (!all && json_error_code(&why) == json_error_numeric_overflow)
		all = load_quoted(body, &why);
	if (!all)
		(void)err_set(err, ERR_INVALID, "not JSON: line %d: %s", why.line, why.text);
	return all;
}

/* Two bytes, "[]", make a list of a hundred: they are counted before any is made. */
json_t *json_load_bytes(struct bytes body, size_t max_lists, size_t max_values, struct err *err)
{
	size_t n_lists = 0, n_values = 0;

	for (size_t i = 0; i < body.size; i++) {
		n_lists += body.p[i] == '[' || body.p[i] == '{';
		n_values += body.p[i] == ',';
	}
	if (n_lists > max_lists || n_values > max_values) {
		(void)err_set(err, ERR_LIMIT,
			      "more than %zu lists and objects, or %zu values: send several requests",
			      max_lists, max_values);
		return NULL;
	}
	return json_load_any(body, err);
}
