/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What rpm has installed. Its database has had four formats by now, and rpm itself reads all of them: it is
 * asked, by its command.
 */
#include "cmd/find.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_OUTPUT  MIB(64)
#define PATIENCE_MS INT64_C(60000)

/* Where databases lie, and what they consist of. */
static const char *const folders[] = { "/usr/lib/sysimage/rpm", "/var/lib/rpm" };
static const char *const files[] = { "rpmdb.sqlite", "Packages.db", "Packages" };

/* Not by rpm's --root, which needs the right to chroot(); and rpm makes a database where there is none. */
static const char *database(struct finder *f)
{
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		const char *path = find_path(f, folders[i]);

		for (size_t k = 0; k < ARRAY_SIZE(files); k++)
			if (access(arena_printf(&f->a, "%s/%s", path, files[k]), R_OK) == 0)
				return path;
	}
	return NULL;
}

/* FILE_MISSING: there is no such command. */
static int start(const char *const *argv, int out, pid_t *ret, struct err *err)
{
	posix_spawn_file_actions_t actions;
	int r;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	r = posix_spawnp(ret, argv[0], &actions, NULL, (char *const *)argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (r == ENOENT)
		return FILE_MISSING;
	return r ? err_os(err, r, "%s", argv[0]) : 0;
}

static int read_all(int fd, struct buf *ret, struct err *err)
{
	int64_t until_ms = clock_mono_ms() + PATIENCE_MS;

	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		int64_t left_ms = until_ms - clock_mono_ms();
		ssize_t n;

		if (left_ms <= 0)
			return err_set(err, ERR_IO, "no answer for %d s", (int)(PATIENCE_MS / 1000));
		if (poll(&p, 1, (int)left_ms) < 0 && errno != EINTR)
			return err_os(err, errno, "poll");
		if (!p.revents)
			continue;
		n = read(fd, buf_reserve(ret, KIB(64)), KIB(64));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_os(err, errno, "read");
		if (n == 0)
			return 0;
		ret->size += (size_t)n;
		if (ret->size > MAX_OUTPUT)
			return err_set(err, ERR_LIMIT, "more than %zu bytes", MAX_OUTPUT);
	}
}

static int run(const char *const *argv, struct buf *ret, struct err *err)
{
	AUTO(fd_close) int in = -1;
	AUTO(fd_close) int out = -1;
	int fds[2], status = 0, r;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_os(err, errno, "pipe");
	in = fds[0];
	out = fds[1];
	r = start(argv, out, &pid, err);
	if (r)
		return r;
	fd_close(&out);
	r = read_all(in, ret, err);
	if (r < 0)
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (r < 0)
		return err_in(err, "%s", argv[0]);
	/* Why not is on its stdout, in the user's language. */
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : FILE_MISSING;
}

bool find_has_rpm(struct finder *f)
{
	return database(f) != NULL;
}

int find_rpm_files(struct finder *f, const char *name, struct buf *ret, struct err *err)
{
	const char *db = database(f);
	const char *const argv[] = { "rpm", "-ql", "--dbpath", db, "--", name, NULL };

	return db ? run(argv, ret, err) : FILE_MISSING;
}
