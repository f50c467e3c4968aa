/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Senders of profiles: their forms of profiles, the last time, and refusals with the reasons. A sender is a token (or the
 * local user), an address, a program by its User-Agent, and a path. Kept in memory, SENDERS_MAX of them: a new one takes
 * the place of the one that was seen longest ago.
 */
#pragma once

#include "server/internal.h"

#define SENDERS_MAX 128u

struct senders;
struct senders *senders_new(void);
void senders_free(struct senders *t); /* takes NULL */
/* A request has ended. Only those that send profiles, or call a service that is not here, are noted. */
void senders_note(struct senders *t, const struct request *req, unsigned status);
/* lode_senders and the like, as Prometheus reads them; one line for each sender. */
void senders_write_metrics(struct senders *t, struct buf *out);

extern const struct http_handler senders_get; /* /api/senders */
