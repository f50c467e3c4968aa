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
void scrape_free(struct scrape *s);    /* no request is left that shows it; takes NULL */
void scrape_collect(struct scrape *s); /* set its metrics; takes NULL */

int api_targets(struct api *a, struct err *err); /* GET /api/targets */
