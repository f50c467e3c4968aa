/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of commands, and how one of them comes to run.
 */
#include "cmd/internal.h"

const struct command *const commands[] = {
	/* clang-format off: one a line */
	&command_serve,
	&command_scan,
	&command_inspect,
	&find_command,
	&command_split,
	&command_stat,
	&command_push,
	&command_send,
	&command_demo,
	&command_store,
	&command_token,
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

const struct command *command_find(struct str name)
{
	for (size_t i = 0; commands[i]; i++)
		if (str_eq(name, str_of(commands[i]->name)))
			return commands[i];
	return NULL;
}

static int usage(const struct command *cmd, const char *why)
{
	fprintf(stderr, "lode: %s: ", cmd->name);
	print_text(stderr, str_of(why));
	fprintf(stderr, "\nlode: see: lode help %s\n", cmd->name);
	return EXIT_USAGE;
}

static int check_args(const struct command *cmd, const struct settings *s, struct err *err)
{
	size_t n = s->paths.n;

	if (n < cmd->min_args)
		return err_set(err, ERR_INVALID, "%s", cmd->missing);
	if (n > cmd->max_args)
		return err_set(err, ERR_INVALID, "what is '" STR_FMT "' for?",
			       STR_ARG(s->paths.items[cmd->max_args]));
	return 0;
}

static int run(const struct command *cmd, int argc, char **argv)
{
	struct settings s;
	struct err err = { 0 };
	int r, status;

	settings_init(&s);
	if (cmd->defaults)
		cmd->defaults(&s);
	r = options_read(cmd, argc, argv, &s, &err);
	if (r == 0)
		r = check_args(cmd, &s, &err);
	if (r < 0) {
		status = usage(cmd, err.text);
	} else if (r == OPTIONS_HELP) {
		help_print(cmd, stdout);
		status = EXIT_DONE;
	} else {
		if (s.verbose)
			log_set_level(LOG_DEBUG);
		status = cmd->run(&s);
	}
	settings_done(&s);
	/* What was printed is the result: one that did not arrive is none. */
	if (fflush(stdout) != 0 && status == EXIT_DONE)
		status = EXIT_FAILED;
	return status;
}

int cmd_run(int argc, char **argv)
{
	const struct command *cmd;
	struct str first;

	if (argc > 0 && str_eq(path_basename(str_of(argv[0])), STR("debuginfod")))
		return run(&command_debuginfod, argc, argv);
	if (argc > 0 && str_eq(path_basename(str_of(argv[0])), STR("debuginfod-find")))
		return run(&command_debuginfod_find, argc, argv);
	if (argc < 2) {
		help_overview(stderr);
		return EXIT_USAGE;
	}
	first = str_of(argv[1]);
	if (str_eq(first, STR("--help")) || str_eq(first, STR("-h")))
		first = STR("help");
	else if (str_eq(first, STR("--version")) || str_eq(first, STR("-V")))
		first = STR("version");
	cmd = command_find(first);
	if (!cmd) {
		fprintf(stderr, "lode: there is no command '");
		print_text(stderr, first);
		fprintf(stderr, "'\nlode: see: lode help\n");
		return EXIT_USAGE;
	}
	return run(cmd, argc - 1, argv + 1);
}
