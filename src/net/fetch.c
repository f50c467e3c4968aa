/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One artifact from several servers: which server is asked when, and how the fetch ends. attempt.c judges the
 * reply of one server.
 */
#include "net/internal.h"

#include <errno.h>
#include <stdio.h>

#define RETRY_MS      200 /* doubled at each retry */
#define RECONNECT_MS  100 /* after a failed connection */
#define BUSY_USUAL_S  5   /* 429 without a Retry-After */
#define RECHECK_MS    50  /* until the next check for a free connection, or for the result of a probe */
#define WINDOW_MS     10000
#define WINDOW_MIN    KIB(10)
#define GOOD_PROGRESS MIB(1) /* a server that breaks off after this much is not counted as failed */

/* ---- the sink ---- */

static void fetch_sink_failed(struct net_fetch *f, const struct err *err)
{
	f->sink_failed = true;
	f->sink_err = *err;
}

int fetch_write(struct net_fetch *f, struct bytes piece)
{
	struct err err = { 0 };
	size_t n_tail = MIN(piece.size, (size_t)FETCH_TAIL);
	uint64_t tail_at = f->have + piece.size - n_tail;
	size_t place = (size_t)(tail_at % FETCH_TAIL), first = MIN(n_tail, FETCH_TAIL - place);

	if (f->sink.write && f->sink.write(f->sink.arg, piece, &err) < 0) {
		fetch_sink_failed(f, &err);
		return XFER_ABORT;
	}
	hash64_feed(&f->hash, piece.p, piece.size);
	memcpy(f->tail + place, piece.p + piece.size - n_tail, first);
	memcpy(f->tail, piece.p + piece.size - n_tail + first, n_tail - first);
	f->have += piece.size;
	atomic_store(&f->shown_have, f->have);
	return XFER_TAKEN;
}

/* Attempts that were to continue after these bytes must not do so. */
static void fetch_void_bytes(struct net_fetch *f)
{
	f->version++;
	f->have = 0;
	hash64_init(&f->hash, 0);
	atomic_store(&f->shown_have, 0);
}

int fetch_begin_body(struct net_fetch *f, const struct net_reply *reply, struct err *err)
{
	int r = 0;

	if (f->sink.begin)
		r = f->sink.begin(f->sink.arg, reply, err);
	else if (f->begun)
		r = NET_REFUSED;
	if (r < 0)
		fetch_sink_failed(f, err);
	if (r)
		return r;
	fetch_void_bytes(f);
	unread_over(f);
	f->begun = f->has_reply = true;
	f->reply = *reply;
	f->reply.url = arena_strdup(&f->arena, str_of(reply->url));
	f->reply.type = arena_str(&f->arena, reply->type);
	f->reply.etag = arena_str(&f->arena, reply->etag);
	f->reply.headers = arena_str(&f->arena, reply->headers);
	f->size_known = reply->size_known;
	f->size = reply->size;
	atomic_store(&f->shown_size, f->size);
	atomic_store(&f->shown_size_known, f->size_known);
	atomic_store(&f->shown_server, reply->server);
	return 0;
}

/* ---- the results of attempts ---- */

static void candidate_note(struct net_fetch *f, struct candidate *c, unsigned status, bool passed_over,
			   const char *message)
{
	int64_t again_s;
	enum breaker_state state = breaker_check(&f->net->breakers, c->server, &again_s, NULL);

	note_add(&f->notes, &(struct net_note){ .server = breaker_url(c->server),
						.message = message,
						.status = status,
						.n_tries = passed_over ? 0 : c->n_asked,
						.passed_over = passed_over,
						.unread = c->unread,
						.unasked = c->unasked,
						.again_s = state == BREAKER_OPEN ? again_s : -1 });
}

/* End the attempt, and count it as ended in the breaker. */
static void attempt_over(struct net_fetch *f, struct candidate *c)
{
	attempt_drop(c->attempt);
	c->attempt = NULL;
	if (c->waiting)
		breaker_give_waiting(&f->net->breakers, c->server);
	else
		breaker_give(&f->net->breakers, c->server);
	c->waiting = false;
}

static void candidate_report(struct net_fetch *f, struct candidate *c, enum breaker_event event,
			     const char *message)
{
	if (event != BREAKER_ANSWERED || !c->heard)
		breaker_report(&f->net->breakers, c->server, event, message);
	c->heard = event == BREAKER_ANSWERED;
}

/* Another attempt is the winner. */
static void drop_loser(struct net_fetch *f, struct candidate *c, int64_t now_ms)
{
	struct attempt *a = c->attempt;
	bool waited = now_ms - attempt_started_ms(a) >= f->patience.hedge_ms;
	char message[80];

	if (attempt_pos(a) > 0 && attempt_answered(a)) {
		snprintf(message, sizeof(message), "it stalled after %llu bytes; another server continued",
			 (unsigned long long)attempt_pos(a));
		candidate_report(f, c, BREAKER_UNHEARD, message);
	} else if (attempt_answered(a)) {
		snprintf(message, sizeof(message), "another server was first");
		candidate_report(f, c, BREAKER_ANSWERED, message);
	} else {
		snprintf(message, sizeof(message), "%s after %lld ms, when another server answered",
			 attempt_connected(a) ? "no answer" : "no connection",
			 (long long)(now_ms - attempt_started_ms(a)));
		/* One that waits for its packages is not slow. */
		candidate_report(f, c,
				 !waited || c->unread   ? BREAKER_DROPPED
				 : attempt_connected(a) ? BREAKER_OUTRUN
							: BREAKER_UNHEARD,
				 message);
	}
	candidate_note(f, c, 0, false, message);
	attempt_over(f, c);
}

static void candidate_retry(struct net_fetch *f, struct candidate *c, int64_t at_ms)
{
	c->not_before_ms = at_ms;
	if (c->n_tries > f->patience.retries)
		c->over = true;
}

static int64_t candidate_retry_ms(const struct candidate *c)
{
	return RETRY_MS << MIN(c->n_tries ? c->n_tries - 1 : 0, 6u);
}

/* *ret_busy_s: how long the server asks to be left alone; unchanged: it does not. */
static void candidate_refused(struct net_fetch *f, struct candidate *c, int64_t now_ms, int64_t *ret_busy_s)
{
	const struct head *h = attempt_head(c->attempt);
	int64_t wait_s = h->retry_after_s;

	c->missing = (h->status == 404 || h->status == 410) && !h->unread;
	c->failed = !c->missing;
	c->unread = h->unread;
	if (h->unread) {
		c->over = !unread_again(f, c, h, attempt_started_ms(c->attempt), now_ms);
		return;
	}
	if (h->status == 416 && f->have) {
		/* Its file is shorter than the bytes written. */
		c->from_start = true;
		candidate_retry(f, c, now_ms);
		return;
	}
	if (h->status == 429 && wait_s < 0)
		wait_s = BUSY_USUAL_S;
	/* 503 without Retry-After may concern this artifact only: the server of elfutils sends it for
	 * many. */
	if (wait_s > 0 && !h->unreadable && (h->status == 429 || h->status == 503))
		*ret_busy_s = wait_s;
	if (h->status != 429 && (h->status < 500 || h->status == 501))
		c->over = true;
	else if (wait_s * 1000 > f->patience.busy_ms)
		c->over = true;
	else
		candidate_retry(f, c, now_ms + (wait_s >= 0 ? wait_s * 1000 : candidate_retry_ms(c)));
}

static void attempt_failed(struct net_fetch *f, struct candidate *c, const struct fault *fault,
			   int64_t now_ms)
{
	struct attempt *a = c->attempt;
	const struct head *h = attempt_head(a);
	unsigned status = fault->kind == FAULT_KIND_STATUS || fault->kind == FAULT_KIND_LIMIT ? h->status : 0;
	bool answered = attempt_answered(a);
	int64_t busy_s = 0;

	c->failed = true;
	c->unread = false;
	switch (fault->kind) {
	case FAULT_KIND_CONNECT:
		if (fault->os != ETIME && c->n_tries <= f->patience.connect_retries) {
			candidate_report(f, c, BREAKER_DROPPED, fault->text);
			c->not_before_ms = now_ms + RECONNECT_MS;
			break;
		}
		__attribute__((fallthrough));
	case FAULT_KIND_TIMEOUT:
		candidate_report(f, c, fault->os == ECONNREFUSED ? BREAKER_REFUSED : BREAKER_FAILED,
				 fault->text);
		c->over = true;
		break;
	case FAULT_KIND_BROKEN:
		/* One that ignores Range, and ends too early each time, sends much and adds nothing. */
		if (attempt_gained(a) >= GOOD_PROGRESS)
			c->n_tries = 0;
		candidate_retry(f, c, now_ms + candidate_retry_ms(c));
		break;
	case FAULT_KIND_LIE:
		/* Bytes from a server that lies are void. */
		if (f->winner == a)
			fetch_void_bytes(f);
		/* Its file differs from the one begun, but may be used from its beginning if no server
		 * continues that one. */
		if (attempt_differs(a) && !c->from_start) {
			c->from_start = true;
			candidate_retry(f, c, now_ms);
		} else {
			c->over = true;
		}
		break;
	case FAULT_KIND_LIMIT:
		c->too_large = c->over = true;
		c->failed = false;
		break;
	default:
		candidate_refused(f, c, now_ms, &busy_s);
		break;
	}
	if (fault->kind != FAULT_KIND_CONNECT && fault->kind != FAULT_KIND_TIMEOUT && !c->heard)
		breaker_report(&f->net->breakers, c->server, answered ? BREAKER_ANSWERED : BREAKER_DROPPED,
			       fault->text);
	/* After BREAKER_ANSWERED, which resets the state. */
	if (busy_s)
		breaker_busy(&f->net->breakers, c->server, busy_s, fault->text);
	c->heard = false;
	if (!c->unread || c->over)
		breaker_count(&f->net->breakers, c->server, c->missing ? COUNT_MISSING : COUNT_FAILED,
			      attempt_bytes(a));
	if (c->failed && fault->os != ECANCELED)
		f->last_fault = *fault;
	candidate_note(f, c, status, false, fault->text);
	attempt_over(f, c);
}

/* ---- the end ---- */

static void fetch_finish(struct net_fetch *f, int outcome, const struct err *err)
{
	int64_t now_ms = clock_mono_ms();

	for (size_t i = 0; i < f->n_candidates; i++) {
		struct candidate *c = &f->candidates[i];

		if (!c->attempt)
			continue;
		if (outcome == 0 && c->attempt != f->winner) {
			drop_loser(f, c, now_ms);
			continue;
		}
		if (!c->heard)
			breaker_report(&f->net->breakers, c->server,
				       attempt_answered(c->attempt) ? BREAKER_ANSWERED : BREAKER_DROPPED, "");
		attempt_over(f, c);
	}
	unread_over(f);
	atomic_store(&f->ended, true);
	f->sink.done(f->sink.arg, f, outcome, err);
}

static void fetch_fail(struct net_fetch *f, enum err_kind kind, int os, const char *text)
{
	struct err err = { 0 };

	err_set(&err, kind, "%s", text);
	err.os = os;
	fetch_finish(f, -1, &err);
}

/* Every byte is written. true: the fetch has ended. */
static bool fetch_verify(struct net_fetch *f, struct candidate *c)
{
	struct attempt *a = c->attempt;
	struct err err = { 0 };

	if (f->sink.verify && f->sink.verify(f->sink.arg, &err) < 0) {
		c->over = c->failed = true;
		fault_set(&f->last_fault, FAULT_KIND_LIE, err.os ? err.os : EIO, "%s", err.text);
		candidate_report(f, c, BREAKER_ANSWERED, "");
		breaker_count(&f->net->breakers, c->server, COUNT_FAILED, attempt_bytes(a));
		candidate_note(f, c, 0, false, err.text);
		attempt_over(f, c);
		fetch_void_bytes(f);
		return false;
	}
	candidate_report(f, c, BREAKER_ANSWERED, "");
	breaker_count(&f->net->breakers, c->server, COUNT_FOUND, attempt_bytes(a));
	candidate_note(f, c, 200, false, "used");
	fetch_finish(f, 0, NULL);
	return true;
}

static void fetch_conclude(struct net_fetch *f)
{
	bool failed = f->begun || !f->n_candidates, too_large = false;
	AUTO(buf_done) struct buf text = { 0 };

	for (size_t i = 0; i < f->n_candidates; i++) {
		failed |= f->candidates[i].failed;
		too_large |= f->candidates[i].too_large;
	}
	if (!failed) {
		fetch_finish(f, too_large ? NET_TOO_LARGE : NET_MISSING, NULL);
		return;
	}
	for (size_t i = 0; i < f->notes.n; i++)
		buf_printf(&text, "%s%s: %s", i ? "; " : "", f->notes.items[i].server,
			   f->notes.items[i].message);
	fetch_fail(f, ERR_UPSTREAM, f->last_fault.os ? f->last_fault.os : EIO,
		   text.size ? buf_cstr(&text) : "no server is configured");
}

/* ---- which server is asked next ---- */

static void candidate_pass_over(struct net_fetch *f, struct candidate *c)
{
	char message[200], text[240];

	breaker_check(&f->net->breakers, c->server, NULL, message);
	snprintf(text, sizeof(text), "passed over: %s", message);
	c->over = c->failed = true;
	fault_set(&f->last_fault, FAULT_KIND_CONNECT, EHOSTUNREACH, "%s", text);
	candidate_note(f, c, 0, true, text);
}

/* 0: it may be asked now, 1: later, 2: not at all. */
static int candidate_state(struct net_fetch *f, struct candidate *c, int64_t now_ms, bool *ret_slow)
{
	enum breaker_state state;

	if (c->over || c->attempt)
		return 2;
	if (now_ms < c->not_before_ms)
		return 1;
	state = breaker_check(&f->net->breakers, c->server, NULL, NULL);
	if (state == BREAKER_TRYING && !c->waits_since_ms)
		c->waits_since_ms = now_ms;
	if (state == BREAKER_TRYING && now_ms - c->waits_since_ms < 2 * (int64_t)f->patience.connect_ms) {
		c->not_before_ms = now_ms + RECHECK_MS;
		return 1;
	}
	if (state == BREAKER_OPEN || state == BREAKER_TRYING) {
		candidate_pass_over(f, c);
		return 2;
	}
	*ret_slow = state == BREAKER_SLOW;
	return 0;
}

#define N_RANKS 4u

/* Servers not asked yet come first, in order; then slow ones; then those that failed once; then those whose
 * file differs. */
static unsigned candidate_rank(const struct candidate *c, bool slow)
{
	return c->from_start ? 3 : c->n_tries ? 2 : slow ? 1 : 0;
}

/* The hedge is over, and all requests that the server may have are under way: as one that does not answer, it is asked after
 * the others. */
static bool candidate_is_busy(struct net_fetch *f, const struct candidate *c, int64_t now_ms)
{
	return now_ms >= f->last_start_ms + f->patience.hedge_ms && !(f->waits && c->unread) &&
	       breaker_is_full(&f->net->breakers, c->server, f->net->opts.max_per_server);
}

/* NULL: no server now; *ret_later: one may be asked later. */
static struct candidate *fetch_pick(struct net_fetch *f, int64_t now_ms, int64_t *next_ms, bool *ret_later)
{
	struct candidate *best = NULL;
	unsigned best_rank = 2 * N_RANKS;

	*ret_later = false;
	for (size_t i = 0; i < f->n_candidates; i++) {
		struct candidate *c = &f->candidates[i];
		bool slow = false;
		int r = candidate_state(f, c, now_ms, &slow);
		unsigned rank;

		if (r == 1) {
			*next_ms = MIN(*next_ms, c->not_before_ms);
			*ret_later = true;
		}
		if (r != 0)
			continue;
		rank = candidate_rank(c, slow) + (candidate_is_busy(f, c, now_ms) ? N_RANKS : 0);
		if (rank < best_rank) {
			best = c;
			best_rank = rank;
		}
	}
	return best;
}

/* false: not now. */
static bool fetch_ask(struct net_fetch *f, struct candidate *c, int64_t now_ms, int64_t *next_ms)
{
	struct fault fault;

	c->waiting = f->waits && c->unread && breaker_take_waiting(&f->net->breakers, c->server);
	if (!c->waiting && !breaker_take(&f->net->breakers, c->server, f->net->opts.max_per_server)) {
		*next_ms = MIN(*next_ms, now_ms + RECHECK_MS);
		return false;
	}
	c->n_tries++;
	c->n_asked++;
	c->heard = false;
	f->last_start_ms = now_ms;
	if (!f->winner)
		atomic_store(&f->shown_server, breaker_url(c->server));
	if (attempt_start(f, c, now_ms, &fault))
		return true;
	c->over = c->failed = true;
	f->last_fault = fault;
	candidate_note(f, c, 0, false, fault.text);
	breaker_report(&f->net->breakers, c->server, BREAKER_DROPPED, "");
	attempt_over(f, c);
	return true;
}

static unsigned fetch_n_running(const struct net_fetch *f)
{
	unsigned n = 0;

	for (size_t i = 0; i < f->n_candidates; i++)
		n += f->candidates[i].attempt != NULL;
	return n;
}

static bool winner_stalled(struct net_fetch *f, int64_t now_ms, int64_t *next_ms)
{
	int64_t stall_at = attempt_heard_ms(f->winner) + f->patience.stall_ms;

	if (now_ms - f->window_ms >= WINDOW_MS) {
		f->weak = f->window_ms && f->have - f->window_have < WINDOW_MIN;
		f->window_ms = now_ms;
		f->window_have = f->have;
	}
	*next_ms = MIN(*next_ms, f->window_ms + WINDOW_MS);
	if (now_ms < stall_at)
		*next_ms = MIN(*next_ms, stall_at);
	return f->weak || now_ms >= stall_at;
}

/* true: no attempt is running, and none will be started. */
static bool fetch_ask_more(struct net_fetch *f, int64_t now_ms, int64_t *next_ms)
{
	for (;;) {
		unsigned running = fetch_n_running(f);
		int64_t hedge_at = f->last_start_ms + f->patience.hedge_ms;
		struct candidate *c;
		bool maybe_later;

		if (f->winner && !winner_stalled(f, now_ms, next_ms))
			return false;
		/* Beside a stalled winner the first one starts at once; otherwise each waits for the
		 * hedge. */
		if (running > (f->winner ? 1u : 0u) && now_ms < hedge_at) {
			*next_ms = MIN(*next_ms, hedge_at);
			return false;
		}
		c = fetch_pick(f, now_ms, next_ms, &maybe_later);
		if (!c)
			return !running && !maybe_later;
		if (!fetch_ask(f, c, now_ms, next_ms))
			return false;
	}
}

/* ---- a turn ---- */

/* true: the fetch is complete, and done was called. */
static bool attempts_turn(struct net_fetch *f, int64_t now_ms, int64_t *next_ms)
{
	for (size_t i = 0; i < f->n_candidates; i++) {
		struct candidate *c = &f->candidates[i];
		struct fault fault = { 0 };

		if (!c->attempt)
			continue;
		if (!attempt_turn(c->attempt, now_ms, next_ms, &fault)) {
			if (attempt_answered(c->attempt) && attempt_head(c->attempt)->status < 400)
				candidate_report(f, c, BREAKER_ANSWERED, "");
			continue;
		}
		if (f->sink_failed)
			return false;
		if (fault.kind == FAULT_KIND_NONE) {
			if (fetch_verify(f, c))
				return true;
		} else {
			attempt_failed(f, c, &fault, now_ms);
		}
	}
	return false;
}

/*
 * An attempt that lost is paused, and gets no more bytes. If the winner has failed or stalled in the same turn, its
 * server is asked once more, for the rest.
 */
static void drop_losers(struct net_fetch *f, int64_t now_ms)
{
	int64_t never = INT64_MAX;
	bool all = f->winner && !winner_stalled(f, now_ms, &never);

	for (size_t i = 0; i < f->n_candidates; i++) {
		struct attempt *a = f->candidates[i].attempt;

		if (a && a != f->winner && (all || attempt_lost(a)))
			drop_loser(f, &f->candidates[i], now_ms);
	}
}

bool fetch_turn(struct net_fetch *f, int64_t now_ms, int64_t *next_ms)
{
	if (atomic_load(&f->cancel)) {
		fetch_fail(f, ERR_CANCELLED, ECANCELED, "cancelled");
		return false;
	}
	if (f->deadline_ms && now_ms >= f->deadline_ms) {
		fetch_fail(f, ERR_CANCELLED, ETIME, "it was not done in time");
		return false;
	}
	if (f->deadline_ms)
		*next_ms = MIN(*next_ms, f->deadline_ms);
	if (attempts_turn(f, now_ms, next_ms))
		return false;
	if (f->sink_failed) {
		fetch_finish(f, -1, &f->sink_err);
		return false;
	}
	drop_losers(f, now_ms);
	if (fetch_ask_more(f, now_ms, next_ms)) {
		fetch_conclude(f);
		return false;
	}
	return true;
}

static const char *const unasked_text[] = {
	[NET_OTHER_KIND] = "not asked: a server of another kind than debuginfod",
	[NET_WHOLE_ONLY] = "not asked: a server of this kind has debug files and programs only",
	[NET_NEEDS_NAME] = "not asked: its programs are found by their names, and the name is not known",
	[NET_SHORT_ID] = "not asked: too short a build ID for a server of this kind",
};

void fetch_begin(struct net_fetch *f, int64_t now_ms)
{
	for (size_t i = 0; i < f->n_candidates; i++) {
		struct candidate *c = &f->candidates[i];

		if (c->path)
			continue;
		c->over = c->missing = true;
		candidate_note(f, c, 0, true, unasked_text[c->unasked]);
	}
	fetch_void_bytes(f);
	f->last_start_ms = now_ms;
}

void fetch_abort(struct net_fetch *f)
{
	fetch_fail(f, ERR_CANCELLED, ECANCELED, "cancelled");
}
