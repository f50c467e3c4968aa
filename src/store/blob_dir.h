/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blobs as files of a folder: the interface between its files.
 *
 *   blob_dir.c        the operations
 *   blob_dir_make.c   making the folder, and its marker
 *   blob_dir_list.c   the blobs in it
 */
#pragma once

#include <sys/stat.h>
#include "store/blob.h"

/* ---- blob_dir_make.c ---- */

/* Is @path a store? With @create it is made if need be, durably. As blobs_open_dir(). */
int blob_folder_open(const char *path, bool create, struct err *err);

/* ---- blob_dir_list.c ---- */

struct folder_entries {
	char **v;
	size_t n, room;
};
void folder_entries_done(struct folder_entries *e);
/* Sorted, without hidden ones. A missing folder is empty. */
int folder_entries_read(const char *path, struct folder_entries *ret, struct err *err);

struct blob_stamp blob_file_stamp(const struct stat *st);
int blob_file_stat(const char *path, struct blob_stamp *ret, struct err *err); /* BLOB_MISSING */
/* list() of the store at @path. */
int blob_folder_list(const char *path, struct str prefix, struct str after, blob_list_fn *fn, void *arg,
		     struct err *err);
