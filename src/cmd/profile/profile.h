/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of `lode profile`, of `lode symbolize PROFILE` and of `lode send`.
 *
 *   profile.c       options, reading, output
 *   name.c          names, from the files that are found for a profile's mappings
 *   read.c          reading
 *   perf_script.c   perf.data, through perf
 */
#pragma once

#include "cmd/internal.h"
#include "profile/profile.h"

/* Does the command line mean a profile? By an option for profiles, or by a first argument that is a file. */
bool profile_wanted(const struct settings *s);
/* Read, merge, name, compare, write. Returns the exit status. */
int profile_run(struct settings *s, bool name);

/* EXIT_DONE: the options of output and view are right; else the error was printed. */
int profile_output_check(const struct settings *s, const char *command);
/* Write @p by the options of output, compared with @base (NULL: with none). Both may lose frames on the way. */
int profile_output(struct settings *s, struct profile *p, struct profile *base, struct err *err);

/* Name the addresses without a name, and report on stderr those that stay so. */
int profile_name_here(struct profile *p, struct settings *s, struct err *err);

/* Read a profile of any format, or of that of --input-format; "-" is standard input. */
int profile_read_path(const struct settings *s, const char *path, struct profile **ret, struct err *err);
/* The same, but a recording of Java becomes a profile for each kind of event: profile_read_each(). */
struct profile_sink;
int profile_read_path_each(const struct settings *s, const char *path, struct profile_sink sink,
			   struct err *err);
/* Read perf.data. Without perf, the error says what to do. */
int perf_script_read(const char *path, struct profile **ret, struct err *err);
int perf_script_read_bytes(struct bytes data, struct profile **ret, struct err *err);
/* Fill in missing build IDs of mappings, from the files at their paths. If memory runs out,
 * profile_build_end() fails. */
void profile_fill_build_ids(struct profile *p);

#define PROFILE_INPUT_HELP                                                                                \
	"auto, pprof, perf (the text of perf script), folded, legacy (text of Go, gperftools, jemalloc, " \
	"Java), "                                                                                         \
	"cpu (gperftools), jfr (recordings of Java's Flight Recorder) [auto]"
