/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The meaning of a reply. An answer to HEAD has no body, so its status and headers have to do.
 */
#include "s3/internal.h"

#include <errno.h>
#include <stdlib.h>
#include "s3/xml.h"

#define NOT_ALLOWED                                                                           \
	"the policy of these keys does not allow it, or there is no such object and no right" \
	" to list the bucket"

#define SKEW_MAX_S  240 /* servers refuse more than 15 min */
#define MESSAGE_MAX 160

/* ---- the <Error> ---- */

bool reply_error_read(struct bytes body, struct reply_error *ret)
{
	const struct {
		const char *path;
		struct str *to;
	} fields[] = {
		{ "Error/Code", &ret->code },
		{ "Error/Message", &ret->message },
		{ "Error/Region", &ret->region },
		{ "Error/Endpoint", &ret->endpoint },
	};
	struct err ignored = { 0 };
	struct xml x;
	int r;

	*ret = (struct reply_error){ 0 };
	arena_init(&ret->arena);
	xml_init(&x, body);
	while ((r = xml_next(&x, &ignored)) > 0)
		for (size_t i = 0; r == XML_CLOSE && i < ARRAY_SIZE(fields); i++)
			if (xml_is(&x, fields[i].path) && !fields[i].to->size)
				*fields[i].to = arena_str(&ret->arena, str_trim(buf_str(&x.text)));
	xml_done(&x);
	return ret->code.size > 0;
}

void reply_error_done(struct reply_error *e)
{
	arena_done(&e->arena);
}

/* Of the server's own text: bounded, and without control characters. */
static void message_text(struct str s, char ret[MESSAGE_MAX + 1])
{
	size_t n = MIN(s.size, (size_t)MESSAGE_MAX);

	for (size_t i = 0; i < n; i++)
		ret[i] = (uint8_t)s.p[i] < 0x20 || s.p[i] == 0x7f ? ' ' : s.p[i];
	ret[n] = '\0';
}

static void failure_text(unsigned status, const struct reply_error *e, struct err *err)
{
	char code[MESSAGE_MAX + 1], message[MESSAGE_MAX + 1];

	message_text(e->code, code);
	message_text(e->message, message);
	(void)err_set(err, ERR_IO, "status %u%s%s%s%s", status, code[0] ? " " : "", code,
		      message[0] ? ": " : "", message);
}

/* ---- clocks and regions ---- */

/* The server's clock is far from ours: sign by it from now on. */
static bool learn_clock(struct s3 *s, struct str headers)
{
	struct str date = net_header(headers, "date");
	int64_t skew_s, then_s;

	if (!date.size || !net_date(date, &then_s))
		return false;
	skew_s = then_s - clock_wall_s();
	if (llabs(skew_s - atomic_load(&s->skew_s)) < SKEW_MAX_S)
		return false;
	atomic_store(&s->skew_s, skew_s);
	log_warn("s3",
		 "the clock of this machine differs from the bucket's server by %lld s: requests are signed "
		 "by its clock",
		 (long long)skew_s);
	return true;
}

/* The host of a Location, without port and path. */
static struct str location_host(struct str url)
{
	const char *sep = url.size ? memmem(url.p, url.size, "://", 3) : NULL;
	struct str host;

	if (!sep)
		return (struct str){ 0 };
	host = (struct str){ sep + 3, url.size - (size_t)(sep - url.p) - 3 };
	host = str_cut(&host, '/');
	return str_cut(&host, '?');
}

static bool learn_place(struct s3 *s, const struct call_request *req, const struct call_answer *a,
			const struct reply_error *e)
{
	struct str region = net_header(buf_str(&a->headers), "x-amz-bucket-region");
	struct str host = location_host(net_header(buf_str(&a->headers), "location"));

	if (!region.size)
		region = e->region;
	/* With a region at Amazon the host follows from it; a Location may be that of a request signed otherwise. */
	if (!host.size)
		host = e->endpoint;
	if (region.size && place_learn(s, req->name.bucket, region, (struct str){ 0 }))
		return true;
	return place_learn(s, req->name.bucket, region, host);
}

/* ---- verdicts ---- */

static bool code_is(const struct reply_error *e, const char *const *codes)
{
	for (; *codes; codes++)
		if (str_eq(e->code, str_of(*codes)))
			return true;
	return false;
}

static const char *const old_keys[] = { "ExpiredToken",          "TokenRefreshRequired", "InvalidToken",
					"ExpiredTokenException", "InvalidAccessKeyId",   NULL };
static const char *const passing[] = { "SlowDown",
				       "InternalError",
				       "ServiceUnavailable",
				       "RequestTimeout",
				       "Throttling",
				       "ThrottlingException",
				       "RequestLimitExceeded",
				       "OperationAborted",
				       "ConditionalRequestConflict",
				       "BadDigest",
				       "XAmzContentSHA256Mismatch",
				       NULL };
static const char *const absent[] = { "NoSuchKey", "NoSuchUpload", "NoSuchVersion", NULL };
static const char *const elsewhere[] = { "AuthorizationHeaderMalformed", "PermanentRedirect",
					 "TemporaryRedirect", "IllegalLocationConstraintException", NULL };

bool reply_may_pass(unsigned status)
{
	return status == 408 || status == 409 || status == 425 || status == 429 || status == 500 ||
	       (status >= 502 && status <= 504);
}

/*
 * A name, a proxy or another server may be wrong, too: only S3's own word is proof that an object is missing. A page of a proxy
 * may pass, as while the server after it starts.
 */
static enum verdict judge_absent(const struct call_request *req, const struct reply_error *e, struct err *err)
{
	if (str_eq(e->code, STR("NoSuchBucket"))) {
		(void)err_set(err, ERR_IO, "there is no such bucket");
		return VERDICT_FAILED;
	}
	if (req->name.key.size && (code_is(e, absent) || strcmp(req->method, "HEAD") == 0))
		return VERDICT_MISSING;
	if (!req->name.key.size || e->code.size)
		return VERDICT_FAILED;
	(void)err_set(
		err, ERR_IO,
		"status 404, but not in S3's form: another server, or a proxy, answers at this endpoint");
	return VERDICT_LATER;
}

static enum verdict judge_refused(struct s3 *s, const struct call_answer *a, const struct lent_keys *keys,
				  const struct reply_error *e, struct err *err)
{
	/* HEAD says no code. */
	bool silent = !e->code.size;

	failure_text(a->status, e, err);
	if ((silent || str_eq(e->code, STR("RequestTimeTooSkewed"))) && learn_clock(s, buf_str(&a->headers)))
		return VERDICT_AGAIN;
	if (keys && code_is(e, old_keys)) {
		credentials_refused(s->credentials, keys);
		return VERDICT_AGAIN;
	}
	/* Keys of a file, too: another program renews them there. */
	if (silent && keys && a->status == 400) {
		(void)err_set(err, ERR_IO,
			      "status 400 without a reason, as for keys that have ended: renew them, or "
			      "correct the "
			      "region");
		credentials_refused(s->credentials, keys);
		return VERDICT_AGAIN;
	}
	if (str_eq(e->code, STR("AccessDenied")))
		(void)err_set(err, ERR_IO, "access denied: %s", NOT_ALLOWED);
	else if (silent && a->status == 403)
		(void)err_set(err, ERR_IO, "access denied: the access key or the secret is wrong, or %s",
			      NOT_ALLOWED);
	return VERDICT_FAILED;
}

/* An answer of status 200 may have an error in its body. */
static enum verdict judge_root(const struct call_request *req, const struct call_answer *a, struct err *err)
{
	struct reply_error e;
	struct xml x;
	enum verdict v = VERDICT_DONE;
	int r;

	if (!req->root)
		return VERDICT_DONE;
	xml_init(&x, buf_bytes(&a->body));
	r = xml_next(&x, err);
	if (r != XML_OPEN) {
		(void)err_in(err, "its answer");
		v = VERDICT_LATER;
	} else if (strcmp(xml_name(&x, 0), req->root) != 0) {
		v = VERDICT_LATER;
		if (reply_error_read(buf_bytes(&a->body), &e))
			failure_text(a->status, &e, err);
		else
			(void)err_set(err, ERR_INVALID, "its answer is a <%s>, not a <%s>", xml_name(&x, 0),
				      req->root);
		if (e.code.size && !code_is(&e, passing))
			v = VERDICT_FAILED;
		reply_error_done(&e);
	}
	xml_done(&x);
	return v;
}

/*
 * DeleteObject is answered by 204 without a body, PutObject by 200 without one. An <Error> there is one; any other body of
 * a removal is of something between us and the bucket, which says nothing of the object.
 */
static enum verdict judge_bodyless(const struct call_request *req, const struct call_answer *a,
				   struct err *err)
{
	enum verdict v = VERDICT_DONE;
	struct reply_error e;

	if (!a->body.size)
		return VERDICT_DONE;
	if (reply_error_read(buf_bytes(&a->body), &e)) {
		failure_text(a->status, &e, err);
		v = code_is(&e, passing) ? VERDICT_LATER : VERDICT_FAILED;
	} else if (strcmp(req->method, "DELETE") == 0) {
		(void)err_set(err, ERR_IO, "status %u, and %zu bytes of an answer that has none", a->status,
			      a->body.size);
		v = VERDICT_LATER;
	}
	reply_error_done(&e);
	return v;
}

enum verdict reply_judge(struct s3 *s, const struct call_request *req, const struct call_answer *a,
			 const struct lent_keys *keys, struct err *err)
{
	struct reply_error e;
	enum verdict v;

	if (a->status >= 200 && a->status < 300)
		return req->bodyless ? judge_bodyless(req, a, err) : judge_root(req, a, err);
	reply_error_read(buf_bytes(&a->body), &e);
	failure_text(a->status, &e, err);
	if (a->status == 404)
		v = judge_absent(req, &e, err);
	else if ((a->status >= 300 && a->status < 400) || code_is(&e, elsewhere))
		v = learn_place(s, req, a, &e) ? VERDICT_AGAIN : VERDICT_FAILED;
	else if (reply_may_pass(a->status) || code_is(&e, passing))
		v = VERDICT_LATER;
	else if (a->status == 416) {
		(void)err_set(err, ERR_CHANGED, "it is shorter than it was: it was replaced");
		v = VERDICT_FAILED;
	} else if (a->status == 400 && !e.code.size && learn_place(s, req, a, &e)) {
		v = VERDICT_AGAIN;
	} else {
		v = judge_refused(s, a, keys, &e, err);
	}
	reply_error_done(&e);
	return v;
}
