/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a cache of contents (blob_cache.c): copies of whole contents, in a folder of base/file_cache.h, by the names
 * of the contents.
 *
 * A file has the stored bytes of a content. They were compared with the SHA-256 in its name before it got that name.
 *
 * All calls may come from any thread. The cache is closed by file_cache_close(); sources stay valid.
 */
#pragma once

#include "base/file_cache.h"
#include "store/blob.h"

/* ERR_BUSY: another process has this folder. Files that are none of the cache's, or were left by a kill, are removed. */
int blob_files_open(const struct blob_cache_options *o, struct file_cache **ret, struct err *err);

/* Is there a copy? It may turn out to be damaged. Each copy has another stamp.id. */
bool blob_files_has(struct file_cache *f, const char *name, struct blob_stamp *ret);

/* Counts as a use. FILE_CACHE_NONE; FILE_CACHE_UNCHECKED: call blob_files_check() before. */
int blob_files_read(struct file_cache *f, const char *name, struct source **ret);
/* Compare the file with its digest. A damaged one is removed. */
void blob_files_check(struct file_cache *f, const char *name);

/*
 * Keep a copy of @src, the stored bytes of the content of that name. FILE_CACHE_NONE: there is no room for it now, in the
 * budget or on the disk, or this disk fails. ERR_INVALID: the bytes are not those of the name. Other failures are of @src.
 */
int blob_files_keep(struct file_cache *f, const char *name, struct source *src, struct err *err);
void blob_files_forget(struct file_cache *f, const char *name);
