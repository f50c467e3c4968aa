/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files below a folder that stands for another root, such as that of a container: symbolic links, absolute ones too, are
 * followed within it and never lead out of it. @root is a descriptor of the folder, O_PATH will do.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

/*
 * Open @path below @root. O_NONBLOCK, O_CLOEXEC and O_NOCTTY are added to @flags, which create no file. Without O_PATH only a
 * regular file or a folder is opened, see root_reopen(). Negative: see errno.
 */
int root_open(int root, const char *path, int flags);
/*
 * Open the file again that is open as @at (O_PATH). Only a regular file or a folder is opened, else ENXIO, ELOOP for a
 * symbolic link: opening a device can have effects, as that of a watchdog. Needs /proc.
 */
int root_reopen(int at, int flags);
/* The same without openat2(), which root_open() tries first. At most 99 folders deep. */
int root_open_walking(int root, const char *path, int flags);
/*
 * root_open() for reading, as far as user @user may: by the bits of owner and others of the file and of each folder above it,
 * without groups and access lists. EACCES. As deep as root_open_walking().
 */
int root_open_of_user(int root, const char *path, uid_t user);
/* realpath(3) below @root, as a path within it. false: it does not exist, or has too many links; see errno. */
bool root_realpath(int root, const char *path, char ret[PATH_MAX]);
bool root_is_link(int root, const char *path); /* its last part is a symbolic link */
