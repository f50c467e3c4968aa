/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder with packages and programs, an index, and a scan over it. opts may be changed until the scan
 * begins.
 */
#pragma once

#include "sample.h"

#define LONG_MS 60000

#define PROGRAM_A "00000000000000000000000000000000000000aa"
#define PROGRAM_B "00000000000000000000000000000000000000bb"

struct scan_fixture {
	char dir[TEST_PATH_SIZE], root[TEST_PATH_SIZE + 16], points[TEST_PATH_SIZE + 16],
		index[TEST_PATH_SIZE + 16];
	struct str roots[1];
	struct scan_options opts;
	struct scan *scan;
	struct index *ix;
	struct arena a;
	struct sample s;
};
int fixture_set_up(void **state);
int fixture_tear_down(void **state);
#define test_in_fixture(name) cmocka_unit_test_setup_teardown(name, fixture_set_up, fixture_tear_down)

/* The scan: begin it; wait until it is idle; both; end it, if there is one. */
void fixture_begin(struct scan_fixture *h);
void fixture_settle(struct scan_fixture *h);
struct scan_progress fixture_progress(struct scan_fixture *h);
void fixture_run(struct scan_fixture *h);
void fixture_stop(struct scan_fixture *h);

char *fixture_path(struct scan_fixture *h, const char *name); /* in the root; valid as long as the fixture */
void fixture_put_program(struct scan_fixture *h, const char *name, const char *id);
void fixture_put_package(struct scan_fixture *h, const char *name, enum sample_kind kind,
			 enum codec_kind codec);

/* The number of files with this build ID. */
size_t fixture_n_hits(struct scan_fixture *h, const struct build_id *id);
size_t fixture_n_hits_of(struct scan_fixture *h, const char *id);
/* The row of a file; row_of() fails without one. */
bool fixture_row(struct scan_fixture *h, const char *name, struct index_file *ret);
struct index_file fixture_row_of(struct scan_fixture *h, const char *name);
bool fixture_has(struct scan_fixture *h, const char *name);
