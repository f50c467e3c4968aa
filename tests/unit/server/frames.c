/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gRPC's frames, in chunks of any size.
 */
#include "test.h"

#include "server/rpc/frames.h"

#define BODY "\0\0\0\0\3abc\0\0\0\0\0\1\0\0\0\2zz"
#define SIZE (sizeof(BODY) - 1)

/* "abc,,ZZ," : bytes of compressed messages in upper case, a comma after each message. @keep: bytes taken of a piece. */
static void read_body(size_t step, size_t keep, struct buf *out)
{
	struct rpc_frames f = { .max = 3 };
	struct rpc_piece piece;
	struct err err = { 0 };
	size_t at = 0;

	for (size_t stop = 0; at < SIZE;) {
		struct bytes chunk;

		stop = MIN(at + step, SIZE);
		chunk = bytes_of(BODY + at, stop - at);
		for (int r; (r = rpc_frames_next(&f, &chunk, &piece, &err)) != 0;) {
			size_t n = MIN(piece.b.size, keep);

			assert_int_equal(r, 1);
			for (size_t i = 0; i < n; i++)
				buf_add_char(out,
					     (char)(piece.compressed ? piece.b.p[i] & ~0x20 : piece.b.p[i]));
			if (n < piece.b.size) {
				rpc_frames_return(&f, &chunk, piece.b.size - n);
				break;
			}
			if (piece.last)
				buf_add_char(out, ',');
		}
		at = stop - chunk.size;
	}
	assert_int_equal(rpc_frames_end(&f, &err), 0);
}

static void messages_come_in_pieces(void **state)
{
	for (size_t step = 1; step <= SIZE; step++)
		for (size_t keep = 1; keep < 4; keep++) {
			AUTO(buf_done) struct buf out = { 0 };

			read_body(step, keep, &out);
			assert_string_equal(buf_cstr(&out), "abc,,ZZ,");
		}
}

static void refuse(const char *p, size_t size, bool no_compressed, const char *why)
{
	struct rpc_frames f = { .max = 3, .no_compressed = no_compressed };
	struct bytes in = bytes_of(p, size);
	struct rpc_piece piece;
	struct err err = { 0 };
	int r = rpc_frames_next(&f, &in, &piece, &err);

	if (r >= 0)
		r = rpc_frames_end(&f, &err);
	assert_int_equal(r, -1);
	if (!strstr(err.text, why))
		fail_msg("%s", err.text);
}

static void wrong_frames_are_refused(void **state)
{
	refuse("\2\0\0\0\0", 5, false, "flags 0x02");
	refuse("\200\0\0\0\0", 5, false, "flags 0x80");
	refuse("\0\0\0\0\4", 5, false, "4 bytes");
	refuse("\0\377\377\377\377", 5, false, "4294967295 bytes");
	refuse("\1\0\0\0\1x", 6, true, "compressed");
	refuse("\0\0\0", 3, false, "within a message");
	refuse("\0\0\0\0\3ab", 7, false, "within a message");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_come_in_pieces),
		cmocka_unit_test(wrong_frames_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
