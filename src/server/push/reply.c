/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replies to uploads: a line of text, and headers that lode push reads.
 */
#include "server/push/push.h"

#include <stdio.h>

static void reply_with(struct request *req, unsigned status, const char *result, const char *off,
		       const char *text)
{
	if (req->reply)
		return;
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
