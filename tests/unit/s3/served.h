/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An object in the bucket of a server on the loopback, and clients of that server.
 */
#pragma once

#include "test.h"

#include "fault_http.h"
#include "s3/internal.h"

#define SERVED_SIZE 700000u
#define SERVED_ETAG "ETag: \"abc\"\r\nLast-Modified: Sat, 23 Nov 2024 10:00:00 GMT\r\n"

/* The bytes of the object, and the rule of a server that has it under every name. */
extern uint8_t served[SERVED_SIZE];
extern const struct fault_rule served_whole;

/* For cmocka: make the bytes, and set the credentials AKTEST and hush. */
int served_set_up(void **state);

/* Without hedges: a busy machine may take longer than 200 ms for an answer, and requests are counted. */
struct s3 *served_client(const struct fault_http *h);
struct s3 *served_hedging_client(const struct fault_http *h);
/* Open "s3://b/a key.deb" with the size and the ETag of a listing, so without a request. */
struct source *served_open(struct s3 *s);
/* Check that @src has these bytes of the object. */
void served_check(struct source *src, uint64_t off, size_t n);
/* Read the first byte of served_open(). */
int served_read(struct s3 *s, struct err *err);
