/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a cache of contents (blob_cache.c): copies of whole contents in one folder, within a budget.
 *
 * A file has the stored bytes of a content, from its first byte on, and then a trailer with their digest. Its bytes were
 * compared with the SHA-256 in its name before it got that name; nothing is synced, so after a start the digest is compared
 * before the first use. Files are never changed, only unlinked: a descriptor or a mapping of one stays valid.
 *
 * All calls may come from any thread.
 */
#pragma once

#include "store/blob.h"

struct blob_files;

/* ERR_BUSY: another process has this folder. Files that are none of the cache's, or were left by a kill, are removed. */
int blob_files_open(const struct blob_cache_options *o, struct blob_files **ret, struct err *err);
void blob_files_close(struct blob_files *f); /* takes NULL; sources stay valid */

/* Is there a copy? It may turn out to be damaged. Each copy has another stamp.id. */
bool blob_files_has(struct blob_files *f, const char *name, struct blob_stamp *ret);

/* Counts as a use. FILES_NONE; FILES_UNCHECKED: call blob_files_check() before. */
enum { FILES_NONE = 1, FILES_UNCHECKED = 2 };
int blob_files_read(struct blob_files *f, const char *name, struct source **ret);
/* Compare the file with its digest. A damaged one is removed. */
void blob_files_check(struct blob_files *f, const char *name);

/*
 * Keep a copy of @src, the stored bytes of the content of that name. FILES_NONE: there is no room for it now, in the budget
 * or on the disk, or this disk fails. ERR_INVALID: the bytes are not those of the name. Other failures are of @src.
 */
int blob_files_keep(struct blob_files *f, const char *name, struct source *src, struct err *err);
void blob_files_forget(struct blob_files *f, const char *name);

struct blob_files_figures {
	uint64_t size, n_files, n_evicted, n_damaged;
};
void blob_files_figures(struct blob_files *f, struct blob_files_figures *ret);
