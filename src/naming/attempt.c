/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One attempt at one binary: can it be named at all, which table does it need, the frames of its addresses;
 * and when to try again.
 */
#include <stdio.h>
#include <stdlib.h>
#include "base/metrics.h"
#include "naming/internal.h"

static const struct metric_family tries_family = {
	"lode_naming_tries_total",
	"Attempts to name the addresses of a binary of profiles, by reason of the outcome.", METRIC_COUNTER,
	"result", NULL
};

int64_t naming_wait_ms(enum frame_reason reason, bool lacking, uint32_t n_tries, int64_t interval_ms)
{
	bool miss = lacking || reason == FRAME_UPSTREAM_404;
	int64_t wait_ms = miss ? NAMING_MISS_FIRST_MS : interval_ms,
		last_ms = miss ? NAMING_MISS_LAST_MS : NAMING_LAST_MS;

	for (uint32_t i = 1; i < n_tries && wait_ms < last_ms; i++)
		wait_ms *= 2;
	return MIN(wait_ms, last_ms);
}

/* ---- beginning ---- */

static void put_never(struct naming *n, const struct profilestore_binary *b, enum frame_reason reason,
		      const char *why)
{
	struct profilestore_tried t = { .binary = b->id,
					.state = NAMING_NEVER,
					.reason = reason,
					.why = str_of(why),
					.n_wakes = b->n_wakes };

	metric_count(&tries_family, frame_reason_name(reason));
	naming_batch_tried(&n->batch, &t);
}

/* The build ID whose table is needed. false: the binary cannot be named, whatever turns up; that was put. */
static bool identify_binary(struct naming *n, const struct profilestore_binary *b, struct build_id *ret,
			    bool *ret_by_path)
{
	char why[512];

	*ret_by_path = false;
	if (b->build_id.size) {
		if (build_id_parse(ret, b->build_id))
			return true;
		put_never(n, b, FRAME_NO_BUILD_ID, "its build ID has a form that no file can be found by");
		return false;
	}
	if (!b->id) {
		put_never(n, b, FRAME_NO_MAPPING, "");
		return false;
	}
	if (profile_is_no_file(b->file)) {
		put_never(n, b, FRAME_NO_BUILD_ID,
			  "it has no file: code generated at run time, or the kernel's");
		return false;
	}
	*ret_by_path = true;
	if (match_file(n->opts.resolver, b->file, ret, why, sizeof(why)) == 0)
		return true;
	put_never(n, b, FRAME_NO_BUILD_ID, why);
	return false;
}

/* From any thread, once, perhaps before naming_attempt_start() returns. */
static void on_table_ready(void *arg)
{
	struct naming_attempt *t = arg;
	struct naming *n = t->n;

	pthread_mutex_lock(&n->lock);
	t->next = n->ready;
	n->ready = t;
	pthread_cond_signal(&n->changed);
	pthread_mutex_unlock(&n->lock);
}

void naming_attempt_start(struct naming *n, const struct profilestore_binary *b)
{
	struct build_id id;
	struct naming_attempt *t;
	bool by_path;

	atomic_fetch_add(&n->n_tries, 1);
	if (!identify_binary(n, b, &id, &by_path))
		return;
	t = NEW(struct naming_attempt);
	*t = (struct naming_attempt){ .n = n,
				      .binary = b->id,
				      .n_tries = b->n_tries,
				      .n_wakes = b->n_wakes,
				      .reason = b->reason,
				      .id = id,
				      .by_path = by_path,
				      .from_ms = clock_mono_ms() };
	map_put(&n->attempts, bytes_of(&t->binary, sizeof(t->binary)), t);
	atomic_fetch_add(&n->n_running, 1);
	if (tables_request_new(n->opts.tables, &t->id, 1, TABLES_LAYOUTS | TABLES_FRESH,
			       (struct tables_wait){ t->from_ms + n->opts.wait_ms, on_table_ready, t },
			       &t->request) != TABLES_WAITS)
		on_table_ready(t);
}

void naming_attempt_free(struct naming_attempt *t)
{
	map_del(&t->n->attempts, bytes_of(&t->binary, sizeof(t->binary)));
	atomic_fetch_sub(&t->n->n_running, 1);
	tables_request_free(t->request);
	free(t);
}

/* ---- asking ---- */

struct location_answers {
	struct naming_batch *batch;
	const struct profilestore_unnamed *list;
	enum frame_reason reason; /* of the first location without a name */
	enum frame_reason broken; /* the table cannot be asked further */
};

static void on_location_answer(void *arg, size_t i, const struct tables_answer *a)
{
	struct location_answers *x = arg;

	/* These reasons are about the table, not about the address, which stays wanted. */
	if (a->reason == FRAME_DAMAGED || frame_reason_passes(a->reason)) {
		x->broken = a->reason;
		return;
	}
	if (!a->frames && x->reason == FRAME_FOUND)
		x->reason = a->reason;
	naming_batch_name(x->batch, x->list[i].location, a);
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

static void put_outcome(struct naming_attempt *t, struct profilestore_tried *o, bool failed)
{
	struct naming *n = t->n;

	o->binary = t->binary;
	o->n_wakes = t->n_wakes;
	if (failed)
		atomic_fetch_add(&n->n_failed, 1);
	metric_count(&tries_family, frame_reason_name(o->reason));
	naming_batch_tried(&n->batch, o);
}

static void put_failure(struct naming_attempt *t, enum frame_reason reason, const char *why)
{
	struct profilestore_tried o = {
		.state = NAMING_WANTED, .reason = reason, .why = str_of(why), .n_tries = t->n_tries
	};

	/* A table that is being built is not a failure. */
	if (reason == FRAME_PENDING || reason == FRAME_BUSY) {
		o.next_try_ms = clock_wall_ms() + FRAME_RETRY_MS;
	} else {
		o.n_tries++;
		o.next_try_ms = clock_wall_ms() +
				naming_wait_ms(reason, false, o.n_tries, t->n->opts.interval_ms);
	}
	put_outcome(t, &o, o.n_tries != t->n_tries);
}

static void put_named(struct naming_attempt *t, const struct tables_module *m, enum frame_reason reason)
{
	struct profilestore_tried o = { .state = NAMING_DONE, .reason = reason, .origin = str_of(m->origin) };

	/* Locations that were looked up before had a reason. */
	if (!reason &&
	    (t->reason == FRAME_OUTSIDE || t->reason == FRAME_NO_LAYOUT || t->reason == FRAME_NO_MAPPING))
		o.reason = t->reason;
	if (t->by_path)
		o.why = STR("it came without a build ID, and is taken to be the only file of that path that "
			    "is known here");
	if (m->lacking) {
		o.state = NAMING_WANTED;
		o.n_tries = m->due ? t->n_tries : t->n_tries + 1;
		o.next_try_ms = m->due ? 0
				       : clock_wall_ms() + naming_wait_ms(FRAME_FOUND, true, o.n_tries,
									  t->n->opts.interval_ms);
	}
	put_outcome(t, &o, false);
}

/* The key of the table: equal only for the same table, used with the same layout. */
static uint32_t set_named_by(struct naming_attempt *t, const struct tables_module *m)
{
	char text[64];
	int layout = m->layout ? 1 + m->layout->offsets_known : 0;

	snprintf(text, sizeof(text), "%d.%016llx.%d", SYMTAB_VERSION, (unsigned long long)m->info->hash,
		 layout);
	return profilestore_named_by(t->n->opts.store, t->binary, str_of(text));
}

static bool is_other_file(struct naming_attempt *t, const struct tables_module *m, size_t n)
{
	return t->by_path &&
	       (!m->layout || !m->layout->offsets_known || !match_holds(m->layout, t->n->unnamed, n));
}

static void attempt_name_all(struct naming_attempt *t, const struct tables_module *m)
{
	struct naming *n = t->n;
	struct location_answers x = { .batch = &n->batch };
	size_t room, got;

	set_named_by(t, m);
	do {
		if (!naming_batch_room(&n->batch) && !naming_batch_flush(&n->batch))
			return;
		room = naming_batch_room(&n->batch);
		got = profilestore_unnamed(n->opts.store, t->binary, n->unnamed, room);
		if (is_other_file(t, m, got)) {
			struct profilestore_tried o = { .state = NAMING_NEVER,
							.reason = FRAME_NO_BUILD_ID,
							.why = STR(
								"it came without a build ID, and the file of "
								"that path that is known here is another") };

			put_outcome(t, &o, true);
			return;
		}
		query_locations(t, m, got, &x);
		/* Locations that were put stay wanted until they are written. */
		if (got == room && !naming_batch_flush(&n->batch))
			return;
	} while (got == room && !x.broken);
	if (x.broken)
		put_failure(t, x.broken, "");
	else
		put_named(t, m, x.reason);
}

void naming_attempt_end(struct naming_attempt *t)
{
	struct tables_module m;

	tables_request_module(t->request, 0, &m);
	if (m.reason == FRAME_FOUND)
		attempt_name_all(t, &m);
	else
		put_failure(t, m.reason, m.why);
}
