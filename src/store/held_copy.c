/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A copy of the pushes that are held (held.c), for a backup. No lock is needed: the files of a push do not change, its record
 * is there before it is acknowledged, and is the first file that is removed when it was put.
 */
#include <errno.h>
#include <unistd.h>
#include "base/folder.h"
#include "store/held.h"

static int copy_held_files(const char *dir, const struct held_file *files, size_t n, const char *to,
			   bool (*stop)(void), uint64_t *ret_n, struct err *err)
{
	*ret_n = 0;
	for (size_t i = 0; i < n; i++) {
		bool refused = false;
		int r;

		/* Of two records the last one, refused, counts. */
		if (i + 1 < n && files[i + 1].number == files[i].number)
			continue;
		if (stop && stop())
			return err_set(err, ERR_CANCELLED, "stopped");
		r = held_file_copy(dir, &files[i], to, &refused, err);
		if (r < 0)
			return -1;
		*ret_n += r == 0 && !refused;
	}
	return 0;
}

/* The pushes of another folder may be nowhere else: they count as put only if their own folder lacks them. */
static int check_identity(const char *to, const struct buf *identity, struct err *err)
{
	AUTO(buf_done) struct buf former = { 0 };

	return !held_folder_identity(to, &former) || str_eq(buf_str(&former), buf_str(identity))
		       ? 0
		       : err_set(err, ERR_INVALID,
				 "%s has pushes of another data directory, or of one that was made anew; "
				 "restore them, or move the copy away",
				 to);
}

int store_held_copy(const char *local, const char *url, const char *to_local, bool (*stop)(void),
		    uint64_t *ret_n, struct err *err)
{
	AUTO(mem_freep) char *dir = held_folder(local, url);
	AUTO(mem_freep) char *to = held_folder(to_local, url);
	AUTO(folder_temp_done) struct folder_temp t = { 0 };
	AUTO(mem_freep) struct held_file *files = NULL;
	AUTO(buf_done) struct buf identity = { 0 };
	bool has_identity = held_folder_identity(dir, &identity);
	size_t n;

	*ret_n = 0;
	/* The service makes the folder at its start. Without it nothing was put: the data directory is a wrong or a new one. */
	if (access(dir, F_OK) < 0)
		return errno == ENOENT ? 0 : err_os(err, errno, "%s", dir);
	if (held_files_list(dir, &files, &n, err) < 0)
		return -1;
	if (!n && access(to_local, F_OK) < 0)
		return 0;
	if (check_identity(to, &identity, err) < 0)
		return -1;
	if (dir_make(to_local, 0700, err) < 0 || folder_temp_make(to, 0700, &t, err) < 0)
		return -1;
	/* Those of an earlier copy were put. */
	if (!n)
		return folder_remove(to, err);
	if (copy_held_files(dir, files, n, t.path, stop, ret_n, err) < 0 ||
	    (has_identity && held_folder_identity_copy(&identity, t.path, err) < 0))
		return -1;
	return folder_temp_commit(&t, err);
}
