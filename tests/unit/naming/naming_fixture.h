/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile store, tables of files in memory (tables_fixture.h), and naming between them.
 */
#pragma once

#include "naming/internal.h"
#include "tables_fixture.h"
#include "test.h"

struct naming_fixture {
	char dir[TEST_PATH_SIZE];
	struct tables_fixture tables;
	struct profilestore *store;
	struct naming *naming;
	struct naming_options opts;
	struct buf text;
	int64_t time_ms; /* of the next profile */
};
void naming_fixture_open(struct naming_fixture *t, bool table_store); /* naming is not started */
void naming_fixture_start(struct naming_fixture *t);
void naming_fixture_stop(struct naming_fixture *t);  /* naming ends; the store and the tables stay */
void naming_fixture_again(struct naming_fixture *t); /* the store too: closed and opened, naming started */
void naming_fixture_close(struct naming_fixture *t);
/* From now on the store writes outcomes so long after they were known. */
void naming_fixture_write_later(int64_t ms);

/* A program with the symbol "s<n>" at 0x1000 and one segment of code, [0, 0x2000), at @path. */
void naming_fixture_put_program(struct naming_fixture *t, uint32_t n, const char *path);
/*
 * A debug file of the function "f", [0x1000, 0x1000 + @size), which has @depth calls inlined, each in the one before, of
 * functions of their own, whose names have @name_size bytes.
 */
void naming_fixture_put_calls(struct naming_fixture *t, uint32_t n, uint32_t size, unsigned depth,
			      size_t name_size);
/* Have the table and the layout made, and wait for them. */
void naming_fixture_request_layout(struct naming_fixture *t, uint32_t n);

/*
 * A profile of samples of value 1 at these addresses (as in the ELF file) of a program with
 * tables_fixture_id(@n), "/bin/p<n>"; @n 0: without build ID.
 */
void naming_fixture_add(struct naming_fixture *t, uint32_t n, const uint64_t *addrs, size_t n_addrs);
/* The addresses from @first on. */
void naming_fixture_add_range(struct naming_fixture *t, uint32_t n, uint64_t first, size_t n_addrs);
void naming_fixture_add_one(struct naming_fixture *t, uint32_t n, uint64_t addr);
void naming_fixture_add_file(struct naming_fixture *t, const char *file, const char *build_id, uint64_t addr);
/* In one profile: an address of each of "@prefix0", "@prefix1", ..., without build ID. */
void naming_fixture_add_files(struct naming_fixture *t, const char *prefix, size_t n_files, uint64_t addr);
/* At @addr of a process that had it mapped from @start. */
void naming_fixture_add_at(struct naming_fixture *t, const char *file, const char *build_id, uint64_t start,
			   uint64_t addr);

struct profilestore_merged naming_fixture_merge(struct naming_fixture *t); /* of all profiles */
/*
 * The name at that address of that file now: "f1 /src/a.c:10"; "" without a name. naming_fixture_expect()
 * waits until it is that, 30 s at most.
 */
const char *naming_fixture_name(struct naming_fixture *t, const char *file, uint64_t addr);
void naming_fixture_expect(struct naming_fixture *t, uint32_t n, uint64_t addr, const char *want);

/* The state of a binary, "state reason tries"; and waiting for it. Texts are valid until the next call. */
struct profilestore_binary naming_fixture_binary(struct naming_fixture *t, const char *file);
void naming_fixture_expect_state(struct naming_fixture *t, const char *file, enum naming_state state,
				 enum frame_reason reason, uint32_t n_tries);
/* So many locations were looked up, with and without success: waits for it. */
void naming_fixture_expect_stats(struct naming_fixture *t, uint64_t n_named, uint64_t n_unnamed);
void naming_fixture_wake(struct naming_fixture *t, uint32_t n, bool replaced);
/* Move the clock that stands still, and have the thread look at it. */
void naming_fixture_advance(struct naming_fixture *t, int64_t ms);
