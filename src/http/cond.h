/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditional and range requests (RFC 9110, sections 13 and 14): what of a content is to be sent. Pure
 * functions of what the client said.
 */
#pragma once

#include "base/base.h"

#define HTTP_DATE_SIZE 32
#define ETAG_SIZE      24

/* What a reply says of its body. */
struct content {
	uint64_t size;
	int64_t mtime;
	char etag[ETAG_SIZE];          /* with its quotes */
	char modified[HTTP_DATE_SIZE]; /* empty: not known */
	char *file, *archive;          /* owned; NULL: not told */
};

/* The request's headers; NULL: not there. */
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
/* Of an If-None-Match: weak comparison, and "*" is all of them. */
bool cond_etag_in_list(struct str list, struct str etag);

char *http_date(int64_t wall_s, char out[HTTP_DATE_SIZE]); /* "Sat, 21 Nov 2026 07:29:00 GMT"; returns out */
bool http_date_parse(struct str s, int64_t *ret);          /* that form only */
