/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pax extended headers (POSIX pax, "pax Extended Header"): records "LENGTH key=value\n", where LENGTH counts
 * the whole record. Keys other than those for name, link, size, time and sparse maps are ignored.
 */
#include "pkg/internal.h"

void pax_reset(struct pax *p)
{
	struct buf path = p->path, link = p->link, name = p->sparse_name;

	path.size = link.size = name.size = 0;
	*p = (struct pax){ .path = path, .link = link, .sparse_name = name };
}

void pax_done(struct pax *p)
{
	buf_done(&p->path);
	buf_done(&p->link);
	buf_done(&p->sparse_name);
}

static int take_name(struct str value, const char *what, bool *has, struct buf *out, struct err *err)
{
	if (value.size > PKG_MAX_NAME)
		return err_set(err, ERR_LIMIT, "%s of %zu bytes", what, value.size);
	out->size = 0;
	buf_add_str(out, value);
	*has = value.size > 0;
	return 0;
}

static int take_number(struct str value, const char *what, bool *has, uint64_t *out, struct err *err)
{
	*has = value.size > 0;
	if (*has && !str_to_u64(value, out))
		return err_set(err, ERR_INVALID, "%s is not a number", what);
	return 0;
}

/* "-12.5": whole seconds, rounded down. */
static int take_time(struct str value, bool *has, int64_t *out, struct err *err)
{
	bool negative = str_starts(value, STR("-")), fraction = false;
	struct str digits = negative ? (struct str){ value.p + 1, value.size - 1 } : value, whole;
	uint64_t seconds;

	*has = value.size > 0;
	if (!*has)
		return 0;
	whole = str_cut(&digits, '.');
	for (size_t i = 0; i < digits.size; i++) {
		if (digits.p[i] < '0' || digits.p[i] > '9')
			return err_set(err, ERR_INVALID, "mtime is not a number");
		fraction |= digits.p[i] != '0';
	}
	if (!str_to_u64(whole, &seconds) || seconds >= INT64_MAX)
		return err_set(err, ERR_INVALID, "mtime is not a number");
	*out = negative ? -(int64_t)seconds - (fraction ? 1 : 0) : (int64_t)seconds;
	return 0;
}

/* GNU tar's sparse formats 0.0 (offset and numbytes, repeated), 0.1 (map) and 1.0 (the map precedes the
 * content). */
static int take_sparse(struct pax *p, struct sparse *map, struct str key, struct str value, struct err *err)
{
	bool has = false;
	uint64_t n = 0;

	if (str_eq(key, STR("name")))
		return take_name(value, "GNU.sparse.name", &p->has_sparse_name, &p->sparse_name, err);
	if (str_eq(key, STR("map"))) {
		p->has_sparse_map = true;
		return sparse_parse_list(map, value, err);
	}
	if (take_number(value, "a GNU.sparse value", &has, &n, err) < 0)
		return -1;
	if (!has)
		return 0;
	if (str_eq(key, STR("major"))) {
		p->sparse_major = n;
	} else if (str_eq(key, STR("minor"))) {
		p->sparse_minor = n;
	} else if (str_eq(key, STR("size")) || str_eq(key, STR("realsize"))) {
		p->has_sparse_size = true;
		p->sparse_size = n;
	} else if (str_eq(key, STR("offset"))) {
		p->sparse_off = n;
	} else if (str_eq(key, STR("numbytes"))) {
		p->has_sparse_map = true;
		return sparse_add(map, p->sparse_off, n, err);
	}
	return 0;
}

static int take_record(struct pax *p, struct sparse *map, struct str key, struct str value, struct err *err)
{
	static const struct str gnu_sparse = { "GNU.sparse.", 11 };

	if (str_eq(key, STR("path")))
		return take_name(value, "path", &p->has_path, &p->path, err);
	if (str_eq(key, STR("linkpath")))
		return take_name(value, "linkpath", &p->has_link, &p->link, err);
	if (str_eq(key, STR("size")))
		return take_number(value, "size", &p->has_size, &p->size, err);
	if (str_eq(key, STR("mtime")))
		return take_time(value, &p->has_mtime, &p->mtime, err);
	if (str_starts(key, gnu_sparse))
		return take_sparse(p, map,
				   (struct str){ key.p + gnu_sparse.size, key.size - gnu_sparse.size }, value,
				   err);
	return 0;
}

int pax_parse(struct pax *p, struct sparse *map, struct bytes body, struct err *err)
{
	struct str rest = { (const char *)body.p, body.size };

	/* Some writers pad with zeros. */
	while (rest.size && rest.p[0]) {
		struct str record = rest, length_text = str_cut(&record, ' '), key;
		uint64_t length;

		if (!str_to_u64(length_text, &length) || length > rest.size || length < length_text.size + 3)
			return err_set(err, ERR_INVALID, "pax record at %zu: its length is wrong",
				       body.size - rest.size);
		record = (struct str){ rest.p + length_text.size + 1, (size_t)length - length_text.size - 1 };
		if (record.p[record.size - 1] != '\n')
			return err_set(err, ERR_INVALID, "pax record at %zu: does not end where it says",
				       body.size - rest.size);
		record.size--;
		key = str_cut(&record, '=');
		if (!record.p)
			return err_set(err, ERR_INVALID, "pax record at %zu: no value",
				       body.size - rest.size);
		if (take_record(p, map, key, record, err) < 0)
			return err_in(err, "pax record at %zu", body.size - rest.size);
		rest = (struct str){ rest.p + length, rest.size - (size_t)length };
	}
	return 0;
}
