/* SPDX-License-Identifier: Apache-2.0 */
/* Folders that are replaced as a whole: see folder.h. */
#include "base/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/file.h"
#include "base/mem.h"

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	return remove(path);
}

int folder_remove(const char *path, struct err *err)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return errno == ENOENT ? 0 : err_os(err, errno, "%s", path);
	return nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS) == 0
		       ? 0
		       : err_os(err, errno, "%s: cannot be removed", path);
}

bool folder_is_empty(const char *path)
{
	DIR *d = opendir(path);
	const struct dirent *e;
	size_t n = 0;

	if (!d)
		return false;
	while ((errno = 0, e = readdir(d)))
		n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
	n += errno != 0;
	closedir(d);
	return n == 0;
}

static int folder_put_back(const struct folder_temp *t, struct err *err)
{
	struct stat st;

	if (lstat(t->to, &st) == 0)
		return folder_remove(t->old, err);
	return rename(t->old, t->to) == 0 || errno == ENOENT
		       ? 0
		       : err_os(err, errno, "%s: cannot be renamed to %s", t->old, t->to);
}

int folder_temp_make(const char *to, mode_t mode, struct folder_temp *ret, struct err *err)
{
	AUTO(folder_temp_done)
	struct folder_temp t = { .to = mem_strdup(to), .old = mem_printf("%s.lode-old", to) };
	AUTO(mem_freep) char *path = mem_printf("%s.lode-new", to);

	if (folder_put_back(&t, err) < 0 || folder_remove(path, err) < 0)
		return -1;
	if (mkdir(path, mode) < 0)
		return err_os(err, errno, "%s", path);
	t.path = TAKE(path);
	*ret = t;
	t = (struct folder_temp){ 0 };
	return 0;
}

int folder_temp_commit(struct folder_temp *t, struct err *err)
{
	AUTO(mem_freep) char *parent = mem_printf("%s/..", t->path);
	AUTO(fd_close) int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool exchanged;

	/* Before the rename: afterwards the path leads elsewhere. */
	if (fd < 0 || dir_sync(t->path, err) < 0)
		return fd < 0 ? err_os(err, errno, "%s", parent) : -1;
	exchanged = renameat2(AT_FDCWD, t->path, AT_FDCWD, t->to, RENAME_EXCHANGE) == 0;
	if (!exchanged && rename(t->to, t->old) < 0 && errno != ENOENT)
		return err_os(err, errno, "%s: cannot be renamed to %s", t->to, t->old);
	if (!exchanged && rename(t->path, t->to) < 0)
		return err_os(err, errno, "%s: cannot be renamed to %s", t->path, t->to);
	if (fsync(fd) < 0)
		return err_os(err, errno, "%s: sync", parent);
	/* The new one is there in any case; the next call removes the rest. */
	(void)folder_remove(exchanged ? t->path : t->old, NULL);
	mem_freep(&t->path);
	return 0;
}

void folder_temp_done(struct folder_temp *t)
{
	if (t->path) {
		(void)folder_remove(t->path, NULL);
		(void)folder_put_back(t, NULL);
	}
	mem_freep(&t->path);
	mem_freep(&t->to);
	mem_freep(&t->old);
}
