/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles that could not be sent, in a folder: one file each, whose name has its time, written under another name first. The
 * oldest go when there are too many bytes, or they are too old by a clock that is believed (base/age_clock.h).
 */
#pragma once

#include "base/base.h"

#define SPOOL_USUAL_BYTES ((uint64_t)64 << 20)
#define SPOOL_USUAL_S     (6 * 3600)
#define SPOOL_MAX_FILE    MIB(64)

struct spool;
/* Creates the folder. Files that are there from before are kept. @max_bytes, @max_s: 0: the usual. */
int spool_open(const char *dir, uint64_t max_bytes, int64_t max_s, struct spool **ret, struct err *err);
void spool_close(struct spool *s); /* takes NULL; the files stay */
/* Store @body, of a profile that began at @time_ms. Profiles over the limits are removed, the oldest first. */
int spool_put(struct spool *s, int64_t time_ms, struct bytes body, struct err *err);
/*
 * The newest profile that can be read: it is worth most. 0, or SPOOL_EMPTY: there is none now. *ret_name is for spool_remove() or
 * spool_put_off(), on the heap. A file that is empty, too large or on a damaged block is removed. One that cannot be read now
 * (no descriptor, no memory, no right to it) stays; negative if there are only such files.
 */
enum { SPOOL_EMPTY = 1 };
int spool_next(struct spool *s, struct buf *ret, char **ret_name, struct err *err);
void spool_remove(struct spool *s, const char *name);
/*
 * It could not be sent: the others come before it. Otherwise one that a server never takes would keep all older ones here. When
 * all are put off, each is tried once more. The next such round comes after 10 s, then after twice as long, up to 5 min, until
 * the spool is empty.
 */
void spool_put_off(struct spool *s, const char *name);

struct spool_stats {
	size_t n;
	uint64_t bytes, n_dropped; /* now; by the limits, since the start */
	int64_t oldest_ms;         /* 0: empty */
};
void spool_stats(const struct spool *s, struct spool_stats *ret);
