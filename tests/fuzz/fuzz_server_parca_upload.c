/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parca's Upload by stream, from the first frame to the object in the store. The input is a mode and steps, of which the
 * body is made: so messages fit each other although their numbers are random, and files are larger than the upload's buffers.
 *
 *   byte 0   bits: gRPC-Web, a hash instead of a build ID, a large file, the client hangs up, the upload was initiated with
 *            a byte less, with a byte more
 *   byte 1   how the body is cut into chunks
 *   then     'i' the info; 'c' n16: a message with the next 64 * n bytes of the file; 'I' n8 bytes: an info of these;
 *            'C' n8 bytes: a chunk of these; 'm' n8 bytes: a message of these; 'r' n8 bytes: these, without a frame
 *
 * A stream of the steps 'i' and 'c' alone has a known outcome.
 */
#include "fuzz.h"

#include <unistd.h>
#include "elf_writer.h"
#include "grpc_call.h"
#include "server/push/pass.h"
#include "server/push/push.h"
#include "wire/proto.h"

#define UPLOAD_PATH "/parca.debuginfo.v1alpha1.DebuginfoService/Upload"
#define FILE_ID     "00112233445566778899aabbccddeeff00112233"
#define FILE_HASH   "0123456789abcdef0123456789abcdef"
#define SMALL_FILE  1000u
#define LARGE_FILE  (5 * PUSH_BUFFER / 2)
#define BODY_MAX    MIB(2)
#define STEP_BYTES  64u

enum { MODE_WEB = 1, MODE_HASH = 2, MODE_LARGE = 4, MODE_GONE = 8, MODE_LESS = 16, MODE_MORE = 32 };
enum { SENT_INFO = 1, SENT_CHUNK = 2 };

struct made_stream {
	struct bytes file;
	struct pass pass;
	struct buf body;
	size_t n_file;
	unsigned n_infos;
	bool odd;   /* it has bytes of the input */
	bool wrong; /* its steps are in an order that must be refused */
};

static struct bytes file_of_mode(uint8_t mode)
{
	static struct buf files[2];
	struct buf *file = &files[(mode & MODE_LARGE) != 0];

	if (!file->size)
		elf_writer_debug_file(file, ET_DYN, FILE_ID, mode & MODE_LARGE ? LARGE_FILE : SMALL_FILE);
	return buf_bytes(file);
}

static void give_pass(struct made_stream *s, uint8_t mode)
{
	struct push *push = grpc_call_server()->push;
	char secret[PASS_SECRET_SIZE];
	struct err err = { 0 };

	/* An hour of them would not fit. */
	passes_free(push->passes);
	push->passes = passes_new(0);
	s->pass = (struct pass){ .size = s->file.size - ((mode & MODE_LESS) != 0) + ((mode & MODE_MORE) != 0),
				 .by_sender = mode & MODE_HASH,
				 .is_admin = true };
	FUZZ_CHECK(build_id_parse(&s->pass.id, str_of(mode & MODE_HASH ? FILE_HASH : FILE_ID)));
	snprintf(s->pass.owner, sizeof(s->pass.owner), "%s", PUSH_LOCAL);
	FUZZ_CHECK(pass_give(push->passes, &s->pass, secret, &err) == 0);
}

/* ---- the body ---- */

static void put_frame(struct made_stream *s, struct bytes message)
{
	grpc_put_prefix(0, message.size, &s->body);
	buf_add(&s->body, message.p, message.size);
}

static void put_part(struct made_stream *s, uint32_t field, struct bytes b)
{
	AUTO(buf_done) struct buf m = { 0 };

	proto_put_bytes(&m, field, b.p, b.size);
	put_frame(s, buf_bytes(&m));
}

static void put_info(struct made_stream *s)
{
	AUTO(buf_done) struct buf m = { 0 };
	char number[PASS_NUMBER_SIZE];

	pass_print_number(s->pass.number, number);
	proto_put_str(&m, 1, str_of(s->pass.by_sender ? FILE_HASH : FILE_ID));
	proto_put_str(&m, 2, str_of(number));
	put_part(s, SENT_INFO, buf_bytes(&m));
	s->wrong |= s->n_infos++ > 0;
}

static void put_next_bytes(struct made_stream *s, size_t n)
{
	n = MIN(n, s->file.size - MIN(s->n_file, s->file.size));
	put_part(s, SENT_CHUNK, bytes_of(s->file.p + s->n_file, n));
	s->n_file += n;
	s->wrong |= !s->n_infos;
}

static void put_step(struct made_stream *s, uint8_t step, struct bytes b)
{
	s->odd = true;
	switch (step) {
	case 'I':
		put_part(s, SENT_INFO, b);
		break;
	case 'C':
		put_part(s, SENT_CHUNK, b);
		break;
	case 'm':
		put_frame(s, b);
		break;
	default:
		buf_add(&s->body, b.p, b.size);
	}
}

static void make_body(struct made_stream *s, struct bytes in)
{
	struct cursor c = cursor_of(in);

	while (cursor_left(&c) && s->body.size < BODY_MAX) {
		uint8_t step = cursor_u8(&c);

		if (step == 'i')
			put_info(s);
		else if (step == 'c')
			put_next_bytes(s, STEP_BYTES * (size_t)cursor_u16(&c));
		else
			put_step(s, step, cursor_bytes(&c, MIN((size_t)cursor_u8(&c), cursor_left(&c))));
	}
}

/* ---- the call ---- */

static void feed_body(struct grpc_call *c, struct bytes body, uint8_t cut)
{
	/* Of a large body not each byte alone. */
	unsigned least = body.size > KIB(8) ? 9 : 0;

	for (unsigned i = 0; body.size; i++) {
		size_t n = MIN((size_t)1 << MAX((cut + (cut & 0x80 ? i : 0)) % 20, least), body.size);

		grpc_call_feed(c, bytes_of(body.p, n));
		body = (struct bytes){ body.p + n, body.size - n };
	}
}

static void check_outcome(const struct made_stream *s, unsigned status)
{
	static const unsigned all[] = { 200, 400, 404, 409, 413, 422, 501, 503, 507 };
	enum pass_state state = pass_state(grpc_call_server()->push->passes, s->pass.number, &s->pass.id);
	bool all_sent = s->n_file == s->pass.size, known = false;

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		known |= status == all[i];
	FUZZ_CHECK(known);
	FUZZ_CHECK((status == 200) == (state == PASS_DONE));
	/* The store judges a file that is cut off, and one that may have another hash. */
	if (s->odd || (all_sent && s->n_file != s->file.size))
		return;
	if (s->pass.by_sender && status == 422)
		return;
	FUZZ_CHECK(status == (all_sent && s->n_infos && !s->wrong ? 200u : 400u));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct push *push = grpc_call_server()->push;
	struct made_stream s = { 0 };
	struct grpc_call c;

	if (size < 2)
		return 0;
	s.file = file_of_mode(data[0]);
	give_pass(&s, data[0]);
	make_body(&s, bytes_of(data + 2, size - 2));
	grpc_call_begin(&c, UPLOAD_PATH, data[0] & MODE_WEB, true);
	FUZZ_CHECK(c.wants);
	feed_body(&c, buf_bytes(&s.body), data[1]);
	grpc_call_end(&c, !(data[0] & MODE_GONE));
	if (!(data[0] & MODE_GONE))
		check_outcome(&s, c.status);
	grpc_call_done(&c);
	/* A worker may still have the last bytes of a client that has gone. */
	while (atomic_load(&push->n_uploads))
		usleep(20);
	FUZZ_CHECK(!push->first);
	buf_done(&s.body);
	return 0;
}
