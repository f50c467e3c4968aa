/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gRPC's server reflection (grpc.reflection.v1 and v1alpha, which are the same): by it clients such as grpcurl learn which
 * services there are, and how their messages look.
 *
 * A client keeps the stream open, and sends a question after it has read the answer to the last one. Over HTTP/2 each
 * is answered as it comes; over gRPC-Web on HTTP/1.1, all are answered when the last one is in. Everything happens on the
 * HTTP thread: a question takes microseconds.
 */
#include <stdio.h>
#include <stdlib.h>
#include "server/rpc/describe.h"
#include "server/rpc/frames.h"
#include "wire/proto.h"

#define QUESTION_MAX 4096u    /* bytes of one */
#define QUESTIONS    10000u   /* of one stream */
#define ANSWERS_MAX  KIB(256) /* that the client has not read; one more answer may come to it */
#define ANSWERS_FREE KIB(16)  /* of them, without a grant while there are few streams */

#define NO_MEMORY "no memory is left for the answers; read them, or ask again later"

/* ServerReflectionRequest */
enum {
	ASK_HOST = 1,
	ASK_FILE = 3,
	ASK_SYMBOL = 4,
	ASK_EXTENSION = 5,
	ASK_EXTENSIONS_OF = 6,
	ASK_SERVICES = 7,
};
/* ServerReflectionResponse */
enum { SAY_HOST = 1, SAY_REQUEST = 2, SAY_FILES = 4, SAY_EXTENSIONS = 5, SAY_SERVICES = 6, SAY_ERROR = 7 };

/* The messages of both versions, for their own descriptions. */
#define MESSAGES(v, version)                                                                                \
	static const struct rpc_field v##_extension_fields[] = {                                            \
		{ 1, "containing_type", RPC_STRING },                                                       \
		{ 2, "extension_number", RPC_INT32 },                                                       \
	};                                                                                                  \
	static const struct rpc_message v##_extension = RPC_FIELDS(                                         \
		"grpc.reflection." version ".ExtensionRequest", v##_extension_fields);                      \
	static const struct rpc_field v##_ask_fields[] = {                                                  \
		{ ASK_HOST, "host", RPC_STRING },                                                           \
		{ ASK_FILE, "file_by_filename", RPC_STRING, RPC_PRESENT },                                  \
		{ ASK_SYMBOL, "file_containing_symbol", RPC_STRING, RPC_PRESENT },                          \
		{ ASK_EXTENSION, "file_containing_extension", RPC_MESSAGE, 0, &v##_extension },             \
		{ ASK_EXTENSIONS_OF, "all_extension_numbers_of_type", RPC_STRING, RPC_PRESENT },            \
		{ ASK_SERVICES, "list_services", RPC_STRING, RPC_PRESENT },                                 \
	};                                                                                                  \
	static const struct rpc_message v##_ask = RPC_FIELDS(                                               \
		"grpc.reflection." version ".ServerReflectionRequest", v##_ask_fields);                     \
	static const struct rpc_field v##_files_fields[] = {                                                \
		{ 1, "file_descriptor_proto", RPC_BYTES, RPC_REPEATED },                                    \
	};                                                                                                  \
	static const struct rpc_message v##_files = RPC_FIELDS(                                             \
		"grpc.reflection." version ".FileDescriptorResponse", v##_files_fields);                    \
	static const struct rpc_field v##_numbers_fields[] = {                                              \
		{ 1, "base_type_name", RPC_STRING },                                                        \
		{ 2, "extension_number", RPC_INT32, RPC_REPEATED },                                         \
	};                                                                                                  \
	static const struct rpc_message v##_numbers = RPC_FIELDS(                                           \
		"grpc.reflection." version ".ExtensionNumberResponse", v##_numbers_fields);                 \
	static const struct rpc_field v##_service_fields[] = { { 1, "name", RPC_STRING } };                 \
	static const struct rpc_message v##_service = RPC_FIELDS(                                           \
		"grpc.reflection." version ".ServiceResponse", v##_service_fields);                         \
	static const struct rpc_field v##_list_fields[] = {                                                 \
		{ 1, "service", RPC_MESSAGE, RPC_REPEATED, &v##_service },                                  \
	};                                                                                                  \
	static const struct rpc_message v##_list = RPC_FIELDS(                                              \
		"grpc.reflection." version ".ListServiceResponse", v##_list_fields);                        \
	static const struct rpc_field v##_error_fields[] = {                                                \
		{ 1, "error_code", RPC_INT32 },                                                             \
		{ 2, "error_message", RPC_STRING },                                                         \
	};                                                                                                  \
	static const struct rpc_message v##_error = RPC_FIELDS("grpc.reflection." version ".ErrorResponse", \
							       v##_error_fields);                           \
	static const struct rpc_field v##_say_fields[] = {                                                  \
		{ SAY_HOST, "valid_host", RPC_STRING },                                                     \
		{ SAY_REQUEST, "original_request", RPC_MESSAGE, 0, &v##_ask },                              \
		{ SAY_FILES, "file_descriptor_response", RPC_MESSAGE, 0, &v##_files },                      \
		{ SAY_EXTENSIONS, "all_extension_numbers_response", RPC_MESSAGE, 0, &v##_numbers },         \
		{ SAY_SERVICES, "list_services_response", RPC_MESSAGE, 0, &v##_list },                      \
		{ SAY_ERROR, "error_response", RPC_MESSAGE, 0, &v##_error },                                \
	};                                                                                                  \
	static const struct rpc_message v##_say = RPC_FIELDS(                                               \
		"grpc.reflection." version ".ServerReflectionResponse", v##_say_fields);                    \
	const struct rpc_method reflection_##v = {                                                          \
		.request = &v##_ask, .reply = &v##_say, .client_streams = true, .server_streams = true      \
	}
MESSAGES(v1, "v1");
MESSAGES(v1alpha, "v1alpha");

/* ---- answers ---- */

static void say_error(enum connect_code code, const char *text, struct buf *out)
{
	AUTO(buf_done) struct buf m = { 0 };

	proto_put_number(&m, 1, connect_code_number(code));
	proto_put_str(&m, 2, str_of(text));
	proto_put_message(out, SAY_ERROR, &m);
}

static void say_file(const struct describe *d, const struct describe_file *f, struct buf *out)
{
	AUTO(buf_done) struct buf m = { 0 };

	if (!f) {
		say_error(CONNECT_NOT_FOUND, "this server has no such file or symbol", out);
		return;
	}
	describe_put(d, f, 1, &m);
	proto_put_message(out, SAY_FILES, &m);
}

/* No message has extensions. */
static void say_extensions(const struct describe *d, struct str type, struct buf *out)
{
	AUTO(buf_done) struct buf m = { 0 };

	if (!describe_find(d, type)) {
		say_error(CONNECT_NOT_FOUND, "this server has no such type", out);
		return;
	}
	proto_put_str(&m, 1, type);
	proto_put_message(out, SAY_EXTENSIONS, &m);
}

static void say_services(const struct describe *d, struct buf *out)
{
	AUTO(buf_done) struct buf list = { 0 }, service = { 0 };

	for (size_t i = 0; i < d->n_types; i++)
		if (d->types[i].is_service) {
			proto_put_str(&service, 1, d->types[i].name);
			proto_put_message(&list, 1, &service);
		}
	proto_put_message(out, SAY_SERVICES, &list);
}

/* ServerReflectionResponse. false: @question is none of protobuf. */
static bool say_answer(const struct describe *d, struct bytes question, struct buf *out)
{
	struct proto_field f, asked = { 0 };
	struct cursor c = cursor_of(question);
	struct str host = STR("");

	while (proto_next(&c, &f)) {
		if (f.wire != PROTO_LEN)
			continue;
		if (f.number == ASK_HOST)
			host = proto_text(&f);
		else
			asked = f;
	}
	if (!cursor_ok(&c))
		return false;
	proto_put_str(out, SAY_HOST, host);
	proto_put_bytes(out, SAY_REQUEST, question.p, question.size);
	switch (asked.number) {
	case ASK_FILE:
		say_file(d, describe_find_file(d, proto_text(&asked)), out);
		break;
	case ASK_SYMBOL:
		say_file(d, describe_find(d, proto_text(&asked)), out);
		break;
	case ASK_EXTENSION:
		say_error(CONNECT_NOT_FOUND, "no message of this server has extensions", out);
		break;
	case ASK_EXTENSIONS_OF:
		say_extensions(d, proto_text(&asked), out);
		break;
	case ASK_SERVICES:
		say_services(d, out);
		break;
	default:
		say_error(CONNECT_INVALID_ARGUMENT, "the question is none that this server knows", out);
	}
	return true;
}

/* ---- a stream ---- */

/* The table of routes does not change, so this is made once, and stays. */
static struct describe services;
static pthread_once_t services_once = PTHREAD_ONCE_INIT;

static void make_services(void)
{
	describe_init(&services, server_routes);
}

struct reflecting {
	struct request *req;
	struct rpc_frames frames;
	uint8_t question[QUESTION_MAX];
	size_t n_question;
	unsigned n_questions;
	struct buf out;           /* frames that were not sent */
	size_t out_at;            /* of them, those that were */
	size_t granted;           /* by the memory budget, of `out` */
	bool ended;               /* the client sends no more, or was refused */
	unsigned status;          /* of the refusal; 0: none */
	char text[ERR_TEXT_SIZE]; /* likewise */
	struct http_reply *reply; /* over HTTP/2 */
};

static void reflection_refuse(struct reflecting *s, unsigned status, const char *text)
{
	if (s->ended)
		return;
	s->ended = true;
	s->status = status;
	snprintf(s->text, sizeof(s->text), "%s", text);
}

/* What waits for the client, and the stream itself. false: there is no memory for it. */
static bool grant_answers(struct reflecting *s)
{
	bool crowded = http_is_crowded(s->req->conn);
	size_t size = s->out.room + (crowded ? sizeof(*s) : 0);

	if (size <= s->granted + (crowded ? 0 : ANSWERS_FREE))
		return true;
	if (!budget_try(s->req->service->opts.memory, BUDGET_REPLY, size - s->granted))
		return false;
	s->granted = size;
	return true;
}

/* The client has read everything. */
static void drop_answers(struct reflecting *s)
{
	size_t keep = http_is_crowded(s->req->conn) ? sizeof(*s) : 0;

	buf_done(&s->out);
	s->out_at = 0;
	budget_return(s->req->service->opts.memory, BUDGET_REPLY, s->granted - MIN(keep, s->granted));
	s->granted = MIN(keep, s->granted);
}

static void answer_reflection(struct reflecting *s)
{
	AUTO(buf_done) struct buf answer = { 0 };

	if (++s->n_questions > QUESTIONS || s->out.size - s->out_at > ANSWERS_MAX)
		reflection_refuse(s, 429, "too many questions in one stream, or answers that are not read");
	else if (!say_answer(&services, bytes_of(s->question, s->n_question), &answer))
		reflection_refuse(s, 400, "a question is cut off, or is none of protobuf");
	if (s->ended)
		return;
	/* Those that were sent make room. */
	if (s->out_at && s->out_at >= s->out.size - s->out_at) {
		memmove(s->out.p, s->out.p + s->out_at, s->out.size - s->out_at);
		s->out.size -= s->out_at;
		s->out_at = 0;
	}
	grpc_put_prefix(0, answer.size, &s->out);
	buf_add(&s->out, answer.p, answer.size);
	s->n_question = 0;
	if (!grant_answers(s))
		reflection_refuse(s, 503, NO_MEMORY);
}

static size_t reflection_body(struct request *req, struct bytes chunk)
{
	struct reflecting *s = req->own;
	struct bytes in = chunk;
	struct rpc_piece piece;
	struct err err = { 0 };
	int r = 0;

	while (!s->ended && (r = rpc_frames_next(&s->frames, &in, &piece, &err)) > 0) {
		if (piece.b.size)
			memcpy(s->question + s->n_question, piece.b.p, piece.b.size);
		s->n_question += piece.b.size;
		if (piece.last)
			answer_reflection(s);
	}
	if (r == 0 && !chunk.size)
		r = rpc_frames_end(&s->frames, &err);
	if (r < 0)
		reflection_refuse(s, err.kind == ERR_LIMIT ? 413 : 400, err.text);
	s->ended |= !chunk.size;
	return chunk.size;
}

static void reflection_begin(struct request *req)
{
	enum grpc_form form = grpc_form_of(req->conn);
	struct reflecting *s;

	if (form != GRPC_PLAIN && form != GRPC_WEB) {
		request_refuse(req, 415, "the Content-Type must be application/grpc or application/grpc-web");
		return;
	}
	req->own = s = NEW(struct reflecting);
	s->req = req;
	s->frames = (struct rpc_frames){ .max = QUESTION_MAX, .no_compressed = true };
	if (!grant_answers(s)) {
		request_refuse(req, 503, NO_MEMORY);
		return;
	}
	pthread_once(&services_once, make_services);
	if (form == GRPC_PLAIN)
		(void)http_both_ways(req->conn);
}

/* The trailers have the status: the headers are out. */
static void end_stream(struct reflecting *s)
{
	AUTO(mem_freep) char *code = mem_printf("%u", s->status ? grpc_code_of(s->status) : 0);

	http_reply_trailer(s->reply, "grpc-status", code);
	if (s->status)
		http_reply_trailer(s->reply, "grpc-message", s->text);
	s->req->status = s->status ? s->status : 200;
}

static ssize_t reflection_read(void *arg, uint64_t pos, char *buf, size_t max)
{
	struct reflecting *s = arg;
	size_t n = MIN(max, s->out.size - s->out_at);

	if (!n && s->ended) {
		end_stream(s);
		return HTTP_STREAM_END;
	}
	if (n)
		memcpy(buf, s->out.p + s->out_at, n);
	s->out_at += n;
	s->req->bytes += n;
	if (n && s->out_at == s->out.size)
		drop_answers(s);
	return (ssize_t)n;
}

static enum http_next reflection_run(struct request *req)
{
	struct reflecting *s = req->own;
	const char *type = http_header(req->conn, "Content-Type");

	if (grpc_form_of(req->conn) == GRPC_PLAIN) {
		s->reply = http_reply_stream(HTTP_SIZE_UNKNOWN, reflection_read, s);
		http_reply_header(s->reply, "Content-Type", type);
		http_reply_header(s->reply, "grpc-accept-encoding", GRPC_CODINGS);
		reply_common_headers(req->service, s->reply);
		return request_send(req, 200, s->reply, 0, "made");
	}
	/* The whole body is in. */
	(void)reflection_body(req, (struct bytes){ 0 });
	if (s->status) {
		request_refuse(req, s->status, s->text);
		return HTTP_REPLY;
	}
	grpc_put_end(&s->out);
	(void)request_reply_body(req, 200, &s->out, type, true);
	return HTTP_REPLY;
}

static void reflection_done(struct request *req)
{
	struct reflecting *s = req->own;

	if (!s)
		return;
	budget_return(req->service->opts.memory, BUDGET_REPLY, s->granted);
	buf_done(&s->out);
	http_reply_unref(s->reply);
	free(s);
}

const struct http_handler reflection_post = {
	.begin = reflection_begin, .body = reflection_body, .run = reflection_run, .done = reflection_done
};
