/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parca's parca.debuginfo.v1alpha1.DebuginfoService, by which parca-agent and parca-debuginfo send debug information.
 *
 * A client asks ShouldInitiateUpload and InitiateUpload, whose reply has a URL of this server with a pass (pass.h); it PUTs
 * the file to that, without any other authorization, and calls MarkUploadFinished. The file is stored with its last byte.
 * A client of gRPC to which the server can say no URL is asked to call Upload (parca_upload.c) instead.
 *
 * With --signed-uploads the URL is one of the store's bucket (direct.h): then MarkUploadFinished reads the file from there,
 * checks and stores it. Such an upload has a longer upload_id.
 */
#include "server/push/direct.h"
#include "server/push/offer.h"
#include "server/push/pass.h"
#include "server/rpc/rpc.h"
#include "wire/proto.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- messages ---- */

static const struct rpc_enum_value file_types_values[] = { { 0, "DEBUGINFO_TYPE_DEBUGINFO_UNSPECIFIED" },
							   { 1, "DEBUGINFO_TYPE_EXECUTABLE" },
							   { 2, "DEBUGINFO_TYPE_SOURCES" },
							   { 3, "DEBUGINFO_TYPE_SOURCE_MAP" },
							   { 0 } };
const struct rpc_enum parca_file_types = { "parca.debuginfo.v1alpha1.DebuginfoType", file_types_values };
static const struct rpc_enum_value id_types_values[] = { { 0, "BUILD_ID_TYPE_UNKNOWN_UNSPECIFIED" },
							 { 1, "BUILD_ID_TYPE_GNU" },
							 { 2, "BUILD_ID_TYPE_HASH" },
							 { 3, "BUILD_ID_TYPE_GO" },
							 { 4, "BUILD_ID_TYPE_SOURCE_MAP_DEBUG_ID" },
							 { 0 } };
static const struct rpc_enum id_types = { "parca.debuginfo.v1alpha1.BuildIDType", id_types_values };
enum { TYPE_OF_PROGRAM = 1, ID_OF_HASH = 2 };

enum { SHOULD_ID = 1, SHOULD_FORCE = 3, SHOULD_TYPE = 4 };
static const struct rpc_field should_fields[] = {
	{ SHOULD_ID, "build_id", RPC_STRING },
	{ 2, "hash", RPC_STRING },
	{ SHOULD_FORCE, "force", RPC_BOOL },
	{ SHOULD_TYPE, "type", RPC_ENUM, .names = &parca_file_types },
	{ 5, "build_id_type", RPC_ENUM, .names = &id_types },
};
static const struct rpc_message should_message = RPC_FIELDS(
	"parca.debuginfo.v1alpha1.ShouldInitiateUploadRequest", should_fields);

static const struct rpc_field should_reply_fields[] = {
	{ 1, "should_initiate_upload", RPC_BOOL },
	{ 2, "reason", RPC_STRING },
};
static const struct rpc_message should_reply = RPC_FIELDS(
	"parca.debuginfo.v1alpha1.ShouldInitiateUploadResponse", should_reply_fields);

enum { INITIATE_ID = 1, INITIATE_SIZE = 2, INITIATE_FORCE = 4, INITIATE_TYPE = 5, INITIATE_ID_TYPE = 6 };
static const struct rpc_field initiate_fields[] = {
	{ INITIATE_ID, "build_id", RPC_STRING },
	{ INITIATE_SIZE, "size", RPC_INT64 },
	{ 3, "hash", RPC_STRING },
	{ INITIATE_FORCE, "force", RPC_BOOL },
	{ INITIATE_TYPE, "type", RPC_ENUM, .names = &parca_file_types },
	{ INITIATE_ID_TYPE, "build_id_type", RPC_ENUM, .names = &id_types },
};
static const struct rpc_message initiate_message = RPC_FIELDS(
	"parca.debuginfo.v1alpha1.InitiateUploadRequest", initiate_fields);

static const struct rpc_enum_value strategies_values[] = { { 0, "UPLOAD_STRATEGY_UNSPECIFIED" },
							   { 1, "UPLOAD_STRATEGY_GRPC" },
							   { 2, "UPLOAD_STRATEGY_SIGNED_URL" },
							   { 0 } };
static const struct rpc_enum strategies = { "parca.debuginfo.v1alpha1.UploadInstructions.UploadStrategy",
					    strategies_values };
enum { STRATEGY_GRPC = 1, STRATEGY_URL = 2 };
static const struct rpc_field instruction_fields[] = {
	{ 1, "build_id", RPC_STRING },
	{ 2, "upload_id", RPC_STRING },
	{ 3, "upload_strategy", RPC_ENUM, .names = &strategies },
	{ 4, "signed_url", RPC_STRING },
	{ 5, "type", RPC_ENUM, .names = &parca_file_types },
};
static const struct rpc_message instruction_message = RPC_FIELDS(
	"parca.debuginfo.v1alpha1.UploadInstructions", instruction_fields);
static const struct rpc_field initiate_reply_fields[] = {
	{ 1, "upload_instructions", RPC_MESSAGE, .message = &instruction_message },
};
static const struct rpc_message initiate_reply = RPC_FIELDS("parca.debuginfo.v1alpha1.InitiateUploadResponse",
							    initiate_reply_fields);

static const struct rpc_field finished_fields[] = {
	{ 1, "build_id", RPC_STRING },
	{ 2, "upload_id", RPC_STRING },
	{ 3, "type", RPC_ENUM, .names = &parca_file_types },
};
static const struct rpc_message finished_message = RPC_FIELDS(
	"parca.debuginfo.v1alpha1.MarkUploadFinishedRequest", finished_fields);

/* ---- what both questions have ---- */

static int parca_fail(struct api *a, unsigned status, const char *text, struct err *err)
{
	a->status = status;
	return err_set(err, ERR_INVALID, "%s", text);
}

/* The code for a file that is not taken now: 409 already_exists, 412 failed_precondition. */
static int parca_check(struct api *a, struct str id, uint64_t type, struct build_id *ret, struct err *err)
{
	if (offer_check_store(a, err) < 0)
		return -1;
	if (!build_id_read(ret, id))
		return err_set(err, ERR_INVALID, "build_id: %s", server_bad_build_id(id));
	if (type > TYPE_OF_PROGRAM)
		return err_set(err, ERR_INVALID,
			       "neither sources nor source maps are taken by this call: lode push --sources "
			       "sends sources");
	return 0;
}

static enum offer parca_judge(struct api *a, const struct build_id *id, bool force)
{
	enum offer o = offer_judge(a, id);

	/* A better file replaces one that is here; one that is no better is kept out at its end. */
	return force && o != OFFER_RUNS ? OFFER_NEW : o;
}

/* ---- ShouldInitiateUpload ---- */

static int parca_should_run(struct api *a, struct bytes request, struct buf *reply, struct err *err)
{
	struct build_id id;
	enum offer o;

	if (parca_check(a, offer_text(request, SHOULD_ID), offer_number(request, SHOULD_TYPE), &id, err) < 0)
		return -1;
	o = parca_judge(a, &id, offer_number(request, SHOULD_FORCE));
	proto_put_number(reply, 1, o == OFFER_NEW);
	proto_put_str(reply, 2, str_of(offer_reason(o)));
	return 0;
}

/* ---- InitiateUpload ---- */

/* ":8002", of a URL that ends so; else empty. */
static struct str url_port(struct str url)
{
	size_t at = url.size;

	while (at > 0 && url.p[at - 1] >= '0' && url.p[at - 1] <= '9')
		at--;
	return at > 0 && at < url.size && url.p[at - 1] == ':'
		       ? (struct str){ url.p + at - 1, url.size - at + 1 }
		       : STR("");
}

/* Our first URL that has a port; empty: we listen on Unix sockets alone. */
static struct str first_url(struct api *a)
{
	for (const char *const *url = http_urls(a->req->s->http); *url; url++)
		if (str_starts(str_of(*url), STR("http")) && url_port(str_of(*url)).size)
			return str_of(*url);
	return STR("");
}

/* "[::1]:7070" without the port. */
static struct str host_name(struct str host)
{
	for (size_t i = host.size; i > 0 && host.p[i - 1] != ']'; i--)
		if (host.p[i - 1] == ':')
			return (struct str){ host.p, i - 1 };
	return host;
}

/* A call over HTTP/2 came to another port (--listen-grpc), and the PUT comes by HTTP/1.1: by that name, to our first URL. */
static int url_of_host(struct api *a, struct buf *out, struct err *err)
{
	const struct http_head *head = http_head(a->req->conn);
	const char *proto = http_header(a->req->conn, "X-Forwarded-Proto");
	struct str host = str_of(head->host ? head->host : ""), ours = first_url(a), scheme = ours;

	if (!host.size || (head->two && !ours.size))
		return err_set(err, ERR_INVALID,
			       "the server does not know a URL for uploads: start it with --public-url");
	if (head->two) {
		buf_add_str(out, str_cut(&scheme, ':'));
		buf_add_str(out, STR("://"));
		buf_add_str(out, host_name(host));
		buf_add_str(out, url_port(ours));
		return 0;
	}
	scheme = str_cut(&scheme, ':');
	if (proto && strcmp(proto, "https") == 0)
		scheme = STR("https");
	buf_add_str(out, scheme.size ? scheme : STR("http"));
	buf_add_str(out, STR("://"));
	buf_add_str(out, host);
	return 0;
}

/* "https://lode.example", by which clients reach this server; nothing: it has no such URL, and the client can call Upload. */
static int base_url(struct api *a, struct buf *out, struct err *err)
{
	const struct server_options *o = &a->req->s->opts;
	struct str url = o->n_public_urls ? o->public_urls[0] : STR("");

	while (str_ends(url, STR("/")))
		url.size--;
	if (!url.size && http_head(a->req->conn)->two && rpc_is_framed(a) && !first_url(a).size)
		return 0;
	if (!url.size)
		return url_of_host(a, out, err);
	buf_add_str(out, url);
	return 0;
}

static int check_size(struct api *a, uint64_t size, struct err *err)
{
	if (!size || size > INT64_MAX)
		return err_set(err, ERR_INVALID, "size must be set");
	if (size > a->req->s->opts.max_push)
		return err_set(err, ERR_INVALID,
			       "the file has %" PRIu64 " bytes, more than the %" PRIu64
			       " that --max-push of the server allows",
			       size, a->req->s->opts.max_push);
	return 0;
}

static void put_instructions(struct bytes request, const char *upload_id, struct str url, struct buf *reply)
{
	AUTO(buf_done) struct buf m = { 0 };

	proto_put_str(&m, 1, offer_text(request, INITIATE_ID));
	proto_put_str(&m, 2, str_of(upload_id));
	proto_put_number(&m, 3, url.size ? STRATEGY_URL : STRATEGY_GRPC);
	proto_put_str(&m, 4, url);
	proto_put_number(&m, 5, offer_number(request, INITIATE_TYPE));
	proto_put_message(reply, 1, &m);
}

/* To the bucket. 1: not now, so to this server. */
static int initiate_direct(struct api *a, struct bytes request, const struct pass *p, struct buf *reply,
			   struct err *err)
{
	const struct str owner = str_of(p->owner);
	struct incoming_upload u = {
		.key = { .id = p->id, .kind = STORE_DEBUGINFO },
		.meta = { .origin = STORE_PUSHED, .size = p->size, .owner = owner, .from = owner },
		.by_content = true,
		.by_sender = p->by_sender,
	};
	AUTO(buf_done) struct buf url = { 0 };
	struct err why = { 0 };

	if (p->size > INCOMING_PUT_MAX || !direct_offers(a->req->s, DIRECT_FOR_PARCA, p->size))
		return 1;
	if (direct_ask_store(a->req->s->opts.store, &u.key, a->arena, &why) < 0)
		return 1;
	u.meta.address = push_peer_address(a->req);
	if (direct_begin(a->req->s, &u, false, &why) < 0) {
		if (why.kind != ERR_BUSY)
			return 1;
		*err = why;
		return -1;
	}
	if (incoming_url(a->req->s->opts.incoming, &u, 0, &url, &why) < 0) {
		direct_give_up(a->req->s, &u);
		return 1;
	}
	put_instructions(request, u.id, buf_str(&url), reply);
	return 0;
}

/* To this server. */
static int initiate_here(struct api *a, struct bytes request, struct pass *p, struct str base,
			 struct buf *reply, struct err *err)
{
	AUTO(buf_done) struct buf url = { 0 };
	char secret[PASS_SECRET_SIZE], number[PASS_NUMBER_SIZE];

	if (pass_give(a->req->s->push->passes, p, secret, err) < 0)
		return -1;
	if (base.size)
		buf_printf(&url, STR_FMT SERVER_UPLOAD "%s", STR_ARG(base), secret);
	pass_print_number(p->number, number);
	put_instructions(request, number, buf_str(&url), reply);
	return 0;
}

static int parca_initiate_run(struct api *a, struct bytes request, struct buf *reply, struct err *err)
{
	struct pass p = { .size = offer_number(request, INITIATE_SIZE),
			  .by_sender = offer_number(request, INITIATE_ID_TYPE) == ID_OF_HASH,
			  .is_admin = push_is_admin(a->req) };
	AUTO(buf_done) struct buf base = { 0 };
	enum offer o;
	int r;

	if (parca_check(a, offer_text(request, INITIATE_ID), offer_number(request, INITIATE_TYPE), &p.id,
			err) < 0 ||
	    check_size(a, p.size, err) < 0)
		return -1;
	if (p.by_sender && p.id.size != BUILD_ID_HASH_SIZE)
		return err_set(err, ERR_INVALID, "build_id: a hash has %u bytes", BUILD_ID_HASH_SIZE);
	o = parca_judge(a, &p.id, offer_number(request, INITIATE_FORCE));
	if (o != OFFER_NEW)
		return parca_fail(a, o == OFFER_RUNS ? 412 : 409, offer_reason(o), err);
	snprintf(p.owner, sizeof(p.owner), "%s", push_owner_name(a->req));
	r = initiate_direct(a, request, &p, reply, err);
	if (r <= 0)
		return r;
	return base_url(a, &base, err) < 0 ? -1 : initiate_here(a, request, &p, buf_str(&base), reply, err);
}

/* ---- MarkUploadFinished ---- */

static int finished_here(struct api *a, uint64_t number, const struct build_id *id, struct err *err)
{
	switch (pass_state(a->req->s->push->passes, number, id)) {
	case PASS_DONE:
		return 0;
	case PASS_NONE:
		return parca_fail(a, 404, "no upload of this build ID was initiated with this upload_id",
				  err);
	default:
		return parca_fail(a, 412, "the file was not received, or was refused", err);
	}
}

static int finished_direct(struct api *a, struct str upload_id, const struct build_id *id, struct err *err)
{
	const struct direct_end e = { .id = upload_id,
				      .build_id = id,
				      .owner = push_owner_name(a->req),
				      .is_admin = push_is_admin(a->req),
				      .what = "MarkUploadFinished" };
	struct push_outcome o;

	direct_finish(a->req->s, &e, a->arena, &o);
	/* It has ended, and cannot be taken back: the time that a query may take is no limit for it. */
	a->deadline = (struct deadline){ 0 };
	if (o.status < 300)
		return 0;
	if (o.status == 404)
		return finished_here(a, direct_number(upload_id), id, err);
	if (o.status >= 500 || (o.result && strcmp(o.result, "busy") == 0))
		return parca_fail(a, 503, o.text, err);
	return parca_fail(a, 412, o.text, err);
}

static int parca_finished_run(struct api *a, struct bytes request, struct buf *reply, struct err *err)
{
	struct str text = offer_text(request, 2);
	struct build_id id;
	uint64_t number;

	if (parca_check(a, offer_text(request, 1), 0, &id, err) < 0)
		return -1;
	if (a->req->s->opts.incoming && text.size == INCOMING_ID_SIZE - 1)
		return finished_direct(a, text, &id, err);
	if (!pass_read_number(text, &number))
		return err_set(err, ERR_INVALID, "upload_id is none of this server");
	return finished_here(a, number, &id, err);
}

const struct rpc_method parca_should = RPC_STORELESS(parca_should_run, should_message, should_reply),
			parca_initiate = RPC_STORELESS(parca_initiate_run, initiate_message, initiate_reply),
			parca_finished = RPC_STORELESS(
				parca_finished_run, finished_message,
				RPC_EMPTY("parca.debuginfo.v1alpha1.MarkUploadFinishedResponse"));
