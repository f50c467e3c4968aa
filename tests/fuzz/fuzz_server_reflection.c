/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gRPC's server reflection: a stream of questions. The input is a mode and steps, of which the body is made.
 *
 *   byte 0   bits: gRPC-Web, v1alpha, the client reads nothing before its last question, it hangs up
 *   byte 1   how the body is cut into chunks
 *   then     'q' field8 n8 text: a question; 's' field8 which8 n8 text: the same, for the name of a type or file that
 *            there is, with this text after it; 'x' n16: the last question n more times; 'm' n8 bytes: a message of
 *            these; 'r' n8 bytes: these, without a frame
 *
 * Each question of the steps 'q', 's' and 'x' has one answer, in order, that repeats it, until the stream is refused.
 */
#include "fuzz.h"

#include "grpc_call.h"
#include "server/rpc/describe.h"
#include "wire/proto.h"

#define REFLECTION(version) "/grpc.reflection." version ".ServerReflection/ServerReflectionInfo"
#define BODY_MAX            MIB(1)
#define UNREAD_MAX          KIB(512) /* of answers: the limit of the server, and one answer */

enum { MODE_WEB = 1, MODE_ALPHA = 2, MODE_UNREAD = 4, MODE_GONE = 8 };
enum { SAY_REQUEST = 2, SAY_FILES = 4, SAY_EXTENSIONS = 5, SAY_SERVICES = 6, SAY_ERROR = 7 };

struct made_questions {
	struct buf body;
	struct buf last; /* the last question */
	struct buf all;  /* the questions, framed */
	bool odd;        /* the body has other bytes */
};

static const struct describe *described(void)
{
	static struct describe d;

	if (!d.n_types)
		describe_init(&d, server_routes);
	return &d;
}

static struct str known_name(unsigned which)
{
	const struct describe *d = described();

	which %= d->n_types + d->n_files;
	return which < d->n_types ? d->types[which].name : d->files[which - d->n_types].name;
}

/* ---- the body ---- */

static void put_message(struct buf *out, struct bytes m)
{
	grpc_put_prefix(0, m.size, out);
	buf_add(out, m.p, m.size);
}

static void repeat_last(struct made_questions *q)
{
	put_message(&q->body, buf_bytes(&q->last));
	put_message(&q->all, buf_bytes(&q->last));
}

static void put_question(struct made_questions *q, uint8_t field, struct str name, struct bytes text)
{
	AUTO(buf_done) struct buf value = { 0 };

	buf_add_str(&value, name);
	buf_add(&value, text.p, text.size);
	q->last.size = 0;
	proto_put_bytes(&q->last, MAX(field % 16, 1), value.p, value.size);
	repeat_last(q);
}

static void put_step(struct made_questions *q, uint8_t step, struct cursor *c)
{
	uint8_t field = 0, which = 0;
	struct bytes b;

	if (step == 'q' || step == 's')
		field = cursor_u8(c);
	if (step == 's')
		which = cursor_u8(c);
	b = cursor_bytes(c, MIN((size_t)cursor_u8(c), cursor_left(c)));
	if (field) {
		put_question(q, field, step == 's' ? known_name(which) : STR(""), b);
		return;
	}
	q->odd = true;
	if (step == 'm')
		put_message(&q->body, b);
	else
		buf_add(&q->body, b.p, b.size);
}

static void make_questions(struct made_questions *q, struct bytes in)
{
	struct cursor c = cursor_of(in);

	while (cursor_left(&c) && q->body.size < BODY_MAX) {
		uint8_t step = cursor_u8(&c);

		if (step != 'x') {
			put_step(q, step, &c);
			continue;
		}
		for (unsigned n = cursor_u16(&c); n && q->body.size < BODY_MAX; n--)
			repeat_last(q);
	}
}

/* ---- the answers ---- */

/* The next frame; false: there is none. The flags of trailers end the answers of gRPC-Web. */
static bool next_frame(struct cursor *c, struct bytes *ret)
{
	uint8_t flags;
	uint32_t n;

	if (!cursor_left(c))
		return false;
	flags = cursor_u8(c);
	n = cursor_u32(c);
	*ret = cursor_bytes(c, n);
	FUZZ_CHECK(cursor_ok(c) && (flags == 0 || flags == GRPC_TRAILERS));
	FUZZ_CHECK(flags == 0 || !cursor_left(c));
	return flags == 0;
}

static void check_files(struct bytes answer)
{
	struct cursor c = cursor_of(answer), file;
	struct proto_field f, inner;
	unsigned n = 0;

	for (; proto_next(&c, &f); n++) {
		file = cursor_of(f.b);
		FUZZ_CHECK(f.number == 1 && proto_next(&file, &inner) && inner.number == 1);
		while (proto_next(&file, &inner))
			;
		FUZZ_CHECK(cursor_ok(&file));
	}
	FUZZ_CHECK(cursor_ok(&c) && n);
}

static void check_answer(struct bytes answer, struct bytes question)
{
	struct cursor c = cursor_of(answer);
	struct bytes repeated = { 0 };
	struct proto_field f;
	unsigned n = 0;

	while (proto_next(&c, &f)) {
		if (f.number == SAY_REQUEST)
			repeated = f.b;
		n += f.number >= SAY_FILES && f.number <= SAY_ERROR;
		if (f.number == SAY_FILES)
			check_files(f.b);
	}
	FUZZ_CHECK(cursor_ok(&c) && n == 1);
	FUZZ_CHECK(repeated.size == question.size &&
		   (!question.size || memcmp(repeated.p, question.p, question.size) == 0));
}

static void check_answers(const struct made_questions *q, const struct grpc_call *c)
{
	struct cursor answers = cursor_at(buf_bytes(&c->out), true, 0);
	struct cursor questions = cursor_at(buf_bytes(&q->all), true, 0);
	struct bytes answer, question;
	size_t n = 0;

	FUZZ_CHECK(c->status == 200 || c->status == 400 || c->status == 413 || c->status == 429 ||
		   c->status == 503);
	FUZZ_CHECK(c->reads || c->out.size <= UNREAD_MAX);
	for (; next_frame(&answers, &answer); n++) {
		if (q->odd)
			continue;
		FUZZ_CHECK(next_frame(&questions, &question));
		check_answer(answer, question);
	}
	if (q->odd)
		return;
	/* All were answered, or the stream was refused for their number. */
	FUZZ_CHECK(c->status == 200 || c->status == 429);
	FUZZ_CHECK(!cursor_left(&questions) == (c->status == 200));
}

/* ---- */

static void feed_questions(struct grpc_call *c, struct bytes body, uint8_t cut)
{
	for (unsigned i = 0; body.size; i++) {
		size_t n = MIN((size_t)1 << (cut + (cut & 0x80 ? i : 0)) % 20, body.size);

		grpc_call_feed(c, bytes_of(body.p, n));
		body = (struct bytes){ body.p + n, body.size - n };
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct made_questions q = { 0 };
	struct budget_stats memory;
	struct grpc_call c;

	if (size < 2)
		return 0;
	(void)grpc_call_server();
	make_questions(&q, bytes_of(data + 2, size - 2));
	grpc_call_begin(&c, data[0] & MODE_ALPHA ? REFLECTION("v1alpha") : REFLECTION("v1"),
			data[0] & MODE_WEB, !(data[0] & MODE_UNREAD));
	FUZZ_CHECK(c.wants);
	feed_questions(&c, buf_bytes(&q.body), data[1]);
	grpc_call_end(&c, !(data[0] & MODE_GONE));
	if (!(data[0] & MODE_GONE))
		check_answers(&q, &c);
	grpc_call_done(&c);
	budget_stats(grpc_call_budget(), &memory);
	FUZZ_CHECK(!memory.classes[BUDGET_REPLY].used);
	buf_done(&q.body);
	buf_done(&q.last);
	buf_done(&q.all);
	return 0;
}
