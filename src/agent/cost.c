/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel counts the time in which a thread waits for a processor (Documentation/scheduler/sched-stats.rst: time on the
 * processor, time of waiting, time slices).
 */
#include "agent/cost.h"

int64_t cost_of_text(struct str text, int64_t now_ns)
{
	uint64_t ran, waited;

	text = str_trim(text);
	if (!str_to_u64(str_word(&text), &ran) || !str_to_u64(str_word(&text), &waited) || waited > INT64_MAX)
		return now_ns;
	return now_ns - (int64_t)waited;
}

int64_t cost_ns(void)
{
	AUTO(buf_done) struct buf text = { 0 };
	struct err ignored = { 0 };

	if (file_read("/proc/thread-self/schedstat", 128, &text, &ignored) != 0)
		return clock_mono_ns();
	return cost_of_text(str_of(buf_cstr(&text)), clock_mono_ns());
}

int64_t cost_share_saved(struct cost_share *s, int64_t part, int64_t most_ns)
{
	int64_t now_ms = clock_mono_ms();

	if (s->credit_ms)
		s->credit_ns = MIN(s->credit_ns + (now_ms - s->credit_ms) * 1000000 / part, most_ns);
	else
		s->credit_ns = most_ns;
	s->credit_ms = now_ms;
	return s->credit_ns;
}
