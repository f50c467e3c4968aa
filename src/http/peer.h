/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user at the other end of a connection, as the kernel knows it.
 */
#pragma once

#include <sys/socket.h>
#include <sys/types.h>
#include "base/base.h"

/*
 * The user who owns the other end of the connected socket @fd; @peer is its address. false: it is on another
 * machine or in another network namespace, it is closed already, or the kernel does not report it.
 *
 * For a Unix socket the user is the one who called connect(); for a loopback address, the one who made the socket. A
 * few system calls, none of which waits for another process.
 */
bool peer_user(int fd, const struct sockaddr *peer, uid_t *ret);
/* It is root, or the user who runs this process. The kernel's "nobody" is neither: it stands for unknown users. */
bool peer_is_trusted(int fd, const struct sockaddr *peer);
/* 127.0.0.0/8, ::1, or the same in IPv6's form. */
bool peer_is_loopback(const struct sockaddr *peer);

/* For tests: find the user of the socket with these ends in @text, which has the form of /proc/net/tcp{,6}. */
bool peer_find_in_table(struct str text, const struct sockaddr *from, const struct sockaddr *to, uid_t *ret);
