/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replies to uploads: a line of text, and headers that lode push reads.
 */
#include "server/push/push.h"

#include <stdio.h>
#include "server/rpc/rpc.h"
#include "wire/proto.h"

/* UploadResponse */
enum { UPLOADED_ID = 1, UPLOADED_SIZE = 2 };

static void reply_to_call(struct request *req, const struct push_request *pr, unsigned status,
			  const char *text)
{
	AUTO(buf_done) struct buf m = { 0 };

	if (status >= 400) {
		request_refuse(req, status, text);
		return;
	}
	proto_put_str(&m, UPLOADED_ID, pr->call_id);
	proto_put_number(&m, UPLOADED_SIZE, pr->total);
	rpc_reply_message(req, buf_bytes(&m));
}

static void reply_with(struct request *req, unsigned status, const char *result, const char *off,
		       const char *text)
{
	if (req->reply)
		return;
	/* Only parca_upload.c's route has it. */
	if (req->route->flags & HTTP_CONNECT) {
		reply_to_call(req, req->own, status, text);
		return;
	}
	request_reply_text(req, status, text);
	if (result)
		http_reply_header(req->reply, "X-LODE-RESULT", result);
	if (off)
		http_reply_header(req->reply, "X-LODE-OFFSET", off);
}

void push_reply(struct request *req, unsigned status, const char *result, const char *text)
{
	reply_with(req, status, result, NULL, text);
}

void push_reply_offset(struct request *req, unsigned status, const char *result, uint64_t off,
		       const char *text)
{
	char number[24];

	snprintf(number, sizeof(number), "%llu", (unsigned long long)off);
	reply_with(req, status, result, number, text);
}
