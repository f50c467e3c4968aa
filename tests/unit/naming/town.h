/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile store, a symbolizer over files in memory (shop.h), and naming between them.
 */
#pragma once

#include "naming/internal.h"
#include "shop.h"
#include "test.h"

struct town {
	char dir[TEST_PATH_SIZE];
	struct shop shop;
	struct profilestore *store;
	struct naming *naming;
	struct naming_options opts;
	struct buf text;
	int64_t time_ms; /* of the next profile */
};
void town_open(struct town *t, bool table_store); /* naming is not started */
void town_start(struct town *t);
void town_stop(struct town *t);  /* naming ends; the store and the shop stay */
void town_again(struct town *t); /* the store too: closed and opened, naming started */
void town_close(struct town *t);

/* A profile of samples of value 1 at these addresses (as in the ELF file) of a program with shop_id(@n),
 * "/bin/p<n>"; @n 0: without build ID. */
void town_add(struct town *t, uint32_t n, const uint64_t *addrs, size_t n_addrs);
void town_add_one(struct town *t, uint32_t n, uint64_t addr);
void town_add_file(struct town *t, const char *file, const char *build_id, uint64_t addr);
/* At @addr of a process that had it mapped from @start on. */
void town_add_at(struct town *t, const char *file, const char *build_id, uint64_t start, uint64_t addr);

/*
 * What is at that address of that file by now: "f1 /src/a.c:10", "" without a name. town_expect() waits until
 * it is that, 30 s at most.
 */
const char *town_name(struct town *t, const char *file, uint64_t addr);
void town_expect(struct town *t, uint32_t n, uint64_t addr, const char *want);

/* What is known of a binary, "state reason tries"; and waiting for it. Texts are good until the next call. */
struct profilestore_binary town_binary(struct town *t, const char *file);
void town_expect_state(struct town *t, const char *file, enum naming_state state,
		       enum symbolize_reason reason, uint32_t n_tries);
/* So many locations were looked up, with and without success: waits for it. */
void town_expect_stats(struct town *t, uint64_t n_named, uint64_t n_unnamed);
void town_wake(struct town *t, uint32_t n, bool replaced);
