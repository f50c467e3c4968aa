/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The forms of Pyroscope's clients: names with labels, multipart bodies, lines.
 */
#include "server/intake/forms.h"

#include <string.h>
#include <strings.h>
#include "server/json.h"

#define MAX_BOUNDARY 70u /* RFC 2046, section 5.1.1 */
#define MAX_HEADERS  KIB(8)

/* ---- app{a=b} ---- */

static int form_add_label(struct profilestore_label *labels, size_t *n, struct str name, struct str value,
			  struct err *err)
{
	if (*n == PROFILESTORE_MAX_LABELS)
		return err_set(err, ERR_LIMIT, "'name' has more than %u labels", PROFILESTORE_MAX_LABELS);
	labels[(*n)++] = (struct profilestore_label){ name, value };
	return 0;
}

int form_app_split(struct str name, struct str *ret_app, struct str *ret_labels, struct err *err)
{
	struct str app = str_trim(str_cut(&name, '{'));

	if (!app.size)
		return err_set(err, ERR_INVALID, "'name' must be the name of the profiled program");
	if (name.p) {
		name = str_trim(name);
		if (!str_ends(name, STR("}")))
			return err_set(err, ERR_INVALID, "'name' has a { without its }");
		name.size--;
	}
	*ret_app = app;
	*ret_labels = name;
	return 0;
}

static bool has_label_named(const struct profilestore_label *labels, size_t n, struct str name)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq(labels[i].name, name) && labels[i].value.size)
			return true;
	return false;
}

int form_app_labels(struct str app, struct str in_braces,
		    struct profilestore_label labels[PROFILESTORE_MAX_LABELS], size_t *ret_n, struct err *err)
{
	struct str name = FORM_APP_LABEL;
	size_t n = 0;

	while (in_braces.size) {
		struct str value = str_cut(&in_braces, ','), key = str_trim(str_cut(&value, '='));

		if (!key.size && !value.p)
			continue;
		if (!value.p)
			return err_set(err, ERR_INVALID, "'name' has a label without a value");
		value = str_trim(value);
		/* Alloy makes one of the name, and a program may set it: it says more than the name. */
		if (str_eq(key, FORM_APP_LABEL) && value.size)
			name = str_eq(value, app) ? STR("") : STR("app_name");
		if (form_add_label(labels, &n, key, value, err) < 0)
			return -1;
	}
	if (name.size && !has_label_named(labels, n, name) && form_add_label(labels, &n, name, app, err) < 0)
		return -1;
	*ret_n = n;
	return 0;
}

/* ---- multipart/form-data ---- */

bool form_is_multipart(struct str content_type)
{
	struct str form = STR("multipart/form-data");

	return content_type.size >= form.size && strncasecmp(content_type.p, form.p, form.size) == 0;
}

/* The value of @name in "...; name=value; name=\"value\""; p NULL: there is none. */
static struct str header_parameter(struct str header, struct str name)
{
	while (header.p) {
		struct str value = str_trim(str_cut(&header, ';')), key = str_trim(str_cut(&value, '='));

		if (!value.p || key.size != name.size || strncasecmp(key.p, name.p, key.size) != 0)
			continue;
		value = str_trim(value);
		if (value.size >= 2 && value.p[0] == '"' && value.p[value.size - 1] == '"')
			value = (struct str){ value.p + 1, value.size - 2 };
		return value;
	}
	return (struct str){ 0 };
}

static struct str header_value(struct str headers, struct str name)
{
	while (headers.p) {
		struct str line = str_cut(&headers, '\n'), key = str_trim(str_cut(&line, ':'));

		if (line.p && key.size == name.size && strncasecmp(key.p, name.p, key.size) == 0)
			return str_trim(line);
	}
	return STR("");
}

/* Cut @rest after the next @mark: returns the bytes before it. p NULL: there is no @mark. */
static struct bytes bytes_cut_at(struct bytes *rest, struct str mark)
{
	const uint8_t *at = rest->size ? memmem(rest->p, rest->size, mark.p, mark.size) : NULL;
	struct bytes before = { rest->p, at ? (size_t)(at - rest->p) : 0 };

	if (!at)
		return (struct bytes){ 0 };
	*rest = bytes_of(at + mark.size, rest->size - before.size - mark.size);
	return before;
}

static int form_read_part(struct bytes *rest, struct str mark, struct form_part *ret, struct err *err)
{
	struct bytes headers = bytes_cut_at(rest, STR("\r\n\r\n")), data;
	struct str disposition, text = { (const char *)headers.p, headers.size };

	if (!headers.p || headers.size > MAX_HEADERS)
		return err_set(err, ERR_INVALID, "the end of its headers is missing");
	disposition = header_value(text, STR("Content-Disposition"));
	ret->name = header_parameter(disposition, STR("name"));
	if (!ret->name.p)
		return err_set(err, ERR_INVALID, "it has no name");
	data = bytes_cut_at(rest, mark);
	if (!data.p)
		return err_set(err, ERR_INVALID, "its end is missing");
	ret->data = data;
	return 0;
}

int form_multipart(struct str content_type, struct bytes body, struct form_part parts[FORM_MAX_PARTS],
		   size_t *ret_n, struct err *err)
{
	struct str boundary = header_parameter(content_type, STR("boundary"));
	char room[MAX_BOUNDARY + 4];
	struct str mark = { room, boundary.size + 4 };
	struct bytes rest = body;
	size_t n = 0;

	if (!boundary.size || boundary.size > MAX_BOUNDARY)
		return err_set(err, ERR_INVALID, "the Content-Type has no boundary");
	memcpy(room, "\r\n--", 4);
	memcpy(room + 4, boundary.p, boundary.size);
	/* The first boundary may be at the start, without the end of a line before it. */
	if (!bytes_cut_at(&rest, (struct str){ mark.p + 2, mark.size - 2 }).p && !rest.size)
		return err_set(err, ERR_INVALID, "the form is empty");
	while (rest.size < 2 || memcmp(rest.p, "--", 2) != 0) {
		if (n == FORM_MAX_PARTS)
			return err_set(err, ERR_LIMIT, "the form has more than %u parts", FORM_MAX_PARTS);
		if (form_read_part(&rest, mark, &parts[n], err) < 0)
			return err_in(err, "the form's part %zu", n);
		n++;
	}
	*ret_n = n;
	return 0;
}

/* ---- lines, times ---- */

void form_lines(struct bytes in, struct buf *out)
{
	struct str rest = { (const char *)in.p, in.size };

	while (rest.size && !buf_is_over(out)) {
		struct str line = str_trim(str_cut(&rest, '\n'));

		if (!line.size)
			continue;
		buf_add_str(out, line);
		buf_add_str(out, STR(" 1\n"));
	}
}

bool form_unix_ms(struct str s, int64_t *ret)
{
	uint64_t v;

	if (!str_to_u64(s, &v))
		return false;
	if (v < UINT64_C(100000000000))
		v *= 1000;
	else if (v >= UINT64_C(100000000000000000))
		v /= 1000000;
	else if (v >= UINT64_C(100000000000000))
		v /= 1000;
	*ret = (int64_t)v;
	return true;
}

/* ---- names of types ---- */

int form_type_names(struct bytes json, const struct profile *p, struct arena *a, struct str *ret,
		    struct err *err)
{
	json_t *all = json_load_bytes(json, 1000, 10000, err);

	if (!all)
		return err_in(err, "sample_type_config");
	if (!json_is_object(all)) {
		json_decref(all);
		return err_set(err, ERR_INVALID, "sample_type_config is not an object");
	}
	for (uint32_t i = 0; i < p->types.n; i++) {
		struct str type = profile_str(p, p->types.p[i].type);
		const json_t *name = json_object_get(json_object_getn(all, type.p, type.size),
						     "display-name");

		ret[i] = type;
		if (json_is_string(name) && json_string_length(name))
			ret[i] = arena_str(a,
					   (struct str){ json_string_value(name), json_string_length(name) });
	}
	json_decref(all);
	return 0;
}
