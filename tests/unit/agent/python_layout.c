/* SPDX-License-Identifier: Apache-2.0 */
/* tests/data/python/offsets-* are the first bytes of _PyRuntime in the files of 3.13.0 and 3.14.3. */
#include "test.h"

#include "agent/python_layout.h"
#include "base/file.h"

static void read_offsets(unsigned minor, struct buf *ret)
{
	char path[512];
	struct err err;

	snprintf(path, sizeof(path), "%s/python/offsets-3.%u", getenv("LODE_TEST_DATA"), minor);
	assert_done(file_read(path, KIB(4), ret, &err));
}

/* By offsetof() in the headers of these versions. */
static void published_offsets_are_those_of_the_headers(void **state)
{
	for (unsigned minor = 13; minor <= 14; minor++) {
		AUTO(buf_done) struct buf b = { 0 };
		struct python_layout l;
		struct err err;

		read_offsets(minor, &b);
		assert_done(python_layout_get(minor, buf_bytes(&b), &l, &err));
		assert_int_equal(l.interpreters, minor == 13 ? 632 : 808);
		assert_int_equal(l.frames.thread_next, 8);
		assert_int_equal(l.frames.thread_id, 152);
		assert_int_equal(l.frames.thread_frame, 72);
		assert_int_equal(l.frames.frame_previous, 8);
		assert_int_equal(l.frames.frame_code, 0);
		assert_int_equal(l.frames.frame_instr, 56);
		assert_int_equal(l.frames.code_window, 112);
		assert_int_equal(l.frames.code_bytes, minor == 13 ? 200 : 208);
		assert_int_equal(l.code_name, 120);
		assert_int_equal(l.code_qualname, 128);
		assert_int_equal(l.code_lines, 136);
		assert_int_equal(l.code_first_line, 68);
		assert_int_equal(l.string_length, 16);
		assert_int_equal(l.string_state, 32);
		assert_int_equal(l.string_ascii, 40);
		assert_int_equal(l.string_wide, 56);
		assert_int_equal(l.bytes_data, 32);
	}
}

static void offsets_that_cannot_be_are_refused(void **state)
{
	for (unsigned minor = 13; minor <= 14; minor++) {
		AUTO(buf_done) struct buf b = { 0 };
		struct python_layout l;
		struct err err;

		read_offsets(minor, &b);
		assert_int_equal(python_layout_get(minor, bytes_of(b.p, 300), &l, &err), -1);
		assert_int_equal(python_layout_get(27 - minor, buf_bytes(&b), &l, &err), -1);
		/* Each of the words that are used, made large. */
		for (size_t at = 24 + 7; at < 300; at += 8)
			b.p[at] = 0x7f;
		assert_int_equal(python_layout_get(minor, buf_bytes(&b), &l, &err), -1);
		assert_string_equal(err.text, "the offsets in _PyRuntime cannot be those of Python");
		b.p[0]++;
		assert_int_equal(python_layout_get(minor, buf_bytes(&b), &l, &err), -1);
	}
}

static void versions_are_3_9_to_3_14(void **state)
{
	struct python_layout l;
	struct err err;

	for (unsigned minor = 0; minor < 30; minor++)
		assert_int_equal(python_layout_get(minor, bytes_of(NULL, 0), &l, &err),
				 minor >= 9 && minor <= 12 ? 0 : -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(published_offsets_are_those_of_the_headers),
		cmocka_unit_test(offsets_that_cannot_be_are_refused),
		cmocka_unit_test(versions_are_3_9_to_3_14),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
