/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AWS Signature Version 4: the headers, or the query of a presigned URL, that prove the sender of a request. Pure functions.
 */
#pragma once

#include "base/base.h"

/* Of a request without a hash of its body: presigned, or streamed. */
#define SIGN_UNSIGNED STR("UNSIGNED-PAYLOAD")
#define SIGN_NO_BODY  STR("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")

#define SIGN_MAX_EXPIRES_S 604800 /* of a presigned URL: a week */

struct sign_field {
	struct str name, value;
};

struct sign_keys {
	struct str id, secret;
	struct str token; /* empty: none */
};

struct sign_request {
	struct str method;
	struct str host;                /* with the port, unless it is the scheme's usual one */
	struct str path;                /* as it is, not escaped; begins with a slash */
	const struct sign_field *query; /* not escaped; in any order */
	size_t n_query;
	const struct sign_field *headers; /* further ones that are signed; names in lower case */
	size_t n_headers;
	struct str body_hash; /* SHA-256 of the body in hex, or SIGN_UNSIGNED */
	struct str region, service;
	int64_t time_s;      /* since 1970 */
	bool no_hash_header; /* without x-amz-content-sha256, which only S3 wants */
};

/*
 * Append path and query as they have to be sent, escaped and in the order that is signed. A server that decodes them gets
 * the same bytes.
 */
void sign_target(const struct sign_request *r, struct buf *out);

/* Append the canonical request, for tests. @extra: fields of the query that are not in @r. */
void sign_canonical(const struct sign_request *r, const struct sign_keys *keys, struct buf *out);

/*
 * The headers to send beside those of @r and Host, as "name: value", in the arena: *ret_n of them in @ret. Call
 * sha256_load() first.
 */
#define SIGN_MAX_HEADERS 4
void sign_headers(const struct sign_request *r, const struct sign_keys *keys, struct arena *a,
		  const char *ret[SIGN_MAX_HEADERS], size_t *ret_n);

/*
 * Append the target of a presigned URL, which anyone may use for @expires_s seconds (at most SIGN_MAX_EXPIRES_S): path and
 * query. The headers of @r must be sent with it.
 */
void sign_url(const struct sign_request *r, const struct sign_keys *keys, unsigned expires_s,
	      struct buf *out);
