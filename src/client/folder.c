/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The path of the cache folder, whether it can be used, and its control files.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "client/internal.h"

/* Without HOME it is "/", as for other clients of the folder. */
static const char *home_dir(void)
{
	const char *h = getenv("HOME");

	return h && *h ? h : "/";
}

static char *path_absolute(char *path)
{
	AUTO(mem_freep) char *cwd = NULL;
	char *out;

	if (path[0] == '/' || !(cwd = getcwd(NULL, 0)))
		return path;
	out = mem_printf("%s/%s", cwd, path);
	free(path);
	return out;
}

char *folder_usual(const char *given)
{
	const char *xdg = getenv("XDG_CACHE_HOME");
	struct stat st;
	char *path;

	if (!given)
		given = getenv("DEBUGINFOD_CACHE_PATH");
	if (given && *given)
		return path_absolute(mem_strdup(given));
	path = mem_printf("%s/.debuginfod_client_cache", home_dir());
	if (stat(path, &st) == 0)
		return path_absolute(path);
	free(path);
	path = xdg && *xdg ? mem_printf("%s/debuginfod_client", xdg)
			   : mem_printf("%s/.cache/debuginfod_client", home_dir());
	return path_absolute(path);
}

void folder_open(struct folder *f, char *path)
{
	struct stat st;

	*f = (struct folder){ .path = path };
	if (stat(path, &st) < 0 && dir_make(path, 0700, &f->read_only_why) < 0) {
		f->read_only = true;
	} else if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode)) {
		err_os(&f->read_only_why, ENOTDIR, "%s", path);
		f->read_only = true;
	} else if (access(path, R_OK | W_OK | X_OK) < 0) {
		err_os(&f->read_only_why, errno, "%s", path);
		f->read_only = true;
	}
	if (f->read_only)
		err_in(&f->read_only_why, "cache folder");
}

/* For a folder in a place where every user may create one: a link, or another user's folder, may be a
 * trap. */
static bool spare_is_ours(const char *path, bool make, struct err *err)
{
	struct stat st;

	if (make && mkdir(path, 0700) < 0 && errno != EEXIST) {
		err_os(err, errno, "%s", path);
		return false;
	}
	if (lstat(path, &st) < 0) {
		err_os(err, errno, "%s", path);
		return false;
	}
	if (S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 077))
		return true;
	err_set(err, ERR_INVALID, "%s: must be a directory of this user, without access for others", path);
	return false;
}

bool folder_open_spare(struct folder *f, bool make)
{
	const char *places[] = { getenv("TMPDIR"), "/var/tmp", "/tmp" };

	*f = (struct folder){ 0 };
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		AUTO(mem_freep) char *path = NULL;

		if (!places[i] || places[i][0] != '/')
			continue;
		path = mem_printf("%s/debuginfod_client-%u", places[i], (unsigned)geteuid());
		/* Files could only be in the folder of the first writable place. */
		if (!make && access(path, F_OK) < 0 && access(places[i], W_OK) == 0)
			break;
		if (!spare_is_ours(path, make, &f->read_only_why) || access(path, W_OK) < 0)
			continue;
		f->path = TAKE(path);
		f->read_only_why = (struct err){ 0 };
		return true;
	}
	f->read_only = true;
	return false;
}

void folder_done(struct folder *f)
{
	free(f->path);
	*f = (struct folder){ 0 };
}

static bool control_read(int fd, int64_t *ret)
{
	char text[32], *end;
	size_t got;

	if (fd_pread(fd, text, sizeof(text) - 1, 0, &got, NULL) < 0)
		return false;
	text[got] = '\0';
	errno = 0;
	*ret = strtoll(text, &end, 10);
	return end != text && errno == 0 && *ret >= 0;
}

int64_t folder_control(const struct folder *f, const char *name, int64_t usual, int64_t *ret_mtime)
{
	AUTO(mem_freep) char *path = f->path ? mem_printf("%s/%s", f->path, name) : NULL;
	AUTO(fd_close) int fd = -1;
	struct stat st;
	int64_t n;

	if (ret_mtime)
		*ret_mtime = 0;
	if (!path)
		return usual;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0) {
		if (ret_mtime)
			*ret_mtime = st.st_mtime;
		return control_read(fd, &n) ? n : usual;
	}
	/* Missing or empty. Other clients also create them with mode 0666 less the umask, so that users find
	 * and change them. */
	if (!f->read_only && (fd >= 0 || errno == ENOENT)) {
		AUTO(fd_close) int out = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);

		if (out >= 0 && dprintf(out, "%lld", (long long)usual) > 0 && fstat(out, &st) == 0 &&
		    ret_mtime)
			*ret_mtime = st.st_mtime;
	}
	return usual;
}

bool folder_time_is_fresh(int64_t time_s, int64_t keep_s)
{
	int64_t age = clock_wall_s() - time_s;

	return age <= keep_s && -age <= keep_s;
}
