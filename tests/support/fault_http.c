/* SPDX-License-Identifier: Apache-2.0 */
#include "fault_http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_RULES    32
#define MAX_REQUESTS 4096
#define MAX_CONNS    256
#define MAX_HEAD     KIB(64)
#define DRIP_MS      20

struct conn {
	struct fault_http *s;
	int fd; /* -1: none */
	pthread_t thread;
	bool used, ended;
};

struct fault_http {
	int fd, stop[2];
	pthread_t thread;
	char url[64];
	pthread_mutex_t lock;
	/* under the lock */
	struct fault_rule rules[MAX_RULES];
	unsigned left[MAX_RULES];
	size_t n_rules;
	char *heads[MAX_REQUESTS];
	unsigned n_requests, n_connections, n_open;
	struct conn conns[MAX_CONNS];
};

static void die(const char *what)
{
	perror(what);
	abort();
}

/* false: the server is stopped, or the client has closed the connection. */
static bool wait_ms(struct conn *c, int ms)
{
	struct pollfd p[2] = { { c->s->stop[0], POLLIN, 0 }, { c->fd, POLLRDHUP, 0 } };

	return poll(p, 2, ms) == 0;
}

static bool put(struct conn *c, const void *p, size_t n)
{
	const char *at = p;

	while (n) {
		ssize_t r = send(c->fd, at, n, MSG_NOSIGNAL | MSG_DONTWAIT);
		struct pollfd f[2] = { { c->s->stop[0], POLLIN, 0 }, { c->fd, POLLOUT, 0 } };

		if (r > 0) {
			at += r;
			n -= (size_t)r;
		} else if (errno != EAGAIN || poll(f, 2, -1) < 0 || f[0].revents) {
			return false;
		}
	}
	return true;
}

static bool put_drip(struct conn *c, const void *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!put(c, (const char *)p + i, 1) || !wait_ms(c, DRIP_MS))
			return false;
	return true;
}

static bool head_read(struct conn *c, struct buf *in, struct buf *ret)
{
	const char *end;
	size_t n;

	while (!in->size || !(end = memmem(in->p, in->size, "\r\n\r\n", 4))) {
		struct pollfd p[2] = { { c->s->stop[0], POLLIN, 0 }, { c->fd, POLLIN, 0 } };
		ssize_t r;

		if (in->size > MAX_HEAD || poll(p, 2, -1) < 0 || p[0].revents)
			return false;
		r = recv(c->fd, buf_reserve(in, 4096), 4096, 0);
		if (r <= 0)
			return false;
		in->size += (size_t)r;
	}
	n = (size_t)(end - (char *)in->p) + 4;
	buf_add(ret, in->p, n);
	memmove(in->p, in->p + n, in->size - n);
	in->size -= n;
	return true;
}

/* Skip the body of the request. */
static bool body_skip(struct conn *c, const char *head, struct buf *in)
{
	const char *p = strcasestr(head, "\r\nContent-Length: ");
	size_t left = p ? strtoul(p + strlen("\r\nContent-Length: "), NULL, 10) : 0, n;

	for (;;) {
		ssize_t r;

		n = MIN(left, in->size);
		left -= n;
		if (n)
			memmove(in->p, in->p + n, in->size - n);
		in->size -= n;
		if (!left)
			return true;
		r = recv(c->fd, buf_reserve(in, 4096), 4096, 0);
		if (r <= 0)
			return false;
		in->size += (size_t)r;
	}
}

/* The path of "GET /path HTTP/1.1" begins with @path. */
static bool is_at(const char *head, const char *path)
{
	const char *at = strchr(head, ' ');

	return !path || (at && strncmp(at + 1, path, strlen(path)) == 0);
}

static bool rule_take(struct fault_http *s, const char *head, struct fault_rule *ret)
{
	bool found = false;

	pthread_mutex_lock(&s->lock);
	if (s->n_requests < MAX_REQUESTS)
		s->heads[s->n_requests++] = mem_strdup(head);
	for (size_t i = 0; i < s->n_rules && !found; i++) {
		if (!is_at(head, s->rules[i].path) || (s->rules[i].times && !s->left[i]))
			continue;
		if (s->rules[i].times)
			s->left[i]--;
		*ret = s->rules[i];
		found = true;
	}
	pthread_mutex_unlock(&s->lock);
	return found;
}

static bool parse_range(const char *head, uint64_t size, uint64_t *ret_from, uint64_t *ret_to)
{
	const char *p = strcasestr(head, "\r\nRange: bytes=");
	unsigned long long from, to;
	int n = p ? sscanf(p + strlen("\r\nRange: bytes="), "%llu-%llu", &from, &to) : 0;

	if (n < 1 || from >= size)
		return false;
	*ret_from = from;
	*ret_to = n == 2 ? MIN((uint64_t)to + 1, size) : size;
	return true;
}

/* The next part of the body, in chunked encoding if the reply uses it. */
static bool put_body(struct conn *c, const struct fault_rule *r, const uint8_t *p, size_t n)
{
	char line[32];

	if (!r->chunked || !n)
		return put(c, p, n);
	snprintf(line, sizeof(line), "%zx\r\n", n);
	return put(c, line, strlen(line)) && put(c, p, n) && put(c, "\r\n", 2);
}

static bool send_body(struct conn *c, const struct fault_rule *r, const uint8_t *p, size_t n)
{
	struct linger hard = { 1, 0 };
	size_t first = r->fault == FAULT_NONE ? n : (size_t)MIN(r->at, (uint64_t)n);

	if (!put_body(c, r, p, first))
		return false;
	switch (r->fault) {
	case FAULT_STALL:
		while (wait_ms(c, 1000))
			;
		return false;
	case FAULT_PAUSE:
		return wait_ms(c, (int)r->pause_ms) && put_body(c, r, p + first, n - first);
	case FAULT_DRIP:
		return put_drip(c, p + first, n - first);
	case FAULT_RESET:
		setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
		return false;
	case FAULT_CUT:
		return false;
	default:
		return !r->chunked || put(c, "0\r\n\r\n", 5);
	}
}

static bool answer(struct conn *c, const char *head, const struct fault_rule *r)
{
	AUTO(buf_done) struct buf out = { 0 };
	uint64_t from = 0, to = r->body.size;
	bool part = !r->no_range && parse_range(head, r->body.size, &from, &to);
	struct fault_rule endless = *r;

	buf_printf(&out, "HTTP/1.1 %u Whatever\r\n%s",
		   r->status ? r->status
		   : part    ? 206u
			     : 200u,
		   r->headers ? r->headers : "");
	if (part)
		buf_printf(&out, "Content-Range: bytes %llu-%llu/%zu\r\n", (unsigned long long)from,
			   (unsigned long long)to - 1, r->body.size);
	if (r->chunked || r->fault == FAULT_ENDLESS)
		buf_add_str(&out, STR("Transfer-Encoding: chunked\r\n"));
	else
		buf_printf(&out, "Content-Length: %llu\r\n",
			   (unsigned long long)(r->length ? r->length : to - from));
	buf_add_str(&out, STR("\r\n"));
	if (!put(c, out.p, out.size))
		return false;
	if (strncmp(head, "HEAD ", 5) == 0)
		return true;
	endless.chunked = true;
	if (r->fault == FAULT_ENDLESS)
		while (put_body(c, &endless, r->body.p, r->body.size))
			;
	return r->fault != FAULT_ENDLESS &&
	       send_body(c, r, to > from ? r->body.p + from : NULL, (size_t)(to - from));
}

/* true: the connection can serve another request. */
static bool one_request(struct conn *c, struct buf *in)
{
	static const char long_header[] = "X-Long: 0123456789012345678901234567890123456789\r\n";
	AUTO(buf_done) struct buf head = { 0 };
	struct fault_rule r = { .status = 404 };

	if (!head_read(c, in, &head) || !body_skip(c, buf_cstr(&head), in))
		return false;
	rule_take(c->s, buf_cstr(&head), &r);
	if (r.delay_ms && !wait_ms(c, (int)r.delay_ms))
		return false;
	switch (r.fault) {
	case FAULT_SILENT:
		while (wait_ms(c, 1000))
			;
		return false;
	case FAULT_HANG_UP:
		return false;
	case FAULT_NOT_HTTP:
		put(c,
		    "\x7f"
		    "ELF is not HTTP\r\n\r\n",
		    20);
		return false;
	case FAULT_DRIP_HEAD:
	case FAULT_LONG_HEAD:
		put(c, "HTTP/1.1 200 OK\r\n", 17);
		while (r.fault == FAULT_LONG_HEAD ? put(c, long_header, strlen(long_header))
						  : put_drip(c, long_header, strlen(long_header)))
			;
		return false;
	default:
		return answer(c, (char *)head.p, &r);
	}
}

static void *serve(void *arg)
{
	struct conn *c = arg;
	AUTO(buf_done) struct buf in = { 0 };

	while (one_request(c, &in))
		;
	pthread_mutex_lock(&c->s->lock);
	close(c->fd);
	c->ended = true;
	c->s->n_open--;
	pthread_mutex_unlock(&c->s->lock);
	return NULL;
}

/* Under the lock. NULL: all are in use. */
static struct conn *conn_slot(struct fault_http *s)
{
	for (size_t i = 0; i < MAX_CONNS; i++) {
		struct conn *c = &s->conns[i];

		if (c->used && c->ended) {
			pthread_join(c->thread, NULL);
			*c = (struct conn){ 0 };
		}
		if (!c->used)
			return c;
	}
	return NULL;
}

static void *listening(void *arg)
{
	struct fault_http *s = arg;
	struct pollfd p[2] = { { s->stop[0], POLLIN, 0 }, { s->fd, POLLIN, 0 } };

	while (poll(p, 2, -1) >= 0 && !p[0].revents) {
		int fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC);
		struct conn *c;

		if (fd < 0)
			continue;
		pthread_mutex_lock(&s->lock);
		c = conn_slot(s);
		if (!c)
			die("too many connections");
		*c = (struct conn){ .s = s, .fd = fd, .used = true };
		s->n_connections++;
		s->n_open++;
		if (pthread_create(&c->thread, NULL, serve, c) != 0)
			die("pthread_create");
		pthread_mutex_unlock(&s->lock);
	}
	return NULL;
}

static int bound(char *url, size_t room)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(addr);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 ||
	    getsockname(fd, (struct sockaddr *)&addr, &size) < 0)
		die("bind");
	snprintf(url, room, "http://127.0.0.1:%u", ntohs(addr.sin_port));
	return fd;
}

struct fault_http *fault_http_new(const struct fault_rule *rules, size_t n_rules)
{
	struct fault_http *s = NEW(struct fault_http);

	pthread_mutex_init(&s->lock, NULL);
	fault_http_rules(s, rules, n_rules);
	s->fd = bound(s->url, sizeof(s->url));
	if (listen(s->fd, 128) < 0 || pipe(s->stop) < 0 ||
	    pthread_create(&s->thread, NULL, listening, s) != 0)
		die("fault_http");
	return s;
}

void fault_http_rules(struct fault_http *s, const struct fault_rule *rules, size_t n_rules)
{
	if (n_rules > MAX_RULES)
		die("too many rules");
	pthread_mutex_lock(&s->lock);
	s->n_rules = n_rules;
	for (size_t i = 0; i < n_rules; i++) {
		s->rules[i] = rules[i];
		s->left[i] = rules[i].times;
	}
	pthread_mutex_unlock(&s->lock);
}

void fault_http_free(struct fault_http *s)
{
	if (!s)
		return;
	if (write(s->stop[1], "", 1) != 1)
		die("write");
	pthread_join(s->thread, NULL);
	for (size_t i = 0; i < MAX_CONNS; i++)
		if (s->conns[i].used)
			pthread_join(s->conns[i].thread, NULL);
	for (unsigned i = 0; i < s->n_requests; i++)
		free(s->heads[i]);
	close(s->fd);
	close(s->stop[0]);
	close(s->stop[1]);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

const char *fault_http_url(const struct fault_http *s)
{
	return s->url;
}

unsigned fault_http_requests(struct fault_http *s, const char *path)
{
	unsigned n = 0;

	pthread_mutex_lock(&s->lock);
	for (unsigned i = 0; i < s->n_requests; i++)
		n += is_at(s->heads[i], path);
	pthread_mutex_unlock(&s->lock);
	return n;
}

static unsigned number(struct fault_http *s, const unsigned *n)
{
	unsigned v;

	pthread_mutex_lock(&s->lock);
	v = *n;
	pthread_mutex_unlock(&s->lock);
	return v;
}

unsigned fault_http_connections(struct fault_http *s)
{
	return number(s, &s->n_connections);
}

unsigned fault_http_open(struct fault_http *s)
{
	return number(s, &s->n_open);
}

const char *fault_http_head(struct fault_http *s, unsigned i)
{
	const char *head;

	pthread_mutex_lock(&s->lock);
	head = i < s->n_requests ? s->heads[i] : "";
	pthread_mutex_unlock(&s->lock);
	return head;
}

/* ---- unreachable machines ---- */

/*
 * A listening socket whose queue is full: the kernel then drops new connections silently, also on the
 * loopback.
 */
void fault_dead_drops(struct fault_dead *d, char *url)
{
	struct sockaddr_in addr;
	socklen_t size = sizeof(addr);

	d->fd = bound(url, 64);
	if (listen(d->fd, 0) < 0 || getsockname(d->fd, (struct sockaddr *)&addr, &size) < 0)
		die("listen");
	for (size_t i = 0; i < ARRAY_SIZE(d->fill); i++) {
		d->fill[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (d->fill[i] < 0 ||
		    (connect(d->fill[i], (struct sockaddr *)&addr, sizeof(addr)) < 0 && errno != EINPROGRESS))
			die("connect");
	}
}

void fault_dead_refuses(struct fault_dead *d, char *url)
{
	d->fd = bound(url, 64);
	for (size_t i = 0; i < ARRAY_SIZE(d->fill); i++)
		d->fill[i] = -1;
}

void fault_dead_done(struct fault_dead *d)
{
	for (size_t i = 0; i < ARRAY_SIZE(d->fill); i++)
		if (d->fill[i] >= 0)
			close(d->fill[i]);
	close(d->fd);
}
