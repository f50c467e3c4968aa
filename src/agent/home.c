/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three threads take part: the sender's notes the build IDs that the server wants (home_want()), the agent's opens the
 * files (home_next(), home_give()), since it knows the processes, and a niced one of its own searches, splits and uploads.
 *
 * A file that was not found is looked for again, since its package may be installed later: after a minute, then after twice as
 * long each time. So is one that could not be sent, after the tries of agent_upload(), because the server or this machine's
 * disk failed. All others are not sent twice, even if the server asks again, unless HOME_MAX_QUEUE others came after them.
 * While the token, the proxy or the URL permits no upload, one file is tried after each such pause.
 */
#include "agent/home.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/upload.h"
#include "base/condition.h"
#include "base/proc_status.h"
#include "elf/split.h"
#include "local/local.h"

#define NICE          19
#define AGAIN_MS      60000
#define AGAIN_LAST_MS (3600 * 1000)
#define OPEN_AGAIN_MS 5000
#define NO_USER       UINT32_MAX

enum home_state {
	HOME_WANTED, /* has to be opened */
	HOME_OPEN,   /* waits for its turn */
	HOME_SENT,
	HOME_MISSING, /* no debug file was found */
	HOME_FAILED,  /* the server refuses it, or it cannot be read */
};

struct home_item {
	struct home_item *next; /* all */
	struct build_id id;
	enum home_state state;
	int fd;
	uint32_t pid;
	char *path;
	unsigned n_tries;
	int64_t next_ms; /* monotonic: not before */
};

struct home {
	struct home_options o;
	char *url, *token, *dir;
	pthread_t thread;
	bool started;
	struct net *net; /* of the thread */
	pthread_mutex_t lock;
	pthread_cond_t more;
	/* under the lock */
	struct home_item *first, **last;
	struct map by_id; /* struct home_item * */
	size_t n;
	bool stop;
	unsigned n_denied; /* in a row: no file may be uploaded */
	int64_t denied_ms; /* monotonic: no file is opened before */
	struct home_stats stats;
};

/* ---- finding and sending, in the thread ---- */

/* A file that is opened by its descriptor. */
struct home_file {
	struct source *src;
	struct elf_image *img;
	char *path; /* in the file system of the process */
};

static void home_file_done(struct home_file *f)
{
	elf_close(f->img);
	source_close(f->src);
	free(f->path);
}

static bool is_home_stopped(void *arg)
{
	struct home *h = arg;
	bool stop;

	pthread_mutex_lock(&h->lock);
	stop = h->stop;
	pthread_mutex_unlock(&h->lock);
	return stop;
}

static void home_sent_bytes(void *arg, uint64_t bytes)
{
	struct home *h = arg;

	pthread_mutex_lock(&h->lock);
	h->stats.bytes_sent += bytes;
	pthread_mutex_unlock(&h->lock);
}

static int send_fd(struct home *h, const struct build_id *id, enum store_kind kind, struct upload_file *f,
		   struct err *err)
{
	const struct upload_way w = { .net = h->net,
				      .url = h->url,
				      .token = h->token,
				      .rate = h->o.rate,
				      .stopped = is_home_stopped,
				      .sent = home_sent_bytes,
				      .arg = h };

	if (f->size > HOME_MAX_FILE)
		return err_set(err, ERR_LIMIT, "has %llu bytes, more than are uploaded",
			       (unsigned long long)f->size);
	f->key.id = *id;
	f->key.kind = kind;
	return agent_upload(&w, f, err);
}

static enum store_quality home_quality(struct source *src)
{
	struct elf_facts facts;
	struct err ignored = { 0 };

	return elf_facts_read(src, &facts, &ignored) == 0 ? store_quality_of(facts.flags) : STORE_STRIPPED;
}

/* Send a whole file, as it is. */
static int send_source(struct home *h, const struct build_id *id, enum store_kind kind, struct source *src,
		       const char *name, struct err *err)
{
	struct upload_file f = { .size = src->size, .quality = home_quality(src), .name = name };
	uint64_t off;

	if (!source_raw_fd(src, &f.fd, &off) || off)
		return err_set(err, ERR_INTERNAL, "the file has no descriptor");
	return send_fd(h, id, kind, &f, err);
}

/* The debug sections of a program that has them itself. */
static int send_split(struct home *h, const struct build_id *id, const struct home_file *f, struct err *err)
{
	AUTO(fd_close) int fd = -1;
	AUTO(source_closep) struct source *src = NULL;
	struct stat st;
	uint32_t crc;
	bool is_signed;
	int r;

	/* The debug file is about as large as the program: it would not be sent. */
	if (f->src->size > HOME_MAX_FILE)
		return err_set(err, ERR_LIMIT, "has %llu bytes, more than are split and uploaded",
			       (unsigned long long)f->src->size);
	r = elf_split_check(f->img, &is_signed, err);
	if (r)
		return r < 0 ? -1 : err_set(err, ERR_INVALID, "has nothing to split off");
	if (file_unnamed(h->dir, &fd, err) < 0 ||
	    elf_split_debug(f->img, fd, ELF_SPLIT_AS_THEY_ARE, &crc, err) < 0)
		return -1;
	if (fstat(fd, &st) < 0)
		return err_set(err, ERR_IO, "fstat of a temporary file");
	src = source_of_fd(TAKE_FD(fd), (uint64_t)st.st_size, 0, f->path);
	return send_source(h, id, STORE_DEBUGINFO, src, f->path, err);
}

/* The supplementary (dwz) file of a debug file. Without it, some names are missing; that is no failure. */
static void send_alt(struct home *h, struct local *l, struct source *debug, const char *debug_path)
{
	AUTO(elf_closep) struct elf_image *img = NULL;
	struct local_found found = { 0 };
	struct err err = { 0 };
	struct arena a;
	struct str path;
	struct build_id id;

	arena_init(&a);
	if (elf_open(debug, &img, &err) == 0 && elf_alt_link(img, &a, &path, &id, &err) == 0 &&
	    local_alt_file(l, debug_path, arena_strdup(&a, path), &id, NULL, &found) == 0 &&
	    send_source(h, &id, STORE_DEBUGINFO, found.src, found.path, &err) < 0)
		log_debug("agent", "uploading %s: %s", found.path, err.text);
	local_found_done(&found);
	arena_done(&a);
}

/* 0 and UPLOAD_HERE: done. LOCAL_MISSING + 10: nothing to send was found. */
enum { HOME_NOTHING = 10 };

static int send_found(struct home *h, struct local *l, const struct build_id *id, const struct home_file *f,
		      struct err *err)
{
	struct local_found found = { 0 };
	int r = local_debug_file(l, f->img, f->path, LOCAL_AS_NAMED, NULL, &found);

	if (r == 0 && found.src) {
		send_alt(h, l, found.src, found.path);
		r = send_source(h, id, STORE_DEBUGINFO, found.src, found.path, err);
	} else if (r == 0) {
		r = send_split(h, id, f, err);
	} else {
		r = h->o.executables ? send_source(h, id, STORE_EXECUTABLE, f->src, f->path, err)
				     : HOME_NOTHING;
	}
	local_found_done(&found);
	return r;
}

/*
 * The file system of the process, also if it is that of this machine: one that has ended has none, and then nothing is
 * found, until another process that has the file is asked. NULL: this machine's.
 */
static char *home_root(uint32_t pid)
{
	return pid ? mem_printf("/proc/%u/root", pid) : NULL;
}

/*
 * The real user of the process, whose rights count for the files that are searched: its links may name files of others, with
 * build IDs that the server shows to anyone. The effective one is root's while it runs a program such as su. A process that is
 * gone has no rights.
 */
static uid_t home_user(uint32_t pid)
{
	struct proc_status status;
	char text[16];

	snprintf(text, sizeof(text), "%u", pid);
	return proc_status_read(text, &status) ? status.real : NO_USER;
}

/* Takes @fd and @path. */
static int send_item(struct home *h, const struct build_id *id, int fd, uint32_t pid, char *path,
		     struct err *err)
{
	AUTO(mem_freep) char *root = home_root(pid);
	struct home_file f = { .path = path };
	uid_t user = pid ? home_user(pid) : 0;
	struct local_options o = { .root = root, .user = root ? &user : NULL, .max_file = HOME_MAX_FILE };
	AUTO(local_freep) struct local *l = local_new(&o);
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0) {
		fd_close(&fd);
		r = err_set(err, ERR_IO, "fstat");
	} else {
		f.src = source_of_fd(fd, (uint64_t)st.st_size, st.st_mtim.tv_sec, path);
		r = elf_open(f.src, &f.img, err);
	}
	if (r == 0)
		r = elf_is_identified_by(f.src, f.img, id) ? send_found(h, l, id, &f, err) : HOME_NOTHING;
	else if (r > 0)
		r = err_set(err, ERR_INVALID, "is not an ELF file");
	if (r < 0)
		(void)err_in(err, "%s", f.path);
	home_file_done(&f);
	return r;
}

/* ---- the thread ---- */

/* Under the lock. */
static struct home_item *next_open(const struct home *h)
{
	for (struct home_item *i = h->first; i; i = i->next)
		if (i->state == HOME_OPEN)
			return i;
	return NULL;
}

/* Under the lock. */
static void note_result(struct home *h, struct home_item *i, int r, const struct err *err)
{
	int64_t pause_ms = clock_backoff(AGAIN_MS, i->n_tries, AGAIN_LAST_MS);

	i->n_tries++;
	h->stats.current[0] = '\0';
	if (r == UPLOAD_DENIED) {
		pause_ms = clock_backoff(AGAIN_MS, h->n_denied++, AGAIN_LAST_MS);
		h->denied_ms = clock_mono_ms() + pause_ms;
	} else if (r == 0 || r == UPLOAD_HERE) {
		h->n_denied = 0;
	}
	switch (r) {
	case 0:
		h->stats.n_sent++;
		i->state = HOME_SENT;
		break;
	case UPLOAD_HERE:
		h->stats.n_here++;
		i->state = HOME_SENT;
		break;
	case HOME_NOTHING:
		h->stats.n_missing += i->n_tries == 1;
		i->state = HOME_MISSING;
		i->next_ms = clock_mono_ms() + pause_ms;
		break;
	default:
		h->stats.n_failed++;
		snprintf(h->stats.error, sizeof(h->stats.error), "%.*s", (int)sizeof(h->stats.error) - 1,
			 err->text);
		/* Another try may help, if the server failed, or the disk for temporary files is full. */
		i->state = r == UPLOAD_DENIED || (r < 0 && (err->kind == ERR_UPSTREAM || err->kind == ERR_IO))
				   ? HOME_MISSING
				   : HOME_FAILED;
		i->next_ms = clock_mono_ms() + pause_ms;
		log_info("agent", "uploading debug information: %s", err->text);
	}
}

static void *home_run(void *arg)
{
	struct home *h = arg;
	struct err err = { 0 };

	setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE);
	if (net_new(NULL, &h->net, &err) < 0)
		log_error("agent", "uploading: %s", err.text);
	pthread_mutex_lock(&h->lock);
	while (!h->stop && h->net) {
		struct home_item *i = next_open(h);
		uint32_t pid;
		char *path;
		int fd, r;

		if (!i) {
			condition_wait(&h->more, &h->lock, 1000);
			continue;
		}
		fd = TAKE_FD(i->fd);
		path = TAKE(i->path);
		pid = i->pid;
		build_id_hex(&i->id, h->stats.current);
		pthread_mutex_unlock(&h->lock);
		err = (struct err){ 0 };
		r = send_item(h, &i->id, fd, pid, path, &err);
		pthread_mutex_lock(&h->lock);
		note_result(h, i, r, &err);
	}
	pthread_mutex_unlock(&h->lock);
	net_free(h->net);
	return NULL;
}

/* ---- the other threads ---- */

int home_new(const struct home_options *o, struct home **ret, struct err *err)
{
	struct home *h = NEW(struct home);
	int r;

	h->o = *o;
	h->o.rate = o->rate ? o->rate : HOME_USUAL_RATE;
	h->url = mem_strdup(o->url);
	h->token = o->token ? mem_strdup(o->token) : NULL;
	h->dir = mem_strdup(o->dir ? o->dir : file_temp_dir());
	h->last = &h->first;
	pthread_mutex_init(&h->lock, NULL);
	condition_init(&h->more);
	r = pthread_create(&h->thread, NULL, home_run, h);
	if (r) {
		home_free(h);
		return err_os(err, r, "the thread that uploads debug information");
	}
	h->started = true;
	pthread_setname_np(h->thread, "lode-home");
	*ret = h;
	return 0;
}

void home_free(struct home *h)
{
	if (!h)
		return;
	pthread_mutex_lock(&h->lock);
	h->stop = true;
	pthread_cond_broadcast(&h->more);
	pthread_mutex_unlock(&h->lock);
	if (h->started)
		pthread_join(h->thread, NULL);
	for (struct home_item *i = h->first, *next; i; i = next) {
		next = i->next;
		fd_close(&i->fd);
		free(i->path);
		free(i);
	}
	map_done(&h->by_id);
	pthread_cond_destroy(&h->more);
	pthread_mutex_destroy(&h->lock);
	free(h->url);
	free(h->token);
	free(h->dir);
	free(h);
}

/*
 * Under the lock: forget the oldest build ID that nothing is done for now. The programs of one user must not leave those of
 * others without upload. false: all of them wait.
 */
static bool drop_oldest_item(struct home *h)
{
	for (struct home_item **at = &h->first, *i; (i = *at); at = &i->next) {
		if (i->state == HOME_WANTED || i->state == HOME_OPEN)
			continue;
		*at = i->next;
		if (!i->next)
			h->last = at;
		map_del(&h->by_id, build_id_bytes(&i->id));
		free(i->path);
		free(i);
		h->n--;
		return true;
	}
	return false;
}

void home_want(struct home *h, const struct build_id *id)
{
	struct home_item *i;

	pthread_mutex_lock(&h->lock);
	i = map_get(&h->by_id, build_id_bytes(id));
	if (i && i->state == HOME_MISSING && clock_mono_ms() >= i->next_ms)
		i->state = HOME_WANTED;
	if (!i && (h->n < HOME_MAX_QUEUE || drop_oldest_item(h))) {
		i = NEW(struct home_item);
		i->id = *id;
		i->fd = -1;
		*h->last = i;
		h->last = &i->next;
		map_put(&h->by_id, build_id_bytes(&i->id), i);
		h->n++;
		h->stats.n_wanted++;
	}
	pthread_mutex_unlock(&h->lock);
}

bool home_next(struct home *h, struct build_id *ret)
{
	int64_t now_ms = clock_mono_ms();
	const struct home_item *next = NULL;
	bool busy;

	pthread_mutex_lock(&h->lock);
	/* One file is open at a time. */
	busy = h->stats.current[0] || next_open(h) || now_ms < h->denied_ms;
	/*
	 * New ones, then the one that may be tried for the longest time. A proxy may answer 403 or 404 to one file alone, and
	 * files that were deleted cannot be opened: these must not come before others each time.
	 */
	for (const struct home_item *i = h->first; i && !busy; i = i->next)
		if (i->state == HOME_WANTED && i->next_ms <= now_ms && (!next || i->next_ms < next->next_ms))
			next = i;
	if (next)
		*ret = next->id;
	pthread_mutex_unlock(&h->lock);
	return next;
}

void home_give(struct home *h, const struct build_id *id, int fd, uint32_t pid, const char *path)
{
	struct home_item *i;

	pthread_mutex_lock(&h->lock);
	i = map_get(&h->by_id, build_id_bytes(id));
	if (i && i->state == HOME_WANTED && fd >= 0) {
		i->fd = TAKE_FD(fd);
		i->pid = pid;
		i->path = mem_strdup(path);
		i->state = HOME_OPEN;
		pthread_cond_signal(&h->more);
	} else if (i && i->state == HOME_WANTED) {
		/* The process has ended; another one may have it later, when the server asks again. */
		i->state = HOME_MISSING;
		i->next_ms = clock_mono_ms() + OPEN_AGAIN_MS;
	}
	pthread_mutex_unlock(&h->lock);
	fd_close(&fd);
}

void home_stats(struct home *h, struct home_stats *ret)
{
	pthread_mutex_lock(&h->lock);
	*ret = h->stats;
	ret->n_waiting = 0;
	for (const struct home_item *i = h->first; i; i = i->next)
		ret->n_waiting += i->state == HOME_WANTED || i->state == HOME_OPEN;
	pthread_mutex_unlock(&h->lock);
}
