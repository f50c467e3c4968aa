/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The background check of a server: it reads all contents, slowly, a minute after the start and then once a day,
 * and compares each with the SHA-256 in its name.
 *
 * Damage is noted, so that a push of the right bytes is wanted again; objects that were fetched or made are
 * removed, so that they are fetched or made again.
 */
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>
#include "base/condition.h"
#include "store/internal.h"

#define FIRST_MS INT64_C(60000)
#define EVERY_MS (INT64_C(24) * 3600 * 1000)
#define NICENESS 19
#define IDLE     3 /* for each second of reading it rests for so many */

struct scrub {
	struct store *st;
	pthread_t thread;
	bool running;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool stop;          /* under the lock */
	int64_t started_ms; /* the current piece */
};

int scrub_pass(struct store *st, int (*each)(void *arg, uint64_t n), void *arg, uint64_t *ret_n_bad,
	       struct err *err)
{
	uint64_t n_bad = 0;
	struct refs c;
	int r = 0;

	if (refs_count(st, &c, NULL, NULL, err) < 0)
		return -1;
	for (size_t i = 0; i < c.n_contents && r == 0; i++) {
		const struct refs_content *content = &c.contents[i];
		struct err why = { 0 };

		if (!content->there || !content->n_records ||
		    content_check(st, content->sha256, content->raw, each, arg, &why) >= 0)
			continue;
		if (why.kind == ERR_CANCELLED || why.kind == ERR_LIMIT) {
			*err = why;
			r = -1;
			break;
		}
		n_bad++;
		for (size_t k = 0; k < c.n_records; k++)
			if (c.records[k].content == i)
				object_condemn(st, c.records[k].name, &why);
	}
	refs_done(&c);
	*ret_n_bad = n_bad;
	return r;
}

static int scrub_rest(void *arg, uint64_t n)
{
	struct scrub *s = arg;
	bool stop = condition_pause(&s->changed, &s->lock, &s->stop,
				    (clock_mono_ms() - s->started_ms) * IDLE);

	s->started_ms = clock_mono_ms();
	return stop ? 1 : 0;
}

static void *scrub_run(void *arg)
{
	struct scrub *s = arg;
	int64_t wait_ms = FIRST_MS;

	pthread_setname_np(pthread_self(), "lode-check");
	setpriority(PRIO_PROCESS, (id_t)gettid(), NICENESS);
	while (!condition_pause(&s->changed, &s->lock, &s->stop, wait_ms)) {
		struct err err = { 0 };
		uint64_t n_bad;

		s->started_ms = clock_mono_ms();
		if (scrub_pass(s->st, scrub_rest, s, &n_bad, &err) < 0 && err.kind != ERR_CANCELLED)
			log_warn("store", "background check: %s", err.text);
		wait_ms = EVERY_MS;
	}
	return NULL;
}

struct scrub *scrub_start(struct store *st)
{
	struct scrub *s = NEW(struct scrub);

	s->st = st;
	pthread_mutex_init(&s->lock, NULL);
	condition_init(&s->changed);
	s->running = pthread_create(&s->thread, NULL, scrub_run, s) == 0;
	return s;
}

void scrub_stop(struct scrub *s)
{
	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	pthread_cond_signal(&s->changed);
	pthread_mutex_unlock(&s->lock);
	if (s->running)
		pthread_join(s->thread, NULL);
	pthread_cond_destroy(&s->changed);
	pthread_mutex_destroy(&s->lock);
	free(s);
}
