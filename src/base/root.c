/* SPDX-License-Identifier: Apache-2.0 */
/*
 * openat2() with RESOLVE_IN_ROOT. Before Linux 5.6 nothing can be opened: a walk of our own would race with renamed folders.
 */
#include "base/root.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/base.h"

#define MAX_LINKS 40

int root_open(int root, const char *path, int flags)
{
	struct open_how how = { .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };

	/* With O_PATH the others are refused. */
	how.flags = (unsigned)(flags | O_CLOEXEC | (flags & O_PATH ? 0 : O_NONBLOCK | O_NOCTTY));
	return (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
}

/* The target of the symbolic link at @path. 0: it is another file. Negative: see errno. */
static ssize_t read_link_in(int root, const char *path, char *ret, size_t size)
{
	AUTO(fd_close) int fd = root_open(root, path, O_PATH | O_NOFOLLOW);
	ssize_t n;

	if (fd < 0)
		return -1;
	n = readlinkat(fd, "", ret, size - 1);
	if (n < 0)
		return errno == EINVAL || errno == ENOENT ? 0 : -1;
	ret[n] = '\0';
	return n;
}

bool root_is_link(int root, const char *path)
{
	char target[PATH_MAX];

	return read_link_in(root, path, target, sizeof(target)) > 0;
}

/* Put @text and '/' before what is left of the path, in @rest. */
static bool push_path(char rest[PATH_MAX], const char *text)
{
	size_t n = strlen(text), left = strlen(rest);

	if (n + left + 2 > PATH_MAX) {
		errno = ENAMETOOLONG;
		return false;
	}
	memmove(rest + n + 1, rest, left + 1);
	memcpy(rest, text, n);
	rest[n] = '/';
	return true;
}

/* Append the part @name, of @n bytes, to @real. */
static bool append_part(char real[PATH_MAX], const char *name, size_t n)
{
	size_t size = strlen(real);

	if (size + n + 2 > PATH_MAX) {
		errno = ENAMETOOLONG;
		return false;
	}
	real[size] = '/';
	memcpy(real + size + 1, name, n);
	real[size + 1 + n] = '\0';
	return true;
}

static void drop_part(char *real)
{
	char *slash = strrchr(real, '/');

	*(slash ? slash : real) = '\0';
}

bool root_realpath(int root, const char *path, char ret[PATH_MAX])
{
	char rest[PATH_MAX] = "", real[PATH_MAX] = "", target[PATH_MAX];

	if (!push_path(rest, path))
		return false;
	for (unsigned links = 0; links < MAX_LINKS;) {
		char *part = rest + strspn(rest, "/");
		size_t n = strcspn(part, "/");
		ssize_t linked;

		if (!n) {
			strcpy(ret, *real ? real : "/");
			return true;
		}
		if (n == 2 && memcmp(part, "..", 2) == 0) {
			drop_part(real);
		} else if (n > 1 || *part != '.') {
			if (!append_part(real, part, n))
				return false;
			linked = read_link_in(root, real, target, sizeof(target));
			if (linked < 0)
				return false;
			if (linked) {
				links++;
				if (*target == '/')
					*real = '\0';
				else
					drop_part(real);
				memmove(rest, part + n, strlen(part + n) + 1);
				if (!push_path(rest, target))
					return false;
				continue;
			}
		}
		memmove(rest, part + n, strlen(part + n) + 1);
	}
	errno = ELOOP;
	return false;
}
