/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The status of the service on a terminal: its addresses, the progress of the first scan, then one line
 * for a notable event, and always, as the last line, where to look. Where stderr is no terminal, or with -v,
 * there is no console and the log is written line by line as ever.
 *
 * All functions take a NULL console and do nothing then.
 */
#pragma once

#include "cmd/service/service.h"

struct console;

/* From now on the log goes through the console: warnings and errors are shown, the rest is not. NULL: stderr
 * is no terminal, or @verbose. */
struct console *console_new(bool verbose);
/* Ends the line at the bottom; the log goes to stderr again. */
void console_free(struct console *c);

/* The sources of events, all borrowed; each may be NULL. */
struct console_sources {
	struct scan *scan; /* not NULL */
	struct net *net;
	struct profilestore *profiles;
	const char *url; /* of the service, without the slash at its end */
};
/* Once, when the service listens. */
void console_started(struct console *c, const struct console_sources *from);
/* Several times a second, from one thread: the progress, and new events of the sources. */
void console_tick(struct console *c);
/* The service stops, which may take seconds. */
void console_stopping(struct console *c);
/* An object was pushed. From any thread. */
void console_pushed(struct console *c, const struct store_key *key, const struct store_meta *meta);
