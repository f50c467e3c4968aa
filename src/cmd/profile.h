/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of `lode profile` and of `lode symbolize PROFILE` share.
 *
 *   profile.c         options, reading, what comes out
 *   profile_name.c    naming by the files that are found for a profile's mappings
 */
#pragma once

#include "cmd/internal.h"
#include "profile/profile.h"

/* What is asked for is a profile: by an option that only profiles have, or by a first argument that is a file. */
bool profile_wanted(const struct settings *s);
/* Read, merge, name, compare, write. Returns the exit status. */
int profile_run(struct settings *s, bool name);

/* Names what is not named, and tells of the rest on stderr. */
int profile_name_here(struct profile *p, struct settings *s, struct err *err);
