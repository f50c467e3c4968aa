/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listings (ListObjectsV2), page by page. A server that is hostile or mistaken may repeat pages without end: the
 * continuation tokens must change, and only a few pages may be empty, or end before the page before them (servers list keys in
 * order, but for a few look-alikes). Pages with a few objects each would keep a listing going for days.
 *
 * Keys are asked for as they are. A page with characters that XML cannot hold, which servers replace or refer to, is asked for
 * again with escaped keys (encoding-type=url); not at once, since some servers say that keys are escaped and do not escape
 * them.
 */
#include "s3/internal.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include "s3/xml.h"

#define PAGE_USUAL     1000u
#define PAGE_MAX_BYTES MIB(16)
#define EMPTY_MAX      100u       /* pages without an object, one after the other */
#define BACK_MAX       100u       /* pages that end before the one before them */
#define LISTED_MAX     100000000u /* objects of one listing */
#define SHORT_MAX      1000u      /* pages with hardly an object that was asked for */
#define SHORT_OBJECTS  10u        /* of a page that is not one of these */
#define TOKEN_MAX      KIB(8)

struct list_page {
	const struct s3_listing *l;
	bool truncated, url_encoded;
	struct buf token;
	size_t n, n_wanted; /* objects; those with the prefix */
	/* of the current object */
	struct buf key;
	struct s3_info info;
	bool has_key, has_size;
	int stopped;     /* by the caller's function */
	struct buf last; /* the key of the last object in it */
};

static void list_page_done(struct list_page *p)
{
	buf_done(&p->token);
	buf_done(&p->key);
	buf_done(&p->last);
}

enum { PAGE_AGAIN = INT_MIN };

/* The state after the pages so far. */
struct list_course {
	struct buf token, last; /* of the page before */
	bool escaped;           /* keys are asked for escaped */
	uint64_t n;
	unsigned n_empty, n_back, n_short;
};

static int listed_object(struct list_page *p, struct err *err)
{
	struct s3_listed o = { .info = p->info };
	AUTO(mem_freep) char *plain = NULL;

	if (!p->has_key || !p->has_size)
		return err_set(err, ERR_INVALID, "the listing: an object without a key or a size");
	o.key = buf_str(&p->key);
	if (p->url_encoded) {
		plain = mem_alloc(o.key.size + 1);
		/* In this encoding a plus is a blank. */
		for (size_t i = 0; i < p->key.size; i++)
			if (p->key.p[i] == '+')
				p->key.p[i] = ' ';
		if (!hex_unescape(o.key, true, plain, &o.key.size))
			return err_set(err, ERR_INVALID, "the listing: a key that is not encoded as it says");
		o.key.p = plain;
	}
	if (!o.key.size || o.key.size > S3_KEY_MAX || memchr(o.key.p, 0, o.key.size))
		return err_set(err, ERR_INVALID, "the listing: a key of %zu bytes, or with a byte 0",
			       o.key.size);
	p->n++;
	p->last.size = 0;
	buf_add_str(&p->last, o.key);
	/* A server that ignores the prefix lists other objects, too. */
	if (!str_starts(o.key, p->l->prefix))
		return 0;
	p->n_wanted++;
	p->stopped = p->l->fn(p->l->arg, &o, err);
	return p->stopped;
}

static int list_field(struct list_page *p, struct xml *x, struct err *err)
{
	struct str text = buf_str(&x->text);

	if (xml_is(x, "ListBucketResult/Contents/Key")) {
		p->key.size = 0;
		buf_add_str(&p->key, text);
		p->has_key = true;
	} else if (xml_is(x, "ListBucketResult/Contents/Size")) {
		p->has_size = str_to_u64(str_trim(text), &p->info.size);
	} else if (xml_is(x, "ListBucketResult/Contents/ETag")) {
		object_etag(str_trim(text), p->info.etag);
	} else if (xml_is(x, "ListBucketResult/Contents/LastModified")) {
		if (!lender_time(str_trim(text), &p->info.mtime))
			p->info.mtime = 0;
	} else if (xml_is(x, "ListBucketResult/Contents")) {
		int r = listed_object(p, err);

		p->has_key = p->has_size = false;
		p->info = (struct s3_info){ 0 };
		return r;
	} else if (xml_is(x, "ListBucketResult/IsTruncated")) {
		p->truncated = str_eq(str_trim(text), STR("true"));
	} else if (xml_is(x, "ListBucketResult/NextContinuationToken")) {
		if (text.size > TOKEN_MAX)
			return err_set(err, ERR_INVALID, "the listing: a continuation token of %zu bytes",
				       text.size);
		p->token.size = 0;
		buf_add_str(&p->token, text);
	}
	return 0;
}

/* Some servers name the encoding after the objects. */
static bool page_is_encoded(struct bytes body)
{
	struct err ignored = { 0 };
	struct xml x;
	bool ret = false;
	int r;

	if (!body.size || !memmem(body.p, body.size, "EncodingType", 12))
		return false;
	xml_init(&x, body);
	while ((r = xml_next(&x, &ignored)) > 0)
		if (r == XML_CLOSE && xml_is(&x, "ListBucketResult/EncodingType"))
			ret = str_eq(str_trim(buf_str(&x.text)), STR("url"));
	xml_done(&x);
	return ret;
}

static int page_read(struct list_page *p, struct bytes body, struct err *err)
{
	struct xml x;
	int r, res = 0;

	p->url_encoded = page_is_encoded(body);
	xml_init(&x, body);
	while (!res && (r = xml_next(&x, err)) != XML_END) {
		if (r < 0)
			res = -1;
		else if (r == XML_CLOSE)
			res = list_field(p, &x, err);
	}
	xml_done(&x);
	return res;
}

int list_read_page(const struct s3_listing *l, struct bytes body, struct err *err)
{
	struct list_page p = { .l = l };
	int r = page_read(&p, body, err);

	list_page_done(&p);
	return r;
}

static bool is_stopped(const struct s3_listing *l)
{
	return l->stopped && l->stopped(l->arg);
}

/* A reference to a character that XML does not allow: "&#1;" or "&#x1;". @s begins after "&#". */
static bool is_control_reference(struct str s)
{
	bool hex = s.size && (s.p[0] == 'x' || s.p[0] == 'X');
	uint64_t c = 0;
	int d;

	for (size_t i = hex; i < s.size && i < 9 && (d = hex_digit(s.p[i], true)) >= 0; i++)
		c = c * (hex ? 16 : 10) + (uint64_t)d;
	return c < 0x20 && c != '\t' && c != '\n' && c != '\r';
}

bool list_wants_escapes(struct str body)
{
	for (size_t i = 0; i < body.size; i++) {
		struct str rest = { body.p + i, body.size - i };
		uint8_t c = (uint8_t)body.p[i];

		if ((c < 0x20 && c != '\t' && c != '\n' && c != '\r') ||
		    (c == 0xef && str_starts(rest, STR("\xef\xbf\xbd"))) ||
		    (c == '&' && str_starts(rest, STR("&#")) &&
		     is_control_reference((struct str){ rest.p + 2, rest.size - 2 })))
			return true;
	}
	return false;
}

/* PAGE_AGAIN: it has to be asked for again, with escaped keys. */
static int page_get(struct s3 *s, struct list_page *p, const struct list_course *c, struct err *err)
{
	struct str token = buf_str(&c->token);
	char page[24];
	struct sign_field query[6];
	struct call_request req = {
		.method = "GET",
		.what = "list",
		.name = { p->l->bucket, { "", 0 } },
		.query = query,
		.max_answer = PAGE_MAX_BYTES,
		.root = "ListBucketResult",
		.hedged = true,
	};
	struct call_answer a;
	int r;

	snprintf(page, sizeof(page), "%zu", p->l->page ? p->l->page : (size_t)PAGE_USUAL);
	query[req.n_query++] = (struct sign_field){ STR("list-type"), STR("2") };
	query[req.n_query++] = (struct sign_field){ STR("max-keys"), str_of(page) };
	if (c->escaped)
		query[req.n_query++] = (struct sign_field){ STR("encoding-type"), STR("url") };
	if (p->l->prefix.size)
		query[req.n_query++] = (struct sign_field){ STR("prefix"), p->l->prefix };
	if (token.size)
		query[req.n_query++] = (struct sign_field){ STR("continuation-token"), token };
	else if (p->l->after.size)
		query[req.n_query++] = (struct sign_field){ STR("start-after"), p->l->after };
	r = call_run(s, &req, &a, err);
	if (r)
		return r < 0 ? -1
			     : err_set(err, ERR_IO, "s3://" STR_FMT ": it cannot be listed",
				       STR_ARG(p->l->bucket));
	if (!c->escaped && list_wants_escapes(buf_str(&a.body)))
		r = PAGE_AGAIN;
	else
		r = page_read(p, buf_bytes(&a.body), err);
	call_answer_done(&a);
	return r;
}

/* The next page must be another one, and there must be an end. */
static int list_advances(const struct list_page *p, struct list_course *c, struct err *err)
{
	bool back = p->last.size && c->last.size && str_cmp(buf_str(&p->last), buf_str(&c->last)) <= 0;

	c->n += p->n;
	c->n_back += back;
	c->n_empty = p->n ? 0 : c->n_empty + 1;
	c->n_short += p->n_wanted < SHORT_OBJECTS;
	if (!p->token.size || str_eq(buf_str(&p->token), buf_str(&c->token)) || c->n_empty > EMPTY_MAX ||
	    c->n_back > BACK_MAX || c->n_short > SHORT_MAX || c->n > LISTED_MAX)
		return err_set(err, ERR_INVALID,
			       "s3://" STR_FMT "/" STR_FMT ": the listing does not end, after %llu objects",
			       STR_ARG(p->l->bucket), STR_ARG(p->l->prefix), (unsigned long long)c->n);
	c->token.size = c->last.size = 0;
	buf_add_str(&c->token, buf_str(&p->token));
	buf_add_str(&c->last, buf_str(&p->last));
	return 0;
}

int s3_list(struct s3 *s, const struct s3_listing *l, struct err *err)
{
	struct list_course c = { 0 };
	bool more = true;
	int r = 0;

	while (r == 0 && more) {
		struct list_page p = { .l = l };

		r = is_stopped(l) ? err_set(err, ERR_CANCELLED, "stopped") : page_get(s, &p, &c, err);
		more = p.truncated;
		if (r == PAGE_AGAIN) {
			c.escaped = more = true;
			r = 0;
		} else if (r == 0 && more)
			r = list_advances(&p, &c, err);
		list_page_done(&p);
	}
	buf_done(&c.token);
	buf_done(&c.last);
	return r;
}
