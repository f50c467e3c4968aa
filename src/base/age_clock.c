/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time by which ages are counted: the wall clock as far as it is plausible.
 *
 * A wall clock that is set wrong, if only for seconds, would make all data too old. So the time here goes on
 * with the monotonic clock, from a time that was certainly reached when it is opened, and follows the wall clock while
 * the two agree. If the wall clock is elsewhere, it has to go on steadily for a part of the difference before it
 * is believed: then it was not a mistake of a moment, or the data was out of use for so long.
 */
#include "base/age_clock.h"

#include "base/base.h"

#define JUMP_MS       INT64_C(60000)  /* between two readings; less is a correction by NTP */
#define APART_MS      INT64_C(300000) /* more than this is implausible */
#define CONFIRM_PART  8               /* the wall clock is believed after this part of the difference, */
#define CONFIRM_LEAST INT64_C(3600000)

static int64_t apart_ms(int64_t a, int64_t b)
{
	return a > b ? a - b : b - a;
}

static int64_t confirm_ms(int64_t apart)
{
	return MIN(MAX(apart / CONFIRM_PART, CONFIRM_LEAST), AGE_CLOCK_CONFIRM_MOST_MS);
}

void age_clock_open(struct age_clock *c, int64_t wall_ms, int64_t mono_ms, int64_t reached_ms,
		    int64_t steady_ms)
{
	pthread_mutex_init(&c->lock, NULL);
	c->wall_ms = wall_ms;
	c->mono_ms = mono_ms;
	c->steady_since_ms = mono_ms - steady_ms;
	c->time_ms = reached_ms == INT64_MIN ? wall_ms : reached_ms;
	c->doubted = false;
}

void age_clock_close(struct age_clock *c)
{
	pthread_mutex_destroy(&c->lock);
}

struct age_time age_clock_read(struct age_clock *c, int64_t wall_ms, int64_t mono_ms)
{
	struct age_time t = { 0 };
	int64_t passed_ms, apart;
	bool was;

	pthread_mutex_lock(&c->lock);
	passed_ms = MAX(mono_ms - c->mono_ms, INT64_C(0));
	if (apart_ms(wall_ms, c->wall_ms + passed_ms) > JUMP_MS)
		c->steady_since_ms = mono_ms;
	c->wall_ms = wall_ms;
	c->mono_ms += passed_ms;
	c->time_ms += passed_ms;
	apart = apart_ms(wall_ms, c->time_ms);
	was = c->doubted;
	c->doubted = apart > APART_MS && mono_ms - c->steady_since_ms < confirm_ms(apart);
	if (!c->doubted)
		c->time_ms = wall_ms;
	t.now_ms = c->time_ms;
	t.least_ms = MIN(wall_ms, c->time_ms);
	t.doubted = c->doubted;
	t.changed = c->doubted != was;
	t.apart_ms = c->doubted ? wall_ms - c->time_ms : 0;
	t.confirm_ms = c->doubted ? confirm_ms(apart) - (mono_ms - c->steady_since_ms) : 0;
	t.steady_ms = mono_ms - c->steady_since_ms;
	pthread_mutex_unlock(&c->lock);
	return t;
}

int64_t age_clock_least_ms(struct age_clock *c, int64_t mono_ms)
{
	int64_t ret;

	pthread_mutex_lock(&c->lock);
	ret = MIN(c->wall_ms, c->time_ms) + MAX(mono_ms - c->mono_ms, INT64_C(0));
	pthread_mutex_unlock(&c->lock);
	return ret;
}
