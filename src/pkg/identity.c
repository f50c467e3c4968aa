/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A package's identity: whether it is still the file that was mapped. Packages of the same size differ in
 * head and tail: headers and checksums at the start, the archive's end at the end.
 */
#include "pkg/internal.h"

#include <stdlib.h>

int pkg_identity_read(struct source *src, const struct stat *st, struct pkg_identity *ret, struct err *err)
{
	size_t n = (size_t)MIN(src->size, (uint64_t)PKG_IDENTITY_PART);
	AUTO(mem_freep) uint8_t *buf = mem_alloc(PKG_IDENTITY_PART);
	uint64_t head;

	if (source_read_full(src, 0, buf, n, SOURCE_RANDOM, err) < 0)
		return -1;
	head = hash64(buf, n, src->size);
	if (source_read_full(src, src->size - n, buf, n, SOURCE_RANDOM, err) < 0)
		return -1;
	*ret = (struct pkg_identity){
		.size = src->size,
		.mtime_ns = st ? (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec : 0,
		.inode = st ? st->st_ino : 0,
		.digest = hash64(buf, n, head),
	};
	return 0;
}

bool pkg_identity_same(const struct pkg_identity *a, const struct pkg_identity *b)
{
	return a->size == b->size && a->digest == b->digest;
}
