/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parca's DebuginfoService/Upload: a file as a stream of messages. The first one names an upload that InitiateUpload has
 * allowed, each further one has a chunk of the file; from there on it is an upload like any other (upload.c): buffers of
 * a fixed size, a staging file, the same checks at its end.
 *
 * A chunk goes to the upload as its bytes come, so a message may have any size. The pass of the upload is used up, as its URL
 * would be: a client that breaks off has to initiate another.
 */
#include "server/push/pass.h"
#include "server/push/push.h"
#include "server/rpc/frames.h"
#include "server/rpc/rpc.h"
#include "wire/proto.h"

#define INFO_MAX KIB(4) /* bytes of the first message */

/* UploadRequest; UploadInfo */
enum { SENT_INFO = 1, SENT_CHUNK = 2 };
enum { INFO_ID = 1, INFO_UPLOAD = 2, INFO_TYPE = 3 };

static const struct rpc_field info_fields[] = {
	{ INFO_ID, "build_id", RPC_STRING },
	{ INFO_UPLOAD, "upload_id", RPC_STRING },
	{ INFO_TYPE, "type", RPC_ENUM, .names = &parca_file_types },
};
static const struct rpc_message info_message = RPC_FIELDS("parca.debuginfo.v1alpha1.UploadInfo", info_fields);
static const struct rpc_field request_fields[] = {
	{ SENT_INFO, "info", RPC_MESSAGE, .message = &info_message },
	{ SENT_CHUNK, "chunk_data", RPC_BYTES, RPC_PRESENT },
};
static const struct rpc_message request_message = RPC_FIELDS("parca.debuginfo.v1alpha1.UploadRequest",
							     request_fields);
static const struct rpc_field reply_fields[] = {
	{ 1, "build_id", RPC_STRING },
	{ 2, "size", RPC_UINT64 },
};
static const struct rpc_message reply_message = RPC_FIELDS("parca.debuginfo.v1alpha1.UploadResponse",
							   reply_fields);

struct parca_upload {
	struct push_request pr; /* first: upload.c's */
	struct rpc_frames frames;
	uint8_t head[INFO_MAX]; /* of a message: the first one, or what comes before the chunk's bytes */
	size_t n_head;
	bool in_chunk;
	uint64_t n_file; /* bytes of the file so far */
};

/* ---- the first message ---- */

static bool read_info(struct bytes message, struct str *ret_id, struct str *ret_upload)
{
	struct cursor c = cursor_of(message), inner;
	struct bytes info = { 0 };
	struct proto_field f;

	while (proto_next(&c, &f))
		if (f.number == SENT_INFO && f.wire == PROTO_LEN)
			info = f.b;
	inner = cursor_of(info);
	while (proto_next(&inner, &f)) {
		if (f.number == INFO_ID && f.wire == PROTO_LEN)
			*ret_id = proto_text(&f);
		if (f.number == INFO_UPLOAD && f.wire == PROTO_LEN)
			*ret_upload = proto_text(&f);
	}
	return cursor_ok(&c) && cursor_ok(&inner) && info.size;
}

static void begin_by_info(struct request *req, struct parca_upload *u)
{
	struct str id = STR(""), upload = STR("");
	struct build_id build_id;
	struct pass pass;
	uint64_t number;

	if (!read_info(bytes_of(u->head, u->n_head), &id, &upload))
		request_refuse(req, 400, "the first message of the stream must have the upload's info");
	else if (!build_id_read(&build_id, id))
		request_refuse(req, 400, server_bad_build_id(id));
	else if (!pass_read_number(upload, &number) ||
		 !pass_take_number(req->s->push->passes, number, &build_id, push_owner_name(req), &pass))
		request_refuse(
			req, 404,
			"no upload of this build ID was initiated with this upload_id, or it was used or "
			"has expired: initiate the upload again");
	if (req->reply)
		return;
	u->pr.call_id = arena_str(&req->arena, id);
	(void)push_with_pass(req, &u->pr, &pass);
}

/* ---- chunks ---- */

/* The key and the length of the chunk, which ends with its message. Takes bytes from the start of @in. */
static void read_chunk_head(struct request *req, struct parca_upload *u, uint64_t size, struct bytes *in)
{
	struct cursor c;
	uint64_t n;

	while (in->size && !u->in_chunk) {
		u->head[u->n_head++] = *in->p;
		*in = (struct bytes){ in->p + 1, in->size - 1 };
		if (u->n_head < 2 || (*(in->p - 1) & 0x80 && u->n_head < 11))
			continue;
		c = cursor_of(bytes_of(u->head + 1, u->n_head - 1));
		n = cursor_uleb(&c);
		if (!cursor_ok(&c) || u->head[0] != (SENT_CHUNK << 3 | PROTO_LEN) || n != size - u->n_head) {
			request_refuse(req, 400,
				       "a message of the stream must have chunk_data, and nothing else");
			return;
		}
		u->in_chunk = true;
	}
}

/* Bytes of the file: the number that were taken. Less than all: the request is suspended. */
static size_t take_file_bytes(struct request *req, struct parca_upload *u, struct bytes b)
{
	size_t n;

	if (b.size > u->pr.total - u->n_file) {
		request_refuse(req, 400,
			       "the file is larger than the size that the upload was initiated with");
		return b.size;
	}
	n = b.size ? upload_body(u->pr.upload, b) : 0;
	u->n_file += n;
	return n;
}

/* Of the piece; less than all of it: the request is suspended. */
static size_t take_piece(struct request *req, struct parca_upload *u, const struct rpc_piece *piece)
{
	struct bytes b = piece->b;

	if (piece->first) {
		u->n_head = 0;
		u->in_chunk = false;
	}
	if (!u->pr.upload) {
		if (piece->size > INFO_MAX) {
			request_refuse(req, 400,
				       "the first message of the stream must have the upload's info");
			return b.size;
		}
		if (b.size)
			memcpy(u->head + u->n_head, b.p, b.size);
		u->n_head += b.size;
		if (piece->last)
			begin_by_info(req, u);
		return b.size;
	}
	read_chunk_head(req, u, piece->size, &b);
	if (!req->reply && piece->last && !u->in_chunk)
		request_refuse(req, 400, "a message of the stream must have chunk_data, and nothing else");
	return req->reply ? piece->b.size : piece->b.size - b.size + take_file_bytes(req, u, b);
}

/* ---- the handler ---- */

static void parca_upload_begin(struct request *req)
{
	enum grpc_form form = grpc_form_of(req->conn);
	struct parca_upload *u;

	if (form != GRPC_PLAIN && form != GRPC_WEB) {
		request_refuse(req, 415, "the Content-Type must be application/grpc or application/grpc-web");
		return;
	}
	req->own = u = ARENA_NEW(&req->arena, struct parca_upload);
	u->frames = (struct rpc_frames){ .max = UINT32_MAX, .no_compressed = true };
}

static size_t parca_upload_body(struct request *req, struct bytes chunk)
{
	struct parca_upload *u = req->own;
	struct bytes in = chunk;
	struct rpc_piece piece;
	struct err err = { 0 };
	int r = 0;

	while (!req->reply && (r = rpc_frames_next(&u->frames, &in, &piece, &err)) > 0) {
		size_t taken = take_piece(req, u, &piece);

		if (taken < piece.b.size) {
			rpc_frames_return(&u->frames, &in, piece.b.size - taken);
			return chunk.size - in.size;
		}
	}
	if (r < 0)
		request_refuse(req, u->frames.prefix[0] == GRPC_COMPRESSED ? 501 : 400, err.text);
	return chunk.size;
}

static enum http_next parca_upload_run(struct request *req)
{
	struct parca_upload *u = req->own;
	struct err err = { 0 };

	if (rpc_frames_end(&u->frames, &err) < 0)
		request_refuse(req, 400, err.text);
	else if (!u->pr.upload)
		request_refuse(req, 400,
			       "the stream has no message: the first one must have the upload's info");
	else if (u->n_file != u->pr.total)
		request_refuse(req, 400,
			       "the file does not have the size that the upload was initiated with");
	else if (upload_finish(u->pr.upload))
		return HTTP_WAITS;
	else
		request_refuse(req, 503, "the server stops; ask again");
	return HTTP_REPLY;
}

static void parca_upload_done(struct request *req)
{
	struct parca_upload *u = req->own;

	if (u && u->pr.upload)
		upload_gone(u->pr.upload);
}

const struct http_handler parca_upload_post = {
	.exists = push_exists,
	.begin = parca_upload_begin,
	.body = parca_upload_body,
	.run = parca_upload_run,
	.done = parca_upload_done,
};
const struct rpc_method parca_upload = { .request = &request_message,
					 .reply = &reply_message,
					 .client_streams = true };
