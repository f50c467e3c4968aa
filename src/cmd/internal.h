/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by all commands: the rows of commands and options, the settings that options set, output.
 *
 * A command is a `struct command` in a file of its own and a row in table.c. Its options are groups of rows;
 * each row names the field of the settings that its value goes to. The command line, the configuration file,
 * the environment, help, completion and the test of the man pages all read these rows.
 */
#pragma once

#include <stdio.h>
#include "base/json.h"
#include "client/client.h"
#include "cmd/cmd.h"
#include "frame/frame.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

struct command;

/* ---- settings ---- */

/* Where a value comes from. A higher rank wins; a list of a higher rank replaces the whole list of a
 * lower. */
enum setting_rank { RANK_DEFAULT, RANK_FILE, RANK_ENVIRONMENT, RANK_COMMAND_LINE };

struct setting_list {
	struct str *items; /* in the settings' arena, as their texts, which end in NUL */
	size_t n, room;
	enum setting_rank rank;
};
#define SETTING_LIST_MAX 4096u

/* What options can set. Texts and lists live in the arena. */
struct settings {
	struct arena arena;
	void *own; /* the settings of the command alone: command.own_size bytes in the arena, zeroed at first */
	const char *command; /* the name, for messages of code that several commands share */
	const struct command *const *commands; /* the table, ended by NULL: for help, completion, the file */
	const char *data, *config;
	struct setting_list paths; /* the arguments of the command line, or --path */
	struct push_settings {
		const char *to, *token_file;
		unsigned parallel, retries;
		bool sources, through_server;
	} push;
	struct setting_list labels; /* of profiles that are sent */
	struct demo_settings {
		unsigned slices, slice_ms, minutes;
		int64_t wait_s;
		bool if_empty, quiet;
	} demo;
	bool json, sections, members, ids, unwind;
	const char *unwind_at;
	bool verbose;
	unsigned find_verbosity; /* of debuginfod-find */
	struct find_settings {
		struct setting_list pids, cores, packages, sources, sections, servers;
		const char *kernel_release, *debug_file_directory, *sysroot;
		bool kernel, debuginfo, executable, all, here, why, zero;
		int64_t unread_wait_s;
	} find;
	struct split_settings {
		const char *output, *debug_file, *tree, *compress;
		bool executable_link;
	} split;
	struct profile_settings {
		const char *output, *output_format, *input_format, *type, *base, *by, *label, *title, *names;
		const char *focus, *ignore, *hide, *show;
		unsigned rows;
		bool invert, normalise, cum, quiet, all_frames;
	} profile;
	struct symbols_settings {
		const char *build_id, *pid;
		bool kernel, text;
		const char *file, *style, *section, *alt, *output, *kernel_release;
		unsigned threads;
		const char *demangle;
		enum frame_demangling demangling; /* made from demangle and no_demangle */
		bool functions, inlines, no_inlines, addresses, pretty, basenames, no_demangle;
		bool no_columns, discriminators, summary, version;
		bool may_miss; /* an address without an answer is no failure */
	} symbols;
};

/* Settings for @cmd, without its defaults. @commands: the table, or NULL. */
void settings_init(struct settings *s, const struct command *cmd, const struct command *const *commands);
void settings_done(struct settings *s);
/* Takes a copy of @text. */
int setting_list_add(struct settings *s, struct setting_list *l, struct str text, enum setting_rank rank,
		     struct err *err);

/* ---- options ---- */

enum option_kind {
	OPTION_CALL,    /* .call sets it */
	OPTION_ON,      /* bool: a switch */
	OPTION_OFF,     /* bool: a switch that clears it */
	OPTION_TEXT,    /* const char * */
	OPTION_LIST,    /* struct setting_list; may be given again */
	OPTION_NUMBER,  /* unsigned */
	OPTION_SIZE,    /* uint64_t: 10, 64K, 256M, 2G */
	OPTION_SECONDS, /* int64_t */
	OPTION_MS,      /* int64_t milliseconds, given in seconds; 0 means no limit: a very long time */
	OPTION_IGNORED, /* accepted with a warning; .help says why it is not needed */
	OPTION_SILENT,  /* accepted and ignored */
};

struct option_row {
	char letter;      /* short form; 0: none */
	const char *name; /* long form; of every row */
	const char
		*arg; /* name of the value in the help; NULL: a switch. "[N]": the value is optional, and is
			     one word with the option */
	const char *help; /* NULL: hidden */
	enum option_kind kind;
	size_t at; /* of the value in struct settings, OPTION_AT(), or in its .own, OPTION_OWN_AT() */
	int (*call)(struct settings *s, const char *value, enum setting_rank rank, struct err *err);
};

/* The offset of a field; does not compile where the field is not of the type that the row's kind writes. */
#define OPTION_FIELD_AT(of, type, field) \
	(offsetof(of, field) / (size_t)__builtin_types_compatible_p(__typeof__(((of *)0)->field), type))
#define OPTION_AT(type, field)         OPTION_FIELD_AT(struct settings, type, field)
#define OPTION_OWN                     ((size_t)1 << 30) /* in .at: the offset is one in settings.own */
#define OPTION_OWN_AT(of, type, field) (OPTION_OWN | OPTION_FIELD_AT(of, type, field))
#define OPT_ON(field)                  OPTION_ON, OPTION_AT(bool, field)
#define OPT_TEXT(field)                OPTION_TEXT, OPTION_AT(const char *, field)
#define OPT_LIST(field)                OPTION_LIST, OPTION_AT(struct setting_list, field)
#define OPT_NUMBER(field)              OPTION_NUMBER, OPTION_AT(unsigned, field)
#define OPT_SECONDS(field)             OPTION_SECONDS, OPTION_AT(int64_t, field)
#define OPT_CALL(fn)                   OPTION_CALL, 0, fn

/* Of the commands that ask servers. */
#define UNREAD_WAIT_S 750
#define UNREAD_WAIT_ROW                                                                                 \
	{                                                                                               \
		0, "unread-wait", "SECONDS",                                                            \
			"how long to wait for a lode server that is still reading its packages; 0: do " \
			"not wait [750]",                                                               \
			OPT_SECONDS(find.unread_wait_s)                                                 \
	}

struct option_group {
	const char *title;
	const struct option_row *rows; /* ended by one without a name */
};
extern const struct option_group group_output; /* --json */

#define COMMAND_MAX_GROUPS 10
struct command {
	const char *name, *args, *summary;
	const char *examples;
	const struct option_group *groups[COMMAND_MAX_GROUPS]; /* ended by NULL */
	bool configured;                                       /* reads the configuration file and LODE_* */
	size_t min_args, max_args;
	const char *missing;                  /* the error with less than min_args: "which FILE?" */
	size_t own_size;                      /* of settings.own */
	void (*defaults)(struct settings *s); /* NULL: all zero */
	int (*run)(struct settings *s);       /* returns the exit status; s->paths holds the arguments */
};
extern const struct command command_serve, command_scan, command_inspect, command_stat;
extern const struct command command_split, find_command; /* command_find() is the search in the table */
extern const struct command command_store, command_token, command_backup, command_push, command_send,
	command_demo, command_agent;
extern const struct command command_debuginfod, command_debuginfod_find;
extern const struct command command_symbolize, command_addr2line, command_symtab, command_profile;
extern const struct command command_completion, command_version, command_help;
extern const struct command *const commands[]; /* the table, ended by NULL */
/* Of profiles: files and their formats; which part of them is shown. */
extern const struct option_group group_profile_files, group_profile_view;

/* ---- rows.c: the tables, searched ---- */

const struct command *command_find(const struct command *const *all, struct str name); /* NULL: none */
/* The row of this long name, NULL: none. */
const struct option_row *option_find(const struct command *cmd, struct str name);
const struct option_row *option_by_letter(const struct command *cmd, char letter);
/* Over all rows of a command, hidden ones too; *it starts at zeros. NULL at the end. */
struct option_iter {
	size_t group, row;
};
const struct option_row *option_next(const struct command *cmd, struct option_iter *it);

/* ---- settings.c: values ---- */

/* Set the field of @row to @value. Of a switch @value is NULL, or yes or no in some words. */
int option_set(struct settings *s, const struct option_row *row, const char *value, enum setting_rank rank,
	       struct err *err);
bool option_is_set(const struct settings *s, const struct option_row *row);

/*
 * For a command that does one of several things: the options that apply to each of them. An option without
 * effect is a mistake that the user should know of.
 */
struct option_use {
	const struct option_group *group; /* the last row's is NULL */
	const char *name;                 /* NULL: all of the group */
	unsigned modes;                   /* bits of the command's own */
};
/* An option that is set and does not apply to @mode; NULL: there is none. Not for rows whose default is not
 * zero. */
const struct option_row *option_useless(const struct settings *s, const struct option_use *uses,
					unsigned mode);

/* ---- options.c, config.c: the command line, the file, the environment ---- */

/*
 * Read the file (--config, $LODE_CONFIG, else /etc/lode/lode.conf if it is there), then the environment, then
 * the command line, which wins. OPTIONS_HELP: --help was given. A failure is a mistake of the user's.
 */
enum { OPTIONS_HELP = 1 };
int options_read(const struct command *cmd, int argc, char **argv, struct settings *s, struct err *err);
/* Its first two parts. @path NULL: the usual place. */
int config_read_file(const struct command *cmd, const char *path, struct settings *s, struct err *err);
int config_read_environment(const struct command *cmd, struct settings *s, struct err *err);

/* ---- help.c ---- */

void help_print(const struct command *cmd, FILE *out);
void help_overview(const struct command *const *all, FILE *out);

/* ---- text.c: output ---- */

/* Print "lode: what: why" on stderr. Returns EXIT_FAILED. */
int tell_error(const char *what, const struct err *err);
/* Print "lode: COMMAND: why", and which help to read, on stderr. Returns EXIT_USAGE. */
int usage_error(const char *command, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Print a text from outside for people: characters that a terminal would obey are escaped. */
void print_text(FILE *out, struct str s);
/* A writer for a command's JSON output, in lines with indents. */
#define JSON_WRITER(text) ((struct json_writer){ .out = (text), .indent = 2 })
/* Print @text and a newline to stdout, and free it. Returns EXIT_DONE, or EXIT_FAILED if it cannot be
 * written. */
int json_print_end(struct buf *text);
/* "1.2 MB" */
const char *size_text(uint64_t size, char out[32]);

/* ---- progress.c: one line on a terminal that is written over ---- */

void progress_add_bar(struct buf *line, double part);
void progress_add_left(struct buf *line, double seconds); /* ", 12 s left" */
void progress_show(const struct buf *line);               /* cut to the terminal's width */

/* ---- waiting.c: lode servers that have not read all of their packages yet ---- */

/* In the form of struct client_options. */
int64_t unread_wait_ms(const struct settings *s);
/* "waiting for NAME (41 %) to be read by http://localhost:8002"; @p has .reading. */
void progress_add_waiting(struct buf *line, const struct client_progress *p);
/* Shows that on a terminal; for one thread. NULL: stderr is none. In the settings' arena. */
const struct client_watch *wait_watch_new(struct settings *s);
void progress_clear(void);

/* ---- signals.c ---- */

/* From now on SIGINT and SIGTERM only set a flag; the second of a kind ends the process as usual. */
void signals_catch(void);
bool signals_stopped(void);
