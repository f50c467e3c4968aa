/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One attempt at one binary, a look or a try: can it be named at all, which table does it need, the frames of
 * its addresses; and when to try again.
 */
#include <stdio.h>
#include <stdlib.h>
#include "base/metrics.h"
#include "naming/internal.h"

#define REFUSED_PART 16 /* of a batch may be refused memory, and the attempt goes on */

static const struct metric_family tries_family = {
	"lode_naming_tries_total",
	"Attempts to name the addresses of a binary of profiles, by reason of the outcome.", METRIC_COUNTER,
	"result", NULL
};

int64_t naming_wait_ms(enum frame_reason reason, bool lacking, uint32_t n_tries, int64_t interval_ms)
{
	bool miss = lacking || reason == FRAME_UPSTREAM_404;

	return clock_backoff(miss ? NAMING_MISS_FIRST_MS : interval_ms, n_tries ? n_tries - 1 : 0,
			     miss ? NAMING_MISS_LAST_MS : NAMING_LAST_MS);
}

/* ---- beginning ---- */

static void put_wanted(struct naming *n, struct profilestore_tried *o, enum frame_reason reason,
		       const char *why, int64_t wait_ms)
{
	o->state = NAMING_WANTED;
	o->reason = reason;
	o->why = str_of(why);
	o->at_ms = clock_wall_ms();
	o->next_try_ms = o->at_ms + wait_ms;
	metric_count(&tries_family, frame_reason_name(reason));
	naming_batch_tried(&n->batch, o);
}

/* The next try is after @last_ms at most. */
static void put_failure(struct naming *n, struct profilestore_tried *o, enum frame_reason reason,
			const char *why, int64_t last_ms)
{
	int64_t wait_ms;

	/* A table that is being built is not a failure. */
	if (reason == FRAME_PENDING || reason == FRAME_BUSY) {
		put_wanted(n, o, reason, why, FRAME_RETRY_MS);
		return;
	}
	wait_ms = naming_wait_ms(reason, false, ++o->n_tries, n->opts.interval_ms);
	atomic_fetch_add(&n->n_failed, 1);
	put_wanted(n, o, reason, why, MIN(wait_ms, last_ms));
}

/* It cannot be named, and is not tried again. */
static void put_never(struct naming *n, struct profilestore_tried *o, enum frame_reason reason,
		      struct str why)
{
	o->state = NAMING_NEVER;
	o->n_tries = 0;
	o->reason = reason;
	o->why = why;
	metric_count(&tries_family, frame_reason_name(reason));
	naming_batch_tried(&n->batch, o);
}

/* What can be known of a binary before its table is. */
enum identity { IDENTITY_KNOWN, IDENTITY_NEVER, IDENTITY_LATER };

/* The build ID whose table is needed, or why there is none: then the binary cannot be named, or not now. */
static enum identity identify_binary(struct naming *n, const struct profilestore_binary *b,
				     struct build_id *ret, enum frame_reason *ret_reason, char *why,
				     size_t why_size)
{
	why[0] = 0;
	*ret_reason = FRAME_NO_BUILD_ID;
	if (b->build_id.size) {
		if (build_id_read(ret, b->build_id))
			return IDENTITY_KNOWN;
		snprintf(why, why_size, "its build ID has a form that no file can be found by");
		return IDENTITY_NEVER;
	}
	if (!b->id) {
		*ret_reason = FRAME_NO_MAPPING;
		return IDENTITY_NEVER;
	}
	if (profile_is_no_file(b->file)) {
		snprintf(why, why_size,
			 "its name is not the path of a file: code generated at run time, the kernel's, or a "
			 "file "
			 "without its folder");
		return IDENTITY_NEVER;
	}
	switch (match_file(n->opts.resolver, b->file, b->origin.size, ret, why, why_size)) {
	case 0:
		return IDENTITY_KNOWN;
	case MATCH_NONE:
		return IDENTITY_NEVER;
	default:
		return IDENTITY_LATER;
	}
}

static struct profilestore_tried outcome_of(const struct profilestore_binary *b)
{
	return (struct profilestore_tried){
		.binary = b->id, .n_tries = b->n_tries, .n_wakes = b->n_wakes, .n_added = b->n_added
	};
}

static struct naming_attempt *attempt_new(struct naming *n, const struct profilestore_binary *b,
					  const struct build_id *id, bool is_look)
{
	struct naming_attempt *t = NEW(struct naming_attempt);

	*t = (struct naming_attempt){ .n = n,
				      .key = { b->id, is_look },
				      .n_tries = b->n_tries,
				      .n_wakes = b->n_wakes,
				      .n_added = b->n_added,
				      .reason = b->reason,
				      .refused_ms = b->reason == FRAME_BUSY ? b->next_try_ms - b->last_try_ms
									    : 0,
				      .id = *id,
				      .by_path = !b->build_id.size,
				      .from_ms = clock_mono_ms() };
	map_put(&n->attempts, bytes_of(&t->key, sizeof(t->key)), t);
	if (is_look)
		n->n_looks++;
	else
		atomic_fetch_add(&n->n_running, 1);
	return t;
}

void naming_attempt_free(struct naming_attempt *t)
{
	map_del(&t->n->attempts, bytes_of(&t->key, sizeof(t->key)));
	if (t->key.is_look)
		t->n->n_looks--;
	else
		atomic_fetch_sub(&t->n->n_running, 1);
	tables_request_free(t->request);
	free(t);
}

struct naming_attempt *naming_attempt_of(struct naming *n, uint32_t binary, bool is_look)
{
	const struct naming_attempt_key key = { binary, is_look };

	return map_get(&n->attempts, bytes_of(&key, sizeof(key)));
}

/* From any thread, once, perhaps before naming_try_start() returns. */
static void on_table_ready(void *arg)
{
	struct naming_attempt *t = arg;

	naming_queue(t->n, t);
}

void naming_try_start(struct naming *n, const struct profilestore_binary *b)
{
	struct profilestore_tried o = outcome_of(b);
	enum frame_reason reason;
	struct naming_attempt *t;
	struct build_id id;
	char why[512];

	atomic_fetch_add(&n->n_tries, 1);
	switch (identify_binary(n, b, &id, &reason, why, sizeof(why))) {
	case IDENTITY_KNOWN:
		break;
	case IDENTITY_NEVER:
		put_never(n, &o, reason, str_of(why));
		return;
	case IDENTITY_LATER:
		put_failure(n, &o, reason, why, NAMING_LATER_MS);
		return;
	}
	resolve_name_hint(n->opts.resolver, &id, b->file, RESOLVE_BY_SENDER);
	t = attempt_new(n, b, &id, false);
	if (tables_request_new(n->opts.tables, &t->id, 1, TABLES_LAYOUTS | TABLES_FRESH | TABLES_EARLY,
			       (struct tables_wait){ t->from_ms + n->opts.wait_ms, on_table_ready, t },
			       &t->request) != TABLES_WAITS)
		on_table_ready(t);
}

/* These reasons are about one address: there was a table. */
static bool is_of_address(enum frame_reason reason)
{
	return reason == FRAME_FOUND || reason == FRAME_NO_MAPPING || reason == FRAME_NO_LAYOUT ||
	       reason == FRAME_OUTSIDE || reason == FRAME_NO_DEBUG_INFO || reason == FRAME_ALT_MISSING ||
	       reason == FRAME_SPLIT_MISSING;
}

/*
 * A look cannot name: there is no table at hand, or another than the one that names the binary. If there was one
 * after the last try, it has to be found again; else there is nothing to be done before the next try.
 */
static void look_fails(struct naming *n, const struct profilestore_binary *b)
{
	int64_t next_ms = profilestore_looked(n->opts.store, b->id, b->n_added,
					      is_of_address((enum frame_reason)b->reason));

	if (next_ms != INT64_MAX)
		n->next_round_ms = MIN(n->next_round_ms, clock_mono_ms() + (next_ms - clock_wall_ms()));
}

void naming_look_start(struct naming *n, const struct profilestore_binary *b)
{
	enum frame_reason ignored;
	struct naming_attempt *t;
	struct tables_module m;
	struct build_id id;
	char why[512];

	if (identify_binary(n, b, &id, &ignored, why, sizeof(why)) != IDENTITY_KNOWN) {
		look_fails(n, b);
		return;
	}
	t = attempt_new(n, b, &id, true);
	tables_request_new(n->opts.tables, &t->id, 1, TABLES_LAYOUTS | TABLES_AT_HAND,
			   (struct tables_wait){ 0 }, &t->request);
	tables_request_module(t->request, 0, &m);
	if (m.reason == FRAME_FOUND && m.layout_known) {
		naming_queue(n, t);
		return;
	}
	naming_attempt_free(t);
	look_fails(n, b);
}

/* ---- asking ---- */

struct location_answers {
	struct naming_batch *batch;
	const struct profilestore_unnamed *list;
	enum frame_reason reason; /* of the first location without a name */
	enum frame_reason lacks;  /* of the first with a name, but not with all names or calls */
	enum frame_reason broken; /* the table cannot be asked further */
	enum frame_reason no_debug;
	size_t n_put;
};

static void on_location_answer(void *arg, size_t i, const struct tables_answer *a)
{
	struct location_answers *x = arg;

	/* These reasons are about the table, not about the address, which stays wanted; unless it is the debug file that
	 * is missing for one of them. */
	if (a->reason != x->no_debug && (a->reason == FRAME_DAMAGED || frame_reason_passes(a->reason))) {
		x->broken = a->reason;
		return;
	}
	if (!a->frames && x->reason == FRAME_FOUND)
		x->reason = a->reason;
	if (a->frames && x->lacks == FRAME_FOUND)
		x->lacks = a->reason;
	/* An address may have thousands of calls with long names: the names before it are written first. */
	if (!naming_batch_room(x->batch))
		naming_batch_flush(x->batch);
	naming_batch_name(x->batch, x->list[i].location, a);
	x->n_put++;
}

static void make_query(const struct profilestore_unnamed *u, const struct tables_module *m,
		       struct frame_mapping *map, struct tables_query *ret)
{
	*ret = (struct tables_query){ .kind = u->kind, .addr = u->addr };
	switch ((enum frame_address_kind)u->kind) {
	case FRAME_OFFSET:
		if (m->info->flags & SYMTAB_RELOCATABLE) {
			ret->kind = FRAME_SECTION;
			ret->addr = u->addr - u->mapping_offset;
		} else if (!m->layout || !m->layout->offsets_known) {
			/*
			 * As if it were mapped at its file offset: for a debug file nothing better is known.
			 */
			*map = (struct frame_mapping){ .start = u->mapping_offset,
						       .offset = u->mapping_offset };
			ret->kind = FRAME_RUNTIME;
			ret->maps = map;
			ret->n_maps = 1;
		}
		break;
	case FRAME_RUNTIME:
		if (!u->symbol.size)
			break; /* of no known mapping */
		*map = (struct frame_mapping){ .symbol = u->symbol };
		ret->maps = map;
		ret->n_maps = 1;
		break;
	case FRAME_VADDR:
	case FRAME_SECTION:
	case FRAME_RELATIVE:
		break;
	}
}

static void query_locations(struct naming_attempt *t, const struct tables_module *m, size_t n_list,
			    struct location_answers *x)
{
	struct naming *n = t->n;

	for (size_t i = 0; i < n_list; i++)
		make_query(&n->unnamed[i], m, &n->maps[i], &n->queries[i]);
	x->list = n->unnamed;
	tables_find_all(t->request, n->queries, n_list, on_location_answer, x);
}

/* ---- outcomes ---- */

static struct profilestore_tried outcome_of_attempt(const struct naming_attempt *t)
{
	return (struct profilestore_tried){ .binary = t->key.binary,
					    .n_tries = t->n_tries,
					    .n_wakes = t->n_wakes,
					    .n_added = t->n_added,
					    .is_look = t->key.is_look };
}

static void naming_look_failed(struct naming_attempt *t)
{
	profilestore_looked(t->n->opts.store, t->key.binary, t->n_added, is_of_address(t->reason));
}

static void naming_attempt_failed(struct naming_attempt *t, enum frame_reason reason, const char *why)
{
	struct profilestore_tried o = outcome_of_attempt(t);

	if (t->key.is_look)
		naming_look_failed(t);
	else
		put_failure(t->n, &o, reason, why, INT64_MAX);
}

/*
 * There is a table, but not the memory that an address needs of it. There may never be, in a file that was made to need
 * much; so each wait is twice the one before. It is not counted as a failure: the binary may have failed many times before
 * its file arrived, or be without a debug file for days, and memory is mostly back in a second.
 */
static void naming_attempt_refused(struct naming_attempt *t)
{
	struct profilestore_tried o = outcome_of_attempt(t);

	if (t->key.is_look) {
		naming_look_failed(t);
		return;
	}
	/* It is shown as a binary that was tried. */
	o.n_tries = MAX(o.n_tries, 1u);
	put_wanted(t->n, &o, FRAME_BUSY, "",
		   MAX(2 * MIN(t->refused_ms, (int64_t)NAMING_LAST_MS / 2), (int64_t)FRAME_RETRY_MS));
}

/* Locations that were looked up in this table before had a reason, which may be another by now. */
static enum frame_reason reason_before(const struct naming_attempt *t, const struct tables_module *m)
{
	switch (t->reason) {
	case FRAME_OUTSIDE:
	case FRAME_NO_LAYOUT:
	case FRAME_NO_MAPPING:
		return t->reason;
	case FRAME_NO_DEBUG_INFO:
	case FRAME_UPSTREAM_FAILED:
	case FRAME_TIMED_OUT:
	case FRAME_NOT_ELF:
	case FRAME_DAMAGED:
		if (frame_reason_is_damaged(m->info))
			return FRAME_DAMAGED;
		return frame_reason_hides_debug(m->no_debug) ? m->no_debug : FRAME_NO_DEBUG_INFO;
	case FRAME_ALT_MISSING:
		return m->info->flags & SYMTAB_ALT_MISSING ? t->reason : FRAME_FOUND;
	case FRAME_SPLIT_MISSING:
		return m->info->flags & SYMTAB_SPLIT_MISSING ? t->reason : FRAME_FOUND;
	default:
		return FRAME_FOUND;
	}
}

static enum frame_reason reason_now(const struct naming_attempt *t, const struct tables_module *m)
{
	enum frame_reason r = t->unnamed ? t->unnamed : reason_before(t, m);

	return r ? r : t->lacks;
}

static void put_named(struct naming_attempt *t, const struct tables_module *m)
{
	struct naming_attempt *other = naming_attempt_of(t->n, t->key.binary, !t->key.is_look);
	struct profilestore_tried o = outcome_of_attempt(t);
	char missing[300];

	o.state = NAMING_DONE;
	o.reason = reason_now(t, m);
	/* It began before these locations were asked for, and will find none of them wanted. */
	if (other)
		other->reason = o.reason;
	o.origin = str_of(m->origin);
	if (t->by_path)
		o.why = STR("it came without a build ID, and is taken to be the only file of that path that "
			    "is known here");
	/* Its table says what of the file could not be read. */
	if (o.reason == FRAME_DAMAGED && m->info && m->info->n_reasons)
		o.why = m->info->skipped[0];
	if (m->missing[0] && (o.reason == FRAME_ALT_MISSING || o.reason == FRAME_SPLIT_MISSING)) {
		snprintf(missing, sizeof(missing), "missing: %s", m->missing);
		o.why = str_of(missing);
	}
	o.n_tries = 0;
	if (m->lacking) {
		o.state = NAMING_WANTED;
		o.n_tries = m->due ? t->n_tries : t->n_tries + 1;
		o.next_try_ms = m->due ? 0
				       : clock_wall_ms() +
						 naming_wait_ms(m->no_debug,
								!frame_reason_hides_debug(m->no_debug),
								o.n_tries, t->n->opts.interval_ms);
	}
	/* A look does not search, and there may be a better layout by now. */
	if (t->key.is_look && m->layout_due)
		o.state = NAMING_WANTED;
	if (!t->key.is_look)
		metric_count(&tries_family, frame_reason_name(o.reason));
	naming_batch_tried(&t->n->batch, &o);
}

/* The key of the table: equal only for the same table, used with the same layout. */
static struct str key_of_table(const struct tables_module *m, char text[64])
{
	int layout = !m->layout ? 0 : m->layout->by_sections ? 3 : 1 + m->layout->offsets_known;

	snprintf(text, 64, "%d.%016llx.%d", SYMTAB_VERSION, (unsigned long long)m->info->hash, layout);
	return str_of(text);
}

static bool is_other_file(struct naming_attempt *t, const struct tables_module *m, size_t n)
{
	return t->by_path &&
	       (!m->layout || !m->layout->offsets_known || !match_holds(m->layout, t->n->unnamed, n));
}

static void put_other_file(struct naming_attempt *t)
{
	struct profilestore_tried o = outcome_of_attempt(t);

	o.is_look = false;
	atomic_fetch_add(&t->n->n_failed, 1);
	put_never(t->n, &o, FRAME_NO_BUILD_ID,
		  STR("it came without a build ID, and the file of that path that is known here is another"));
}

/*
 * Room in the batch for names of @t; 0: the batch cannot be written. Locations stay wanted until they are
 * written, so the other attempt at the same binary must not have names in the batch.
 */
static size_t room_for_names(struct naming_attempt *t)
{
	struct naming_batch *p = &t->n->batch;
	const struct naming_attempt *other = naming_attempt_of(t->n, t->key.binary, !t->key.is_look);

	if (!naming_batch_room(p) || t->refused || (other && other->put_at == p->n_flushes + 1))
		naming_batch_flush(p);
	return p->failed ? 0 : naming_batch_room(p);
}

/*
 * Refused addresses stay wanted, and come first in the next batch. If there are more than these, go on as long as a batch
 * answers nearly all of its addresses; and once more if this one had not all the room.
 */
static bool goes_past_refused(struct naming_attempt *t, const struct location_answers *x, size_t got,
			      size_t room)
{
	bool is_first = !t->refused;

	t->refused = true;
	return got == room && (x->n_put >= got - got / REFUSED_PART || (is_first && room < NAMING_BATCH));
}

/* The table is there: see naming_attempt_step(). */
static bool name_some(struct naming_attempt *t, const struct tables_module *m)
{
	struct naming *n = t->n;
	struct location_answers x = { .batch = &n->batch,
				      .reason = t->unnamed,
				      .lacks = t->lacks,
				      .no_debug = frame_reason_is_damaged(m->info) ? FRAME_DAMAGED
										   : m->no_debug };
	size_t room = room_for_names(t), got;

	if (!room)
		return true;
	got = profilestore_unnamed(n->opts.store, t->key.binary, n->unnamed, room);
	if (is_other_file(t, m, got)) {
		put_other_file(t);
		return true;
	}
	query_locations(t, m, got, &x);
	t->unnamed = x.reason;
	t->lacks = x.lacks;
	t->put_at = n->batch.n_flushes + 1;
	if (got == room)
		naming_batch_flush(&n->batch);
	if (n->batch.failed)
		return true;
	if (x.broken == FRAME_BUSY && goes_past_refused(t, &x, got, room))
		return false;
	if (x.broken == FRAME_BUSY)
		naming_attempt_refused(t);
	else if (x.broken)
		naming_attempt_failed(t, x.broken, "");
	else if (got == room)
		return false;
	else
		put_named(t, m);
	return true;
}

bool naming_attempt_step(struct naming_attempt *t)
{
	struct profilestore *store = t->n->opts.store;
	struct tables_module m;
	struct str key;
	char text[64];

	tables_request_module(t->request, 0, &m);
	if (m.reason != FRAME_FOUND) {
		naming_attempt_failed(t, m.reason, m.why);
		return true;
	}
	/* Without it addresses would be looked up as if there were none, and once more when it is there. */
	if (!m.layout_known) {
		naming_attempt_failed(t, FRAME_PENDING, "");
		return true;
	}
	key = key_of_table(&m, text);
	/* Only a try may replace the table: it has the best that there is now. */
	if (t->key.is_look && profilestore_named_by_other(store, t->key.binary, key)) {
		naming_attempt_failed(t, FRAME_PENDING, "");
		return true;
	}
	profilestore_named_by(store, t->key.binary, key);
	return name_some(t, &m);
}
