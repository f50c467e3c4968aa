/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ar, the outer format of Debian packages: "!<arch>\n", then per member 60 bytes of text and the content,
 * padded to even.
 *
 * Names are in dpkg's form (padded with blanks), in GNU's (ended by "/", long ones in a table "//") or in
 * BSD's (long ones as "#1/N", at the start of the content).
 */
#include "pkg/internal.h"

#define AR_MAGIC       STR("!<arch>\n")
#define HEADER_SIZE    60
#define LONG_NAMES_MAX MIB(4)

bool ar_detect(struct bytes head)
{
	return head.size >= AR_MAGIC.size && memcmp(head.p, AR_MAGIC.p, AR_MAGIC.size) == 0;
}

void ar_init(struct ar *ar, struct source *src, struct arena *a)
{
	*ar = (struct ar){ .src = src, .a = a, .pos = AR_MAGIC.size };
}

static struct str ar_field(const char *p, size_t n)
{
	return str_trim((struct str){ p, n });
}

/* "/123": the name at 123 in the table, up to "/\n" (GNU) or a NUL (others). */
static int ar_long_name(const struct ar *ar, uint64_t at, struct str *ret, struct err *err)
{
	struct str rest;

	if (at >= ar->long_names.size)
		return err_set(err, ERR_INVALID,
			       "the offset of its name is outside of the table of long names");
	/* Many members may have the same place in a table without an end of a name: not all of it is searched for each. */
	rest = (struct str){ ar->long_names.p + at,
			     MIN(ar->long_names.size - (size_t)at, (size_t)PKG_MAX_NAME + 2) };
	*ret = str_until_nul(str_cut(&rest, '\n'));
	if (str_ends(*ret, STR("/")))
		ret->size--;
	if (ret->size > PKG_MAX_NAME)
		return err_set(err, ERR_LIMIT, "a name of more than %zu bytes", PKG_MAX_NAME);
	return 0;
}

static int ar_resolve_name(struct ar *ar, struct str name, struct ar_member *m, struct err *err)
{
	struct bytes text;
	uint64_t n;

	if (str_starts(name, STR("#1/")) && str_to_u64((struct str){ name.p + 3, name.size - 3 }, &n)) {
		if (n > m->size)
			return err_set(err, ERR_INVALID, "its name is longer than the member");
		if (source_read_arena(ar->src, range_of(m->off, n), PKG_MAX_NAME, ar->a, &text, err) < 0)
			return -1;
		m->off += n;
		m->size -= n;
		m->name = str_until_nul((struct str){ (const char *)text.p, text.size });
		return 0;
	}
	if (name.size > 1 && name.p[0] == '/' && str_to_u64((struct str){ name.p + 1, name.size - 1 }, &n))
		return ar_long_name(ar, n, &m->name, err);
	/* "/" and "//" are complete names. */
	if (name.size > 1 && str_ends(name, STR("/")) && !str_eq(name, STR("//")))
		name.size--;
	m->name = arena_str(ar->a, name);
	return 0;
}

int ar_next(struct ar *ar, struct ar_member *ret, struct err *err)
{
	struct ar_member m = { 0 };
	char h[HEADER_SIZE];
	struct bytes table;
	uint64_t header_off = ar->pos, size;

	for (;;) {
		if (ar->pos >= ar->src->size)
			return AR_END;
		header_off = ar->pos;
		if (source_read_full(ar->src, ar->pos, h, sizeof(h), SOURCE_RANDOM, err) < 0)
			return err_in(err, "ar member header");
		if (h[58] != '`' || h[59] != '\n')
			return err_set(err, ERR_INVALID, "no ar member header at %llu",
				       (unsigned long long)ar->pos);
		if (!str_to_u64(ar_field(h + 48, 10), &size))
			return err_set(err, ERR_INVALID, "the ar member at %llu has an invalid size",
				       (unsigned long long)header_off);
		m.off = ar->pos + HEADER_SIZE;
		m.size = size;
		if (size > ar->src->size - m.off)
			return err_set(
				err, ERR_INVALID,
				"the ar member at %llu has %llu bytes, but the file ends after %llu of them",
				(unsigned long long)header_off, (unsigned long long)size,
				(unsigned long long)(ar->src->size - m.off));
		ar->pos = m.off + size + (size & 1);
		if (ar_resolve_name(ar, ar_field(h, 16), &m, err) < 0)
			return err_in(err, "the ar member at %llu", (unsigned long long)header_off);
		if (!str_eq(m.name, STR("//")))
			break;
		if (source_read_arena(ar->src, range_of(m.off, size), LONG_NAMES_MAX, ar->a, &table, err) < 0)
			return err_in(err, "table of long names");
		ar->long_names = (struct str){ (const char *)table.p, table.size };
	}
	*ret = m;
	return 0;
}
