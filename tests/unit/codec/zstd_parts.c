/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of zstd's resume points: headers, tables and payloads.
 */
#include "test.h"

#include "codec/zstd.h"

static void predefined_tables_are_those_of_the_standard(void **state)
{
	/* RFC 8878, 3.1.1.3.2.2 */
	static const int16_t ll[] = { 4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1,  1,  2,  2,
				      2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1 };
	static const int16_t of[] = { 1, 1, 1, 1, 1, 1, 2, 2, 2, 1,  1,  1,  1,  1, 1,
				      1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1 };
	static const int16_t ml[] = { 1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1,  1,  1,  1,  1,  1,  1, 1,
				      1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,  1,  1,  1,  1,  1,  1, 1,
				      1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1 };
	static const struct {
		enum zstd_table_id id;
		unsigned log, n;
		const int16_t *count;
	} tables[] = {
		{ ZSTD_LL, 6, ARRAY_SIZE(ll), ll },
		{ ZSTD_OF, 5, ARRAY_SIZE(of), of },
		{ ZSTD_ML, 6, ARRAY_SIZE(ml), ml },
	};

	for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
		struct bytes desc = zstd_predefined(tables[i].id);
		struct zstd_counts c;
		size_t size;

		assert_null(zstd_counts_read(tables[i].id, desc, &c, &size));
		assert_int_equal(size, desc.size);
		assert_int_equal(c.log, tables[i].log);
		assert_int_equal(c.n_symbols, tables[i].n);
		assert_memory_equal(c.count, tables[i].count, c.n_symbols * sizeof(*c.count));
	}
}

static void windows_round_up(void **state)
{
	assert_int_equal(zstd_window_byte(0), 0);
	assert_int_equal(zstd_window_byte(1024), 0);
	assert_int_equal(zstd_window_byte(1025), 1);
	for (unsigned i = 0; i < 256; i++) {
		assert_int_equal(zstd_window_byte(zstd_window_size((uint8_t)i)), i);
		assert_int_equal(zstd_window_byte(zstd_window_size((uint8_t)i) - 1), i);
	}
}

static void frame_headers_of_all_forms(void **state)
{
	static const struct {
		const char *bytes;
		size_t size;
		uint64_t window, content_size;
		uint32_t dict_id;
		bool checksum;
	} good[] = {
		{ "\x28\xb5\x2f\xfd\x00\x59", 6, MIB(2) * 9 / 8, ZSTD_SIZE_UNKNOWN, 0, false },
		{ "\x28\xb5\x2f\xfd\x24\x07", 6, 7, 7, 0, true },
		{ "\x28\xb5\x2f\xfd\x60\x00\x01", 7, 512, 512, 0, false },
		{ "\x28\xb5\x2f\xfd\x80\x00\x04\x03\x02\x01", 10, 1024, 0x01020304, 0, false },
		{ "\x28\xb5\x2f\xfd\xc3\x00\x01\x00\x00\x00\x08\x07\x06\x05\x04\x03\x02\x01", 18, 1024,
		  0x0102030405060708, 1, false },
		{ "\x28\xb5\x2f\xfd\x02\x00\x34\x12", 8, 1024, ZSTD_SIZE_UNKNOWN, 0x1234, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		struct zstd_frame f;
		struct err err = { 0 };

		assert_done(zstd_frame_parse(bytes_of(good[i].bytes, good[i].size), 0, &f, &err));
		assert_int_equal(f.header_size, good[i].size);
		assert_int_equal(f.window, good[i].window);
		assert_int_equal(f.content_size, good[i].content_size);
		assert_int_equal(f.dict_id, good[i].dict_id);
		assert_int_equal(f.checksum, good[i].checksum);
		for (size_t n = 0; n < good[i].size; n++)
			assert_int_equal(zstd_frame_parse(bytes_of(good[i].bytes, n), 0, &f, &err),
					 ZSTD_FRAME_SHORT);
	}
}

static void kinds_of_frames_by_their_first_bytes(void **state)
{
	assert_int_equal(zstd_what(bytes_of("\x28\xb5\x2f\xfd", 4)), ZSTD_WHAT_FRAME);
	assert_int_equal(zstd_what(bytes_of("\x5f\x2a\x4d\x18", 4)), ZSTD_WHAT_SKIPPABLE);
	assert_int_equal(zstd_what(bytes_of("\x60\x2a\x4d\x18", 4)), ZSTD_WHAT_OTHER);
	assert_int_equal(zstd_what(bytes_of("\x27\xb5\x2f\xfd", 4)), ZSTD_WHAT_LEGACY);
	assert_int_equal(zstd_what(bytes_of("\x21\xb5\x2f\xfd", 4)), ZSTD_WHAT_OTHER);
	assert_int_equal(zstd_what(bytes_of("\0\0\0\0", 4)), ZSTD_WHAT_ZEROS);
	assert_int_equal(zstd_what(bytes_of("\0", 1)), ZSTD_WHAT_ZEROS);
	assert_int_equal(zstd_what(bytes_of("\0\0\0\1", 4)), ZSTD_WHAT_ZEROS);
	assert_int_equal(zstd_what(bytes_of("\x28\xb5", 2)), ZSTD_WHAT_OTHER);
	assert_int_equal(zstd_what((struct bytes){ 0 }), ZSTD_WHAT_END);
}

static void repcodes_chain(void **state)
{
	struct zstd_rep known = { { 10, 20, 30 } }, r, swapped, less;

	assert_false(zstd_rep_known(&zstd_rep_any));
	assert_true(zstd_rep_known(&zstd_rep_start));
	assert_true(zstd_rep_chain(&known, &zstd_rep_any, &r));
	assert_memory_equal(&r, &known, sizeof(r));
	swapped = (struct zstd_rep){ { zstd_rep_any.r[2], zstd_rep_any.r[0] - 3, 7 } };
	assert_true(zstd_rep_chain(&known, &swapped, &r));
	assert_int_equal(r.r[0], 30);
	assert_int_equal(r.r[1], 7);
	assert_int_equal(r.r[2], 7);
	/* Applied twice: minus 6, and the third repcode was moved to the front. */
	assert_true(zstd_rep_chain(&swapped, &swapped, &less));
	assert_true(zstd_rep_chain(&known, &less, &r));
	assert_int_equal(r.r[0], 7);
	assert_int_equal(r.r[1], 27);
	/* An offset cannot be 0. */
	less = (struct zstd_rep){ { zstd_rep_any.r[0] - 10, 1, 1 } };
	assert_false(zstd_rep_chain(&known, &less, &r));
}

/* ---- payloads ---- */

#define HIST 5000

struct made {
	uint8_t history[HIST];
	struct zstd_marks marks;
	struct buf payload;
};

static void make(struct made *m, uint32_t rep_max, size_t split)
{
	struct zstd_payload_maker *maker = zstd_payload_maker_new();
	struct zstd_entropy e = { 0 };
	struct zstd_rep rep = { { 1, rep_max, 3 } };
	struct zstd_point_state state = {
		.entropy = &e,
		.rep = &rep,
		.window = KIB(8),
		.marks = &m->marks,
		.history = { { bytes_of(m->history, split), bytes_of(m->history + split, HIST - split) } },
	};
	struct err err = { 0 };

	zstd_entropy_init(&e);
	m->payload.size = 0;
	assert_done(zstd_payload_make(maker, &state, &m->payload, &err));
	zstd_payload_maker_free(maker);
}

static void mark(struct made *m, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		m->marks.bits[i / 64] |= 1ull << i % 64;
}

static void payloads_keep_what_is_marked(void **state)
{
	static const size_t splits[] = { 0, 1, 2100, HIST - 1, HIST };
	struct made m = { .marks.hist = HIST };

	m.marks.bits = NEW_N(uint64_t, HIST / 64 + 3);
	memset(m.marks.bits, 0, (HIST / 64 + 3) * 8);
	test_fill(m.history, HIST, 1);
	mark(&m, 100, 101);
	mark(&m, 128, 192);
	mark(&m, 2000, 2300);
	mark(&m, HIST - 1, HIST);
	for (size_t i = 0; i < ARRAY_SIZE(splits); i++) {
		uint32_t rep_max = i % 2 ? 8000 : 9;
		struct zstd_payload p;
		struct err err = { 0 };
		const uint8_t *end;

		make(&m, rep_max, splits[i]);
		assert_done(zstd_payload_open(buf_bytes(&m.payload), 0xee, &p, &err));
		assert_int_equal(p.window, KIB(8));
		assert_int_equal(p.history, i % 2 ? 8001 : HIST - 100);
		end = p.dict + p.dict_size;
		for (size_t k = 1; k <= p.history; k++) {
			bool is = k <= HIST && m.marks.bits[(HIST - k) / 64] >> (HIST - k) % 64 & 1;

			assert_int_equal(end[-(ptrdiff_t)k], is ? m.history[HIST - k] : 0xee);
		}
		zstd_payload_done(&p);
	}
	free(m.marks.bits);
	buf_done(&m.payload);
}

static void broken_payloads_are_refused(void **state)
{
	struct made m = { .marks.hist = HIST };
	struct zstd_payload p;
	struct err err = { 0 };

	m.marks.bits = NEW_N(uint64_t, HIST / 64 + 3);
	memset(m.marks.bits, 0, (HIST / 64 + 3) * 8);
	test_fill(m.history, HIST, 1);
	mark(&m, 0, 300);
	mark(&m, 400, 500);
	make(&m, 4, 1000);
	for (size_t n = 0; n < m.payload.size; n++)
		assert_fails(zstd_payload_open(bytes_of(m.payload.p, n), 0, &p, &err), ERR_INVALID,
			     "resume point");
	for (size_t i = 0; i < m.payload.size * 8; i++) {
		m.payload.p[i / 8] ^= 1 << i % 8;
		if (zstd_payload_open(buf_bytes(&m.payload), 0, &p, &err) == 0)
			zstd_payload_done(&p);
		m.payload.p[i / 8] ^= 1 << i % 8;
	}
	m.payload.p[0]++;
	assert_fails(zstd_payload_open(buf_bytes(&m.payload), 0, &p, &err), ERR_INVALID, "format");
	free(m.marks.bits);
	buf_done(&m.payload);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(predefined_tables_are_those_of_the_standard),
		cmocka_unit_test(windows_round_up),
		cmocka_unit_test(frame_headers_of_all_forms),
		cmocka_unit_test(kinds_of_frames_by_their_first_bytes),
		cmocka_unit_test(repcodes_chain),
		cmocka_unit_test(payloads_keep_what_is_marked),
		cmocka_unit_test(broken_payloads_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
