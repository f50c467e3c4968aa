/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd's own: the rows that commands and options are made of, what the options set, and what several commands
 * use.
 *
 * A command is a `struct command` in a file of its own and a row in table.c. Its options are groups of rows;
 * each row says where in `struct settings` its value goes. Command line, configuration file, environment,
 * help, completion and the test of the man pages all go by these rows.
 */
#pragma once

#include <jansson.h>
#include <stdio.h>
#include "client/client.h"
#include "cmd/cmd.h"
#include "server/server.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* ---- settings ---- */

/* Where a value comes from. The later one wins; of a list, it replaces all that the earlier one gave. */
enum setting_rank { RANK_DEFAULT, RANK_FILE, RANK_ENVIRONMENT, RANK_COMMAND_LINE };

struct setting_list {
	struct str *items; /* heap; the texts lie in the settings' arena */
	size_t n;
	enum setting_rank rank;
};
#define SETTING_LIST_MAX 4096u

/* All that options can set, for all commands; each reads its part. Texts live in the arena. */
struct settings {
	struct arena arena;
	const char *data, *config;
	struct setting_list paths; /* PATH... of the command line, or --path */
	struct setting_list listen;
	struct setting_list suffixes; /* of package files */
	/* but roots, package_suffixes and places, which service.c and scan.c fill in */
	struct scan_options scan;
	struct server_options server; /* but listen, resolver, scan */
	uint64_t span_cache, map_cache, sources_cache;
	bool source_any;
	struct store_settings {
		const char *dir; /* NULL: in the data directory */
		uint64_t quota;
		bool off, keep_pushed, remove;
		const char *prefix;
	} store;
	struct push_settings {
		const char *to, *token_file;
		unsigned parallel, retries;
		bool sources;
	} push;
	struct setting_list labels; /* of profiles that are sent */
	struct demo_settings {
		unsigned slices, slice_ms, minutes;
		int64_t wait_s;
		bool if_empty;
	} demo;
	struct keep_profiles_settings {
		const char *dir; /* NULL: in the data directory */
		int64_t max_age_ms;
		uint64_t max_size;
		int64_t symbolize_ms; /* 0: addresses are not named */
		bool on;
	} profiles;
	const char *tokens; /* NULL: in the data directory */
	const char *scope;  /* of a new token */
	struct upstream_settings {
		struct setting_list servers;
		bool off;
		bool by_default; /* where nothing else names any */
	} upstream;
	bool json, sections, members, ids;
	bool verbose;
	unsigned find_verbosity; /* of debuginfod-find */
	struct find_settings {
		struct setting_list pids, cores, packages, sources, sections, servers;
		const char *kernel_release, *debug_file_directory, *sysroot;
		bool kernel, debuginfo, executable, all, here, why, zero;
	} find;
	struct split_settings {
		const char *output, *debug_file, *tree, *compress;
		bool executable_link;
	} split;
	struct debuginfod_settings {
		const char *database, *address;
		unsigned port, verbosity;
	} debuginfod;
	struct profile_settings {
		const char *output, *output_format, *input_format, *type, *base, *by, *label, *title, *names;
		const char *focus, *ignore, *hide, *show;
		unsigned rows;
		bool invert, normalise, cum, quiet;
	} profile;
	struct symbols_settings {
		const char *build_id, *pid;
		bool kernel, text;
		const char *file, *style, *section, *alt, *output, *kernel_release;
		unsigned threads;
		const char *demangle;
		enum frame_demangling demangling; /* what comes of these */
		bool functions, inlines, no_inlines, addresses, pretty, basenames, no_demangle;
		bool no_columns, discriminators, summary, version;
		bool may_miss; /* that an address is not known is no failure */
	} symbols;
};

void settings_init(struct settings *s);
void settings_done(struct settings *s);
/* Takes a copy of @text. */
int setting_list_add(struct settings *s, struct setting_list *l, struct str text, enum setting_rank rank,
		     struct err *err);

/* ---- options ---- */

enum option_kind {
	OPTION_CALL,    /* .call sees to it */
	OPTION_ON,      /* bool: a switch */
	OPTION_OFF,     /* bool: a switch that clears it */
	OPTION_TEXT,    /* const char * */
	OPTION_LIST,    /* struct setting_list; may be given again */
	OPTION_NUMBER,  /* unsigned */
	OPTION_SIZE,    /* uint64_t: 10, 64K, 256M, 2G */
	OPTION_SECONDS, /* int64_t */
	OPTION_MS,      /* int64_t milliseconds, given in seconds; 0 means no limit: a very long time */
	OPTION_IGNORED, /* taken with a warning; .help says why it is not needed */
	OPTION_SILENT,  /* taken, and that is all */
};

struct option_row {
	char letter;      /* short form; 0: none */
	const char *name; /* long form; of every row */
	const char *arg;  /* what stands behind it; NULL: a switch. "[N]": may be missing, else as one word
			     with the option */
	const char *help; /* NULL: hidden */
	enum option_kind kind;
	size_t at; /* of the value in struct settings: OPTION_AT(type, field) */
	int (*call)(struct settings *s, const char *value, enum setting_rank rank, struct err *err);
};

/* The offset of a field; does not compile where the field is not of the type that the row's kind writes. */
#define OPTION_AT(type, field)              \
	(offsetof(struct settings, field) / \
	 (size_t)__builtin_types_compatible_p(__typeof__(((struct settings *)0)->field), type))
#define OPT_ON(field)      OPTION_ON, OPTION_AT(bool, field)
#define OPT_OFF(field)     OPTION_OFF, OPTION_AT(bool, field)
#define OPT_TEXT(field)    OPTION_TEXT, OPTION_AT(const char *, field)
#define OPT_LIST(field)    OPTION_LIST, OPTION_AT(struct setting_list, field)
#define OPT_NUMBER(field)  OPTION_NUMBER, OPTION_AT(unsigned, field)
#define OPT_SIZE(field)    OPTION_SIZE, OPTION_AT(uint64_t, field)
#define OPT_SECONDS(field) OPTION_SECONDS, OPTION_AT(int64_t, field)
#define OPT_MS(field)      OPTION_MS, OPTION_AT(int64_t, field)
#define OPT_CALL(fn)       OPTION_CALL, 0, fn

struct option_group {
	const char *title;
	const struct option_row *rows; /* ended by one without a name */
};
/* Shared by commands, so that one configuration file serves them all. */
extern const struct option_group group_state, group_scanning, group_output, group_upstream;
/* Of profiles: files and their formats; what of them is shown. */
extern const struct option_group group_profile_files, group_profile_view;

#define COMMAND_MAX_GROUPS 10
struct command {
	const char *name, *args, *summary;
	const char *examples;
	const struct option_group *groups[COMMAND_MAX_GROUPS]; /* ended by NULL */
	bool configured;                                       /* reads the configuration file and LODE_* */
	size_t min_args, max_args;
	const char *missing;                  /* what to say with less than min_args: "which FILE?" */
	void (*defaults)(struct settings *s); /* NULL: all zero */
	int (*run)(struct settings *s);       /* returns the exit status; s->paths holds the arguments */
};
extern const struct command command_serve, command_scan, command_inspect, command_stat;
extern const struct command command_split, find_command; /* command_find() is the search in the table */
extern const struct command command_store, command_token, command_push, command_send, command_demo;
extern const struct command command_debuginfod, command_debuginfod_find;
extern const struct command command_symbolize, command_addr2line, command_symtab, command_profile;
extern const struct command command_completion, command_version, command_help;
extern const struct command *const commands[];       /* ended by NULL */
const struct command *command_find(struct str name); /* NULL: none */

/* The row of this long name, NULL: none. */
const struct option_row *option_find(const struct command *cmd, struct str name);
const struct option_row *option_by_letter(const struct command *cmd, char letter);
/* Over all rows of a command, hidden ones too; *it starts at zeros. NULL at the end. */
struct option_iter {
	size_t group, row;
};
const struct option_row *option_next(const struct command *cmd, struct option_iter *it);

/* Give a value to what a row sets. Of a switch @value is NULL, or yes or no in some words. */
int option_set(struct settings *s, const struct option_row *row, const char *value, enum setting_rank rank,
	       struct err *err);

/*
 * Of a command that does one of several things: which options are for which of them. An option that would
 * change nothing is a mistake that is worth being told of.
 */
struct option_use {
	const struct option_group *group; /* the last row's is NULL */
	const char *name;                 /* NULL: all of the group */
	unsigned modes;                   /* bits of the command's own */
};
/* One that is set and is not for @mode; NULL: there is none. Not for rows whose default is not zero. */
const struct option_row *option_useless(const struct settings *s, const struct option_use *uses,
					unsigned mode);
bool option_is_set(const struct settings *s, const struct option_row *row);

/*
 * The command line, after what comes before it: the file (--config, $LODE_CONFIG, else /etc/lode/lode.conf if
 * it is there), then the environment. OPTIONS_HELP: --help was asked for. A failure is a mistake of the
 * user's.
 */
enum { OPTIONS_HELP = 1 };
int options_read(const struct command *cmd, int argc, char **argv, struct settings *s, struct err *err);
/* The two things that come before it. @path NULL: the usual place. */
int config_read_file(const struct command *cmd, const char *path, struct settings *s, struct err *err);
int config_read_environment(const struct command *cmd, struct settings *s, struct err *err);

void help_print(const struct command *cmd, FILE *out);
void help_overview(FILE *out);

/* ---- telling ---- */

/* "lode: what: why" on stderr. Returns EXIT_FAILED. */
int tell_error(const char *what, const struct err *err);
/* Text that came from elsewhere, for people: what a terminal would obey is escaped. */
void print_text(FILE *out, struct str s);
/* Bytes of any kind as a JSON string: what is no UTF-8 is escaped as \xNN. */
json_t *json_text(struct str s);
/* To stdout, with a newline. Takes @j. Returns EXIT_DONE, or EXIT_FAILED where it could not be written. */
int json_print(json_t *j);
/* "1.2 MB" */
const char *size_text(uint64_t size, char out[32]);

/* ---- state ---- */

/* Where the state lies: @given (--data, $LODE_DATA), /var/lib/lode for root, $XDG_STATE_HOME/lode,
 * ~/.local/state/lode. Heap; NULL: nowhere. */
char *data_dir(const char *given, struct err *err);
/* This machine's own folders of programs, libraries and debug files, as far as they are there, into s->paths.
 */
void add_own_files(struct settings *s);
/* Where the tokens lie: @given, or in @data. Heap. */
char *tokens_path(const char *given, const char *data);
/* Take the data directory for this process; the lock is held until exit. */
int data_lock(const char *data, struct err *err);

/* ---- what failed ---- */

/*
 * The files of the index whose last look failed, in the order of their paths' ids: {path, reason, kind,
 * tries, next_try} each, up to
 * @max of them. Only those at or below one of @roots (real paths), unless there are none. *ret_n counts all.
 * The list is the caller's.
 */
int failures_collect(struct index *ix, const struct str *roots, size_t n_roots, size_t max, json_t **ret,
		     uint64_t *ret_n, struct err *err);

/* ---- progress, one line on a terminal that is written over ---- */

void progress_show(const struct scan_progress *p);
void progress_show_find(const struct client_progress *p, int64_t started_mono_ms);
void progress_clear(void);

/* ---- the service that `serve` and `debuginfod` run ---- */

/* What both commands start from. server.cache_max_bytes: of CACHE_USUAL the server decides; 0 is none. */
#define CACHE_USUAL UINT64_MAX
void service_defaults(struct settings *s);

/* The servers to be asked, by options, environment, default; in the settings' arena. What is no URL is warned
 * of. */
void upstream_servers(struct settings *s, struct net_url_list *ret);
/* What an earlier process knew of them, in the file `servers` of @data; returns the epoch to be given to the
 * other one, which writes it if that has changed. */
uint64_t upstream_load_states(struct net *net, const char *data);
void upstream_save_states(struct net *net, const char *data, uint64_t *epoch);

struct service_places {
	const char *data;  /* folder for lock, resume points, cache */
	const char *index; /* NULL: in data */
	bool temporary;    /* the folder goes when the service ends */
	bool tidy;         /* ... if there are no resume points in it */
};
/* Start scan, resolver and server, tell where to look, run until a signal, stop. Returns the exit status. */
int service_run(struct settings *s, const struct service_places *places);
