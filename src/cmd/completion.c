/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode completion: completion for shells, from the rows that the help prints, too.
 */
#include "cmd/internal.h"

static void print_commands(const struct command *const *all)
{
	for (size_t i = 0; all[i]; i++)
		printf("%s%s", i ? " " : "", all[i]->name);
}

static void print_options(const struct command *cmd)
{
	struct option_iter it = { 0 };
	const struct option_row *row;

	while ((row = option_next(cmd, &it)))
		if (row->help)
			printf("--%s ", row->name);
	printf("--help");
}

static void print_bash(const struct command *const *all)
{
	printf("# bash completion of lode: lode completion bash >/etc/bash_completion.d/lode\n"
	       "_lode() {\n"
	       "\tlocal cur=${COMP_WORDS[COMP_CWORD]} words=\n"
	       "\tif ((COMP_CWORD == 1)); then\n"
	       "\t\twords=\"");
	print_commands(all);
	printf("\"\n"
	       "\telif [[ ${COMP_WORDS[1]} == help ]]; then\n"
	       "\t\twords=\"");
	print_commands(all);
	printf("\"\n"
	       "\telif [[ ${COMP_WORDS[1]} == completion ]]; then\n"
	       "\t\twords=\"bash zsh\"\n"
	       "\telif [[ $cur == -* ]]; then\n"
	       "\t\tcase ${COMP_WORDS[1]} in\n");
	for (size_t i = 0; all[i]; i++) {
		printf("\t\t%s) words=\"", all[i]->name);
		print_options(all[i]);
		printf("\" ;;\n");
	}
	printf("\t\tesac\n"
	       "\telse\n"
	       "\t\tcompopt -o filenames\n"
	       "\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
	       "\t\treturn\n"
	       "\tfi\n"
	       "\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
	       "}\n"
	       "complete -F _lode lode\n");
}

/* For single quotes of zsh's _describe, where a colon ends the word that is described. */
static void print_quoted(const char *text)
{
	for (; *text; text++) {
		if (*text == '\'')
			printf("'\\''");
		else
			printf(*text == ':' ? "\\:" : "%c", *text);
	}
}

static void print_zsh(const struct command *const *all)
{
	printf("#compdef lode\n"
	       "# zsh completion of lode: lode completion zsh >\"${fpath[1]}/_lode\"\n"
	       "local -a words_of\n"
	       "if ((CURRENT == 2)); then\n"
	       "\twords_of=(\n");
	for (size_t i = 0; all[i]; i++) {
		printf("\t\t'%s:", all[i]->name);
		print_quoted(all[i]->summary);
		printf("'\n");
	}
	printf("\t)\n"
	       "\t_describe command words_of\n"
	       "\treturn\n"
	       "fi\n"
	       "case ${words[2]} in\n"
	       "help) compadd -- ");
	print_commands(all);
	printf("; return ;;\n"
	       "completion) compadd bash zsh; return ;;\n");
	for (size_t i = 0; all[i]; i++) {
		struct option_iter it = { 0 };
		const struct option_row *row;

		if (!all[i]->groups[0])
			continue;
		printf("%s)\n\twords_of=(\n", all[i]->name);
		while ((row = option_next(all[i], &it))) {
			if (!row->help)
				continue;
			printf("\t\t'--%s:", row->name);
			print_quoted(row->help);
			printf("'\n");
		}
		printf("\t)\n\t;;\n");
	}
	printf("esac\n"
	       "if [[ $PREFIX == -* ]]; then\n"
	       "\t_describe option words_of\n"
	       "else\n"
	       "\t_files\n"
	       "fi\n");
}

static int run_completion(struct settings *s)
{
	struct str shell = s->paths.items[0];

	if (str_eq(shell, STR("bash"))) {
		print_bash(s->commands);
	} else if (str_eq(shell, STR("zsh"))) {
		print_zsh(s->commands);
	} else {
		return usage_error("completion", "the shells are bash and zsh, not '" STR_FMT "'",
				   STR_ARG(shell));
	}
	return EXIT_DONE;
}

const struct command command_completion = {
	.name = "completion",
	.args = "bash|zsh",
	.summary = "print completion for a shell",
	.examples = "  source <(lode completion bash)\n",
	.min_args = 1,
	.max_args = 1,
	.missing = "no shell given: bash or zsh",
	.run = run_completion,
};
