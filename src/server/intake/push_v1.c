/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pyroscope's push.v1.PusherService: series of labels, each with profiles in pprof. SDKs, Alloy and profilecli send it.
 *
 * Each profile of a request is judged by itself (docs/decisions/0035): one that is refused does not keep the others from
 * being stored. The reply then names the first that was refused.
 */
#include "server/intake/bulk.h"
#include "server/rpc/rpc.h"
#include "wire/proto.h"

#define GODELTAPROF STR("godeltaprof_")

/* ---- messages ---- */

static const struct rpc_field label_fields[] = {
	{ 1, "name", RPC_STRING },
	{ 2, "value", RPC_STRING },
};
static const struct rpc_message label_message = RPC_FIELDS("types.v1.LabelPair", label_fields);

static const struct rpc_field sample_fields[] = {
	{ 1, "raw_profile", RPC_BYTES },
	{ 2, "ID", RPC_STRING },
};
static const struct rpc_message sample_message = RPC_FIELDS("push.v1.RawSample", sample_fields);

/* Annotations (3) are for Pyroscope's own use. */
static const struct rpc_field series_fields[] = {
	{ 1, "labels", RPC_MESSAGE, RPC_REPEATED, &label_message },
	{ 2, "samples", RPC_MESSAGE, RPC_REPEATED, &sample_message },
};
static const struct rpc_message series_message = RPC_FIELDS("push.v1.RawProfileSeries", series_fields);

static const struct rpc_field push_fields[] = {
	{ 1, "series", RPC_MESSAGE, RPC_REPEATED, &series_message },
};
static const struct rpc_message push_message = RPC_FIELDS("push.v1.PushRequest", push_fields);

/* ---- a request ---- */

struct pushing {
	struct bulk bulk;
	struct profilestore_label labels[PROFILESTORE_MAX_LABELS];
	size_t n_labels;
};

static bool is_message(const struct proto_field *f, uint32_t number)
{
	return f->number == number && f->wire == PROTO_LEN;
}

static struct profilestore_label label_of(struct bytes in)
{
	struct profilestore_label ret = { STR(""), STR("") };
	struct cursor c = cursor_of(in);
	struct proto_field f;

	while (proto_next(&c, &f)) {
		if (is_message(&f, 1))
			ret.name = proto_text(&f);
		else if (is_message(&f, 2))
			ret.value = proto_text(&f);
	}
	return ret;
}

/*
 * take_foreign() drops labels of the protocol (__delta__, __session_id__, Prometheus' meta labels); here they do not count
 * as labels either. godeltaprof_ in the name says how the client made the profile.
 */
static int push_add_label(struct pushing *p, struct profilestore_label l, struct err *err)
{
	bool is_name = str_eq(l.name, STR("__name__"));

	if (str_starts(l.name, STR("__")) && !is_name)
		return 0;
	if (is_name && str_starts(l.value, GODELTAPROF))
		l.value = (struct str){ l.value.p + GODELTAPROF.size, l.value.size - GODELTAPROF.size };
	if (p->n_labels == PROFILESTORE_MAX_LABELS)
		return err_set(err, ERR_LIMIT, "it has more than %u labels", PROFILESTORE_MAX_LABELS);
	p->labels[p->n_labels++] = l;
	return 0;
}

static int push_labels(struct pushing *p, struct bytes series, struct err *err)
{
	struct cursor c = cursor_of(series);
	struct proto_field f;

	p->n_labels = 0;
	while (proto_next(&c, &f)) {
		if (is_message(&f, 1) && push_add_label(p, label_of(f.b), err) < 0)
			return -1;
	}
	return 0;
}

static int push_sample(struct pushing *p, struct bytes sample, struct str *ret_id, struct err *err)
{
	AUTO(profile_freep) struct profile *one = NULL;
	struct cursor c = cursor_of(sample);
	struct bytes raw = { 0 };
	struct proto_field f;

	while (proto_next(&c, &f)) {
		if (is_message(&f, 1))
			raw = f.b;
		else if (is_message(&f, 2))
			*ret_id = proto_text(&f);
	}
	if (!cursor_ok(&c))
		return err_set(err, ERR_INVALID, "the message is cut off");
	if (take_read(p->bulk.a, raw, STR("pprof"), &one, err) < 0)
		return -1;
	return take_foreign(p->bulk.a, TAKE(one), p->labels, p->n_labels,
			    (struct take_how){ .pyroscope = true }, err);
}

static int push_series(struct pushing *p, size_t number, struct bytes series, struct err *err)
{
	struct cursor c = cursor_of(series);
	struct proto_field f;
	struct err labels = { 0 };
	bool labelled = push_labels(p, series, &labels) == 0;
	size_t i = 0;

	while (proto_next(&c, &f)) {
		struct err why = labels;
		struct str id = STR("");

		if (!is_message(&f, 2))
			continue;
		if (bulk_next(&p->bulk, err) < 0)
			return -1;
		if (!labelled || push_sample(p, f.b, &id, &why) < 0) {
			(void)err_in(&why, "series %zu, sample %zu%s" STR_FMT, number, i,
				     id.size ? ", ID " : "", (int)MIN(id.size, (size_t)64), id.p);
			if (bulk_refused(&p->bulk, &why, err) < 0)
				return -1;
		}
		i++;
	}
	return cursor_ok(&c) ? 0 : err_set(err, ERR_INVALID, "series %zu is cut off", number);
}

static int push_take_all(struct pushing *p, struct bytes request, struct err *err)
{
	struct cursor c = cursor_of(request);
	struct proto_field f;
	size_t n = 0;

	while (proto_next(&c, &f))
		if (is_message(&f, 1) && push_series(p, n++, f.b, err) < 0)
			return -1;
	if (!cursor_ok(&c))
		return err_set(err, ERR_INVALID, "the message is cut off, or is none of protobuf");
	return bulk_end(&p->bulk, err);
}

static int push_run(struct api *a, struct bytes request, struct buf *reply, struct err *err)
{
	struct pushing *p = ARENA_NEW(a->arena, struct pushing);
	int r;

	p->bulk.a = a;
	r = push_take_all(p, request, err);
	return take_end(a, r, bulk_answer, err);
}

const struct rpc_method push_v1_push = RPC_METHOD(push_run, push_message, RPC_EMPTY("push.v1.PushResponse"));
