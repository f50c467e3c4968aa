/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An index in a fresh folder, and files and packages to put in it.
 */
#pragma once

#include "test.h"
#include "index/index.h"

struct maker {
	char dir[TEST_PATH_SIZE];
	char path[TEST_PATH_SIZE + 16];
	struct index *ix;
	struct arena arena;
};

int maker_set_up(void **state);
int maker_tear_down(void **state);

struct build_id maker_id(uint32_t n); /* 20 bytes, other for each n */
/* A scanned plain file with one artifact. */
int64_t maker_plain(struct maker *m, const char *path, int64_t mtime_s, uint32_t id, uint32_t flags);
/* A package of which only the header is known, with @n build IDs from @first on. */
int64_t maker_header(struct maker *m, const char *path, int64_t mtime_s, uint32_t first, uint32_t n);

struct maker_entry {
	const char *path;
	uint32_t id; /* 0: no ELF file */
	uint32_t flags;
};
/* The map of a package of these, its artifacts and directories; a scanned package. */
int64_t maker_package(struct maker *m, const char *path, int64_t mtime_s, const struct maker_entry *entries,
		      size_t n);
void maker_map(const struct maker_entry *entries, size_t n, struct buf *ret);
