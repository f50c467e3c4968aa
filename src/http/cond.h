/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditional and range requests (RFC 9110, sections 13 and 14): which part of a content is to be sent.
 * Pure functions of the request's headers.
 */
#pragma once

#include "base/base.h"

#define HTTP_DATE_SIZE 32
#define ETAG_SIZE      24

/* The content of a reply. */
struct content {
	uint64_t size;
	int64_t mtime;
	char etag[ETAG_SIZE];          /* with its quotes */
	char modified[HTTP_DATE_SIZE]; /* empty: unknown */
	char *file, *archive;          /* owned; NULL: no such header */
};

/* Headers of the request; NULL: absent. */
struct conditions {
	const char *range, *if_range, *if_none_match, *if_modified_since;
	const char *max_size; /* X-DEBUGINFOD-MAXSIZE */
	bool head;
};

struct verdict {
	unsigned status;    /* 200, 206, 304, 406, 416 */
	uint64_t off, size; /* of the bytes to send, with 200 and 206 */
};

struct verdict cond_judge(const struct conditions *c, const struct content *content);
/* For If-None-Match: weak comparison; "*" matches any tag. */
bool cond_etag_in_list(struct str list, struct str etag);

char *http_date(int64_t wall_s, char out[HTTP_DATE_SIZE]); /* "Sat, 21 Nov 2026 07:29:00 GMT"; returns out */
bool http_date_parse(struct str s, int64_t *ret);          /* accepts that form only */
