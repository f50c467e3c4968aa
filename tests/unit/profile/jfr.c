/* SPDX-License-Identifier: Apache-2.0 */
#include "folded.h"

#include "base/budget.h"
#include "jfr_writer.h"
#include "profile/input.h"
#include "wire/proto.h"

#define MAX_PROFILES 16u

/* The profiles of a recording, by kind. */
struct kinds {
	struct profile *p[MAX_PROFILES];
	struct str name[MAX_PROFILES];
	unsigned n;
};

static int take_kind(void *arg, struct profile *p, struct str name, struct err *err)
{
	struct kinds *k = arg;

	assert_true(k->n < MAX_PROFILES);
	k->p[k->n] = p;
	k->name[k->n++] = name;
	return 0;
}

static void kinds_done(struct kinds *k)
{
	for (unsigned i = 0; i < k->n; i++)
		profile_free(k->p[i]);
	k->n = 0;
}

static int read_kinds(struct jfr_writer *w, const struct jfr_options *options, struct kinds *k,
		      struct err *err)
{
	*k = (struct kinds){ .n = 0 };
	return profile_read_each(buf_bytes(&w->out), PROFILE_FORMAT_AUTO, NULL, options,
				 (struct profile_sink){ take_kind, k }, err);
}

/* A recording of one chunk with one sample of this stack. */
static void one_sample(struct jfr_writer *w, struct jfr_how how, uint64_t stack)
{
	jfr_begin(w, how);
	jfr_setting(w, "jdk.ExecutionSample", "period", "10 ms");
	jfr_sample(w, stack, 1, 0);
	jfr_end(w, 5000000000);
}

static struct profile *read_one(struct jfr_writer *w)
{
	struct profile *p = NULL;
	struct err err = { 0 };

	assert_done(profile_read(buf_bytes(&w->out), PROFILE_FORMAT_AUTO, NULL, &p, &err));
	jfr_writer_done(w);
	return p;
}

static const char stack_texts[][120] = {
	"[no stack trace]",
	"a.b.Main.main;a.b.Main.f",
	"a.b.Main.main;a.b.Main.f",
	"a.b.Main.main;a.b.Main$$Lambda.run;read;tcp_recvmsg",
	"[truncated: stack depth of the recorder];a.b.Main.f",
	"[no stack trace]",
	"a.b.Main.main;[unknown method]",
};

static void stacks_have_readable_names(void **state)
{
	for (uint64_t i = 0; i < ARRAY_SIZE(stack_texts); i++) {
		AUTO(profile_freep) struct profile *p = NULL;
		struct jfr_writer w = { 0 };
		char want[1024];

		one_sample(&w, (struct jfr_how){ 0 }, i ? i : 77);
		p = read_one(&w);
		snprintf(want, sizeof(want), "%s 10000000\n", stack_texts[i]);
		assert_folded(p, 0, want);
	}
}

/* Names of one lambda in JDK 8, 11, 17 and 21, as the JDK and async-profiler write them; and names that are no such. */
static void classes_that_the_jvm_makes_lose_their_number(void **state)
{
	static const char *const names[][2] = {
		{ "a/b/Main$$Lambda$1/1763847188", "a.b.Main$$Lambda" },
		{ "a/b/Main$$Lambda$72.777379084", "a.b.Main$$Lambda" },
		{ "a/b/Main$$Lambda$14.0x0000000800c03000", "a.b.Main$$Lambda" },
		{ "a/b/Main$$Lambda/0x00007f0540007a08", "a.b.Main$$Lambda" },
		{ "java/lang/invoke/LambdaForm$MH/1834188994", "java.lang.invoke.LambdaForm$MH" },
		{ "jdk/internal/reflect/GeneratedMethodAccessor31",
		  "jdk.internal.reflect.GeneratedMethodAccessor" },
		{ "a/b/Version1234567", "a.b.Version1234567" },
		{ "a/b/libc.so.6", "a.b.libc.so.6" },
		{ "12345678", "12345678" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		AUTO(profile_freep) struct profile *p = NULL;
		struct jfr_writer w = { 0 };
		char want[1024];

		one_sample(&w, (struct jfr_how){ .lambda = names[i][0] }, 3);
		p = read_one(&w);
		snprintf(want, sizeof(want), "a.b.Main.main;%s.run;read;tcp_recvmsg 10000000\n", names[i][1]);
		assert_folded(p, 0, want);
	}
}

static void numbers_and_texts_have_several_encodings(void **state)
{
	for (uint8_t text = 3; text <= 5; text++)
		for (int plain = 0; plain < 2; plain++) {
			AUTO(profile_freep) struct profile *p = NULL;
			struct jfr_writer w = { 0 };

			one_sample(&w, (struct jfr_how){ .plain = plain, .text = text }, 1);
			p = read_one(&w);
			assert_folded(p, 0, "a.b.Main.main;a.b.Main.f 10000000\n");
		}
}

static void inlined_frames_are_lines_of_a_location(void **state)
{
	AUTO(profile_freep) struct profile *p = NULL;
	struct jfr_writer w = { 0 };
	const struct profile_location *l;

	one_sample(&w, (struct jfr_how){ 0 }, 2);
	p = read_one(&w);
	assert_int_equal(p->locations.n, 1);
	l = &p->locations.p[0];
	assert_int_equal(l->n_lines, 2);
	assert_str(profile_str(p, p->mappings.p[l->mapping].file), "[java]");
	assert_int_equal(p->lines.p[l->first_line].line, 21);
	assert_int_equal(p->lines.p[l->first_line + 1].line, 11);
}

/* The binary of each frame, leaf first. */
static void assert_binaries(const struct profile *p, const char *want)
{
	AUTO(buf_done) struct buf b = { 0 };

	for (uint32_t s = p->sample_stack[0]; s; s = p->stacks.p[s].parent)
		buf_add_str(
			&b,
			profile_str(p, p->mappings.p[p->locations.p[p->stacks.p[s].location].mapping].file));
	assert_string_equal(buf_cstr(&b), want);
}

static void binaries_say_the_kind_of_a_frame(void **state)
{
	AUTO(profile_freep) struct profile *p = NULL;
	struct jfr_writer w = { 0 };

	one_sample(&w, (struct jfr_how){ 0 }, 3);
	p = read_one(&w);
	assert_binaries(p, "[kernel][libc.so.6][java][java]");
	/* In a recording of the JDK, a native method is one of Java. */
	profile_free(TAKE(p));
	one_sample(&w, (struct jfr_how){ .no_kernel = true }, 3);
	p = read_one(&w);
	assert_binaries(p, "[java][java][java][java]");
}

static void put_kinds(struct jfr_writer *w)
{
	jfr_begin(w, (struct jfr_how){ 0 });
	jfr_setting(w, "jdk.ExecutionSample", "event", "cpu");
	jfr_setting(w, "jdk.ExecutionSample", "interval", "20000000");
	jfr_setting(w, "jdk.ExecutionSample", "wall", "40000000");
	jfr_unknown(w);
	jfr_sample(w, 1, 1, 0);
	jfr_sample(w, 1, 1, 0);
	jfr_sample(w, 3, 2, 0); /* it sleeps */
	jfr_wall(w, 2, 2, 3);
	jfr_alloc(w, 1, 100, 4096);
	jfr_alloc(w, 1, 50, 2048);
	jfr_monitor(w, 1, 500);
	jfr_end(w, 3000000000);
}

static void assert_kind(const struct kinds *k, const char *name, const char *type, const char *want)
{
	for (unsigned i = 0; i < k->n; i++)
		if (str_eq(k->name[i], str_of(name)) &&
		    profile_type_find(k->p[i], str_of(type)) != PROFILE_NONE) {
			assert_folded_type(k->p[i], type, want);
			return;
		}
	fail_msg("no %s of %s", type, name);
}

static void each_kind_of_event_is_a_profile(void **state)
{
	struct jfr_writer w = { 0 };
	struct err err = { 0 };
	struct kinds k;

	put_kinds(&w);
	assert_done(read_kinds(&w, NULL, &k, &err));
	assert_int_equal(k.n, 4);
	assert_kind(&k, "process_cpu", "cpu", "a.b.Main.main;a.b.Main.f 40000000\n");
	assert_kind(&k, "wall", "wall",
		    "a.b.Main.main;a.b.Main.f 120000000\na.b.Main.main;a.b.Main$$Lambda.run;read;tcp_recvmsg "
		    "40000000\n");
	assert_kind(&k, "memory", "alloc_in_new_tlab_objects", "a.b.Main.main;a.b.Main.f 2\n");
	assert_kind(&k, "memory", "alloc_in_new_tlab_bytes", "a.b.Main.main;a.b.Main.f 6144\n");
	assert_kind(&k, "mutex", "contentions", "a.b.Main.main;a.b.Main.f 1\n");
	assert_kind(&k, "mutex", "delay", "a.b.Main.main;a.b.Main.f 1000\n");
	for (unsigned i = 0; i < k.n; i++) {
		assert_int_equal(k.p[i]->time_ns, JFR_START_NS);
		assert_int_equal(k.p[i]->duration_ns, 3000000000);
		assert_int_equal(k.p[i]->label_sets.n, 1);
	}
	assert_int_equal(k.p[0]->period, 20000000);
	assert_str(profile_str(k.p[0], k.p[0]->period_type.type), "cpu");
	kinds_done(&k);
	jfr_writer_done(&w);
}

static void a_command_gets_one_profile(void **state)
{
	AUTO(profile_freep) struct profile *p = NULL;
	struct jfr_writer w = { 0 };
	const struct profile_label *l;

	put_kinds(&w);
	p = read_one(&w);
	assert_int_equal(p->types.n, 6);
	assert_int_equal(profile_type_find(p, STR("")), 0);
	assert_folded_type(p, "cpu", "a.b.Main.main;a.b.Main.f 40000000\n");
	assert_folded_type(p, "mutex_delay", "a.b.Main.main;a.b.Main.f 1000\n");
	/* Threads of a service would be a series each. */
	assert_int_equal(p->label_sets.n, 2);
	l = &p->labels.p[p->label_sets.p[1].first];
	assert_str(profile_str(p, l->key), "thread");
	assert_str(profile_str(p, l->str), "worker-1");
}

static void cpu_time_is_counted_once(void **state)
{
	struct jfr_writer w = { 0 };
	struct err err = { 0 };
	struct kinds k;

	jfr_begin(&w, (struct jfr_how){ 0 });
	jfr_sample(&w, 1, 1, 0);
	jfr_cpu_time(&w, 2, 5000);
	jfr_cpu_time(&w, 0, 5000);
	jfr_end(&w, 1);
	assert_done(read_kinds(&w, NULL, &k, &err));
	assert_int_equal(k.n, 1);
	assert_folded_type(k.p[0], "cpu", "[no stack trace] 10000\na.b.Main.main;a.b.Main.f 10000\n");
	kinds_done(&k);
	jfr_writer_done(&w);
}

static void a_wall_clock_sees_cpu_time_too(void **state)
{
	struct jfr_writer w = { 0 };
	struct err err = { 0 };
	struct kinds k;

	jfr_begin(&w, (struct jfr_how){ 0 });
	jfr_setting(&w, "jdk.ExecutionSample", "event", "wall");
	jfr_setting(&w, "jdk.ExecutionSample", "interval", "0");
	jfr_wall(&w, 1, 1, 2);
	jfr_wall(&w, 2, 2, 5);
	jfr_end(&w, 1);
	assert_done(read_kinds(&w, NULL, &k, &err));
	assert_int_equal(k.n, 2);
	assert_kind(&k, "process_cpu", "cpu", "a.b.Main.main;a.b.Main.f 100000000\n");
	assert_kind(&k, "wall", "wall", "a.b.Main.main;a.b.Main.f 350000000\n");
	kinds_done(&k);
	jfr_writer_done(&w);
}

static void events_that_are_no_clock_keep_their_name(void **state)
{
	struct jfr_writer w = { 0 };
	struct err err = { 0 };
	struct kinds k;

	jfr_begin(&w, (struct jfr_how){ 0 });
	jfr_setting(&w, "jdk.ExecutionSample", "event", "cache-misses");
	jfr_setting(&w, "jdk.ExecutionSample", "interval", "1000");
	jfr_sample(&w, 1, 1, 0);
	jfr_end(&w, 1);
	assert_done(read_kinds(&w, NULL, &k, &err));
	assert_kind(&k, "events", "cache-misses", "a.b.Main.main;a.b.Main.f 1000\n");
	kinds_done(&k);
	jfr_writer_done(&w);
}

static void a_sample_without_an_interval_uses_the_rate(void **state)
{
	const struct jfr_options options = { .sample_rate = 50 };
	struct jfr_writer w = { 0 };
	struct err err = { 0 };
	struct kinds k;

	jfr_begin(&w, (struct jfr_how){ 0 });
	jfr_sample(&w, 1, 1, 0);
	jfr_end(&w, 1);
	assert_done(read_kinds(&w, &options, &k, &err));
	assert_int_equal(profile_total(k.p[0], 0), 20000000);
	kinds_done(&k);
	jfr_writer_done(&w);
}

/* ---- labels ---- */

static void put_entry(struct buf *to, uint32_t field, uint64_t key, uint64_t number, struct buf *message,
		      const char *text)
{
	AUTO(buf_done) struct buf e = { 0 };

	proto_put_number(&e, 1, key);
	if (message)
		proto_put_message(&e, 2, message);
	else if (text)
		proto_put_str(&e, 2, str_of(text));
	else
		proto_put_number(&e, 2, number);
	proto_put_message(to, field, &e);
}

static void contexts_have_labels(void **state)
{
	AUTO(buf_done) struct buf context = { 0 }, labels = { 0 };
	struct jfr_writer w = { 0 };
	struct jfr_options options;
	struct err err = { 0 };
	struct kinds k;
	const struct profile_label *l;

	put_entry(&context, 1, 1, 2, NULL, NULL);
	put_entry(&context, 1, 9, 2, NULL, NULL); /* no such string */
	put_entry(&labels, 1, 7, 0, &context, NULL);
	put_entry(&labels, 2, 2, 0, NULL, "/orders");
	put_entry(&labels, 2, 1, 0, NULL, "handler");
	jfr_begin(&w, (struct jfr_how){ 0 });
	jfr_sample(&w, 1, 1, 7);
	jfr_sample(&w, 1, 1, 8);
	jfr_sample(&w, 1, 1, 0);
	jfr_end(&w, 1);
	options = (struct jfr_options){ .labels = buf_bytes(&labels), .sample_rate = 100 };
	assert_done(read_kinds(&w, &options, &k, &err));
	assert_int_equal(k.p[0]->n_samples, 2);
	assert_int_equal(profile_value(k.p[0], 0, 0), 10000000);
	assert_int_equal(k.p[0]->label_sets.p[k.p[0]->sample_labels[0]].n, 1);
	l = &k.p[0]->labels.p[k.p[0]->label_sets.p[k.p[0]->sample_labels[0]].first];
	assert_str(profile_str(k.p[0], l->key), "handler");
	assert_str(profile_str(k.p[0], l->str), "/orders");
	kinds_done(&k);
	options.labels = bytes_of("\x0a\x7f", 2);
	assert_int_equal(read_kinds(&w, &options, &k, &err), -1);
	assert_string_equal(err.text, "its labels: are no LabelsSnapshot of protobuf, or are cut off");
	jfr_writer_done(&w);
}

/* ---- chunks ---- */

static void chunks_add_up(void **state)
{
	AUTO(profile_freep) struct profile *p = NULL;
	struct jfr_writer w = { 0 };

	one_sample(&w, (struct jfr_how){ 0 }, 1);
	one_sample(&w, (struct jfr_how){ .plain = true }, 1);
	one_sample(&w, (struct jfr_how){ .text = 5 }, 3);
	p = read_one(&w);
	assert_folded(
		p, 0,
		"a.b.Main.main;a.b.Main.f 20000000\na.b.Main.main;a.b.Main$$Lambda.run;read;tcp_recvmsg "
		"10000000\n");
	assert_int_equal(p->comments.n, 0);
}

static void an_unfinished_chunk_is_read_as_far_as_it_goes(void **state)
{
	AUTO(profile_freep) struct profile *p = NULL;
	struct jfr_writer w = { 0 };

	one_sample(&w, (struct jfr_how){ 0 }, 1);
	one_sample(&w, (struct jfr_how){ .no_size = true }, 3);
	buf_add_str(&w.out, STR("\x90\x01 the writer was here"));
	p = read_one(&w);
	assert_folded(
		p, 0,
		"a.b.Main.main;a.b.Main$$Lambda.run;read;tcp_recvmsg 10000000\na.b.Main.main;a.b.Main.f "
		"10000000\n");
	assert_int_equal(p->comments.n, 1);
	assert_str(profile_str(p, p->comments.p[0]),
		   "chunk 2 of the recording is unfinished: its last events are missing");
}

static void assert_refused(struct jfr_writer *w, size_t size, enum err_kind kind, const char *text)
{
	struct profile *p = NULL;
	struct err err = { 0 };

	assert_int_equal(profile_read(bytes_of(w->out.p, size), PROFILE_FORMAT_AUTO, NULL, &p, &err), -1);
	assert_int_equal(err.kind, kind);
	if (!strstr(err.text, text))
		assert_string_equal(err.text, text);
	jfr_writer_done(w);
}

static void refusals_name_the_place(void **state)
{
	struct jfr_writer w = { 0 };

	one_sample(&w, (struct jfr_how){ 0 }, 1);
	assert_refused(&w, 30, ERR_INVALID, "chunk 1: its header is cut off");
	one_sample(&w, (struct jfr_how){ 0 }, 1);
	assert_refused(&w, 150, ERR_INVALID, "unfinished recording without metadata: stop it");
	one_sample(&w, (struct jfr_how){ .major = 1 }, 1);
	assert_refused(&w, w.out.size, ERR_INVALID, "chunk 1: it is of version 1.1, and only 2.x is read");
	one_sample(&w, (struct jfr_how){ .n_frames = 3 }, 1);
	assert_refused(&w, w.out.size, ERR_INVALID, "chunk 1: the checkpoint at byte ");
	one_sample(&w, (struct jfr_how){ .n_frames = UINT32_MAX }, 1);
	assert_refused(&w, w.out.size, ERR_INVALID, "jdk.types.StackTrace: it ends within a field");
	one_sample(&w, (struct jfr_how){ .loop = true }, 1);
	assert_refused(&w, w.out.size, ERR_LIMIT,
		       "the class jdk.types.StackFrame: structs are nested deeper than 8");
	/* An event that is longer than the chunk. */
	one_sample(&w, (struct jfr_how){ 0 }, 1);
	w.out.p[68] = 0xff;
	w.out.p[69] = 0x7f;
	assert_refused(&w, w.out.size, ERR_INVALID, "chunk 1: the event at byte 68 has the size 16383, of ");
	/* One whose fields do not fit into it. */
	jfr_begin(&w, (struct jfr_how){ 0 });
	jfr_monitor(&w, 1, 1);
	w.out.p[68]--;
	jfr_end(&w, 1);
	assert_refused(&w, w.out.size, ERR_INVALID, "chunk 1: ");
	jfr_begin(&w, (struct jfr_how){ 0 });
	jfr_unknown(&w);
	jfr_end(&w, 1);
	assert_refused(&w, w.out.size, ERR_INVALID, "has no samples: no events of CPU time, allocation");
}

static void each_prefix_and_each_byte_is_safe(void **state)
{
	struct jfr_writer w = { 0 };
	struct kinds k;

	put_kinds(&w);
	for (size_t size = 0; size < w.out.size; size++) {
		struct profile *p = NULL;
		struct err err = { 0 };

		if (profile_read(bytes_of(w.out.p, size), PROFILE_FORMAT_JFR, NULL, &p, &err) == 0)
			profile_free(p);
	}
	for (size_t i = 4; i < w.out.size; i++) {
		uint8_t was = w.out.p[i];
		struct err err = { 0 };

		w.out.p[i] ^= 0x81;
		(void)read_kinds(&w, NULL, &k, &err);
		kinds_done(&k);
		w.out.p[i] = was;
	}
	jfr_writer_done(&w);
}

/* Names of settings are Latin-1 here: of the 16 bytes that are looked at, a last character of two bytes begins at the 15th. */
static void a_long_name_of_a_setting_is_cut(void **state)
{
	AUTO(profile_freep) struct profile *p = NULL;
	struct jfr_writer w = { 0 };

	jfr_begin(&w, (struct jfr_how){ 0 });
	jfr_setting(&w, "jdk.ExecutionSample", "aaaaaaaaaaaaaaa\xe9", "20 ms");
	jfr_setting(&w, "jdk.ExecutionSample", "period", "10 ms");
	jfr_sample(&w, 1, 1, 0);
	jfr_end(&w, 5000000000);
	p = read_one(&w);
	assert_folded(p, 0, "a.b.Main.main;a.b.Main.f 10000000\n");
}

static void memory_is_bounded(void **state)
{
	const struct profile_limits limits = { .max_memory = 2000 };
	struct jfr_writer w = { 0 };
	struct profile *p = NULL;
	struct err err = { 0 };

	one_sample(&w, (struct jfr_how){ 0 }, 1);
	assert_int_equal(profile_read(buf_bytes(&w.out), PROFILE_FORMAT_AUTO, &limits, &p, &err), -1);
	assert_int_equal(err.kind, ERR_LIMIT);
	jfr_writer_done(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stacks_have_readable_names),
		cmocka_unit_test(classes_that_the_jvm_makes_lose_their_number),
		cmocka_unit_test(numbers_and_texts_have_several_encodings),
		cmocka_unit_test(inlined_frames_are_lines_of_a_location),
		cmocka_unit_test(binaries_say_the_kind_of_a_frame),
		cmocka_unit_test(each_kind_of_event_is_a_profile),
		cmocka_unit_test(a_command_gets_one_profile),
		cmocka_unit_test(cpu_time_is_counted_once),
		cmocka_unit_test(a_wall_clock_sees_cpu_time_too),
		cmocka_unit_test(events_that_are_no_clock_keep_their_name),
		cmocka_unit_test(a_sample_without_an_interval_uses_the_rate),
		cmocka_unit_test(contexts_have_labels),
		cmocka_unit_test(chunks_add_up),
		cmocka_unit_test(an_unfinished_chunk_is_read_as_far_as_it_goes),
		cmocka_unit_test(refusals_name_the_place),
		cmocka_unit_test(each_prefix_and_each_byte_is_safe),
		cmocka_unit_test(a_long_name_of_a_setting_is_cut),
		cmocka_unit_test(memory_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
