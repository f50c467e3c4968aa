/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a path asks for. No allocation, no state: safe on any bytes.
 */
#pragma once

#include "resolve/resolve.h"

#define ROUTE_URL_MAX 8192u /* bytes of a path, escaped; more is 414 */

enum route_kind {
	ROUTE_ARTIFACT, /* `resolve` says which */
	ROUTE_METADATA,
	ROUTE_METRICS,
	ROUTE_HEALTHZ,
	ROUTE_READYZ,
	ROUTE_STATUS,
	ROUTE_FAILURES,
	ROUTE_SYMBOLIZE, /* of a build ID in `resolve`, if it has one */
	ROUTE_SYMBOLZ,   /* likewise */
	ROUTE_SYMBOLICATE_V5,
	ROUTE_API,  /* of profiles; `file` is the whole path: profiles.c has the table */
	ROUTE_PAGE, /* `file` of the page; empty: "/" */
	ROUTE_N_KINDS,
};

struct route {
	enum route_kind kind;
	struct resolve_request resolve;
	struct str file;
};

/*
 * 0, or the status of the refusal, with a line for its body in *ret_why. Views in @ret point into @room,
 * which has ROUTE_URL_MAX + 1 bytes, or are literals.
 */
int route_parse(struct str url, char *room, struct route *ret, const char **ret_why);

/* Decode %XX in @s into @out, which has room for s.size bytes, ending in no NUL. false: a broken escape, or a
 * NUL byte. */
bool route_unescape(struct str s, char *out, size_t *ret_size);
