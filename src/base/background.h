/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that checks stored data in the background: a pass a minute after the start and then once a day. A pass has the
 * lowest priority, and rests three times as long as it works.
 */
#pragma once

#include "base/base.h"

struct background;

/*
 * @pass calls background_rest() after each piece of work, some milliseconds, and ends with ERR_CANCELLED or 0 when that
 * returns true. Another failure is logged as one of @module. NULL: there is no thread.
 */
struct background *background_start(const char *name, const char *module,
				    int (*pass)(struct background *b, void *arg, struct err *err), void *arg);
void background_stop(struct background *b); /* waits for the pass; takes NULL */
bool background_rest(struct background *b); /* true: stop */
