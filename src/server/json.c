/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading JSON within limits.
 */
#include "server/json.h"

json_t *json_load_any(struct bytes body, struct err *err)
{
	json_error_t why;
	json_t *all;

	if (!body.size) {
		(void)err_set(err, ERR_INVALID, "not JSON: the body is empty");
		return NULL;
	}
	all = json_loadb((const char *)body.p, body.size, JSON_REJECT_DUPLICATES, &why);
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
