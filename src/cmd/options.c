/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line: getopt_long over a command's rows. Its values are collected first and set last, since the
 * configuration file, which an option may name, is set before them.
 */
#include <assert.h>
#include <getopt.h>
#include <stdlib.h>
#include "cmd/internal.h"

#define MAX_ROWS 128
#define KEY_HELP 1
#define KEY_ROWS 256 /* a long option's number is this and its row's */

struct given {
	const struct option_row *row;
	const char *value; /* points into argv */
};

/* getopt_long's tables, and the options that it found. */
struct command_line {
	const struct option_row *rows[MAX_ROWS];
	struct option longs[MAX_ROWS + 2];
	char shorts[3 * MAX_ROWS + 2];
	struct given *given; /* heap */
	size_t n_rows, n_given;
};

static void command_line_init(const struct command *cmd, struct command_line *l)
{
	struct option_iter it = { 0 };
	const struct option_row *row;
	char *shorts = l->shorts;

	*shorts++ = ':'; /* report a missing argument by ':', an unknown option by '?' */
	while ((row = option_next(cmd, &it))) {
		int arg = !row->arg            ? no_argument
			  : row->arg[0] == '[' ? optional_argument
					       : required_argument;

		assert(l->n_rows < MAX_ROWS);
		l->longs[l->n_rows] = (struct option){ row->name, arg, NULL, KEY_ROWS + (int)l->n_rows };
		l->rows[l->n_rows++] = row;
		if (!row->letter)
			continue;
		*shorts++ = row->letter;
		for (int i = 0; i < arg; i++)
			*shorts++ = ':';
	}
	l->longs[l->n_rows] = (struct option){ "help", no_argument, NULL, KEY_HELP };
	if (!option_by_letter(cmd, 'h'))
		*shorts++ = 'h';
	*shorts = '\0';
}

static const struct option_row *row_of_key(const struct command *cmd, const struct command_line *l, int key)
{
	return key >= KEY_ROWS ? l->rows[key - KEY_ROWS] : option_by_letter(cmd, (char)key);
}

/* The error after getopt_long returned @result, '?' or ':'. It leaves the option in optopt, 0: not known. */
static int option_error(const struct command *cmd, const struct command_line *l, int result, const char *word,
			struct err *err)
{
	const struct option_row *row = optopt > KEY_HELP ? row_of_key(cmd, l, optopt) : NULL;

	if (result == ':' && row)
		return err_set(err, ERR_INVALID, "--%s needs a value: %s", row->name, row->arg);
	if (row)
		return err_set(err, ERR_INVALID, "--%s takes no value", row->name);
	if (optopt > KEY_HELP)
		return err_set(err, ERR_INVALID, "there is no option -%c", optopt);
	return err_set(err, ERR_INVALID, "there is no option %s, or several options begin with it", word);
}

static int command_line_read(const struct command *cmd, int argc, char **argv, struct command_line *l,
			     struct err *err)
{
	int key;

	optind = 0; /* glibc: start over, this may not be the first command line of the process */
	opterr = 0;
	while ((key = getopt_long(argc, argv, l->shorts, l->longs, NULL)) != -1) {
		const struct option_row *row;

		if (key == KEY_HELP)
			return OPTIONS_HELP;
		if (key == '?' || key == ':')
			return option_error(cmd, l, key, argv[optind - 1], err);
		row = row_of_key(cmd, l, key);
		if (!row)
			return OPTIONS_HELP; /* -h, where it is not an option's letter */
		l->given[l->n_given++] = (struct given){ row, optarg };
	}
	return 0;
}

static const char *config_given(const struct command_line *l)
{
	const char *path = NULL;

	for (size_t i = 0; i < l->n_given; i++)
		if (strcmp(l->given[i].row->name, "config") == 0)
			path = l->given[i].value;
	return path;
}

int options_read(const struct command *cmd, int argc, char **argv, struct settings *s, struct err *err)
{
	/* An argument of several letters, -FRU, gives several options: make room for one a character. */
	struct command_line l = { 0 };
	AUTO(mem_freep) struct given *given = NULL;
	size_t room = 1;
	int r;

	for (int i = 1; i < argc; i++)
		room += strlen(argv[i]);
	l.given = given = NEW_N(struct given, room);
	command_line_init(cmd, &l);
	r = command_line_read(cmd, argc, argv, &l, err);
	if (r != 0)
		return r;
	if (cmd->configured) {
		if (config_read_file(cmd, config_given(&l), s, err) < 0 ||
		    config_read_environment(cmd, s, err) < 0)
			return -1;
	}
	for (size_t i = 0; i < l.n_given; i++)
		if (option_set(s, l.given[i].row, l.given[i].value, RANK_COMMAND_LINE, err) < 0)
			return err_in(err, "--%s", l.given[i].row->name);
	for (int i = optind; i < argc; i++)
		if (setting_list_add(s, &s->paths, str_of(argv[i]), RANK_COMMAND_LINE, err) < 0)
			return -1;
	return 0;
}
