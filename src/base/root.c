/* SPDX-License-Identifier: Apache-2.0 */
/*
 * openat2() with RESOLVE_IN_ROOT. Where it is missing (Linux before 5.6) or refused (systemd's RestrictSUIDSGID=, which
 * DynamicUser= implies, and old profiles of container runtimes), a walk of our own: part by part, by descriptors of
 * folders, without a symbolic link or ".." that the kernel follows. So it stays below the root, whichever folder is renamed
 * meanwhile.
 */
#include "base/root.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/base.h"

#define MAX_LINKS 40
#define MAX_DEPTH 100 /* folders */

/* With O_PATH the others are refused. */
static int flags_of_open(int flags)
{
	return flags | O_CLOEXEC | (flags & O_PATH ? 0 : O_NONBLOCK | O_NOCTTY);
}

/* ---- a walk ---- */

struct root_walk {
	int folders[MAX_DEPTH]; /* the first is the root, which is borrowed */
	unsigned n;
	unsigned n_links;
	const uid_t *user;   /* whose rights count; NULL: those of this process */
	char rest[PATH_MAX]; /* of the path */
};

static bool push_path(char rest[PATH_MAX], const char *text);

static void walk_up(struct root_walk *w, unsigned n)
{
	for (; w->n > n; w->n--)
		close(w->folders[w->n - 1]);
}

static void root_walk_done(struct root_walk *w)
{
	int e = errno;

	walk_up(w, 1);
	errno = e;
}

/* Go to folder @fd, which is taken. */
static bool walk_into(struct root_walk *w, int fd)
{
	if (w->n == MAX_DEPTH) {
		close(fd);
		errno = ENAMETOOLONG;
		return false;
	}
	w->folders[w->n++] = fd;
	return true;
}

/* The link @fd stands before the rest of the path. */
static bool walk_link(struct root_walk *w, int fd)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(fd, "", target, sizeof(target) - 1);

	if (n < 0)
		return false;
	if (n == 0 || ++w->n_links > MAX_LINKS) {
		errno = n == 0 ? ENOENT : ELOOP;
		return false;
	}
	target[n] = '\0';
	if (*target == '/')
		walk_up(w, 1);
	/* The last part of the target is the last one of the path, then. */
	if (strcmp(w->rest, "/") == 0)
		*w->rest = '\0';
	return push_path(w->rest, target);
}

/* Whether the user may search the folder, or read the file. */
static bool walk_is_permitted(const struct root_walk *w, const struct stat *st)
{
	mode_t right = S_ISDIR(st->st_mode) ? S_IXOTH : S_IROTH;

	if (!w->user || *w->user == 0 || st->st_mode & (st->st_uid == *w->user ? right << 6 : right))
		return true;
	errno = EACCES;
	return false;
}

/* The part @name of the path. Returns 1: go on; 0: *ret is the result; -1: see errno. */
static int walk_part(struct root_walk *w, const char *name, bool is_last, int flags, int *ret)
{
	int folder = w->folders[w->n - 1];
	AUTO(fd_close) int fd = openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -1;
	if (S_ISLNK(st.st_mode) && !(is_last && flags & O_NOFOLLOW))
		return walk_link(w, fd) ? 1 : -1;
	if (!walk_is_permitted(w, &st))
		return -1;
	if (S_ISDIR(st.st_mode))
		return walk_into(w, TAKE_FD(fd)) ? 1 : -1;
	if (!is_last) {
		errno = ENOTDIR;
		return -1;
	}
	/* The file that was judged. */
	if (w->user) {
		*ret = root_reopen(fd, flags);
		return *ret < 0 ? -1 : 0;
	}
	/* A link that takes its place just now is not followed. */
	*ret = openat(folder, name, flags_of_open(flags | O_NOFOLLOW));
	return *ret < 0 ? -1 : 0;
}

static int walk_path(struct root_walk *w, const char *path, int flags)
{
	int fd = -1, r = 1;

	if (!*path) {
		errno = ENOENT;
		return -1;
	}
	if (!push_path(w->rest, path))
		return -1;
	while (r > 0) {
		size_t from = strspn(w->rest, "/"), n = strcspn(w->rest + from, "/");
		char name[NAME_MAX + 1];
		bool is_last;

		if (!n) /* it is a folder */
			return openat(w->folders[w->n - 1], ".", flags_of_open(flags));
		if (n > NAME_MAX) {
			errno = ENAMETOOLONG;
			return -1;
		}
		memcpy(name, w->rest + from, n);
		name[n] = '\0';
		memmove(w->rest, w->rest + from + n, strlen(w->rest + from + n) + 1);
		/* push_path() has put one '/' after the path. */
		is_last = strcmp(w->rest, "/") == 0;
		if (strcmp(name, "..") == 0)
			walk_up(w, MAX(w->n - 1, 1u));
		else if (strcmp(name, ".") != 0)
			r = walk_part(w, name, is_last, flags, &fd);
	}
	return r < 0 ? -1 : fd;
}

int root_open_walking(int root, const char *path, int flags)
{
	AUTO(root_walk_done) struct root_walk w = { .folders = { root }, .n = 1 };

	return walk_path(&w, path, flags);
}

int root_open_of_user(int root, const char *path, uid_t user)
{
	AUTO(root_walk_done) struct root_walk w = { .folders = { root }, .n = 1, .user = &user };
	struct stat st;

	if (fstat(root, &st) < 0 || !walk_is_permitted(&w, &st))
		return -1;
	return walk_path(&w, path, O_RDONLY);
}

/* root_open() of any kind of file. */
static int root_find(int root, const char *path, int flags)
{
	const struct open_how how = { .flags = (unsigned)flags_of_open(flags),
				      .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
	int fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));

	/* EAGAIN: of a path with "..", while any process renames something anywhere. */
	return fd < 0 && (errno == ENOSYS || errno == EPERM || errno == EAGAIN)
		       ? root_open_walking(root, path, flags)
		       : fd;
}

int root_reopen(int at, int flags)
{
	char name[40];
	struct stat st;

	if (fstat(at, &st) < 0)
		return -1;
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
		errno = S_ISLNK(st.st_mode) ? ELOOP : ENXIO;
		return -1;
	}
	snprintf(name, sizeof(name), "/proc/self/fd/%d", at);
	return open(name, flags_of_open(flags & ~O_NOFOLLOW));
}

int root_open(int root, const char *path, int flags)
{
	AUTO(fd_close) int at = -1;

	if (flags & O_PATH)
		return root_find(root, path, flags);
	at = root_find(root, path, O_PATH | (flags & (O_DIRECTORY | O_NOFOLLOW)));
	return at < 0 ? -1 : root_reopen(at, flags);
}

/* ---- links ---- */

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

/* Put @text and '/' before the rest of the path, in @rest. */
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
