/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder with packages and programs, an index, and a scan over it. opts may be changed until it begins.
 */
#pragma once

#include "sample.h"

#define LONG_MS 60000

#define PROGRAM_A "00000000000000000000000000000000000000aa"
#define PROGRAM_B "00000000000000000000000000000000000000bb"

struct house {
	char dir[TEST_PATH_SIZE], root[TEST_PATH_SIZE + 16], points[TEST_PATH_SIZE + 16],
		index[TEST_PATH_SIZE + 16];
	struct str roots[1];
	struct scan_options opts;
	struct scan *scan;
	struct index *ix;
	struct arena a;
	struct sample s;
};
int house_set_up(void **state);
int house_tear_down(void **state);
#define test_in_house(name) cmocka_unit_test_setup_teardown(name, house_set_up, house_tear_down)

/* The scan: begun; at rest; both; ended, where it is. */
void house_begin(struct house *h);
void house_settle(struct house *h);
void house_run(struct house *h);
void house_stop(struct house *h);

char *house_path(struct house *h, const char *name); /* in the root; as long as the house */
void house_put_program(struct house *h, const char *name, const char *id);
void house_put_package(struct house *h, const char *name, enum sample_kind kind, enum codec_kind codec);

/* How many files have it. */
size_t house_n_hits(struct house *h, const struct build_id *id);
size_t house_n_hits_of(struct house *h, const char *id);
/* What the index has of a file; of row_of() it has to have something. */
bool house_row(struct house *h, const char *name, struct index_file *ret);
struct index_file house_row_of(struct house *h, const char *name);
bool house_has(struct house *h, const char *name);
