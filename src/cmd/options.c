/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line: getopt_long over what a command's rows say. What it gives is first noted down and only
 * then set, since the file that it may name comes before it.
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

/* What getopt_long wants to know, and what was given. */
struct command_line {
	const struct option_row *rows[MAX_ROWS];
	struct option longs[MAX_ROWS + 2];
	char shorts[3 * MAX_ROWS + 2];
	struct given *given; /* heap */
	size_t n_rows, n_given;
};

const struct option_row *option_next(const struct command *cmd, struct option_iter *it)
{
	while (it->group < COMMAND_MAX_GROUPS && cmd->groups[it->group]) {
		const struct option_row *row = &cmd->groups[it->group]->rows[it->row++];

		if (row->name)
			return row;
		it->group++;
		it->row = 0;
	}
	return NULL;
}

const struct option_row *option_find(const struct command *cmd, struct str name)
{
	struct option_iter it = { 0 };
	const struct option_row *row;

	while ((row = option_next(cmd, &it)) && !str_eq(name, str_of(row->name)))
		;
	return row;
}

const struct option_row *option_by_letter(const struct command *cmd, char letter)
{
	struct option_iter it = { 0 };
	const struct option_row *row;

	while ((row = option_next(cmd, &it)) && row->letter != letter)
		;
	return row;
}

static void prepare(const struct command *cmd, struct command_line *l)
{
	struct option_iter it = { 0 };
	const struct option_row *row;
	char *shorts = l->shorts;

	*shorts++ = ':'; /* tell a missing argument from an unknown option */
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

static const struct option_row *row_of(const struct command *cmd, const struct command_line *l, int key)
{
	return key >= KEY_ROWS ? l->rows[key - KEY_ROWS] : option_by_letter(cmd, (char)key);
}

/* getopt_long says '?' or ':' and leaves in optopt the option that it is about, 0 where it knows none. */
static int refuse(const struct command *cmd, const struct command_line *l, int said, const char *word,
		  struct err *err)
{
	const struct option_row *row = optopt > KEY_HELP ? row_of(cmd, l, optopt) : NULL;

	if (said == ':' && row)
		return err_set(err, ERR_INVALID, "--%s needs a value: %s", row->name, row->arg);
	if (row)
		return err_set(err, ERR_INVALID, "--%s takes no value", row->name);
	if (optopt > KEY_HELP)
		return err_set(err, ERR_INVALID, "there is no option -%c", optopt);
	return err_set(err, ERR_INVALID, "there is no option %s, or it is cut too short to be clear", word);
}

static int collect(const struct command *cmd, int argc, char **argv, struct command_line *l, struct err *err)
{
	int key;

	optind = 0; /* glibc: start over, this may not be the first command line of the process */
	opterr = 0;
	while ((key = getopt_long(argc, argv, l->shorts, l->longs, NULL)) != -1) {
		const struct option_row *row;

		if (key == KEY_HELP)
			return OPTIONS_HELP;
		if (key == '?' || key == ':')
			return refuse(cmd, l, key, argv[optind - 1], err);
		row = row_of(cmd, l, key);
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
	/* An argument of several letters, -FRU, gives several options: count characters. */
	struct command_line l = { 0 };
	AUTO(mem_freep) struct given *given = NULL;
	size_t room = 1;
	int r;

	for (int i = 1; i < argc; i++)
		room += strlen(argv[i]);
	l.given = given = NEW_N(struct given, room);
	prepare(cmd, &l);
	r = collect(cmd, argc, argv, &l, err);
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
