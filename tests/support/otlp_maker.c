/* SPDX-License-Identifier: Apache-2.0 */
#include "otlp_maker.h"

#include <endian.h>

enum {
	S_NONE,
	S_SAMPLES,
	S_COUNT,
	S_CPU,
	S_NANOSECONDS,
	S_FILE,
	S_GNU,
	S_BUILD_ID,
	S_INLINE,
	S_OUTER,
	S_SOURCE,
	S_THREAD,
	S_WORKER,
	S_TID,
	S_SERVICE,
	S_WEB,
	S_PID,
	N_STRINGS
};

static void put_fixed64(struct buf *b, uint32_t field, uint64_t v)
{
	buf_add_uleb(b, field << 3 | PROTO_64);
	v = htole64(v);
	buf_add(b, &v, sizeof(v));
}

static void put_text_value(struct buf *to, uint32_t field, uint64_t string)
{
	AUTO(buf_done) struct buf value = { 0 };

	proto_put_number(&value, 8, string);
	proto_put_message(to, field, &value);
}

static void put_dictionary(const struct otlp_request_parts *parts, struct buf *out)
{
	const struct str strings[N_STRINGS] = { STR(""),
						STR("samples"),
						STR("count"),
						STR("cpu"),
						STR("nanoseconds"),
						STR("/bin/x"),
						STR("process.executable.build_id.gnu"),
						parts->build_id,
						STR("inline_"),
						STR("outer"),
						STR("x.c"),
						STR("thread.name"),
						STR("worker"),
						STR("thread.id"),
						STR("service.name"),
						STR("web"),
						STR("process.pid") };
	AUTO(buf_done) struct buf d = { 0 };
	AUTO(buf_done) struct buf m = { 0 };
	AUTO(buf_done) struct buf sub = { 0 };

	for (size_t i = 0; i < N_STRINGS; i++)
		proto_put_bytes(&d, 5, strings[i].p, strings[i].size);
	/* attributes: nothing, build ID, thread's name, thread's number */
	proto_put_message(&d, 6, &m);
	proto_put_number(&m, 1, S_GNU);
	put_text_value(&m, 2, S_BUILD_ID);
	proto_put_message(&d, 6, &m);
	proto_put_number(&m, 1, S_THREAD);
	put_text_value(&m, 2, S_WORKER);
	proto_put_message(&d, 6, &m);
	proto_put_number(&m, 1, S_TID);
	proto_put_number(&sub, 3, 4711);
	proto_put_message(&m, 2, &sub);
	proto_put_message(&d, 6, &m);
	/* mappings: nothing, /bin/x */
	proto_put_message(&d, 1, &m);
	proto_put_number(&m, 1, 0x1000);
	proto_put_number(&m, 2, 0x3000);
	proto_put_number(&m, 3, 0x1000);
	proto_put_number(&m, 4, S_FILE);
	if (parts->build_id.size)
		proto_put_bytes(&m, 5, "\1", 1);
	proto_put_message(&d, 1, &m);
	/* functions: nothing, inline_, outer */
	proto_put_message(&d, 3, &m);
	for (uint64_t f = S_INLINE; f <= S_OUTER; f++) {
		proto_put_number(&m, 1, f);
		proto_put_number(&m, 3, S_SOURCE);
		proto_put_message(&d, 3, &m);
	}
	/* locations: nothing, bare, with lines */
	proto_put_message(&d, 2, &m);
	proto_put_number(&m, 1, 1);
	proto_put_number(&m, 2, 0x1234);
	proto_put_message(&d, 2, &m);
	for (uint64_t f = 1; f <= 2; f++) {
		proto_put_number(&sub, 1, f);
		proto_put_number(&sub, 2, 5 + 2 * f);
		proto_put_message(&m, 3, &sub);
	}
	proto_put_message(&d, 2, &m);
	/* stacks: nothing; leaf first */
	proto_put_message(&d, 7, &m);
	proto_put_bytes(&m, 1, "\1\2", 2);
	proto_put_message(&d, 7, &m);
	proto_put_message(out, 2, &d);
}

static void put_sample(const struct otlp_request_parts *parts, struct buf *profile)
{
	AUTO(buf_done) struct buf s = { 0 };

	proto_put_number(&s, 1, parts->stack);
	proto_put_bytes(&s, 2, "\2\3", 2);
	if (parts->with_values)
		proto_put_bytes(&s, 4, "\5\7", 2);
	else
		proto_put_bytes(&s, 5, "0123456789abcdef", 16);
	proto_put_message(profile, 2, &s);
}

static void put_type(struct buf *profile, uint32_t field, uint64_t type, uint64_t unit)
{
	AUTO(buf_done) struct buf t = { 0 };

	proto_put_number(&t, 1, type);
	proto_put_number(&t, 2, unit);
	proto_put_message(profile, field, &t);
}

static void put_resource(const struct otlp_request_parts *parts, struct buf *to)
{
	AUTO(buf_done) struct buf resource = { 0 };
	AUTO(buf_done) struct buf a = { 0 };
	AUTO(buf_done) struct buf value = { 0 };

	if (!parts->no_service) {
		proto_put_number(&a, 3, S_SERVICE);
		put_text_value(&a, 2, S_WEB);
		proto_put_message(&resource, 1, &a);
	}
	if (parts->program.size) {
		proto_put_str(&a, 1, STR("process.executable.name"));
		proto_put_str(&value, 1, parts->program);
		proto_put_message(&a, 2, &value);
		proto_put_message(&resource, 1, &a);
	}
	proto_put_number(&a, 3, S_PID);
	proto_put_number(&value, 3, 42);
	proto_put_message(&a, 2, &value);
	proto_put_message(&resource, 1, &a);
	/* an attribute as other senders write it */
	proto_put_str(&a, 1, STR("host.name"));
	proto_put_str(&value, 1, STR("node-1"));
	proto_put_message(&a, 2, &value);
	proto_put_message(&resource, 1, &a);
	proto_put_message(to, 1, &resource);
}

void otlp_make(const struct otlp_request_parts *parts, uint64_t time_ns, struct buf *out)
{
	AUTO(buf_done) struct buf profile = { 0 };
	AUTO(buf_done) struct buf scope = { 0 };
	AUTO(buf_done) struct buf resource = { 0 };

	put_type(&profile, 1, S_SAMPLES, S_COUNT);
	put_sample(parts, &profile);
	if (parts->old)
		proto_put_bytes(&profile, 3, "\1\2", 2);
	else
		put_fixed64(&profile, 3, time_ns);
	proto_put_number(&profile, 4, 5000000000);
	put_type(&profile, 5, S_CPU, S_NANOSECONDS);
	proto_put_number(&profile, 6, 20000000);
	proto_put_message(&scope, 2, &profile);
	put_resource(parts, &resource);
	proto_put_message(&resource, 2, &scope);
	proto_put_message(out, 1, &resource);
	if (!parts->no_dictionary)
		put_dictionary(parts, out);
}
