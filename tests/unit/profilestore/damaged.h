/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store whose files are damaged by a test.
 */
#pragma once

#include "profilestore/internal.h"
#include "stored.h"

#define DAMAGED_PROFILES 40

extern struct buf damaged_file; /* bytes of a file of the store */
extern int damaged_n_notices;

/* For stored.o.notice: counts; LODE_TALK: and shows them. */
void damaged_note(void *arg, enum log_level level, const char *text);
void damaged_remove(const struct stored *t, const char *name); /* a file of the closed store */
/*
 * Flip bits of each text "service = web" in damaged_file, and of a byte elsewhere in its page, so that it cannot be corrected.
 */
void damaged_flip_labels(void);
void damaged_check_labels(struct stored *t); /* the store, which is open, has only "db" and "web" */
