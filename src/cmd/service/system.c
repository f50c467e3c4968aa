/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls of the service: signals, the limit of open files, systemd.
 */
#include "cmd/service/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void system_notify(const char *state)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	AUTO(fd_close) int fd = -1;

	if (!path || !*path || strlen(path) >= sizeof(to.sun_path))
		return;
	memcpy(to.sun_path, path, strlen(path));
	if (path[0] == '@')
		to.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&to,
			     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path))) < 0)
		log_warn("serve", "$NOTIFY_SOCKET: %s", strerror(errno));
}

void system_raise_file_limit(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) != 0 || r.rlim_cur >= r.rlim_max)
		return;
	r.rlim_cur = MIN(r.rlim_max, (rlim_t)1 << 20);
	if (setrlimit(RLIMIT_NOFILE, &r) != 0)
		log_warn("serve", "the limit of open files could not be raised: %s", strerror(errno));
}

void system_block_signals(sigset_t *set)
{
	static const int ours[] = { SIGINT, SIGTERM, SIGUSR1, SIGUSR2 };
	struct sigaction was;

	sigemptyset(set);
	for (size_t i = 0; i < ARRAY_SIZE(ours); i++)
		sigaddset(set, ours[i]);
	if (sigaction(SIGHUP, NULL, &was) == 0 && was.sa_handler != SIG_IGN)
		sigaddset(set, SIGHUP);
	pthread_sigmask(SIG_BLOCK, set, NULL);
	signal(SIGPIPE, SIG_IGN);
	/* At a limit of file size a write fails with EFBIG, like one to a full disk. */
	signal(SIGXFSZ, SIG_IGN);
}

void system_unblock_signals(const sigset_t *set)
{
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	pthread_sigmask(SIG_UNBLOCK, set, NULL);
}
