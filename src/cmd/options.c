/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options: from the command line by getopt_long, made from a command's rows; before it, from a file and the
 * environment.
 */
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include "cmd/internal.h"

#define MAX_OPTIONS    128
#define MAX_CONFIG     MIB(1)
#define DEFAULT_CONFIG "/etc/lode/lode.conf"

static bool is_optional(const struct option_row *row)
{
	return row->arg && row->arg[0] == '[';
}

static int told(const struct command *cmd, const struct err *err)
{
	fprintf(stderr, "lode: %s: %s\nlode: try: lode help %s\n", cmd->name, err->text, cmd->name);
	return -1;
}

int options_read(const struct command *cmd, int argc, char **argv,
		 int (*set)(void *ctx, int key, const char *value, struct err *err), void *ctx,
		 int *ret_first)
{
	struct option longs[MAX_OPTIONS + 2] = { 0 };
	char shorts[4 * MAX_OPTIONS] = "";
	struct err err = { 0 };
	size_t n_longs = 0, n_shorts = 0;
	bool has_help = false;
	int c;

	for (const struct option_row *row = cmd->options; row->key && n_longs < MAX_OPTIONS; row++) {
		int arg = !row->arg ? no_argument : is_optional(row) ? optional_argument : required_argument;

		if (row->name)
			longs[n_longs++] = (struct option){ row->name, arg, NULL, row->key };
		if (row->key >= 256)
			continue;
		has_help |= row->key == OPTION_HELP;
		shorts[n_shorts++] = (char)row->key;
		for (int i = 0; i < arg; i++)
			shorts[n_shorts++] = ':';
	}
	longs[n_longs] = (struct option){ "help", no_argument, NULL, 1 };
	if (!has_help)
		shorts[n_shorts++] = 'h';
	optind = 0; /* glibc: start over; this may not be the first command line that is read */
	opterr = 0;
	while ((c = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
		if (c == 1 || (c == 'h' && !has_help)) {
			options_help(cmd, stdout);
			return 1;
		}
		if (c == '?') {
			err_set(&err, ERR_INVALID, "'%s' is no option, or its argument is missing",
				argv[optind - 1]);
			return told(cmd, &err);
		}
		if (set(ctx, c, optarg, &err) < 0)
			return told(cmd, &err);
	}
	*ret_first = optind;
	return 0;
}

static const struct option_row *find(const struct command *cmd, struct str name)
{
	for (const struct option_row *row = cmd->options; row->key; row++)
		if (row->name && str_eq(name, str_of(row->name)))
			return row;
	return NULL;
}

/* A switch is set by yes, true, 1 or on, and left alone by no, false, 0 or off. */
static int set_text(const struct command *cmd, const struct option_row *row, const char *value,
		    int (*set)(void *ctx, int key, const char *value, struct err *err), void *ctx,
		    struct err *err)
{
	static const char *const on[] = { "yes", "true", "1", "on" };
	static const char *const off[] = { "no", "false", "0", "off" };

	if (row->arg)
		return set(ctx, row->key, value, err);
	for (size_t i = 0; i < ARRAY_SIZE(on); i++) {
		if (strcmp(value, on[i]) == 0)
			return set(ctx, row->key, NULL, err);
		if (strcmp(value, off[i]) == 0)
			return 0;
	}
	return err_set(err, ERR_INVALID, "'%s' is neither yes nor no", value);
}

static int read_config(const struct command *cmd, const char *path, bool must,
		       int (*set)(void *, int, const char *, struct err *), void *ctx, struct err *err)
{
	AUTO(buf_done) struct buf text = { 0 };
	struct str rest;
	unsigned line_no = 0;
	int r = file_read(path, MAX_CONFIG, &text, err);

	if (r == FILE_MISSING)
		return must ? err_set(err, ERR_IO, "%s: there is no such file", path) : 0;
	if (r < 0)
		return r;
	rest = buf_str(&text);
	while (rest.p) {
		struct str line = str_trim(str_cut(&rest, '\n')), key;
		const struct option_row *row;

		line_no++;
		if (!line.size || line.p[0] == '#')
			continue;
		key = str_cut(&line, '=');
		if (!line.p)
			return err_set(err, ERR_INVALID, "%s:%u: not of the form 'name = value'", path,
				       line_no);
		row = find(cmd, str_trim(key));
		if (!row)
			continue;
		line = str_trim(line);
		AUTO(mem_freep) char *value = mem_strndup(line.p, line.size);

		if (set_text(cmd, row, value, set, ctx, err) < 0)
			return err_in(err, "%s:%u: %s", path, line_no, row->name);
	}
	return 0;
}

static const char *config_of(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--") == 0)
			break;
		if (strncmp(argv[i], "--config=", 9) == 0)
			return argv[i] + 9;
		if (strcmp(argv[i], "--config") == 0 && i + 1 < argc)
			return argv[i + 1];
	}
	return NULL;
}

int options_read_defaults(const struct command *cmd, int argc, char **argv,
			  int (*set)(void *ctx, int key, const char *value, struct err *err), void *ctx)
{
	const char *config = config_of(argc, argv);
	struct err err = { 0 };

	if (!config)
		config = getenv("LODE_CONFIG");
	if (read_config(cmd, config ? config : DEFAULT_CONFIG, config != NULL, set, ctx, &err) < 0)
		return told(cmd, &err);
	for (const struct option_row *row = cmd->options; row->key; row++) {
		AUTO(mem_freep) char *name = row->name ? mem_printf("LODE_%s", row->name) : NULL;
		const char *value;

		if (!name || !row->help)
			continue;
		for (char *p = name; *p; p++)
			*p = *p == '-' ? '_' : (char)toupper((unsigned char)*p);
		value = getenv(name);
		if (value && set_text(cmd, row, value, set, ctx, &err) < 0) {
			err_in(&err, "$%s", name);
			return told(cmd, &err);
		}
	}
	return 0;
}

void options_help(const struct command *cmd, FILE *out)
{
	fprintf(out, "lode %s %s%s\n\n%s\n", cmd->name, cmd->options->key ? "[OPTION...] " : "", cmd->args,
		cmd->summary);
	if (cmd->options->key)
		fprintf(out, "\nOptions:\n");
	for (const struct option_row *row = cmd->options; row->key; row++) {
		char left[64];

		if (!row->help)
			continue;
		snprintf(left, sizeof(left), "%s%c%s%s%s%s%s", row->key < 256 ? "-" : "  ",
			 row->key < 256 ? row->key : ' ',
			 row->name && row->key < 256 ? ", "
			 : row->name                 ? " "
						     : "",
			 row->name ? "--" : "", row->name ? row->name : "", row->arg ? " " : "",
			 row->arg ? row->arg : "");
		if (strlen(left) > 30)
			fprintf(out, "  %s\n  %-30s %s\n", left, "", row->help);
		else
			fprintf(out, "  %-30s %s\n", left, row->help);
	}
	if (cmd->examples)
		fprintf(out, "\nExamples:\n%s", cmd->examples);
}

int value_u64(const char *value, uint64_t max, uint64_t *ret, struct err *err)
{
	uint64_t v;

	if (!value || !str_to_u64(str_of(value), &v))
		return err_set(err, ERR_INVALID, "'%s' is not a number", value ? value : "");
	if (v > max)
		return err_set(err, ERR_INVALID, "%s is more than %llu", value, (unsigned long long)max);
	*ret = v;
	return 0;
}

int value_size(const char *value, uint64_t *ret, struct err *err)
{
	static const char units[] = "KMGT";
	struct str s = str_of(value);
	const char *unit;
	uint64_t v;
	unsigned shift = 0;

	if (s.size &&
	    (unit = memchr(units, toupper((unsigned char)s.p[s.size - 1]), sizeof(units) - 1)) != NULL) {
		shift = 10 * (unsigned)(unit - units + 1);
		s.size--;
	}
	if (!str_to_u64(s, &v) || v > UINT64_MAX >> shift)
		return err_set(err, ERR_INVALID, "'%s' is not a size (10, 64K, 256M, 2G)", value);
	*ret = v << shift;
	return 0;
}
