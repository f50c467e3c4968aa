/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode completion: shell completion, made from the same rows as the help.
 */
#include "cmd/internal.h"

static void print_commands(void)
{
	for (size_t i = 0; commands[i]; i++)
		printf("%s%s", i ? " " : "", commands[i]->name);
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

static void bash(void)
{
	printf("# bash completion of lode: lode completion bash >/etc/bash_completion.d/lode\n"
	       "_lode() {\n"
	       "\tlocal cur=${COMP_WORDS[COMP_CWORD]} words=\n"
	       "\tif ((COMP_CWORD == 1)); then\n"
	       "\t\twords=\"");
	print_commands();
	printf("\"\n"
	       "\telif [[ ${COMP_WORDS[1]} == help ]]; then\n"
	       "\t\twords=\"");
	print_commands();
	printf("\"\n"
	       "\telif [[ ${COMP_WORDS[1]} == completion ]]; then\n"
	       "\t\twords=\"bash zsh\"\n"
	       "\telif [[ $cur == -* ]]; then\n"
	       "\t\tcase ${COMP_WORDS[1]} in\n");
	for (size_t i = 0; commands[i]; i++) {
		printf("\t\t%s) words=\"", commands[i]->name);
		print_options(commands[i]);
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

/* Within single quotes of zsh's _describe, where a colon ends the word that is described. */
static void print_quoted(const char *text)
{
	for (; *text; text++) {
		if (*text == '\'')
			printf("'\\''");
		else
			printf(*text == ':' ? "\\:" : "%c", *text);
	}
}

static void zsh(void)
{
	printf("#compdef lode\n"
	       "# zsh completion of lode: lode completion zsh >\"${fpath[1]}/_lode\"\n"
	       "local -a words_of\n"
	       "if ((CURRENT == 2)); then\n"
	       "\twords_of=(\n");
	for (size_t i = 0; commands[i]; i++) {
		printf("\t\t'%s:", commands[i]->name);
		print_quoted(commands[i]->summary);
		printf("'\n");
	}
	printf("\t)\n"
	       "\t_describe command words_of\n"
	       "\treturn\n"
	       "fi\n"
	       "case ${words[2]} in\n"
	       "help) compadd -- ");
	print_commands();
	printf("; return ;;\n"
	       "completion) compadd bash zsh; return ;;\n");
	for (size_t i = 0; commands[i]; i++) {
		struct option_iter it = { 0 };
		const struct option_row *row;

		if (!commands[i]->groups[0])
			continue;
		printf("%s)\n\twords_of=(\n", commands[i]->name);
		while ((row = option_next(commands[i], &it))) {
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

static int completion(struct settings *s)
{
	struct str shell = s->paths.items[0];

	if (str_eq(shell, STR("bash"))) {
		bash();
	} else if (str_eq(shell, STR("zsh"))) {
		zsh();
	} else {
		fprintf(stderr, "lode: completion: bash or zsh, not '");
		print_text(stderr, shell);
		fprintf(stderr, "'\n");
		return EXIT_USAGE;
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
	.missing = "for which shell: bash or zsh?",
	.run = completion,
};
