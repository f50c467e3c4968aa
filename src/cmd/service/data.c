/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data directory: where it is, and that one process has it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>
#include "cmd/internal.h"

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
	err_set(err, ERR_INVALID, "where is the state to lie? Give --data DIR, or set $HOME");
	return NULL;
}

void add_own_files(struct settings *s)
{
	/* Debug files lie below /usr/lib/debug. Where /bin is a link to /usr/bin, the walk finds nothing new
	 * in it: left out. */
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

/* Who holds the lock has written its number into the file. */
static int taken(const char *data, int fd, struct err *err)
{
	char text[32];
	ssize_t n = pread(fd, text, sizeof(text), 0);
	struct str pid = str_trim((struct str){ text, n > 0 ? (size_t)n : 0 });

	if (!pid.size)
		return err_set(err, ERR_IO,
			       "%s: another lode uses this data directory; give this one another by --data",
			       data);
	return err_set(err, ERR_IO,
		       "%s: another lode (process " STR_FMT
		       ") uses this data directory; give this one another by --data",
		       data, STR_ARG(pid));
}

int data_lock(const char *data, struct err *err)
{
	AUTO(mem_freep) char *path = mem_printf("%s/lock", data);
	AUTO(mem_freep) char *pid = mem_printf("%ld\n", (long)getpid());
	AUTO(fd_close) int fd = -1;

	if (dir_make(data, 0755, err) < 0)
		return -1;
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0)
		return err_os(err, errno, "%s", path);
	if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
		if (errno == EWOULDBLOCK)
			return taken(data, fd, err);
		return err_os(err, errno, "%s: lock", path);
	}
	if (ftruncate(fd, 0) != 0 || fd_pwrite(fd, pid, strlen(pid), 0, NULL) < 0)
		return err_os(err, errno, "%s", path);
	(void)TAKE_FD(fd); /* open until exit, and with it the lock */
	return 0;
}
