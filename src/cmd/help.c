/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode help: the commands and their options.
 */
#include "cmd/internal.h"

#define LEFT  30
#define WIDTH 100

void help_overview(const struct command *const *all, FILE *out)
{
	fprintf(out,
		"lode finds and serves debug information (debug files, programs, sources) from files and "
		"packages,\n"
		"turns addresses into functions and lines, and keeps profiles.\n\n"
		"  lode COMMAND [OPTION...] [ARGUMENT...]\n\n");
	for (size_t i = 0; all[i]; i++)
		fprintf(out, "  %-15s  %s\n", all[i]->name, all[i]->summary);
	fprintf(out, "\nlode help COMMAND prints its options, with examples.\n"
		     "To serve this machine's own files: lode serve\n");
}

/* Print @text from column LEFT on, in lines of at most WIDTH. @at: the cursor's column. */
static void print_wrapped(FILE *out, int at, const char *text)
{
	struct str rest = str_of(text);

	if (at >= LEFT - 1) {
		fprintf(out, "\n");
		at = 0;
	}
	fprintf(out, "%*s", LEFT - at, "");
	at = LEFT;
	while (rest.p) {
		struct str word = str_cut(&rest, ' ');

		if (at > LEFT && at + 1 + (int)word.size > WIDTH) {
			fprintf(out, "\n%*s", LEFT, "");
			at = LEFT;
		}
		at += fprintf(out, "%s" STR_FMT, at > LEFT ? " " : "", STR_ARG(word));
	}
	fprintf(out, "\n");
}

static void print_row(FILE *out, const struct option_row *row)
{
	int at = row->letter ? fprintf(out, "  -%c, --%s", row->letter, row->name)
			     : fprintf(out, "      --%s", row->name);

	if (row->arg && row->arg[0] == '[')
		at += fprintf(out, "[=%s", row->arg + 1);
	else if (row->arg)
		at += fprintf(out, " %s", row->arg);
	print_wrapped(out, at, row->help);
}

void help_print(const struct command *cmd, FILE *out)
{
	fprintf(out, "lode %s%s%s%s\n\n%s\n", cmd->name, cmd->groups[0] ? " [OPTION...]" : "",
		*cmd->args ? " " : "", cmd->args, cmd->summary);
	for (size_t i = 0; i < COMMAND_MAX_GROUPS && cmd->groups[i]; i++) {
		fprintf(out, "\n%s:\n", cmd->groups[i]->title);
		for (const struct option_row *row = cmd->groups[i]->rows; row->name; row++)
			if (row->help)
				print_row(out, row);
	}
	if (cmd->examples)
		fprintf(out, "\nExamples:\n%s", cmd->examples);
	if (cmd->configured)
		fprintf(out,
			"\nOptions are also read from /etc/lode/lode.conf (lines 'name = value') and from "
			"the environment\n"
			"(LODE_NAME), which wins over the file. See lode-%s(1).\n",
			cmd->name);
}

static int run_help(struct settings *s)
{
	const struct command *about;

	if (!s->paths.n) {
		help_overview(s->commands, stdout);
		return EXIT_DONE;
	}
	about = command_find(s->commands, s->paths.items[0]);
	if (!about) {
		fprintf(stderr, "lode: help: there is no command '");
		print_text(stderr, s->paths.items[0]);
		fprintf(stderr, "'; lode help lists the commands\n");
		return EXIT_USAGE;
	}
	help_print(about, stdout);
	return EXIT_DONE;
}

const struct command command_help = {
	.name = "help",
	.args = "[COMMAND]",
	.summary = "print the commands, or the options of one",
	.max_args = 1,
	.run = run_help,
};
