/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scan as a whole: its threads, when they walk and groom, and progress.
 *
 * There is one walking thread (walks, follows inotify), one grooming thread, some probing threads (package
 * headers and ELF facts), some deep threads (job.c), and one writer. Candidates flow from one to the next
 * through bounded queues; everything stops when `stopping` is set.
 */
#include <stdio.h>
#include <stdlib.h>
#include "base/condition.h"
#include "s3/s3.h"
#include "scan/internal.h"

#define CANDIDATES_QUEUED 1024u
#define BUCKET_PROBES     64u /* threads that wait for the headers of packages in a bucket */
#define LOST_MS \
	300000       /* pause after changes that could not be stored (a full disk), before the
				    next walk */
#define QUIET_MS 300 /* pause after the last inotify event, before its paths are probed */

/* ---- probing threads ---- */

static void *probe_main(void *arg)
{
	struct scan *s = arg;
	void *item;

	pthread_setname_np(pthread_self(), "scan");
	while (queue_pop(s->candidates, -1, &item) == 0) {
		struct candidate *l = item;

		stats_busy(SCAN_ROLE_SCAN, true);
		if (!atomic_load(&s->stopping) && !probe_run(s, l) && !l->by_name)
			ignored_add(s->ignored, l->path, &l->st);
		stats_busy(SCAN_ROLE_SCAN, false);
		pthread_mutex_lock(&s->lock);
		s->n_probing--;
		s->progress.n_files_done++;
		s->progress.worked_mono_ms = clock_mono_ms();
		if (l->by_name)
			s->progress.n_packages_headers++;
		if (!s->n_probing)
			pthread_cond_broadcast(&s->changed);
		pthread_mutex_unlock(&s->lock);
		candidate_free(l);
	}
	return NULL;
}

/* ---- the walking thread ---- */

/* Wait until all candidates are probed and the changes are committed. */
static void scan_settle(struct scan *s)
{
	pthread_mutex_lock(&s->lock);
	while (s->n_probing && !atomic_load(&s->stopping))
		condition_wait(&s->changed, &s->lock, 200);
	pthread_mutex_unlock(&s->lock);
	writer_fence(s->writer);
	if (writer_lost_files(s->writer))
		(void)unlisted_add_index(s->unlisted, s->opts.index_path, "files could not be stored in it");
	jobs_kick(s->jobs);
	pthread_mutex_lock(&s->lock);
	s->unsettled = false;
	pthread_mutex_unlock(&s->lock);
	scan_check_read(s);
}

static void walk_bucket_root(struct scan *s, const char *url)
{
	struct err why = { 0 };

	unlisted_begin(s->unlisted, url);
	if (walk_bucket(s, url, &why) < 0) {
		if (atomic_load(&s->stopping))
			return;
		if (unlisted_add(s->unlisted, url, url, why.text))
			log_error("scan", "%s: it could not be listed: %s", url, why.text);
	}
	if (unlisted_end(s->unlisted, url))
		scan_listed(s);
}

static void walk_any_root(struct scan *s, struct str root)
{
	if (s3_is_url(root))
		walk_bucket_root(s, root.p);
	else
		walk_root(s, root.p);
}

static void walk_roots(struct scan *s, bool first, unsigned n_remade)
{
	int64_t from_ms = clock_mono_ms();

	/* What no root leads to any more, as a link that was changed, is not met again, and does not count. */
	unlisted_begin(s->unlisted, UNLISTED_ALL);
	unlisted_begin(s->unlisted, s->opts.index_path);
	for (size_t i = 0; i < s->opts.n_roots; i++)
		walk_any_root(s, s->opts.roots[i]);
	scan_settle(s);
	if (!atomic_load(&s->stopping)) {
		unlisted_end(s->unlisted, s->opts.index_path);
		if (unlisted_end(s->unlisted, UNLISTED_ALL))
			scan_listed(s);
	}
	if (first)
		roots_read_again(s, s->walk_index);
	/* Now that the rows of new files are there. */
	roots_judge(s, s->walk_index);
	pthread_mutex_lock(&s->lock);
	s->progress.walking = false;
	s->n_remakes_walked = n_remade;
	s->progress.walked_mono_ms = clock_mono_ms();
	if (!s->progress.ready && !atomic_load(&s->stopping))
		log_info("scan",
			 "ready after %.1f s: %llu files seen, %llu packages; the packages are read now",
			 (double)(clock_mono_ms() - from_ms) / 1000.0, (unsigned long long)s->progress.n_seen,
			 (unsigned long long)s->progress.n_packages);
	s->progress.ready = true;
	/* Files that vanished while no service ran are groomed once, after the first walk. */
	s->want_groom |= first;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	scan_check_read(s);
}

static void scan_set_following(struct scan *s, bool on)
{
	pthread_mutex_lock(&s->lock);
	s->following = on;
	pthread_mutex_unlock(&s->lock);
}

/* The root with this path, or this real path; NULL: none. */
static const struct str *root_of_path(const struct scan *s, const char *path)
{
	struct root_place place;

	for (size_t i = 0; i < s->opts.n_roots; i++) {
		const struct str *root = &s->opts.roots[i];

		if (strcmp(root->p, path) == 0)
			return root;
		if (!s3_is_url(*root) && root_place(root->p, &place) && strcmp(place.path, path) == 0)
			return root;
	}
	return NULL;
}

/*
 * The places that could not be listed, and whose next try has come. Each once: that of others may come before this ends, again
 * and again.
 */
static void walk_unlisted_again(struct scan *s)
{
	int64_t by_ms = clock_mono_ms();
	char *path;

	scan_set_following(s, true);
	while (!atomic_load(&s->stopping) && (path = unlisted_take_due(s->unlisted, by_ms)) != NULL) {
		const struct str *root = root_of_path(s, path);

		if (root)
			walk_any_root(s, *root);
		else
			walk_path(s, path);
		free(path);
	}
	scan_settle(s);
	roots_judge(s, s->walk_index);
	scan_set_following(s, false);
	scan_check_read(s);
}

/* Handle the changes that inotify reported, after a moment without new ones. */
static void walk_follow_changes(struct scan *s)
{
	char **dirty;
	size_t n, before;

	pthread_mutex_lock(&s->lock);
	for (int round = 0; round < 10; round++) {
		before = s->n_dirty;
		condition_wait(&s->changed, &s->lock, QUIET_MS);
		if (s->n_dirty == before || atomic_load(&s->stopping))
			break;
	}
	dirty = TAKE(s->dirty);
	n = s->n_dirty;
	s->n_dirty = s->room_dirty = 0;
	s->following = true;
	pthread_mutex_unlock(&s->lock);
	for (size_t i = 0; i < n; i++) {
		if (!atomic_load(&s->stopping))
			walk_changed(s, dirty[i]);
		free(dirty[i]);
	}
	free(dirty);
	scan_settle(s);
	scan_set_following(s, false);
}

static void *walk_main(void *arg)
{
	struct scan *s = arg;
	int64_t next_walk_ms = 0;
	bool first = true;

	pthread_setname_np(pthread_self(), "traverse");
	pthread_mutex_lock(&s->lock);
	while (!atomic_load(&s->stopping)) {
		int64_t now_ms = clock_mono_ms(), next_ms = MIN(next_walk_ms, unlisted_next_ms(s->unlisted));
		unsigned n_remade = s->n_remade;

		if (s->want_walk || now_ms >= next_walk_ms) {
			/* Both under one lock: in between, scan_wait_idle() would see neither. */
			s->want_walk = false;
			s->progress.walking = true;
			s->progress.n_seen = s->progress.n_files_done = 0;
			pthread_mutex_unlock(&s->lock);
			stats_busy(SCAN_ROLE_WALK, true);
			walk_roots(s, first, n_remade);
			stats_busy(SCAN_ROLE_WALK, false);
			pthread_mutex_lock(&s->lock);
			next_walk_ms = s->opts.rescan_s ? clock_mono_ms() + s->opts.rescan_s * 1000
							: INT64_MAX;
			first = false;
		} else if (s->n_dirty || now_ms >= next_ms) {
			bool is_dirty = s->n_dirty;

			/* In turn: either may never end. */
			pthread_mutex_unlock(&s->lock);
			if (now_ms >= next_ms)
				walk_unlisted_again(s);
			if (is_dirty)
				walk_follow_changes(s);
			pthread_mutex_lock(&s->lock);
		} else {
			condition_wait(&s->changed, &s->lock, MIN(next_ms - now_ms, INT64_C(60000)));
		}
		/* A walk finds the changes again that could not be stored, perhaps long before its time. */
		if (writer_lost(s->writer) || unlisted_has_index(s->unlisted, s->opts.index_path))
			next_walk_ms = MIN(next_walk_ms, clock_mono_ms() + LOST_MS);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

/* ---- beginning and ending ---- */

/* From the writer, when a damaged index is made anew: the walk finds all files again. */
static void scan_remakes(void *arg, bool begins)
{
	struct scan *s = arg;

	pthread_mutex_lock(&s->lock);
	s->n_remakes += begins;
	s->n_remade += !begins;
	s->want_walk |= !begins;
	if (begins)
		s->was_read = false;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

/* For metrics_on_collect(). */
static void scan_collect(void *arg)
{
	struct scan *s = arg;
	size_t n_pending;

	pthread_mutex_lock(&s->lock);
	n_pending = s->n_probing + s->n_dirty;
	pthread_mutex_unlock(&s->lock);
	stats_set(n_pending + jobs_pending(s->jobs), scan_wait_idle(s, 0), unlisted_count(s->unlisted));
}

static int regex_compile(regex_t *re, const char *text, bool *ret_has, const char *what, struct err *err)
{
	char why[128];
	int r;

	if (!text)
		return 0;
	r = regcomp(re, text, REG_EXTENDED | REG_NOSUB);
	if (r != 0) {
		regerror(r, re, why, sizeof(why));
		return err_set(err, ERR_INVALID, "%s regex '%s': %s", what, text, why);
	}
	*ret_has = true;
	return 0;
}

static const char *scan_copy_text(struct scan *s, const char *text)
{
	return text ? arena_strdup(&s->arena, str_of(text)) : NULL;
}

static const struct str *scan_copy_list(struct scan *s, const struct str *list, size_t n)
{
	struct str *ret = ARENA_NEW_N(&s->arena, struct str, n + 1);

	for (size_t i = 0; i < n; i++)
		ret[i] = (struct str){ arena_strdup(&s->arena, list[i]), list[i].size };
	return ret;
}

int scan_new(const struct scan_options *opts, struct scan **ret, struct err *err)
{
	struct scan *s = NEW(struct scan);

	arena_init(&s->arena);
	s->opts = *opts;
	s->opts.index_path = scan_copy_text(s, opts->index_path);
	s->opts.points_dir = scan_copy_text(s, opts->points_dir);
	s->opts.roots = scan_copy_list(s, opts->roots, opts->n_roots);
	s->opts.package_suffixes = scan_copy_list(s, opts->package_suffixes, opts->n_package_suffixes);
	if (!s->opts.threads)
		s->opts.threads = pool_cpus();
	pthread_mutex_init(&s->lock, NULL);
	condition_init(&s->changed);
	s->ignored = ignored_new();
	s->unlisted = unlisted_new();
	s->witnesses = ARENA_NEW_N(&s->arena, struct root_witness, opts->n_roots + 1);
	s->walked = ARENA_NEW_N(&s->arena, struct root_walked, opts->n_roots + 1);
	s->candidates = queue_new(CANDIDATES_QUEUED);
	s->jobs = jobs_new(s);
	s->progress.started_mono_ms = clock_mono_ms();
	s->progress.passive = opts->passive;
	metrics_on_collect(scan_collect, s);
	if (regex_compile(&s->include, opts->include_regex, &s->has_include, "include", err) < 0 ||
	    regex_compile(&s->exclude, opts->exclude_regex, &s->has_exclude, "exclude", err) < 0) {
		scan_free(s);
		return -1;
	}
	*ret = s;
	return 0;
}

/* Count the packages that an earlier run left undone in this one's progress. */
static void scan_count_due(struct scan *s)
{
	AUTO(arena_done) struct arena a = { 0 };
	struct index_file *files;
	struct err err = { 0 };
	int64_t after = 0;
	size_t n;

	do {
		arena_done(&a);
		arena_init(&a);
		if (index_list(s->walk_index,
			       &(struct index_range){ INDEX_PACKAGE, INDEX_HEADER, after, 1000 }, &a, &files,
			       &n, &err) < 0)
			return;
		for (size_t i = 0; i < n; i++) {
			s->progress.n_packages++;
			s->progress.n_packages_headers++;
			s->progress.bytes_total += files[i].size;
			after = files[i].id;
		}
	} while (n);
}

static bool scan_has_bucket(const struct scan *s)
{
	for (size_t i = 0; i < s->opts.n_roots; i++)
		if (s3_is_url(s->opts.roots[i]))
			return true;
	return false;
}

/* The writer's callback: requests that seek this build ID, then the owner's. */
static void scan_indexed(void *arg, const struct build_id *id, struct str path)
{
	struct scan *s = arg;

	jobs_found(s->jobs, id);
	if (s->opts.indexed)
		s->opts.indexed(s->opts.indexed_arg, id, path);
}

int scan_start(struct scan *s, struct err *err)
{
	struct index_options read_only = { .read_only = true };
	struct scan_options writer = s->opts;
	unsigned n_probing;

	if (s->opts.passive) {
		/* Another process scans; this one only reads. */
		if (index_open(s->opts.index_path, &read_only, &s->walk_index, err) < 0)
			return -1;
		s->progress.ready = true;
		return 0;
	}
	if (s->opts.points_dir && dir_make(s->opts.points_dir, 0755, err) < 0)
		return -1;
	writer.indexed = scan_indexed;
	writer.indexed_arg = s;
	if (writer_start(&writer, scan_remakes, s, &s->writer, err) < 0 ||
	    index_open(s->opts.index_path, &read_only, &s->walk_index, err) < 0 ||
	    index_open(s->opts.index_path, &read_only, &s->groom_index, err) < 0)
		return -1;
	scan_count_due(s);
	if (s->opts.watch)
		s->watch = watch_new(s);
	if (jobs_start(s->jobs, s->opts.threads, err) < 0)
		return -1;
	n_probing = scan_has_bucket(s) ? MAX(s->opts.threads, BUCKET_PROBES) : s->opts.threads;
	s->probe_threads = NEW_N(pthread_t, n_probing);
	for (; s->n_probe_threads < n_probing; s->n_probe_threads++)
		if (pthread_create(&s->probe_threads[s->n_probe_threads], NULL, probe_main, s) != 0)
			break;
	s->groom_running = pthread_create(&s->groom_thread, NULL, groom_main, s) == 0;
	s->walk_running = s->n_probe_threads && pthread_create(&s->walk_thread, NULL, walk_main, s) == 0;
	if (!s->walk_running || !s->groom_running)
		return err_set(err, ERR_LIMIT, "cannot start the threads of the scan");
	return 0;
}

void scan_free(struct scan *s)
{
	void *item;

	if (!s)
		return;
	metrics_off_collect(scan_collect, s);
	atomic_store(&s->stopping, true);
	pthread_mutex_lock(&s->lock);
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	if (s->walk_running)
		pthread_join(s->walk_thread, NULL);
	/* After the walk, which adds watches. */
	watch_stop(s->watch);
	if (s->groom_running)
		pthread_join(s->groom_thread, NULL);
	queue_close(s->candidates);
	for (unsigned i = 0; i < s->n_probe_threads; i++)
		pthread_join(s->probe_threads[i], NULL);
	while (queue_try_pop(s->candidates, &item) == 0)
		candidate_free(item);
	jobs_stop(s->jobs);
	writer_stop(s->writer);
	jobs_free(s->jobs);
	index_close(s->walk_index);
	index_close(s->groom_index);
	writer_free(s->writer);
	queue_free(s->candidates);
	ignored_free(s->ignored);
	unlisted_free(s->unlisted);
	for (size_t i = 0; i < s->opts.n_roots; i++)
		free(s->witnesses[i].path);
	for (size_t i = 0; i < s->n_dirty; i++)
		free(s->dirty[i]);
	free(s->dirty);
	free(s->probe_threads);
	if (s->has_include)
		regfree(&s->include);
	if (s->has_exclude)
		regfree(&s->exclude);
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->changed);
	arena_done(&s->arena);
	free(s);
}

/* ---- progress and requests ---- */

/* Under the lock. While the index is made anew it has not all files again; of a place that could not be listed it may lack
 * some. */
static bool scan_is_settled(const struct scan *s)
{
	return s->progress.ready && !s->unsettled && !unlisted_count(s->unlisted) &&
	       s->n_remakes == s->n_remakes_walked;
}

void scan_progress(struct scan *s, struct scan_progress *ret)
{
	pthread_mutex_lock(&s->lock);
	*ret = s->progress;
	ret->settled = scan_is_settled(s);
	pthread_mutex_unlock(&s->lock);
	ret->n_unlisted = unlisted_count(s->unlisted);
	unlisted_why(s->unlisted, ret->unlisted, sizeof(ret->unlisted));
	jobs_progress(s->jobs, ret);
}

bool scan_wait_idle(struct scan *s, int64_t timeout_ms)
{
	int64_t end_ms = timeout_ms < 0 ? INT64_MAX : clock_mono_ms() + timeout_ms;

	for (;;) {
		bool idle;

		pthread_mutex_lock(&s->lock);
		idle = s->progress.ready && !s->progress.walking && !s->progress.grooming && !s->want_walk &&
		       !s->want_groom && !s->n_dirty && !s->following && !s->n_probing;
		if (!idle && timeout_ms)
			condition_wait(&s->changed, &s->lock, 50);
		pthread_mutex_unlock(&s->lock);
		if (idle && jobs_idle(s->jobs))
			return true;
		if (clock_mono_ms() >= end_ms)
			return false;
		if (idle) {
			struct timespec ts = { .tv_nsec = 50000000 };

			nanosleep(&ts, NULL);
		}
	}
}

bool scan_unfinished(struct scan *s)
{
	bool unfinished;

	pthread_mutex_lock(&s->lock);
	unfinished = !scan_is_settled(s);
	pthread_mutex_unlock(&s->lock);
	return unfinished || jobs_unfinished(s->jobs);
}

void scan_again(struct scan *s, const struct index_file *f)
{
	struct change *c = change_new(CHANGE_AGAIN);

	change_set_file(c, f);
	writer_push(s->writer, c);
	writer_fence(s->writer);
	jobs_kick(s->jobs);
}

int scan_want(struct scan *s, const struct scan_wanted *what, void (*wake)(void *arg), void *arg)
{
	return jobs_want(s->jobs, what, wake, arg);
}

void scan_check_read(struct scan *s)
{
	bool first;

	if (scan_unfinished(s))
		return;
	jobs_all_read(s->jobs);
	pthread_mutex_lock(&s->lock);
	first = !s->was_read && !atomic_load(&s->stopping);
	s->was_read = true;
	pthread_mutex_unlock(&s->lock);
	if (first)
		log_info("scan",
			 "everything is read after %.1f s: a build ID that is not found now is not here",
			 (double)(clock_mono_ms() - s->progress.started_mono_ms) / 1000.0);
}

int scan_seek(struct scan *s, const struct scan_sought *what, void (*wake)(void *arg), void *arg)
{
	int r;

	if (!scan_unfinished(s))
		return SCAN_READ;
	r = jobs_seek(s->jobs, what, wake, arg);
	/* The scan may have ended before this request was listed. */
	scan_check_read(s);
	return r;
}

bool scan_reading(struct scan *s, const struct build_id *id, struct scan_reading *ret)
{
	return jobs_reading(s->jobs, id, ret);
}

int scan_partial(struct scan *s, const struct scan_wanted *what, struct scan_partial *ret, struct err *err)
{
	return jobs_partial(s->jobs, what, ret, err);
}
