/* SPDX-License-Identifier: Apache-2.0 */
/* A server on the loopback with resources of the tests' own: no module above http is linked. */
#pragma once

#include "test.h"

#include "http/request.h"
#include "http_client.h"

#define DROPS_MAX 100u
#define CALL      "/pkg.v1.Service/Call"

struct server {
	struct http *http;
	struct http_service *service;
	struct pool *workers;
	struct http_canned canned;
	atomic_uint n_run, n_done, n_ticks, end_of_toil;
	atomic_bool let_go; /* the HTTP thread, which /holds keeps */
	bool hot;
};
extern struct server http_fixture;
extern const char *http_fixture_url;

int http_fixture_setup_with(void (*change)(struct http_service_options *o)); /* @change: NULL: none */
int http_fixture_setup(void **state);
int http_fixture_teardown(void **state);

struct http_answer ask_with_body(const char *method, const char *path, const char *headers, const char *body);
struct http_answer ask_in_chunks(const char *path);
/* The reply has this status and body; in the form of Connect. They end @a. */
void check_answer(struct http_answer a, int status, const char *body);
void check_connect(struct http_answer a, int status, const char *body);
