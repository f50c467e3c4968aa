/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of commands, and the run of one of them.
 */
#include "cmd/internal.h"

const struct command *const commands[] = {
	/* One command a line. */
	/* clang-format off */
	&command_serve,
	&command_scan,
	&command_inspect,
	&find_command,
	&command_split,
	&command_stat,
	&command_push,
	&command_send,
	&command_agent,
	&command_demo,
	&command_store,
	&command_token,
	&command_backup,
	&command_debuginfod,
	&command_debuginfod_find,
	&command_symbolize,
	&command_profile,
	&command_addr2line,
	&command_symtab,
	&command_completion,
	&command_version,
	&command_help,
	NULL,
	/* clang-format on */
};

static int check_args(const struct command *cmd, const struct settings *s, struct err *err)
{
	size_t n = s->paths.n;

	if (n < cmd->min_args)
		return err_set(err, ERR_INVALID, "%s", cmd->missing);
	if (n > cmd->max_args)
		return err_set(err, ERR_INVALID, "one argument too many: '" STR_FMT "'",
			       STR_ARG(s->paths.items[cmd->max_args]));
	return 0;
}

/* The output is the result: if it cannot be written, the command has failed. */
static int end_output(const struct command *cmd, int status)
{
	struct err err = { 0 };

	/* A write that failed before has lost its bytes, so the last one may succeed. */
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	(void)err_set(&err, ERR_IO, "the output is incomplete: standard output could not be written");
	(void)tell_error(cmd->name, &err);
	return status == EXIT_DONE ? EXIT_FAILED : status;
}

static int command_run(const struct command *cmd, int argc, char **argv)
{
	struct settings s;
	struct err err = { 0 };
	int r, status;

	settings_init(&s, cmd, commands);
	if (cmd->defaults)
		cmd->defaults(&s);
	r = options_read(cmd, argc, argv, &s, &err);
	if (r == 0)
		r = check_args(cmd, &s, &err);
	if (r < 0) {
		status = usage_error(cmd->name, "%s", err.text);
	} else if (r == OPTIONS_HELP) {
		help_print(cmd, stdout);
		status = EXIT_DONE;
	} else {
		if (s.verbose)
			log_set_level(LOG_DEBUG);
		status = cmd->run(&s);
	}
	settings_done(&s);
	return end_output(cmd, status);
}

static bool asks_for_version(struct str arg)
{
	return str_eq(arg, STR("--version")) || str_eq(arg, STR("-V"));
}

/* The command that has the program's name: debuginfod and debuginfod-find may be links to it. NULL: none. */
static const struct command *command_of_program(struct str path)
{
	struct str name = path_basename(path);

	return str_eq(name, STR("debuginfod"))        ? &command_debuginfod
	       : str_eq(name, STR("debuginfod-find")) ? &command_debuginfod_find
						      : NULL;
}

int cmd_run(int argc, char **argv)
{
	const struct command *cmd = argc ? command_of_program(str_of(argv[0])) : NULL;
	struct str first;

	if (cmd && argc == 2 && asks_for_version(str_of(argv[1])))
		return command_run(&command_version, 1, argv);
	if (cmd)
		return command_run(cmd, argc, argv);
	if (argc < 2) {
		help_overview(commands, stderr);
		return EXIT_USAGE;
	}
	first = str_of(argv[1]);
	if (str_eq(first, STR("--help")) || str_eq(first, STR("-h")))
		first = STR("help");
	else if (asks_for_version(first))
		first = STR("version");
	cmd = command_find(commands, first);
	if (!cmd) {
		fprintf(stderr, "lode: there is no command '");
		print_text(stderr, first);
		fprintf(stderr, "'; lode help lists the commands\n");
		return EXIT_USAGE;
	}
	return command_run(cmd, argc - 1, argv + 1);
}
