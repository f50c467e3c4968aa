/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The database made anew while the store is in use: profiles are copied into a new file, all else is written from memory,
 * and the new file takes the place of the old one. For damage, and for a database of an older version without digests of
 * pages.
 *
 * A small database is copied at once, in the writer's thread. A large one is copied in steps, which grooming asks for,
 * while profiles come in.
 */
#pragma once

#include "base/base.h"

struct profilestore;

#define REMAKES_MAX \
	8u /* because of damage, since the start: a disk that damages more is no place for a database */
#define REMAKE_AT_ONCE MIB(64)
#define REMAKE_NEW     ".remake" /* after the path of the database, as is the next */
#define STORE_OLD      ".old"

/*
 * In the writer's thread, between transactions: the database is to be made anew. @why NULL: only for its digests. If it
 * is small, this is done now. false: it was not; an error in @err says that it cannot be done.
 */
bool remake_ask(struct profilestore *s, const char *why, struct err *err);
/* It was asked for, and is not done yet. Any thread. */
bool remake_runs(struct profilestore *s);
/* A step of grooming. */
int remake_groom(struct profilestore *s, bool *ret_more, struct err *err);
void remake_free(struct profilestore *s);
/* When the store is opened: files that a crash has left. */
void remake_clean(const char *dir);
