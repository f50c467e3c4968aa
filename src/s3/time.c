/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time of the bucket's server, by which ages are counted, and the time that requests are signed with.
 */
#include "s3/internal.h"

#include <stdlib.h>

#define AGREE_MS       300000
#define DOUBT_EVERY_MS 3600000 /* one of several servers may be wrong all the time */

int64_t time_to_sign_s(struct s3 *s)
{
	return clock_wall_s() + atomic_load(&s->skew_s);
}

static void log_doubt(struct s3 *s, const struct age_time *t, int64_t mono_ms)
{
	int64_t quiet_ms = atomic_load(&s->quiet_ms);

	if (!t->changed || !t->doubted || mono_ms < quiet_ms ||
	    !atomic_compare_exchange_strong(&s->quiet_ms, &quiet_ms, mono_ms + DOUBT_EVERY_MS))
		return;
	log_warn("s3",
		 "the clock of the bucket's server is %lld s %s the expected time: until it has been "
		 "steady for %lld s, ages of objects are counted by the earlier one",
		 (long long)llabs(t->apart_ms) / 1000, t->apart_ms > 0 ? "ahead of" : "behind",
		 (long long)t->confirm_ms / 1000);
}

/*
 * This machine's clock is a bound of the first Date, which may be wrong. If it was behind by much and is not any more, it was
 * set right, and the next Date is as good as a first one. Apart from that it counts for nothing: that the two clocks
 * agree is no proof where the server is on this machine.
 */
static struct age_time clock_read(struct s3 *s, int64_t date_ms, int64_t mono_ms)
{
	int64_t wall_ms = clock_wall_ms();
	bool behind = wall_ms < date_ms - AGREE_MS;
	struct age_time t;

	pthread_mutex_lock(&s->lock);
	if (s->has_clock && s->was_behind && !behind) {
		age_clock_close(&s->clock);
		s->has_clock = false;
	}
	if (!s->has_clock) {
		age_clock_open(&s->clock, date_ms, mono_ms, MIN(date_ms, wall_ms), 0);
		s->has_clock = true;
		s->was_behind = behind;
	}
	t = age_clock_read(&s->clock, date_ms, mono_ms);
	pthread_mutex_unlock(&s->lock);
	return t;
}

/* Once; and not for an answer without Date among others, as a proxy may give. */
static void log_no_date(struct s3 *s)
{
	bool has_clock;

	pthread_mutex_lock(&s->lock);
	has_clock = s->has_clock;
	pthread_mutex_unlock(&s->lock);
	if (!has_clock && !atomic_exchange(&s->told_no_date, true))
		log_warn("s3",
			 "the bucket's server sends no Date: until it does, no object is old enough to be "
			 "removed, and unfinished uploads stay");
}

void time_note_date(struct s3 *s, struct str headers)
{
	struct str date = net_header(headers, "date");
	int64_t mono_ms = clock_mono_ms(), date_s;
	struct age_time t;

	if (!date.size || !net_date(date, &date_s)) {
		log_no_date(s);
		return;
	}
	t = clock_read(s, date_s * 1000, mono_ms);
	log_doubt(s, &t, mono_ms);
}

int64_t s3_time_s(struct s3 *s)
{
	int64_t ret;

	pthread_mutex_lock(&s->lock);
	ret = s->has_clock ? age_clock_least_ms(&s->clock, clock_mono_ms()) / 1000 : 0;
	pthread_mutex_unlock(&s->lock);
	return ret;
}
