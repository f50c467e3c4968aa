/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time that ages are counted by: the wall clock as far as it is plausible.
 *
 * A wall clock that is set wrong, if only for seconds, would make all profiles too old. So the time here goes on
 * with the monotonic clock, from the newest profile when the store is opened, and follows the wall clock while
 * the two agree. If the wall clock is elsewhere, it has to go on steadily for a part of the difference before it
 * is believed: then it was not a mistake of a moment, or the store was closed for so long.
 *
 * The time that was reached is in a file. Otherwise a store without new profiles would doubt the clock after each start.
 * For how long a doubted clock has gone on steadily is in another one. Otherwise a machine that is never on for so long
 * in one go would doubt it for ever.
 */
#include "profilestore/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>
#include "profilestore/internal.h"

#define JUMP_MS       INT64_C(60000)  /* between two readings; less is a correction by NTP */
#define APART_MS      INT64_C(300000) /* more than this is implausible */
#define CONFIRM_PART  8               /* the wall clock is believed after this part of the difference, */
#define CONFIRM_LEAST INT64_C(3600000)
#define CONFIRM_MOST  (24 * CONFIRM_LEAST)
#define PAUSE_MOST \
	(7 * CONFIRM_MOST) /* after a longer pause the clock has to go on steadily from the start again */
#define MS_TO_S(ms) ((ms) / 1000)
#define FILE_MAX    64u /* bytes */

static int64_t apart_ms(int64_t a, int64_t b)
{
	return a > b ? a - b : b - a;
}

static int64_t confirm_ms(int64_t apart)
{
	return MIN(MAX(apart / CONFIRM_PART, CONFIRM_LEAST), CONFIRM_MOST);
}

void store_clock_open(struct store_clock *c, int64_t wall_ms, int64_t mono_ms, int64_t newest_ms,
		      int64_t steady_ms)
{
	pthread_mutex_init(&c->lock, NULL);
	c->wall_ms = wall_ms;
	c->mono_ms = mono_ms;
	c->steady_since_ms = mono_ms - steady_ms;
	c->time_ms = newest_ms == INT64_MIN ? wall_ms : newest_ms;
	c->doubted = false;
}

void store_clock_close(struct store_clock *c)
{
	pthread_mutex_destroy(&c->lock);
}

struct store_time store_clock_read(struct store_clock *c, int64_t wall_ms, int64_t mono_ms)
{
	struct store_time t = { 0 };
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
	t.doubted = c->doubted;
	t.changed = c->doubted != was;
	t.apart_ms = c->doubted ? wall_ms - c->time_ms : 0;
	t.confirm_ms = c->doubted ? confirm_ms(apart) - (mono_ms - c->steady_since_ms) : 0;
	t.steady_ms = mono_ms - c->steady_since_ms;
	pthread_mutex_unlock(&c->lock);
	return t;
}

/* ---- of a store ---- */

static void tell_doubt(struct profilestore *s, const struct store_time *t)
{
	if (!t->changed)
		return;
	if (t->doubted)
		store_notice(
			s, LOG_WARN,
			"the clock is %" PRId64
			" s %s of the profiles and the time that has passed since: no "
			"profile is deleted for its age until the clock has gone on steadily for %" PRId64
			" s; correct it if it is wrong",
			MS_TO_S(apart_ms(t->apart_ms, 0)), t->apart_ms > 0 ? "ahead" : "behind",
			MS_TO_S(t->confirm_ms));
	else
		store_notice(s, LOG_INFO, "the clock is believed again: profiles are deleted by their age");
}

static char *clock_path(const struct profilestore *s)
{
	return mem_printf("%s/clock", s->dir);
}

int64_t clock_saved_ms(const struct profilestore *s)
{
	AUTO(mem_freep) char *path = clock_path(s);
	AUTO(buf_done) struct buf text = { 0 };
	uint64_t ms;

	/* Without the file only the profiles are known. */
	if (file_read(path, FILE_MAX, &text, NULL) != 0 || !str_to_u64(str_trim(buf_str(&text)), &ms) ||
	    ms > INT64_MAX)
		return INT64_MIN;
	return (int64_t)ms;
}

static char *doubt_path(const struct profilestore *s)
{
	return mem_printf("%s/clock-doubted", s->dir);
}

int64_t clock_steady_ms(const struct profilestore *s, int64_t wall_ms)
{
	AUTO(mem_freep) char *path = doubt_path(s);
	AUTO(buf_done) struct buf text = { 0 };
	uint64_t last_ms, steady_ms;
	struct str rest, last;

	if (file_read(path, FILE_MAX, &text, NULL) != 0)
		return 0;
	rest = str_trim(buf_str(&text));
	last = str_cut(&rest, ' ');
	if (!str_to_u64(last, &last_ms) || !str_to_u64(rest, &steady_ms) || last_ms > INT64_MAX)
		return 0;
	/* A clock that was set back since, or far ahead, is another one. */
	if (wall_ms < (int64_t)last_ms || wall_ms - (int64_t)last_ms > PAUSE_MOST)
		return 0;
	return (int64_t)MIN(steady_ms, (uint64_t)CONFIRM_MOST);
}

/* For the next start: a doubted clock has gone on steadily for so long. */
static void doubt_save(struct profilestore *s, const struct store_time *t, bool closing)
{
	AUTO(mem_freep) char *path = NULL;
	char text[FILE_MAX];
	int n;

	if (t->doubted == s->doubt_saved &&
	    (!t->doubted || apart_ms(t->steady_ms, s->steady_saved_ms) < (closing ? 1 : CLOCK_SAVE_EVERY_MS)))
		return;
	path = doubt_path(s);
	if (!t->doubted) {
		s->doubt_saved = unlink(path) < 0 && errno != ENOENT;
		return;
	}
	n = snprintf(text, sizeof(text), "%" PRId64 " %" PRId64 "\n", t->now_ms + t->apart_ms, t->steady_ms);
	if (file_write_durable(path, text, (size_t)n, 0640, NULL) < 0)
		return;
	s->doubt_saved = true;
	s->steady_saved_ms = t->steady_ms;
}

void clock_save(struct profilestore *s, bool closing)
{
	const struct store_time t = store_time(s);
	AUTO(mem_freep) char *path = NULL;
	char text[FILE_MAX];
	int n;

	doubt_save(s, &t, closing);
	if (t.doubted || t.now_ms < 0 ||
	    (s->clock_saved_ms >= 0 &&
	     apart_ms(t.now_ms, s->clock_saved_ms) < (closing ? 1 : CLOCK_SAVE_EVERY_MS)))
		return;
	path = clock_path(s);
	n = snprintf(text, sizeof(text), "%" PRId64 "\n", t.now_ms);
	/* With a full disk, the next time. */
	if (file_write_durable(path, text, (size_t)n, 0640, NULL) == 0)
		s->clock_saved_ms = t.now_ms;
}

struct store_time store_time(struct profilestore *s)
{
	struct store_time t = store_clock_read(&s->clock, s->now_ms(), s->mono_ms());

	if (s->max_age_ms)
		tell_doubt(s, &t);
	return t;
}
