/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log: one line an event on stderr, "2026-11-21T07:29:00.123Z info scan: text", or with the journal's <N>
 * prefixes if JOURNAL_STREAM names stderr. Control characters in the text are escaped, so no byte from
 * outside reaches a terminal as a control character. Only edges log (a request, a job, a command). Safe for
 * many threads.
 */
#pragma once

#include "base/err.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

void log_set_level(enum log_level level); /* default LOG_INFO */
enum log_level log_level(void);
void log_set_fd(int fd); /* default 2; borrowed */
/* Pass lines to @sink instead of the descriptor, from any thread, unescaped; NULL: to the descriptor. Call it
 * only while no other thread logs. */
void log_set_sink(void (*sink)(void *arg, enum log_level level, const char *area, const char *text),
		  void *arg);
void log_at(enum log_level level, const char *area, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
#define log_error(area, ...) log_at(LOG_ERROR, (area), __VA_ARGS__)
#define log_warn(area, ...)  log_at(LOG_WARN, (area), __VA_ARGS__)
#define log_info(area, ...)  log_at(LOG_INFO, (area), __VA_ARGS__)
#define log_debug(area, ...) log_at(LOG_DEBUG, (area), __VA_ARGS__)
