/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

static const struct codec_scan_options fine = { .spacing = 1, .min_size = 1 };
static const struct codec_scan_options defaults;

static void every_level_and_content(void **state)
{
	for (int level = 1; level <= 9; level += 8) {
		for (int kind = level == 1 ? 0 : CONTENT_MIXED; kind < CONTENT_N; kind++) {
			AUTO(buf_done) struct buf plain = { 0 }, packed = { 0 };
			unsigned n;

			content_add(&plain, (enum content)kind, (size_t)level * 200000 + 1, (uint64_t)level);
			packed_bzip2(&packed, buf_bytes(&plain), level);
			n = check_all_ways(CODEC_BZIP2, buf_bytes(&packed), buf_bytes(&plain), &fine);
			/* bzip2 encodes runs before it cuts blocks. */
			assert_in_range(n, kind == CONTENT_ZEROS ? 1 : 2, 3);
		}
	}
}

static void streams_and_padding_are_one_content(void **state)
{
	AUTO(buf_done) struct buf plain = { 0 }, packed = { 0 };
	static const struct codec_scan_options some = { .spacing = 150000, .min_size = 200000 };

	for (size_t i = 0; i < 30; i++) {
		size_t at = plain.size;

		content_add(&plain, (enum content)(i % CONTENT_N), i % 4 * 70000, i);
		packed_bzip2(&packed, bytes_from(&plain, at), (int)(i % 2 + 1));
		for (size_t pad = 0; pad < i % 5; pad++)
			buf_add_char(&packed, 0);
	}
	check_all_ways(CODEC_BZIP2, buf_bytes(&packed), buf_bytes(&plain), &fine);
	check_all_ways(CODEC_BZIP2, buf_bytes(&packed), buf_bytes(&plain), &some);
}

/* Each block contains thousands of magic numbers in its data, which are not block starts. */
static void magics_within_blocks_are_ignored(void **state)
{
	AUTO(buf_done) struct buf plain = { 0 }, packed = { 0 };
	unsigned n;

	packed_bzip2_magics(&packed, &plain, 3, 1);
	packed_bzip2_magics(&packed, &plain, 2, 77);
	n = check_all_ways(CODEC_BZIP2, buf_bytes(&packed), buf_bytes(&plain), &fine);
	assert_int_equal(n, 5);
	check_truncated(CODEC_BZIP2, buf_bytes(&packed), buf_bytes(&plain), 20);
}

static void empty_and_small_contents(void **state)
{
	AUTO(buf_done) struct buf packed = { 0 }, empty = { 0 };
	unsigned n;

	packed_bzip2(&empty, (struct bytes){ 0 }, 9);
	assert_int_equal(codec_detect(bytes_of(empty.p, empty.size)), CODEC_BZIP2);
	n = check_all_ways(CODEC_BZIP2, buf_bytes(&empty), (struct bytes){ 0 }, &defaults);
	assert_int_equal(n, 0);
	packed_bzip2(&packed, bytes_of("hello", 5), 9);
	n = check_all_ways(CODEC_BZIP2, buf_bytes(&packed), bytes_of("hello", 5), &defaults);
	assert_int_equal(n, 1);
}

static void damage_is_reported(void **state)
{
	AUTO(buf_done) struct buf plain = { 0 }, packed = { 0 };
	struct err err = { 0 };
	struct buf out = { 0 };

	content_add(&plain, CONTENT_MIXED, 450000, 4);
	packed_bzip2(&packed, buf_bytes(&plain), 1);
	check_truncated(CODEC_BZIP2, buf_bytes(&packed), buf_bytes(&plain), 60);
	check_flipped(CODEC_BZIP2, buf_bytes(&packed), buf_bytes(&plain), &fine, 60);
	check_flipped_whole(CODEC_BZIP2, buf_bytes(&packed), buf_bytes(&plain), 60);
	check_faults(CODEC_BZIP2, buf_bytes(&packed), buf_bytes(&plain), &fine);

	buf_add_str(&packed, STR("\0\0\0\0rubbish"));
	assert_fails(codec_decode_all(CODEC_BZIP2, buf_bytes(&packed), MIB(10), &out, &err), ERR_INVALID,
		     "no header where one should be");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_level_and_content),
		cmocka_unit_test(streams_and_padding_are_one_content),
		cmocka_unit_test(magics_within_blocks_are_ignored),
		cmocka_unit_test(empty_and_small_contents),
		cmocka_unit_test(damage_is_reported),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
