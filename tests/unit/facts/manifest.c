/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of a manifest: what is written is read; anything else is refused.
 */
#include "test.h"

#include "facts/internal.h"

static struct manifest sample(size_t n)
{
	struct manifest m = {
		.size = (n - 1) * (uint64_t)PIECE_SIZE + 1, .fingerprint = 0xa1, .n_rows = 12, .n_pieces = n
	};

	m.pieces = NEW_N(struct piece, n);
	for (size_t i = 0; i < n; i++) {
		m.pieces[i].packed = (uint32_t)i + 1;
		memset(m.pieces[i].sha256, (int)i, SHA256_SIZE);
	}
	return m;
}

static void what_is_written_is_read(void **state)
{
	static const size_t sizes[] = { 1, 2, 300, PIECES_MAX };

	for (size_t k = 0; k < ARRAY_SIZE(sizes); k++) {
		AUTO(buf_done) struct buf text = { 0 };
		struct manifest m = sample(sizes[k]), got;
		struct err err = { 0 };

		manifest_write(&m, &text);
		assert_true(text.size <= MANIFEST_MAX);
		assert_done(manifest_read(buf_bytes(&text), &got, &err));
		assert_int_equal(got.size, m.size);
		assert_int_equal(got.fingerprint, m.fingerprint);
		assert_int_equal(got.n_rows, m.n_rows);
		assert_int_equal(got.n_pieces, m.n_pieces);
		assert_memory_equal(got.pieces, m.pieces, m.n_pieces * sizeof(*m.pieces));
		manifest_done(&got);
		manifest_done(&m);
	}
}

/* Each line is needed, in its order, whole. */
static void anything_else_is_refused(void **state)
{
	AUTO(buf_done) struct buf text = { 0 };
	struct manifest m = sample(3), got;
	struct err err = { 0 };

	manifest_write(&m, &text);
	manifest_done(&m);
	for (size_t n = 0; n < text.size; n++)
		assert_fails(manifest_read(bytes_of(text.p, n), &got, &err), ERR_INVALID, "no manifest");
	buf_add_char(&text, '\n');
	assert_fails(manifest_read(buf_bytes(&text), &got, &err), ERR_INVALID, "no manifest");
	assert_null(got.pieces);
}

static void sizes_that_lie_are_refused(void **state)
{
	static const char *const texts[] = {
		"lode-index 1\nsize 0\nrows 3\nfingerprint 00000000000000a1\nend\n",
		"lode-index 1\nsize 18446744073709551615\nrows 3\nfingerprint 00000000000000a1\nend\n",
		"lode-index 1\nsize 18446744073709551616\nrows 3\nfingerprint 00000000000000a1\nend\n",
		"lode-index 1\nsize 9\nrows 3\nfingerprint 00000000000000a1\npiece 0 "
		"0000000000000000000000000000000000000000000000000000000000000000\nend\n",
		"lode-index 1\nsize 9\nrows 3\nfingerprint 00000000000000a1\npiece 4294967297 "
		"0000000000000000000000000000000000000000000000000000000000000000\nend\n",
		"lode-index 1\nsize 9\nrows 3\nfingerprint 00000000000000a1\npiece 9 00\nend\n",
		"lode-index 2\nsize 9\n",
	};
	struct manifest got;
	struct err err = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		assert_fails(manifest_read(bytes_of(texts[i], strlen(texts[i])), &got, &err), ERR_INVALID,
			     "no manifest");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(anything_else_is_refused),
		cmocka_unit_test(sizes_that_lie_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
