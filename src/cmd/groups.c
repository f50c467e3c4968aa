/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options that several commands have. What `lode serve` and `lode scan` look at is told to both by the same
 * words, and so by one configuration file.
 */
#include "cmd/internal.h"

static const struct option_row state_rows[] = {
	{ 0, "data", "DIR", "where the state lies [/var/lib/lode for root, else $XDG_STATE_HOME/lode]",
	  OPT_TEXT(data) },
	{ 0, "config", "FILE", "options by their long names, lines 'name = value' [/etc/lode/lode.conf]",
	  OPT_TEXT(config) },
	{ 'v', "verbose", NULL, "log more", OPT_ON(verbose) },
	{ 0 },
};
const struct option_group group_state = { "State", state_rows };

static const struct option_row scanning_rows[] = {
	{ 0, "path", "PATH", "as PATH behind the options; for the configuration file; may be given again",
	  OPT_LIST(paths) },
	{ 0, "no-files", NULL, "look at packages only", OPT_OFF(scan.files) },
	{ 0, "no-packages", NULL, "look at files only", OPT_OFF(scan.packages) },
	{ 0, "suffix", "EXT",
	  "only packages whose names end so; may be given again [all kinds that are known]",
	  OPT_LIST(suffixes) },
	{ 0, "include", "REGEX", "only paths that match (POSIX extended, anywhere in the real path)",
	  OPT_TEXT(scan.include_regex) },
	{ 0, "exclude", "REGEX", "no paths that match; stronger than --include",
	  OPT_TEXT(scan.exclude_regex) },
	{ 0, "follow-links", NULL, "follow symbolic links, and cross file systems",
	  OPT_ON(scan.follow_links) },
	{ 0, "max-depth", "N", "go no deeper below a PATH [no limit]", OPT_NUMBER(scan.max_depth) },
	{ 0, "header-only", NULL, "decode a package only when something of it is asked for",
	  OPT_ON(scan.header_only) },
	{ 0, "scan-threads", "N", "threads that scan [CPUs]", OPT_NUMBER(scan.threads) },
	{ 0 },
};
const struct option_group group_scanning = { "What is looked at", scanning_rows };

static const struct option_row output_rows[] = {
	{ 0, "json", NULL, "for programs", OPT_ON(json) },
	{ 0 },
};
const struct option_group group_output = { "Output", output_rows };
