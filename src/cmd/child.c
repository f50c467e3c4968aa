/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running a program, and reading its output.
 */
#include "cmd/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHUNK MIB(1)

static int wait_readable(int fd, int64_t until_ms, int64_t patience_ms, struct err *err)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	while (!p.revents) {
		int64_t left_ms = until_ms - clock_mono_ms();

		if (left_ms <= 0)
			return err_set(err, ERR_IO, "it did not end within %d s", (int)(patience_ms / 1000));
		if (poll(&p, 1, (int)MIN(left_ms, (int64_t)INT32_MAX)) < 0 && errno != EINTR)
			return err_os(err, errno, "poll");
	}
	return 0;
}

int child_read(int fd, size_t max, int64_t patience_ms, struct buf *ret, struct err *err)
{
	int64_t until_ms = clock_mono_ms() + patience_ms;

	for (;;) {
		uint8_t *to = buf_try_reserve(ret, CHUNK);
		ssize_t n;

		if (ret->size > max)
			return CHILD_TOO_MUCH;
		if (!to)
			return err_set(err, ERR_LIMIT, "no memory for more than %zu bytes", ret->size);
		if (patience_ms && wait_readable(fd, until_ms, patience_ms, err) < 0)
			return -1;
		n = read(fd, to, CHUNK);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_os(err, errno, "read");
		if (n == 0)
			return 0;
		ret->size += (size_t)n;
	}
}

static int child_start(const struct child *c, int out, pid_t *ret, struct err *err)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t usual;
	int r;

	/* lode may ignore SIGPIPE; the program must not inherit that. */
	sigemptyset(&usual);
	sigaddset(&usual, SIGPIPE);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigdefault(&attr, &usual);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF);

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	if (c->said >= 0)
		posix_spawn_file_actions_adddup2(&actions, c->said, STDERR_FILENO);
	else
		posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	r = posix_spawnp(ret, c->argv[0], &actions, &attr, (char *const *)c->argv, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&actions);
	if (r == ENOENT)
		return FILE_MISSING;
	return r ? err_os(err, r, "%s cannot be run", c->argv[0]) : 0;
}

int child_run(const struct child *c, struct buf *ret, int *ret_status, struct err *err)
{
	AUTO(fd_close) int in = -1;
	AUTO(fd_close) int out = -1;
	int fds[2], r;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_os(err, errno, "no pipe can be made");
	in = fds[0];
	out = fds[1];
	r = child_start(c, out, &pid, err);
	if (r)
		return r;
	fd_close(&out);
	r = child_read(in, c->max, c->patience_ms, ret, err);
	if (r)
		kill(pid, SIGKILL);
	while (waitpid(pid, ret_status, 0) < 0 && errno == EINTR)
		;
	return r < 0 ? err_in(err, "%s", c->argv[0]) : r;
}
