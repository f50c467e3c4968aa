/* SPDX-License-Identifier: Apache-2.0 */
#include "server/artifact/cache_name.h"

#include <stdio.h>
#include <string.h>

#define PIECE KIB(256) /* fits the processor's cache, so that the second hash reads no memory */

void cache_name_make(const struct resolve_request *what, uint64_t tag, char out[CACHE_NAME_SIZE])
{
	char hex[BUILD_ID_HEX_SIZE];

	snprintf(out, CACHE_NAME_SIZE, "%s-%s-%016llx-%016llx", resolve_kind_name(what->kind),
		 build_id_hex(&what->id, hex), (unsigned long long)hash64(what->arg.p, what->arg.size, 0),
		 (unsigned long long)tag);
}

static bool is_hex(struct str s, size_t size)
{
	return hex_is_lower(s) && (size ? s.size == size : s.size > 0);
}

enum cache_name_kind cache_name_kind_of(struct str name, struct str *ret_key, struct str *ret_digest)
{
	struct str rest = name, kind = str_cut(&rest, '-'), id = str_cut(&rest, '-'),
		   arg = str_cut(&rest, '-'), tag = str_cut(&rest, '-');

	for (unsigned i = 0; i < RESOLVE_N_KINDS; i++) {
		if (!str_eq(kind, str_of(resolve_kind_name(i))) || !is_hex(id, 0) || !is_hex(arg, 16) ||
		    !is_hex(tag, 16))
			continue;
		*ret_key = (struct str){ name.p, (size_t)(tag.p + tag.size - name.p) };
		*ret_digest = rest;
		if (!rest.p)
			return CACHE_NAME_OLD;
		return is_hex(rest, CACHE_DIGEST_SIZE - 1) ? CACHE_NAME_KEPT : CACHE_NAME_FOREIGN;
	}
	return CACHE_NAME_FOREIGN;
}

char *cache_name_join(const char *key, const char *digest)
{
	return mem_printf("%s-%s", key, digest);
}

int cache_name_digest(int fd, const char *key, const atomic_bool *stop, char ret[CACHE_DIGEST_SIZE],
		      struct err *err)
{
	AUTO(mem_freep) uint8_t *piece = mem_alloc(PIECE);
	struct hash64_state one, two;
	uint64_t off = 0;
	size_t got;

	hash64_init(&one, hash64(key, strlen(key), 0));
	hash64_init(&two, hash64(key, strlen(key), 1));
	do {
		if (stop && atomic_load(stop))
			return err_set(err, ERR_CANCELLED, "stopped");
		if (fd_pread(fd, piece, PIECE, off, &got, err) < 0)
			return -1;
		hash64_feed(&one, piece, got);
		hash64_feed(&two, piece, got);
		off += got;
	} while (got == PIECE);
	snprintf(ret, CACHE_DIGEST_SIZE, "%016llx%016llx", (unsigned long long)hash64_end(&one),
		 (unsigned long long)hash64_end(&two));
	return 0;
}

int cache_name_check(int fd, const char *key, const char *digest, const atomic_bool *stop, struct err *err)
{
	char got[CACHE_DIGEST_SIZE];

	if (cache_name_digest(fd, key, stop, got, err) < 0)
		return -1;
	return strcmp(got, digest) == 0 ? 0 : err_set(err, ERR_INVALID, "damaged: its digest differs");
}
