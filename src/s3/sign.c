/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AWS Signature Version 4, as "Authenticating Requests" of the S3 API reference describes it. HMAC (RFC 2104) is made of
 * base's SHA-256.
 */
#include "s3/sign.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "base/sha256.h"
#include "net/net.h"

#define ALGORITHM  "AWS4-HMAC-SHA256"
#define BLOCK_SIZE 64
#define DATE_SIZE  17 /* "20130524T000000Z", and a NUL */
#define DAY_SIZE   8

/* ---- hashes ---- */

static void hmac_parts(struct bytes key, const struct bytes *parts, size_t n, uint8_t ret[SHA256_SIZE])
{
	uint8_t block[BLOCK_SIZE] = { 0 }, hash[SHA256_SIZE];
	AUTO(buf_done) struct buf text = { 0 };

	if (key.size > BLOCK_SIZE)
		sha256_of(key, block);
	else if (key.size)
		memcpy(block, key.p, key.size);
	for (size_t i = 0; i < BLOCK_SIZE; i++)
		buf_add_char(&text, (char)(block[i] ^ 0x36));
	for (size_t i = 0; i < n; i++)
		buf_add(&text, parts[i].p, parts[i].size);
	sha256_of(buf_bytes(&text), hash);
	explicit_bzero(text.p, text.size);
	text.size = 0;
	for (size_t i = 0; i < BLOCK_SIZE; i++)
		buf_add_char(&text, (char)(block[i] ^ 0x5c));
	buf_add(&text, hash, sizeof(hash));
	sha256_of(buf_bytes(&text), ret);
	explicit_bzero(text.p, text.size);
	explicit_bzero(block, sizeof(block));
}

static void hmac_next(uint8_t key[SHA256_SIZE], struct str text)
{
	const struct bytes part = bytes_of(text.p, text.size);

	hmac_parts(bytes_of(key, SHA256_SIZE), &part, 1, key);
}

/* The key of a day, region and service. */
static void signing_key(const struct sign_request *r, struct str secret, struct str day,
			uint8_t ret[SHA256_SIZE])
{
	AUTO(buf_done) struct buf start = { 0 };
	const struct bytes part = bytes_of(day.p, day.size);

	buf_add_str(&start, STR("AWS4"));
	buf_add_str(&start, secret);
	hmac_parts(buf_bytes(&start), &part, 1, ret);
	explicit_bzero(start.p, start.size);
	hmac_next(ret, r->region);
	hmac_next(ret, r->service);
	hmac_next(ret, STR("aws4_request"));
}

/* ---- the canonical request ---- */

static void sign_date_text(int64_t time_s, char ret[DATE_SIZE])
{
	time_t t = (time_t)time_s;
	struct tm tm;

	memset(ret, 0, DATE_SIZE);
	if (gmtime_r(&t, &tm))
		strftime(ret, DATE_SIZE, "%Y%m%dT%H%M%SZ", &tm);
}

static void scope_text(const struct sign_request *r, struct str day, struct buf *out)
{
	buf_printf(out, STR_FMT "/" STR_FMT "/" STR_FMT "/aws4_request", STR_ARG(day), STR_ARG(r->region),
		   STR_ARG(r->service));
}

static int fields_compare(const void *x, const void *y)
{
	const struct sign_field *a = x, *b = y;
	int r = str_cmp(a->name, b->name);

	return r ? r : str_cmp(a->value, b->value);
}

static struct str escaped(struct arena *a, struct str s)
{
	AUTO(buf_done) struct buf b = { 0 };

	net_escape(&b, s, false);
	return arena_str(a, buf_str(&b));
}

/* The fields of the query, escaped and sorted. @more: the presigned URL's. */
static void query_text(const struct sign_request *r, const struct sign_field *more, size_t n_more,
		       struct buf *out)
{
	AUTO(arena_done) struct arena a = { 0 };
	struct sign_field *all;
	size_t n = r->n_query + n_more;

	arena_init(&a);
	all = ARENA_NEW_N(&a, struct sign_field, n + 1);
	for (size_t i = 0; i < n; i++) {
		const struct sign_field *f = i < r->n_query ? &r->query[i] : &more[i - r->n_query];

		all[i] = (struct sign_field){ escaped(&a, f->name), escaped(&a, f->value) };
	}
	qsort(all, n, sizeof(*all), fields_compare);
	for (size_t i = 0; i < n; i++)
		buf_printf(out, "%s" STR_FMT "=" STR_FMT, i ? "&" : "", STR_ARG(all[i].name),
			   STR_ARG(all[i].value));
}

/* Without blanks at both ends, and with one blank where several follow each other. */
static void header_value_text(struct str value, struct buf *out)
{
	bool blank = false;

	value = str_trim(value);
	for (size_t i = 0; i < value.size; i++) {
		bool is_blank = value.p[i] == ' ' || value.p[i] == '\t';

		if (!is_blank)
			buf_add_char(out, value.p[i]);
		else if (!blank)
			buf_add_char(out, ' ');
		blank = is_blank;
	}
}

/* A request with all fields that its signature covers. */
struct sign_parts {
	const struct sign_request *r;
	char date[DATE_SIZE];
	struct sign_field *headers; /* sorted */
	size_t n_headers;
	const struct sign_field *more; /* of the query */
	size_t n_more;
	struct str body_hash;
};

static struct str parts_day(const struct sign_parts *p)
{
	return (struct str){ p->date, DAY_SIZE };
}

static void signed_names(const struct sign_parts *p, struct buf *out)
{
	for (size_t i = 0; i < p->n_headers; i++)
		if (!i || !str_eq(p->headers[i].name, p->headers[i - 1].name))
			buf_printf(out, "%s" STR_FMT, i ? ";" : "", STR_ARG(p->headers[i].name));
}

static void canonical_text(const struct sign_parts *p, struct buf *out)
{
	buf_add_str(out, p->r->method);
	buf_add_char(out, '\n');
	net_escape(out, p->r->path, true);
	buf_add_char(out, '\n');
	query_text(p->r, p->more, p->n_more, out);
	buf_add_char(out, '\n');
	for (size_t i = 0; i < p->n_headers; i++) {
		bool same = i && str_eq(p->headers[i].name, p->headers[i - 1].name);

		if (same)
			out->p[out->size - 1] = ',';
		else
			buf_printf(out, STR_FMT ":", STR_ARG(p->headers[i].name));
		header_value_text(p->headers[i].value, out);
		buf_add_char(out, '\n');
	}
	buf_add_char(out, '\n');
	signed_names(p, out);
	buf_add_char(out, '\n');
	buf_add_str(out, p->body_hash);
}

/* By name; fields of the same name keep their order. There are a few. */
static void sort_headers(struct sign_field *v, size_t n)
{
	for (size_t i = 1; i < n; i++)
		for (size_t k = i; k && str_cmp(v[k - 1].name, v[k].name) > 0; k--) {
			struct sign_field t = v[k];

			v[k] = v[k - 1];
			v[k - 1] = t;
		}
}

/* Signed headers: Host, those of the request, and those that the signature by headers adds. */
static void parts_init(struct sign_parts *p, const struct sign_request *r, const struct sign_keys *keys,
		       bool by_headers, struct arena *a)
{
	struct sign_field *h = ARENA_NEW_N(a, struct sign_field, r->n_headers + 4);
	size_t n = 0;

	*p = (struct sign_parts){ .r = r, .body_hash = r->body_hash };
	sign_date_text(r->time_s, p->date);
	h[n++] = (struct sign_field){ STR("host"), r->host };
	for (size_t i = 0; i < r->n_headers; i++)
		h[n++] = r->headers[i];
	if (by_headers) {
		h[n++] = (struct sign_field){ STR("x-amz-date"), arena_str(a, str_of(p->date)) };
		if (!r->no_hash_header)
			h[n++] = (struct sign_field){ STR("x-amz-content-sha256"), r->body_hash };
		if (keys->token.size)
			h[n++] = (struct sign_field){ STR("x-amz-security-token"), keys->token };
	}
	sort_headers(h, n);
	p->headers = h;
	p->n_headers = n;
}

static void signature_hex(const struct sign_parts *p, const struct sign_keys *keys, char ret[65])
{
	AUTO(buf_done) struct buf canonical = { 0 }, text = { 0 };
	uint8_t hash[SHA256_SIZE], key[SHA256_SIZE];
	struct bytes part;
	char hex[65];

	canonical_text(p, &canonical);
	sha256_of(buf_bytes(&canonical), hash);
	buf_printf(&text, ALGORITHM "\n%s\n", p->date);
	scope_text(p->r, parts_day(p), &text);
	buf_printf(&text, "\n%s", hex_encode(bytes_of(hash, sizeof(hash)), hex));
	signing_key(p->r, keys->secret, parts_day(p), key);
	part = buf_bytes(&text);
	hmac_parts(bytes_of(key, sizeof(key)), &part, 1, hash);
	explicit_bzero(key, sizeof(key));
	hex_encode(bytes_of(hash, sizeof(hash)), ret);
}

/* ---- both ways to send a signature ---- */

void sign_target(const struct sign_request *r, struct buf *out)
{
	net_escape(out, r->path, true);
	if (!r->n_query)
		return;
	buf_add_char(out, '?');
	query_text(r, NULL, 0, out);
}

void sign_canonical(const struct sign_request *r, const struct sign_keys *keys, struct buf *out)
{
	AUTO(arena_done) struct arena a = { 0 };
	struct sign_parts p;

	arena_init(&a);
	parts_init(&p, r, keys, true, &a);
	canonical_text(&p, out);
}

void sign_headers(const struct sign_request *r, const struct sign_keys *keys, struct arena *a,
		  const char *ret[SIGN_MAX_HEADERS], size_t *ret_n)
{
	AUTO(buf_done) struct buf scope = { 0 }, names = { 0 };
	struct sign_parts p;
	char signature[65];
	size_t n = 0;

	parts_init(&p, r, keys, true, a);
	signature_hex(&p, keys, signature);
	scope_text(r, parts_day(&p), &scope);
	signed_names(&p, &names);
	ret[n++] = arena_printf(a,
				"Authorization: " ALGORITHM " Credential=" STR_FMT "/" STR_FMT
				", SignedHeaders=" STR_FMT ", Signature=%s",
				STR_ARG(keys->id), STR_ARG(buf_str(&scope)), STR_ARG(buf_str(&names)),
				signature);
	ret[n++] = arena_printf(a, "x-amz-date: %s", p.date);
	if (!r->no_hash_header)
		ret[n++] = arena_printf(a, "x-amz-content-sha256: " STR_FMT, STR_ARG(r->body_hash));
	if (keys->token.size)
		ret[n++] = arena_printf(a, "x-amz-security-token: " STR_FMT, STR_ARG(keys->token));
	*ret_n = n;
}

void sign_url(const struct sign_request *r, const struct sign_keys *keys, unsigned expires_s, struct buf *out)
{
	AUTO(arena_done) struct arena a = { 0 };
	AUTO(buf_done) struct buf credential = { 0 }, names = { 0 };
	struct sign_field more[6];
	struct sign_parts p;
	char signature[65];
	size_t n = 0;

	arena_init(&a);
	parts_init(&p, r, keys, false, &a);
	p.body_hash = SIGN_UNSIGNED;
	buf_printf(&credential, STR_FMT "/", STR_ARG(keys->id));
	scope_text(r, parts_day(&p), &credential);
	signed_names(&p, &names);
	more[n++] = (struct sign_field){ STR("X-Amz-Algorithm"), STR(ALGORITHM) };
	more[n++] = (struct sign_field){ STR("X-Amz-Credential"), buf_str(&credential) };
	more[n++] = (struct sign_field){ STR("X-Amz-Date"), str_of(p.date) };
	more[n++] = (struct sign_field){
		STR("X-Amz-Expires"), str_of(arena_printf(&a, "%u", MIN(expires_s, SIGN_MAX_EXPIRES_S + 0u)))
	};
	more[n++] = (struct sign_field){ STR("X-Amz-SignedHeaders"), buf_str(&names) };
	if (keys->token.size)
		more[n++] = (struct sign_field){ STR("X-Amz-Security-Token"), keys->token };
	p.more = more;
	p.n_more = n;
	signature_hex(&p, keys, signature);
	net_escape(out, r->path, true);
	buf_add_char(out, '?');
	query_text(r, more, n, out);
	buf_printf(out, "&X-Amz-Signature=%s", signature);
}
