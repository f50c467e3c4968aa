/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small HTTP/1.1 client over a plain socket, for tests: it returns every byte that the server sends and
 * sends any bytes.
 */
#pragma once

#include "base/base.h"

struct http_answer {
	int status;      /* 0: the connection ended before a status line */
	struct buf head; /* status line and headers, with a NUL */
	struct buf body;
	int64_t length; /* Content-Length; -1: none */
	bool whole;     /* the body has `length` bytes */
};
void http_answer_done(struct http_answer *a);
/* The value of a header, in a buffer of this thread; NULL: it is missing. */
const char *http_answer_header(const struct http_answer *a, const char *name);

struct http_client {
	int fd;
	struct buf in; /* received, not consumed */
};
/* @url: "http://127.0.0.1:8002". Ends the process when the connection is refused. */
void http_client_open(struct http_client *c, const char *url);
void http_client_close(struct http_client *c);
void http_client_send(struct http_client *c, const char *text);
/* GET (or @method) @path with @headers ("A: b\r\n"..., NULL: none). */
void http_client_ask(struct http_client *c, const char *method, const char *path, const char *headers);
/* Status line and headers; *ret must be zeroed. false: the connection ended. */
bool http_client_head(struct http_client *c, struct http_answer *ret);
/* Up to @max more bytes of the body; all received bytes are in ret->body. false: it ended early. */
bool http_client_body(struct http_client *c, struct http_answer *ret, size_t max);
/* All of it. */
struct http_answer http_client_answer(struct http_client *c, bool head);
/* The other side has closed, and sent nothing more. */
bool http_client_closed(struct http_client *c);

/* One request on its own connection. */
struct http_answer http_fetch(const char *url, const char *method, const char *path, const char *headers);
