/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listening sockets for "ADDR:PORT" and "unix:PATH".
 */
#pragma once

#include "base/base.h"

#define LISTEN_MAX 32u /* sockets */

struct listen_socket {
	int fd;
	char url_host[64]; /* "127.0.0.1:8002", "[::1]:8002"; "" for a Unix socket */
	char path[108];    /* of a Unix socket; "" for others */
};

/*
 * Open the sockets for "ADDR:PORT". "localhost" and a host name may have several; ":PORT" is one socket for
 * all addresses of both families. Port 0 is any free port, the same for both families. Adds to @ret, which
 * has room for LISTEN_MAX.
 *
 * "unix:PATH": a socket that every user may connect to, since every user may read. One that is left from a process
 * that has ended is replaced; the caller removes it at the end.
 */
int listen_open(struct str where, struct listen_socket *ret, size_t *n, struct err *err);
