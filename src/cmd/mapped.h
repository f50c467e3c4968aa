/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files that a process has mapped, which may have been replaced or deleted since, or be of another mount namespace.
 */
#pragma once

#include "agent/maps.h"
#include "cmd/internal.h"

/*
 * A path by which the mapped file can be read now. Heap. NULL: there is none for this user; the file at its path, if there
 * is one, is another.
 */
char *mapped_path(const char *pid, const struct maps_line *m);
