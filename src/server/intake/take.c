/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Received profiles: parsed, passed to the store, and acknowledged when all of the request are on disk.
 *
 * The thread of the store reports each. The last report, or the worker that passed the last profile, makes
 * the reply.
 */
#include "profile/input.h"
#include "profilestore/type.h"
#include "server/intake/intake.h"

#include <stdlib.h>
#include "base/vec.h"

#define MAX_MEMORY ((uint64_t)512 << 20) /* of one profile */

struct take {
	struct api *a;
	struct profile **profiles;
	size_t n, room;
	struct profilestore_batch batch;
	struct str *wanted; /* of POST /profiles: build IDs; set before take_end() */
	size_t n_wanted;
	pthread_mutex_t lock;
	/* under the lock */
	size_t n_open; /* profiles without a report, and 1 until take_end() */
	bool failed,
		store_failed; /* the store's failure is the one that is reported: the client sends it again */
	struct err err;
	struct profilestore_receipt sum;
	void (*answer)(struct api *a, const struct profilestore_receipt *r);
};

static void take_free(struct take *t)
{
	for (size_t i = 0; i < t->n; i++)
		profile_free(t->profiles[i]);
	free(t->profiles);
	profilestore_batch_done(&t->batch);
	pthread_mutex_destroy(&t->lock);
}

static struct take *take_of(struct api *a)
{
	if (!a->take) {
		a->take = ARENA_NEW(a->arena, struct take);
		a->take->a = a;
		a->take->n_open = 1;
		a->take->sum.duplicate = true;
		a->take_free = take_free;
		pthread_mutex_init(&a->take->lock, NULL);
	}
	return a->take;
}

/* ---- reading ---- */

struct profile_limits take_limits_of(struct budget_hold *memory)
{
	return (struct profile_limits){ .max_size = API_MAX_DECODED,
					.max_memory = MAX_MEMORY,
					.memory = memory };
}

struct profile_limits take_limits(struct api *a)
{
	struct profile_limits limits = take_limits_of(&a->memory);

	if (a->form)
		limits.max_size = a->form->max_profile(a);
	return limits;
}

static int take_format(struct bytes in, struct str format, enum profile_format *ret, struct err *err)
{
	*ret = PROFILE_FORMAT_AUTO;
	if (format.size && !profile_format_parse(format, ret))
		return err_set(err, ERR_INVALID, "'format' is not a known format of profiles");
	return in.size ? 0 : err_set(err, ERR_INVALID, "the profile is empty");
}

int take_read(struct api *a, struct bytes in, struct str format, struct profile **ret, struct err *err)
{
	const struct profile_limits limits = take_limits(a);
	enum profile_format f;

	if (take_format(in, format, &f, err) < 0)
		return -1;
	return profile_read(in, f, &limits, ret, err) < 0 ? err_in(err, "the profile") : 0;
}

/* A failure of the store has its own place. */
struct each_profile {
	struct profile_sink sink;
	bool failed;
};

static int take_each_one(void *arg, struct profile *p, struct str name, struct err *err)
{
	struct each_profile *e = arg;
	int r = e->sink.fn(e->sink.arg, p, name, err);

	e->failed = r < 0;
	return r;
}

int take_read_each(struct api *a, struct bytes in, struct str format, const struct jfr_options *jfr,
		   struct profile_sink sink, struct err *err)
{
	const struct profile_limits limits = take_limits(a);
	struct each_profile e = { .sink = sink };
	enum profile_format f;

	if (take_format(in, format, &f, err) < 0)
		return -1;
	if (profile_read_each(in, f, &limits, jfr, (struct profile_sink){ take_each_one, &e }, err) == 0)
		return 0;
	return e.failed ? -1 : err_in(err, "the profile");
}

/* ---- giving ---- */

/* Some labels are not as they were sent. */
static void take_note(struct take *t)
{
	AUTO(buf_done) struct buf b = { 0 };

	if (!t->sum.n_mended && !t->sum.n_dropped)
		return;
	buf_printf(&b, "labels mended: %u, dropped: %u", t->sum.n_mended, t->sum.n_dropped);
	t->a->note = arena_strdup(t->a->arena, buf_str(&b));
}

static void take_finish(struct take *t)
{
	struct api *a = t->a;

	if (t->failed) {
		api_end(a, &t->err);
		return;
	}
	t->answer(a, &t->sum);
	take_note(t);
	api_end(a, NULL);
}

/* One less is open; the last one ends the request, which is gone then. */
static void take_release(struct take *t)
{
	bool last;

	pthread_mutex_lock(&t->lock);
	last = --t->n_open == 0;
	pthread_mutex_unlock(&t->lock);
	if (last)
		take_finish(t);
}

static void take_stored(void *arg, const struct profilestore_receipt *r, const struct err *err)
{
	struct take *t = arg;

	pthread_mutex_lock(&t->lock);
	/* Of several failures one that passes is reported: the client sends all again, and none is stored twice. */
	if (err && (!t->store_failed || (t->a->status < 500 && api_status_of_store(err) >= 500))) {
		t->failed = t->store_failed = true;
		t->err = *err;
		t->a->status = api_status_of_store(err);
	}
	if (!err) {
		t->sum.n_profiles += r->n_profiles;
		t->sum.n_samples += r->n_samples;
		t->sum.duplicate &= r->duplicate;
		t->sum.n_mended += r->n_mended;
		t->sum.n_dropped += r->n_dropped;
		if (!t->sum.first_id)
			t->sum.first_id = r->first_id;
	}
	pthread_mutex_unlock(&t->lock);
	take_release(t);
}

static int take_give(struct take *t, struct profilestore_upload *u, struct err *err)
{
	struct api *a = t->a;

	u->sender = str_of(a->req->token);
	u->batch = &t->batch;
	pthread_mutex_lock(&t->lock);
	t->n_open++;
	pthread_mutex_unlock(&t->lock);
	if (profilestore_add(a->store, u, take_stored, t, err) == 0)
		return 0;
	pthread_mutex_lock(&t->lock);
	t->n_open--;
	pthread_mutex_unlock(&t->lock);
	return err_in(err, "the profile");
}

int take_profile(struct api *a, struct profile *p, const struct profilestore_label *labels, size_t n_labels,
		 struct err *err)
{
	struct profilestore_upload u = { .p = p, .labels = labels, .n_labels = n_labels };
	struct take *t = take_of(a);

	VEC_PUSH(t->profiles, t->n, t->room) = p;
	return take_give(t, &u, err);
}

static struct str name_by_types(const struct profile *p, struct arena *a)
{
	struct str *types = ARENA_NEW_N(a, struct str, p->types.n + 1);

	for (uint32_t i = 0; i < p->types.n; i++)
		types[i] = profile_str(p, p->types.p[i].type);
	return type_name_of(types, p->types.n, profile_str(p, p->period_type.type));
}

struct profilestore_upload take_upload(const struct profile *p, const struct profilestore_label *labels,
				       size_t n_labels, struct take_how how, struct arena *a)
{
	struct profilestore_label *kept = ARENA_NEW_N(a, struct profilestore_label, n_labels + 1);
	struct profilestore_upload u = {
		.p = p, .labels = kept, .mends_labels = true, .no_delta = how.pyroscope
	};

	for (size_t i = 0; i < n_labels; i++)
		if (!str_starts(labels[i].name, STR("__")) || str_eq(labels[i].name, STR("__name__")))
			kept[u.n_labels++] = labels[i];
	if (how.pyroscope)
		u.name = how.name.size ? how.name : name_by_types(p, a);
	return u;
}

int take_foreign(struct api *a, struct profile *p, const struct profilestore_label *labels, size_t n_labels,
		 struct take_how how, struct err *err)
{
	struct profilestore_upload u = take_upload(p, labels, n_labels, how, a->arena);
	struct take *t = take_of(a);

	VEC_PUSH(t->profiles, t->n, t->room) = p;
	return take_give(t, &u, err);
}

int take_end(struct api *a, int r, void (*answer)(struct api *a, const struct profilestore_receipt *r),
	     struct err *err)
{
	struct take *t = take_of(a);

	/* The body is not needed any more; free it for other requests. */
	body_drop(a->req);
	if (a->form)
		a->form->drop(a);
	pthread_mutex_lock(&t->lock);
	t->answer = answer;
	if (r < 0 && !t->store_failed) {
		t->failed = true;
		t->err = *err;
	}
	pthread_mutex_unlock(&t->lock);
	take_release(t);
	return API_GOES_ON;
}

/* ---- POST /profiles ---- */

static void answer_profiles(struct api *a, const struct profilestore_receipt *r)
{
	struct json_writer *w = &a->json;

	json_open_object(w, NULL);
	json_put_int(w, "profiles", r->n_profiles);
	json_put_uint(w, "samples", r->n_samples);
	json_put_int(w, "id", r->first_id);
	/* A recording may have no samples. */
	json_put_bool(w, "duplicate", r->duplicate && a->take->n);
	if (a->take->n_wanted) {
		json_open_array(w, "wanted");
		for (size_t i = 0; i < a->take->n_wanted; i++)
			json_put_str(w, NULL, a->take->wanted[i]);
		json_close(w);
	}
	json_close(w);
	buf_add_char(&a->out, '\n');
}

static bool is_option(struct str name)
{
	return str_eq(name, STR("format")) || str_eq(name, STR("time"));
}

static int profiles_set_time(struct api *a, struct profile *p, struct err *err)
{
	int64_t ms;

	if (!api_text(a, "time").size)
		return 0;
	if (api_time(a, "time", 0, &ms, err) < 0)
		return -1;
	/* A profile from so far in the future is refused, whatever its time is exactly. */
	p->time_ns = MIN(ms, INT64_MAX / 1000000) * 1000000;
	return 0;
}

struct profiles_body {
	struct api *a;
	struct profilestore_label *labels;
	size_t n_labels;
};

/* Profiles of a recording have names, and the types that Pyroscope's agent makes of one. */
static int profiles_take_one(void *arg, struct profile *p, struct str name, struct err *err)
{
	struct profiles_body *b = arg;
	struct profilestore_upload u = {
		.p = p, .labels = b->labels, .n_labels = b->n_labels, .name = name, .no_delta = name.size != 0
	};
	struct take *t = take_of(b->a);

	VEC_PUSH(t->profiles, t->n, t->room) = p;
	return profiles_set_time(b->a, p, err) < 0 ? -1 : take_give(t, &u, err);
}

static int profiles_take_body(struct api *a, struct err *err)
{
	struct profiles_body b = { .a = a };

	b.labels = ARENA_NEW_N(a->arena, struct profilestore_label, a->n_args + 1);
	for (size_t i = 0; i < a->n_args; i++)
		if (!is_option(a->args[i].name))
			b.labels[b.n_labels++] = (struct profilestore_label){ a->args[i].name,
									      a->args[i].value };
	return take_read_each(a, a->body, api_text(a, "format"), NULL,
			      (struct profile_sink){ profiles_take_one, &b }, err);
}

/* Here, and not when the answer is written: that is done by the store's thread, for which others wait. */
static void find_all_wanted(struct api *a)
{
	struct take *t = take_of(a);

	t->wanted = wanted_room(a);
	for (size_t i = 0; i < t->n; i++)
		t->n_wanted = wanted_find(a, t->profiles[i], t->wanted, t->n_wanted);
}

int api_post_profiles(struct api *a, struct err *err)
{
	int r = profiles_take_body(a, err);

	if (r == 0)
		find_all_wanted(a);
	return take_end(a, r, answer_profiles, err);
}
