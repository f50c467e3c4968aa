/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rpm packages: formats 3, 4 and 6, their headers, and wrong headers.
 */
#include "listing.h"

static const enum codec_kind kinds[] = {
	CODEC_NONE, CODEC_GZIP, CODEC_XZ, CODEC_LZMA, CODEC_ZSTD, CODEC_BZIP2
};

static int open_rpm(const struct buf *rpm, struct arena *a, struct pkg_info *ret, struct err *err)
{
	AUTO(source_closep) struct source *src = source_of_mem(buf_bytes(rpm), "a.rpm");

	return pkg_open(src, STR("a.rpm"), a, ret, err);
}

static void every_format_and_compression(void **state)
{
	size_t n;
	const struct pw_file *files = sample_files(&n);

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		for (int format = 3; format <= 6; format++) {
			struct pw_rpm rpm = {
				.format = format == 5 ? 4 : format,
				.stripped = format == 5,
				.codec = kinds[i],
				.files = files,
				.n_files = n,
			};
			AUTO(buf_done) struct buf out = { 0 };
			struct err err = { 0 };
			struct pkg_info info;
			struct listing l;

			pw_rpm(&out, &rpm);
			assert_done(listing_of_package(&l, buf_bytes(&out), "a.rpm", &info, &err));
			assert_int_equal(info.kind, PKG_RPM);
			assert_str(info.name, "sample");
			assert_str(info.version, "1.0-1");
			assert_str(info.arch, "x86_64");
			assert_str(info.source_name, "source-of-sample");
			assert_int_equal(info.payload.codec, kinds[i]);
			assert_listing_is(&l, files, n);
			assert_true(info.has_file_list);
			assert_int_equal(info.n_files, n);
			for (size_t k = 0; k < n; k++) {
				assert_str(info.files[k].path, files[k].path);
				assert_str(info.files[k].link, files[k].link ? files[k].link : "");
				assert_int_equal(info.files[k].mtime, files[k].mtime);
				if (l.list[k].m.type == PKG_FILE)
					assert_int_equal(info.files[k].size, files[k].content.size);
				assert_int_equal(info.files[k].content, k);
				assert_int_equal(info.files[k].n_links, 1);
			}
			listing_done(&l);
		}
}

static void hard_links(void **state)
{
	struct pw_file files[] = {
		{ .path = "usr/a", .inode = 5, .content = bytes_of("abc", 3) },
		{ .path = "usr/other", .content = bytes_of("o", 1) },
		{ .path = "usr/b", .inode = 5, .content = bytes_of("abc", 3) },
	};

	for (int format = 3; format <= 6; format++) {
		struct pw_rpm rpm = { .format = format, .codec = CODEC_GZIP, .files = files, .n_files = 3 };
		AUTO(buf_done) struct buf out = { 0 };
		struct err err = { 0 };
		struct pkg_info info;
		struct listing l;

		pw_rpm(&out, &rpm);
		assert_done(listing_of_package(&l, buf_bytes(&out), "a.rpm", &info, &err));
		assert_int_equal(info.files[0].content, 2);
		assert_int_equal(info.files[0].n_links, 2);
		assert_int_equal(info.files[1].n_links, 1);
		assert_int_equal(l.n, 3);
		assert_str(l.list[1].m.path, "usr/b");
		assert_str(buf_str(&l.list[1].content), "abc");
		assert_str(l.list[2].m.path, "usr/a");
		assert_int_equal(l.list[2].m.type, PKG_HARDLINK);
		assert_str(l.list[2].m.link, "usr/b");
		listing_done(&l);
	}
}

static void build_ids_of_links_and_provides(void **state)
{
	static const char *const provided[] = { "00ff00ff00ff00ff", "not hex",
						"0123456789abcdef0123456789abcdef01234567" };
	struct pw_file files[] = {
		{ .path = "usr/lib/.build-id", .mode = S_IFDIR | 0755 },
		{ .path = "usr/lib/.build-id/01", .mode = S_IFDIR | 0755 },
		{ .path = "usr/lib/.build-id/01/23456789abcdef0123456789abcdef01234567",
		  .mode = S_IFLNK | 0777,
		  .link = "x" },
		{ .path = "usr/lib/debug/.build-id/01/23456789abcdef0123456789abcdef01234567.debug",
		  .mode = S_IFLNK | 0777,
		  .link = "y" },
		{ .path = "usr/lib/debug/.build-id/aa/bbcc.1.debug", .mode = S_IFLNK | 0777, .link = "y" },
		{ .path = "usr/lib/debug/.build-id/aa/bb/cc", .mode = S_IFLNK | 0777, .link = "y" },
		{ .path = "usr/lib/debug/.build-id/AA/bbcc", .mode = S_IFLNK | 0777, .link = "y" },
		{ .path = "usr/lib/.build-id/aab/bb", .mode = S_IFLNK | 0777, .link = "y" },
		{ .path = "opt/usr/lib/.build-id/dd/dddd", .mode = S_IFLNK | 0777, .link = "y" },
	};
	struct pw_rpm rpm = {
		.files = files, .n_files = ARRAY_SIZE(files), .build_ids = provided, .n_build_ids = 3
	};
	AUTO(arena_done) struct arena a = { 0 };
	AUTO(buf_done) struct buf out = { 0 };
	struct err err = { 0 };
	struct pkg_info info;
	char hex[BUILD_ID_HEX_SIZE];

	arena_init(&a);
	pw_rpm(&out, &rpm);
	assert_done(open_rpm(&out, &a, &info, &err));
	assert_int_equal(info.n_build_ids, 3);
	assert_string_equal(build_id_hex(&info.build_ids[0], hex), "00ff00ff00ff00ff");
	assert_string_equal(build_id_hex(&info.build_ids[1], hex),
			    "0123456789abcdef0123456789abcdef01234567");
	assert_string_equal(build_id_hex(&info.build_ids[2], hex), "aabbcc");
}

/* The payload may have been recompressed without a change of the header. */
static void the_payload_determines_its_codec(void **state)
{
	struct pw_file file = { .path = "a", .content = bytes_of("abc", 3) };
	AUTO(buf_done) struct buf out = { 0 }, cpio = { 0 }, packed = { 0 };
	struct err err = { 0 };
	struct pkg_info info;
	struct listing l;

	pw_cpio(&cpio, PW_NEWC, &file, 1);
	pw_compress(&packed, CODEC_XZ, 0, buf_bytes(&cpio));
	pw_rpm(&out, &(struct pw_rpm){ .payload = buf_bytes(&packed), .files = &file, .n_files = 1 });
	assert_done(listing_of_package(&l, buf_bytes(&out), "a.rpm", &info, &err));
	assert_int_equal(info.payload.codec, CODEC_XZ);
	assert_int_equal(l.n, 1);
	listing_done(&l);
}

static void a_package_without_files(void **state)
{
	AUTO(buf_done) struct buf out = { 0 };
	struct err err = { 0 };
	struct pkg_info info;
	struct listing l;

	pw_rpm(&out, &(struct pw_rpm){ .codec = CODEC_ZSTD });
	assert_done(listing_of_package(&l, buf_bytes(&out), "a.rpm", &info, &err));
	assert_int_equal(info.n_files, 0);
	assert_int_equal(l.n, 0);
	listing_done(&l);
}

/* Bytes after the payload, by the size in the signature, are not part of it. */
static void the_signature_knows_the_size(void **state)
{
	struct pw_file file = { .path = "a", .content = bytes_of("abc", 3) };
	AUTO(arena_done) struct arena a = { 0 };
	AUTO(buf_done) struct buf out = { 0 };
	struct err err = { 0 };
	struct pkg_info info;
	size_t size;

	arena_init(&a);
	pw_rpm(&out, &(struct pw_rpm){ .codec = CODEC_GZIP, .files = &file, .n_files = 1 });
	size = out.size;
	buf_add(&out, "trailing", 8);
	assert_done(open_rpm(&out, &a, &info, &err));
	assert_int_equal(info.payload.off + info.payload.size, size);
	out.size = size - 1;
	assert_fails(open_rpm(&out, &a, &info, &err), ERR_INVALID, "but the file ends after");
}

/* ---- wrong headers ---- */

/* A package with this header and no payload. */
static void rpm_of(struct buf *out, struct pw_tags *tags)
{
	struct pw_tags sig = { 0 };

	pw_rpm_lead(out, "x-1-1");
	pw_rpm_header(out, &sig);
	pw_rpm_header(out, tags);
}

static void wrong_tags_are_errors(void **state)
{
	static const char *const one[] = { "a" }, *const two[] = { "a", "b" };
	static const uint32_t zero[] = { 0 }, nine[] = { 9 };
	struct {
		const char *text;
		struct pw_tags t;
	} lies[12] = { 0 };
	size_t n = 0;
	struct err err = { 0 };

	/* NAME: past the data, of another type, without a NUL */
	pw_tag_raw(&lies[n].t, 1000, 6, 100, 1);
	lies[n++].text = "tag 1000: 1 strings at 100 are past the header's data";
	pw_tag_u32(&lies[n].t, 1000, zero, 1);
	lies[n++].text = "tag 1000 has type 4, not a string's";
	pw_tag_text(&lies[n].t, 1000, "abc");
	lies[n].t.data.size--;
	lies[n++].text = "a string of the header ends early";
	/* EPOCH: more values than data; a text */
	pw_tag_raw(&lies[n].t, 1003, 4, 0, 0x40000001);
	lies[n++].text = "tag 1003: 1073741825 values at 0 are past the header's data";
	pw_tag_text(&lies[n].t, 1003, "1");
	lies[n++].text = "tag 1003 has type 6, not a number's";
	/* A million names where there is room for one. */
	pw_tag_texts(&lies[n].t, 1027, one, 1);
	lies[n].t.index.p[13] = 0x10;
	lies[n++].text = "tag 1027: ";
	/* Names without directories; in missing directories; a different number of them. */
	pw_tag_texts(&lies[n].t, 1117, one, 1);
	lies[n++].text = "base names without directories";
	pw_tag_texts(&lies[n].t, 1117, one, 1);
	pw_tag_texts(&lies[n].t, 1118, one, 1);
	pw_tag_u32(&lies[n].t, 1116, nine, 1);
	lies[n++].text = "file 0 is in directory 9 of 1";
	pw_tag_texts(&lies[n].t, 1117, two, 2);
	pw_tag_texts(&lies[n].t, 1118, one, 1);
	pw_tag_u32(&lies[n].t, 1116, zero, 1);
	lies[n++].text = "tag 1116 has 1 values for 2 files";
	pw_tag_texts(&lies[n].t, 1027, one, 1);
	pw_tag_texts(&lies[n].t, 1036, two, 2);
	lies[n++].text = "2 link targets for 1 files";
	/* PAYLOADFORMAT, PAYLOADSIZE */
	pw_tag_text(&lies[n].t, 1124, "drpm");
	lies[n++].text = "unsupported payload format \"drpm\"";
	pw_tag_u64(&lies[n].t, 5113, (uint64_t[]){ UINT64_C(1) << 40 }, 1);
	lies[n++].text = "but the file ends after 0 of them";
	for (size_t i = 0; i < n; i++) {
		AUTO(arena_done) struct arena a = { 0 };
		AUTO(buf_done) struct buf rpm = { 0 };
		struct pkg_info info;

		arena_init(&a);
		rpm_of(&rpm, &lies[i].t);
		assert_fails(open_rpm(&rpm, &a, &info, &err), ERR_INVALID, lies[i].text);
		assert_fails(open_rpm(&rpm, &a, &info, &err), ERR_INVALID, "header: ");
	}
}

static void headers_that_promise_more_than_the_file(void **state)
{
	AUTO(arena_done) struct arena a = { 0 };
	AUTO(buf_done) struct buf rpm = { 0 };
	struct pw_tags tags = { 0 };
	struct err err = { 0 };
	struct pkg_info info;

	arena_init(&a);
	rpm_of(&rpm, &tags);
	memcpy(rpm.p + 96 + 16 + 8, "\x00\x01\x00\x00", 4);
	assert_fails(open_rpm(&rpm, &a, &info, &err), ERR_LIMIT, "header: 65536 tags");
	memcpy(rpm.p + 96 + 16 + 8, "\x00\x00\x00\x01\x7f\xff\xff\xff", 8);
	assert_fails(open_rpm(&rpm, &a, &info, &err), ERR_INVALID, "header: ");
	memcpy(rpm.p + 96 + 16 + 8, "\x00\x00\x00\x01\x00\x00\xff\xff", 8);
	assert_fails(open_rpm(&rpm, &a, &info, &err), ERR_INVALID, "header: ");
	rpm.p[96 + 16] = 0;
	assert_fails(open_rpm(&rpm, &a, &info, &err), ERR_INVALID, "header: no header at 112");
	rpm.p[79] = 0;
	assert_fails(open_rpm(&rpm, &a, &info, &err), ERR_INVALID, "lead: signature type 0 is not supported");
}

/* One long directory for many names: more text than memory, from a header of megabytes. */
static void names_that_multiply(void **state)
{
	enum { N = 20000 };
	AUTO(mem_freep) char *dir = mem_alloc(60001);
	const char **names = NEW_N(const char *, N);
	uint32_t *dirs = NEW_N(uint32_t, N);
	AUTO(arena_done) struct arena a = { 0 };
	AUTO(buf_done) struct buf rpm = { 0 };
	struct pw_tags tags = { 0 };
	struct err err = { 0 };
	struct pkg_info info;

	arena_init(&a);
	memset(dir, 'd', 60000);
	dir[60000] = 0;
	for (size_t i = 0; i < N; i++) {
		names[i] = "n";
		dirs[i] = 0;
	}
	pw_tag_u32(&tags, 1116, dirs, N);
	pw_tag_texts(&tags, 1117, names, N);
	pw_tag_texts(&tags, 1118, (const char *const[]){ dir }, 1);
	rpm_of(&rpm, &tags);
	assert_fails(open_rpm(&rpm, &a, &info, &err), ERR_LIMIT, "names of more than");
	free(names);
	free(dirs);
}

static void cut_anywhere(void **state)
{
	struct pw_file file = { .path = "a", .content = bytes_of("abc", 3) };

	for (int format = 3; format <= 6; format++) {
		AUTO(buf_done) struct buf out = { 0 };
		size_t whole;

		pw_rpm(&out,
		       &(struct pw_rpm){ .format = format, .codec = CODEC_XZ, .files = &file, .n_files = 1 });
		whole = out.size;
		for (out.size = 0; out.size < whole; out.size++) {
			struct err err = { 0 };
			struct listing l;
			int r = listing_of_package(&l, buf_bytes(&out), "a.rpm", NULL, &err);

			listing_done(&l);
			assert_true(r != 0);
			assert_true(r > 0 || err.kind == ERR_INVALID);
		}
	}
}

/* For every flipped bit the result is an error or a package. */
static void flipped_bits(void **state)
{
	size_t n;
	const struct pw_file *files = sample_files(&n);
	AUTO(buf_done) struct buf out = { 0 };

	pw_rpm(&out, &(struct pw_rpm){ .format = 6, .files = files + 3, .n_files = 3 });
	for (size_t bit = 0; bit < out.size * 8; bit++) {
		struct err err = { 0 };
		struct listing l;

		out.p[bit / 8] ^= (uint8_t)(1u << bit % 8);
		(void)listing_of_package(&l, buf_bytes(&out), "a.rpm", NULL, &err);
		listing_done(&l);
		out.p[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_format_and_compression),
		cmocka_unit_test(hard_links),
		cmocka_unit_test(build_ids_of_links_and_provides),
		cmocka_unit_test(the_payload_determines_its_codec),
		cmocka_unit_test(a_package_without_files),
		cmocka_unit_test(the_signature_knows_the_size),
		cmocka_unit_test(wrong_tags_are_errors),
		cmocka_unit_test(headers_that_promise_more_than_the_file),
		cmocka_unit_test(names_that_multiply),
		cmocka_unit_test(cut_anywhere),
		cmocka_unit_test(flipped_bits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
