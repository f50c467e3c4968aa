/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The access log: one line a request. access.c has the form.
 */
#pragma once

#include "http/http.h"

struct access_log;

/* Lines show nothing of a path after @secret_below; NULL: no path has a secret. It stays. NULL: no thread. */
struct access_log *access_new(int fd, const char *secret_below);
void access_free(struct access_log *l); /* takes NULL */
struct access_entry {
	struct http_conn *conn; /* for peer and head */
	const char *method, *url;
	unsigned status;
	uint64_t bytes;
	int64_t ns;
	bool complete; /* the whole reply was sent */
};
void access_line(struct access_log *l, const struct access_entry *e);
