/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of `lode profile`, of `lode symbolize PROFILE` and of `lode send` share.
 *
 *   profile.c         options, reading, what comes out
 *   profile_name.c    naming by the files that are found for a profile's mappings
 *   profile_read.c    reading
 *   perf_script.c     perf's own files, by perf
 */
#pragma once

#include "cmd/internal.h"
#include "profile/profile.h"

/* What is asked for is a profile: by an option that only profiles have, or by a first argument that is a
 * file. */
bool profile_wanted(const struct settings *s);
/* Read, merge, name, compare, write. Returns the exit status. */
int profile_run(struct settings *s, bool name);

/* Names what is not named, and tells of the rest on stderr. */
int profile_name_here(struct profile *p, struct settings *s, struct err *err);

/* Any profile; "-" is standard input. --input-format is heeded. */
int profile_read_path(const struct settings *s, const char *path, struct profile **ret, struct err *err);
/* perf.data; no perf to be run is told with what to do. */
int perf_script_read(const char *path, struct profile **ret, struct err *err);
int perf_script_read_bytes(struct bytes data, struct profile **ret, struct err *err);
/* Those of mappings that have none, where the file that was mapped lies at its path. No memory left is seen
 * by profile_build_end(). */
void profile_fill_build_ids(struct profile *p);

#define PROFILE_INPUT_HELP                                                                                 \
	"auto, pprof, perf (what perf script prints), folded, legacy (text of Go, gperftools, jemalloc), " \
	"cpu (gperftools) [auto]"
