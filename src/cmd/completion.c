/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode completion: shell completion, made from the same tables as --help.
 */
#include "cmd/internal.h"

static void words(const struct option_row *rows)
{
	for (const struct option_row *row = rows; row->key; row++)
		if (row->name && row->help)
			printf(" --%s", row->name);
	printf(" --help");
}

static void bash(void)
{
	printf("# lode completion bash > /usr/share/bash-completion/completions/lode\n"
	       "_lode() {\n"
	       "\tlocal cur=${COMP_WORDS[COMP_CWORD]} words\n"
	       "\tif ((COMP_CWORD == 1)); then\n\t\twords=\"");
	for (size_t i = 0; commands[i]; i++)
		printf("%s%s", i ? " " : "", commands[i]->name);
	printf("\"\n\telif [[ $cur == -* ]]; then\n\t\tcase ${COMP_WORDS[1]} in\n");
	for (size_t i = 0; commands[i]; i++) {
		printf("\t\t%s) words=\"", commands[i]->name);
		words(commands[i]->options);
		printf("\" ;;\n");
	}
	printf("\t\tesac\n"
	       "\telse\n\t\tCOMPREPLY=($(compgen -f -- \"$cur\"))\n\t\treturn\n\tfi\n"
	       "\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n}\n"
	       "complete -o filenames -F _lode lode\n");
}

static void zsh(void)
{
	printf("#compdef lode\n# lode completion zsh > \"${fpath[1]}/_lode\"\nif ((CURRENT == 2)); "
	       "then\n\tlocal -a cmds=(\n");
	for (size_t i = 0; commands[i]; i++)
		printf("\t\t'%s:%s'\n", commands[i]->name, commands[i]->summary);
	printf("\t)\n\t_describe command cmds\n\treturn\nfi\ncase ${words[2]} in\n");
	for (size_t i = 0; commands[i]; i++) {
		printf("%s) compadd --", commands[i]->name);
		words(commands[i]->options);
		printf(" ;;\n");
	}
	printf("esac\n_files\n");
}

static int completion(const struct command *cmd, int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "bash") == 0)
		bash();
	else if (argc == 2 && strcmp(argv[1], "zsh") == 0)
		zsh();
	else
		return fail_usage(cmd, "for which shell: bash or zsh?");
	return EXIT_DONE;
}

static const struct option_row options[] = { OPTION_END };

const struct command command_completion = {
	.name = "completion",
	.args = "bash|zsh",
	.summary = "print shell completion",
	.options = options,
	.run = completion,
	.examples = "  source <(lode completion bash)\n",
};
