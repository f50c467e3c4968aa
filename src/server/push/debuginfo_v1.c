/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pyroscope's debuginfo.v1alpha1.DebuginfoService, by which Alloy's eBPF component and profilecli send debug
 * information: calls of Connect, and one plain POST for the file.
 *
 * A client asks ShouldInitiateUpload, with neither a size nor a hash, posts the file, and calls UploadFinished. The file
 * is stored when its last byte is in, so UploadFinished has nothing to do.
 */
#include "server/push/offer.h"

#include "server/rpc/rpc.h"
#include "wire/proto.h"

#define LIST_MAX     100000u
#define LIST_AT_ONCE 10000u /* in memory beside the reply */

/* ---- messages ---- */

static const struct rpc_enum_value file_types_values[] = {
	{ 0, "TYPE_UNSPECIFIED" }, { 1, "TYPE_EXECUTABLE_FULL" }, { 2, "TYPE_EXECUTABLE_NO_TEXT" }, { 0 }
};
static const struct rpc_enum file_types = { "debuginfo.v1alpha1.FileMetadata.Type", file_types_values };
static const struct rpc_field file_fields[] = {
	{ 1, "gnu_build_id", RPC_STRING },
	{ 2, "go_build_id", RPC_STRING },
	{ 3, "otel_file_id", RPC_STRING },
	{ 4, "name", RPC_STRING },
	{ 5, "type", RPC_ENUM, .names = &file_types },
};
static const struct rpc_message file_message = RPC_FIELDS("debuginfo.v1alpha1.FileMetadata", file_fields);

static const struct rpc_field should_fields[] = { { 1, "file", RPC_MESSAGE, .message = &file_message } };
static const struct rpc_message should_message = RPC_FIELDS("debuginfo.v1alpha1.ShouldInitiateUploadRequest",
							    should_fields);

static const struct rpc_field should_reply_fields[] = {
	{ 1, "should_initiate_upload", RPC_BOOL },
	{ 2, "reason", RPC_STRING },
};
static const struct rpc_message should_reply = RPC_FIELDS("debuginfo.v1alpha1.ShouldInitiateUploadResponse",
							  should_reply_fields);

static const struct rpc_field id_fields[] = { { 1, "gnu_build_id", RPC_STRING } };
static const struct rpc_message finished_message = RPC_FIELDS("debuginfo.v1alpha1.UploadFinishedRequest",
							      id_fields),
				delete_message = RPC_FIELDS("debuginfo.v1alpha1.DeleteDebuginfoRequest",
							    id_fields);

static const struct rpc_enum_value object_states_values[] = { { 0, "STATE_UPLOADING" },
							      { 1, "STATE_UPLOADED" },
							      { 0 } };
static const struct rpc_enum object_states = { "debuginfo.v1alpha1.ObjectMetadata.State",
					       object_states_values };
static const struct rpc_field object_fields[] = {
	{ 1, "file", RPC_MESSAGE, .message = &file_message },
	{ 2, "state", RPC_ENUM, .names = &object_states },
	{ 3, "started_at", RPC_TIMESTAMP },
	{ 4, "finished_at", RPC_TIMESTAMP },
	{ 5, "size_bytes", RPC_INT64 },
};
static const struct rpc_message object_message = RPC_FIELDS("debuginfo.v1alpha1.ObjectMetadata",
							    object_fields);

static const struct rpc_field list_fields[] = {
	{ 1, "object", RPC_MESSAGE, RPC_REPEATED, .message = &object_message },
};
static const struct rpc_message list_message = RPC_FIELDS("debuginfo.v1alpha1.ListDebuginfoResponse",
							  list_fields);

static int read_build_id(struct str text, struct build_id *ret, struct err *err)
{
	return build_id_parse(ret, text)
		       ? 0
		       : err_set(err, ERR_INVALID, "gnu_build_id: %s", server_bad_build_id(text));
}

/* The identities in a FileMetadata, GNU's first. An unknown form of the others is left out: GNU's is enough. */
static int read_identities(struct bytes file, struct build_id ret[3], size_t *ret_n, struct err *err)
{
	struct str gnu = offer_text(file, 1);
	size_t n = 0;

	if (gnu.size && read_build_id(gnu, &ret[n++], err) < 0)
		return -1;
	if (build_id_set_go(&ret[n], offer_text(file, 2)))
		n++;
	if (build_id_read(&ret[n], offer_text(file, 3)) && ret[n].size == BUILD_ID_HASH_SIZE)
		n++;
	*ret_n = n;
	return 0;
}

/* ---- ShouldInitiateUpload ---- */

#define FILE_WHOLE 1u /* else without its code, made by an agent */

/* Of one of its identities. */
static enum offer should_judge(struct api *a, const struct build_id *ids, size_t n, bool whole)
{
	enum offer o = OFFER_NEW;

	for (size_t i = 0; i < n && o == OFFER_NEW; i++) {
		o = offer_judge(a, &ids[i]);
		if (o == OFFER_DYNSYM && whole)
			o = OFFER_NEW;
	}
	return o;
}

static int should_run(struct api *a, struct bytes request, struct buf *reply, struct err *err)
{
	struct str text = offer_text(request, 1);
	struct bytes file = bytes_of(text.p, text.size);
	const char *why = NULL;
	struct build_id ids[3];
	enum offer o;
	size_t n;

	if (offer_check_store(a, err) < 0 || read_identities(file, ids, &n, err) < 0)
		return -1;
	o = should_judge(a, ids, n, offer_number(file, 5) == FILE_WHOLE);
	/* Clients upload under the GNU build ID. */
	if (o == OFFER_NEW && !offer_text(file, 1).size)
		why = "the file has no GNU build ID to upload it under: push it with lode push";
	proto_put_number(reply, 1, !why && o == OFFER_NEW);
	proto_put_str(reply, 2, str_of(why ? why : offer_reason(o)));
	return 0;
}

/* ---- UploadFinished, ListDebuginfo, DeleteDebuginfo ---- */

static int finished_run(struct api *a, struct bytes request, struct buf *reply, struct err *err)
{
	struct build_id id;

	return read_build_id(offer_text(request, 1), &id, err);
}

struct listing {
	struct api *a;
	struct buf *reply, object, part;
};

static int put_known_object(struct listing *l, const struct store_known *k)
{
	char id[BUILD_ID_HEX_SIZE];
	struct err err;

	if (k->key.kind != STORE_DEBUGINFO && k->key.kind != STORE_EXECUTABLE)
		return 0;
	proto_put_str(&l->part, 1, str_of(build_id_hex(&k->key.id, id)));
	proto_put_str(&l->part, 4, k->file);
	proto_put_number(&l->part, 5, k->key.kind == STORE_EXECUTABLE ? 1 : 2);
	proto_put_message(&l->object, 1, &l->part);
	proto_put_number(&l->object, 2, 1);
	proto_put_number(&l->part, 1, (uint64_t)MAX(k->created, (int64_t)0));
	proto_put_message(&l->object, 4, &l->part);
	proto_put_number(&l->object, 5, k->size);
	proto_put_message(l->reply, 1, &l->object);
	return deadline_check(&l->a->deadline, 1, &err) < 0 || buf_is_over(l->reply);
}

static int put_stored_object(void *arg, const struct store_object *o)
{
	const struct store_known k = {
		.key = o->key, .created = o->meta.created, .size = o->meta.size, .file = o->meta.file
	};

	return put_known_object(arg, &k);
}

static bool any_file(void *arg, struct str file)
{
	return true;
}

/* From memory: of a store in a bucket, the records of all objects are as many requests. */
static int list_objects(struct listing *l, struct store *st, struct err *err)
{
	const struct store_range range = { .max = LIST_MAX };
	AUTO(arena_done) struct arena page = { 0 };
	AUTO(buf_done) struct buf next = { 0 };
	AUTO(buf_done) struct buf after = { 0 };
	struct store_names known = { .n = LIST_AT_ONCE };

	for (size_t n = 0; known.n == LIST_AT_ONCE && n < LIST_MAX; n += known.n) {
		const struct store_names_query query = { any_file, NULL, buf_str(&after), LIST_AT_ONCE };

		arena_reset(&page);
		if (store_names(st, &query, &page, &known, err) < 0)
			return -1;
		/* Before the first walk over the records is done, they are read here. */
		if (!n && !known.all)
			return store_list(st, &range, put_stored_object, l, &next, err);
		for (size_t i = 0; i < known.n; i++)
			if (put_known_object(l, &known.list[i]))
				return 0;
		after.size = 0;
		if (known.n)
			buf_add_str(&after, known.list[known.n - 1].name);
	}
	return 0;
}

static int list_run(struct api *a, struct bytes request, struct buf *reply, struct err *err)
{
	struct listing l = { .a = a, .reply = reply };
	int r = offer_check_store(a, err);

	if (r == 0)
		r = list_objects(&l, a->req->s->opts.store, err);
	buf_done(&l.object);
	buf_done(&l.part);
	if (r < 0 || deadline_check(&a->deadline, 0, err) < 0)
		return -1;
	return buf_check(reply, err);
}

static int delete_run(struct api *a, struct bytes request, struct buf *reply, struct err *err)
{
	static const enum store_kind kinds[] = { STORE_DEBUGINFO, STORE_EXECUTABLE };
	struct store_key key = { .kind = STORE_DEBUGINFO };

	if (offer_check_store(a, err) < 0 || read_build_id(offer_text(request, 1), &key.id, err) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		key.kind = kinds[i];
		/* A file that is not here is deleted. */
		if (store_remove(a->req->s->opts.store, &key, str_of(push_owner_name(a->req)), err) < 0)
			return -1;
	}
	return 0;
}

const struct rpc_method debuginfo_should = RPC_STORELESS(should_run, should_message, should_reply),
			debuginfo_finished = RPC_STORELESS(
				finished_run, finished_message,
				RPC_EMPTY("debuginfo.v1alpha1.UploadFinishedResponse")),
			debuginfo_list = RPC_STORELESS(
				list_run, RPC_EMPTY("debuginfo.v1alpha1.ListDebuginfoRequest"), list_message),
			debuginfo_delete = RPC_STORELESS(
				delete_run, delete_message,
				RPC_EMPTY("debuginfo.v1alpha1.DeleteDebuginfoResponse"));
