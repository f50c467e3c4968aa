/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inotify: the paths below the roots that changed. They go to the walking thread, which waits for a moment
 * without new ones (a package manager writes many files). Without inotify, or when watches are exhausted or
 * events overflow, the walks at intervals find changes; the first such time is logged.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>
#include "scan/internal.h"

#define MASK                                                                                     \
	(IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE | IN_DELETE | IN_DELETE_SELF | \
	 IN_ONLYDIR | IN_EXCL_UNLINK)

struct watch {
	struct scan *scan;
	int fd, stop_fd;
	pthread_t thread;
	pthread_mutex_t lock;
	struct map dirs; /* lock: watch descriptor -> path (heap) */
	bool full;       /* lock: no more watches, logged */
};

void watch_dir(struct watch *w, const char *path)
{
	int wd = inotify_add_watch(w->fd, path, MASK);

	pthread_mutex_lock(&w->lock);
	if (wd >= 0) {
		free(map_put(&w->dirs, bytes_of(&wd, sizeof(wd)), mem_strdup(path)));
	} else if (errno == ENOSPC && !w->full) {
		w->full = true;
		log_warn("scan",
			 "no inotify watches left (fs.inotify.max_user_watches) at %s: changes there are "
			 "found by the next walk",
			 path);
	}
	pthread_mutex_unlock(&w->lock);
}

/*
 * A link is complete when it comes, and nobody closes it. The other name of a hard link may be gone already, or never was
 * (O_TMPFILE): then it shows in the times, since a file that is being written has changed when its bytes did.
 */
static bool path_is_link(const char *path)
{
	struct stat st;

	if (lstat(path, &st) != 0)
		return false;
	if (!S_ISREG(st.st_mode))
		return S_ISLNK(st.st_mode);
	return st.st_nlink > 1 || st.st_ctim.tv_sec != st.st_mtim.tv_sec ||
	       st.st_ctim.tv_nsec != st.st_mtim.tv_nsec;
}

static void watch_event(struct watch *w, const struct inotify_event *e)
{
	AUTO(mem_freep) char *path = NULL;
	const char *dir;

	if (e->mask & IN_Q_OVERFLOW) {
		scan_path_changed(w->scan, NULL);
		return;
	}
	pthread_mutex_lock(&w->lock);
	if (e->mask & IN_IGNORED) {
		free(map_del(&w->dirs, bytes_of(&e->wd, sizeof(e->wd))));
		pthread_mutex_unlock(&w->lock);
		return;
	}
	dir = map_get(&w->dirs, bytes_of(&e->wd, sizeof(e->wd)));
	if (dir)
		path = e->len ? mem_printf("%s/%s", dir, e->name) : mem_strdup(dir);
	pthread_mutex_unlock(&w->lock);
	/* A new file is probed when it is closed, a new folder or link at once. */
	if (!path || ((e->mask & IN_CREATE) && !(e->mask & IN_ISDIR) && !path_is_link(path)))
		return;
	if ((e->mask & IN_ISDIR) && (e->mask & (IN_MOVED_FROM | IN_DELETE)))
		scan_groom(w->scan); /* all files below it are gone */
	else
		scan_path_changed(w->scan, path);
}

static void *watch_main(void *arg)
{
	struct watch *w = arg;
	_Alignas(struct inotify_event) char buf[KIB(64)];

	pthread_setname_np(pthread_self(), "watch");
	for (;;) {
		struct pollfd fds[2] = { { w->fd, POLLIN, 0 }, { w->stop_fd, POLLIN, 0 } };
		ssize_t n;

		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			return NULL;
		if (fds[1].revents)
			return NULL;
		n = read(w->fd, buf, sizeof(buf));
		for (char *p = buf; n > 0 && p < buf + n;) {
			const struct inotify_event *e = (const struct inotify_event *)p;

			watch_event(w, e);
			p += sizeof(*e) + e->len;
		}
	}
}

struct watch *watch_new(struct scan *s)
{
	struct watch *w = NEW(struct watch);

	w->scan = s;
	pthread_mutex_init(&w->lock, NULL);
	w->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	w->stop_fd = eventfd(0, EFD_CLOEXEC);
	if (w->fd >= 0 && w->stop_fd >= 0 && pthread_create(&w->thread, NULL, watch_main, w) == 0)
		return w;
	log_warn("scan", "no inotify (%s): changes are found by the walks only", strerror(errno));
	fd_close(&w->fd);
	fd_close(&w->stop_fd);
	pthread_mutex_destroy(&w->lock);
	free(w);
	return NULL;
}

void watch_stop(struct watch *w)
{
	uint64_t one = 1;
	void *path;
	struct bytes key;

	if (!w)
		return;
	if (write(w->stop_fd, &one, sizeof(one)) == sizeof(one))
		pthread_join(w->thread, NULL);
	fd_close(&w->fd);
	fd_close(&w->stop_fd);
	map_each (&w->dirs, it, &key, &path)
		free(path);
	map_done(&w->dirs);
	pthread_mutex_destroy(&w->lock);
	free(w);
}
