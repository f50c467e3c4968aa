/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings before the command line: a file with lines "name = value", and the environment, LODE_NAME.
 * Names are those of the long options. A file may set the options of several commands; each command reads its
 * own.
 */
#include <ctype.h>
#include <stdlib.h>
#include "cmd/internal.h"

#define DEFAULT_FILE "/etc/lode/lode.conf"
#define MAX_FILE     MIB(1)

static bool is_known_option(const struct settings *s, struct str name)
{
	for (size_t i = 0; s->commands && s->commands[i]; i++)
		if (s->commands[i]->configured && option_find(s->commands[i], name))
			return true;
	return false;
}

static int config_set_line(const struct command *cmd, struct str line, struct settings *s, struct err *err)
{
	AUTO(mem_freep) char *value = NULL;
	const struct option_row *row;
	struct str name = str_trim(str_cut(&line, '='));

	if (!line.p)
		return err_set(err, ERR_INVALID, "not of the form 'name = value'");
	row = option_find(cmd, name);
	if (!row && !is_known_option(s, name))
		return err_set(err, ERR_INVALID, "there is no option '" STR_FMT "'", STR_ARG(name));
	if (!row)
		return 0;
	line = str_trim(line);
	value = mem_strndup(line.p, line.size);
	if (option_set(s, row, value, RANK_FILE, err) < 0)
		return err_in(err, "%s", row->name);
	return 0;
}

int config_read_file(const struct command *cmd, const char *given, struct settings *s, struct err *err)
{
	AUTO(buf_done) struct buf text = { 0 };
	const char *env = getenv("LODE_CONFIG"), *path = given ? given : env && *env ? env : DEFAULT_FILE;
	struct str rest;
	int r;

	/* The customary name for "no file". */
	if (strcmp(path, "/dev/null") == 0)
		return 0;
	r = file_read(path, MAX_FILE, &text, err);

	if (r == FILE_MISSING && strcmp(path, DEFAULT_FILE) == 0)
		return 0;
	if (r == FILE_MISSING)
		return err_set(err, ERR_IO, "%s: there is no such file", path);
	if (r < 0)
		return r;
	rest = buf_str(&text);
	for (unsigned line_no = 1; rest.p; line_no++) {
		struct str line = str_trim(str_cut(&rest, '\n'));

		if (!line.size || line.p[0] == '#')
			continue;
		if (config_set_line(cmd, line, s, err) < 0)
			return err_in(err, "%s:%u", path, line_no);
	}
	return 0;
}

/* Blanks separate the values of a list. */
static int set_from_environment(struct settings *s, const struct option_row *row, const char *value,
				struct err *err)
{
	struct str rest = str_of(value);

	if (row->kind != OPTION_LIST)
		return option_set(s, row, value, RANK_ENVIRONMENT, err);
	while (rest.p) {
		struct str one = str_cut(&rest, ' ');
		AUTO(mem_freep) char *text = mem_strndup(one.p, one.size);

		if (one.size && option_set(s, row, text, RANK_ENVIRONMENT, err) < 0)
			return -1;
	}
	return 0;
}

int config_read_environment(const struct command *cmd, struct settings *s, struct err *err)
{
	struct option_iter it = { 0 };
	const struct option_row *row;

	while ((row = option_next(cmd, &it))) {
		AUTO(mem_freep) char *name = mem_printf("LODE_%s", row->name);
		const char *value;

		for (char *p = name; *p; p++)
			*p = *p == '-' ? '_' : (char)toupper((unsigned char)*p);
		value = getenv(name);
		if (value && *value && set_from_environment(s, row, value, err) < 0)
			return err_in(err, "$%s", name);
	}
	return 0;
}
