/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd's own: the commands' table, options, and the service that `serve` and `debuginfod` share.
 */
#pragma once

#include <jansson.h>
#include <stdio.h>
#include "cmd/cmd.h"
#include "server/server.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* One option. --help, completion and the test of the man pages are made from these rows. */
struct option_row {
	int key;          /* names it in `set`; from 256 on, or its short letter */
	const char *name; /* long name; NULL: short only */
	const char *arg;  /* what stands behind it; NULL: a switch. "[N]": may be missing (short form only) */
	const char *help; /* NULL: hidden */
};
#define OPTION_END { 0, NULL, NULL, NULL }
#define OPTION_HELP 'h'

struct command {
	const char *name, *args, *summary, *examples;
	const struct option_row *options;
	int (*run)(const struct command *cmd, int argc, char **argv);
};
extern const struct command command_serve, command_scan, command_inspect, command_stat, command_debuginfod, command_help,
	command_version, command_completion;
extern const struct command *const commands[]; /* NULL at the end */

/*
 * Read the options of @argv: `set` is called for each, in order; what is no option is left in argv[*ret_first..]. --help
 * prints and gives 1. 0, 1 (answered: exit 0) or -1 (usage: told on stderr).
 */
int options_read(const struct command *cmd, int argc, char **argv, int (*set)(void *ctx, int key, const char *value, struct err *err),
		 void *ctx, int *ret_first);
/*
 * The same from what comes before the command line: the file (--config, $LODE_CONFIG, else /etc/lode/lode.conf where it is), with lines
 * "long-name = value", and then the environment (LODE_LONG_NAME). Keys that this command does not have are another's.
 */
int options_read_defaults(const struct command *cmd, int argc, char **argv, int (*set)(void *ctx, int key, const char *value, struct err *err),
			  void *ctx);
void options_help(const struct command *cmd, FILE *out);

/* Values. All of @value, or ERR_INVALID. */
int value_u64(const char *value, uint64_t max, uint64_t *ret, struct err *err);
int value_size(const char *value, uint64_t *ret, struct err *err); /* 10, 64K, 256M, 2G */

/* Bytes of any kind as a JSON string: what is no UTF-8 is escaped as \\xNN. */
json_t *json_text(struct str s);

/* "lode: what: why". Returns EXIT_FAILED. */
int fail(const struct err *err);
int fail_usage(const struct command *cmd, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Where the state lies: @given, $LODE_DATA, /var/lib/lode for root, $XDG_STATE_HOME/lode. On the heap. */
char *data_dir(const char *given);

/* ---- the service ---- */

#define SERVICE_MAX_LISTEN 16

struct service_options {
	struct scan_options scan;
	struct server_options server;
	char *data; /* heap */
	const char *index_path; /* NULL: in data */
	size_t span_cache, map_cache;
	bool source_any;
};
/* Lock the data directory, start scan, resolver and server, tell where to look, run until a signal, stop. Returns an exit status. */
int service_run(struct service_options *opts);
/* Take the data directory for this process: the lock is held until exit. */
int service_lock(const char *data, struct err *err);
