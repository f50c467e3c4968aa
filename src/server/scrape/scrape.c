/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that begins pulls, and reads the files of targets when they change.
 */
#include "server/scrape/internal.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include "base/condition.h"

#define FILES_PART  8   /* of the limit of open files, for connections to targets */
#define BASES_PART  4   /* of the memory for profiles, for bases */
#define TICK_MS     500 /* between two looks at the files */
#define STARTED_MAX 64u /* pulls that are begun before the lock is free again */

/* ---- files ---- */

static void endpoint_first(void *arg, struct endpoint *e)
{
	e->due_ms = clock_mono_ms() +
		    schedule_first_ms(e->hash, e->target->group->interval_ms, clock_wall_ms());
}

static void endpoint_gone(void *arg, struct endpoint *e)
{
	if (e->pull)
		pull_cancel(e->pull);
}

/* Under the lock. */
static void replace_all(struct scrape *s)
{
	const struct endpoints_events events = { .first = endpoint_first, .gone = endpoint_gone };
	struct scrape_list **lists = NEW_N(struct scrape_list *, s->n_files);

	for (size_t i = 0; i < s->n_files; i++)
		lists[i] = s->files[i].list;
	endpoints_replace(&s->endpoints, lists, s->n_files, &events);
	free(lists);
}

struct taken_file {
	size_t n_targets, n_all, n_before;
	uint64_t n_over;
	bool is_known; /* it was broken before, for the same reason */
};

/* Its targets, or, of a broken one, those from before. */
static struct taken_file targets_take(struct scrape *s, struct scrape_file *f, struct scrape_list *list,
				      const struct err *err)
{
	struct taken_file t = { 0 };

	pthread_mutex_lock(&s->lock);
	t.is_known = f->broken && !list && strcmp(f->err.text, err->text) == 0;
	t.n_before = f->list ? f->list->n : 0;
	f->broken = !list;
	f->err = *err;
	if (list) {
		scrape_list_unref(f->list);
		f->list = list;
		f->read_ms = clock_wall_ms();
		replace_all(s);
	}
	t.n_targets = f->list ? f->list->n : 0;
	t.n_all = s->endpoints.n_targets;
	t.n_over = s->endpoints.n_over;
	pthread_mutex_unlock(&s->lock);
	return t;
}

static void targets_check(struct scrape *s, struct scrape_file *f)
{
	struct scrape_list *list;
	struct err err = { 0 };
	struct taken_file t;

	if (!scrape_file_changed(f, &list, &err))
		return;
	t = targets_take(s, f, list, &err);
	if (t.is_known)
		return;
	if (!list)
		log_error("scrape", "%s: %s; its %zu targets from before stay until the file is corrected",
			  f->path, err.text, t.n_before);
	else
		log_info("scrape", "%s: %zu targets, %zu in all", f->path, t.n_targets, t.n_all);
	if (list && t.n_over)
		log_warn("scrape", "%llu profiles of targets are left out: there are more than %u",
			 (unsigned long long)t.n_over, SCRAPE_MAX_ENDPOINTS);
}

/* ---- pulls ---- */

/* Under the lock: those that are due, at most @max. *ret_next_ms: when the next one is. */
static size_t due_pulls(struct scrape *s, struct pull **ret, size_t max, int64_t *ret_next_ms)
{
	int64_t now_ms = clock_mono_ms(), next_ms = now_ms + TICK_MS;
	size_t n = 0;

	for (size_t i = 0; i < s->endpoints.n; i++) {
		struct endpoint *e = s->endpoints.v[(s->turn + i) % s->endpoints.n];

		if (e->pull)
			continue;
		if (e->due_ms > now_ms) {
			next_ms = MIN(next_ms, e->due_ms);
			continue;
		}
		/* The next time, it is the first one. */
		if (s->n_running >= s->max_at_once || n == max) {
			s->turn = (s->turn + i) % s->endpoints.n;
			break;
		}
		e->due_ms = schedule_next_ms(e->due_ms, e->target->group->interval_ms, now_ms);
		ret[n++] = pull_new(s, e);
	}
	*ret_next_ms = next_ms;
	return n;
}

static void start_due(struct scrape *s)
{
	struct pull *due[STARTED_MAX];
	int64_t next_ms = 0;
	size_t n;

	pthread_mutex_lock(&s->lock);
	n = s->stop ? 0 : due_pulls(s, due, STARTED_MAX, &next_ms);
	if (!n && !s->stop)
		condition_wait(&s->changed, &s->lock, MAX(next_ms - clock_mono_ms(), (int64_t)1));
	pthread_mutex_unlock(&s->lock);
	for (size_t i = 0; i < n; i++)
		pull_start(due[i]);
}

static bool scrape_is_stopped(struct scrape *s)
{
	bool stop;

	pthread_mutex_lock(&s->lock);
	stop = s->stop;
	pthread_mutex_unlock(&s->lock);
	return stop;
}

static void *scrape_main(void *arg)
{
	struct scrape *s = arg;
	int64_t checked_ms = clock_mono_ms() - TICK_MS;

	pthread_setname_np(pthread_self(), "lode-scrape");
	while (!scrape_is_stopped(s)) {
		if (clock_mono_ms() >= checked_ms + TICK_MS) {
			checked_ms = clock_mono_ms();
			for (size_t i = 0; i < s->n_files; i++)
				targets_check(s, &s->files[i]);
		}
		start_due(s);
	}
	return NULL;
}

/* ---- start, stop ---- */

static int start_scrape_thread(struct scrape *s, struct err *err)
{
	sigset_t all, was;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &was);
	r = pthread_create(&s->thread, NULL, scrape_main, s);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	s->has_thread = r == 0;
	return r ? err_os(err, r, "cannot start the thread that pulls profiles") : 0;
}

unsigned scrape_max_at_once(void)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) < 0)
		return 1;
	return (unsigned)MIN((uint64_t)rl.rlim_cur / FILES_PART, (uint64_t)SCRAPE_MAX_AT_ONCE);
}

int scrape_start(struct server *server, const struct str *files, size_t n_files, struct scrape **ret,
		 struct err *err)
{
	struct scrape *s = NEW(struct scrape);

	s->server = server;
	pthread_mutex_init(&s->lock, NULL);
	condition_init(&s->changed);
	s->files = mem_zalloc(n_files * sizeof(*s->files));
	s->n_files = n_files;
	for (size_t i = 0; i < n_files; i++)
		s->files[i].path = arena_strdup(&server->arena, files[i]);
	s->max_at_once = scrape_max_at_once();
	budget_hold_init(&s->answers, server->opts.memory, BUDGET_BODY);
	s->answers.max = SCRAPE_MAX_ANSWERS;
	budget_hold_init(&s->bases, server->opts.memory, BUDGET_PROFILE);
	s->bases.max = MIN((uint64_t)SCRAPE_MAX_BASES,
			   budget_most(server->opts.memory, BUDGET_PROFILE) / BASES_PART);
	if (net_new(NULL, &s->net, err) < 0 || net_start_thread(s->net, err) < 0 ||
	    start_scrape_thread(s, err) < 0) {
		scrape_free(s);
		return err_in(err, "--scrape");
	}
	*ret = s;
	return 0;
}

void scrape_stop(struct scrape *s)
{
	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	if (s->has_thread)
		pthread_join(s->thread, NULL);
	s->has_thread = false;
	/* Ends all requests. */
	net_free(TAKE(s->net));
	pthread_mutex_lock(&s->lock);
	while (s->n_running)
		pthread_cond_wait(&s->changed, &s->lock);
	pthread_mutex_unlock(&s->lock);
}

void scrape_free(struct scrape *s)
{
	if (!s)
		return;
	scrape_stop(s);
	endpoints_done(&s->endpoints);
	for (size_t i = 0; i < s->n_files; i++)
		scrape_list_unref(s->files[i].list);
	free(s->files);
	budget_hold_done(&s->answers);
	budget_hold_done(&s->bases);
	pthread_cond_destroy(&s->changed);
	pthread_mutex_destroy(&s->lock);
	free(s);
}
