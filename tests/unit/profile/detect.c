/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "profile/input.h"
#include "profile/pprof_read.h"
#include "profile_maker.h"
#include "profile_same.h"

/* The message as Go's runtime writes it: times first, samples next, strings last. */
static void write_like_go(struct bytes in, struct buf *out)
{
	static const uint32_t order[] = { PPROF_TIME,         PPROF_DURATION,    PPROF_PERIOD_TYPE,
					  PPROF_PERIOD,       PPROF_SAMPLE_TYPE, PPROF_SAMPLE,
					  PPROF_MAPPING,      PPROF_LOCATION,    PPROF_FUNCTION,
					  PPROF_COMMENT,      PPROF_DROP_FRAMES, PPROF_KEEP_FRAMES,
					  PPROF_DEFAULT_TYPE, PPROF_DOC_URL,     PPROF_STRING };

	for (size_t i = 0; i < ARRAY_SIZE(order); i++) {
		struct cursor c = cursor_of(in), before = c;
		struct proto_field f;

		for (; proto_next(&c, &f); before = c)
			if (f.number == order[i])
				buf_add(out, before.p, (size_t)(c.p - before.p));
	}
}

static void message_of(const struct profile_maker *m, struct buf *ret)
{
	AUTO(profile_freep) struct profile *p = profile_make(m);
	struct err err = { 0 };

	p->time_ns = 1700000000000000001;
	assert_done(profile_write_pprof(p, false, ret, &err));
}

/* Without the zero bytes that are numbers: as a profile whose only one is the empty string. */
static void large_profiles_of_go(void **state)
{
	AUTO(buf_done) struct buf b = { 0 }, m = { 0 };
	AUTO(profile_freep) struct profile *p = NULL;
	struct err err = { 0 };

	proto_number(&b, PPROF_TIME, 1700000000123456789);
	proto_number(&m, 1, 1);
	proto_number(&m, 2, 2);
	proto_bytes(&b, PPROF_SAMPLE_TYPE, m.p, m.size);
	for (unsigned i = 0; i < 20000; i++) {
		m.size = 0;
		proto_bytes(&m, 1, "\1\1\1", 3);
		proto_bytes(&m, 2, "\7", 1);
		proto_bytes(&b, PPROF_SAMPLE, m.p, m.size);
	}
	m.size = 0;
	proto_number(&m, 1, 1);
	proto_number(&m, 3, 0x1234);
	proto_bytes(&b, PPROF_LOCATION, m.p, m.size);
	assert_null(memchr(b.p, '\0', b.size));
	proto_bytes(&b, PPROF_STRING, "", 0);
	proto_bytes(&b, PPROF_STRING, "samples", 7);
	proto_bytes(&b, PPROF_STRING, "count", 5);
	assert_true(b.size > KIB(128));
	assert_done(profile_read(buf_bytes(&b), PROFILE_FORMAT_AUTO, NULL, &p, &err));
	assert_int_equal(p->n_samples, 20000);
	assert_int_equal(profile_total(p, 0), 140000);
	assert_int_equal(p->time_ns, 1700000000123456789);
}

static void fields_in_any_order(void **state)
{
	for (uint64_t seed = 0; seed < 20; seed++) {
		const struct profile_maker m = { seed, 1, (unsigned)seed * 20, 20, 5, seed % 2 };
		AUTO(buf_done) struct buf b = { 0 }, go = { 0 };
		AUTO(profile_freep) struct profile *p = NULL;
		AUTO(profile_freep) struct profile *q = NULL;
		struct err err = { 0 };
		char what[PROFILE_WHAT_SIZE];

		message_of(&m, &b);
		write_like_go(buf_bytes(&b), &go);
		assert_int_equal(go.size, b.size);
		assert_done(profile_read(buf_bytes(&b), PROFILE_FORMAT_AUTO, NULL, &p, &err));
		assert_done(profile_read(buf_bytes(&go), PROFILE_FORMAT_AUTO, NULL, &q, &err));
		assert_true(profile_same(p, q, what));
	}
}

static void damaged_profiles_are_named_so(void **state)
{
	const struct profile_maker m = { 3, 1, 40, 20, 5, false };
	AUTO(buf_done) struct buf b = { 0 }, go = { 0 };
	unsigned n = 0;

	message_of(&m, &b);
	write_like_go(buf_bytes(&b), &go);
	for (size_t size = 24; size < go.size; size += 7) {
		struct profile *p = NULL;
		struct err err = { 0 };

		/* A cut between two fields leaves a message without its strings. */
		if (profile_read(bytes_of(go.p, size), PROFILE_FORMAT_AUTO, NULL, &p, &err) == 0)
			fail_msg("%zu bytes of %zu are a profile", size, go.size);
		if (!strstr(err.text, "pprof profile that is damaged or cut short") &&
		    !strstr(err.text, "is not in the table"))
			fail_msg("%zu bytes: %s", size, err.text);
		n += strstr(err.text, "cut short") != NULL;
	}
	assert_true(n > 20);
}

static void text_is_text(void **state)
{
	static const struct {
		const char *text;
		enum profile_format format;
	} list[] = {
		/* Their first bytes could be fields. */
		{ "2fast;main 1\n", PROFILE_FORMAT_FOLDED },
		{ "2 main;f 1\n", PROFILE_FORMAT_FOLDED },
		{ "\"quoted\";f 1\n", PROFILE_FORMAT_FOLDED },
		{ "*;f 1\n", PROFILE_FORMAT_FOLDED },
		{ "Zip;f 1\n", PROFILE_FORMAT_FOLDED },
		{ "xxxxxxxxxxxxxxxxxxxxxxxx;f 1\n", PROFILE_FORMAT_FOLDED },
		{ "HHHHHHHHPPPPPPPP 1\n", PROFILE_FORMAT_FOLDED },
		{ "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\nf 1\n", PROFILE_FORMAT_FOLDED },
		{ "\r\nmain;f 1\r\n", PROFILE_FORMAT_FOLDED },
		{ "\tmain;f 1\n", PROFILE_FORMAT_FOLDED },
		{ "hauptma\xc3\x9f;\xe2\x88\x91 1\n", PROFILE_FORMAT_FOLDED },
		{ "\xef\xbb\xbfmain;f 1\n", PROFILE_FORMAT_FOLDED },
		{ "H\1main;\2f 1\n", PROFILE_FORMAT_FOLDED },
		{ "\033[1mmain;f 1\n", PROFILE_FORMAT_FOLDED },
		{ "{closure#0};f 1\n", PROFILE_FORMAT_FOLDED },
		{ "[unknown];f 1\n", PROFILE_FORMAT_FOLDED },
		{ "goroutine 7;f 1\n", PROFILE_FORMAT_FOLDED },
		{ "gmonitor;f 1\n", PROFILE_FORMAT_FOLDED },
		{ "MODULE load x;f 1\n", PROFILE_FORMAT_FOLDED },
		{ "heap profile: 1: 2 [3: 4] @ heapprofile\n 1: 2 [3: 4] @ 0x10\n", PROFILE_FORMAT_LEGACY },
		{ "\xef\xbb\xbfgoroutine profile: total 1\n1 @ 0x10\n", PROFILE_FORMAT_LEGACY },
		{ "perf 1234 1.2: 1 cycles:\n\t12 f (/bin/x)\n", PROFILE_FORMAT_PERF },
	};

	for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
		struct bytes in = bytes_of(list[i].text, strlen(list[i].text));
		AUTO(profile_freep) struct profile *p = NULL;
		enum profile_format format;
		struct err err = { 0 };

		assert_done(profile_detect(in, &format, &err));
		if (format != list[i].format)
			fail_msg("%s: format %d", list[i].text, (int)format);
		assert_done(profile_read(in, PROFILE_FORMAT_AUTO, NULL, &p, &err));
		assert_true(p->n_samples == 1);
	}
}

static void a_byte_order_mark_is_no_name(void **state)
{
	AUTO(profile_freep) struct profile *p = NULL;
	struct err err = { 0 };

	assert_done(
		profile_read(bytes_of("\xef\xbb\xbfmain;f 1\n", 12), PROFILE_FORMAT_AUTO, NULL, &p, &err));
	assert_str(profile_str(p, p->functions.p[0].name), "main");
}

static void other_formats_are_named(void **state)
{
	static const struct {
		struct str in;
		const char *is;
	} list[] = {
		{ STR("FLR\0\0\2\0\1"), "chunk 1: its header is cut off" },
		{ STR("\x7f\x45LF\2\1\1\0"), "is an ELF file, not a profile: lode symbolize -e names its "
					     "addresses, lode push sends it" },
		{ STR("\x7f\x45LF\2\1\1\0\0\0\0\0\0\0\0\0\4\0"), "is an ELF core dump, not a profile" },
		{ STR("gmon\1\0\0\0"), "gmon.out" },
		{ STR("MODULE Linux x86_64 000102030405060708090A0B0C0D0E0F0 x\nFUNC 10 5 0 f\n"),
		  "is a Breakpad symbol file, not a profile" },
		{ STR("\xff\xfem\0a\0i\0n\0 \0001\0"), "UTF-16" },
		{ STR("PK\3\4\24\0\0\0"), "zip archive" },
		{ STR("<!DOCTYPE html>\n<title>Sign in</title>"), "page for people" },
		{ STR("goroutine 1 [running]:\nmain.main()\n\t/a.go:3 +0x1\n"), "debug=0" },
		{ STR("goroutine 7 [chan receive]:\nmain.f()\n\t/a.go:3 +0x1\n"), "list of goroutines" },
		{ STR("goroutine 7 [IO wait, 5 minutes]:\nmain.f()\n\t/a.go:3 +0x1\n"),
		  "list of goroutines" },
		{ STR("{\"nodes\":[],\"samples\":[]}"), "JSON" },
		{ STR("{\n  \"$schema\": 1}"), "JSON" },
		{ STR("PERFILE2\0\0\0\0"), "perf script" },
		{ STR("\x89PNG\r\n\x1a\n\0\0\0\rIHDR"), "is a PNG image, not a profile" },
		{ STR("MZ\x90\0\3\0"), "a program of DOS or Windows, not a profile" },
		{ STR("\0\0\0"), "in no format that is read" },
		{ STR(""), "is empty" },
		{ STR(" \n\n"), "has no samples" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
		struct profile *p = NULL;
		struct err err = { 0 };

		assert_fails(profile_read(bytes_of(list[i].in.p, list[i].in.size), PROFILE_FORMAT_AUTO, NULL,
					  &p, &err),
			     ERR_INVALID, list[i].is);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(large_profiles_of_go),          cmocka_unit_test(fields_in_any_order),
		cmocka_unit_test(damaged_profiles_are_named_so), cmocka_unit_test(text_is_text),
		cmocka_unit_test(a_byte_order_mark_is_no_name),  cmocka_unit_test(other_formats_are_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
