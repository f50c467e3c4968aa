/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folders that are replaced as a whole: one is filled beside the other, and takes its place when it is complete.
 */
#pragma once

#include <sys/types.h>
#include "base/err.h"

/* Remove a folder with its content; no symbolic link is followed. One that is missing is fine. */
int folder_remove(const char *path, struct err *err);
/* false also if it cannot be read. */
bool folder_is_empty(const char *path);

/*
 * A process that is killed leaves the former folder at @to, or the new one, complete. On a file system that cannot exchange two
 * names it may leave the former one as TO.lode-old, between two renames: the next folder_temp_make() puts it back. That also
 * removes remains. One process at a time for a @to.
 */
struct folder_temp {
	char *path; /* TO.lode-new: to be filled, with all files synced; NULL: committed */
	char *to, *old;
};
int folder_temp_make(const char *to, mode_t mode, struct folder_temp *ret, struct err *err);
int folder_temp_commit(struct folder_temp *t, struct err *err); /* on disk when this returns */
void folder_temp_done(struct folder_temp *t); /* AUTO(folder_temp_done) struct folder_temp t = { 0 }; */
