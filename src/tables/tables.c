/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options, start and end.
 */
#include <stdlib.h>
#include "base/condition.h"
#include "tables/internal.h"

#define TABLES_SIZE  MIB(512)
#define LAYOUTS_SIZE MIB(32) /* some thousand */
#define MAX_BUILDS   4096u
#define MISS_MS      15000
#define ERROR_MS     5000
#define LOCAL_MS     1000 /* most servers answer in that time, and then nothing has to be made, or named, twice */
#define THREADS_MAX  4u
#define WAITING_MAX  64u /* builds that wait for object storage */

static void set_tables_options(struct tables *t, const struct tables_options *o)
{
	t->opts = *o;
	t->temp_dir = mem_strdup(o->temp_dir ? o->temp_dir : "/var/tmp");
	t->opts.tables_size = o->tables_size ? o->tables_size : TABLES_SIZE;
	t->opts.n_threads = o->n_threads ? o->n_threads : MIN(pool_cpus(), THREADS_MAX);
	t->opts.max_builds = o->max_builds ? o->max_builds : MAX_BUILDS;
	t->opts.miss_ms = o->miss_ms ? o->miss_ms : MISS_MS;
	t->opts.error_ms = o->error_ms ? o->error_ms : ERROR_MS;
	t->opts.local_ms = o->local_ms ? o->local_ms : LOCAL_MS;
}

struct tables *tables_new(const struct tables_options *o)
{
	struct tables *t = NEW(struct tables);

	set_tables_options(t, o);
	pthread_mutex_init(&t->lock, NULL);
	condition_init(&t->changed);
	t->disk = build_disk_new(t->temp_dir);
	t->entries = cache_new(t->opts.tables_size);
	t->layouts = cache_new(LAYOUTS_SIZE);
	t->pool = pool_new("lode-tables", t->opts.n_threads, 0);
	pool_permit_waiting(t->pool, WAITING_MAX);
	/* Without a timer no request can wait: all are ready at once. */
	if (timer_start(t) < 0)
		t->stopping = true;
	return t;
}

void tables_stop(struct tables *t)
{
	struct tables_request *ready;
	int64_t ignored;

	if (!t)
		return;
	atomic_store(&t->cancel, true);
	pthread_mutex_lock(&t->lock);
	t->stopping = true;
	ready = timer_expire(t, &ignored);
	pthread_mutex_unlock(&t->lock);
	requests_ready(ready);
}

void tables_free(struct tables *t)
{
	if (!t)
		return;
	tables_stop(t);
	pthread_mutex_lock(&t->lock);
	t->closing = true;
	pthread_cond_broadcast(&t->changed);
	for (struct build *b = t->first_build; b; b = b->next)
		task_kick(&b->task);
	while (t->n_builds)
		pthread_cond_wait(&t->changed, &t->lock);
	pthread_mutex_unlock(&t->lock);
	timer_join(t);
	pool_free(t->pool);
	lru_free(t->entries);
	lru_free(t->layouts);
	budget_free(t->disk);
	lacking_done(t);
	map_done(&t->builds);
	pthread_mutex_destroy(&t->lock);
	pthread_cond_destroy(&t->changed);
	free(t->temp_dir);
	free(t);
}

bool tables_has_discriminators(const struct tables *t)
{
	return t->opts.discriminators;
}

void tables_stats(struct tables *t, struct tables_stats *ret)
{
	pthread_mutex_lock(&t->lock);
	ret->n_builds = t->n_builds;
	pthread_mutex_unlock(&t->lock);
	ret->n_made = atomic_load(&t->n_made);
	ret->n_from_store = atomic_load(&t->n_from_store);
	ret->n_failed = atomic_load(&t->n_failed);
	ret->n_replaced = atomic_load(&t->n_replaced);
	ret->n_wanted = atomic_load(&t->n_wanted);
	ret->n_hits = atomic_load(&t->n_hits);
	ret->tables_size = lru_weight(t->entries);
}
