/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of files in the cache of artifacts (cache.c has their form): a key, and a digest of key and bytes.
 */
#pragma once

#include "server/artifact/artifact.h"

#define CACHE_NAME_SIZE   256u
#define CACHE_DIGEST_SIZE 33u /* 32 digits and a NUL */

enum cache_name_kind {
	CACHE_NAME_FOREIGN, /* not touched */
	CACHE_NAME_OLD,     /* of a version that kept no digests */
	CACHE_NAME_KEPT,
};

/* The key of an artifact. */
void cache_name_make(const struct resolve_request *what, uint64_t tag, char out[CACHE_NAME_SIZE]);
/* The kind of a file by its @name. *ret_digest and *ret_key are views into @name. */
enum cache_name_kind cache_name_kind_of(struct str name, struct str *ret_key, struct str *ret_digest);
/* The name of a kept file; the caller's to free. */
char *cache_name_join(const char *key, const char *digest);

/* The digest of the file's bytes under the key. @stop may be NULL: true ends it with ERR_CANCELLED. */
int cache_name_digest(int fd, const char *key, const atomic_bool *stop, char ret[CACHE_DIGEST_SIZE],
		      struct err *err);
/* ERR_INVALID: damaged. */
int cache_name_check(int fd, const char *key, const char *digest, const atomic_bool *stop, struct err *err);
