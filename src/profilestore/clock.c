/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clock by which a store counts the ages of profiles (base/age_clock.c), with its files and its messages. It goes on from
 * the newest profile when the store is opened.
 *
 * The time that was reached is in a file. Otherwise a store without new profiles would doubt the clock after each start.
 * For how long a doubted clock has gone on steadily is in another one. Otherwise a machine that is never on for so long
 * in one go would doubt it for ever.
 */
#include "profilestore/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

/* After a longer pause the clock has to go on steadily from the start again. */
#define PAUSE_MOST  (7 * AGE_CLOCK_CONFIRM_MOST_MS)
#define MS_TO_S(ms) ((ms) / 1000)
#define FILE_MAX    64u /* bytes */

static void tell_doubt(struct profilestore *s, const struct age_time *t)
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
			MS_TO_S(imaxabs(t->apart_ms)), t->apart_ms > 0 ? "ahead" : "behind",
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
	return (int64_t)MIN(steady_ms, (uint64_t)AGE_CLOCK_CONFIRM_MOST_MS);
}

/* For the next start: a doubted clock has gone on steadily for so long. */
static void doubt_save(struct profilestore *s, const struct age_time *t, bool closing)
{
	AUTO(mem_freep) char *path = NULL;
	char text[FILE_MAX];
	int n;

	if (t->doubted == s->doubt_saved &&
	    (!t->doubted || imaxabs(t->steady_ms - s->steady_saved_ms) < (closing ? 1 : CLOCK_SAVE_EVERY_MS)))
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
	const struct age_time t = store_time(s);
	AUTO(mem_freep) char *path = NULL;
	char text[FILE_MAX];
	int n;

	doubt_save(s, &t, closing);
	if (t.doubted || t.now_ms < 0 ||
	    (s->clock_saved_ms >= 0 &&
	     imaxabs(t.now_ms - s->clock_saved_ms) < (closing ? 1 : CLOCK_SAVE_EVERY_MS)))
		return;
	path = clock_path(s);
	n = snprintf(text, sizeof(text), "%" PRId64 "\n", t.now_ms);
	/* With a full disk, the next time. */
	if (file_write_durable(path, text, (size_t)n, 0640, NULL) == 0)
		s->clock_saved_ms = t.now_ms;
}

struct age_time store_time(struct profilestore *s)
{
	struct age_time t = age_clock_read(&s->clock, s->now_ms(), s->mono_ms());

	if (s->max_age_ms)
		tell_doubt(s, &t);
	return t;
}
