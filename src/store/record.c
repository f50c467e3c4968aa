/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records as text: lines "name: value", the last of them a sum of all before it. As text they can be read
 * with a pager. Control characters, '%' and bytes over 126 are written as %XX.
 *
 * Unknown names are skipped: a later version may add some. A missing value is zero, except for those that no
 * object can do without.
 */
#include "store/internal.h"

#include <assert.h>
#include <stdio.h>

#define FIRST_LINE "lode object 1\n"
#define LAST_NAME  "sum: "
#define SUM_LINE   (sizeof(LAST_NAME) - 1 + 16 + 1)

static_assert(BUILD_ID_HEX_SIZE > 2 * STORE_SHA256_SIZE, "one room for both");

/* ---- writing ---- */

static void record_put_text(struct buf *b, const char *name, struct str s)
{
	if (!s.size)
		return;
	buf_printf(b, "%s: ", name);
	for (size_t i = 0; i < s.size; i++) {
		unsigned char c = (unsigned char)s.p[i];

		if (c < ' ' || c > 126 || c == '%')
			buf_printf(b, "%%%02x", c);
		else
			buf_add_char(b, (char)c);
	}
	buf_add_char(b, '\n');
}

static void record_put_number(struct buf *b, const char *name, int64_t v)
{
	if (v)
		buf_printf(b, "%s: %lld\n", name, (long long)v);
}

static void record_put_id(struct buf *b, const char *name, const struct build_id *id)
{
	char hex[BUILD_ID_HEX_SIZE];

	if (id->size)
		buf_printf(b, "%s: %s\n", name, build_id_hex(id, hex));
}

bool store_meta_add_hash(struct store_meta *m, const struct build_id *hash)
{
	for (size_t i = 0; hash->size && i < STORE_MAX_HASHES; i++) {
		if (build_id_eq(&m->hashes[i], hash))
			return false;
		if (m->hashes[i].size)
			continue;
		m->hashes[i] = *hash;
		return true;
	}
	return false;
}

void store_record_write(const struct store_key *key, const struct store_meta *meta, struct buf *ret)
{
	char hex[BUILD_ID_HEX_SIZE];
	size_t start = ret->size;

	buf_add_str(ret, STR(FIRST_LINE));
	buf_printf(ret, "build-id: %s\n", build_id_hex(&key->id, hex));
	buf_printf(ret, "kind: %s\n", store_kind_name(key->kind));
	record_put_text(ret, "arg", key->arg);
	buf_printf(ret, "sha256: %s\n", hex_encode(bytes_of(meta->sha256, STORE_SHA256_SIZE), hex));
	buf_printf(ret, "size: %llu\n", (unsigned long long)meta->size);
	buf_printf(ret, "stored-size: %llu\n", (unsigned long long)meta->stored_size);
	buf_printf(ret, "form: %s\n", meta->raw ? "raw" : "zstd");
	if (meta->later)
		buf_add_str(ret, STR("becomes: zstd\n"));
	buf_printf(ret, "origin: %s\n", store_origin_name(meta->origin));
	buf_printf(ret, "quality: %s\n", store_quality_name(meta->quality));
	record_put_number(ret, "created", meta->created);
	record_put_number(ret, "mtime", meta->mtime);
	record_put_text(ret, "from", meta->from);
	record_put_text(ret, "owner", meta->owner);
	record_put_text(ret, "address", meta->address);
	record_put_id(ret, "go-build-id", &meta->go);
	for (size_t i = 0; i < STORE_MAX_HASHES; i++)
		record_put_id(ret, "htlhash", &meta->hashes[i]);
	record_put_text(ret, "file", meta->file);
	record_put_text(ret, "archive", meta->archive);
	record_put_text(ret, "lacks", meta->lacks);
	record_put_number(ret, "replaced", meta->replaced);
	record_put_text(ret, "replaced-by", meta->replaced_by);
	buf_printf(ret, LAST_NAME "%016llx\n",
		   (unsigned long long)hash64(ret->p + start, ret->size - start, 0));
}

/* ---- reading ---- */

struct reading {
	struct arena *a;
	struct store_key *key;
	struct store_meta *meta;
	bool has_sha256, has_kind, has_size, has_form;
};

static bool get_text(struct reading *r, struct str v, struct str *ret)
{
	char *out = arena_alloc(r->a, v.size + 1);
	size_t n;

	if (!hex_unescape(v, false, out, &n))
		return false;
	out[n] = '\0';
	*ret = (struct str){ out, n };
	return true;
}

static bool get_number(struct str v, int64_t *ret)
{
	bool minus = v.size && v.p[0] == '-';
	uint64_t n;

	if (minus)
		v = (struct str){ v.p + 1, v.size - 1 };
	if (!str_to_u64(v, &n) || n > INT64_MAX)
		return false;
	*ret = minus ? -(int64_t)n : (int64_t)n;
	return true;
}

/* The index of @v in @names. */
static bool get_word(struct str v, const char *(*name)(unsigned i), unsigned n, unsigned *ret)
{
	for (unsigned i = 0; i < n; i++) {
		if (str_eq(v, str_of(name(i)))) {
			*ret = i;
			return true;
		}
	}
	return false;
}

static const char *origin_name(unsigned i)
{
	return store_origin_name((enum store_origin)i);
}

static const char *quality_name(unsigned i)
{
	return store_quality_name((enum store_quality)i);
}

static bool get_id(struct reading *r, struct str v)
{
	return build_id_parse(&r->key->id, v);
}

static bool get_kind(struct reading *r, struct str v)
{
	r->has_kind = store_kind_parse(v, &r->key->kind);
	return r->has_kind;
}

static bool get_arg(struct reading *r, struct str v)
{
	return get_text(r, v, &r->key->arg) && r->key->arg.size <= STORE_MAX_ARG;
}

static bool get_sha256(struct reading *r, struct str v)
{
	size_t n;

	r->has_sha256 = hex_decode(v, false, r->meta->sha256, STORE_SHA256_SIZE, &n) &&
			n == STORE_SHA256_SIZE;
	return r->has_sha256;
}

static bool get_size(struct reading *r, struct str v)
{
	r->has_size = str_to_u64(v, &r->meta->size);
	return r->has_size;
}

static bool get_stored_size(struct reading *r, struct str v)
{
	return str_to_u64(v, &r->meta->stored_size);
}

static bool get_form(struct reading *r, struct str v)
{
	r->meta->raw = str_eq(v, STR("raw"));
	r->has_form = r->meta->raw || str_eq(v, STR("zstd"));
	return r->has_form;
}

static bool get_becomes(struct reading *r, struct str v)
{
	r->meta->later = str_eq(v, STR("zstd"));
	return r->meta->later;
}

static bool get_origin(struct reading *r, struct str v)
{
	unsigned i;

	if (!get_word(v, origin_name, STORE_N_ORIGINS, &i))
		return false;
	r->meta->origin = (enum store_origin)i;
	return true;
}

static bool get_quality(struct reading *r, struct str v)
{
	unsigned i;

	if (!get_word(v, quality_name, STORE_N_QUALITIES, &i))
		return false;
	r->meta->quality = (enum store_quality)i;
	return true;
}

static bool get_created(struct reading *r, struct str v)
{
	return get_number(v, &r->meta->created);
}

static bool get_mtime(struct reading *r, struct str v)
{
	return get_number(v, &r->meta->mtime);
}

static bool get_from(struct reading *r, struct str v)
{
	return get_text(r, v, &r->meta->from);
}

static bool get_address(struct reading *r, struct str v)
{
	return get_text(r, v, &r->meta->address);
}

static bool get_file(struct reading *r, struct str v)
{
	return get_text(r, v, &r->meta->file);
}

static bool get_archive(struct reading *r, struct str v)
{
	return get_text(r, v, &r->meta->archive);
}

static bool get_lacks(struct reading *r, struct str v)
{
	return get_text(r, v, &r->meta->lacks);
}

static bool get_owner(struct reading *r, struct str v)
{
	return get_text(r, v, &r->meta->owner);
}

static bool get_go(struct reading *r, struct str v)
{
	return build_id_parse(&r->meta->go, v);
}

/* A line for each; a later version may write more than we keep. */
static bool get_hash(struct reading *r, struct str v)
{
	struct build_id hash;

	if (!build_id_parse(&hash, v))
		return false;
	(void)store_meta_add_hash(r->meta, &hash);
	return true;
}

static bool get_replaced(struct reading *r, struct str v)
{
	return get_number(v, &r->meta->replaced);
}

static bool get_replaced_by(struct reading *r, struct str v)
{
	return get_text(r, v, &r->meta->replaced_by);
}

static const struct {
	const char *name;
	bool (*get)(struct reading *r, struct str v);
} rows[] = {
	{ "build-id", get_id },     { "kind", get_kind },         { "arg", get_arg },
	{ "sha256", get_sha256 },   { "size", get_size },         { "stored-size", get_stored_size },
	{ "form", get_form },       { "origin", get_origin },     { "quality", get_quality },
	{ "created", get_created }, { "mtime", get_mtime },       { "from", get_from },
	{ "address", get_address }, { "file", get_file },         { "archive", get_archive },
	{ "becomes", get_becomes }, { "owner", get_owner },       { "go-build-id", get_go },
	{ "htlhash", get_hash },    { "replaced", get_replaced }, { "replaced-by", get_replaced_by },
	{ "lacks", get_lacks },
};

static int get_line(struct reading *r, struct str line, struct err *err)
{
	struct str name = str_cut(&line, ':');

	if (!line.size || line.p[0] != ' ')
		return err_set(err, ERR_INVALID, "a line without a value");
	line = (struct str){ line.p + 1, line.size - 1 };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (!str_eq(name, str_of(rows[i].name)))
			continue;
		if (!rows[i].get(r, line))
			return err_set(err, ERR_INVALID, "%s: not a value for it", rows[i].name);
		return 0;
	}
	return 0;
}

/* Cut the last line off and check the sum in it. */
static int check_sum(struct str *s, struct err *err)
{
	char want[SUM_LINE + 1];
	struct str last;

	if (s->size < SUM_LINE || s->p[s->size - 1] != '\n')
		return err_set(err, ERR_INVALID, "cut off");
	last = (struct str){ s->p + s->size - SUM_LINE, SUM_LINE };
	s->size -= SUM_LINE;
	snprintf(want, sizeof(want), LAST_NAME "%016llx\n", (unsigned long long)hash64(s->p, s->size, 0));
	return str_eq(last, str_of(want)) ? 0
					  : err_set(err, ERR_INVALID, "cut off or damaged: the sum differs");
}

int store_record_read(struct bytes b, struct arena *a, struct store_key *ret_key, struct store_meta *ret,
		      struct err *err)
{
	struct str s = { (const char *)b.p, b.size };
	struct store_meta meta = { .quality = STORE_STRIPPED, .origin = STORE_FETCHED };
	struct store_key key = { 0 };
	struct reading r = { a, &key, &meta };

	if (s.size > STORE_MAX_RECORD)
		return err_set(err, ERR_LIMIT, "record: longer than %zu bytes", STORE_MAX_RECORD);
	if (!str_starts(s, STR(FIRST_LINE)))
		return err_set(err, ERR_INVALID, "record: not a record, or of a newer version");
	if (check_sum(&s, err) < 0)
		return err_in(err, "record");
	str_cut(&s, '\n');
	while (s.size)
		if (get_line(&r, str_cut(&s, '\n'), err) < 0)
			return err_in(err, "record");
	if (!key.id.size || !r.has_kind || !r.has_sha256 || !r.has_size || !r.has_form)
		return err_set(err, ERR_INVALID, "record: a needed field is missing");
	meta.later &= meta.raw;
	*ret_key = key;
	*ret = meta;
	return 0;
}

bool store_record_is_whole(struct str text)
{
	return str_starts(text, STR("lode object ")) && check_sum(&text, NULL) == 0;
}
