/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work on an artifact, in steps on workers: resolve it, then decode it, a slice at a time. After each
 * step it goes to the end of the queue, so that large artifacts take turns with small ones. With a full
 * ring it stops, and the next read of its request kicks it: a slow client uses a ring, but no worker.
 */
#include "server/artifact/artifact.h"
#include "server/status/status.h"

#include <limits.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MAX_REMADE  3u /* answers that are looked up again, since the index was made anew meanwhile */
#define SLICE_MS    20 /* then another task gets the worker */
#define RING_SIZE   MIB(1)
#define RINGS_MAX   MIB(256) /* of all rings together */
#define FIRST_CHUNK KIB(64)  /* small, so that the first byte is sent early */

/* ---- ends ---- */

/* Free what only decoding needs. */
static void stop_decoding(struct artifact *a)
{
	source_close(TAKE(a->source));
	free(TAKE(a->chunk));
}

static void artifact_publish(struct artifact *a, enum artifact_state state)
{
	pthread_mutex_lock(&a->lock);
	a->state = state;
	artifact_wake_all(a);
	pthread_mutex_unlock(&a->lock);
}

static void artifact_fail(struct artifact *a, int outcome)
{
	stop_decoding(a);
	cache_drop(a->s->cache, TAKE(a->file));
	a->outcome = outcome;
	/* First: a request that has seen this failure and asks again gets a new try. */
	artifact_land(a);
	artifact_publish(a, ARTIFACT_FAILED);
}

/* true: no request is left, and none will come. */
static bool artifact_abandoned(struct artifact *a)
{
	bool none;

	pthread_mutex_lock(&a->lock);
	none = !a->n_waiters;
	pthread_mutex_unlock(&a->lock);
	if (!none)
		return false;
	artifact_land(a);
	/*
	 * A request may have come just before that. One that has it from the table but is not in the list
	 * yet will see `given_up`, and ask anew.
	 */
	pthread_mutex_lock(&a->lock);
	none = !a->n_waiters;
	a->given_up = none;
	pthread_mutex_unlock(&a->lock);
	return none;
}

/* ---- resolving ---- */

static void content_describe(struct artifact *a, const struct resolve_answer *answer)
{
	struct content *c = &a->content;
	struct str file = answer->file, archive = answer->archive;

	c->size = answer->source->size;
	c->mtime = answer->mtime;
	snprintf(c->etag, sizeof(c->etag), "\"%016llx\"", (unsigned long long)answer->tag);
	if (answer->mtime > 0)
		http_date(answer->mtime, c->modified);
	/* As elfutils' server: of a plain file the base name, of a member its path. */
	if (!archive.size)
		file = path_basename(file);
	if (file.size)
		c->file = mem_strndup(file.p, file.size);
	if (a->s->opts.hide_archive)
		archive = path_basename(archive);
	if (archive.size)
		c->archive = mem_strndup(archive.p, archive.size);
	a->tag = answer->bytes_tag ? answer->bytes_tag : answer->tag;
	a->arrived = answer->arrived;
	a->sequential_only = answer->sequential_only;
}

/* The labels of elfutils' server for the origin of an answer. */
static const char *result_name(const struct resolve_answer *answer)
{
	static const struct {
		struct str suffix;
		const char *name;
	} names[] = {
		{ STR(".rpm"), ".rpm archive" },
		{ STR(".deb"), ".deb archive" },
		{ STR(".ddeb"), ".ddeb archive" },
		{ STR(".ipk"), ".ipk archive" },
	};

	if (answer->origin != RESOLVE_HERE)
		return answer->origin == RESOLVE_STORED ? "store" : "upstream";
	if (!answer->archive.size)
		return "file";
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (str_ends(answer->archive, names[i].suffix))
			return names[i].name;
	return "archive";
}

/* Takes @mem. */
static void ready_in_memory(struct artifact *a, void *mem)
{
	struct content copy = a->content;

	a->content.file = a->content.archive = NULL;
	a->ready = ready_of_mem(a->s, &copy, mem);
}

static void ready_in_file(struct artifact *a, int fd, uint64_t off, const struct stat *plain)
{
	struct content copy = a->content;

	a->content.file = a->content.archive = NULL;
	a->ready = ready_of_fd(a->s, &copy, fd, off, plain);
}

/* A plain file is sent by its descriptor. false: its source has none. */
static bool take_plain(struct artifact *a)
{
	struct stat st;
	uint64_t off;
	int fd;

	if (!source_raw_fd(a->source, &fd, &off) || fstat(fd, &st) < 0 ||
	    (fd = fcntl(fd, F_DUPFD_CLOEXEC, 0)) < 0)
		return false;
	st.st_nlink = 1; /* marks it as plain, also when it was unlinked meanwhile */
	ready_in_file(a, fd, off, &st);
	return true;
}

static int take_small(struct artifact *a)
{
	size_t size = (size_t)a->content.size;
	void *mem = mem_alloc(size ? size : 1);

	if (size && source_read_full(a->source, 0, mem, size, SOURCE_SEQUENTIAL, &a->err) < 0) {
		free(mem);
		return -1;
	}
	ready_in_memory(a, mem);
	return 0;
}

/* Keep a small content that was decoded. After the reply, which does not wait for it. */
static void keep_small(struct artifact *a)
{
	struct cache_file *sp;
	int fd;

	if (!a->s->cache || cache_begin(a->s->cache, a->content.size, &sp, &fd, NULL) != 0)
		return;
	if (fd_pwrite(fd, a->ready->mem, (size_t)a->content.size, 0, NULL) == 0)
		cache_keep(a->s->cache, sp, &a->what, a->tag);
	else
		cache_drop(a->s->cache, sp);
}

static bool take_cached(struct artifact *a)
{
	size_t size = (size_t)a->content.size, got;
	AUTO(fd_close) int fd = -1;
	AUTO(mem_freep) void *mem = NULL;

	if (!a->s->cache || cache_find(a->s->cache, &a->what, a->tag, a->content.size, &fd) != 0)
		return false;
	if (a->content.size > ARTIFACT_SMALL) {
		ready_in_file(a, TAKE_FD(fd), 0, NULL);
	} else {
		mem = mem_alloc(size ? size : 1);
		if (fd_pread(fd, mem, size, 0, &got, NULL) < 0 || got != size)
			return false;
		ready_in_memory(a, TAKE(mem));
	}
	a->ready->cached = true;
	return true;
}

/* The bytes from another server are in a file already, which grows: follow that one. */
static bool follow_file(struct artifact *a)
{
	uint64_t off;
	int fd;

	if (!source_raw_fd(a->source, &fd, &off) || off || (fd = fcntl(fd, F_DUPFD_CLOEXEC, 0)) < 0)
		return false;
	a->buffer = BUFFER_FILE;
	a->buffer_fd = fd;
	a->follows = true;
	return true;
}

/* Choose where the decoded bytes go. A flight that keeps them for one request only leaves the table here. */
static void choose_buffer(struct artifact *a)
{
	struct err err = { 0 };
	bool wanted;
	int r;

	pthread_mutex_lock(&a->lock);
	wanted = a->body_wanted;
	pthread_mutex_unlock(&a->lock);
	if (a->solo)
		a->buffer = BUFFER_RING;
	if (a->solo || !wanted) {
		artifact_land(a);
		return;
	}
	if (a->arrived && follow_file(a))
		return;
	r = a->s->cache ? cache_begin(a->s->cache, a->content.size, &a->file, &a->buffer_fd, &err)
			: CACHE_NO_ROOM;
	if (r < 0)
		log_warn("cache", "%s", err.text);
	if (r == 0) {
		a->buffer = BUFFER_FILE;
		/* The cache closes its descriptor when the file is durable; we need one of our own. */
		a->buffer_fd = fcntl(a->buffer_fd, F_DUPFD_CLOEXEC, 0);
		if (a->buffer_fd >= 0)
			return;
		cache_drop(a->s->cache, TAKE(a->file));
	}
	a->buffer = BUFFER_RING;
	if (a->content.size > RING_SIZE) {
		a->solo = true;
		artifact_land(a);
	}
}

static void set_why(struct artifact *a, const struct resolve_why *why)
{
	AUTO(buf_done) struct buf text = { 0 };
	bool disk_noted = false;

	buf_add_str(&text, STR("not found"));
	for (const struct resolve_step *step = why->first; step; step = step->next) {
		/*
		 * The same words whether the file exists or not: otherwise a client could find out which
		 * files this machine has.
		 */
		if (step->disk && disk_noted)
			continue;
		buf_add_str(&text, step == why->first ? STR(": ") : STR("; "));
		if (step->disk) {
			disk_noted = true;
			buf_add_str(&text, STR("disk: no such file in the folders that are served, or the "
					       "debug information does not name it"));
			continue;
		}
		buf_add_str(&text, step->place);
		buf_add_str(&text, STR(": "));
		buf_add_str(&text, step->text);
	}
	/* The text is one line, but member names may have any bytes. */
	for (size_t i = 0; i < text.size; i++)
		if (text.p[i] < 0x20 || text.p[i] == 0x7f)
			text.p[i] = '?';
	a->why = arena_str(&a->arena, buf_str(&text));
	if (a->s->opts.hide_archive)
		a->why = server_hide_paths(&a->arena, a->why);
}

/* The bytes of a fetch have no tag of their own: they are cached once they come from the store. */
static bool may_be_cached(const struct artifact *a, const struct resolve_answer *answer)
{
	return !answer->arrived && (!answer->plain || a->content.size > ARTIFACT_SMALL);
}

static void artifact_found(struct artifact *a, struct resolve_answer *answer)
{
	a->source = answer->source;
	content_describe(a, answer);
	/* In the words of elfutils' server, for which scripts search. */
	log_debug("http", "serving %s " STR_FMT, answer->archive.size ? "archive" : "file",
		  STR_ARG(answer->archive.size ? answer->archive : answer->file));
	a->result = result_name(answer);
	if (answer->plain && a->content.size > ARTIFACT_SMALL && take_plain(a)) {
		/* by its descriptor */
	} else if (may_be_cached(a, answer) && take_cached(a)) {
		a->result = "archive fdcache";
	} else if (a->content.size <= ARTIFACT_SMALL) {
		if (take_small(a) < 0) {
			metrics_artifact_decoded(0, true);
			artifact_fail(a, -1);
			return;
		}
		if (answer->plain) {
			/* No one reports its changes: valid for a moment. */
			a->ready->plain.st_nlink = 1;
		} else {
			metrics_artifact_decoded(a->content.size, false);
		}
	} else {
		choose_buffer(a);
		artifact_publish(a, ARTIFACT_KNOWN);
		return;
	}
	a->ready->result = a->result;
	a->ready->type = a->what.kind;
	stop_decoding(a);
	/* First: a request after this answer must not join a flight of an older epoch. */
	artifact_land(a);
	artifact_publish(a, ARTIFACT_WHOLE);
	if (!answer->plain && !answer->arrived && !a->ready->cached)
		keep_small(a);
}

/* As resolve(); a build ID that is not known yet waits for the files that are not read yet. */
static int resolve_or_await(struct artifact *a, struct resolve_wake wake, struct resolve_answer *answer,
			    struct resolve_why *why)
{
	bool unfinished = true;
	int r;

	for (unsigned round = 0, n_remade = 0;; round++) {
		/* In this order: a damaged index that is made anew is unfinished first, then its epoch changes. */
		a->epoch = resolve_epoch(a->s->resolver);
		unfinished = unfinished && resolve_unfinished(a->s->resolver);
		resolve_why_init(why, &a->arena);
		r = resolve(a->s->resolver, &a->what, wake, answer, why, &a->err);
		if (r == RESOLVE_MISSING && !unfinished && resolve_unfinished(a->s->resolver) &&
		    resolve_epoch(a->s->resolver) != a->epoch && n_remade++ < MAX_REMADE) {
			unfinished = true;
			round = UINT_MAX; /* 0 after the increment */
			continue;
		}
		if (r != RESOLVE_MISSING || !unfinished || round)
			return r;
		if (unread_unlisted(a))
			return -1;
		r = unread_await(a, wake);
		/* The last package that may have it may have been read after resolve(): look once more. */
		if (r != RESOLVE_MISSING)
			return r == RESOLVE_BUSY ? RESOLVE_MISSING : r;
	}
}

static void resolve_step(struct artifact *a)
{
	struct resolve_answer answer = { 0 };
	struct resolve_why why;
	struct task_waker *w;
	int r;

	w = task_waker_new(&a->task);
	r = resolve_or_await(a, (struct resolve_wake){ task_waker_fire, w, task_waker_wanted }, &answer,
			     &why);
	if (r == RESOLVE_WAIT)
		return;
	unread_done(a);
	task_waker_return(&a->task, w);
	if (r == 0) {
		artifact_found(a, &answer);
		return;
	}
	if (r > 0)
		set_why(a, &why);
	artifact_fail(a, r > 0 ? r : -1);
}

/* ---- decoding ---- */

static bool ring_make(struct artifact *a)
{
	size_t size = (size_t)MIN(a->to - a->from, (uint64_t)RING_SIZE);

	if (a->ring)
		return true;
	if (atomic_fetch_add(&a->s->ring_bytes, size) + size > RINGS_MAX) {
		atomic_fetch_sub(&a->s->ring_bytes, size);
		err_set(&a->err, ERR_BUSY, "too many large replies at once");
		return false;
	}
	a->ring_size = size;
	a->ring = mem_alloc(size);
	return true;
}

/* Decode up to @n bytes at read_pos into the buffer. Returns their number, or -1. */
static ssize_t decode_chunk(struct artifact *a, size_t n)
{
	uint8_t *to = a->chunk;
	size_t got;

	if (a->buffer == BUFFER_RING && a->read_pos >= a->from) {
		size_t place = (size_t)((a->read_pos - a->from) % a->ring_size);

		to = a->ring + place;
		n = MIN(n, a->ring_size - place);
	}
	if (source_read(a->source, a->read_pos, to, n, SOURCE_SEQUENTIAL, &got, &a->err) < 0)
		return -1;
	if (!got)
		return err_set(&a->err, ERR_INVALID, "it ends at byte %llu of %llu",
			       (unsigned long long)a->read_pos, (unsigned long long)a->content.size);
	if (a->buffer == BUFFER_FILE && fd_pwrite(a->buffer_fd, to, got, a->read_pos, &a->err) < 0)
		return err_in(&a->err, "cache");
	return (ssize_t)got;
}

/* Under the lock. */
static void wake_followers(struct artifact *a)
{
	for (struct artifact_waiter *w = a->waiters; w; w = w->next)
		if (!w->streaming || w->wait_at < a->have)
			wait_wake(w->req);
}

/* @n more bytes are in the buffer. */
static void chunk_publish(struct artifact *a, uint64_t n)
{
	a->read_pos += n;
	if (a->read_pos <= a->from)
		return;
	pthread_mutex_lock(&a->lock);
	a->have = a->read_pos;
	wake_followers(a);
	pthread_mutex_unlock(&a->lock);
}

/* Room for the next chunk; 0: the ring is full, and the next read kicks. */
static size_t chunk_room(struct artifact *a)
{
	size_t n = a->have == a->from ? FIRST_CHUNK : ARTIFACT_CHUNK;
	uint64_t left = a->to - a->read_pos;

	/* Without random access all bytes before it are decoded first, and dropped. */
	if (a->read_pos < a->from)
		return (size_t)MIN((uint64_t)n, a->from - a->read_pos);
	if (a->buffer == BUFFER_RING && a->reader) {
		pthread_mutex_lock(&a->lock);
		left = MIN(left, a->ring_size - (a->have - a->start));
		a->stalled = left == 0;
		pthread_mutex_unlock(&a->lock);
	}
	return (size_t)MIN(left, (uint64_t)n);
}

static void artifact_complete(struct artifact *a)
{
	stop_decoding(a);
	metrics_artifact_decoded(a->to - a->from, false);
	if (a->file && !a->arrived)
		cache_keep(a->s->cache, TAKE(a->file), &a->what, a->tag);
	else
		cache_drop(a->s->cache, TAKE(a->file));
	artifact_publish(a, ARTIFACT_WHOLE);
	artifact_land(a);
}

static void artifact_break(struct artifact *a)
{
	char hex[BUILD_ID_HEX_SIZE];

	log_warn("http", "%s of %s: %s: the replies are cut", resolve_kind_name(a->what.kind),
		 build_id_hex(&a->what.id, hex), a->err.text);
	metrics_artifact_decoded(0, true);
	artifact_fail(a, -1);
}

/*
 * The number of bytes that can be read at read_pos. 0: none yet, a waker kicks; or, with *ret_broken, none
 * will come.
 */
static uint64_t bytes_arrived(struct artifact *a, bool *ret_broken)
{
	struct task_waker *w;
	uint64_t have;
	int r;

	*ret_broken = false;
	if (!a->arrived)
		return UINT64_MAX;
	if (task_waits(&a->task))
		return 0;
	w = task_waker_new(&a->task);
	r = a->arrived(a->source, a->read_pos, task_waker_fire, w, &have, &a->err);
	if (r == RESOLVE_WAIT)
		return 0;
	task_waker_return(&a->task, w);
	*ret_broken = r < 0 || have <= a->read_pos;
	return *ret_broken ? 0 : have - a->read_pos;
}

/* true: kick it again, there is more to decode. */
static bool decode_step(struct artifact *a)
{
	int64_t end_ms = clock_mono_ms() + SLICE_MS;

	if (!a->chunk) {
		a->chunk = mem_alloc(ARTIFACT_CHUNK);
		a->read_pos = a->sequential_only ? 0 : a->from;
	}
	if (a->buffer == BUFFER_RING && !ring_make(a)) {
		artifact_break(a);
		return false;
	}
	while (a->read_pos < a->to) {
		size_t n = chunk_room(a);
		bool gone = false;
		uint64_t there = n ? bytes_arrived(a, &gone) : 0;
		ssize_t got;

		if (gone)
			artifact_break(a);
		if (!there)
			return false;
		if (a->follows) {
			chunk_publish(a, MIN(there, a->to - a->read_pos));
			continue;
		}
		got = decode_chunk(a, (size_t)MIN((uint64_t)n, there));
		if (got < 0) {
			artifact_break(a);
			return false;
		}
		chunk_publish(a, (uint64_t)got);
		if (clock_mono_ms() >= end_ms && a->read_pos < a->to)
			return true;
	}
	artifact_complete(a);
	return false;
}

enum task_result artifact_step(void *arg)
{
	struct artifact *a = arg;
	enum artifact_state state;

	pthread_mutex_lock(&a->lock);
	state = a->state;
	pthread_mutex_unlock(&a->lock);
	if (state == ARTIFACT_WHOLE || state == ARTIFACT_FAILED)
		return TASK_DONE;
	if (state == ARTIFACT_RESOLVING && task_waits(&a->task) && unread_displaced(a)) {
		task_waker_drop(&a->task);
		a->unread = true;
		a->why = STR("not found so far: more clients wait than there are places");
		artifact_fail(a, RESOLVE_MISSING);
		return TASK_DONE;
	}
	/* Its last request was sent to the same path again, and will be back. */
	if (state == ARTIFACT_RESOLVING && task_waits(&a->task) && patience_keeps(a))
		return TASK_DONE;
	if (artifact_abandoned(a)) {
		task_waker_drop(&a->task);
		artifact_fail(a, -1);
	} else if (state == ARTIFACT_RESOLVING && !task_waits(&a->task)) {
		resolve_step(a);
	} else if (state == ARTIFACT_FLOWING && decode_step(a)) {
		task_kick(&a->task);
	}
	return TASK_DONE;
}
