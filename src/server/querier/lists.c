/* SPDX-License-Identifier: Apache-2.0 */
/* Profile types, labels, series without values, and statistics. */
#include "server/querier/querier.h"

#include <stdlib.h>
#include "wire/proto.h"

static void querier_put_texts(const struct profilestore_list *l, struct buf *reply)
{
	for (size_t i = 0; i < l->n && !buf_is_over(reply); i++)
		proto_put_bytes(reply, 1, l->v[i].p, l->v[i].size);
}

/* The message ProfileType: the ID, and its parts. */
static void put_profile_type(struct buf *m, struct str id)
{
	static const uint32_t numbers[] = { 2, 4, 5, 6, 7 };
	struct str rest = id;

	proto_put_str(m, 1, id);
	for (size_t i = 0; i < ARRAY_SIZE(numbers) && rest.p; i++)
		proto_put_str(m, numbers[i], str_cut(&rest, ':'));
}

int querier_profile_types(struct api *a, struct bytes request, struct buf *reply, struct err *err)
{
	AUTO(buf_done) struct buf m = { 0 };
	struct querier_request q = { 0 };
	struct profilestore_range r;
	struct profilestore_list *l;

	if (querier_read(request, &querier_v1_profile_types, &q, err) < 0 ||
	    querier_list_range(a, &q, &r, err) < 0 || profilestore_types(a->store, &r, &l, err) < 0)
		return -1;
	for (size_t i = 0; i < l->n && !buf_is_over(reply); i++) {
		put_profile_type(&m, l->v[i]);
		proto_put_message(reply, 1, &m);
	}
	free(l);
	return 0;
}

int querier_label_names(struct api *a, struct bytes request, struct buf *reply, struct err *err)
{
	struct querier_request q = { 0 };
	struct profilestore_range r;
	struct profilestore_list *l;

	if (querier_read(request, &querier_v1_label_names, &q, err) < 0 ||
	    querier_list_range(a, &q, &r, err) < 0 || profilestore_label_names(a->store, &r, &l, err) < 0)
		return -1;
	querier_put_texts(l, reply);
	free(l);
	return 0;
}

int querier_label_values(struct api *a, struct bytes request, struct buf *reply, struct err *err)
{
	struct querier_request q = { 0 };
	struct profilestore_range r;
	struct profilestore_list *l;

	if (querier_read(request, &querier_v1_label_values, &q, err) < 0)
		return -1;
	if (!q.name.size)
		return err_set(err, ERR_INVALID, "'name' is missing: that of the label");
	if (querier_list_range(a, &q, &r, err) < 0 ||
	    profilestore_label_values(a->store, &r, q.name, &l, err) < 0)
		return -1;
	querier_put_texts(l, reply);
	free(l);
	return 0;
}

int querier_label_sets(struct api *a, struct bytes request, struct buf *reply, struct err *err)
{
	AUTO(buf_done) struct buf set = { 0 };
	AUTO(buf_done) struct buf pair = { 0 };
	struct querier_request q = { 0 };
	struct profilestore_label_sets *l;
	struct profilestore_range r;

	if (querier_read(request, &querier_v1_series, &q, err) < 0 ||
	    querier_list_range(a, &q, &r, err) < 0 ||
	    profilestore_label_sets(a->store, &r, q.names.v, q.names.n, QUERIER_MAX_SETS, &l, err) < 0)
		return -1;
	for (size_t i = 0; i < l->n && !buf_is_over(reply); i++) {
		for (size_t k = 0; k < l->v[i].n; k++) {
			proto_put_str(&pair, 1, l->v[i].labels[k].name);
			proto_put_str(&pair, 2, l->v[i].labels[k].value);
			proto_put_message(&set, 1, &pair);
		}
		proto_put_message(reply, 2, &set);
	}
	free(l);
	return 0;
}

int querier_stats(struct api *a, struct bytes request, struct buf *reply, struct err *err)
{
	struct profilestore_stats st;

	(void)request;
	(void)err;
	profilestore_stats(a->store, &st);
	if (!st.n_profiles)
		return 0;
	proto_put_number(reply, 1, true);
	proto_put_number(reply, 2, (uint64_t)st.oldest_ms);
	proto_put_number(reply, 3, (uint64_t)st.latest_ms);
	return 0;
}

/* "TYPE{...}", or "{...}". */
int querier_analyze(struct api *a, struct bytes request, struct buf *reply, struct err *err)
{
	AUTO(buf_done) struct buf m = { 0 };
	struct querier_request q = { 0 };
	struct profilestore_label_sets *l;
	struct profilestore_range r;
	struct str matchers;

	if (querier_read(request, &querier_v1_analyze_query, &q, err) < 0)
		return -1;
	matchers = q.name;
	while (matchers.size && *matchers.p != '{')
		matchers = (struct str){ matchers.p + 1, matchers.size - 1 };
	q.type_id = str_trim((struct str){ q.name.p, q.name.size - matchers.size });
	q.matchers.v[q.matchers.n++] = matchers;
	if ((q.type_id.size ? querier_type_range(a, &q, 0, &r, err) : querier_list_range(a, &q, &r, err)) <
		    0 ||
	    profilestore_label_sets(a->store, &r, NULL, 0, QUERIER_MAX_SETS, &l, err) < 0)
		return -1;
	proto_put_str(&m, 1, STR("profile store"));
	proto_put_number(&m, 2, 1);
	proto_put_number(&m, 4, l->n);
	proto_put_message(reply, 1, &m);
	proto_put_number(&m, 3, l->n);
	proto_put_message(reply, 2, &m);
	free(l);
	return 0;
}

int querier_nothing(struct api *a, struct bytes request, struct buf *reply, struct err *err)
{
	(void)a;
	(void)request;
	(void)reply;
	(void)err;
	return 0;
}
