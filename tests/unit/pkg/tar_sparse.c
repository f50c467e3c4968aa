/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sparse tar members in all of GNU tar's formats: delivered expanded, without memory for the holes; and wrong
 * maps.
 */
#include "listing.h"

/* 5 stored bytes at 10, 3 at 70000, in a file of 100000. */
struct part {
	uint64_t off, size;
};
static const struct part parts[] = { { 10, 5 }, { 70000, 3 }, { 100000, 0 } };
static const char stored[] = "ABCDExyz";
#define REAL_SIZE 100000u

static void octal(struct buf *tar, size_t at, uint64_t v)
{
	char text[16];

	snprintf(text, sizeof(text), "%011llo", (unsigned long long)v);
	memcpy(tar->p + at, text, 12);
}

/* The header itself has room for four parts; the others follow in blocks of 21. */
static void old_gnu(struct buf *tar, const struct part *p, size_t n, uint64_t real_size, struct bytes content)
{
	size_t at = pw_tar_header(tar, PW_GNU, "sparse", 'S', content.size);

	octal(tar, at + 483, real_size);
	for (size_t i = 0; i < MIN(n, (size_t)4); i++) {
		octal(tar, at + 386 + 24 * i, p[i].off);
		octal(tar, at + 386 + 24 * i + 12, p[i].size);
	}
	tar->p[at + 482] = n > 4;
	pw_tar_sum(tar, at);
	for (size_t i = 4; i < n; i += 21) {
		at = tar->size;
		memset(buf_reserve(tar, 512), 0, 512);
		tar->size += 512;
		for (size_t k = i; k < MIN(n, i + 21); k++) {
			octal(tar, at + 24 * (k - i), p[k].off);
			octal(tar, at + 24 * (k - i) + 12, p[k].size);
		}
		tar->p[at + 504] = n > i + 21;
	}
	pw_tar_body(tar, content);
}

static void number(struct buf *records, const char *key, uint64_t v)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)v);
	pw_pax_record(records, key, text);
}

static void pax_0_0(struct buf *tar, const struct part *p, size_t n, uint64_t real_size, struct bytes content)
{
	AUTO(buf_done) struct buf r = { 0 };

	number(&r, "GNU.sparse.size", real_size);
	number(&r, "GNU.sparse.numblocks", n);
	for (size_t i = 0; i < n; i++) {
		number(&r, "GNU.sparse.offset", p[i].off);
		number(&r, "GNU.sparse.numbytes", p[i].size);
	}
	pw_tar_pax(tar, 'x', buf_bytes(&r));
	pw_tar_header(tar, PW_PAX, "sparse", '0', content.size);
	pw_tar_body(tar, content);
}

static void pax_0_1(struct buf *tar, const struct part *p, size_t n, uint64_t real_size, struct bytes content)
{
	AUTO(buf_done) struct buf r = { 0 }, map = { 0 };

	for (size_t i = 0; i < n; i++)
		buf_printf(&map, "%s%llu,%llu", i ? "," : "", (unsigned long long)p[i].off,
			   (unsigned long long)p[i].size);
	number(&r, "GNU.sparse.size", real_size);
	number(&r, "GNU.sparse.numblocks", n);
	pw_pax_record(&r, "GNU.sparse.name", "sparse");
	pw_pax_record(&r, "GNU.sparse.map", buf_cstr(&map));
	pw_tar_pax(tar, 'x', buf_bytes(&r));
	pw_tar_header(tar, PW_PAX, "./GNUSparseFile.1/sparse", '0', content.size);
	pw_tar_body(tar, content);
}

static void pax_1_0(struct buf *tar, const struct part *p, size_t n, uint64_t real_size, struct bytes content)
{
	AUTO(buf_done) struct buf r = { 0 }, body = { 0 };

	buf_printf(&body, "%zu\n", n);
	for (size_t i = 0; i < n; i++)
		buf_printf(&body, "%llu\n%llu\n", (unsigned long long)p[i].off,
			   (unsigned long long)p[i].size);
	while (body.size % 512)
		buf_add_char(&body, 0);
	buf_add(&body, content.p, content.size);
	pw_pax_record(&r, "GNU.sparse.major", "1");
	pw_pax_record(&r, "GNU.sparse.minor", "0");
	pw_pax_record(&r, "GNU.sparse.name", "sparse");
	number(&r, "GNU.sparse.realsize", real_size);
	pw_tar_pax(tar, 'x', buf_bytes(&r));
	pw_tar_header(tar, PW_PAX, "./GNUSparseFile.1/sparse", '0', body.size);
	pw_tar_body(tar, buf_bytes(&body));
}

static void (*const formats[])(struct buf *, const struct part *, size_t, uint64_t,
			       struct bytes) = { old_gnu, pax_0_0, pax_0_1, pax_1_0 };

static struct bytes content_of(const char *s)
{
	return bytes_of(s, strlen(s));
}

static int read_tar(struct listing *l, const struct buf *tar, size_t chunk, struct err *err)
{
	return listing_of(l, PKG_FORMAT_TAR, buf_bytes(tar), chunk, err);
}

static void every_format_is_expanded(void **state)
{
	uint8_t *want = mem_zalloc(REAL_SIZE);
	static const size_t chunks[] = { 0, 1, 511, 513 };

	memcpy(want + 10, "ABCDE", 5);
	memcpy(want + 70000, "xyz", 3);
	for (size_t f = 0; f < ARRAY_SIZE(formats); f++) {
		AUTO(buf_done) struct buf tar = { 0 };

		formats[f](&tar, parts, ARRAY_SIZE(parts), REAL_SIZE, content_of(stored));
		pw_tar_header(&tar, PW_PAX, "next", '0', 2);
		pw_tar_body(&tar, content_of("hi"));
		pw_tar_end(&tar);
		for (size_t i = 0; i < ARRAY_SIZE(chunks); i++) {
			struct err err = { 0 };
			struct listing l;

			assert_done(read_tar(&l, &tar, chunks[i], &err));
			assert_int_equal(l.n, 2);
			assert_str(l.list[0].m.path, "sparse");
			assert_true(l.list[0].m.sparse);
			assert_true(l.list[0].m.off == PKG_NO_OFF);
			assert_int_equal(l.list[0].m.size, REAL_SIZE);
			assert_int_equal(l.list[0].content.size, REAL_SIZE);
			assert_memory_equal(l.list[0].content.p, want, REAL_SIZE);
			assert_str(buf_str(&l.list[1].content), "hi");
			assert_false(l.list[1].m.sparse);
			listing_done(&l);
		}
	}
	free(want);
}

static void many_parts(void **state)
{
	enum { N = 60 };
	struct part many[N];
	char content[N + 1];

	for (size_t i = 0; i < N; i++) {
		many[i] = (struct part){ 1000 * i + 1, 1 };
		content[i] = (char)('0' + i);
	}
	content[N] = 0;
	for (size_t f = 0; f < ARRAY_SIZE(formats); f++) {
		AUTO(buf_done) struct buf tar = { 0 };
		struct err err = { 0 };
		struct listing l;

		formats[f](&tar, many, N, 1000 * N, content_of(content));
		pw_tar_end(&tar);
		assert_done(read_tar(&l, &tar, 0, &err));
		assert_int_equal(l.list[0].content.size, 1000 * N);
		for (size_t i = 0; i < N; i++) {
			assert_int_equal(l.list[0].content.p[1000 * i + 1], '0' + i);
			assert_int_equal(l.list[0].content.p[1000 * i + 2], 0);
		}
		listing_done(&l);
	}
}

/* A file without holes can be read in place, in every encoding. */
static void a_file_without_holes_has_an_offset(void **state)
{
	static const struct part whole[] = { { 0, 4 }, { 4, 4 } };

	for (size_t f = 0; f < ARRAY_SIZE(formats); f++) {
		AUTO(buf_done) struct buf tar = { 0 };
		struct err err = { 0 };
		struct listing l;

		formats[f](&tar, whole, 2, 8, content_of(stored));
		pw_tar_end(&tar);
		assert_done(read_tar(&l, &tar, 0, &err));
		assert_false(l.list[0].m.sparse);
		assert_places(&l, buf_bytes(&tar));
		assert_str(buf_str(&l.list[0].content), stored);
		listing_done(&l);
	}
}

static void a_file_that_is_one_hole(void **state)
{
	for (size_t f = 0; f < ARRAY_SIZE(formats); f++) {
		static const struct part end[] = { { 50, 0 } };
		AUTO(buf_done) struct buf tar = { 0 };
		struct err err = { 0 };
		struct listing l;

		formats[f](&tar, end, 1, 50, content_of(""));
		pw_tar_end(&tar);
		assert_done(read_tar(&l, &tar, 0, &err));
		assert_int_equal(l.list[0].content.size, 50);
		listing_done(&l);
	}
}

static void an_empty_sparse_file(void **state)
{
	for (size_t f = 0; f < ARRAY_SIZE(formats); f++) {
		static const struct part end[] = { { 0, 0 } };
		AUTO(buf_done) struct buf tar = { 0 };
		struct err err = { 0 };
		struct listing l;

		formats[f](&tar, end, 1, 0, content_of(""));
		pw_tar_end(&tar);
		assert_done(read_tar(&l, &tar, 0, &err));
		assert_int_equal(l.list[0].m.size, 0);
		assert_true(l.list[0].m.off == PKG_NO_OFF);
		listing_done(&l);
	}
}

/* Stored bytes after the last part belong to no file. */
static void more_bytes_stored_than_the_map_covers(void **state)
{
	static const struct part whole[] = { { 0, 3 } };

	for (size_t f = 0; f < ARRAY_SIZE(formats); f++) {
		AUTO(buf_done) struct buf tar = { 0 };
		struct err err = { 0 };
		struct listing l;

		formats[f](&tar, whole, 1, 3, content_of(stored));
		pw_tar_header(&tar, PW_PAX, "next", '0', 0);
		pw_tar_end(&tar);
		assert_done(read_tar(&l, &tar, 0, &err));
		assert_int_equal(l.n, 2);
		assert_str(buf_str(&l.list[0].content), "ABC");
		listing_done(&l);
	}
}

static void wrong_maps_are_errors(void **state)
{
	static const struct {
		struct part p[2];
		uint64_t real_size;
		enum err_kind kind;
		const char *text;
	} lies[] = {
		{ { { 10, 5 }, { 12, 3 } }, 100, ERR_INVALID, "before the last one's end" },
		{ { { 50, 5 }, { 10, 3 } }, 100, ERR_INVALID, "before the last one's end" },
		{ { { 10, 5 }, { 98, 3 } }, 100, ERR_INVALID, "after the end of a file of 100 bytes" },
		{ { { 10, 5 }, { 20, 300 } }, 1000, ERR_INVALID, "are stored" },
		{ { { 10, 5 }, { 20, 3 } }, PKG_MAX_SPARSE + 1, ERR_LIMIT, "sparse member of" },
		{ { { 10, 5 }, { 0xffffffffff, 3 } }, 1000, ERR_LIMIT, "sparse map" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(lies); i++)
		for (size_t f = 0; f < ARRAY_SIZE(formats); f++) {
			AUTO(buf_done) struct buf tar = { 0 };
			struct err err = { 0 };
			struct listing l;

			/* Octal digits end at 8 GiB. */
			if (f == 0 && (lies[i].real_size >> 33 || lies[i].p[1].off >> 33))
				continue;
			formats[f](&tar, lies[i].p, 2, lies[i].real_size, content_of(stored));
			pw_tar_end(&tar);
			assert_fails(read_tar(&l, &tar, 0, &err), lies[i].kind, lies[i].text);
			listing_done(&l);
		}
}

/* A hole of gigabytes costs nothing if it is skipped, and no memory if it is read. */
static void a_huge_hole_is_skipped(void **state)
{
	static const struct part end[] = { { (UINT64_C(8) << 30) - 8, 8 } };
	AUTO(buf_done) struct buf tar = { 0 };
	AUTO(stream_closep) struct stream *s = NULL;
	struct pkg_info info = { .kind = PKG_TAR, .payload.format = PKG_FORMAT_TAR };
	struct err err = { 0 };
	struct pkg_reader *r;
	struct pkg_member m;
	struct bytes chunk;

	pax_1_0(&tar, end, 1, UINT64_C(8) << 30, content_of(stored));
	pw_tar_header(&tar, PW_PAX, "next", '0', 0);
	pw_tar_end(&tar);
	s = stream_in_chunks(buf_bytes(&tar), 0);
	assert_done(pkg_reader_open(&info, s, NULL, &r, &err));
	assert_done(pkg_reader_next(r, &m, &err));
	assert_true(m.size == UINT64_C(8) << 30);
	assert_done(pkg_reader_data(r, &chunk, &err));
	assert_true(chunk.size > 0 && chunk.p[chunk.size - 1] == 0);
	assert_done(pkg_reader_next(r, &m, &err));
	assert_str(m.path, "next");
	pkg_reader_close(r);
}

static void endless_maps_of_1_0(void **state)
{
	static const char *const bodies[] = {
		"", "1", "1\n2", "x\n", "999999999\n", "1\n1111111111111111111111111111\n1\n", "2\n1\n1\n"
	};

	for (size_t i = 0; i < ARRAY_SIZE(bodies); i++) {
		AUTO(buf_done) struct buf tar = { 0 }, r = { 0 };
		struct err err = { 0 };
		struct listing l;

		pw_pax_record(&r, "GNU.sparse.major", "1");
		pw_pax_record(&r, "GNU.sparse.minor", "0");
		pw_pax_record(&r, "GNU.sparse.realsize", "1000");
		pw_tar_pax(&tar, 'x', buf_bytes(&r));
		pw_tar_header(&tar, PW_PAX, "x", '0', strlen(bodies[i]));
		pw_tar_body(&tar, content_of(bodies[i]));
		pw_tar_end(&tar);
		assert_true(read_tar(&l, &tar, 0, &err) < 0);
		assert_non_null(strstr(err.text, "sparse map"));
		listing_done(&l);
	}
}

static void unknown_sparse_formats(void **state)
{
	AUTO(buf_done) struct buf tar = { 0 }, r = { 0 };
	struct err err = { 0 };
	struct listing l;

	pw_pax_record(&r, "GNU.sparse.major", "2");
	pw_pax_record(&r, "GNU.sparse.map", "0,1");
	pw_tar_pax(&tar, 'x', buf_bytes(&r));
	pw_tar_header(&tar, PW_PAX, "x", '0', 5);
	assert_fails(read_tar(&l, &tar, 0, &err), ERR_INVALID, "sparse format 2.0 is not supported");
	listing_done(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_format_is_expanded),
		cmocka_unit_test(many_parts),
		cmocka_unit_test(a_file_without_holes_has_an_offset),
		cmocka_unit_test(a_file_that_is_one_hole),
		cmocka_unit_test(an_empty_sparse_file),
		cmocka_unit_test(more_bytes_stored_than_the_map_covers),
		cmocka_unit_test(wrong_maps_are_errors),
		cmocka_unit_test(a_huge_hole_is_skipped),
		cmocka_unit_test(endless_maps_of_1_0),
		cmocka_unit_test(unknown_sparse_formats),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
