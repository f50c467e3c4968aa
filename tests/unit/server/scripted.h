/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server over scripted artifacts: large and small ones, plain files, and ones that wait at a gate, fail,
 * or end early. Each test has a server of its own.
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
extern struct script_artifact scripted_scripts[N_SCRIPTS];

extern struct server_fixture scripted;
extern struct resolver *scripted_script;
extern char scripted_plain[TEST_PATH_SIZE + 16],
	scripted_plain_big[TEST_PATH_SIZE + 16]; /* files that do not exist yet */

int scripted_setup_with(void (*change)(struct server_options *o));
int scripted_setup(void **state);
int scripted_setup_no_cache(void **state);
int scripted_teardown(void **state);
#define scripted_test(test, setup) cmocka_unit_test_setup_teardown(test, setup, scripted_teardown)

const char *scripted_path(unsigned which); /* the path of its debuginfo; valid until the next call */
/* Check: the received bytes, from @off on; the whole answer that is coming; that it can be fetched. */
void scripted_check_bytes(const struct http_answer *a, unsigned which, uint64_t off);
void scripted_check_whole(struct http_client *c, unsigned which);
void scripted_check_fetched(unsigned which);

/* Wait until @ok(), at most 30 s: a loaded machine is slow. */
void scripted_wait_until(bool (*ok)(void));
bool scripted_nothing_open(void);
