/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of pushes that are held (held.c): a folder with two files for each, numbered in the order in which they came.
 *
 *   NUMBER.content            as it is stored (in frames, or raw)
 *   NUMBER.owned, .better     the record, whose ending is the policy of the push
 *   NUMBER.refused            the record of one that the store did not take
 *
 * A push exists if its record does: the content is synced and linked before, and the record is the file that is removed first.
 */
#pragma once

#include "store/internal.h"

enum held_state { HELD_OWNED, HELD_BETTER_ONLY, HELD_WAS_REFUSED, HELD_N_STATES };

static inline enum held_state held_state_of(enum store_policy policy)
{
	return policy == STORE_IF_BETTER ? HELD_BETTER_ONLY : HELD_OWNED;
}

struct held_file {
	uint64_t number;
	enum held_state state;
};

/* The folder of the store at @url below @local; freed by the caller. */
char *held_folder(const char *local, const char *url);
/* Only one process adds and puts: the one with the lock. ERR_BUSY. A new folder gets an identity. */
int held_folder_lock(const char *dir, int *ret_fd, struct err *err);
/*
 * A random number, as text, in the file "lock": it tells a folder whose pushes were put from one that was made anew after a
 * loss. False: it has none, since an earlier version made it.
 */
bool held_folder_identity(const char *dir, struct buf *ret);
int held_folder_identity_copy(const struct buf *identity, const char *to_dir, struct err *err);
/* The records in the folder, in order; one that has two is there twice, the last one refused. Empty if there is no folder. */
int held_files_list(const char *dir, struct held_file **ret, size_t *ret_n, struct err *err);
/* Remove what belongs to none of these records: of a push that was not acknowledged, or one that was put. */
void held_files_sweep(const char *dir, const struct held_file *files, size_t n);
/* FILE_MISSING: it was put. Strings in @a. */
int held_record_load(const char *dir, uint64_t number, enum held_state state, struct arena *a,
		     struct store_object *ret, struct err *err);
/* The content of the staging file durably, then its record. */
int held_file_write(const char *dir, const struct held_file *f, const struct store_key *key,
		    const struct store_meta *meta, struct staging *s, struct err *err);
/* Note that the store did not take it: @owner has the object; empty: its file is damaged. */
void held_file_refuse(const char *dir, const struct held_file *f, const struct store_key *key,
		      const struct store_meta *meta, struct str owner);
/*
 * Copy one that was listed, synced, into the folder @to_dir, while another process may put or refuse it. FILE_MISSING: it was
 * put. *ret_refused: what it is now.
 */
int held_file_copy(const char *dir, const struct held_file *f, const char *to_dir, bool *ret_refused,
		   struct err *err);
void held_file_remove(const char *dir, const struct held_file *f);
/* A descriptor; -1 with errno. */
int held_content_open(const char *dir, uint64_t number);
bool held_content_is_there(const char *dir, uint64_t number, uint64_t size);
