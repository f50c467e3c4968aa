/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the client's tests share: a cache folder of their own, files to be served, a client that asks given
 * servers.
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

struct house {
	char top[TEST_PATH_SIZE];
	char cache[TEST_PATH_SIZE + 16];
	struct buf debug, program, other; /* of ID_A twice, and of ID_B */
	struct client *client;
};

void house_open(struct house *h);
void house_close(struct house *h);
/* The client asks these servers, apart by blanks. */
void house_ask(struct house *h, const char *urls);
struct client_request house_want(enum client_kind kind, const char *id, const char *name);
struct client_result house_find(struct house *h, enum client_kind kind, const char *id, const char *name);
/* Is there a file in the cache folder, "<id>/<name>"? Its size; -1: none. */
long long house_size(struct house *h, const char *name);
char *house_path(struct house *h, const char *name); /* heap */
void house_put(struct house *h, const char *name, struct bytes content);
/* Exactly these bytes were found. */
void assert_found(struct client_result *r, struct bytes content);
/* No temporary file is left anywhere in the cache folder. */
void assert_tidy(struct house *h);
