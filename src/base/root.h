/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files below a folder that stands for another root, such as that of a container: symbolic links, absolute ones too, are
 * followed within it and never lead out of it. @root is a descriptor of the folder, O_PATH will do.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>

/*
 * Open @path below @root. O_NONBLOCK, O_CLOEXEC and O_NOCTTY are added to @flags, which create no file. Negative: see errno.
 */
int root_open(int root, const char *path, int flags);
/* The same without openat2(), which root_open() tries first. At most 99 folders deep. */
int root_open_walking(int root, const char *path, int flags);
/* realpath(3) below @root, as a path within it. false: it does not exist, or has too many links; see errno. */
bool root_realpath(int root, const char *path, char ret[PATH_MAX]);
bool root_is_link(int root, const char *path); /* its last part is a symbolic link */
