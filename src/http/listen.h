/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listening sockets out of "ADDR:PORT".
 */
#pragma once

#include "base/base.h"

#define LISTEN_MAX 32u /* sockets */

struct listen_socket {
	int fd;
	char url_host[64]; /* "127.0.0.1:8002", "[::1]:8002" */
};

/*
 * Open what "ADDR:PORT" names; "localhost" and a host name may give several. ":PORT" is one socket for all
 * addresses of both families. A port of 0 is any free one, the same for both families. Adds to @ret, which
 * has room for LISTEN_MAX.
 */
int listen_open(struct str where, struct listen_socket *ret, size_t *n, struct err *err);
