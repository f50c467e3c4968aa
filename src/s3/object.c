/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests for one object.
 */
#include "s3/internal.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- headers ---- */

void object_etag(struct str value, char ret[S3_ETAG_MAX])
{
	if (str_starts(value, STR("W/"))) {
		value.p += 2;
		value.size -= 2;
	}
	if (value.size >= 2 && value.p[0] == '"' && value.p[value.size - 1] == '"') {
		value.p++;
		value.size -= 2;
	}
	snprintf(ret, S3_ETAG_MAX, STR_FMT, STR_ARG(value));
}

/* The number after the slash of "bytes 0-99/1234". */
static bool range_total(struct str value, uint64_t *ret)
{
	str_cut(&value, '/');
	return str_to_u64(str_trim(value), ret);
}

void object_info(struct str headers, struct s3_info *ret)
{
	struct str range = net_header(headers, "content-range"),
		   length = net_header(headers, "content-length");

	*ret = (struct s3_info){ 0 };
	object_etag(net_header(headers, "etag"), ret->etag);
	if (!net_date(net_header(headers, "last-modified"), &ret->mtime))
		ret->mtime = 0;
	if (!range.size || !range_total(range, &ret->size))
		(void)!str_to_u64(length, &ret->size);
}

/* ---- requests ---- */

static int need_key(struct s3_name name, struct err *err)
{
	return name.key.size ? 0
			     : err_set(err, ERR_INVALID, "s3://" STR_FMT ": a bucket, not an object",
				       STR_ARG(name.bucket));
}

/* As call_run(), of an object. *ret_info is set with the answer, if it is not NULL. */
static int object_call(struct s3 *s, const struct call_request *req, struct call_answer *ret,
		       struct s3_info *ret_info, struct err *err)
{
	int r;

	if (need_key(req->name, err) < 0)
		return -1;
	r = call_run(s, req, ret, err);
	if (r == 0 && ret_info)
		object_info(buf_str(&ret->headers), ret_info);
	return r;
}

/* A 404 without a body may be of another server, or for the bucket: the answer for a byte of the object has the reason. */
static int head_absent(struct s3 *s, struct s3_name name, int64_t from_ms, struct call_answer *ret,
		       struct s3_info *ret_info, struct err *err)
{
	static const struct sign_field range = { STR("range"), STR("bytes=0-0") };

	return object_call(s,
			   &(struct call_request){ .method = "GET",
						   .what = "head",
						   .name = name,
						   .headers = &range,
						   .n_headers = 1,
						   .hedged = true,
						   .from_ms = from_ms },
			   ret, ret_info, err);
}

int s3_head(struct s3 *s, struct s3_name name, struct s3_info *ret, struct err *err)
{
	const struct call_request req = {
		.method = "HEAD", .what = "head", .name = name, .hedged = true, .from_ms = clock_mono_ms()
	};
	struct call_answer a;
	int r = object_call(s, &req, &a, ret, err);

	if (r == S3_MISSING)
		r = head_absent(s, name, req.from_ms, &a, ret, err);
	if (r == 0)
		call_answer_done(&a);
	return r;
}

int s3_get(struct s3 *s, struct s3_name name, size_t max, struct buf *ret, struct s3_info *ret_info,
	   struct err *err)
{
	const struct call_request req = {
		.method = "GET", .what = "get", .name = name, .max_answer = max, .hedged = true
	};
	struct call_answer a;
	int r = object_call(s, &req, &a, ret_info, err);

	if (r)
		return r;
	if (a.body.size <= max)
		buf_add(ret, a.body.p, a.body.size);
	else
		r = err_set(err, ERR_LIMIT, "s3://" STR_FMT "/" STR_FMT ": it is longer than %zu bytes",
			    STR_ARG(name.bucket), STR_ARG(name.key), max);
	call_answer_done(&a);
	return r;
}

int s3_put(struct s3 *s, struct s3_name name, struct bytes body, struct s3_info *ret, struct err *err)
{
	const struct call_request req = {
		.method = "PUT", .what = "put", .name = name, .body = &body, .bodyless = true
	};
	struct call_answer a;
	int r = object_call(s, &req, &a, ret, err);

	if (r == S3_MISSING)
		return err_set(err, ERR_IO, "s3://" STR_FMT "/" STR_FMT ": PUT: status 404",
			       STR_ARG(name.bucket), STR_ARG(name.key));
	if (r)
		return r;
	if (ret)
		ret->size = body.size;
	call_answer_done(&a);
	return 0;
}

int s3_delete(struct s3 *s, struct s3_name name, struct err *err)
{
	const struct call_request req = {
		.method = "DELETE", .what = "delete", .name = name, .bodyless = true
	};
	struct call_answer a;
	int r = object_call(s, &req, &a, NULL, err);

	if (r == 0)
		call_answer_done(&a);
	return MIN(r, 0);
}

/* ---- presigned URLs ---- */

int s3_endpoint_check(const char *endpoint, struct err *err)
{
	struct place p = { 0 };
	int r = place_parse(endpoint, &p, err);

	place_done(&p);
	return r;
}

/* The place of the bucket, for a client that reaches it by another endpoint. */
static int presigned_place(struct s3 *s, const struct s3_presigned *p, struct place *ret, struct err *err)
{
	struct place theirs;

	place_of(s, p->name.bucket, ret);
	if (!p->endpoint)
		return 0;
	if (place_parse(p->endpoint, &theirs, err) < 0) {
		place_done(ret);
		return -1;
	}
	theirs.region = TAKE(ret->region);
	theirs.in_host = ret->in_host;
	place_done(ret);
	*ret = theirs;
	return 0;
}

static void presigned_text(struct s3 *s, const struct s3_presigned *p, const struct place *place,
			   const struct lent_keys *keys, struct buf *ret)
{
	AUTO(arena_done) struct arena a = { 0 };
	struct sign_field query[2], length = { STR("content-length"), { 0 } };
	struct sign_request r = {
		.method = str_of(p->method),
		.query = query,
		.headers = &length,
		.n_headers = p->size ? 1 : 0,
		.region = str_of(place->region),
		.service = STR("s3"),
		.time_s = time_to_sign_s(s),
	};
	const struct sign_keys k = { secret_str(&keys->id), secret_str(&keys->secret),
				     secret_str(&keys->token) };

	arena_init(&a);
	length.value = str_of(arena_printf(&a, "%llu", (unsigned long long)p->size));
	if (p->upload) {
		query[r.n_query++] = (struct sign_field){ STR("partNumber"),
							  str_of(arena_printf(&a, "%u", p->part)) };
		query[r.n_query++] = (struct sign_field){ STR("uploadId"), str_of(p->upload->id) };
	}
	if (place->in_host) {
		r.host = str_of(arena_printf(&a, STR_FMT ".%s", STR_ARG(p->name.bucket), place->host));
		r.path = str_of(arena_printf(&a, "/" STR_FMT, STR_ARG(p->name.key)));
	} else {
		r.host = str_of(place->host);
		r.path = str_of(arena_printf(&a, "/" STR_FMT "/" STR_FMT, STR_ARG(p->name.bucket),
					     STR_ARG(p->name.key)));
	}
	buf_printf(ret, "%s://" STR_FMT, place->scheme, STR_ARG(r.host));
	sign_url(&r, &k, p->expires_s, ret);
}

int s3_presign(struct s3 *s, const struct s3_presigned *p, struct buf *ret, struct err *err)
{
	struct lent_keys *keys;
	struct place place;

	if (need_key(p->name, err) < 0)
		return -1;
	if (s->config.anonymous)
		return err_set(err, ERR_INVALID, "a URL cannot be signed without keys");
	if (!p->expires_s || p->expires_s > SIGN_MAX_EXPIRES_S)
		return err_set(err, ERR_INVALID, "a signed URL is good for 1 to %d seconds",
			       SIGN_MAX_EXPIRES_S);
	if (presigned_place(s, p, &place, err) < 0)
		return -1;
	if (credentials_get(s->credentials, &keys, err) < 0) {
		place_done(&place);
		return -1;
	}
	presigned_text(s, p, &place, keys, ret);
	place_done(&place);
	lent_keys_unref(keys);
	return 0;
}
