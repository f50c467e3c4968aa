/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State shared by the threads of the scan: candidates, changed paths, requests to walk or groom, counts.
 */
#include <stdlib.h>
#include "scan/internal.h"

/* A bucket or an archive of strangers may have millions of files that fail: the log has so many of them in this time. */
#define TOLD_MAX 200u
#define TOLD_MS  60000

void candidate_free(struct candidate *c)
{
	if (!c)
		return;
	free(c->path);
	free(c);
}

void scan_add_candidate(struct scan *s, struct candidate *c)
{
	uint64_t size = (uint64_t)c->st.st_size;
	bool package = c->by_name;

	pthread_mutex_lock(&s->lock);
	s->n_probing++;
	s->unsettled = true;
	if (package) {
		s->progress.n_packages++;
		s->progress.bytes_total += size;
	}
	pthread_mutex_unlock(&s->lock);
	if (queue_push(s->candidates, c) != 0) {
		candidate_free(c);
		pthread_mutex_lock(&s->lock);
		s->n_probing--;
		pthread_mutex_unlock(&s->lock);
	}
}

void scan_failed(struct scan *s, struct str path, const struct err *why)
{
	int64_t now_ms = clock_mono_ms();
	uint64_t n_silent = 0;
	bool told;

	pthread_mutex_lock(&s->lock);
	s->progress.n_failed++;
	if (!s->told_from_ms || now_ms - s->told_from_ms >= TOLD_MS) {
		s->told_from_ms = now_ms;
		n_silent = s->n_silent;
		s->n_silent = 0;
		s->n_told = 0;
	}
	told = s->n_told < TOLD_MAX;
	s->n_told += told;
	s->n_silent += !told;
	pthread_mutex_unlock(&s->lock);
	if (n_silent)
		log_warn("scan", "%llu more files failed meanwhile; lode stat lists all, with reasons",
			 (unsigned long long)n_silent);
	if (told)
		log_warn("scan", STR_FMT ": %s", STR_ARG(path), why->text);
}

void scan_path_changed(struct scan *s, const char *path)
{
	pthread_mutex_lock(&s->lock);
	if (!path || s->n_dirty >= SCAN_MAX_DIRTY) {
		/* A lost event may have been the removal of a file. */
		s->want_walk = s->want_groom = true;
	} else if (!s->n_dirty || strcmp(s->dirty[s->n_dirty - 1], path) != 0) {
		VEC_PUSH(s->dirty, s->n_dirty, s->room_dirty) = mem_strdup(path);
	}
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

void scan_rescan(struct scan *s)
{
	pthread_mutex_lock(&s->lock);
	s->want_walk = true;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

void scan_listed(struct scan *s)
{
	pthread_mutex_lock(&s->lock);
	s->want_groom |= s->groom_kept;
	s->groom_kept = false;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

void scan_groom(struct scan *s)
{
	pthread_mutex_lock(&s->lock);
	s->want_groom = true;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}
