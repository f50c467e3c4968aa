/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compressed kernel modules (.ko.xz): unpacked into memory while they are classified. Some KiB may unpack to SCAN_MAX_INNER, and
 * many threads may meet such files at once, so all of them share one limit: a thread that needs more waits for the others.
 */
#include "scan/internal.h"

#define INNER_MEMORY  (2 * SCAN_MAX_INNER)
#define INNER_WAIT_MS 600000

static pthread_once_t inner_once = PTHREAD_ONCE_INIT;
static struct budget *inner_budget;

static void inner_init(void)
{
	inner_budget = budget_new_undivided(INNER_MEMORY);
}

void inner_begin(struct budget_hold *ret)
{
	pthread_once(&inner_once, inner_init);
	budget_hold_init(ret, inner_budget, BUDGET_FILE);
	ret->wait_ms = INNER_WAIT_MS;
}

int inner_unpack(enum codec_kind kind, struct bytes raw, struct budget_hold *hold, struct buf *ret,
		 struct err *err)
{
	return codec_decode_held(kind, raw, SCAN_MAX_INNER, hold, ret, err);
}
