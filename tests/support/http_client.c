/* SPDX-License-Identifier: Apache-2.0 */
#include "http_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define TIMEOUT_S 30 /* fail instead of hanging if a server does not answer */

static void die(const char *what)
{
	perror(what);
	abort();
}

void http_client_open(struct http_client *c, const char *url)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	struct timeval tv = { .tv_sec = TIMEOUT_S };
	char host[64];
	unsigned port;
	int on = 1;

	*c = (struct http_client){ 0 };
	if (sscanf(url, "http://%63[0-9.]:%u", host, &port) != 2 ||
	    inet_pton(AF_INET, host, &addr.sin_addr) != 1)
		die(url);
	addr.sin_port = htons((uint16_t)port);
	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		die("socket");
	setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (connect(c->fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
		die(url);
}

void http_client_close(struct http_client *c)
{
	close(c->fd);
	buf_done(&c->in);
}

void http_client_send(struct http_client *c, const char *text)
{
	size_t n = strlen(text);

	while (n) {
		ssize_t r = send(c->fd, text, n, MSG_NOSIGNAL);

		if (r < 0)
			return; /* the server has closed; reading will report it */
		text += r;
		n -= (size_t)r;
	}
}

void http_client_ask(struct http_client *c, const char *method, const char *path, const char *headers)
{
	AUTO(buf_done) struct buf b = { 0 };

	buf_printf(&b, "%s %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", method, path, headers ? headers : "");
	http_client_send(c, buf_cstr(&b));
}

/* false: the end. */
static bool more(struct http_client *c, size_t max)
{
	uint8_t *p = buf_reserve(&c->in, max);
	ssize_t n = recv(c->fd, p, max, 0);

	if (n <= 0)
		return false;
	c->in.size += (size_t)n;
	return true;
}

static void use(struct http_client *c, size_t n, struct buf *to)
{
	buf_add(to, c->in.p, n);
	memmove(c->in.p, c->in.p + n, c->in.size - n);
	c->in.size -= n;
}

bool http_client_head(struct http_client *c, struct http_answer *ret)
{
	const char *length, *end;

	while (!c->in.size || !(end = memmem(c->in.p, c->in.size, "\r\n\r\n", 4)))
		if (!more(c, 4096))
			return false;
	use(c, (size_t)(end - (char *)c->in.p) + 4, &ret->head);
	buf_cstr(&ret->head);
	if (sscanf((char *)ret->head.p, "HTTP/1.1 %d", &ret->status) != 1)
		return false;
	length = http_answer_header(ret, "Content-Length");
	ret->length = length ? atoll(length) : -1;
	return true;
}

bool http_client_body(struct http_client *c, struct http_answer *ret, size_t max)
{
	size_t left = ret->length > 0 ? (size_t)ret->length - ret->body.size : 0, want = MIN(left, max);

	while (want) {
		size_t n;

		if (!c->in.size && !more(c, MIN(want, (size_t)65536)))
			return false;
		n = MIN(want, c->in.size);
		use(c, n, &ret->body);
		want -= n;
	}
	ret->whole = ret->length >= 0 && ret->body.size == (size_t)ret->length;
	return true;
}

struct http_answer http_client_answer(struct http_client *c, bool head)
{
	struct http_answer a = { 0 };

	if (http_client_head(c, &a) && !head && a.status != 304 && a.status != 204)
		http_client_body(c, &a, SIZE_MAX);
	return a;
}

bool http_client_closed(struct http_client *c)
{
	return !c->in.size && !more(c, 1);
}

struct http_answer http_fetch(const char *url, const char *method, const char *path, const char *headers)
{
	struct http_client c;
	struct http_answer a;

	http_client_open(&c, url);
	http_client_ask(&c, method, path, headers);
	a = http_client_answer(&c, strcmp(method, "HEAD") == 0);
	http_client_close(&c);
	return a;
}

void http_answer_done(struct http_answer *a)
{
	buf_done(&a->head);
	buf_done(&a->body);
}

const char *http_answer_header(const struct http_answer *a, const char *name)
{
	static _Thread_local char value[8192];
	size_t n = strlen(name);

	for (const char *p = (const char *)a->head.p; p && (p = strstr(p, "\r\n"));) {
		p += 2;
		if (strncasecmp(p, name, n) == 0 && p[n] == ':') {
			const char *end = strstr(p, "\r\n");

			p += n + 1;
			while (*p == ' ')
				p++;
			snprintf(value, sizeof(value), "%.*s", (int)(end - p), p);
			return value;
		}
	}
	return NULL;
}
