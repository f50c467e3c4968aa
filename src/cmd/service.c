/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The service: what `lode serve` and `lode debuginfod` run. Scan, resolver and server are started in that
 * order and stopped in the other; signals are taken by one thread, this one.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "cmd/internal.h"

#define STOP_GRACE_MS 5000

int service_lock(const char *data, struct err *err)
{
	AUTO(mem_freep) char *path = mem_printf("%s/lock", data);
	int fd;

	if (dir_make(data, 0755, err) < 0)
		return -1;
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0)
		return err_os(err, errno, "%s", path);
	if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
		close(fd);
		return err_set(err, ERR_IO,
			       "%s: another lode uses this data directory; give another one by --data", data);
	}
	return 0; /* held until exit: the descriptor stays open on purpose */
}

/* sd_notify(3): one datagram to the socket that systemd names. */
static void notify(const char *state)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int fd;

	if (!path || strlen(path) >= sizeof(to.sun_path))
		return;
	memcpy(to.sun_path, path, strlen(path));
	if (path[0] == '@')
		to.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	if (sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&to,
		   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path))) < 0)
		log_warn("serve", "$NOTIFY_SOCKET: %s", strerror(errno));
	close(fd);
}

static void raise_limits(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
		r.rlim_cur = MIN(r.rlim_max, (rlim_t)1 << 20);
		if (setrlimit(RLIMIT_NOFILE, &r) != 0)
			log_warn("serve", "more open files are not to be had: %s", strerror(errno));
	}
}

static sigset_t block_signals(void)
{
	static const int ours[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 };
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(ours); i++)
		sigaddset(&set, ours[i]);
	pthread_sigmask(SIG_BLOCK, &set, NULL); /* before any thread is made: they inherit it */
	signal(SIGPIPE, SIG_IGN);
	return set;
}

static void wait_for_the_end(struct scan *scan, const sigset_t *set)
{
	for (;;) {
		int sig;

		if (sigwait(set, &sig) != 0)
			continue;
		if (sig == SIGUSR1)
			scan_rescan(scan);
		else if (sig == SIGUSR2)
			scan_groom(scan);
		else
			return;
	}
}

static void greet(struct server *server)
{
	for (const char *const *url = server_urls(server); *url; url++)
		printf("lode: listening at %s\n", *url);
	printf("lode: for gdb, perf, valgrind: export DEBUGINFOD_URLS=%s\n", server_urls(server)[0]);
	fflush(stdout);
}

int service_run(struct service_options *o)
{
	AUTO(mem_freep) char *index = mem_printf("%s/index.sqlite", o->data);
	AUTO(mem_freep) char *points = mem_printf("%s/points", o->data);
	AUTO(mem_freep) char *cache = mem_printf("%s/cache", o->data);
	struct resolve_index_options resolve = { 0 };
	struct scan *scan = NULL;
	struct resolver *resolver = NULL;
	struct server *server = NULL;
	struct pool *helpers = NULL;
	struct err err = { 0 };
	sigset_t signals;
	int status = EXIT_FAILED;

	/* Who only looks on shares the state with the process that scans. */
	if (!o->scan.passive && service_lock(o->data, &err) < 0)
		return fail(&err);
	raise_limits();
	signals = block_signals();
	o->scan.index_path = o->index_path ? o->index_path : index;
	o->scan.points_dir = points;
	if (scan_new(&o->scan, &scan, &err) < 0 || scan_start(scan, &err) < 0)
		goto out;
	helpers = pool_new("decode", pool_cpus(), 64);
	resolve.index_path = o->scan.index_path;
	resolve.points_dir = points;
	resolve.scan = o->scan.passive ? NULL : scan;
	resolve.helpers = helpers;
	resolve.span_cache_size = o->span_cache;
	resolve.map_cache_size = o->map_cache;
	resolve.source_any = o->source_any;
	if (resolve_index_open(&resolve, &resolver, &err) < 0)
		goto out;
	o->server.resolver = resolver;
	o->server.scan = scan;
	o->server.index_path = o->scan.index_path;
	if (!o->server.cache_dir && !o->scan.passive)
		o->server.cache_dir = cache;
	if (server_start(&o->server, &server, &err) < 0)
		goto out;
	greet(server);
	notify("READY=1");
	wait_for_the_end(scan, &signals);
	log_info("serve", "stopping");
	notify("STOPPING=1");
	status = EXIT_DONE;
out:
	if (status != EXIT_DONE)
		fail(&err);
	server_stop(server, STOP_GRACE_MS);
	resolve_close(resolver);
	if (helpers)
		pool_free(helpers);
	scan_free(scan);
	return status;
}
