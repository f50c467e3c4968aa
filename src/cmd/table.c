/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of commands, and what every command shares: telling errors, the data directory.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>
#include "cmd/internal.h"

const struct command *const commands[] = {
	&command_serve,      &command_scan,    &command_inspect, &command_stat, &command_debuginfod,
	&command_completion, &command_version, &command_help,    NULL,
};

int fail(const struct err *err)
{
	fprintf(stderr, "lode: %s\n", err->text);
	return EXIT_FAILED;
}

int fail_usage(const struct command *cmd, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "lode: %s: ", cmd->name);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\nlode: try: lode help %s\n", cmd->name);
	return EXIT_USAGE;
}

char *data_dir(const char *given)
{
	const char *env = getenv("LODE_DATA"), *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

	if (given && *given)
		return mem_strdup(given);
	if (env && *env)
		return mem_strdup(env);
	if (geteuid() == 0)
		return mem_strdup("/var/lib/lode");
	if (state && *state)
		return mem_printf("%s/lode", state);
	return mem_printf("%s/.local/state/lode", home && *home ? home : "/tmp");
}

static const struct command *find(const char *name)
{
	for (size_t i = 0; commands[i]; i++)
		if (strcmp(commands[i]->name, name) == 0)
			return commands[i];
	return NULL;
}

/* ---- help ---- */

static void overview(FILE *out)
{
	fprintf(out, "lode finds, serves and keeps debug information.\n\n  lode COMMAND [OPTION...] "
		     "[ARGUMENT...]\n\n");
	for (size_t i = 0; commands[i]; i++)
		fprintf(out, "  %-12s %s\n", commands[i]->name, commands[i]->summary);
	fprintf(out, "\n`lode help COMMAND` tells its options, with examples.\n"
		     "Serve this machine's own files: lode serve\n");
}

static int help(const struct command *cmd, int argc, char **argv)
{
	const struct command *about;

	if (argc < 2) {
		overview(stdout);
		return EXIT_DONE;
	}
	about = find(argv[1]);
	if (!about)
		return fail_usage(cmd, "there is no command '%s'", argv[1]);
	options_help(about, stdout);
	return EXIT_DONE;
}

static const struct option_row no_options[] = { OPTION_END };

const struct command command_help = {
	.name = "help",
	.args = "[COMMAND]",
	.summary = "what the commands do, and their options",
	.options = no_options,
	.run = help,
};

static int version(const struct command *cmd, int argc, char **argv)
{
	printf("lode %s\n", LODE_VERSION);
	return EXIT_DONE;
}

const struct command command_version = {
	.name = "version",
	.args = "",
	.summary = "print the version",
	.options = no_options,
	.run = version,
};

int cmd_run(int argc, char **argv)
{
	const char *self = argc ? strrchr(argv[0], '/') : NULL;
	const struct command *cmd;

	self = self ? self + 1 : argc ? argv[0] : "lode";
	if (strcmp(self, "debuginfod") == 0)
		return command_debuginfod.run(&command_debuginfod, argc, argv);
	if (argc < 2) {
		overview(stderr);
		return EXIT_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
		overview(stdout);
		return EXIT_DONE;
	}
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)
		return version(NULL, 0, NULL);
	cmd = find(argv[1]);
	if (!cmd) {
		fprintf(stderr, "lode: there is no command '%s'\n\n", argv[1]);
		overview(stderr);
		return EXIT_USAGE;
	}
	return cmd->run(cmd, argc - 1, argv + 1);
}
