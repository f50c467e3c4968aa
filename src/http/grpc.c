/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The form of gRPC's requests and replies.
 */
#include "http/grpc.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include "wire/proto.h"

#define TYPE_PLAIN     "application/grpc"
#define TYPE_WEB       "application/grpc-web"
#define TYPE_TEXT      "application/grpc-web-text"
#define TIMEOUT_DIGITS 8u
#define MESSAGE_MAX \
	2048u /* bytes of grpc-message before escaping: clients bound their headers, to 8 KiB and more */
#define RETRY_S         5 /* as HTTP_RETRY_AFTER_S */
#define RETRY_INFO_TYPE "type.googleapis.com/google.rpc.RetryInfo"

/* @type begins with @name, which ends there or is followed by a codec ("+proto") or a parameter. */
static bool type_is(const char *type, const char *name)
{
	size_t n = strlen(name);

	return strncasecmp(type, name, n) == 0 && strchr("+; \t", type[n]);
}

enum grpc_form grpc_form_of(struct http_conn *c)
{
	const char *type = http_header(c, "Content-Type");

	/* A refusal has the status 200, and caches would keep that of a GET for the file at its URL. */
	if (!connect_is_grpc(type) || http_head(c)->get)
		return GRPC_NONE;
	if (type_is(type, TYPE_WEB))
		return GRPC_WEB;
	if (type_is(type, TYPE_TEXT))
		return GRPC_WEB_TEXT;
	return type_is(type, TYPE_PLAIN) && http_head(c)->two ? GRPC_PLAIN : GRPC_NONE;
}

unsigned grpc_code_of(unsigned status)
{
	return connect_code_number(status == 413 ? CONNECT_RESOURCE_EXHAUSTED : connect_code_of(status));
}

bool grpc_timeout_parse(struct str s, int64_t *ret_ms)
{
	static const struct {
		char unit;
		uint64_t ns;
	} units[] = {
		{ 'H', UINT64_C(3600000000000) },
		{ 'M', UINT64_C(60000000000) },
		{ 'S', UINT64_C(1000000000) },
		{ 'm', 1000000 },
		{ 'u', 1000 },
		{ 'n', 1 },
	};
	struct str digits = { s.p, s.size ? s.size - 1 : 0 };
	uint64_t n;

	if (!digits.size || digits.size > TIMEOUT_DIGITS || !str_to_u64(digits, &n))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (s.p[s.size - 1] == units[i].unit) {
			*ret_ms = (int64_t)(units[i].ns >= 1000000 ? n * (units[i].ns / 1000000)
								   : (n * units[i].ns + 999999) / 1000000);
			return true;
		}
	return false;
}

void grpc_put_prefix(unsigned flags, size_t size, struct buf *out)
{
	const uint8_t prefix[GRPC_PREFIX_SIZE] = { (uint8_t)flags, (uint8_t)(size >> 24),
						   (uint8_t)(size >> 16), (uint8_t)(size >> 8),
						   (uint8_t)size };

	buf_add(out, prefix, sizeof(prefix));
}

static void put_trailers(struct str lines, struct buf *out)
{
	grpc_put_prefix(GRPC_TRAILERS, lines.size, out);
	buf_add_str(out, lines);
}

void grpc_put_end(struct buf *out)
{
	put_trailers(STR("grpc-status:0\r\n"), out);
}

/* All but printable ASCII is escaped. */
static void escape_message(struct str text, struct buf *out)
{
	for (size_t i = 0; i < MIN(text.size, (size_t)MESSAGE_MAX); i++) {
		unsigned char c = (unsigned char)text.p[i];

		if (c < 0x20 || c > 0x7e || c == '%')
			buf_printf(out, "%%%02X", c);
		else
			buf_add_char(out, (char)c);
	}
}

/* google.rpc.Status with a RetryInfo in base64: OTLP's clients send RESOURCE_EXHAUSTED again only if it has one. */
static void retry_details(const struct grpc_refusal *refusal, struct buf *out)
{
	AUTO(buf_done) struct buf duration = { 0 }, info = { 0 }, any = { 0 }, status = { 0 };

	proto_put_number(&duration, 1, RETRY_S);
	proto_put_message(&info, 1, &duration);
	proto_put_str(&any, 1, STR(RETRY_INFO_TYPE));
	proto_put_bytes(&any, 2, info.p, info.size);
	proto_put_number(&status, 1, refusal->code);
	proto_put_str(&status, 2, refusal->text);
	proto_put_message(&status, 3, &any);
	base64_encode(buf_bytes(&status), out);
}

struct http_reply *grpc_refuse(const struct grpc_refusal *refusal, size_t *ret_size)
{
	AUTO(buf_done) struct buf message = { 0 }, details = { 0 }, lines = { 0 }, body = { 0 }, text = { 0 };
	bool again = refusal->status == 429 || refusal->status == 503;
	/* That of the request, without parameters: clients compare it. */
	AUTO(mem_freep) char *type = mem_strndup(refusal->type, strcspn(refusal->type, "; \t"));
	struct http_reply *r;
	char code[16];

	snprintf(code, sizeof(code), "%u", refusal->code);
	escape_message(refusal->text, &message);
	if (again)
		retry_details(refusal, &details);
	if (refusal->form == GRPC_PLAIN) {
		r = http_reply_copy("", 0);
		http_reply_header(r, "Content-Type", type);
		http_reply_header(r, "grpc-status", code);
		http_reply_header(r, "grpc-message", buf_cstr(&message));
		http_reply_header(r, "grpc-accept-encoding", GRPC_CODINGS);
		http_reply_header(r, "grpc-status-details-bin", buf_cstr(&details));
	} else {
		buf_printf(&lines, "grpc-status:%s\r\ngrpc-message:%s\r\n", code, buf_cstr(&message));
		if (again)
			buf_printf(&lines, "grpc-status-details-bin:%s\r\n", buf_cstr(&details));
		put_trailers(buf_str(&lines), &body);
		if (refusal->form == GRPC_WEB_TEXT)
			base64_encode(buf_bytes(&body), &text);
		r = refusal->form == GRPC_WEB_TEXT ? http_reply_copy(text.p, text.size)
						   : http_reply_copy(body.p, body.size);
		http_reply_header(r, "Content-Type", type);
		http_reply_header(r, "grpc-accept-encoding", GRPC_CODINGS);
	}
	*ret_size = refusal->form == GRPC_WEB_TEXT ? text.size : body.size;
	http_reply_header(r, "Cache-Control", "no-store");
	http_reply_status(r, 200);
	return r;
}
