/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of a command from its start to its end: CPU seconds, wall seconds, peak MB.
 *
 *	bench-run PROGRAM [ARG...]
 *
 * The command gets our standard input; its output is discarded. Nothing is printed for a command that fails.
 *
 * This program is small, since the peak of a process includes that of the process that forked it.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double seconds(struct timeval t)
{
	return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

int main(int argc, char **argv)
{
	posix_spawn_file_actions_t files;
	struct rusage u;
	double from;
	pid_t pid;
	int r, status;

	if (argc < 2) {
		fprintf(stderr, "usage: bench-run PROGRAM [ARG...]\n");
		return 2;
	}
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_adddup2(&files, 1, 2);
	from = now();
	r = posix_spawnp(&pid, argv[1], &files, NULL, argv + 1, environ);
	posix_spawn_file_actions_destroy(&files);
	if (r) {
		fprintf(stderr, "%s: %s\n", argv[1], strerror(r));
		return 1;
	}
	while (wait4(pid, &status, 0, &u) < 0)
		if (errno != EINTR)
			return 1;
	if (WIFSIGNALED(status)) {
		fprintf(stderr, "%s: %s\n", argv[1], strsignal(WTERMSIG(status)));
		return 1;
	}
	printf("%.6f %.6f %.3f\n", seconds(u.ru_utime) + seconds(u.ru_stime), now() - from,
	       (double)u.ru_maxrss * 1024 / 1e6);
	return WEXITSTATUS(status);
}
