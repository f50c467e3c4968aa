/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Received profiles: from the forms that senders give them to the store. A handler parses the body, passes each
 * profile on with take_profile(), and ends with take_end(). docs/profiles.md has the paths.
 *
 *   take.c        to the store, and the reply once all are on disk; POST /profiles
 *   parca.c       Parca's WriteRaw as JSON
 *   pyroscope.c   Pyroscope's /ingest; text.c: its stacks as text
 *   otlp.c        OpenTelemetry's profiles, over HTTP and as calls; otlp_json.c: their JSON
 *   push_v1.c     Pyroscope's push.v1.PusherService, a call
 *   parca_v1.c    Parca's ProfileStoreService: WriteRaw, WriteArrow
 *   bulk.c        requests with many profiles, of which some are refused
 *   senders.c     the senders, their profiles, and refusals
 *   forms.c       bodies in the forms of other clients, parsed without a request
 */
#pragma once

#include "server/profiles/profiles.h"

/* ---- routes ---- */

struct rpc_method;
struct form_profile;

int api_post_profiles(struct api *a, struct err *err);
int api_post_parca(struct api *a, struct err *err);
int api_post_pyroscope(struct api *a, struct err *err);
int api_post_otlp(struct api *a, struct err *err);

extern const struct rpc_method push_v1_push, otlp_export, parca_write_raw, parca_write_arrow;

/* ---- parca.c ---- */

/*
 * A pprof profile with Parca's labels. @normalized: its addresses are those of the ELF files already, whatever its mappings
 * are.
 */
int parca_take_pprof(struct api *a, const struct form_profile *f, struct err *err);

/* ---- take.c ---- */

/* The limits of a request's profiles. */
struct profile_limits take_limits(struct api *a);
struct profile_limits take_limits_of(struct budget_hold *memory);
/* Parse a profile, compressed or not. */
int take_read(struct api *a, struct bytes in, struct str format, struct profile **ret, struct err *err);
/* The same, but a recording of Java becomes several profiles: profile_read_each(). */
struct jfr_options;
struct profile_sink;
int take_read_each(struct api *a, struct bytes in, struct str format, const struct jfr_options *jfr,
		   struct profile_sink sink, struct err *err);
/*
 * Pass it to the store with these labels; takes @p. Its type has the names of Parca's senders (profilestore/type.h). A
 * bad label is ERR_INVALID.
 */
int take_profile(struct api *a, struct profile *p, const struct profilestore_label *labels, size_t n_labels,
		 struct err *err);
/*
 * The same for a sender of another protocol, who does not know our rules: bad labels are made to fit or dropped, and
 * the reply has a header X-LODE-NOTE that says how many. Names that begin with "__", but for __name__, are of the
 * protocol, not labels: they are left out.
 */
struct take_how {
	bool pyroscope;  /* the type has Pyroscope's names; else Parca's */
	struct str name; /* Pyroscope's NAME without a label __name__; empty: by the sample types */
};
/* What take_foreign() gives to the store; also for profiles that no request brought (scrape/). Lasts as long as @a. */
struct profilestore_upload take_upload(const struct profile *p, const struct profilestore_label *labels,
				       size_t n_labels, struct take_how how, struct arena *a);
int take_foreign(struct api *a, struct profile *p, const struct profilestore_label *labels, size_t n_labels,
		 struct take_how how, struct err *err);
/*
 * All profiles of the request were passed on; or @r is negative, and @err says why. Drops the body. Profiles that were
 * passed on are stored in any case; if the store fails for one, the reply says so.
 * API_GOES_ON: when the store has reported all of them, @answer writes the reply.
 */
int take_end(struct api *a, int r, void (*answer)(struct api *a, const struct profilestore_receipt *r),
	     struct err *err);

/* ---- wanted.c ---- */

/* Room for the list of one answer. */
struct str *wanted_room(struct api *a);
/*
 * Append the build IDs of @p whose debug information was searched for and not found, and that a push can bring. Returns how
 * many there are.
 */
size_t wanted_find(struct api *a, const struct profile *p, struct str *ret, size_t n);
