/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server over scripted artifacts: large and small ones, such that wait at a gate, fail, end early, and
 * plain files. Each test has a server of its own.
 */
#pragma once

#include <limits.h>
#include "fixture.h"
#include "script.h"

#define BIG MIB(2)

enum {
	GATED,
	FAILS,
	SHORT,
	WAITS,
	BUSY,
	HUGE_ONE,
	SEQUENTIAL,
	SMALL,
	SMALL_FAILS,
	PLAIN,
	PLAIN_BIG,
	BAD,
	TINY_GATED,
	N_SCRIPTS
};
extern struct script_artifact stage_scripts[N_SCRIPTS];

extern struct fixture stage;
extern struct resolver *stage_script;
extern char stage_plain[TEST_PATH_SIZE + 16], stage_plain_big[TEST_PATH_SIZE + 16]; /* not there yet */

int stage_setup_with(void (*change)(struct server_options *o));
int stage_setup(void **state);
int stage_setup_no_cache(void **state);
int stage_teardown(void **state);
#define stage_test(test, setup) cmocka_unit_test_setup_teardown(test, setup, stage_teardown)

const char *stage_path(unsigned which); /* of its debuginfo; until the next call */
/* What came of it, from @off on, is right; the answer that is on its way is all of it; it can be had. */
void stage_check_bytes(const struct http_answer *a, unsigned which, uint64_t off);
void stage_check_whole(struct http_client *c, unsigned which);
void stage_check_fetched(unsigned which);

/* Until @ok(), or half a minute: a loaded machine is slow. */
void stage_wait_until(bool (*ok)(void));
bool stage_nothing_open(void);
/* Until a metric of the server says something between these. */
void stage_wait_for_metric(const char *name, int least, int most);
