/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data directory: its path, and the lock that one process holds on it.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cmd/service/service.h"

#define LOCK_NAME  "lock"
#define LOCK_TRIES 10u

char *data_dir(const char *given, struct err *err)
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

	if (given && *given)
		return mem_strdup(given);
	if (geteuid() == 0)
		return mem_strdup("/var/lib/lode");
	if (state && state[0] == '/')
		return mem_printf("%s/lode", state);
	if (home && home[0] == '/')
		return mem_printf("%s/.local/state/lode", home);
	err_set(err, ERR_INVALID, "there is no data directory: give --data DIR, or set $HOME");
	return NULL;
}

void add_own_files(struct settings *s)
{
	/* Debug files are below /usr/lib/debug. A link such as /bin -> /usr/bin is left out: it leads to
	 * files that are here already. */
	static const char *const usual[] = { "/usr/bin",   "/usr/sbin",    "/usr/lib",   "/usr/lib32",
					     "/usr/lib64", "/usr/libexec", "/usr/local", "/usr/src",
					     "/boot",      "/bin",         "/sbin",      "/lib",
					     "/lib64" };

	for (size_t i = 0; i < ARRAY_SIZE(usual); i++) {
		struct stat st;

		if (lstat(usual[i], &st) == 0 && S_ISDIR(st.st_mode))
			setting_list_add(s, &s->paths, str_of(usual[i]), RANK_DEFAULT, NULL);
	}
}

char *tokens_path(const char *given, const char *data)
{
	return given ? mem_strdup(given) : mem_printf("%s/tokens", data);
}

/* The error when another process, whose number is in the file, holds the lock. */
static int data_locked_error(const char *data, const char *option, int fd, struct err *err)
{
	char text[32];
	ssize_t n = pread(fd, text, sizeof(text), 0);
	struct str pid = str_trim((struct str){ text, n > 0 ? (size_t)n : 0 });

	return err_set(err, ERR_IO,
		       "%s: another lode (process " STR_FMT
		       ") uses this data directory; stop it, or choose another one by %s",
		       data, STR_ARG(pid.size ? pid : STR("unknown")), option);
}

/* Append a way out to the error of a directory that cannot be made or written to. */
static int data_error(const char *option, struct err *err)
{
	struct err why = *err;

	if (why.os != EACCES && why.os != EROFS && why.os != ENOTDIR)
		return -1;
	return err_set(err, ERR_IO, "%s; choose another data directory, as %s ~/lode", why.text, option);
}

enum { LOCK_REMOVED = 1 };

/* LOCK_REMOVED: the process that had the directory has ended, and removed it, in between. */
static int lock_directory(const char *data, const char *option, int *ret_fd, struct err *err)
{
	AUTO(mem_freep) char *path = mem_printf("%s/" LOCK_NAME, data);
	AUTO(fd_close) int fd = -1;
	struct stat mine, now;

	if (dir_make(data, 0755, err) < 0)
		return data_error(option, err);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0 && errno == ENOENT)
		return LOCK_REMOVED;
	if (fd < 0) {
		(void)err_os(err, errno, "%s", path);
		return data_error(option, err);
	}
	if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
		if (errno == EWOULDBLOCK)
			return data_locked_error(data, option, fd, err);
		return err_os(err, errno, "%s: lock", path);
	}
	if (fstat(fd, &mine) < 0)
		return err_os(err, errno, "%s", path);
	if (lstat(path, &now) < 0 || now.st_dev != mine.st_dev || now.st_ino != mine.st_ino)
		return LOCK_REMOVED;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int data_lock(const char *data, const char *option, struct err *err)
{
	AUTO(mem_freep) char *pid = mem_printf("%ld\n", (long)getpid());
	AUTO(fd_close) int fd = -1;
	int r = LOCK_REMOVED;

	for (unsigned i = 0; r == LOCK_REMOVED && i < LOCK_TRIES; i++)
		r = lock_directory(data, option, &fd, err);
	if (r == LOCK_REMOVED)
		return err_set(err, ERR_IO, "%s: it is removed again and again by another program", data);
	if (r < 0)
		return -1;
	if (ftruncate(fd, 0) != 0 || fd_pwrite(fd, pid, strlen(pid), 0, NULL) < 0)
		return err_os(err, errno, "%s/" LOCK_NAME, data);
	(void)TAKE_FD(fd); /* open until exit, since closing it would unlock */
	return 0;
}

static int remove_data_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	bool is_lock = ftw->level == 1 && strcmp(path + ftw->base, LOCK_NAME) == 0;

	return ftw->level == 0 || is_lock ? 0 : remove(path);
}

void data_remove(const char *data)
{
	AUTO(mem_freep) char *lock = mem_printf("%s/" LOCK_NAME, data);

	/* The lock is the last one. Without it another process that starts meanwhile would lose its files here. */
	if (nftw(data, remove_data_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) == 0)
		(void)!unlink(lock);
	(void)!rmdir(data);
}
