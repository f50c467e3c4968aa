/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The access log: one line a request. access.c has the form.
 */
#pragma once

#include "http/http.h"

struct access_log;

struct access_log *access_new(int fd);  /* NULL: no thread */
void access_free(struct access_log *l); /* takes NULL */
/* @complete: the whole reply went out. */
void access_line(struct access_log *l, struct http_conn *conn, const char *method, const char *url,
		 unsigned status, uint64_t bytes, int64_t ns, bool complete);
