/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Received profiles: from the forms that senders give them to the store. A handler parses the body, passes each
 * profile on with take_profile(), and ends with take_end(). docs/profiles.md has the paths.
 *
 *   take.c        to the store, and the reply once all are on disk; POST /profiles
 *   parca.c       Parca's WriteRaw as JSON
 *   pyroscope.c   Pyroscope's /ingest
 *   forms.c       bodies in the forms of other clients, parsed without a request
 */
#pragma once

#include "server/profiles/profiles.h"

/* ---- routes ---- */

int api_post_profiles(struct api *a, struct err *err);
int api_post_parca(struct api *a, struct err *err);
int api_post_pyroscope(struct api *a, struct err *err);

/* ---- take.c ---- */

/* Parse a profile, compressed or not. */
int take_read(struct api *a, struct bytes in, struct str format, struct profile **ret, struct err *err);
/* Pass it to the store with these labels; takes @p. */
int take_profile(struct api *a, struct profile *p, const struct profilestore_label *labels, size_t n_labels,
		 struct err *err);
/*
 * All profiles of the request were passed on; or @r is negative, and @err says why. Drops the body.
 * API_GOES_ON: when the store has reported all of them, @answer writes the reply.
 */
int take_end(struct api *a, int r, void (*answer)(struct api *a, const struct profilestore_receipt *r),
	     struct err *err);
void take_free(struct take *t); /* takes NULL */
