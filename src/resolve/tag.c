/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tags that identify content, for ETag and caches.
 */
#include "resolve/internal.h"

uint64_t content_tag(const struct index_file *f, uint32_t member)
{
	uint64_t v[3] = { (uint64_t)f->id, f->generation, member };

	return hash64(v, sizeof(v), 0);
}

uint64_t fetched_tag(const struct resolve_request *req, uint64_t size, int64_t mtime)
{
	const uint64_t numbers[] = { htole64(size), htole64((uint64_t)mtime), req->kind };
	uint64_t tag = hash64(numbers, sizeof(numbers), 0);

	tag = hash64(req->id.b, req->id.size, tag);
	return hash64(req->arg.p, req->arg.size, tag);
}
