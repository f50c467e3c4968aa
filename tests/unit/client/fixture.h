/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fixture of the client's tests: a cache folder, files to be served, a client that asks given servers.
 */
#pragma once

#include <sys/stat.h>
#include "client/client.h"
#include "client/internal.h"
#include "elf_writer.h"
#include "fault_http.h"
#include "test.h"

#define ID_A "aabbccddeeff00112233445566778899aabbccdd"
#define ID_B "bbbbccddeeff00112233445566778899aabbccdd"

struct fixture {
	char top[TEST_PATH_SIZE];
	char cache[TEST_PATH_SIZE + 16];
	struct buf debug, program, other; /* of ID_A twice, and of ID_B */
	struct client *client;
};

void fixture_open(struct fixture *h);
void fixture_close(struct fixture *h);
/* The client asks these servers, separated by blanks. */
void fixture_ask(struct fixture *h, const char *urls);
struct client_request fixture_want(enum client_kind kind, const char *id, const char *name);
struct client_result fixture_find(struct fixture *h, enum client_kind kind, const char *id, const char *name);
/* The size of a file in the cache folder, "<id>/<name>"; -1: none. */
long long fixture_size(struct fixture *h, const char *name);
char *fixture_path(struct fixture *h, const char *name); /* heap */
void fixture_put(struct fixture *h, const char *name, struct bytes content);
/* Found, with exactly these bytes. */
void assert_found(struct client_result *r, struct bytes content);
/* No temporary file is left anywhere in the cache folder. */
void assert_tidy(struct fixture *h);
