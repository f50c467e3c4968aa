/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of a client's files in JSON, parsed: see want.c.
 */
#include <jansson.h>
#include "server/json.h"
#include "server/push/push.h"

static struct str entry_text(const json_t *one, const char *name)
{
	const json_t *j = json_object_get(one, name);

	return json_is_string(j) ? (struct str){ json_string_value(j), json_string_length(j) } : STR("");
}

static bool quality_parse(struct str s, enum store_quality *ret)
{
	*ret = STORE_DWARF;
	if (!s.size)
		return true;
	for (unsigned i = 0; i < STORE_N_QUALITIES; i++) {
		if (str_eq(s, str_of(store_quality_name((enum store_quality)i)))) {
			*ret = (enum store_quality)i;
			return true;
		}
	}
	return false;
}

static int entry_parse(const json_t *one, struct push_request *ret, enum store_quality *ret_quality,
		       struct err *err)
{
	const json_t *size = json_object_get(one, "size");
	struct str sha256 = entry_text(one, "sha256");
	struct push_request pr = { 0 };
	size_t n;

	if (!build_id_parse(&pr.key.id, entry_text(one, "id")))
		return err_set(err, ERR_INVALID, "'id' is not a build ID");
	if (!store_kind_parse(entry_text(one, "kind"), &pr.key.kind))
		return err_set(err, ERR_INVALID, "'kind' must be one of debuginfo, executable, sources");
	if (!json_is_integer(size) || json_integer_value(size) < 0)
		return err_set(err, ERR_INVALID, "'size' is not a number");
	if (!hex_decode(sha256, false, pr.sha256, sizeof(pr.sha256), &n) || n != sizeof(pr.sha256))
		return err_set(err, ERR_INVALID, "'sha256' is not a SHA-256");
	if (!quality_parse(entry_text(one, "quality"), ret_quality))
		return err_set(err, ERR_INVALID, "'quality' must be one of dwarf, symtab, stripped, dynsym");
	pr.has_sha256 = true;
	pr.total = (uint64_t)json_integer_value(size);
	*ret = pr;
	return 0;
}

int want_parse(struct bytes body,
	       int (*fn)(void *arg, const struct push_request *pr, enum store_quality quality), void *arg,
	       struct err *err)
{
	json_t *all = json_load_any(body, err), *list, *one;
	int r = 0;
	size_t i;

	if (!all)
		return -1;
	list = json_object_get(all, "objects");
	if (!json_is_array(list))
		r = err_set(err, ERR_INVALID, "no list 'objects'");
	else if (json_array_size(list) > PUSH_WANT_ENTRIES)
		r = err_set(err, ERR_LIMIT, "more than %u objects: send several lists", PUSH_WANT_ENTRIES);
	json_array_foreach(list, i, one)
	{
		enum store_quality quality;
		struct push_request pr;

		if (r)
			break;
		r = entry_parse(one, &pr, &quality, err);
		if (r < 0)
			(void)err_in(err, "object %zu", i);
		else
			r = fn(arg, &pr, quality);
	}
	json_decref(all);
	return r;
}
