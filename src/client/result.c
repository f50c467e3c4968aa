/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The result of a request, and the lines that report its steps.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include "client/internal.h"

void client_say(const struct client_watch *w, const char *fmt, ...)
{
	char line[2048];
	va_list ap;

	if (!w || !w->say)
		return;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	w->say(w->arg, line);
}

void result_why(struct client_result *r, const struct client_watch *w, const char *fmt, ...)
{
	char line[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	for (char *p = line; *p; p++)
		if ((unsigned char)*p < ' ')
			*p = '?';
	buf_printf(&r->why, "%s\n", line);
	client_say(w, "%s", line);
}

int result_fail(struct client_result *r, enum client_outcome outcome, int os)
{
	r->outcome = outcome;
	r->os = os;
	return -1;
}

void client_result_done(struct client_result *r)
{
	fd_close(&r->fd);
	free(r->path);
	free(r->url);
	free(r->headers);
	buf_done(&r->why);
	*r = (struct client_result){ .fd = -1 };
}
