/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pulling profiles from programs that have them under a URL, as Go's net/http/pprof does: `lode serve --scrape FILE`.
 * The files have targets in the form of Prometheus' file_sd, and are read again when they change (docs/scrape.md).
 */
#pragma once

#include "server/profiles/profiles.h"

/* Pulls that run at once: SCRAPE_MAX_AT_ONCE, or as the limit of open files permits; each has a connection. */
#define SCRAPE_MAX_AT_ONCE 1024u
unsigned scrape_max_at_once(void);
/* Begins to pull for @s, whose profile store and workers are there. */
int scrape_start(struct server *s, const struct str *files, size_t n_files, struct scrape **ret,
		 struct err *err);
/* Ends all pulls at once. Waits only for profiles that are being stored. Takes NULL. */
void scrape_stop(struct scrape *s);
void scrape_free(struct scrape *s); /* no request is left that shows it; takes NULL */

struct scrape_stats {
	size_t n_targets; /* of all files */
	/* of their profiles; without a failure, with one, not pulled yet */
	size_t n_good, n_failing, n_new;
	size_t n_running;    /* pulls */
	size_t n_broken;     /* files whose last change could not be read */
	uint64_t base_bytes; /* memory of the counters that the next profiles are compared with */
};
void scrape_stats(struct scrape *s, struct scrape_stats *ret);

int api_targets(struct api *a, struct err *err); /* GET /api/targets */
