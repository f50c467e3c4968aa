/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store's own: what its files ask of each other.
 *
 *   key.c         kinds and keys: texts, and the names of records
 *   record.c      what a record says, as text
 *   blob.h        the seam: named bytes, whole or not at all; blob_memory.c, blob_dir.c
 *   store.c       opening, finding, reading
 *   put.c         writing
 *   list.c        listing, removal
 *   house.c       garbage, eviction, verification
 *   maintain.c    the thread that does so in a server
 */
#pragma once

#include "store/store.h"

/* ---- key.c ---- */

/* Names of records begin so, those of contents so. */
#define STORE_KEYS STR("keys/")
#define STORE_DATA STR("data/")

/* The name of the blob that holds the record of @key: "keys/ab/abcdef.debuginfo", "keys/ab/abcdef.source-<SHA-256 of the arg>". */
void store_record_name(const struct store_key *key, struct buf *ret);
/* That of the blob that holds a content: "data/01/0123...zst", raw ones without the ending. */
#define STORE_CONTENT_NAME_SIZE (5 + 3 + 2 * STORE_SHA256_SIZE + 4 + 1)
char *store_content_name(const uint8_t sha256[STORE_SHA256_SIZE], bool raw, char out[STORE_CONTENT_NAME_SIZE]);

/* ---- record.c ---- */

#define STORE_MAX_RECORD KIB(64)

/* docs/formats/store.md. last_used is not part of it. */
void store_record_write(const struct store_key *key, const struct store_meta *meta, struct buf *ret);
/* Strings are copied to @a. Anything but a whole and sound record is ERR_INVALID. */
int store_record_read(struct bytes b, struct arena *a, struct store_key *ret_key, struct store_meta *ret, struct err *err);
