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
#include <stdio.h>
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

struct access_log {
	int fd;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	/* under the lock */
	struct buf pending;
	uint64_t n_dropped;
	bool stop;
	char second_text[32]; /* of second_s */
	int64_t second_s;
};

/*
 * Printable ASCII without blanks passes, all other bytes become "_": a line has the same number of words
 * for any header.
 */
static char *line_add_word(char *p, const char *end, const char *s, size_t max)
{
	for (size_t i = 0; s && s[i] && i < max && p < end; i++)
		*p++ = s[i] > 0x20 && s[i] < 0x7f ? s[i] : '_';
	return p;
}

static char *line_add_peer(char *p, const char *end, const struct sockaddr *addr)
{
	char text[INET6_ADDRSTRLEN] = "-";
	unsigned port = 0;

	if (addr && addr->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)addr;
		const uint8_t *b = (const uint8_t *)&in->sin_addr;

		/* The most frequent case; inet_ntop() uses printf. */
		snprintf(text, sizeof(text), "%u.%u.%u.%u", b[0], b[1], b[2], b[3]);
		port = ntohs(in->sin_port);
	} else if (addr && addr->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)addr;

		inet_ntop(AF_INET6, &in6->sin6_addr, text, sizeof(text));
		port = ntohs(in6->sin6_port);
	} else if (addr && addr->sa_family == AF_UNIX) {
		strcpy(text, "unix");
	}
	return p + snprintf(p, (size_t)(end - p), strchr(text, ':') ? "[%s]:%u" : "%s:%u", text, port);
}

void access_line(struct access_log *l, const struct access_entry *e)
{
	char line[LINE_SIZE], *p = line, *end = line + sizeof(line) - 80;
	int64_t now_ms = clock_wall_ms();
	size_t n, before;

	p = line_add_peer(p, end, http_peer(e->conn));
	p = stpcpy(p, " UA:");
	p = line_add_word(p, end, http_header(e->conn, "User-Agent"), MAX_FIELD);
	p = stpcpy(p, " XFF:");
	p = line_add_word(p, end, http_header(e->conn, "X-Forwarded-For"), MAX_FIELD);
	*p++ = ' ';
	p = line_add_word(p, end, e->method, 16);
	*p++ = ' ';
	p = line_add_word(p, end, e->url, MAX_PATH);
	p += sprintf(p, " %u %llu %lldms%s\n", e->status, (unsigned long long)e->bytes,
		     (long long)(e->ns / 1000000), e->complete ? "" : " cut");
	n = (size_t)(p - line);

	pthread_mutex_lock(&l->lock);
	if (l->pending.size > MAX_PENDING) {
		l->n_dropped++;
		pthread_mutex_unlock(&l->lock);
		return;
	}
	if (now_ms / 1000 != l->second_s) {
		time_t t = (time_t)(now_ms / 1000);
		struct tm tm;

		l->second_s = now_ms / 1000;
		gmtime_r(&t, &tm);
		strftime(l->second_text, sizeof(l->second_text), "%Y-%m-%dT%H:%M:%S", &tm);
	}
	before = l->pending.size;
	p = (char *)buf_reserve(&l->pending, n + 64);
	p += sprintf(p, "%s.%03uZ info  http: ", l->second_text, (unsigned)(now_ms % 1000));
	l->pending.size = (size_t)(p - (char *)l->pending.p);
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

struct access_log *access_new(int fd)
{
	struct access_log *l = NEW(struct access_log);

	l->fd = fd;
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
