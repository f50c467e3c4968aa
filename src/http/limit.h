/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rate limit of each client address.
 */
#pragma once

#include <sys/socket.h>
#include "base/base.h"

struct limit;

struct limit *limit_new(unsigned rate); /* requests per second and address, with bursts of ten times that */
void limit_free(struct limit *l);       /* takes NULL */
/* For the next function: a number that no client knows. */
uint64_t limit_seed(void);
/* Equal for the addresses that count as one client. */
uint64_t limit_address_key(const struct sockaddr *addr, uint64_t seed);
/* Count one request. false: the address has sent too many. */
bool limit_take(struct limit *l, const struct sockaddr *addr, int64_t now_ms);
