/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server about itself: /metrics, /healthz, /readyz, the figures of the page, and the page.
 */
#pragma once

#include "server/internal.h"

struct rpc_method;
extern const struct rpc_method grpc_health_check;
extern const struct http_body grpc_health_body;
extern const struct http_handler metrics_get, health_get, ready_get, status_get, failures_get, page_get;

/* ---- metrics.c ---- */

void metrics_artifact_decoded(uint64_t bytes, bool failed);
void metrics_start(struct server *s);
void metrics_stop(struct server *s);

/* ---- page.c ---- */

int page_new(struct server *s, struct page **ret, struct err *err);
void page_free(struct page *p); /* takes NULL */
