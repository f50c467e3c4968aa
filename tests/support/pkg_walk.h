/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walking over any archive for fuzz targets: every member and some of its content, with the invariants of
 * each; the sum is for comparison with another walk.
 */
#pragma once

#include "pkg/pkg.h"

/* A stream over @b that lends at most @chunk bytes at once; 0: all. */
struct stream *stream_in_chunks(struct bytes b, size_t chunk);

struct pkg_walk {
	int end; /* PKG_END, or negative */
	uint32_t n_members;
	uint64_t sum;
	struct err err;
};

/* @payload is closed; it lends at most @chunk bytes at once (0: all). */
void pkg_walk_bytes(const struct pkg_info *info, struct bytes payload, size_t chunk, struct pkg_walk *ret);
void pkg_walk_stream(const struct pkg_info *info, struct stream *payload, struct source *src,
		     struct pkg_walk *ret);
/* The result of pkg_open(). */
void pkg_walk_info(const struct pkg_info *info, uint64_t src_size);
