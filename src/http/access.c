/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The access log: one line per request, in the order that scripts for elfutils' server look for:
 *
 *   2026-11-21T07:29:00.123Z info  http: 127.0.0.1:50212 UA:curl/7.88 XFF: GET /buildid/.../debuginfo 200 12345 3ms
 *
 * A thread of its own writes the gathered lines, so that a request never waits for the reader of the log.
 * While that reader is slower than the requests for long, lines are dropped and counted.
 */
#include "http/access.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include "base/condition.h"

#define FLUSH_MS     100
#define FLUSH_SINGLE 16u
#define FLUSH_SIZE   KIB(32)
#define MAX_PENDING  MIB(4)
#define LINE_SIZE    2048u
#define MAX_FIELD    400u /* of a header */
#define MAX_PATH     1024u
#define NUMBERS_SIZE 80u /* of the words after the path */

struct access_log {
	int fd;
	const char *secret_below;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	/* under the lock */
	struct buf pending;
	uint64_t n_dropped;
	bool stop;
	char second_text[32]; /* of second_s */
	size_t second_size;
	int64_t second_s;
};

/*
 * Printable ASCII without blanks passes, all other bytes become "_": a line has the same number of words
 * for any header.
 */
static char *line_add_word(char *p, const char *end, const char *s, size_t max)
{
	size_t n = s ? strnlen(s, MIN(max, (size_t)(end - p))) : 0;

	for (size_t i = 0; i < n; i++)
		p[i] = s[i] > 0x20 && s[i] < 0x7f ? s[i] : '_';
	return p + n;
}

/* Lines are written without printf: it took a fifth of the instructions of a small reply. */
static char *line_add_text(char *p, struct str s)
{
	memcpy(p, s.p, s.size);
	return p + s.size;
}

static char *line_add_number(char *p, uint64_t v)
{
	char digits[20], *end = digits + sizeof(digits), *d = end;

	do
		*--d = (char)('0' + v % 10);
	while (v /= 10);
	return line_add_text(p, (struct str){ d, (size_t)(end - d) });
}

static char *line_add_inet(char *p, const struct sockaddr_in *in)
{
	const uint8_t *b = (const uint8_t *)&in->sin_addr;

	for (unsigned i = 0; i < 4; i++) {
		p = line_add_number(p, b[i]);
		*p++ = i < 3 ? '.' : ':';
	}
	return line_add_number(p, ntohs(in->sin_port));
}

static char *line_add_peer(char *p, const struct sockaddr *addr)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)addr;
	char text[INET6_ADDRSTRLEN] = "";

	switch (addr ? addr->sa_family : AF_UNSPEC) {
	case AF_INET:
		return line_add_inet(p, (const struct sockaddr_in *)addr);
	case AF_INET6:
		inet_ntop(AF_INET6, &in6->sin6_addr, text, sizeof(text));
		*p++ = '[';
		p = line_add_text(p, str_of(text));
		p = line_add_text(p, STR("]:"));
		return line_add_number(p, ntohs(in6->sin6_port));
	case AF_UNIX:
		return line_add_text(p, STR("unix:0"));
	default:
		return line_add_text(p, STR("-:0"));
	}
}

/* Take the next character of a path, unescaped. false: the path ends, or has a broken escape. */
static bool take_path_char(struct str *path, char *ret)
{
	size_t n = path->size && path->p[0] == '%' ? 3 : 1, ignored;

	if (path->size < n || !hex_unescape((struct str){ path->p, n }, true, ret, &ignored))
		return false;
	*path = (struct str){ path->p + n, path->size - n };
	return true;
}

/*
 * @url is below @prefix in the way in which the routes read it (route.c): after "http://host", with escapes, and with more
 * slashes before the first name, which a reverse proxy may add.
 */
static bool is_below(const char *url, struct str prefix)
{
	const char *host = url[0] == '/' ? NULL : strstr(url, "://"),
		   *slash = host ? strchr(host + 3, '/') : NULL;
	struct str path = str_of(slash ? slash : url);
	size_t n = 0;

	while (n < prefix.size) {
		char c;

		if (!take_path_char(&path, &c) || (c != prefix.p[n] && (n != 1 || c != '/')))
			return false;
		n += c == prefix.p[n];
	}
	return true;
}

/* A request that was refused has not used its secret up, so a line with it would give it to all readers of the log. */
static char *line_add_path(char *p, const char *end, const char *url, const char *secret_below)
{
	if (!secret_below || !url || !is_below(url, str_of(secret_below)))
		return line_add_word(p, end, url, MAX_PATH);
	p = line_add_word(p, end, secret_below, MAX_PATH);
	return line_add_text(p, STR("..."));
}

/* All of a line but its time. Returns its size. */
static size_t line_write(char line[LINE_SIZE], const char *secret_below, const struct access_entry *e)
{
	const struct http_head *head = http_head(e->conn);
	/* Of a malformed head no fact is known. */
	const char *agent = head->wrong ? http_header(e->conn, "User-Agent") : head->user_agent;
	const char *forwarded_for = head->wrong ? http_header(e->conn, "X-Forwarded-For")
						: head->forwarded_for;
	char *p = line_add_peer(line, http_peer(e->conn));
	const char *end = line + LINE_SIZE - NUMBERS_SIZE;

	p = line_add_text(p, STR(" UA:"));
	p = line_add_word(p, end, agent, MAX_FIELD);
	p = line_add_text(p, STR(" XFF:"));
	p = line_add_word(p, end, forwarded_for, MAX_FIELD);
	*p++ = ' ';
	p = line_add_word(p, end, e->method, 16);
	*p++ = ' ';
	p = line_add_path(p, end, e->url, secret_below);
	*p++ = ' ';
	p = line_add_number(p, e->status);
	*p++ = ' ';
	p = line_add_number(p, e->bytes);
	*p++ = ' ';
	p = line_add_number(p, (uint64_t)MAX(e->ns / 1000000, INT64_C(0)));
	p = line_add_text(p, e->complete ? STR("ms\n") : STR("ms cut\n"));
	return (size_t)(p - line);
}

/* Under the lock: the time at the start of a line. The text of a second is kept for the lines in it. */
static void write_time(struct access_log *l, int64_t now_ms)
{
	unsigned ms = (unsigned)(now_ms % 1000);
	char digits[] = { '.', (char)('0' + ms / 100), (char)('0' + ms / 10 % 10), (char)('0' + ms % 10) };

	if (now_ms / 1000 != l->second_s) {
		time_t t = (time_t)(now_ms / 1000);
		struct tm tm;

		l->second_s = now_ms / 1000;
		gmtime_r(&t, &tm);
		l->second_size = strftime(l->second_text, sizeof(l->second_text), "%Y-%m-%dT%H:%M:%S", &tm);
	}
	buf_add(&l->pending, l->second_text, l->second_size);
	buf_add(&l->pending, digits, sizeof(digits));
	buf_add_str(&l->pending, STR("Z info  http: "));
}

void access_line(struct access_log *l, const struct access_entry *e)
{
	char line[LINE_SIZE];
	int64_t now_ms = clock_wall_ms();
	size_t n = line_write(line, l->secret_below, e), before;

	pthread_mutex_lock(&l->lock);
	if (l->pending.size > MAX_PENDING) {
		l->n_dropped++;
		pthread_mutex_unlock(&l->lock);
		return;
	}
	before = l->pending.size;
	write_time(l, now_ms);
	buf_add(&l->pending, line, n);
	if (!before || (before < FLUSH_SIZE && l->pending.size >= FLUSH_SIZE))
		pthread_cond_signal(&l->wake);
	pthread_mutex_unlock(&l->lock);
}

static void *access_run(void *arg)
{
	struct access_log *l = arg;
	struct buf out = { 0 };
	bool stop = false;
	int64_t window_ms = 0;
	unsigned n_single = 0; /* writes without gathering in this window */

	pthread_setname_np(pthread_self(), "lode-access");
	while (!stop) {
		uint64_t n_dropped;
		struct buf empty = { 0 };

		pthread_mutex_lock(&l->lock);
		while (!l->stop && !l->pending.size)
			pthread_cond_wait(&l->wake, &l->lock);
		/* A few lines are written at once, so that a reader finds them; of many, some are gathered. */
		if (clock_mono_ms() >= window_ms + FLUSH_MS) {
			window_ms = clock_mono_ms();
			n_single = 0;
		}
		if (!l->stop && l->pending.size < FLUSH_SIZE && n_single++ >= FLUSH_SINGLE)
			condition_wait(&l->wake, &l->lock, FLUSH_MS);
		stop = l->stop;
		out.size = 0;
		empty = l->pending;
		l->pending = out; /* the two buffers take turns */
		out = empty;
		n_dropped = l->n_dropped;
		l->n_dropped = 0;
		pthread_mutex_unlock(&l->lock);

		if (out.size)
			fd_write(l->fd, out.p, out.size, NULL);
		if (n_dropped)
			log_warn("http", "%llu lines of the access log were dropped: its reader is too slow",
				 (unsigned long long)n_dropped);
	}
	buf_done(&out);
	return NULL;
}

struct access_log *access_new(int fd, const char *secret_below)
{
	struct access_log *l = NEW(struct access_log);

	l->fd = fd;
	l->secret_below = secret_below;
	pthread_mutex_init(&l->lock, NULL);
	condition_init(&l->wake);
	if (pthread_create(&l->thread, NULL, access_run, l) != 0) {
		free(l);
		return NULL;
	}
	return l;
}

void access_free(struct access_log *l)
{
	if (!l)
		return;
	pthread_mutex_lock(&l->lock);
	l->stop = true;
	pthread_cond_signal(&l->wake);
	pthread_mutex_unlock(&l->lock);
	pthread_join(l->thread, NULL);
	buf_done(&l->pending);
	pthread_mutex_destroy(&l->lock);
	pthread_cond_destroy(&l->wake);
	free(l);
}
