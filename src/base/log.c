/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log. A line is composed in a local buffer and written by one write(2), so that lines of several
 * threads, or of processes that share the descriptor, do not mix.
 */
#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/view.h"

/* Not more than PIPE_BUF: a longer write into a pipe may be torn. */
#define LINE_MAX_SIZE 4096
/* The longest form of one input character: "\xNN" for each of its bytes. */
#define ESCAPE_MAX 16

static atomic_int max_level = LOG_INFO;
static atomic_int out_fd = 2;
static void (*sink)(void *arg, enum log_level level, const char *area, const char *text);
static void *sink_arg;

static pthread_mutex_t journal_lock = PTHREAD_MUTEX_INITIALIZER;
static int journal_fd = -1; /* under journal_lock: the descriptor that `journal` is about */
static bool journal;        /* under journal_lock */

static const struct {
	const char *name;
	int priority; /* syslog's, for the journal */
} levels[] = {
	[LOG_ERROR] = { "error", 3 },
	[LOG_WARN] = { "warn ", 4 },
	[LOG_INFO] = { "info ", 6 },
	[LOG_DEBUG] = { "debug", 7 },
};

/* JOURNAL_STREAM is "device:inode". A child inherits it even if its stderr is redirected, hence the
 * comparison. */
static bool is_journal(int fd)
{
	const char *env = getenv("JOURNAL_STREAM");
	unsigned long long dev, ino;
	struct stat st;

	return env && sscanf(env, "%llu:%llu", &dev, &ino) == 2 && fstat(fd, &st) == 0 && st.st_dev == dev &&
	       st.st_ino == ino;
}

static bool fd_is_journal(int fd)
{
	bool r;

	pthread_mutex_lock(&journal_lock);
	if (journal_fd != fd) {
		journal = is_journal(fd);
		journal_fd = fd;
	}
	r = journal;
	pthread_mutex_unlock(&journal_lock);
	return r;
}

/* The size of a well-formed and harmless UTF-8 character at @s, which is not ASCII; else 0. */
static size_t utf8_size(const unsigned char *s)
{
	uint32_t c;
	/* Stop at the NUL at the end. */
	size_t n = str_utf8((struct str){ (const char *)s, strnlen((const char *)s, 4) }, &c);

	return n && c >= 0xa0 && !utf8_is_harmful(c) ? n : 0;
}

/* Append @text to line[*at], escaped, at most up to @end; false: it did not fit. */
static bool log_add_escaped(char *line, size_t *at, size_t end, const char *text)
{
	const unsigned char *s = (const unsigned char *)text;

	while (*s) {
		char piece[ESCAPE_MAX];
		size_t used = 1, n;

		if (*s == '\n' || *s == '\t' || *s == '\r' || *s == '\\') {
			n = (size_t)snprintf(piece, sizeof(piece), "\\%c",
					     *s == '\n'   ? 'n'
					     : *s == '\t' ? 't'
					     : *s == '\r' ? 'r'
							  : '\\');
		} else if (*s >= 0x20 && *s < 0x7f) {
			piece[0] = (char)*s;
			n = 1;
		} else if ((n = utf8_size(s)) != 0) {
			memcpy(piece, s, n);
			used = n;
		} else {
			n = (size_t)snprintf(piece, sizeof(piece), "\\x%02x", *s);
		}
		if (*at + n > end)
			return false;
		memcpy(line + *at, piece, n);
		*at += n;
		s += used;
	}
	return true;
}

void log_set_level(enum log_level level)
{
	atomic_store_explicit(&max_level, (int)level, memory_order_relaxed);
}

enum log_level log_level(void)
{
	return (enum log_level)atomic_load_explicit(&max_level, memory_order_relaxed);
}

void log_set_fd(int fd)
{
	pthread_mutex_lock(&journal_lock);
	journal_fd = -1; /* the same number may be another file by now */
	pthread_mutex_unlock(&journal_lock);
	atomic_store(&out_fd, fd);
}

void log_set_sink(void (*fn)(void *arg, enum log_level level, const char *area, const char *text), void *arg)
{
	sink = fn;
	sink_arg = arg;
}

void log_at(enum log_level level, const char *area, const char *fmt, ...)
{
	char text[LINE_MAX_SIZE], line[LINE_MAX_SIZE];
	size_t n, end = sizeof(line) - 4; /* room for "...\n" */
	int fd = atomic_load(&out_fd), err_no = errno;
	va_list ap;
	ssize_t r;

	if (level > log_level())
		return;
	va_start(ap, fmt);
	if (vsnprintf(text, sizeof(text), fmt, ap) < 0)
		text[0] = '\0';
	va_end(ap);

	if (sink) {
		sink(sink_arg, level, area, text);
		errno = err_no;
		return;
	}
	if (fd_is_journal(fd)) {
		n = (size_t)snprintf(line, sizeof(line), "<%d>", levels[level].priority);
	} else {
		int64_t now = clock_wall_ms();
		time_t s = now / 1000;
		struct tm tm;

		gmtime_r(&s, &tm);
		n = strftime(line, sizeof(line), "%Y-%m-%dT%H:%M:%S", &tm);
		n += (size_t)snprintf(line + n, sizeof(line) - n, ".%03dZ %s ", (int)(now % 1000),
				      levels[level].name);
	}
	if (!log_add_escaped(line, &n, end, area) || !log_add_escaped(line, &n, end, ": ") ||
	    !log_add_escaped(line, &n, end, text)) {
		memcpy(line + n, "...", 3);
		n += 3;
	}
	line[n++] = '\n';
	/* If this fails there is no place to report it. */
	do
		r = write(fd, line, n);
	while (r < 0 && errno == EINTR);
	errno = err_no;
}
