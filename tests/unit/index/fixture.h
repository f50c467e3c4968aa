/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fixture: an index in its own folder, and functions that add files and packages to it.
 */
#pragma once

#include "test.h"
#include "index/index.h"

struct index_fixture {
	char dir[TEST_PATH_SIZE];
	char path[TEST_PATH_SIZE + 16];
	struct index *ix;
	struct arena arena;
};

int fixture_set_up(void **state);
int fixture_tear_down(void **state);

struct build_id fixture_id(uint32_t n); /* 20 bytes, different for each @n */
/* Add a scanned plain file with one artifact. Every fixture_add function returns the row of its file. */
int64_t fixture_add_plain(struct index_fixture *fix, const char *path, int64_t mtime_s, uint32_t id,
			  uint32_t flags);
/* Add a package of which only the header was read, with @n build IDs from @first on. */
int64_t fixture_add_header(struct index_fixture *fix, const char *path, int64_t mtime_s, uint32_t first,
			   uint32_t n);

struct fixture_entry {
	const char *path;
	uint32_t id; /* 0: not an ELF file */
	uint32_t flags;
};
/* Add a scanned package of these entries, with its map, artifacts and directories. */
int64_t fixture_add_package(struct index_fixture *fix, const char *path, int64_t mtime_s,
			    const struct fixture_entry *entries, size_t n);
void fixture_encode_map(const struct fixture_entry *entries, size_t n, struct buf *ret);
