/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parca's parca.profilestore.v1alpha1.ProfileStoreService: WriteRaw, series of labels, each with profiles in pprof,
 * of parca-push and of a Parca that forwards; WriteArrow, a stream of Arrow with samples, of Parca's agent.
 */
#include "profile/parca.h"
#include "server/intake/bulk.h"
#include "server/intake/forms.h"
#include "server/rpc/rpc.h"
#include "wire/proto.h"

/* ---- messages ---- */

static const struct rpc_field label_fields[] = {
	{ 1, "name", RPC_STRING },
	{ 2, "value", RPC_STRING },
};
static const struct rpc_message label_message = RPC_FIELDS("parca.profilestore.v1alpha1.Label", label_fields);

static const struct rpc_field set_fields[] = {
	{ 1, "labels", RPC_MESSAGE, RPC_REPEATED, &label_message },
};
static const struct rpc_message set_message = RPC_FIELDS("parca.profilestore.v1alpha1.LabelSet", set_fields);

/* The load segments of executables (2) are not needed: program headers are read from the files themselves. */
static const struct rpc_field sample_fields[] = {
	{ 1, "raw_profile", RPC_BYTES },
};
static const struct rpc_message sample_message = RPC_FIELDS("parca.profilestore.v1alpha1.RawSample",
							    sample_fields);

static const struct rpc_field series_fields[] = {
	{ 1, "labels", RPC_MESSAGE, .message = &set_message },
	{ 2, "samples", RPC_MESSAGE, RPC_REPEATED, &sample_message },
};
static const struct rpc_message series_message = RPC_FIELDS("parca.profilestore.v1alpha1.RawProfileSeries",
							    series_fields);

enum { RAW_SERIES = 2, RAW_NORMALIZED = 3 };
static const struct rpc_field raw_fields[] = {
	{ RAW_SERIES, "series", RPC_MESSAGE, RPC_REPEATED, &series_message },
	{ RAW_NORMALIZED, "normalized", RPC_BOOL },
};
static const struct rpc_message raw_message = RPC_FIELDS("parca.profilestore.v1alpha1.WriteRawRequest",
							 raw_fields);

/* ---- WriteRaw ---- */

struct raw_write {
	struct bulk bulk;
	bool normalized;
	struct profilestore_label labels[PROFILESTORE_MAX_LABELS];
	size_t n_labels;
};

static int raw_add_label(struct raw_write *w, struct bytes in, struct err *err)
{
	struct profilestore_label l = { STR(""), STR("") };
	struct cursor c = cursor_of(in);
	struct proto_field f;

	while (proto_next(&c, &f)) {
		if (f.number == 1)
			l.name = proto_text(&f);
		else if (f.number == 2)
			l.value = proto_text(&f);
	}
	if (w->n_labels == PROFILESTORE_MAX_LABELS)
		return err_set(err, ERR_LIMIT, "it has more than %u labels", PROFILESTORE_MAX_LABELS);
	w->labels[w->n_labels++] = l;
	return cursor_ok(&c) ? 0 : err_set(err, ERR_INVALID, "a label is cut off");
}

static int raw_labels(struct raw_write *w, struct bytes series, struct err *err)
{
	struct cursor c = cursor_of(series);
	struct proto_field f, label;

	w->n_labels = 0;
	while (proto_next(&c, &f)) {
		struct cursor set = cursor_of(f.b);

		while (f.number == 1 && proto_next(&set, &label))
			if (label.number == 1 && raw_add_label(w, label.b, err) < 0)
				return -1;
		if (f.number == 1 && !cursor_ok(&set))
			return err_set(err, ERR_INVALID, "the labels are cut off");
	}
	return 0;
}

static int raw_sample(struct raw_write *w, struct bytes in, struct err *err)
{
	struct form_profile form = { .labels = w->labels,
				     .n_labels = w->n_labels,
				     .normalized = w->normalized };
	struct cursor c = cursor_of(in);
	struct proto_field f;

	while (proto_next(&c, &f))
		if (f.number == 1)
			form.raw = f.b;
	if (!cursor_ok(&c))
		return err_set(err, ERR_INVALID, "the message is cut off");
	return parca_take_pprof(w->bulk.a, &form, err);
}

static int raw_series(struct raw_write *w, size_t number, struct bytes in, struct err *err)
{
	struct cursor c = cursor_of(in);
	struct err labels = { 0 };
	bool labelled = raw_labels(w, in, &labels) == 0;
	struct proto_field f;
	size_t i = 0;

	while (proto_next(&c, &f)) {
		struct err why = labels;

		if (f.number != 2)
			continue;
		if (bulk_next(&w->bulk, err) < 0)
			return -1;
		if (!labelled || raw_sample(w, f.b, &why) < 0) {
			(void)err_in(&why, "series %zu, sample %zu", number, i);
			if (bulk_refused(&w->bulk, &why, err) < 0)
				return -1;
		}
		i++;
	}
	return cursor_ok(&c) ? 0 : err_set(err, ERR_INVALID, "series %zu is cut off", number);
}

static int raw_take_all(struct raw_write *w, struct bytes request, struct err *err)
{
	struct cursor c = cursor_of(request);
	struct proto_field f;
	size_t n = 0;

	/* It comes after the series. */
	while (proto_next(&c, &f))
		if (f.number == RAW_NORMALIZED && f.wire == PROTO_VARINT)
			w->normalized = f.v;
	if (!cursor_ok(&c))
		return err_set(err, ERR_INVALID, "the message is cut off, or is none of protobuf");
	c = cursor_of(request);
	while (proto_next(&c, &f))
		if (f.number == RAW_SERIES && raw_series(w, n++, f.b, err) < 0)
			return -1;
	return bulk_end(&w->bulk, err);
}

static int raw_run(struct api *a, struct bytes request, struct buf *reply, struct err *err)
{
	struct raw_write *w = ARENA_NEW(a->arena, struct raw_write);
	int r;

	w->bulk.a = a;
	r = raw_take_all(w, request, err);
	return take_end(a, r, bulk_answer, err);
}

const struct rpc_method parca_write_raw = RPC_METHOD(
	raw_run, raw_message, RPC_EMPTY("parca.profilestore.v1alpha1.WriteRawResponse"));

/* ---- WriteArrow ---- */

enum { ARROW_STREAM = 1 };
static const struct rpc_field arrow_fields[] = { { ARROW_STREAM, "ipc_buffer", RPC_BYTES } };
static const struct rpc_message arrow_message = RPC_FIELDS("parca.profilestore.v1alpha1.WriteArrowRequest",
							   arrow_fields);

static int arrow_take_one(void *arg, struct profile *p, const struct parca_label *labels, size_t n,
			  struct err *err)
{
	struct bulk *b = arg;
	struct profilestore_label *copies = ARENA_NEW_N(b->a->arena, struct profilestore_label, n + 1);
	struct err why = { 0 };

	if (bulk_next(b, err) < 0) {
		profile_free(p);
		return -1;
	}
	for (size_t i = 0; i < n; i++)
		copies[i] = (struct profilestore_label){ labels[i].name, labels[i].value };
	if (take_foreign(b->a, p, copies, n, (struct take_how){ 0 }, &why) == 0)
		return 0;
	return bulk_refused(b, &why, err);
}

static int arrow_take_all(struct bulk *b, struct bytes request, struct err *err)
{
	struct profile_limits limits = take_limits(b->a);
	struct cursor c = cursor_of(request);
	struct bytes stream = { 0 };
	struct parca_result result;
	struct proto_field f;

	while (proto_next(&c, &f))
		if (f.number == ARROW_STREAM && f.wire == PROTO_LEN)
			stream = f.b;
	if (!cursor_ok(&c))
		return err_set(err, ERR_INVALID, "the message is cut off, or is none of protobuf");
	limits.deadline = &b->a->deadline;
	if (parca_read(stream, &limits, (struct parca_sink){ arrow_take_one, b }, &result, err) < 0)
		return err_in(err, "ipc_buffer");
	b->n += result.n_rejected;
	if (result.n_rejected && !b->n_refused)
		b->first = result.why;
	b->n_refused += result.n_rejected;
	/* An agent without anything to say sends no rows. */
	return b->n ? bulk_end(b, err) : 0;
}

static int arrow_run(struct api *a, struct bytes request, struct buf *reply, struct err *err)
{
	struct bulk b = { .a = a };
	int r = arrow_take_all(&b, request, err);

	return take_end(a, r, bulk_answer, err);
}

const struct rpc_method parca_write_arrow = RPC_METHOD(
	arrow_run, arrow_message, RPC_EMPTY("parca.profilestore.v1alpha1.WriteArrowResponse"));
